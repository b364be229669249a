"""What a match came to: the numbers per bot, and the files that are left of it.

The numbers are derived from the games' results and nothing else. A file is complete or not there:
it is written beside its place, synced and renamed. docs/results.md describes results.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
from array import array
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from deepsea_referee.bots import BotSpec
from deepsea_referee.clock import TimeControl
from deepsea_referee.errors import UserError
from deepsea_referee.gauge import OffTurn
from deepsea_rules.actions import Kind
from deepsea_rules.constants import SEAT_LETTERS
from deepsea_rules.faults import Fault
from deepsea_rules.game import Forfeit
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import RuleSet

FORMAT: Final = "deepsea-results/1"
_LEGAL_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class FaultReport:
    """One fault, explained to the bot's author."""

    seat: int
    decision: int
    """The index of the decision in the game's record."""
    fault: Fault
    kind: Kind
    """What was asked."""
    legal: tuple[str, ...]
    """What could have been answered."""
    came: str
    """What the bot did instead, in a few words."""
    us: int
    """How long it took."""
    played: str
    """The default action that was played."""
    forfeit: bool
    """Whether the seat forfeited the game with it."""

    def explanation(self) -> str:
        """What was asked, what came, how long it took, and what was played, in one line."""
        legal = ", ".join(self.legal[:_LEGAL_SHOWN])
        if len(self.legal) > _LEGAL_SHOWN:
            legal += ", ..."
        end = "; the seat forfeits" if self.forfeit else ""
        return (
            f"{self.fault} after {self.us} us: asked to {self.kind} ({legal}), {self.came}; "
            f"played {self.played}{end}"
        )


@dataclass(frozen=True, slots=True)
class GameResult:
    """One game that counts."""

    game: int
    """Its number in the match, from 1."""
    game_id: str
    seats: tuple[int, ...]
    """The index of the bot in each seat."""
    scores: tuple[int, ...]
    placements: tuple[int, ...]
    forfeits: tuple[Forfeit, ...]
    faults: tuple[FaultReport, ...]


@dataclass(frozen=True, slots=True)
class VoidGame:
    """One game that does not count, because the referee's side failed."""

    game: int
    game_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class BotLog:
    """What a bot printed; kept where something went wrong."""

    bot: int
    start: int
    """Which start of its process it was, from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class BotSummary:
    """One row of the table."""

    name: str
    games: int
    wins: int
    """Games in placement 1, shared ones too."""
    mean_placement: float | None
    mean_score: float | None
    faults: int
    forfeits: int
    decisions: int
    median_us: int | None
    slowest_us: int | None
    off_turn: float | None
    """CPU seconds for each second in which it was others' turn; None if that was not measured."""


@dataclass(slots=True)
class MatchResult:
    """A match as far as it was played."""

    bots: tuple[BotSpec, ...]
    rules: RuleSet
    time_control: TimeControl
    seed: bytes
    games_asked: int
    isolation: str
    """The level that the bots were kept apart with."""
    games: list[GameResult] = field(default_factory=list)
    voids: list[VoidGame] = field(default_factory=list)
    logs: list[BotLog] = field(default_factory=list)
    off_turn: list[OffTurn] = field(default_factory=list)
    interrupted: bool = False
    times_us: list[array[int]] = field(init=False)
    """How long each decision of each bot took."""

    def __post_init__(self) -> None:
        self.times_us = [array("Q") for _ in self.bots]

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Count one finished game."""
        self.games.append(result)
        for decision in record.decisions:
            self.times_us[result.seats[decision.seat]].append(decision.us)

    def sort(self) -> None:
        """Into the order of the games' numbers; games at several tables end in any order."""
        self.games.sort(key=lambda result: result.game)
        self.voids.sort(key=lambda void: void.game)

    def fault_lines(self) -> list[str]:
        """Every fault in one line, for people."""
        return [
            f"game {result.game}, {self.bots[result.seats[report.seat]].name} in seat "
            f"{SEAT_LETTERS[report.seat]}, decision {report.decision}: {report.explanation()}"
            for result in self.games
            for report in result.faults
        ]

    def summaries(self) -> list[BotSummary]:
        """The table's rows, in the order of the bots."""
        placements: list[list[int]] = [[] for _ in self.bots]
        scores: list[list[int]] = [[] for _ in self.bots]
        faults: Counter[int] = Counter()
        forfeits: Counter[int] = Counter()
        for result in self.games:
            for seat, bot in enumerate(result.seats):
                placements[bot].append(result.placements[seat])
                scores[bot].append(result.scores[seat])
            faults.update(result.seats[report.seat] for report in result.faults)
            forfeits.update(result.seats[forfeit.seat] for forfeit in result.forfeits)
        return [
            BotSummary(
                name=spec.name,
                games=len(placements[bot]),
                wins=placements[bot].count(1),
                mean_placement=statistics.fmean(placements[bot]) if placements[bot] else None,
                mean_score=statistics.fmean(scores[bot]) if scores[bot] else None,
                faults=faults[bot],
                forfeits=forfeits[bot],
                decisions=len(self.times_us[bot]),
                median_us=statistics.median_low(self.times_us[bot]) if self.times_us[bot] else None,
                slowest_us=max(self.times_us[bot], default=None),
                off_turn=self.off_turn[bot].share if self.off_turn else None,
            )
            for bot, spec in enumerate(self.bots)
        ]

    def to_json(self) -> str:
        """results.json."""
        return json.dumps(self._as_data(), ensure_ascii=False, indent=1) + "\n"

    def _as_data(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "rules": {"name": self.rules.name, "options": self.rules.options()},
            "clock": self.time_control.format(),
            "seed": self.seed.hex(),
            "games_asked": self.games_asked,
            "isolation": self.isolation,
            "interrupted": self.interrupted,
            "bots": [
                {"digest": spec.digest} | _fields(summary)
                for spec, summary in zip(self.bots, self.summaries(), strict=True)
            ],
            "games": [
                _fields(result)
                | {
                    "record": record_name(result.game),
                    "forfeits": [forfeit._asdict() for forfeit in result.forfeits],
                    "faults": [_fields(report) for report in result.faults],
                }
                for result in self.games
            ],
            "void": [_fields(void) for void in self.voids],
            "logs": [log_name(log) for log in self.logs],
        }


def record_name(game: int) -> str:
    """The file of a game's record; `game` counts from 1."""
    return f"game-{game:04}.json"


def log_name(log: BotLog) -> str:
    """The file of what a bot printed."""
    return f"bot-{log.bot + 1}-start-{log.start}.log"


class ResultsFolder:
    """Writes records while the match goes on, in a thread: the disk must not stop the clocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "results")
        self._writing: list[Future[None]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise UserError(
                f"cannot write to the folder {str(folder)!r}: {error.strerror or error}"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown()

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Write a record. An OSError of an earlier one is raised here, or by `finish`."""
        self._raise_what_failed()
        path = self._folder / record_name(result.game)
        self._writing.append(self._thread.submit(write_atomically, path, record.to_json()))

    def finish(self, result: MatchResult) -> None:
        """Write the logs, and results.json once everything that it names is there."""
        for log in result.logs:
            path = self._folder / log_name(log)
            self._writing.append(self._thread.submit(write_atomically, path, log.text))
        self._thread.shutdown()
        self._raise_what_failed()
        write_atomically(self._folder / "results.json", result.to_json())

    def _raise_what_failed(self) -> None:
        for writing in self._writing:
            if writing.done():
                writing.result()
        self._writing = [writing for writing in self._writing if not writing.done()]


def write_atomically(path: Path, text: str) -> None:
    """Write a text file that is there whole or not at all, also after a power cut."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # a full disk, say, which does not tell where
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}
