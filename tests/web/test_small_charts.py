"""Pictures in the rows of a table: scales, bars, sparklines, and the course of a rating."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_arena.bots import VersionCourse
from deepsea_ladder.model import Int64
from deepsea_ladder.standings import CoursePoint
from deepsea_web.plots import WIDE, area, charts_svg, course, moments
from deepsea_web.svg import (
    BAR_WIDTH,
    NARROW,
    SPARK_HEIGHT,
    WIDTH,
    Scale,
    axis,
    bar,
    inline,
    span_of,
    sparkline,
    ticks,
)

FINITE = st.floats(-1000, 1000)


@given(FINITE, st.floats(0.001, 2000), st.integers(2, 9))
def test_ticks_are_few_round_and_inside(low: float, size: float, most: int) -> None:
    found = ticks(low, low + size, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 <= tick <= low + size + 1e-6 for tick in found)
    assert found == sorted(set(found))


@given(st.lists(st.tuples(FINITE, st.floats(0.1, 50)), max_size=9))
def test_every_bar_fits_on_the_scale(bars: list[tuple[float, float]]) -> None:
    bounds = [(low, low + size) for low, size in bars]
    scale = Scale.of_bars(bounds)
    fromstring(axis(scale))
    for low, high in bounds:
        svg = fromstring(bar(scale, low, (low + high) / 2, high))
        rect = svg.find("rect")
        assert rect is not None
        left, width = float(rect.get("x", "")), float(rect.get("width", ""))
        assert 0 <= left <= left + width <= BAR_WIDTH + 1


def test_what_is_beyond_a_scale_ends_at_its_edge() -> None:
    scale = Scale.of_bars([(10, 30)])
    assert scale.x(-100) == scale.x(10)
    assert scale.x(100) == scale.x(30)
    svg = bar(scale, -100, 20, 100)
    assert float(re.findall(r'rect x="([^"]+)"', svg)[0]) == scale.x(10)


@given(st.lists(FINITE, max_size=40), st.floats(0, 100))
def test_a_sparkline_stays_in_its_box(values: list[float], span: float) -> None:
    svg = sparkline(values, span)
    if len(values) < 2:
        assert svg == ""
        return
    points = re.findall(r"([\d.]+),([-\d.]+)", svg)
    assert len(points) == len(values)
    assert all(3 <= float(y) <= SPARK_HEIGHT - 3 for _, y in points)


def test_the_span_is_that_of_the_widest_row() -> None:
    assert span_of([[1, 5, 3], [], [9, 9]]) == 4
    assert span_of([]) == 0


def a_course(version: int, before: int, *ratings: tuple[float, float]) -> VersionCourse:
    points = tuple(
        CoursePoint(games=number, seq=Int64(number), rating=mu - 3 * sigma, mu=mu, sigma=sigma)
        for number, (mu, sigma) in enumerate(ratings, 1)
    )
    return VersionCourse(
        version=version,
        submitted_at=datetime(2026, 11, 22, tzinfo=UTC),
        games=len(points),
        before=before,
        points=points,
    )


TWO = [a_course(1, 0, (25, 8), (28, 4), (30, 2)), a_course(2, 3, (26, 7), (33, 2))]


def test_versions_follow_each_other_on_one_axis() -> None:
    assert [(moment.game, moment.version) for moment in moments(TWO)] == [
        *((1, 1), (2, 1), (3, 1)),
        *((4, 2), (5, 2)),
    ]
    svg = fromstring(inline(course("otter", TWO)))
    marks = [one.text for one in svg.iter("text") if one.text and re.fullmatch(r"v\d", one.text)]
    assert marks == ["v1", "v2"]
    assert sum(one.get("class") == "version" for one in svg.iter("path")) == 2
    assert "otter: after 5 rated games of 2 versions its rating is 27.0" in inline(
        course("otter", TWO)
    )


def test_unsure_points_do_not_set_the_scale() -> None:
    inside = area(TWO)
    assert inside.low > 10  # the first points are at 1 and 5
    assert inside.y(-50) == inside.bottom
    assert area([]).high > area([]).low


@pytest.mark.parametrize("width", [WIDTH, WIDE])
def test_a_course_is_drawn_within_its_width(width: float) -> None:
    many = [a_course(number, 2 * number - 2, (25, 3), (26, 2)) for number in range(1, 60)]
    svg = fromstring(inline(course("otter", many, width)))
    assert float(svg.get("viewBox", "").split()[2]) == width
    for text in svg.iter("text"):
        assert -1 <= float(text.get("x", "")) <= width
    numbers = [one for one in svg.iter("text") if re.fullmatch(r"v\d+", one.text or "")]
    assert len(numbers) <= width / 20  # the others would cover each other


def test_the_games_of_a_short_course_are_counted_once_each() -> None:
    svg = fromstring(inline(course("otter", [a_course(1, 0, (25, 8), (28, 4))], WIDE)))
    below = area(TWO, WIDE).bottom + 16
    at = [one.text for one in svg.iter("text") if float(one.get("y", "")) == below]
    assert at == ["0", "1", "2"]


@pytest.mark.parametrize("courses", [[], [a_course(1, 0, (25, 8))]])
def test_a_course_of_no_game_or_one_is_drawn_too(courses: list[VersionCourse]) -> None:
    text = charts_svg("otter", "season main", [course("otter", courses)])
    fromstring(text)
    assert ("no rated games yet" in text) is not bool(courses)


def test_an_outlier_makes_no_dots_of_the_others() -> None:
    near = [(20.0 + n, 24.0 + n) for n in range(9)]
    far = (-80.0, -70.0)
    scale = Scale.of_bars([*near, far])
    assert scale == Scale.of_bars(near)
    picture = bar(scale, far[0], -75, far[1])
    assert picture.count('class="beyond"') == 1
    assert "<circle" not in picture
    assert 'd="M0 ' in picture
    both = bar(scale, scale.low - 1, scale.low, scale.high + 1)
    assert both.count('class="beyond"') == 2
    assert "beyond" not in bar(scale, *near[0], near[0][1])


@given(st.floats(-100, 100), st.floats(1, 9), st.integers(2, 60))
def test_bots_that_are_far_apart_evenly_are_all_on_the_scale(
    first: float, step: float, number: int
) -> None:
    bounds = [(first + n * step - 0.5, first + n * step + 0.5) for n in range(number)]
    scale = Scale.of_bars(bounds)
    assert scale.low <= bounds[0][0]
    assert bounds[-1][1] <= scale.high + 1e-9


def test_a_narrow_axis_has_the_outer_numbers_where_the_squeezed_bars_have_them() -> None:
    scale = Scale.of_bars([(0, 30)])
    wide, narrow = (
        [(float(one.get("x", "")), one.text) for one in fromstring(axis(scale, width)).iter("text")]
        for width in (BAR_WIDTH, NARROW)
    )
    assert [text for _, text in narrow] == [wide[0][1], wide[-1][1]]
    assert narrow[-1][0] == pytest.approx(wide[-1][0] * NARROW / BAR_WIDTH, abs=0.1)
