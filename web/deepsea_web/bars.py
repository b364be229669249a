"""Charts of a match: turns back and drownings by space and air, placements, decision times.

Start reading at PlotSums, which sums the numbers of the charts while games end, and at the charts
`dives`, `placements` and `times`.

Invariants: numbers come from results and records alone; a game is summed and then forgotten, so
that any number of games takes the same memory; the order of games changes nothing; the dives of a
seat that forfeited are left out, because the referee played them; each chart says the same in words
and in a table, for readers who do not see it.
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
    """The space of a diver, and the air that was left there."""

    space: int
    air: int
    """The air that was left; also 0 if the diver's cargo needed more than there was."""


@dataclass(slots=True)
class BotFigures:
    """The sums of one bot, or of all copies of a bot together."""

    name: str
    placements: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of games by seat and placement."""
    dives: int = 0
    home: int = 0
    """The number of dives from which the bot came home."""
    turned: Counter[Depth] = field(default_factory=Counter)
    """The number of times that the bot turned back, by depth."""
    drowned: Counter[Depth] = field(default_factory=Counter)
    """The number of times that the bot drowned, by its last depth."""
    times: LatencyHistogram = field(default_factory=LatencyHistogram)
    """The times of the bot's decisions."""


class PlotSums:
    """The sums of each bot over the games of a match, to which games are added as they end."""

    def __init__(self, names: Sequence[str], name_indices: Sequence[int] | None = None) -> None:
        """Begin with no games.

        names         the names under which bots are summed
        name_indices  the index into `names` of each bot of the results; None: the same index
        """
        self.bots = [BotFigures(name) for name in names]
        self.games = 0
        self._name_indices = range(len(names)) if name_indices is None else name_indices

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game to the sums: placements, times of decisions, and dives of each seat."""
        self.games += 1
        bots = [self.bots[self._name_indices[bot]] for bot in result.seats]  # by seat
        for seat, placement in enumerate(result.placements):
            bots[seat].placements[seat, placement] += 1
        _add_times(bots, result, record)
        _add_dives(bots, record)


def _add_times(bots: Sequence[BotFigures], result: GameResult, record: GameRecord) -> None:
    """Add the times of a game's decisions to the sums of its bots, which are given by seat."""
    times_us: list[list[int]] = [[] for _ in bots]
    # A fault outside a decision means that the bot was not asked, so the decision has no time.
    unasked = {report.decision for report in result.faults if report.when != "decision"}
    for number, decision in enumerate(record.decisions):
        if number not in unasked:
            times_us[decision.seat].append(decision.us)
    for bot, seat_times_us in zip(bots, times_us, strict=True):
        bot.times.add(seat_times_us)


def _add_dives(bots: Sequence[BotFigures], record: GameRecord) -> None:
    """Add the dives of a game to the sums of its bots, which are given by seat.

    The dives of a seat that forfeited are left out, since the referee played them.
    """
    forfeited_seats = {forfeit.seat for forfeit in record.forfeits}
    for seat, dive in seat_dives(replay(record).events, len(bots)):
        if seat in forfeited_seats:
            continue
        bot = bots[seat]
        bot.dives += 1
        bot.home += dive.home
        if dive.turned is not None:
            bot.turned[dive.turned] += 1
        if dive.drowned is not None:
            bot.drowned[dive.drowned] += 1


class SeatDive(NamedTuple):
    """A dive of one seat."""

    home: bool
    """True if the diver came home."""
    turned: Depth | None
    """The depth where the diver turned back; None if it did not."""
    drowned: Depth | None
    """The depth where the diver drowned; None if it did not."""


def seat_dives(events: Sequence[EngineEvent], players: int) -> Iterator[tuple[int, SeatDive]]:
    """Yield the number of the seat and its dive, for each dive and seat of a finished game."""
    # Of the present dive, by seat: the last turn, and the depth where the diver turned back.
    last_turns: dict[int, TurnPlayed] = {}
    turn_depths: dict[int, Depth] = {}
    air = 0
    for event in events:
        match event:
            case DiveBegan():
                last_turns, turn_depths = {}, {}
                air = event.air
            case TurnPlayed(seat=seat):
                last_turns[seat] = event
                air = max(0, event.air)
                if event.declare == "back" and event.from_space is not None:
                    turn_depths[seat] = Depth(event.from_space, air)
            case CleanedUp():  # the end of a dive
                for seat in range(players):
                    yield seat, _seat_dive(last_turns.get(seat), turn_depths.get(seat), air)


def _seat_dive(last_turn: TurnPlayed | None, turn_depth: Depth | None, air: int) -> SeatDive:
    """Return how a dive went for one seat: if it came home, and where it turned back and drowned.

    last_turn   the seat's last turn in the dive; None if it had none
    turn_depth  the depth where its diver turned back; None if it did not
    air         the air that was left at the end of the dive
    """
    if last_turn is None:
        return SeatDive(home=False, turned=turn_depth, drowned=None)
    # A diver that never left the submarine, space 0, is neither home nor drowned.
    has_drowned = not last_turn.home and last_turn.to_space > 0
    drowned = Depth(last_turn.to_space, air) if has_drowned else None
    return SeatDive(home=last_turn.home, turned=turn_depth, drowned=drowned)


@dataclass(frozen=True, slots=True)
class PlotData:
    """The numbers for the charts of a match or a comparison."""

    title: str
    """The players, in a few words."""
    facts: str
    """Games, rules, clock and seed in one line."""
    bots: Sequence[BotFigures]
    budget_us: int
    """The budget of the clock for a decision."""
    lead: Lead | None = None
    """The lead in a comparison; None for a match."""


def medians(depths: Counter[Depth]) -> Depth | None:
    """Return the lower median of the spaces and that of the air; None without any depth."""
    if not depths:
        return None
    spaces, airs = zip(*depths.elements(), strict=True)
    return Depth(median_low(spaces), median_low(airs))


# ------------------------------------------------------------------------------------------ charts

_DIVES_HEIGHT = 100
"""The height of a bot's area in the chart of dives."""
_LARGEST = 5.5
"""The radius of the mark of the most frequent depth."""
_BAR = 46
"""The left edge of the bars of placements."""
_ROW = 17
"""The height of a row of the chart of placements."""
_LABEL_WIDTH = 20
"""The width from which on a part of a bar has a label."""
_TIMES_HEIGHT = 38
"""The height of a bot's area in the chart of times."""
_LEFT = 8
"""The left edge of the chart of times, which has no labels at its left."""
_BINS = 10
"""Number of bars for each factor of ten of time."""
_PERCENTILES = (50, 90, 99)
"""The percentiles of the table of times."""


def dives(data: PlotData) -> Chart:
    """Draw the depths at which each bot turned back and drowned, one bot below the other."""
    drawing = Drawing()
    # The legend: the two marks with their meanings, in one line.
    drawing.circle(6, 5, 4.5, "turned")
    drawing.text(14, 9, "turned back here", "small")
    drawing.cross(126, 5, 4, "drowned")
    drawing.text(134, 9, "drowned here", "small")
    drawing.text(RIGHT, 9, "larger: more often", "small", anchor="end")
    drawing.y = 10
    for bot in data.bots:
        _draw_dives(drawing, bot)
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


def _draw_dives(drawing: Drawing, bot: BotFigures) -> None:
    """Draw the area of a bot: space to the right, air upwards, and a mark at each depth."""
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
    highest_count = max((*bot.turned.values(), *bot.drowned.values()), default=1)

    def draw_marks(
        depths: Counter[Depth], draw: Callable[..., None], style: str, event: str
    ) -> None:
        """Draw a mark at each depth, the larger the more often an event happened there.

        draw   the method that draws a mark in a style of the style sheet, with a tip
        event  the event in the words of the tip, such as "turned back"
        """
        for depth, count in sorted(depths.items()):
            # The area of a mark shows the count, so its radius grows with the square root.
            radius = max(1.2, _LARGEST * math.sqrt(count / highest_count))
            location = f"space {depth.space}, {depth.air} air"
            tip = f"{bot.name}: {event} {count} times at {location}"
            draw(x(depth.space), y(depth.air), radius, style, tip)

    draw_marks(bot.turned, drawing.circle, "turned", "turned back")
    draw_marks(bot.drowned, drawing.cross, "drowned", "drowned")
    drawing.y = y(0) + 32


def _dives_line(bot: BotFigures) -> str:
    """Return how a bot's dives ended, in words, for its area and the chart's description."""
    if not bot.dives:
        return "no dive of its own"
    home = percent(bot.home, bot.dives)
    drowned = percent(bot.drowned.total(), bot.dives)
    turn = medians(bot.turned)
    turns = f"turns at space {turn.space}, air {turn.air}" if turn else "never turns back"
    return f"home {home}, drowned {drowned} of dives; {turns}"


def _dives_row(bot: BotFigures) -> list[str]:
    """Return the dives of a bot as a row of the chart's table."""
    turn, drowning = medians(bot.turned), medians(bot.drowned)
    deepest = max((depth.space for depth in bot.turned), default=None)
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
    _draw_legend(drawing, seats)
    rows = []
    for bot in data.bots:
        drawing.y += 22
        drawing.text(0, drawing.y, short(bot.name, 34), "name")
        drawing.y += 6
        for seat in range(seats):
            counts = [bot.placements[seat, place] for place in range(1, seats + 1)]
            if games := sum(counts):
                _draw_bar(drawing, bot, seat, counts)
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


def _draw_legend(drawing: Drawing, seats: int) -> None:
    """Draw a square in the colour of each placement, with its name, in one line."""
    x = float(_BAR)
    for place in range(1, seats + 1):
        drawing.rect(x, drawing.y, 10, 10, f"place{_shade(place, seats)}")
        drawing.text(x + 14, drawing.y + 9, _ordinal(place), "small")
        x += (RIGHT - _BAR) / max(seats, 4)  # with few seats they stay close together
    drawing.y += 10


def _draw_bar(drawing: Drawing, bot: BotFigures, seat: int, counts: list[int]) -> None:
    """Draw a bar with a part for each placement of a bot in a seat.

    counts  the number of games with each placement, from the first placement on
    """
    games = sum(counts)
    x = float(_BAR)  # the left edge of the next part
    drawing.text(0, drawing.y + 11, f"seat {SEAT_LETTERS[seat]}", "label")
    for place, count in enumerate(counts, 1):
        if not count:
            continue
        width = (RIGHT - _BAR) * count / games
        shade = _shade(place, len(counts))
        drawing.rect(
            x,
            drawing.y,
            width,
            _ROW - 3,
            f"place{shade} part",
            f"{bot.name}, seat {SEAT_LETTERS[seat]}: {_ordinal(place)} in {count} of {games} games",
        )
        label = _part_label(place, percent(count, games), width)
        if label:
            drawing.text(x + width / 2, drawing.y + 11, label, f"on{shade}", anchor="middle")
        x += width
    drawing.y += _ROW


def _part_label(place: int, share: str, width: float) -> str:
    """Return the label of a part of a bar: "1st 40 %", or "40" if the part is narrow.

    A part that is too narrow for any label gets "".
    """
    if width > 3 * _LABEL_WIDTH:
        return f"{_ordinal(place)} {share}"
    if width > _LABEL_WIDTH:
        return share.removesuffix(" %")
    return ""


def _shade(place: int, seats: int) -> int:
    """Return the number of a placement's colour, from 1; the last placement has the palest, 6."""
    return 6 if place == seats else place


def _placements_line(bot: BotFigures) -> str:
    """Return the wins of a bot in words, for the description of the chart."""
    games = bot.placements.total()
    wins = sum(count for (_, place), count in bot.placements.items() if place == 1)
    return f"{short(bot.name, WIDTH // 8)}: first in {wins} of {games} seats taken."


def _ordinal(place: int) -> str:
    """Return a placement such as 1st; right for all placements, which are at most 6."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{place}{endings.get(place, 'th')}"


def times(data: PlotData) -> Chart:
    """Draw the distribution of each bot's decision times, on a logarithmic scale."""
    drawing = Drawing()
    known_us = [us for bot in data.bots for us, _ in bot.times.counts()]
    budget = data.budget_us
    # The scale goes from one power of ten to another one, in microseconds.
    low = math.floor(math.log10(max(1, min(known_us, default=1))))
    high = math.ceil(math.log10(max([10, budget, *known_us])))
    high = max(high, low + 1)

    def x(us: float) -> float:
        return _LEFT + (RIGHT - _LEFT) * (math.log10(max(1, us)) - low) / (high - low)

    drawing.line(0, 5, 14, 5, "median")
    drawing.text(19, 9, "median", "small")
    drawing.line(74, 5, 88, 5, "tail")
    drawing.text(93, 9, "99 %", "small")
    if budget:
        drawing.line(140, 5, 154, 5, "budget")
        drawing.text(159, 9, f"budget {_axis_text(budget)}", "small")
    drawing.y = 10
    for bot in data.bots:
        drawing.text(0, drawing.y + 22, short(bot.name, 34), "name")
        drawing.text(0, drawing.y + 36, _times_line(bot), "small")
        base = drawing.y + 44 + _TIMES_HEIGHT
        for power in range(low, high + 1):
            drawing.line(x(10**power), base - _TIMES_HEIGHT, x(10**power), base, "grid")
        bins: Counter[int] = Counter()  # bin n goes from 10 ** (n / _BINS) to the begin of the next
        for us, count in bot.times.counts():
            bins[math.floor(math.log10(max(1, us)) * _BINS)] += count
        highest_count = max(bins.values(), default=1)
        for number, count in sorted(bins.items()):
            from_us, to_us = 10 ** (number / _BINS), 10 ** ((number + 1) / _BINS)
            left, right = x(from_us), x(to_us)
            height = max(1.0, _TIMES_HEIGHT * count / highest_count)
            tip = f"{bot.name}: {count} decisions of {_axis_text(from_us)} to {_axis_text(to_us)}"
            # 0.6 narrower, so that a gap shows between bars.
            drawing.rect(left, base - height, max(1, right - left - 0.6), height, "time", tip)
        for percentile, looks in ((50, "median"), (99, "tail")):
            us_of_percentile = bot.times.quantile_us(percentile)
            if us_of_percentile is not None:
                line_x = x(us_of_percentile)
                drawing.line(line_x, base - _TIMES_HEIGHT - 2, line_x, base, looks)
        if budget:
            drawing.line(x(budget), base - _TIMES_HEIGHT - 2, x(budget), base, "budget")
        drawing.line(_LEFT, base, RIGHT, base, "base")
        drawing.y = base
    for power in range(low, high + 1):
        anchor = "start" if power == low else "end" if power == high else "middle"
        drawing.text(x(10**power), drawing.y + 14, _axis_text(10**power), "small", anchor=anchor)
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
    """Return the decision times of a bot in words, for its area and the chart's description."""
    if not bot.times.count:
        return "no decisions"
    median = _time_text(bot.times.quantile_us(50))
    percentile_99 = _time_text(bot.times.quantile_us(99))
    slowest = _time_text(bot.times.slowest_us)
    return f"median {median}, 99 % within {percentile_99}, slowest {slowest}"


def _times_row(bot: BotFigures) -> list[str]:
    """Return the decision times of a bot as a row of the chart's table."""
    percentiles = [bot.times.quantile_us(percentile) for percentile in _PERCENTILES]
    times_us = [*percentiles, bot.times.slowest_us]
    return [bot.name, str(bot.times.count), *map(_time_text, times_us)]


def _time_text(us: int | None) -> str:
    """Return a measured time such as 1.5 ms; a dash for None."""
    return "–" if us is None else duration_text(us).replace("us", "µs")


def _axis_text(us: float) -> str:
    """Return a time on the axis in three digits: 20 µs, 1 ms, 100 ms, 10 s."""
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"
