"""Numbers for plots of a match or a comparison, summed while games end.

Invariants: numbers come from results and records alone; a game is summed and not kept, so that any
number of games takes the same memory; the order of games changes nothing. The dives of a seat that
forfeited are left out, because the referee played them.

Charts of a match: turns back and drownings by space and air, placements, decision times.

Invariant: each chart says the same in words and in a table, for those who do not see it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

from deepsea_referee.summary import GameResult, LatencyHistogram
from deepsea_referee.workbench.comparison import Lead
from deepsea_rules.actions import CHIPS
from deepsea_rules.events import CleanedUp, DiveBegan, EngineEvent, TurnPlayed
from deepsea_rules.game import GameRecord, replay
from deepsea_rules.ruleset import FULL_AIR, SEAT_LETTERS
from deepsea_rules.time_control import duration_text
from deepsea_web.svg import LEFT, RIGHT, WIDTH, Chart, Drawing, Table, percent, short


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
        for seat, dive in seat_dives(replay(record).events, len(bots)):
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


def seat_dives(events: Sequence[EngineEvent], players: int) -> Iterator[tuple[int, SeatDive]]:
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


_DIVES_HEIGHT = 100
_LARGEST = 5.5
"""The radius of the mark of the most frequent place."""
_BAR = 46
"""The left edge of the bars."""
_ROW = 17
_ROOM = 20
"""A part of a bar that is narrower has no label."""
_TIMES_HEIGHT = 38
_LEFT = 8
_BINS = 10
"""Bars for each factor of ten."""
_PERCENTILES = (50, 90, 99)


def dives(data: PlotData) -> Chart:
    """Draw the places at which each bot turned back and drowned."""
    drawing = Drawing()
    drawing.circle(6, 5, 4.5, "turned")
    drawing.text(14, 9, "turned back here", "small")
    drawing.cross(126, 5, 4, "drowned")
    drawing.text(134, 9, "drowned here", "small")
    drawing.text(RIGHT, 9, "larger: more often", "small", anchor="end")
    drawing.y = 10
    for bot in data.bots:
        _bot(drawing, bot)
    return Chart(
        "dives",
        "Where bots turn back and drown",
        "For each bot by space and by the air that was left; spaces and air in words are medians. "
        + " ".join(f"{short(bot.name, 45)}: {_dives_line(bot)}." for bot in data.bots),
        drawing.element,
        drawing.y + 4,
        Table(
            ("bot", "dives", "home", "drowned", "median turn", "deepest turn", "median drowning"),
            [_dives_row(bot) for bot in data.bots],
        ),
    )


def _bot(drawing: Drawing, bot: BotFigures) -> None:
    drawing.text(0, drawing.y + 22, short(bot.name, 34), "name")
    drawing.text(0, drawing.y + 36, _dives_line(bot), "small")
    top = drawing.y + 46

    def x(space: float) -> float:
        return LEFT + 8 + (RIGHT - LEFT - 14) * space / len(CHIPS)

    def y(air: float) -> float:
        return top + _DIVES_HEIGHT * (FULL_AIR - air) / FULL_AIR

    for air in range(0, FULL_AIR + 1, 5):
        drawing.line(LEFT, y(air), RIGHT, y(air), "grid" if air else "base")
        drawing.text(LEFT - 5, y(air) + 4, str(air), "small", anchor="end")
    for space in range(0, len(CHIPS) + 1, 5):
        drawing.text(x(space), y(0) + 17, str(space), "small", anchor="middle")
    drawing.text(0, y(FULL_AIR / 2) + 4, "air", "axis")
    drawing.text((LEFT + RIGHT) / 2, y(0) + 30, "space", "axis", anchor="middle")
    most = max((*bot.turned.values(), *bot.drowned.values()), default=1)

    def marks(places: Counter[Depth], draw: Callable[..., None], looks: str, what: str) -> None:
        for place, count in sorted(places.items()):
            r = max(1.2, _LARGEST * math.sqrt(count / most))
            where = f"space {place.space}, {place.air} air"
            tip = f"{bot.name}: {what} {count} times at {where}"
            draw(x(place.space), y(place.air), r, looks, tip)

    marks(bot.turned, drawing.circle, "turned", "turned back")
    marks(bot.drowned, drawing.cross, "drowned", "drowned")
    drawing.y = y(0) + 32


def _dives_line(bot: BotFigures) -> str:
    """The same in words."""
    if not bot.dives:
        return "no dive of its own"
    home, drowned = (percent(n, bot.dives) for n in (bot.home, bot.drowned.total()))
    turn = medians(bot.turned)
    where = f"turns at space {turn.space}, air {turn.air}" if turn else "never turns back"
    return f"home {home}, drowned {drowned} of dives; {where}"


def _dives_row(bot: BotFigures) -> list[str]:
    turn, drowning = medians(bot.turned), medians(bot.drowned)
    deepest = max((place.space for place in bot.turned), default=None)
    return [
        bot.name,
        str(bot.dives),
        percent(bot.home, bot.dives),
        percent(bot.drowned.total(), bot.dives),
        f"space {turn.space}, {turn.air} air" if turn else "–",
        f"space {deepest}" if deepest is not None else "–",
        f"space {drowning.space}" if drowning else "–",
    ]


def placements(data: PlotData) -> Chart:
    """Draw how often each bot had each placement, by its seat."""
    seats = max((seat for bot in data.bots for seat, _ in bot.placements), default=0) + 1
    drawing = Drawing()
    _legend(drawing, seats)
    rows = []
    for bot in data.bots:
        drawing.y += 22
        drawing.text(0, drawing.y, short(bot.name, 34), "name")
        drawing.y += 6
        for seat in range(seats):
            counts = [bot.placements[seat, place] for place in range(1, seats + 1)]
            if games := sum(counts):
                _bar(drawing, bot, seat, counts)
                rows.append([bot.name, SEAT_LETTERS[seat], str(games), *map(str, counts)])
    for share in range(0, 101, 25):
        x = _BAR + (RIGHT - _BAR) * share / 100
        anchor = "end" if share == 100 else "middle"
        drawing.text(x, drawing.y + 11, f"{share} %", "small", anchor=anchor)
    drawing.y += 26
    drawing.text((_BAR + RIGHT) / 2, drawing.y, "share of games", "axis", anchor="middle")
    return Chart(
        "placements",
        "Placements by seat",
        "How often each bot was first, second and so on, in each seat that it had. "
        + " ".join(_placements_line(bot) for bot in data.bots),
        drawing.element,
        drawing.y + 4,
        Table(("bot", "seat", "games", *map(_ordinal, range(1, seats + 1))), rows),
    )


def _legend(drawing: Drawing, seats: int) -> None:
    x = float(_BAR)
    for place in range(1, seats + 1):
        drawing.rect(x, drawing.y, 10, 10, f"place{_shade(place, seats)}")
        drawing.text(x + 14, drawing.y + 9, _ordinal(place), "small")
        x += (RIGHT - _BAR) / max(seats, 4)
    drawing.y += 10


def _bar(drawing: Drawing, bot: BotFigures, seat: int, counts: list[int]) -> None:
    games, x = sum(counts), float(_BAR)
    drawing.text(0, drawing.y + 11, f"seat {SEAT_LETTERS[seat]}", "label")
    for place, count in enumerate(counts, 1):
        width = (RIGHT - _BAR) * count / games
        if not count:
            continue
        share = percent(count, games)
        looks = _shade(place, len(counts))
        drawing.rect(
            x,
            drawing.y,
            width,
            _ROW - 3,
            f"place{looks} part",
            f"{bot.name}, seat {SEAT_LETTERS[seat]}: {_ordinal(place)} in {count} of {games} games",
        )
        if width > _ROOM:
            label = f"{_ordinal(place)} {share}" if width > 3 * _ROOM else share.removesuffix(" %")
            drawing.text(x + width / 2, drawing.y + 11, label, f"on{looks}", anchor="middle")
        x += width
    drawing.y += _ROW


def _shade(place: int, seats: int) -> int:
    """The last placement is always the palest."""
    return 6 if place == seats else place


def _placements_line(bot: BotFigures) -> str:
    games = bot.placements.total()
    wins = sum(count for (_, place), count in bot.placements.items() if place == 1)
    return f"{short(bot.name, WIDTH // 8)}: first in {wins} of {games} seats taken."


def _ordinal(place: int) -> str:
    return f"{place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(place, 'th') }"


def times(data: PlotData) -> Chart:
    """Draw the distribution of each bot's decision times."""
    drawing = Drawing()
    known = [us for bot in data.bots for us, _ in bot.times.counts()]
    budget = data.budget_us
    low = math.floor(math.log10(max(1, min(known, default=1))))
    high = math.ceil(math.log10(max([10, budget, *known])))
    high = max(high, low + 1)

    def x(us: float) -> float:
        return _LEFT + (RIGHT - _LEFT) * (math.log10(max(1, us)) - low) / (high - low)

    drawing.line(0, 5, 14, 5, "median")
    drawing.text(19, 9, "median", "small")
    drawing.line(74, 5, 88, 5, "tail")
    drawing.text(93, 9, "99 %", "small")
    if budget:
        drawing.line(140, 5, 154, 5, "budget")
        drawing.text(159, 9, f"budget {_text(budget)}", "small")
    drawing.y = 10
    for bot in data.bots:
        drawing.text(0, drawing.y + 22, short(bot.name, 34), "name")
        drawing.text(0, drawing.y + 36, _times_line(bot), "small")
        base = drawing.y + 44 + _TIMES_HEIGHT
        for power in range(low, high + 1):
            drawing.line(x(10**power), base - _TIMES_HEIGHT, x(10**power), base, "grid")
        bins: Counter[int] = Counter()
        for us, count in bot.times.counts():
            bins[math.floor(math.log10(max(1, us)) * _BINS)] += count
        most = max(bins.values(), default=1)
        for number, count in sorted(bins.items()):
            left, right = (x(10 ** (n / _BINS)) for n in (number, number + 1))
            height = max(1.0, _TIMES_HEIGHT * count / most)
            span = " to ".join(_text(10 ** (n / _BINS)) for n in (number, number + 1))
            tip = f"{bot.name}: {count} decisions of {span}"
            drawing.rect(left, base - height, max(1, right - left - 0.6), height, "time", tip)
        for share, looks in ((50, "median"), (99, "tail")):
            if (at := bot.times.quantile_us(share)) is not None:
                drawing.line(x(at), base - _TIMES_HEIGHT - 2, x(at), base, looks)
        if budget:
            drawing.line(x(budget), base - _TIMES_HEIGHT - 2, x(budget), base, "budget")
        drawing.line(_LEFT, base, RIGHT, base, "base")
        drawing.y = base
    for power in range(low, high + 1):
        anchor = "start" if power == low else "end" if power == high else "middle"
        drawing.text(x(10**power), drawing.y + 14, _text(10**power), "small", anchor=anchor)
    drawing.text((_LEFT + RIGHT) / 2, drawing.y + 28, "time of a decision", "axis", anchor="middle")
    return Chart(
        "times",
        "Decision times",
        "How many decisions of each bot took how long, on a logarithmic scale. "
        + " ".join(f"{short(bot.name, 45)}: {_times_line(bot)}." for bot in data.bots),
        drawing.element,
        drawing.y + 32,
        Table(
            ("bot", "decisions", *(f"{p} %" for p in _PERCENTILES), "slowest"),
            [_times_row(bot) for bot in data.bots],
        ),
    )


def _times_line(bot: BotFigures) -> str:
    if not bot.times.count:
        return "no decisions"
    median, tail, slowest = (_figure(us) for us in _figures(bot)[::2] + _figures(bot)[-1:])
    return f"median {median}, 99 % within {tail}, slowest {slowest}"


def _figures(bot: BotFigures) -> list[int | None]:
    return [*(bot.times.quantile_us(p) for p in _PERCENTILES), bot.times.slowest_us]


def _times_row(bot: BotFigures) -> list[str]:
    return [bot.name, str(bot.times.count), *(_figure(us) for us in _figures(bot))]


def _figure(us: int | None) -> str:
    return "–" if us is None else duration_text(us).replace("us", "µs")


def _text(us: float) -> str:
    """A time on the axis: 20 µs, 1 ms, 100 ms, 10 s."""
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"
