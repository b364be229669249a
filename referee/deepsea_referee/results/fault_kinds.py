"""The faults of a match, those of one kind counted together.

Invariants: faults of the same bot are of one kind if they say the same, or come from the same place
in the author's code; of each kind the first one is kept; games may come in any order; memory is
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from deepsea_referee.bots.author_error import frames
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import duration_text

MOST: Final = 100
"""Kinds that are kept apart; what else there is counts as one more kind of its fault."""
_LONGEST: Final = 160


@dataclass(slots=True)
class FaultKind:
    """Faults of one bot that are the same."""

    bot: int
    game: int
    """The first game with it, from 1,"""
    first: FaultReport
    """and the first fault of this kind in it."""
    count: int = 0
    forfeits: int = 0

    def line(self, name: str) -> str:
        """What happened, how often and where first, in one short line; `name` is the bot's."""
        first, times = self.first, f" ×{self.count}" if self.count > 1 else ""
        where = f"{', first' if times else ''} in game {self.game}, seat {SEAT_LETTERS[first.seat]}"
        if first.when == "decision":
            where += f", decision {first.decision}, after {duration_text(first.us)}"
        forfeits = ""
        if self.forfeits and first.when != "absent":
            games = f" {self.forfeits} games" if self.forfeits > 1 else ""
            forfeits = f"; forfeited{games}"
        what = "forfeited" if first.when == "absent" else str(first.fault)
        return f"{name}: {what}{times}{where}: {one_line(first.came, _LONGEST)}{forfeits}"


class FaultKinds:
    """All faults of a match."""

    def __init__(self) -> None:
        self.count = 0
        """How many faults there were; games that a bot was not there for are not counted."""
        self._kinds: dict[tuple[object, ...], FaultKind] = {}

    def add(self, game: int, bot: int, report: FaultReport) -> None:
        """Count one fault; those of one game come in order, games in any order."""
        self.count += report.when != "absent"
        key: tuple[object, ...] = (bot, report.fault, report.when, _said(report))
        if key not in self._kinds and len(self._kinds) >= MOST:
            key = key[:3]
        kind = self._kinds.setdefault(key, FaultKind(bot, game, report))
        if game < kind.game:
            kind.game, kind.first = game, report
        kind.count += 1
        kind.forfeits += report.forfeit

    def __iter__(self) -> Iterator[FaultKind]:
        """In the order in which they first happened."""
        return iter(sorted(self._kinds.values(), key=lambda kind: (kind.game, kind.first.decision)))


def _said(report: FaultReport) -> object:
    if report.fault is Fault.TIMEOUT:
        return None  # the limit differs from one to the next
    return frames(report.error) or report.came
