"""SVG for charts, and for the small pictures in the rows of a table.

Start reading at Chart and Drawing; the second half has the pictures: bars on a Scale, and
sparklines.

Invariants of charts: elements are built as a tree and never as text, so that every name is escaped;
looks are classes of charts.css, so that charts work under a policy without inline styles; a chart
is WIDTH units wide and legible at that many pixels.

Invariants of pictures: all rows of a table have the same scale, so that they can be compared by
eye; a bar that goes on beyond the scale has an arrow there; the numbers of a picture stand beside
it, so that nobody needs it; only numbers are put into its text.
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
"""The width of a chart."""
LEFT = 34
"""The left edge of a chart's area; left of it are the labels of its axis."""
RIGHT = WIDTH - 8
"""The right edge of a chart's area."""
_COMBINING = 2
"""Maximum number of combining characters of a letter; more would cover the lines above."""


# A writer of our own: matplotlib, plotly and altair weigh tens of megabytes and pygal's SVG brings
# scripts and styles that the pages' policy forbids; none has descriptions or a dark scheme.


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a chart as a table, for readers who do not see the chart."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its description."""

    key: str
    """The id of the chart, which no other chart of a page has."""
    title: str
    text: str
    """The meaning of the chart, in a sentence or two."""
    body: Element
    height: float
    table: Table
    width: float = WIDTH


class Drawing:
    """A group of SVG elements to which lines, shapes and texts are added.

    The `css_class` of an element is its class in charts.css.
    """

    def __init__(self) -> None:
        self.element = Element("g")
        """The group."""
        self.y = 0.0
        """The upper edge of the next part; callers move it down."""

    def text(
        self, x: float, y: float, text: str, css_class: str = "", *, anchor: str = "start"
    ) -> None:
        """Write a line of text whose start, middle or end, as `anchor` says, is at x."""
        attributes = {"x": _coordinate(x), "y": _coordinate(y)}
        if anchor != "start":
            attributes["text-anchor"] = anchor
        self._add("text", css_class, attributes).text = one_line(text)

    def rect(
        self, x: float, y: float, width: float, height: float, css_class: str, tip: str = ""
    ) -> None:
        """Draw a rectangle; `tip` is a text shown while the pointer is on it."""
        sizes = {"x": x, "y": y, "width": width, "height": height}
        attributes = {name: _coordinate(value) for name, value in sizes.items()}
        self._add_tip(self._add("rect", css_class, attributes), tip)

    def circle(self, x: float, y: float, radius: float, css_class: str, tip: str = "") -> None:
        """Draw a circle around a point; `tip` is a text shown while the pointer is on it."""
        attributes = {"cx": _coordinate(x), "cy": _coordinate(y), "r": _coordinate(radius)}
        self._add_tip(self._add("circle", css_class, attributes), tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, css_class: str) -> None:
        """Draw a straight line between two points."""
        self.path([(x1, y1), (x2, y2)], css_class)

    def path(
        self, points: Sequence[tuple[float, float]], css_class: str, *, closed: bool = False
    ) -> None:
        """Draw lines from point to point, with `closed` also from the last one to the first."""
        coordinates = " L".join(f"{_coordinate(x)} {_coordinate(y)}" for x, y in points)
        self._add("path", css_class, {"d": f"M{coordinates}{' Z' if closed else ''}"})

    def cross(self, x: float, y: float, radius: float, css_class: str, tip: str = "") -> None:
        """Draw a diagonal cross at a point; `tip` is a text shown while the pointer is on it."""
        left, right = _coordinate(x - radius), _coordinate(x + radius)
        top, bottom = _coordinate(y - radius), _coordinate(y + radius)
        falling, rising = f"M{left} {top} L{right} {bottom}", f"M{left} {bottom} L{right} {top}"
        self._add_tip(self._add("path", css_class, {"d": f"{falling} {rising}"}), tip)

    def _add(self, tag: str, css_class: str, attributes: dict[str, str]) -> Element:
        """Add an element to the group, and return it."""
        if css_class:
            attributes = {"class": css_class, **attributes}
        return SubElement(self.element, tag, attributes)

    def _add_tip(self, element: Element, tip: str) -> None:
        """Give an element a text that is shown while the pointer is on it, unless it is ""."""
        if tip:
            SubElement(element, "title").text = one_line(tip)


def inline(chart: Chart) -> str:
    """Return a chart as an SVG element for a page; everything in it is escaped."""
    box = f"0 0 {chart.width:.0f} {chart.height:.0f}"
    svg = Element("svg", {"class": "chart", "viewBox": box, "role": "img"})
    describe(svg, chart.key, chart.title, chart.text)
    svg.append(chart.body)
    return tostring(svg, encoding="unicode")


def describe(element: Element, key: str, title: str, text: str) -> None:
    """Give an element the title and the description that a screen reader reads aloud.

    key  an id that no other element of the page has
    """
    for tag, content in (("title", title), ("desc", text)):
        SubElement(element, tag, {"id": f"{key}-{tag}"}).text = content
    element.set("aria-labelledby", f"{key}-title")
    element.set("aria-describedby", f"{key}-desc")


def short(name: str, columns: int) -> str:
    """Return a name shortened to at most `columns` columns of text.

    An ellipsis stands for the middle of a long name. Two thirds of what is kept is the end of the
    name, since names often differ only there.
    """
    letters = _letters(name)
    if sum(map(_columns, letters)) <= columns:
        return "".join(letters)
    head_columns = columns // 3
    tail_columns = columns - head_columns - 1  # the ellipsis takes one column
    head = _fitting_letters(letters, head_columns)
    tail = _fitting_letters(letters[::-1], tail_columns)[::-1]
    return f"{''.join(head)}…{''.join(tail)}"


def _letters(name: str) -> list[str]:
    """Return the letters of a name, each with its combining characters, such as accents.

    A letter keeps _COMBINING of them at most.
    """
    letters: list[str] = []
    for character in unicodedata.normalize("NFC", one_line(name)):
        is_combining = unicodedata.category(character).startswith("M")
        if not letters or not is_combining:
            letters.append(character)
        elif len(letters[-1]) <= _COMBINING:  # the letter itself is one of the characters
            letters[-1] += character
    return letters


def _columns(letter: str) -> int:
    """Return the columns of text that a letter takes: East Asian wide letters take two."""
    return 2 if unicodedata.east_asian_width(letter[0]) in "WF" else 1


def _fitting_letters(letters: Sequence[str], columns: int) -> list[str]:
    """Return as many of the first letters as fit into `columns` columns of text."""
    fitting: list[str] = []
    free_columns = columns
    for letter in letters:
        free_columns -= _columns(letter)
        if free_columns < 0:
            break
        fitting.append(letter)
    return fitting


def wrapped(text: str, columns: int) -> list[str]:
    """Break a text into lines of at most `columns` columns, and return the lines.

    A word that is longer than a line loses its middle.
    """
    lines: list[str] = []
    free_columns = 0
    for word in one_line(text).split():
        fitting_word = short(word, columns)
        word_columns = sum(map(_columns, _letters(fitting_word)))
        if lines and word_columns + 1 <= free_columns:  # one more for the space before it
            lines[-1] += f" {fitting_word}"
            free_columns -= word_columns + 1
        else:
            lines.append(fitting_word)
            free_columns = columns - word_columns
    return lines


def ticks(low: float, high: float, max_ticks: int, min_step: float = 0.0) -> list[float]:
    """Return the round numbers from low to high at which an axis has marks.

    They are multiples of 1, 2 or 5 times a power of ten, at a distance of at least `min_step`.
    Their number is at most `max_ticks`, or one more if both ends are marks.
    """
    smallest_step = (high - low) / max_ticks
    power = 10.0 ** math.floor(math.log10(smallest_step))
    # Ten times the power is always wide enough; the factor 20 is for errors of rounding.
    round_steps = [power * factor for factor in (1, 2, 5, 10, 20)]
    step = next(
        candidate
        for candidate in round_steps
        if candidate >= min_step and (high - low) / candidate <= max_ticks
    )
    first_multiple, last_multiple = math.ceil(low / step), math.floor(high / step)
    return [step * multiple for multiple in range(first_multiple, last_multiple + 1)]


def plain(value: float) -> str:
    """Return a number with the digits that it needs, and a real minus sign."""
    return f"{value:g}".replace("-", "\u2212")


def percent(part: float, whole: float) -> str:
    """Return a part of a whole in percent, or a dash if the whole is 0."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _coordinate(value: float) -> str:
    """Return a coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


# ------------------------------------------------------------- pictures in the rows of a table

BAR_WIDTH = 190
BAR_HEIGHT = 52
"""The height of a row with two lines, so that grid lines go through down the whole table."""
NARROW = 72
"""The width to which the style sheet squeezes a bar on a telephone."""
_AXIS_HEIGHT = 14
SPARK_WIDTH = 84
SPARK_HEIGHT = 24
_EDGE = 10
"""Space at both ends of a scale, for half of its first and last number."""
_TICKS = 6
"""Maximum number of marks on a scale."""
_OUTLIER_DISTANCE = 2.0
"""The distance of an outlier from the middle half of the bars, in widths of that half."""


@dataclass(frozen=True)
class Scale:
    """The range of values of a column of bars."""

    low: float
    high: float

    @classmethod
    def of_bars(cls, bounds: Sequence[tuple[float, float]]) -> Scale:
        """Return the scale for a column of bars, which are given by their low and high ends.

        It begins and ends at a mark, and has room for all bars but outliers.
        """
        usual_bounds = _without_outliers(bounds)
        low = min((low for low, _ in usual_bounds), default=0.0)
        high = max((high for _, high in usual_bounds), default=0.0)
        if high <= low:
            return cls(low - 1, low + 1)
        marks = ticks(low, high, _TICKS)
        distance = marks[1] - marks[0] if len(marks) > 1 else high - low
        return cls(math.floor(low / distance) * distance, math.ceil(high / distance) * distance)

    @property
    def ticks(self) -> list[float]:
        """The round numbers that are marked on the scale."""
        return ticks(self.low, self.high, _TICKS)

    def x(self, value: float) -> float:
        """Return the horizontal position of a value; of one beyond the scale, that of its end."""
        share = (value - self.low) / (self.high - self.low)
        return _EDGE + (BAR_WIDTH - 2 * _EDGE) * max(0.0, min(1.0, share))


def _without_outliers(bounds: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return the bars without outliers, which would squeeze all others to dots.

    The middles of the bars are compared. An outlier's middle is further away from the range of the
    middle half of them than _OUTLIER_DISTANCE times the width of this range.
    """
    if len(bounds) < 2:
        return bounds
    middles = [(low + high) / 2 for low, high in bounds]
    first_quartile, _, third_quartile = quantiles(middles, n=4, method="inclusive")
    distance = _OUTLIER_DISTANCE * (third_quartile - first_quartile)
    return [
        bar_bounds
        for bar_bounds, middle in zip(bounds, middles, strict=True)
        if first_quartile - distance <= middle <= third_quartile + distance
    ]


def axis(scale: Scale, width: float = BAR_WIDTH) -> str:
    """Return a picture of a scale's numbers, for the head of a column of bars, as SVG.

    A picture that is narrower than the bars has only the first and the last number.
    """
    marks = scale.ticks
    if width < BAR_WIDTH and len(marks) > 1:
        marks = [marks[0], marks[-1]]
    texts: list[str] = []
    for mark in marks:
        x = scale.x(mark) * width / BAR_WIDTH
        texts.append(f'<text x="{x:.1f}" y="12" text-anchor="middle">{plain(mark)}</text>')
    css_class = "axis" if width == BAR_WIDTH else "axis narrow"
    return _svg(css_class, width, _AXIS_HEIGHT, "".join(texts))


def bar(scale: Scale, low: float, middle: float, high: float) -> str:
    """Return a picture of a bar from low to high with a dot at `middle`, as SVG.

    Where the bar goes on beyond an end of the scale, it has an arrow.
    """
    left, y = scale.x(low), BAR_HEIGHT / 2
    width = max(1.0, scale.x(high) - left)  # even an empty bar is visible
    marks = ""
    if scale.low <= middle <= scale.high:
        marks = f'<circle cx="{scale.x(middle):.1f}" cy="{y:g}" r="3.5"/>'
    if low < scale.low:  # an arrow to the left
        marks += f'<path class="beyond" d="M0 {y:g}l8 -6v12Z"/>'
    if high > scale.high:  # an arrow to the right
        marks += f'<path class="beyond" d="M{BAR_WIDTH} {y:g}l-8 -6v12Z"/>'
    grid = "".join(f"M{scale.x(tick):.1f} 0V{BAR_HEIGHT}" for tick in scale.ticks)
    return _svg(
        "bar",
        BAR_WIDTH,
        BAR_HEIGHT,
        f'<path class="grid" d="{grid}"/>'
        f'<rect x="{left:.1f}" y="{y - 4:g}" width="{width:.1f}" height="8" rx="4"/>{marks}',
        stretched=True,
    )


def sparkline(values: Sequence[float], span: float) -> str:
    """Return a small picture of a line through the values with a dot at the last one, as SVG.

    It is "" if there are fewer than two values.

    span  the difference of values for which the whole height stands (see `span_of`)
    """
    if len(values) < 2:
        return ""
    middle = (max(values) + min(values)) / 2
    margin = 4
    step = (SPARK_WIDTH - 2 * margin) / (len(values) - 1)
    points: list[tuple[float, float]] = []
    for index, value in enumerate(values):
        height = _height_above_middle((value - middle) / (span or 1))
        points.append((margin + index * step, SPARK_HEIGHT / 2 - height))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    last_x, last_y = points[-1]
    return _svg(
        "spark",
        SPARK_WIDTH,
        SPARK_HEIGHT,
        f'<polyline points="{line}"/><circle cx="{last_x:.1f}" cy="{last_y:.1f}" r="2.5"/>',
    )


def _height_above_middle(share: float) -> float:
    """Return how far above the middle a value is drawn, within the margins of a sparkline.

    share  the value's distance from the middle, as a share of the whole height
    """
    return (SPARK_HEIGHT - 8) * max(-0.5, min(0.5, share))


def span_of(rows: Sequence[Sequence[float]]) -> float:
    """Return the largest difference of values within a row, for which all sparklines have room."""
    return max((max(row) - min(row) for row in rows if row), default=0.0)


def _svg(css_class: str, width: float, height: int, body: str, *, stretched: bool = False) -> str:
    """Return an SVG picture with this body.

    stretched  True if the picture fills the box that the page gives it, whatever its shape
    """
    fill = ' preserveAspectRatio="none"' if stretched else ""
    return (
        f'<svg class="{css_class}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f'{fill} aria-hidden="true">{body}</svg>'
    )
