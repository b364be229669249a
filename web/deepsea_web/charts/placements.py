"""Placements of each bot in each seat, as bars of shares."""

from __future__ import annotations

from typing import Final

from deepsea_arena.reports.plot_data import BotFigures, PlotData
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_web.charts.svg import RIGHT, WIDTH, Chart, Drawing, Table, percent, short

_BAR: Final = 46
"""Where the bars begin."""
_ROW: Final = 17
_ROOM: Final = 20
"""A part of a bar that is narrower has no label."""


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
        + " ".join(_line(bot) for bot in data.bots),
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


def _line(bot: BotFigures) -> str:
    games = bot.placements.total()
    wins = sum(count for (_, place), count in bot.placements.items() if place == 1)
    return f"{short(bot.name, WIDTH // 8)}: first in {wins} of {games} seats taken."


def _ordinal(place: int) -> str:
    return f"{place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(place, 'th') }"
