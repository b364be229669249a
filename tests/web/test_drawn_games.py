"""Recorded games drawn in a real browser: what is drawn agrees with notation and words.

Each preset with each number of seats: a game in every run, and twenty before a release. One page is
loaded; the games are handed to the viewer's own functions on it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page

from deepsea_arena.frames import Frames, Viewer, frames
from deepsea_rules.narration import is_turn
from deepsea_rules.notation import read_position
from deepsea_rules.ruleset import ABOARD, HOME, PRESETS, SEAT_LETTERS, RuleSet
from deepsea_web.assets import LAYOUT, pack, script
from helpers.chromium import visited
from helpers.commands import played, record_of

pytestmark = pytest.mark.slow

TABLES: Final = [(preset, seats) for preset in PRESETS for seats in range(2, 7)]
POSITIONS: Final = 6
"""Positions of each game that are drawn and read back."""
WINDOW: Final = (
    "window.viewer = { LAYOUT: $layout.LAYOUT, ...$dom, ...$notation, ...$scene, ...$views, "
    "...$panels, ...$viewer };"
)


@pytest.fixture(scope="module")
def page(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page with nothing on it but the viewer's functions."""
    path = tmp_path_factory.mktemp("viewer") / "viewer.html"
    reader = Path(__file__).with_name("read_board.js").read_text(encoding="utf-8")
    path.write_text(
        '<!doctype html><meta charset="utf-8"><title>viewer</title>'
        f'<script type="module">{script()}{WINDOW}{reader}</script>',
        encoding="utf-8",
    )
    with visited(chromium, path.as_uri()) as page:
        yield page


# Values cross as JSON: Playwright's own way takes longer than all the drawing.
DRAW = """text => {
    const [shown, positions] = JSON.parse(text);
    const { s, h, build, scene, parsePosition, story } = window.viewer;
    const board = s("svg");
    const drawn = positions.map((text) => {
        board.replaceChildren(...scene(parsePosition(text)).map(build));
        return window.readBoard(board);
    });
    const link = (at, words) => h("a", {}, words);
    const lines = story(shown, link, new Map()).map((line) => line.textContent);
    return JSON.stringify({ drawn, lines });
}"""


@pytest.mark.parametrize("salts", [range(1), pytest.param(range(1, 20), marks=pytest.mark.release)])
def test_what_is_drawn_agrees_with_notation_and_words(page: Page, salts: range) -> None:
    for (preset, seats), salt in product(TABLES, salts):
        game = played(preset, seats, f"drawn {salt}")
        shown = frames(record_of(game))
        positions = chosen(shown)
        done = json.loads(page.evaluate(DRAW, json.dumps([shown, positions])))
        for text, drawn in zip(positions, done["drawn"], strict=True):
            agrees(drawn, text, PRESETS[preset])
        # test_frames compares these words with what `show` prints.
        assert done["lines"] == [
            f"{frame['t']:3} {line}" if is_turn(line) else line
            for frame in shown["frames"]
            for line in frame["say"]
        ]


def chosen(shown: Frames) -> list[str]:
    """Some positions of a game: those that end a dive, the last one, and others between."""
    count = len(shown["frames"])
    ends = [dive["at"] for dive in shown["dives"]]
    spread = [count * part // (POSITIONS - len(ends)) for part in range(POSITIONS - len(ends))]
    return [shown["frames"][index]["p"] for index in sorted({*ends, *spread, count - 1})]


def agrees(drawn: dict[str, Any], text: str, rules: RuleSet) -> None:
    """Compare what was read back from a board with the position as the rules read it."""
    mover = re.search(r"\*([A-F])", text)
    # Whether somebody really has a choice is not a question of what is drawn.
    state, known = read_position(text.replace(" order", " over"), rules)
    spaces = drawn["spaces"]
    assert drawn["air"] == str(state.air)
    assert drawn["bar"] == max(0, state.air)
    assert drawn["dive"] == f"DIVE {state.dive}"
    assert drawn["rope"] == len(spaces) == len(state.trail) - 1
    for number, (space, unit) in enumerate(zip(spaces, state.trail[1:], strict=True), start=1):
        assert space["number"] == str(number)
        assert space["at"] == LAYOUT["spaces"][number - 1]
        is_laid = unit in state.laid
        assert space["blank"] == (not unit)
        assert space["laid"] == is_laid
        single = len(unit) == 1 and not is_laid
        assert space["level"] == space["shape"] == (str(unit.levels[0]) if single else None)
        stack = " ".join(map(str, unit.levels)) if unit and not single else None
        assert space["stack"] == stack
        values = [known[chip] for chip in unit if chip in known]
        whole = unit and len(values) == len(unit)
        assert space["worth"] == (str(sum(values)) if whole else None)
    divers = {diver["letter"]: diver for diver in drawn["divers"]}
    assert sorted(divers) == list(SEAT_LETTERS[: state.players])
    for seat, letter in enumerate(SEAT_LETTERS[: state.players]):
        diver, place = divers[letter], state.place[seat]
        if place > ABOARD:
            x, y = LAYOUT["spaces"][place - 1]
            assert diver["at"] == [x, y - 46]
        else:
            assert diver["at"] == LAYOUT["portholes"][seat]
        home = f"home {state.home_order.index(seat) + 1}" if place == HOME else None
        assert diver["home"] == home
        heading = None if place == HOME else "home" if state.homeward[seat] else "down"
        assert diver["heading"] == heading
        assert diver["barred"] == state.barred[seat]
        assert diver["moves"] == (mover is not None and mover[1] == letter)


UNPACK = """text => {
    const [all, packed] = JSON.parse(text);
    return JSON.stringify(window.viewer.unpack(all, packed));
}"""


@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_page_holds_in_short_is_what_each_seat_saw(page: Page, preset: str) -> None:
    for seats in (2, 3, 6):
        game = played(preset, seats, "packed")
        record = record_of(game)
        everything = frames(record)
        viewers: list[Viewer] = ["watcher", *range(seats)]
        for viewer in viewers:
            seen = frames(record, viewer)
            packed = pack(everything, seen)
            assert packed["p"] == {}  # nothing needs to be written in full
            part = json.loads(page.evaluate(UNPACK, json.dumps([everything, packed])))
            for key in ("p", "t", "d", "dice"):
                assert [one[key] for one in part["frames"]] == [
                    dict(one)[key] for one in seen["frames"]
                ]
            # What a seat did not learn of others' faults comes at the end; a page has it all.
            assert [one["say"] for one in part["frames"]][:-1] == [
                one["say"] for one in seen["frames"]
            ][:-1]
            assert part["dives"] == seen["dives"]
            kinds = ("lead", "back", "home", "drowned")
            assert [mark for mark in part["marks"] if mark["kind"] in kinds] == [
                mark for mark in seen["marks"] if mark["kind"] in kinds
            ]


def test_the_picture_in_the_docs_is_the_one_that_is_drawn() -> None:
    tool = Path(__file__).parents[2] / "tools" / "gen_picture.py"
    command = (sys.executable, tool, "--check")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
