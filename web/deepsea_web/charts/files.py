"""The files that hold charts.

Invariants: a file needs no other file and no network; the page has a policy that allows its one
style and nothing else, no script either.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from xml.etree.ElementTree import Element, SubElement, tostring

from deepsea_arena.reports.plot_data import PlotData
from deepsea_rules.printable import one_line
from deepsea_web.charts.bars import dives, placements, times
from deepsea_web.charts.course import lead
from deepsea_web.charts.svg import WIDTH, Chart, Drawing, describe, inline, wrapped
from deepsea_web.viewer.assets import chart_styles, file_text, load_template

_MARGIN = 12
_TITLE = 22
_GAP = 26


def charts_of(data: PlotData) -> list[Chart]:
    """All charts that there are numbers for."""
    first = [lead(data.lead)] if data.lead else []
    return [*first, placements(data), dives(data), times(data)]


def charts_svg(title: str, facts: str, charts: Sequence[Chart]) -> str:
    """These charts in one SVG file, one below the other; all have the width WIDTH."""
    parts, y = Drawing(), 0.0
    for words, columns, looks in ((title, 40, "title"), (facts, 56, "small")):
        for line in wrapped(words, columns):
            y += 16
            parts.text(0, y, line, looks)
    for chart in charts:
        y += _GAP
        parts.text(0, y, chart.title, "title")
        y += _TITLE - 10
        group = SubElement(
            parts.element, "g", {"transform": f"translate(0 {y:.1f})", "role": "img"}
        )
        describe(group, chart.key, chart.title, chart.text)
        group.append(chart.body)
        y += chart.height
    height = y + 2 * _MARGIN
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "chart",
            "viewBox": f"0 0 {WIDTH + 2 * _MARGIN} {height:.0f}",
            # A browser fits it into its window; others draw it at this size.
            "width": f"{1.5 * (WIDTH + 2 * _MARGIN):.0f}",
            "height": f"{1.5 * height:.0f}",
        },
    )
    describe(root, "plots", one_line(title), one_line(facts))
    SubElement(root, "style").text = chart_styles()
    SubElement(root, "rect", {"class": "paper", "width": "100%", "height": "100%"})
    parts.element.set("transform", f"translate({_MARGIN} {_MARGIN})")
    root.append(parts.element)
    return tostring(root, encoding="unicode") + "\n"


def charts_html(title: str, facts: str, charts: Sequence[Chart]) -> str:
    """These charts on one page, each with its numbers as a table."""
    styles = chart_styles() + file_text("charts/page.css")
    return load_template("plots.html").render(
        title=one_line(title),
        facts=one_line(facts),
        printable=one_line,
        charts=[(chart, inline(chart)) for chart in charts],
        styles=styles,
        style_hash=b64encode(sha256(styles.encode()).digest()).decode(),
    )
