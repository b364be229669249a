"""Parts of a chart as SVG elements.

Invariants: elements are built as a tree and never as text, so that every name is escaped; looks
are classes of charts.css, so that charts work under a policy without inline styles; a chart is
WIDTH units wide and legible at that many pixels.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

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


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, which differ; at most so many."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(
        step for step in (power * one for one in (1, 2, 5, 10, 20)) if (high - low) / step <= most
    )
    return [step * tick for tick in range(math.ceil(low / step), math.floor(high / step) + 1)]


def plain(value: float) -> str:
    """A number with the digits that it needs, and a real minus sign."""
    return f"{value:g}".replace("-", "\u2212")


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
