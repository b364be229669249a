"""The files that are left of a match: a record for each game, logs, and results.json.

Laws: a file is complete or not there: it is written beside its place, synced and renamed, and
results.json comes last; a folder holds one match, what an earlier one left is not touched.
"""

from __future__ import annotations

import re
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from deepsea_bundle.atomic import write_atomically
from deepsea_referee.errors import UserError
from deepsea_referee.results.results_json import ResultsJson
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame, log_name, record_name
from deepsea_referee.results.write_behind import WriteBehind
from deepsea_rules.record import GameRecord

RESULTS: Final = "results.json"
_OURS: Final = re.compile(rf"{re.escape(RESULTS)}|game-\d+\.json|bot-\d+-.*\.log")


class ResultsFolder:
    """Writes records while the match goes on, in a thread: the disk must not stop the clocks."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError for a folder that cannot be written or holds a match already."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            names = (path.name for path in folder.iterdir())
            if found := min(filter(_OURS.fullmatch, names), default=None):
                raise UserError(
                    f"the folder {str(folder)!r} holds an earlier match ({found}): "
                    "name another folder, or remove that one first"
                )
            self.document = ResultsJson(folder)
        except OSError as error:
            raise UserError(
                f"cannot write to the folder {str(folder)!r}: {error.strerror or error}"
            ) from None
        self._thread = WriteBehind("results")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.close()
        self.document.close()

    def add(self, result: GameResult, record: GameRecord) -> Future[object] | None:
        """Write a record. An OSError of an earlier one is raised here, or by `finish`.

        If the disk does not keep up there is a future to be waited for before the next one.
        """
        return self._thread.do(self._write_game, result, record.to_json())

    def add_void(self, void: VoidGame) -> Future[object] | None:
        """Note a game that does not count; as `add`."""
        return self._thread.do(self.document.add_void, void)

    def finish(self, match: MatchResult) -> None:
        """Write the logs, and results.json once everything that it names is there."""
        self._thread.finish()
        for log in match.logs:
            write_atomically(self._folder / log_name(log), log.text)
        write_atomically(self._folder / RESULTS, self.document.pieces(match))

    def _write_game(self, result: GameResult, record: str) -> None:
        write_atomically(self._folder / record_name(result.game), record)
        self.document.add(result)
