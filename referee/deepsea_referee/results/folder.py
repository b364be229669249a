"""Writes a match's folder: a record for each game, logs, and results.json.

Invariants: files are written atomically (temporary file, fsync, rename), results.json last; a
folder has one match, and files of an earlier one are not touched.
"""

from __future__ import annotations

import re
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Self

from deepsea_bundle.atomic import write_atomically
from deepsea_referee.errors import UserError
from deepsea_referee.results.results_json import ResultsJson
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame, record_name
from deepsea_referee.results.write_behind import WriteBehind
from deepsea_rules.record import GameRecord

RESULTS: Final = "results.json"
_OURS: Final = re.compile(rf"{re.escape(RESULTS)}|comparison\.jsonl|game-\d+\.json|bot-\d+-.*\.log")


def refuse_match_folder(folder: Path) -> None:
    """Raise UserError for a folder that holds a match or a comparison already."""
    names = (path.name for path in folder.iterdir())
    if found := min(filter(_OURS.fullmatch, names), default=None):
        raise UserError(
            f"the folder {str(folder)!r} has files of an earlier match ({found}): "
            "name another folder, or remove that one first"
        )


class ResultsFolder:
    """Writes records during the match, in a thread, so that the disk does not block the clocks."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError for a folder that cannot be written or has a match already."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            refuse_match_folder(folder)
            self.document = ResultsJson(folder)
        except OSError as error:
            raise UserError(
                f"cannot write to the folder {str(folder)!r}: {error.strerror or error}"
            ) from None
        self._thread = WriteBehind("results")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.close()
        self.document.close()

    def add(self, result: GameResult, record: GameRecord) -> Future[object] | None:
        """Write a record. An OSError of an earlier one is raised here, or by `finish`.

        Returns a future to wait for before the next record if the disk is too slow.
        """
        return self._thread.do(self._write_game, result, record.to_json())

    def add_void(self, void: VoidGame) -> Future[object] | None:
        """Write a void game, like `add`."""
        return self._thread.do(self.document.add_void, void)

    def finish(self, match: MatchResult) -> None:
        """Write results.json, once everything that it names is there."""
        self._thread.finish()
        write_atomically(self._folder / RESULTS, self.document.pieces(match))

    def _write_game(self, result: GameResult, record: str) -> None:
        write_atomically(self._folder / record_name(result.game), record)
        self.document.add(result)
