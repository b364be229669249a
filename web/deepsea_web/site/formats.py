"""The formats of a page."""

from __future__ import annotations

import json
from typing import Final

from deepsea_arena.wire.json import to_json

KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
"""The media type of each format."""


def json_text(data: object) -> str:
    """A dataclass of the arena as one JSON document."""
    return json.dumps(to_json(data)) + "\n"
