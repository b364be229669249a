"""The formats of a page."""

from __future__ import annotations

from typing import Final

KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
"""The media type of each format."""
