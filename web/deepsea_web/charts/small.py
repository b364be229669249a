"""Pictures of a few letters' height for the rows of a table: bars on one scale, sparklines.

Invariants: all rows of a table have the same scale, so that they can be compared by eye; what is
drawn stands beside it as a number, so nobody needs the picture; only numbers are put into it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deepsea_web.charts.svg import plain, ticks

BAR_WIDTH = 190
BAR_HEIGHT = 52
"""That of a row with two lines, so that the marks of the scale are one line down the table."""
_AXIS_HEIGHT = 14
SPARK_WIDTH = 84
SPARK_HEIGHT = 24
_EDGE = 10
"""Room at the ends of a scale for half of its first and last number."""
_TICKS = 6
"""At most so many marks on a scale."""


@dataclass(frozen=True)
class Scale:
    """A scale that bars share."""

    low: float
    high: float

    @classmethod
    def of(cls, bounds: Sequence[tuple[float, float]]) -> Scale:
        """The scale on which all of these fit."""
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


def axis(scale: Scale) -> str:
    """The numbers of a scale, for the head of a column of bars."""
    texts = "".join(
        f'<text x="{scale.x(tick):.1f}" y="12" text-anchor="middle">{plain(tick)}</text>'
        for tick in scale.ticks
    )
    return _svg("axis", BAR_WIDTH, _AXIS_HEIGHT, texts)


def bar(scale: Scale, low: float, middle: float, high: float) -> str:
    """A bar from low to high with a mark at its middle."""
    left, y = scale.x(low), BAR_HEIGHT / 2
    wide = max(1.0, scale.x(high) - left)
    grid = "".join(f"M{scale.x(tick):.1f} 0V{BAR_HEIGHT}" for tick in scale.ticks)
    return _svg(
        "bar",
        BAR_WIDTH,
        BAR_HEIGHT,
        f'<path class="grid" d="{grid}"/>'
        f'<rect x="{left:.1f}" y="{y - 4:g}" width="{wide:.1f}" height="8" rx="4"/>'
        f'<circle cx="{scale.x(middle):.1f}" cy="{y:g}" r="3.5"/>',
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


def _svg(looks: str, width: int, height: int, body: str) -> str:
    return (
        f'<svg class="{looks}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-hidden="true">{body}</svg>'
    )
