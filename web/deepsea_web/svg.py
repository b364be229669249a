"""Parts of a chart as SVG elements, and pictures of a few letters' height for the rows of a table.

Invariants: elements of charts are built as a tree and never as text, so that every name is escaped;
looks are classes of charts.css, so that charts work under a policy without inline styles; a chart
is WIDTH units wide and legible at that many pixels. All rows of a table have the same scale, so
that they can be compared by eye; a bar that goes on beyond the scale has an arrow there; what is
drawn stands beside it as a number, so nobody needs the picture; only numbers are put into it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from xml.etree.ElementTree import Element, SubElement, tostring

from deepsea_rules.printable import one_line

WIDTH = 360
LEFT = 34
"""The left edge of a chart's area: left of it are the labels of its axis."""
RIGHT = WIDTH - 8
_MARKS = 2
"""Combining characters that a letter keeps: more would cover the lines above."""


# A writer of our own: matplotlib, plotly and altair weigh tens of megabytes and pygal's SVG brings
# scripts and styles that the pages' policy forbids; none has descriptions or a dark scheme.


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a chart, for those who do not see it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart."""

    key: str
    """An id that no other chart has."""
    title: str
    text: str
    """Its meaning, in a sentence or two."""
    body: Element
    height: float
    table: Table
    width: float = WIDTH


class Drawing:
    """A group of elements; `y` is where the next part begins."""

    def __init__(self) -> None:
        self.element = Element("g")
        self.y = 0.0

    def text(
        self, x: float, y: float, text: str, looks: str = "", *, anchor: str = "start"
    ) -> None:
        """Write a line; `anchor` is which part of it is at x: start, middle or end."""
        marks = {"x": _number(x), "y": _number(y)}
        if anchor != "start":
            marks["text-anchor"] = anchor
        self._add("text", looks, marks).text = one_line(text)

    def rect(
        self, x: float, y: float, width: float, height: float, looks: str, tip: str = ""
    ) -> None:
        """Draw a rectangle; `tip` is shown where the pointer is."""
        marks = {"x": x, "y": y, "width": width, "height": height}
        self._tip(self._add("rect", looks, {key: _number(n) for key, n in marks.items()}), tip)

    def circle(self, x: float, y: float, r: float, looks: str, tip: str = "") -> None:
        marks = {"cx": _number(x), "cy": _number(y), "r": _number(r)}
        self._tip(self._add("circle", looks, marks), tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, looks: str) -> None:
        self.path([(x1, y1), (x2, y2)], looks)

    def path(
        self, points: Sequence[tuple[float, float]], looks: str, *, closed: bool = False
    ) -> None:
        """Draw lines from point to point."""
        steps = " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        self._add("path", looks, {"d": f"M{steps}{' Z' if closed else ''}"})

    def cross(self, x: float, y: float, r: float, looks: str, tip: str = "") -> None:
        path = " ".join(
            f"M{_number(x - r)} {_number(y - r * way)} L{_number(x + r)} {_number(y + r * way)}"
            for way in (1, -1)
        )
        self._tip(self._add("path", looks, {"d": path}), tip)

    def _add(self, tag: str, looks: str, marks: dict[str, str]) -> Element:
        return SubElement(self.element, tag, {"class": looks, **marks} if looks else marks)

    def _tip(self, element: Element, tip: str) -> None:
        if tip:
            SubElement(element, "title").text = one_line(tip)


def inline(chart: Chart) -> str:
    """The chart as an element of a page; safe, since everything in it is escaped."""
    box = f"0 0 {chart.width:.0f} {chart.height:.0f}"
    svg = Element("svg", {"class": "chart", "viewBox": box, "role": "img"})
    describe(svg, chart.key, chart.title, chart.text)
    svg.append(chart.body)
    return tostring(svg, encoding="unicode")


def describe(element: Element, key: str, title: str, text: str) -> None:
    """Give an element the title and the description that a screen reader reads."""
    for tag, words in (("title", title), ("desc", text)):
        SubElement(element, tag, {"id": f"{key}-{tag}"}).text = words
    element.set("aria-labelledby", f"{key}-title")
    element.set("aria-describedby", f"{key}-desc")


def short(name: str, columns: int) -> str:
    """A name of at most so many columns: its middle is left out, because names may differ only in
    their ends."""
    letters = _letters(name)
    if sum(map(_columns, letters)) <= columns:
        return "".join(letters)
    head = _fit(letters, columns // 3)
    tail = _fit(letters[::-1], columns - 1 - columns // 3)[::-1]
    return f"{''.join(head)}…{''.join(tail)}"


def _letters(name: str) -> list[str]:
    """Letters, each with the first few of its combining characters."""
    letters: list[str] = []
    for c in unicodedata.normalize("NFC", one_line(name)):
        if letters and unicodedata.category(c).startswith("M"):
            if len(letters[-1]) <= _MARKS:
                letters[-1] += c
        else:
            letters.append(c)
    return letters


def _columns(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter[0]) in "WF" else 1


def _fit(letters: Sequence[str], columns: int) -> list[str]:
    kept: list[str] = []
    for letter in letters:
        columns -= _columns(letter)
        if columns < 0:
            break
        kept.append(letter)
    return kept


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of a text; a word that is longer than a line loses its middle."""
    lines: list[str] = []
    left = 0
    for word in (short(word, columns) for word in one_line(text).split()):
        size = sum(map(_columns, _letters(word)))
        if lines and size < left:
            lines[-1] += f" {word}"
            left -= size + 1
        else:
            lines.append(word)
            left = columns - size
    return lines


def ticks(low: float, high: float, most: int, least: float = 0.0) -> list[float]:
    """Round numbers from low to high, at most so many; two differ by `least` or more."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(
        step
        for step in (power * one for one in (1, 2, 5, 10, 20))
        if step >= least and (high - low) / step <= most
    )
    return [step * tick for tick in range(math.ceil(low / step), math.floor(high / step) + 1)]


def plain(value: float) -> str:
    """A number with the digits that it needs, and a real minus sign."""
    return f"{value:g}".replace("-", "\u2212")


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# Bars on one scale, and sparklines

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
