"""Decision times of each bot: a histogram on a logarithmic scale, and percentiles."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from deepsea_arena.reports.plot_data import BotFigures, PlotData
from deepsea_rules.time_control import duration_text
from deepsea_web.charts.svg import RIGHT, Chart, Drawing, Table, short

_HEIGHT: Final = 38
_LEFT: Final = 8
_BINS: Final = 10
"""Bars for each factor of ten."""
_PERCENTILES: Final = (50, 90, 99)


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
        drawing.text(0, drawing.y + 36, _line(bot), "small")
        base = drawing.y + 44 + _HEIGHT
        for power in range(low, high + 1):
            drawing.line(x(10**power), base - _HEIGHT, x(10**power), base, "grid")
        bins: Counter[int] = Counter()
        for us, count in bot.times.counts():
            bins[math.floor(math.log10(max(1, us)) * _BINS)] += count
        most = max(bins.values(), default=1)
        for number, count in sorted(bins.items()):
            left, right = (x(10 ** (n / _BINS)) for n in (number, number + 1))
            height = max(1.0, _HEIGHT * count / most)
            span = " to ".join(_text(10 ** (n / _BINS)) for n in (number, number + 1))
            tip = f"{bot.name}: {count} decisions of {span}"
            drawing.rect(left, base - height, max(1, right - left - 0.6), height, "time", tip)
        for percent, looks in ((50, "median"), (99, "tail")):
            if (at := bot.times.quantile_us(percent)) is not None:
                drawing.line(x(at), base - _HEIGHT - 2, x(at), base, looks)
        if budget:
            drawing.line(x(budget), base - _HEIGHT - 2, x(budget), base, "budget")
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
        + " ".join(f"{short(bot.name, 45)}: {_line(bot)}." for bot in data.bots),
        drawing.element,
        drawing.y + 32,
        Table(
            ("bot", "decisions", *(f"{p} %" for p in _PERCENTILES), "slowest"),
            [_row(bot) for bot in data.bots],
        ),
    )


def _line(bot: BotFigures) -> str:
    if not bot.times.count:
        return "no decisions"
    median, tail, slowest = (_figure(us) for us in _figures(bot)[::2] + _figures(bot)[-1:])
    return f"median {median}, 99 % within {tail}, slowest {slowest}"


def _figures(bot: BotFigures) -> list[int | None]:
    return [*(bot.times.quantile_us(p) for p in _PERCENTILES), bot.times.slowest_us]


def _row(bot: BotFigures) -> list[str]:
    return [bot.name, str(bot.times.count), *(_figure(us) for us in _figures(bot))]


def _figure(us: int | None) -> str:
    return "–" if us is None else duration_text(us).replace("us", "µs")


def _text(us: float) -> str:
    """A time on the axis: 20 µs, 1 ms, 100 ms, 10 s."""
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"
