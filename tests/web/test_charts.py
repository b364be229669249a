"""Charts: the texts and numbers in them, whatever the bots are called."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import product
from xml.etree.ElementTree import Element, fromstring

import pytest

from deepsea_referee.workbench.comparison import Lead, LeadPoint
from deepsea_web.bars import BotFigures, Depth, PlotData
from deepsea_web.plots import charts_html, charts_of, charts_svg
from deepsea_web.svg import short, wrapped
from helpers.pages import elements_of
from helpers.tiers import daily

HOSTILE = {
    "markup": "</script><script>alert(1)</script></svg><!-- & \"'",
    "direction": "abc\u202egpj.exe",
    "combining": "e" + "\u0301" * 40,
    "wide": "ß" * 40,
    "columns": "漢" * 40,
    "control": "a\x00\x1b[31m\x7f\ud800b\uffff",
    "line ends": "a\nb\u2028c",
    "template": "{{ 7 * 7 }}{% raw %}",
}


def bot(name: str = "greedy", seats: int = 2) -> BotFigures:
    """A bot with games in every seat."""
    it = BotFigures(name, dives=10, home=7)
    for seat in range(seats):
        it.placements[seat, 1] += 3
        it.placements[seat, seats] += 1
    it.turned[Depth(9, 14)] += 5
    it.turned[Depth(12, 3)] += 2
    it.drowned[Depth(4, 0)] += 3
    it.times.add([80, 90, 100, 4_000])
    return it


def data(*names: str, lead: bool = False) -> PlotData:
    bots = [bot(name, len(names)) for name in names]
    points = [LeadPoint(n, 0.2, 0.2 - 1 / n, min(1.0, 0.2 + 1 / n)) for n in range(1, 51)]
    return PlotData(
        title=", ".join(names),
        facts="8 games, manual rules",
        bots=bots,
        budget_us=100_000,
        lead=Lead(names[0], names[1], 0.05, 0.05, points) if lead else None,
    )


def svg_text(shown: PlotData) -> str:
    return charts_svg(shown.title, shown.facts, charts_of(shown))


def html_text(shown: PlotData) -> str:
    return charts_html(shown.title, shown.facts, charts_of(shown))


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in elements(svg, "text")]


def elements(svg: str, *tags: str) -> Iterator[Element]:
    return (e for e in fromstring(svg).iter() if e.tag.rpartition("}")[2] in tags)


def test_each_chart_says_what_it_shows() -> None:
    charts = {chart.key: chart for chart in charts_of(data("greedy", "cautious", lead=True))}
    assert list(charts) == ["lead", "placements", "dives", "times"]
    assert charts["placements"].table.rows[0] == ["greedy", "A", "4", "3", "1"]
    assert charts["dives"].table.rows[0] == [
        *("greedy", "10", "70 %", "30 %", "space 9, 14 air", "space 12", "space 4"),
    ]
    assert charts["times"].table.rows[0] == [
        *("greedy", "4", "90 µs", "4.0 ms", "4.0 ms", "4.0 ms"),
    ]
    assert charts["lead"].table.rows[-1] == ["50", "+0.200", "+0.180", "+0.220"]
    assert "after 50 blocks: +0.200, between +0.180 and +0.220" in charts["lead"].text


def test_a_match_has_no_lead() -> None:
    assert "lead" not in [chart.key for chart in charts_of(data("a", "b"))]


def test_axes_have_names_and_units() -> None:
    found = texts(svg_text(data("greedy", "cautious", lead=True)))
    for words in ("share of games", "space", "air", "time of a decision", "blocks"):
        assert words in found
    assert {"1 ms", "100 ms", "0 %", "100 %", "seat A", "1st 75 %", "budget 100 ms"} <= {*found}


def test_nothing_is_told_by_colour_alone() -> None:
    svg = svg_text(data("greedy", "cautious"))
    marks = {e.get("class"): e.tag.rpartition("}")[2] for e in elements(svg, "circle", "path")}
    assert (marks["turned"], marks["drowned"]) == ("circle", "path")
    dashes = re.findall(r"\.(?:median|tail|budget)\{[^}]*?(?:dasharray:([^;}]*)|\})", svg)
    assert len(set(dashes)) == 3


def test_marks_say_their_numbers() -> None:
    tips = {e.text for e in elements(svg_text(data("greedy", "cautious")), "title")}
    assert "greedy: turned back 5 times at space 9, 14 air" in tips
    assert "greedy: drowned 3 times at space 4, 0 air" in tips
    assert "greedy, seat A: 1st in 3 of 4 games" in tips


def test_larger_is_more_often() -> None:
    svg = svg_text(data("greedy", "cautious"))
    radius = {e[0].text: float(e.get("r", "")) for e in elements(svg, "circle") if len(e)}
    often = radius["greedy: turned back 5 times at space 9, 14 air"]
    seldom = radius["greedy: turned back 2 times at space 12, 3 air"]
    assert often**2 / seldom**2 == pytest.approx(5 / 2, rel=0.1)


def test_a_screen_reader_gets_a_title_and_a_description() -> None:
    root = fromstring(svg_text(data("greedy", "cautious")))
    named = [e for e in root.iter() if e.get("role") == "img"]
    assert len(named) == 3
    for element in (root, *named):
        ids = {child.get("id"): child.text for child in element}
        assert ids[element.get("aria-labelledby")]
        assert ids[element.get("aria-describedby")]


@cache
def drawings(name: str, many: int) -> tuple[str, str]:
    """All charts of so many bots whose names begin with this, as a picture and as a page."""
    whole = data(*[f"{name}{n}" for n in range(many)], lead=True)
    return svg_text(whole), html_text(whole)


@pytest.mark.parametrize(
    ("name", "many"),
    daily(
        [*product(HOSTILE, (2, 6))],
        [*product(("markup", "direction", "combining", "control"), (2,)), ("columns", 6)],
    ),
)
def test_a_name_is_text_and_nothing_else(name: str, many: int) -> None:
    svg, page = drawings(HOSTILE[name], many)
    plain_svg, plain_page = drawings("x", many)
    # The same elements as with a plain name, in the same order but for the lines of the title.
    drawn = ("rect", "circle", "path", "style", "script", "a", "image")
    found, wanted = ([e.tag for e in elements(s, *drawn)] for s in (svg, plain_svg))
    assert found == wanted
    assert tags(page) == tags(plain_page)
    for text in (svg, page):
        text.encode()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2028\u2029]", text)
    for line in texts(svg):
        assert not re.search("\u0301{4}", line)
        assert len(line) <= 120


def tags(page: str) -> list[str]:
    return [tag for tag, _ in elements_of(page)]


def test_the_page_allows_its_one_style_and_nothing_else() -> None:
    page = html_text(data("greedy", "cautious", lead=True))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.split("; ") == [
        *("default-src 'none'", f"style-src 'sha256-{digest}'", "base-uri 'none'"),
        "form-action 'none'",
    ]
    assert "script" not in tags(page)
    assert not re.search(r"\s(style|on\w+|src|href)=", page)


def test_the_page_has_a_table_for_each_chart() -> None:
    page = html_text(data("greedy", "cautious", lead=True))
    assert tags(page).count("table") == tags(page).count("svg") == 4


def test_pictures_follow_the_scheme_of_the_reader() -> None:
    for text in (svg_text(data("a", "b")), html_text(data("a", "b"))):
        assert "prefers-color-scheme:dark" in text


def test_bots_without_games_are_drawn() -> None:
    empty = replace(data("a", "b"), bots=[BotFigures("a"), BotFigures("b")], budget_us=0)
    assert "a" in texts(svg_text(empty))
    none = Lead("a", "b", 0.05, 0.05, [])
    assert "no block counts yet" in svg_text(replace(empty, lead=none))


@pytest.mark.parametrize("value", [-1.0, 0.0, 1e-9, 0.5, 1.0])
def test_a_lead_stays_in_its_area(value: float) -> None:
    point = LeadPoint(1, value, max(-1, value - 0.1), min(1, value + 0.1))
    drawn = replace(data("a", "b"), lead=Lead("a", "b", 0.05, 0.05, [point]))
    for element in elements(svg_text(drawn), "path"):
        # The legend has a line of its own.
        if element.get("class") in ("band", "lead", "bound") and element.get("d") != "M0 5 L14 5":
            ys = [float(y) for y in re.findall(r"[ML]?[\d.]+ (-?[\d.]+)", element.get("d", ""))]
            assert 30 <= min(ys) <= max(ys) <= 210


def test_a_short_name_is_whole_and_a_long_one_keeps_its_ends() -> None:
    assert short("greedy", 10) == "greedy"
    cut = short("my_bot.py:Fast,depth=3,safe=0.9", 20)
    assert len(cut) == 20
    assert cut.startswith("my_bot")
    assert cut.endswith("safe=0.9")
    assert short("漢" * 10, 9) == "漢…漢漢"


def test_lines_are_no_longer_than_asked() -> None:
    assert wrapped("one two three four", 9) == ["one two", "three", "four"]
    assert max(map(len, wrapped(f"x {'y' * 100} z", 20))) == 20
    assert wrapped("", 20) == []
