"""Charts of lines over games: the course of a rating, the lead of a comparison, and a search.

Invariants: lines join the points that are given, and no others; points that are unsure do not set
the scale, since every newcomer comes from far, and every first interval is wide.

The files that hold charts.

Invariants: a file needs no other file and no network; the page has a policy that allows its one
style and nothing else, no script either.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeVar
from xml.etree.ElementTree import Element, SubElement, tostring

from deepsea_arena.bots import VersionCourse
from deepsea_ladder.rating import Rating
from deepsea_referee.workbench.comparison import Lead
from deepsea_referee.workbench.tuning import Range, Spsa
from deepsea_rules.printable import one_line
from deepsea_web.assets import chart_styles, file_text, load_template
from deepsea_web.bars import PlotData, dives, placements, times
from deepsea_web.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Chart,
    Drawing,
    Table,
    describe,
    inline,
    plain,
    short,
    ticks,
    wrapped,
)

T = TypeVar("T")
WIDE = 860
"""The width on a wide screen, where letters are not larger than on a narrow one."""
_TOP = 34
_HEIGHTS = {WIDTH: 190, WIDE: 260}
_ROWS = 12
"""Rows of the table."""
_SURE = 3
"""A sigma up to so many times the smallest sets the scale."""
_LABEL = 22
"""Room for the number of a version."""
_HEIGHT = 170
_LEAD_TOP = 38


class Moment(NamedTuple):
    """A point of the course."""

    game: int
    """The number of the bot's games in the season, of all versions."""
    version: int
    rating: float
    mu: float
    sigma: float

    @property
    def skill(self) -> Rating:
        return Rating(self.mu, self.sigma)


class Area(NamedTuple):
    """The area of the course, for a script that reads positions."""

    left: float
    right: float
    top: float
    bottom: float
    games: int
    low: float
    high: float

    def x(self, game: float) -> float:
        return self.left + (self.right - self.left) * game / self.games

    def y(self, value: float) -> float:
        """The height of a rating; one beyond an edge is at it."""
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - (self.bottom - self.top) * max(0.0, min(1.0, share))


def moments(courses: Sequence[VersionCourse]) -> list[Moment]:
    """The points of all versions, one after the other."""
    return [
        Moment(course.before + point.games, course.version, point.rating, point.mu, point.sigma)
        for course in courses
        for point in course.points
    ]


def area(courses: Sequence[VersionCourse], width: float = WIDTH) -> Area:
    """The area of a chart of this width."""
    known = moments(courses)
    games = max((moment.game for moment in known), default=1)
    surest = min((moment.sigma for moment in known), default=0.0)
    settled = [moment for moment in known if moment.sigma <= _SURE * surest]
    low = min((moment.rating for moment in settled), default=0.0)
    high = max((moment.skill.high for moment in settled), default=1.0)
    room = max(high - low, 1.0) * 0.04
    return Area(
        LEFT, width - 8, _TOP, _TOP + _HEIGHTS[WIDE if width >= WIDE else WIDTH], max(games, 1),
        low - room, high + room,
    )  # fmt: skip


def course(bot: str, courses: Sequence[VersionCourse], width: float = WIDTH) -> Chart:
    """Draw the course of a bot's rating over the games of its versions in a season."""
    drawing, inside = Drawing(), area(courses, width)
    _legend(drawing)
    for value in ticks(inside.low, inside.high, 6):
        y = inside.y(value)
        drawing.line(inside.left, y, inside.right, y, "grid")
        drawing.text(inside.left - 5, y + 4, plain(value), "small", anchor="end")
    for game in ticks(0, inside.games, 8 if width >= WIDE else 4, min_step=1):
        at_end = game > 0.94 * inside.games
        anchor = "end" if at_end else "middle"
        drawing.text(inside.x(game), inside.bottom + 16, f"{game:,.0f}", "small", anchor=anchor)
    for one in courses:
        _stretch(drawing, inside, one)
    _marks(drawing, inside, courses)
    middle = (inside.left + inside.right) / 2
    drawing.text(middle, inside.bottom + 31, "rated games", "axis", anchor="middle")
    key = "course" if width < WIDE else "course-wide"
    return Chart(
        key,
        "Rating course",
        f"{short(bot, 45)}: {_words(courses)}.",
        drawing.element,
        inside.bottom + 36,
        Table(
            ("game", "version", "rating", "mu", "sigma"),
            [
                [f"{m.game:,}", f"v{m.version}", f"{m.rating:.1f}", f"{m.mu:.1f}", f"{m.sigma:.2f}"]
                for m in _some(moments(courses))
            ],
        ),
        width,
    )


def _legend(drawing: Drawing) -> None:
    drawing.line(0, 5, 14, 5, "lead")
    drawing.text(19, 9, "rating: mu − 3 sigma", "small")
    drawing.rect(148, 1, 14, 8, "band")
    drawing.line(148, 5, 162, 5, "bound")
    drawing.text(167, 9, "mu ± 2 sigma", "small")


def _stretch(drawing: Drawing, inside: Area, one: VersionCourse) -> None:
    """The course of one version; versions are not joined, each begins anew."""
    known = moments([one])

    def line(values: Iterator[float]) -> list[tuple[float, float]]:
        pairs = zip(known, values, strict=True)
        return [(inside.x(moment.game), inside.y(value)) for moment, value in pairs]

    if len(known) == 1:
        (moment,) = known
        drawing.circle(inside.x(moment.game), inside.y(moment.rating), 2.5, "dot")
        return
    upper = line(m.skill.high for m in known)
    lower = line(m.skill.low for m in known)
    drawing.path(upper + lower[::-1], "band", closed=True)
    drawing.path(line(m.mu for m in known), "bound")
    drawing.path(line(m.rating for m in known), "lead")


def _marks(drawing: Drawing, inside: Area, courses: Sequence[VersionCourse]) -> None:
    """A line where each version begins; numbers that would cover each other are left out."""
    if len(courses) < 2:
        return
    free = -1.0
    for one in courses:
        x = inside.x(one.before)
        drawing.line(x, inside.top, x, inside.bottom, "version")
        if x >= free:
            drawing.text(x + 3, inside.top + 9, f"v{one.version}", "small")
            free = x + _LABEL


def _words(courses: Sequence[VersionCourse]) -> str:
    known = moments(courses)
    if not known:
        return "no rated games yet"
    last = known[-1]
    several = f" of {len(courses)} versions" if len(courses) > 1 else ""
    return (
        f"after {last.game:,} rated game{'' if last.game == 1 else 's'}{several} its rating is "
        f"{last.rating:.1f}, with mu {last.mu:.1f} ± {last.skill.margin:.1f}"
    )


def _some(points: Sequence[T]) -> Sequence[T]:
    """Some points, evenly spread, with the last one."""
    step = max(1, -(-len(points) // _ROWS))
    return points[::-1][::step][::-1]


def lead(lead: Lead) -> Chart:
    """Draw the mean difference in placement score after each block, within its interval."""
    points = lead.points
    blocks = points[-1].blocks if points else 1
    # Not the whole range that is possible: a wide first interval would flatten the rest.
    settled = points[len(points) // 10 :]
    reach = max([abs(v) for point in settled for v in point[1:]] + [2 * lead.margin, 0.05])
    reach = min(reach * 1.1, 1.0)
    bottom = _LEAD_TOP + _HEIGHT
    inside = Area(LEFT + 4, RIGHT, _LEAD_TOP, bottom, blocks, -reach, reach)
    x, y, drawing = inside.x, inside.y, Drawing()
    drawing.rect(0, 1, 14, 8, "band")
    drawing.line(0, 5, 14, 5, "lead")
    drawing.text(19, 9, f"mean lead and {100 * (1 - lead.alpha):.4g} % interval", "small")
    drawing.rect(214, 1, 14, 8, "margin")
    drawing.text(233, 9, f"no difference: ±{lead.margin:g}", "small")
    drawing.text(0, _LEAD_TOP - 11, f"▲ {short(lead.a, 40)} leads", "label")
    drawing.rect(LEFT, y(lead.margin), RIGHT - LEFT, y(-lead.margin) - y(lead.margin), "margin")
    # The distance of grid lines, of which two to four fit on each side.
    gap = next(step for step in (0.5, 0.25, 0.1, 0.05, 0.025, 0.01) if reach / step >= 2)
    for step in range(-4, 5):
        value = step * gap
        if abs(value) <= reach:
            drawing.line(LEFT, y(value), RIGHT, y(value), "grid" if step else "base")
            drawing.text(
                LEFT - 4, y(value) + 4, f"{value:+.3g}" if step else "0", "small", anchor="end"
            )
    if points:
        upper = [(x(point.blocks), y(point.high)) for point in points]
        lower = [(x(point.blocks), y(point.low)) for point in points]
        drawing.path(upper + lower[::-1], "band", closed=True)
        drawing.path(upper, "bound")
        drawing.path(lower, "bound")
        drawing.path([(x(point.blocks), y(point.mean)) for point in points], "lead")
        last = points[-1]
        drawing.circle(x(last.blocks), y(last.mean), 3, "dot", _lead_words(lead))
    for part in range(5):
        block = round(blocks * part / 4)
        anchor = "end" if part == 4 else "middle"
        drawing.text(x(block), bottom + 31, f"{block:,}", "small", anchor=anchor)
    drawing.text(0, bottom + 16, f"▼ {short(lead.b, 40)} leads", "label")
    drawing.text((LEFT + RIGHT) / 2, bottom + 45, "blocks", "axis", anchor="middle")
    drawing.text(0, bottom + 63, _lead_words(lead), "label")
    return Chart(
        "lead",
        "Lead in placement score",
        f"{short(lead.a, 45)} against {short(lead.b, 45)}: {_lead_words(lead)}.",
        drawing.element,
        bottom + 67,
        Table(
            ("blocks", "mean lead", "from", "to"),
            [
                [f"{p.blocks:,}", f"{p.mean:+.3f}", f"{p.low:+.3f}", f"{p.high:+.3f}"]
                for p in _some(points)
            ],
        ),
    )


def _lead_words(lead: Lead) -> str:
    if not lead.points:
        return "no block counts yet"
    last = lead.points[-1]
    count = "1 block" if last.blocks == 1 else f"{last.blocks:,} blocks"
    return f"after {count}: {last.mean:+.3f}, between {last.low:+.3f} and {last.high:+.3f}"


def numbers(search: Spsa) -> list[Chart]:
    """Draw each number of a search after each step, and what was found."""
    return [
        _number(search, one, [place[i] for place in search.places])
        for i, one in enumerate(search.ranges)
    ]


def _number(search: Spsa, one: Range, places: Sequence[float]) -> Chart:
    inside = Area(LEFT + 4, RIGHT, 6, 126, max(1, search.steps), one.low, one.high)
    values = [one.low + (one.high - one.low) * place for place in places]
    found, drawing = search.values[one.name], Drawing()
    for value in ticks(one.low, one.high, 5):
        drawing.line(LEFT, inside.y(value), RIGHT, inside.y(value), "grid")
        drawing.text(LEFT - 4, inside.y(value) + 4, plain(value), "small", anchor="end")
    for step in ticks(0, inside.games, 4, min_step=1):
        drawing.text(inside.x(step), 142, f"{step:,.0f}", "small", anchor="middle")
    drawing.path([(inside.x(step), inside.y(value)) for step, value in enumerate(values)], "lead")
    drawing.circle(RIGHT, inside.y(found), 3, "dot", f"found: {found:g}")
    drawing.text((LEFT + RIGHT) / 2, 157, "steps", "axis", anchor="middle")
    rows = [(f"{step:,}", f"{value:.4g}") for step, value in _some([*enumerate(values)])]
    text = f"{one.name} begins with {one.start:g}; after {search.steps:,} steps it is {found:g}."
    table = Table(("steps", one.name), rows)
    return Chart(f"search-{one.name}", f"Search for {one.name}", text, drawing.element, 162, table)


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
