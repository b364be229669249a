"""Numbers for plots of a match or a comparison, summed while games end.

Invariants: numbers come from results and records alone; a game is summed and not kept, so that any
number of games takes the same memory; the order of games changes nothing. The dives of a seat that
forfeited are left out, because the referee played them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

from deepsea_referee.results.summary import GameResult, LatencyHistogram
from deepsea_referee.workbench.comparison import Lead
from deepsea_rules.events import CleanedUp, DiveBegan, EngineEvent, TurnPlayed
from deepsea_rules.record import GameRecord, replay


class Depth(NamedTuple):
    """A diver's space, and the air that was left."""

    space: int
    air: int
    """0 also for a diver whose cargo needs more than there is."""


@dataclass(slots=True)
class BotFigures:
    """The sums of one bot, or of all copies of it."""

    name: str
    placements: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of games by seat and placement."""
    dives: int = 0
    home: int = 0
    """Dives from which it came home."""
    turned: Counter[Depth] = field(default_factory=Counter)
    """The places where it turned back."""
    drowned: Counter[Depth] = field(default_factory=Counter)
    """Its places when a dive ended without it."""
    times: LatencyHistogram = field(default_factory=LatencyHistogram)


class PlotSums:
    """The figures of each bot, game by game."""

    def __init__(self, names: Sequence[str], who: Sequence[int] | None = None) -> None:
        """`who` is for each bot of a result the index of its name; by default they are the same."""
        self.bots = [BotFigures(name) for name in names]
        self.games = 0
        self._who = range(len(names)) if who is None else who

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game."""
        self.games += 1
        bots = [self.bots[self._who[bot]] for bot in result.seats]
        for seat, placement in enumerate(result.placements):
            bots[seat].placements[seat, placement] += 1
        times: list[list[int]] = [[] for _ in bots]
        unasked = {report.decision for report in result.faults if report.when != "decision"}
        for number, decision in enumerate(record.decisions):
            if number not in unasked:
                times[decision.seat].append(decision.us)
        for bot, own in zip(bots, times, strict=True):
            bot.times.add(own)
        forfeited = {forfeit.seat for forfeit in record.forfeits}
        for seat, dive in dives(replay(record).events, len(bots)):
            if seat in forfeited:
                continue
            bots[seat].dives += 1
            bots[seat].home += dive.home
            if dive.turned is not None:
                bots[seat].turned[dive.turned] += 1
            if dive.drowned is not None:
                bots[seat].drowned[dive.drowned] += 1


class SeatDive(NamedTuple):
    """One dive of one seat."""

    home: bool
    turned: Depth | None
    """The place where it turned back, if it did,"""
    drowned: Depth | None
    """and the one where it drowned."""


def dives(events: Sequence[EngineEvent], players: int) -> Iterator[tuple[int, SeatDive]]:
    """Each dive of each seat of a finished game."""
    last: dict[int, TurnPlayed] = {}
    turned: dict[int, Depth] = {}
    air = 0
    for event in events:
        match event:
            case DiveBegan():
                last, turned, air = {}, {}, event.air
            case TurnPlayed():
                last[event.seat], air = event, max(0, event.air)
                if event.declare == "back" and event.from_space is not None:
                    turned[event.seat] = Depth(event.from_space, air)
            case CleanedUp():
                for seat in range(players):
                    end = last.get(seat)
                    home, space = (end.home, end.to_space) if end is not None else (False, 0)
                    # A diver that never left the submarine is neither home nor drowned.
                    drowned = Depth(space, air) if space and not home else None
                    yield seat, SeatDive(home, turned.get(seat), drowned)


@dataclass(frozen=True, slots=True)
class PlotData:
    """The numbers behind the plots of one run."""

    title: str
    """The players, in a few words."""
    facts: str
    """Games, rules, clock and seed in one line."""
    bots: Sequence[BotFigures]
    budget_us: int
    """The budget of the clock for a decision."""
    lead: Lead | None = None
    """Of a comparison."""


def medians(places: Counter[Depth]) -> Depth | None:
    """The lower median of the spaces and that of the air; None without any."""
    if not places:
        return None
    return Depth(*(median_low(part) for part in zip(*places.elements(), strict=True)))
