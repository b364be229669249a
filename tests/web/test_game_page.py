"""The self-contained page and its parts, without a browser: what is in the file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from itertools import product

import pytest

from deepsea_arena.frames import frames
from deepsea_rules import narration
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import PRESETS
from deepsea_web.assets import MODULES, PageGame, game_page, script, styles
from helpers.commands import faulty, played, record_of
from helpers.pages import DAILY, HOSTILE, hostile_record
from helpers.tiers import daily


def page_of(*records: GameRecord, note: str = "") -> str:
    games = [
        PageGame.of_record(record, f"game-{index:04}.json") for index, record in enumerate(records)
    ]
    return "".join(game_page(games, note))


class Parsed(HTMLParser):
    """The elements of a page, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag if tag in self.inside else ""
        if self._open:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open][-1] += data


def test_the_policy_allows_this_script_and_this_style_and_nothing_else() -> None:
    parsed = Parsed(page_of(record_of(faulty())))
    policy = next(a["content"] for tag, a in parsed.tags if a.get("http-equiv"))
    assert policy is not None
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    data, program = parsed.inside["script"]
    assert json.loads(data)["frames"]["v"] == 1
    assert directives.pop("script-src") == digest(program)
    assert directives.pop("style-src") == digest(parsed.inside["style"][0])
    assert directives == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_nothing_is_loaded_and_nothing_is_inline() -> None:
    parsed = Parsed(page_of(record_of(played()), record_of(faulty())))
    for tag, attributes in parsed.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        for name, value in attributes.items():
            assert name not in ("src", "style")
            assert not name.startswith("on")
            assert name != "href" or str(value).startswith("#")
    assert "url(" not in styles()
    assert "@import" not in styles()
    assert not re.search(
        r"\binnerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script()
    )


def test_the_script_is_one_module_made_of_all_the_others() -> None:
    found = {file.name for file in files("deepsea_web").joinpath("viewer").iterdir()}
    assert {name.removesuffix(".js") for name in found if name.endswith(".js")} == set(MODULES)
    assert "import " not in script().replace("// import", "")
    assert "</script" not in script()
    assert re.findall(r"^export .*", script(), re.M) == [
        "export const { h } = $dom;",
        "export const { mount } = $viewer;",
        "export const { start } = $page;",
        "export const { draw, emptyBoard, glide } = $board;",
        "export const { parsePosition } = $notation;",
        "export const { seats, spoken } = $panels;",
    ]


@pytest.mark.parametrize(
    ("preset", "salt"), daily([*product(PRESETS, "abcdef")], [("manual", "a"), ("guide", "a")])
)
def test_a_page_of_six_seats_is_small(preset: str, salt: str) -> None:
    record = record_of(played(preset, 6, salt))
    slow = tuple(decision._replace(us=123_456) for decision in record.decisions)
    # A game of more decisions than most has longer to tell.
    kibibytes = 130 + max(0, len(record.decisions) - 100)
    assert len(page_of(replace(record, decisions=slow)).encode()) <= kibibytes * 1024


def test_without_javascript_it_is_the_story() -> None:
    game = faulty()
    record = record_of(game)
    text = page_of(record)
    story = text[text.index("<main>") : text.index("</main>")]
    for moment in narration.moments(game):
        for line in moment.lines:
            assert line.strip() in story
    for dive in frames(record)["dives"]:
        assert all(row["say"] in story for row in dive["seats"])
    assert "deepsea-referee verify game-0000.json" in story


def test_a_page_of_many_games_lists_them_and_says_what_is_left_out() -> None:
    records = [record_of(played(salt=salt)) for salt in "abc"]
    text = page_of(*records, note="the first 3 of 9 games")
    assert text.count('class="ds-game"') == 3
    assert text.count("data-game=") >= 3
    assert "the first 3 of 9 games" in text


@cache
def plain_tags() -> list[str]:
    return [tag for tag, _ in Parsed(page_of(record_of(faulty()))).tags]


@pytest.mark.parametrize("text", daily(HOSTILE, DAILY[::2]))
def test_untrusted_texts_stay_texts(text: str) -> None:
    record = hostile_record(text)
    page = page_of(record)
    parsed = Parsed(page)
    assert [tag for tag, _ in parsed.tags] == plain_tags()
    data = parsed.inside["script"][0]
    assert not re.search("[<\u2028\u2029]", data)
    assert json.loads(data)["record"] == record.to_json()
    # Directions are changed and terminals written to only where the record itself is kept.
    shown = page.replace(data, "")
    assert "\u202e" not in shown
    assert "\x1b" not in shown
