"""Writes results.json of a match of any length; docs/results.md describes it.

Invariants: games are kept on disk and not in memory, in the order in which they end; they are read
back in the order of their numbers, while the text is written.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Self

from deepsea_referee.bots.output import BotLog, log_name
from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame, record_name

FORMAT: Final = "deepsea-results/1"
_PLACE: Final = struct.Struct("=QQ")
"""Where a text begins, and its length; both 0 if there is none."""


class Spool:
    """Texts with numbers, on disk: written in any order, read in that of the numbers."""

    def __init__(self, folder: Path | None) -> None:
        # Neither file has a name: nothing is left of them, however this process ends.
        self._texts = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (`close` closes it)
        self._places = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def put(self, number: int, text: str) -> None:
        """Keep a text, which must not be empty."""
        data = text.encode()
        place = self._texts.seek(0, os.SEEK_END)
        self._texts.write(data)
        self._places.seek(number * _PLACE.size)
        self._places.write(_PLACE.pack(place, len(data)))

    def __iter__(self) -> Iterator[str]:
        self._places.seek(0)
        while entry := self._places.read(_PLACE.size):
            place, length = _PLACE.unpack(entry)
            if length:
                self._texts.seek(place)
                yield self._texts.read(length).decode()

    def close(self) -> None:
        """Delete everything."""
        self._texts.close()
        self._places.close()


class ResultsJson:
    """The text of results.json: first game by game, at last in pieces."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is for the temporary files; None for the system's folder."""
        self._games = Spool(folder)
        self._voids = Spool(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the games."""
        self._games.close()
        self._voids.close()

    def add(self, result: GameResult) -> None:
        """Keep a game that counts."""
        row = game_fields(result) | {"record": record_name(result.game)}
        self._games.put(result.game, _line(row))

    def add_void(self, void: VoidGame) -> None:
        """Keep a game that does not count."""
        self._voids.put(void.game, _line(_fields(void)))

    def pieces(self, match: MatchResult) -> Iterator[str]:
        """The whole text."""
        yield "{\n"
        summary = {
            "format": FORMAT,
            "rules": {"name": match.rules.name, "options": match.rules.options()},
            "clock": match.time_control.format(),
            "seed": match.seed.hex(),
            "games_asked": match.games_asked,
            "isolation": match.isolation,
            "tables": match.tables,
            "interrupted": match.interrupted,
            "bots": [
                {"digest": spec.digest} | _fields(row)
                for spec, row in zip(match.bots, match.summaries(), strict=True)
            ],
        }
        for key, value in summary.items():
            yield f' "{key}": {_indented(value)},\n'
        for key, rows in (("games", self._games), ("void", self._voids)):
            yield f' "{key}": ['
            gap = ""
            for row in rows:
                yield f"{gap}\n  {row}"
                gap = ","
            yield "\n ],\n" if gap else "],\n"
        yield f' "logs": {_indented(log_names(match.logs))}\n}}\n'


def game_fields(result: GameResult) -> dict[str, Any]:
    """A game as JSON has it."""
    return _fields(result) | {
        "forfeits": [forfeit._asdict() for forfeit in result.forfeits],
        "faults": [_fields(report) for report in result.faults],
    }


def log_names(logs: Iterable[BotLog]) -> list[str]:
    """The files with the output of bots."""
    return sorted(log_name(log.bot, log.start, log.worker) for log in logs if log.in_file)


def _line(value: object) -> str:
    """On one line, which costs a tenth of many; there may be a hundred thousand."""
    return json.dumps(value, ensure_ascii=False)


def _indented(value: object) -> str:
    """One step in, for people; a line end within a text is never written as one."""
    return json.dumps(value, ensure_ascii=False, indent=1).replace("\n", "\n ")


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}
