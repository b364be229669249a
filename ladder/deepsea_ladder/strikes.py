"""Strikes: when a bot's faults, forfeits and void games take it out of the ladder.

Invariants: pure; judges only the last games of a bot's present version, since it was submitted or
enabled; a bot that plays most of its games through without faults is never taken out; a void game
counts only for the bot that was asked when it became void.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from deepsea_ladder.rating.totals import SeatResult


@dataclass(frozen=True, slots=True)
class StrikeRules:
    """Limits of what a bot may do; beyond any of them it is disabled."""

    absences: int = 3
    """Games in a row in which it did not start, or crashed."""
    spoiled: int = 5
    """Games of its last `games` that it forfeited, for whatever fault, or in which it had two
    faults."""
    games: int = 10
    voids: int = 5
    """Games of its last `attempts` that became void while it was asked, if those are most of the
    void ones among them."""
    attempts: int = 20


class Appearance(NamedTuple):
    """A bot in one attempt at a game."""

    result: SeatResult | None
    """None if the game became void while some bot was asked."""
    asked: bool = False
    """Of a void game: whether it was this bot that was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What is counted of a bot's last games."""

    absences: int
    spoiled: int
    voids: int
    other_voids: int
    """Void games in which another bot was asked."""

    def reason_to_disable(self, rules: StrikeRules) -> str | None:
        """Why the bot is to be disabled; None if it is not."""
        if self.absences >= rules.absences:
            return f"{self.absences} games in a row without it"
        if self.spoiled >= rules.spoiled:
            return (
                f"{self.spoiled} of its last {rules.games} games it forfeited, or had two faults in"
            )
        if self.voids >= rules.voids and self.voids > self.other_voids:
            return f"{self.voids} of its last {rules.attempts} games became void while it was asked"
        return None


def conduct(newest_first: Sequence[Appearance], rules: StrikeRules) -> Conduct:
    """Count a bot's last games."""
    results = [one.result for one in newest_first if one.result is not None]
    voids = [one.asked for one in newest_first[: rules.attempts] if one.result is None]
    return Conduct(
        absences=sum(1 for _ in takewhile(lambda result: result.absent, results)),
        spoiled=sum(map(_is_spoiled, results[: rules.games])),
        voids=sum(voids),
        other_voids=len(voids) - sum(voids),
    )


def _is_spoiled(result: SeatResult) -> bool:
    return result.forfeit is not None or result.faults > 1
