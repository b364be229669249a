"""Where each bot turned back and where it drowned, by space and air."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Final

from deepsea_arena.reports.plot_data import BotFigures, Place, PlotData, medians
from deepsea_web.charts.svg import LEFT, RIGHT, Chart, Drawing, Table, percent, short

_HEIGHT: Final = 100
_AIR: Final = 25
_SPACES: Final = 32
_LARGEST: Final = 5.5
"""The radius of the mark of the most frequent place."""


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
        + " ".join(f"{short(bot.name, 45)}: {_line(bot)}." for bot in data.bots),
        drawing.element,
        drawing.y + 4,
        Table(
            ("bot", "dives", "home", "drowned", "median turn", "deepest turn", "median drowning"),
            [_row(bot) for bot in data.bots],
        ),
    )


def _bot(drawing: Drawing, bot: BotFigures) -> None:
    drawing.text(0, drawing.y + 22, short(bot.name, 34), "name")
    drawing.text(0, drawing.y + 36, _line(bot), "small")
    top = drawing.y + 46

    def x(space: float) -> float:
        return LEFT + 8 + (RIGHT - LEFT - 14) * space / _SPACES

    def y(air: float) -> float:
        return top + _HEIGHT * (_AIR - air) / _AIR

    for air in range(0, _AIR + 1, 5):
        drawing.line(LEFT, y(air), RIGHT, y(air), "grid" if air else "base")
        drawing.text(LEFT - 5, y(air) + 4, str(air), "small", anchor="end")
    for space in range(0, _SPACES + 1, 5):
        drawing.text(x(space), y(0) + 17, str(space), "small", anchor="middle")
    drawing.text(0, y(_AIR / 2) + 4, "air", "axis")
    drawing.text((LEFT + RIGHT) / 2, y(0) + 30, "space", "axis", anchor="middle")
    most = max((*bot.turned.values(), *bot.drowned.values()), default=1)

    def marks(places: Counter[Place], draw: Callable[..., None], looks: str, what: str) -> None:
        for place, count in sorted(places.items()):
            r = max(1.2, _LARGEST * math.sqrt(count / most))
            where = f"space {place.space}, {place.air} air"
            tip = f"{bot.name}: {what} {count} times at {where}"
            draw(x(place.space), y(place.air), r, looks, tip)

    marks(bot.turned, drawing.circle, "turned", "turned back")
    marks(bot.drowned, drawing.cross, "drowned", "drowned")
    drawing.y = y(0) + 32


def _line(bot: BotFigures) -> str:
    """The same in words."""
    if not bot.dives:
        return "no dive of its own"
    home, drowned = (percent(n, bot.dives) for n in (bot.home, bot.drowned.total()))
    turn = medians(bot.turned)
    where = f"turns at space {turn.space}, air {turn.air}" if turn else "never turns back"
    return f"home {home}, drowned {drowned} of dives; {where}"


def _row(bot: BotFigures) -> list[str]:
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
