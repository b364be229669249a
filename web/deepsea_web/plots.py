"""Charts of lines over games, and the files that hold charts.

The charts are the course of a rating, the lead of a comparison, and the numbers of a search; start
reading at `course`, `lead` and `numbers`, and for the files at `charts_svg` and `charts_html`.

Invariants: lines join the given points, and no others; uncertain points do not set the scale, since
the rating of every newcomer starts far away, and the first intervals are wide; a file needs no
other file and no network; a page has a policy that allows its one style sheet and no scripts.
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
"""The width of a chart on a wide screen, where letters have the same size as on a narrow one."""
_TOP = 34
"""The upper edge of the area of a rating's course."""
_HEIGHTS = {WIDTH: 190, WIDE: 260}
"""The height of the area of a rating's course, by the width of the chart."""
_ROWS = 12
"""About the number of rows of a chart's table."""
_SETTLED_SIGMA = 3
"""The largest sigma, in multiples of the smallest, of a point that sets the scale."""
_LABEL = 22
"""The width of the number of a version."""
_LEAD_TOP = 38
"""The upper edge of the area of a lead."""
_LEAD_HEIGHT = 170
"""The height of the area of a lead."""


class Moment(NamedTuple):
    """The rating of a bot after one of its games."""

    game: int
    """The number of games that the bot has played in the season, with all versions."""
    version: int
    rating: float
    mu: float
    sigma: float

    @property
    def skill(self) -> Rating:
        """The skill as mu and sigma."""
        return Rating(self.mu, self.sigma)


class Area(NamedTuple):
    """The area of a chart with its scales; a script of the pages reads positions with it."""

    left: float
    right: float
    top: float
    bottom: float
    games: int
    low: float
    high: float

    def x(self, game: float) -> float:
        """Return the horizontal position of a number of games."""
        return self.left + (self.right - self.left) * game / self.games

    def y(self, value: float) -> float:
        """Return the vertical position of a value; of one beyond an edge, that of the edge."""
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - (self.bottom - self.top) * max(0.0, min(1.0, share))


def moments(courses: Sequence[VersionCourse]) -> list[Moment]:
    """Return the rating of a bot after each of its games, version by version.

    A course has the ratings of one version, one after each game. Its `before` is the number of
    games that the former versions had played.
    """
    return [
        Moment(course.before + point.games, course.version, point.rating, point.mu, point.sigma)
        for course in courses
        for point in course.points
    ]


def area(courses: Sequence[VersionCourse], width: float = WIDTH) -> Area:
    """Return the area of a chart of this width, with scales that fit the ratings of a bot.

    Ratings that are still uncertain, with a large sigma, do not set the scale: a newcomer's rating
    starts far away from all later ones.
    """
    points = moments(courses)
    games = max((point.game for point in points), default=1)
    smallest_sigma = min((point.sigma for point in points), default=0.0)
    settled = [point for point in points if point.sigma <= _SETTLED_SIGMA * smallest_sigma]
    low = min((point.rating for point in settled), default=0.0)
    high = max((point.skill.high for point in settled), default=1.0)
    margin = max(high - low, 1.0) * 0.04  # the part of the area above and below the ratings
    height = _HEIGHTS[WIDE if width >= WIDE else WIDTH]
    return Area(
        left=LEFT,
        right=width - (WIDTH - RIGHT),  # with the margin of the other charts
        top=_TOP,
        bottom=_TOP + height,
        games=max(games, 1),
        low=low - margin,
        high=high + margin,
    )


def course(bot: str, courses: Sequence[VersionCourse], width: float = WIDTH) -> Chart:
    """Draw the course of a bot's rating over the games of its versions in a season."""
    drawing, inside = Drawing(), area(courses, width)
    _draw_legend(drawing)
    for value in ticks(inside.low, inside.high, 6):
        y = inside.y(value)
        drawing.line(inside.left, y, inside.right, y, "grid")
        drawing.text(inside.left - 5, y + 4, plain(value), "small", anchor="end")
    for game in ticks(0, inside.games, 8 if width >= WIDE else 4, min_step=1):
        at_end = game > 0.94 * inside.games
        anchor = "end" if at_end else "middle"
        drawing.text(inside.x(game), inside.bottom + 16, f"{game:,.0f}", "small", anchor=anchor)
    for version_course in courses:
        _draw_version(drawing, inside, version_course)
    _mark_versions(drawing, inside, courses)
    middle = (inside.left + inside.right) / 2
    drawing.text(middle, inside.bottom + 31, "rated games", "axis", anchor="middle")
    key = "course" if width < WIDE else "course-wide"
    return Chart(
        key,
        "Rating course",
        f"{short(bot, 45)}: {_course_words(courses)}.",
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


def _draw_legend(drawing: Drawing) -> None:
    """Draw a line and a band with their meanings, as the legend of a chart of ratings."""
    drawing.line(0, 5, 14, 5, "lead")
    drawing.text(19, 9, "rating: mu − 3 sigma", "small")
    drawing.rect(148, 1, 14, 8, "band")
    drawing.line(148, 5, 162, 5, "bound")
    drawing.text(167, 9, "mu ± 2 sigma", "small")


def _draw_version(drawing: Drawing, inside: Area, course: VersionCourse) -> None:
    """Draw the ratings of one version: a line in a band, or a dot after its first game.

    The lines of several versions are not joined, since each version begins anew.
    """
    points = moments([course])
    if len(points) == 1:
        (point,) = points
        drawing.circle(inside.x(point.game), inside.y(point.rating), 2.5, "dot")
        return

    def line(values: Iterator[float]) -> list[tuple[float, float]]:
        """Return the positions on the chart of a value for each game."""
        pairs = zip(points, values, strict=True)
        return [(inside.x(point.game), inside.y(value)) for point, value in pairs]

    upper = line(point.skill.high for point in points)
    lower = line(point.skill.low for point in points)
    drawing.path(upper + lower[::-1], "band", closed=True)
    drawing.path(line(point.mu for point in points), "bound")
    drawing.path(line(point.rating for point in points), "lead")


def _mark_versions(drawing: Drawing, inside: Area, courses: Sequence[VersionCourse]) -> None:
    """Draw a vertical line where each version begins, unless there is only one version.

    A line gets the version's number if it does not cover the number before it.
    """
    if len(courses) < 2:
        return
    last_number_end = -1.0
    for course in courses:
        x = inside.x(course.before)  # the number of games before the version's first one
        drawing.line(x, inside.top, x, inside.bottom, "version")
        if x >= last_number_end:
            drawing.text(x + 3, inside.top + 9, f"v{course.version}", "small")
            last_number_end = x + _LABEL


def _course_words(courses: Sequence[VersionCourse]) -> str:
    """Return a bot's present rating in words, for the description of the chart."""
    points = moments(courses)
    if not points:
        return "no rated games yet"
    last = points[-1]
    games = "1 rated game" if last.game == 1 else f"{last.game:,} rated games"
    of_versions = f" of {len(courses)} versions" if len(courses) > 1 else ""
    return (
        f"after {games}{of_versions} its rating is "
        f"{last.rating:.1f}, with mu {last.mu:.1f} ± {last.skill.margin:.1f}"
    )


def _some(points: Sequence[T]) -> Sequence[T]:
    """Return about _ROWS of the points, evenly spread and with the last one, in their order."""
    step = max(1, -(-len(points) // _ROWS))  # rounded up
    from_last = points[::-1][::step]
    return from_last[::-1]


def lead(lead: Lead) -> Chart:
    """Draw the mean difference in placement score after each block, within its interval."""
    points = lead.points
    blocks = points[-1].blocks if points else 1
    # Without the first tenth, whose wide intervals would flatten the rest.
    settled = points[len(points) // 10 :]
    distances = [max(abs(point.mean), abs(point.low), abs(point.high)) for point in settled]
    reach = max([*distances, 2 * lead.margin, 0.05])
    reach = min(reach * 1.1, 1.0)  # no lead is larger than 1
    bottom = _LEAD_TOP + _LEAD_HEIGHT
    inside = Area(LEFT + 4, RIGHT, _LEAD_TOP, bottom, blocks, low=-reach, high=reach)
    x, y, drawing = inside.x, inside.y, Drawing()
    drawing.rect(0, 1, 14, 8, "band")
    drawing.line(0, 5, 14, 5, "lead")
    drawing.text(19, 9, f"mean lead and {100 * (1 - lead.alpha):.4g} % interval", "small")
    drawing.rect(214, 1, 14, 8, "margin")
    drawing.text(233, 9, f"no difference: ±{lead.margin:g}", "small")
    drawing.text(0, _LEAD_TOP - 11, f"▲ {short(lead.a, 40)} leads", "label")
    drawing.rect(LEFT, y(lead.margin), RIGHT - LEFT, y(-lead.margin) - y(lead.margin), "margin")
    # The distance of grid lines: the largest one with two lines or more on each side of 0.
    distance = next(step for step in (0.5, 0.25, 0.1, 0.05, 0.025, 0.01) if reach / step >= 2)
    for number in range(-4, 5):
        value = number * distance
        if abs(value) <= reach:
            label = f"{value:+.3g}" if number else "0"
            drawing.line(LEFT, y(value), RIGHT, y(value), "grid" if number else "base")
            drawing.text(LEFT - 4, y(value) + 4, label, "small", anchor="end")
    if points:
        upper = [(x(point.blocks), y(point.high)) for point in points]
        lower = [(x(point.blocks), y(point.low)) for point in points]
        drawing.path(upper + lower[::-1], "band", closed=True)
        drawing.path(upper, "bound")
        drawing.path(lower, "bound")
        drawing.path([(x(point.blocks), y(point.mean)) for point in points], "lead")
        last = points[-1]
        drawing.circle(x(last.blocks), y(last.mean), 3, "dot", _lead_words(lead))
    for quarter in range(5):
        block = round(blocks * quarter / 4)
        anchor = "end" if quarter == 4 else "middle"
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
    """Return in words how far a bot leads by now: the mean difference, and its interval."""
    if not lead.points:
        return "no block counts yet"
    last = lead.points[-1]
    count = "1 block" if last.blocks == 1 else f"{last.blocks:,} blocks"
    return f"after {count}: {last.mean:+.3f}, between {last.low:+.3f} and {last.high:+.3f}"


def numbers(search: Spsa) -> list[Chart]:
    """Draw a chart for each number of a search: its value after each step, and the final one."""
    return [
        _draw_number(search, number_range, [shares[index] for shares in search.places])
        for index, number_range in enumerate(search.ranges)
    ]


def _draw_number(search: Spsa, number_range: Range, shares: Sequence[float]) -> Chart:
    """Draw the value of one number of a search after each step.

    number_range  the name of the number, and the lowest and highest value that it may have
    shares        the value after each step: 0 for the lowest one, 1 for the highest
    """
    name, low, high = number_range.name, number_range.low, number_range.high
    values = [low + (high - low) * share for share in shares]
    final_value = search.values[name]
    last_step = max(1, search.steps)
    inside = Area(LEFT + 4, RIGHT, 6, 126, last_step, low, high)
    drawing = Drawing()
    for value in ticks(low, high, 5):
        drawing.line(LEFT, inside.y(value), RIGHT, inside.y(value), "grid")
        drawing.text(LEFT - 4, inside.y(value) + 4, plain(value), "small", anchor="end")
    for step in ticks(0, last_step, 4, min_step=1):
        drawing.text(inside.x(step), 142, f"{step:,.0f}", "small", anchor="middle")
    drawing.path([(inside.x(step), inside.y(value)) for step, value in enumerate(values)], "lead")
    drawing.circle(RIGHT, inside.y(final_value), 3, "dot", f"found: {final_value:g}")
    drawing.text((LEFT + RIGHT) / 2, 157, "steps", "axis", anchor="middle")
    rows = [(f"{step:,}", f"{value:.4g}") for step, value in _some([*enumerate(values)])]
    text = (
        f"{name} begins with {number_range.start:g}; "
        f"after {search.steps:,} steps it is {final_value:g}."
    )
    table = Table(("steps", name), rows)
    return Chart(f"search-{name}", f"Search for {name}", text, drawing.element, 162, table)


# ------------------------------------------------------------------------------- files of charts

_MARGIN = 12
"""The margin around the charts of a file."""
_TITLE = 22
"""The height of the title of a chart."""
_GAP = 26
"""The distance between two charts."""


def charts_of(data: PlotData) -> list[Chart]:
    """Return all charts of a match or a comparison; only a comparison has the chart of a lead."""
    charts = [placements(data), dives(data), times(data)]
    return [lead(data.lead), *charts] if data.lead else charts


def charts_svg(title: str, facts: str, charts: Sequence[Chart]) -> str:
    """Return an SVG file with the charts one below the other; all have the width WIDTH."""
    parts, y = Drawing(), 0.0
    for text, columns, looks in ((title, 40, "title"), (facts, 56, "small")):
        for line in wrapped(text, columns):
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
            # A browser fits the picture into its window; other programs draw it at this size.
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
    """Return an HTML page with the charts, each with its numbers as a table."""
    styles = chart_styles() + file_text("charts/page.css")
    return load_template("plots.html").render(
        title=one_line(title),
        facts=one_line(facts),
        printable=one_line,
        charts=[(chart, inline(chart)) for chart in charts],
        styles=styles,
        style_hash=b64encode(sha256(styles.encode()).digest()).decode(),
    )
