"""Pictures of a few letters' height for the rows of a table: bars on one scale, sparklines.

Invariants: all rows of a table have the same scale, so that they can be compared by eye; a bar that
goes on beyond the scale has an arrow there; what is drawn stands beside it as a number, so nobody
needs the picture; only numbers are put into it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from deepsea_web.charts.svg import plain, ticks

BAR_WIDTH = 190
BAR_HEIGHT = 52
"""That of a row with two lines, so that the marks of the scale are one line down the table."""
NARROW = 72
"""The width of a bar on a phone, to which the style sheet squeezes it."""
_AXIS_HEIGHT = 14
SPARK_WIDTH = 84
SPARK_HEIGHT = 24
_EDGE = 10
"""Room at the ends of a scale for half of its first and last number."""
_TICKS = 6
"""At most so many marks on a scale."""
_FAR = 2.0
"""An outlier is further from the middle half of the bars than so many times its width."""


@dataclass(frozen=True)
class Scale:
    """A scale that bars share."""

    low: float
    high: float

    @classmethod
    def of(cls, bounds: Sequence[tuple[float, float]]) -> Scale:
        """The scale on which all of these fit, but for outliers."""
        bounds = _without_outliers(bounds)
        low = min((low for low, _ in bounds), default=0.0)
        high = max((high for _, high in bounds), default=0.0)
        if high <= low:
            return cls(low - 1, low + 1)
        marks = ticks(low, high, _TICKS)
        step = marks[1] - marks[0] if len(marks) > 1 else high - low
        return cls(math.floor(low / step) * step, math.ceil(high / step) * step)

    @property
    def ticks(self) -> list[float]:
        """Round numbers on it."""
        return ticks(self.low, self.high, _TICKS)

    def x(self, value: float) -> float:
        """The place of a value; one beyond an end is at it."""
        share = (value - self.low) / (self.high - self.low)
        return _EDGE + (BAR_WIDTH - 2 * _EDGE) * max(0.0, min(1.0, share))


def _without_outliers(bounds: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """The bars that are not far from the others: one that is would make dots of them."""
    if len(bounds) < 2:
        return bounds
    middles = [(low + high) / 2 for low, high in bounds]
    first, _, third = quantiles(middles, n=4, method="inclusive")
    room = _FAR * (third - first)
    found = zip(bounds, middles, strict=True)
    return [one for one, middle in found if first - room <= middle <= third + room]


def axis(scale: Scale, width: float = BAR_WIDTH) -> str:
    """The numbers of a scale, for the head of a column of bars; a narrow one has the outer two."""
    marks = scale.ticks
    if width < BAR_WIDTH:
        marks = [marks[0], marks[-1]] if len(marks) > 1 else marks
    texts = "".join(
        f'<text x="{scale.x(tick) * width / BAR_WIDTH:.1f}" y="12" text-anchor="middle">'
        f"{plain(tick)}</text>"
        for tick in marks
    )
    looks = "axis" if width == BAR_WIDTH else "axis narrow"
    return _svg(looks, width, _AXIS_HEIGHT, texts)


def bar(scale: Scale, low: float, middle: float, high: float) -> str:
    """A bar from low to high with a mark at its middle, and an arrow where the scale ends first."""
    left, y = scale.x(low), BAR_HEIGHT / 2
    wide = max(1.0, scale.x(high) - left)
    marks = ""
    if scale.low <= middle <= scale.high:
        marks = f'<circle cx="{scale.x(middle):.1f}" cy="{y:g}" r="3.5"/>'
    if low < scale.low:
        marks += f'<path class="beyond" d="M0 {y:g}l8 -6v12Z"/>'
    if high > scale.high:
        marks += f'<path class="beyond" d="M{BAR_WIDTH} {y:g}l-8 -6v12Z"/>'
    grid = "".join(f"M{scale.x(tick):.1f} 0V{BAR_HEIGHT}" for tick in scale.ticks)
    return _svg(
        "bar",
        BAR_WIDTH,
        BAR_HEIGHT,
        f'<path class="grid" d="{grid}"/>'
        f'<rect x="{left:.1f}" y="{y - 4:g}" width="{wide:.1f}" height="8" rx="4"/>{marks}',
        stretched=True,
    )


def sparkline(values: Sequence[float], span: float) -> str:
    """A line through the values with a mark at the last; `span` is what its height stands for."""
    if len(values) < 2:
        return ""
    middle = (max(values) + min(values)) / 2
    step = (SPARK_WIDTH - 8) / (len(values) - 1)
    points = [
        (4 + index * step, SPARK_HEIGHT / 2 - _clamped((value - middle) / (span or 1)))
        for index, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    return _svg(
        "spark",
        SPARK_WIDTH,
        SPARK_HEIGHT,
        f'<polyline points="{line}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>',
    )


def _clamped(share: float) -> float:
    """The distance of a share of the height to the middle; one beyond an edge is at it."""
    return (SPARK_HEIGHT - 8) * max(-0.5, min(0.5, share))


def span_of(rows: Sequence[Sequence[float]]) -> float:
    """The span of values that all sparklines fit into."""
    return max((max(row) - min(row) for row in rows if row), default=0.0)


def _svg(looks: str, width: float, height: int, body: str, *, stretched: bool = False) -> str:
    """A picture; a stretched one fills whatever box a style sheet gives it."""
    fill = ' preserveAspectRatio="none"' if stretched else ""
    return (
        f'<svg class="{looks}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f'{fill} aria-hidden="true">{body}</svg>'
    )
