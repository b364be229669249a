"""What one looks a ladder up with, against the import that cannot be avoided.

Invariants: as for cold starts; the ladder is a large one, made by the project's own functions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import web_store
from cold_start import RUNS, Start, against_import
from figures import Row, Scale

SIZES: Final[dict[Scale, tuple[int, int, int]]] = {"tiny": (6, 20, 2), "full": (300, 20_000, 200)}
"""Bots, games, and the different ones among these."""
COMMANDS: Final = (("standings",), ("bot", web_store.VETERAN), ("games",))
LIMIT: Final = 1.6


def measure(scale: Scale) -> list[Row]:
    """The rows of this goal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ladder.db"
        web_store.make(path, *SIZES[scale])
        return [
            against_import(
                Start(("ladder", *words), "sqlalchemy", LIMIT),
                RUNS[scale],
                DEEPSEA_LADDER=str(path),
            )
            for words in COMMANDS
        ]
