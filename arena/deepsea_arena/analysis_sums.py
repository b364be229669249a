"""Sums of analyses: by seat of a game, and by bot over many games.

Invariants: figures are placement scores, 0 to 1; errors are those of 95 %; what a seat lost is
summed without the bias of noisy values (`Judgement.loss`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum, sqrt
from typing import Final

from deepsea_arena.coach.analysis import AnalysedDecision, GameAnalysis
from deepsea_rules.record import RecordSeat
from deepsea_sdk.coach.decisions import MARKS, SURE, Interval

KINDS: Final = ("declare", "search", "order")


@dataclass(slots=True)
class Lost:
    """What some decisions lost."""

    losses: list[Interval] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)

    def add(self, decision: AnalysedDecision) -> None:
        self.losses.append(decision.judged.loss)
        if decision.judged.mark:
            self.marks[decision.judged.mark] += 1

    @property
    def decisions(self) -> int:
        """Their number."""
        return len(self.losses)

    @property
    def loss(self) -> Interval:
        """The sum; its error is that of the roll-outs, not of which games were played."""
        return _sum(self.losses)

    @property
    def mean(self) -> float:
        """What a decision lost on average."""
        return self.loss.mean / self.decisions if self.losses else 0.0

    @property
    def counts(self) -> list[int]:
        """The number of each mark, in the order of `MARKS`."""
        return [self.marks[name] for _, name in MARKS]


@dataclass(frozen=True, slots=True)
class SeatLuck:
    """The luck of a seat in a game."""

    own_dice: Interval
    other_dice: Interval
    values: Interval

    @property
    def total(self) -> Interval:
        return _sum((self.own_dice, self.other_dice, self.values))


@dataclass(frozen=True, slots=True)
class SeatSums:
    """One seat of one game."""

    seat: int
    bot: RecordSeat
    lost: Lost
    result: float
    """Its placement score."""
    luck: SeatLuck | None
    """None if it was not measured."""

    @property
    def adjusted(self) -> Interval | None:
        """The result less the luck; its error is that of the luck."""
        if self.luck is None:
            return None
        return Interval(self.result - self.luck.total.mean, self.luck.total.error)


@dataclass(slots=True)
class BotSums:
    """One bot in all games, in whatever seat."""

    bot: RecordSeat
    losses: list[float] = field(default_factory=list)
    """What it lost in each game."""
    lost: Lost = field(default_factory=Lost)
    kinds: dict[str, Lost] = field(default_factory=dict)
    dives: dict[int, Lost] = field(default_factory=dict)
    results: list[float] = field(default_factory=list)
    adjusted: list[float] = field(default_factory=list)

    @property
    def games(self) -> int:
        return len(self.results)


def by_seat(analysis: GameAnalysis) -> list[SeatSums]:
    """The sums of each seat, seat A first."""
    seats = analysis.record.seats
    lost = [Lost() for _ in seats]
    for decision in analysis.decisions:
        lost[decision.seat].add(decision)
    return [
        SeatSums(seat, bot, lost[seat], analysis.results[seat], _luck(analysis, seat))
        for seat, bot in enumerate(seats)
    ]


def _luck(analysis: GameAnalysis, seat: int) -> SeatLuck | None:
    if not analysis.chances:
        return None
    own, others, values = (
        [event.luck[seat] for event in analysis.chances if (event.seat in seats) is inside]
        for seats, inside in (((seat,), True), ((seat, None), False), ((None,), True))
    )
    return SeatLuck(_sum(own), _sum(others), _sum(values))


def _sum(parts: Iterable[Interval]) -> Interval:
    """The sum of independent estimates."""
    means, errors = [], []
    for mean_part, error in parts:
        means.append(mean_part)
        errors.append(error * error)
    return Interval(fsum(means), sqrt(fsum(errors)))


def by_bot(analyses: Iterable[GameAnalysis], seat: int | None = None) -> list[BotSums]:
    """The sums of each bot, in the order in which they first sat down; by name and version.

    seat  only what was played in this seat
    """
    found: dict[RecordSeat, BotSums] = {}
    for analysis in analyses:
        for sums in by_seat(analysis):
            if seat is not None and sums.seat != seat:
                continue
            bot = found.setdefault(sums.bot, BotSums(sums.bot))
            bot.results.append(sums.result)
            bot.losses.append(sums.lost.loss.mean)
            if sums.adjusted is not None:
                bot.adjusted.append(sums.adjusted.mean)
        for decision in analysis.decisions:
            bot = found[analysis.record.seats[decision.seat]]
            judged = decision.judged
            for lost in (
                bot.lost,
                bot.kinds.setdefault(judged.kind, Lost()),
                bot.dives.setdefault(judged.dive, Lost()),
            ):
                lost.add(decision)
    return list(found.values())


def mean(numbers: Sequence[float]) -> Interval | None:
    """The mean over games, with the interval that their spread gives; None without games.

    Of one game the error is not known, and infinite.
    """
    count = len(numbers)
    if not count:
        return None
    middle = fsum(numbers) / count
    if count == 1:
        return Interval(middle, float("inf"))
    spread = fsum([(number - middle) ** 2 for number in numbers]) / (count - 1)
    return Interval(middle, SURE * sqrt(spread / count))
