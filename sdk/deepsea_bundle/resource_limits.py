"""The limits of this process on what the system lets it use.

Invariant: on Linux every limit holds, or an OSError or ValueError says why not; macOS does not know
all of them, and Windows none: there only bots of one's own are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def set_limits(limits: Mapping[str, int]) -> None:
    """Set limits, by their names without RLIMIT_, for this process and its children."""
    try:
        resource: Any = importlib.import_module("resource")
    except ImportError:
        return
    for name, value in limits.items():
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
        except (AttributeError, OSError, ValueError):
            if hasattr(resource, "prlimit"):  # Linux's own
                raise
