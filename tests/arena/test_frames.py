"""Frames: what a viewer draws is the game, in the terminal's words, as each seat knew it then."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_arena.frames import Frames, Viewer, frames, frames_of, replay
from deepsea_referee.workbench.replay import Replay
from deepsea_rules import narration
from deepsea_rules.actions import LEVEL_OF
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.notation import parse_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.view import known_values
from helpers.commands import Run, faulty, played, record_of, written
from helpers.games import Chooser, choosers, play_out, players, rule_sets, salts
from helpers.pages import HOSTILE, saying
from helpers.tiers import daily

WATCHER: Viewer = "watcher"


def said(shown: Frames) -> list[str]:
    return [line for frame in shown["frames"] for line in frame["say"]]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seats", daily([2, 4, 6], [4]))
def test_the_words_are_those_of_the_terminal(
    run: Run, tmp_path: Path, preset: str, seats: int
) -> None:
    game = played(preset, seats)
    story = run("show", written(tmp_path, game)).out.splitlines()[1 + seats :]
    words = [re.sub(r"^ *\d+ (?=[A-F][▼▲])", "", line).strip() for line in story]
    assert [line.strip() for line in said(frames(record_of(game)))] == words


@given(rules=rule_sets, seats=players, salt=salts, chooser=choosers)
@settings(max_examples=6)
def test_at_each_decision_a_seat_sees_what_the_bot_saw(
    rules: RuleSet, seats: int, salt: str, chooser: Chooser
) -> None:
    record = record_of(play_out(Game(rules, seats, seed_from_text(salt)), chooser))
    known = replay(record)
    for seat in range(seats):
        shown = frames_of(known, seat)
        for moment in Replay(record, seat).moments():
            row = shown["decisions"][moment.number]
            assert (row["seat"], row["kind"]) == (seat, moment.view.kind)
            position = shown["frames"][row["at"]]["p"]
            # Several seats may be asked for their orders at the end of a dive: one frame for all.
            if row["kind"] != "order" or f"*{'ABCDEF'[seat]}" in position:
                assert position.split(" | ")[2] == str(moment.view).split(" | ")[2]
            if row["kind"] != "order":
                assert position == str(moment.view)


@given(rules=rule_sets, seats=players, salt=salts, chooser=choosers, level=st.integers(1, 4))
@settings(max_examples=4)
def test_a_value_changes_nothing_before_the_viewer_learns_it(
    rules: RuleSet, seats: int, salt: str, chooser: Chooser, level: int
) -> None:
    record = record_of(play_out(Game(rules, seats, seed_from_text(salt)), chooser))
    known = replay(record)
    game = known.game
    values = list(game.state.values)
    chips = [chip for chip in range(1, 33) if LEVEL_OF[chip] == level]
    lowest, highest = min(chips, key=values.__getitem__), max(chips, key=values.__getitem__)
    values[lowest], values[highest] = values[highest], values[lowest]
    other = replay_with(record, tuple(values))
    for viewer in (WATCHER, *range(seats)):
        one, two = (frames_of(source, viewer) for source in (known, replace(known, game=other)))
        seat = viewer if isinstance(viewer, int) else None
        knowing = narration.moments(game, partial(known_values, viewer=seat))
        learns = next(
            (
                index
                for index, moment in enumerate(knowing)
                if moment.known.keys() & {lowest, highest}
            ),
            len(one["frames"]),
        )
        assert one["frames"][:learns] == two["frames"][:learns]
        assert one["decisions"] == two["decisions"]
        for key in ("marks", "dives"):
            before, after = (
                [entry for entry in shown[key] if entry["at"] < learns] for shown in (one, two)
            )
            assert before == after


def replay_with(record: GameRecord, values: tuple[int, ...]) -> Game:
    """The same decisions and dice with other values."""
    game = Game(record.rules, len(record.seats), record.seed)
    game.state.values = values
    for decision in record.decisions:
        assert game.pending()
        game.decide(decision.action)
    assert game.pending() is None
    return game


@pytest.mark.parametrize(("seats", "kilobytes"), daily([(2, 30), (4, 45), (6, 60)], [(6, 60)]))
def test_frames_are_small(seats: int, kilobytes: int) -> None:
    for preset in PRESETS:
        for salt in "ab":
            shown = frames(record_of(played(preset, seats, salt)))
            text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            assert len(text.encode()) <= kilobytes * 1024


@pytest.mark.parametrize("preset", daily(PRESETS, ["publisher", "reference"]))
def test_every_frame_is_a_position(preset: str) -> None:
    for viewer in (None, WATCHER, 0):
        for frame in frames(record_of(played(preset, 4)), viewer)["frames"]:
            text = frame["p"]
            if not text.endswith(" order"):
                assert str(parse_position(text, PRESETS[preset])).count("|") == 2


def test_a_dive_that_ends_is_seen_before_it_is_cleaned_up() -> None:
    shown = frames(record_of(played(players=4)))
    assert [dive["dive"] for dive in shown["dives"]] == [1, 2, 3]
    for dive in shown["dives"]:
        position = shown["frames"][dive["at"]]["p"]
        for row in dive["seats"]:
            diver = position.split(" | ")[1].split()[row["seat"]].lstrip("*")
            if row["home"]:
                assert diver[1:].startswith(f"h{row['home']}")
                assert row["say"].startswith("came home")
            else:
                assert diver[1:].startswith(f"{row['space']}")
                cargo = diver.partition("/")[0].partition(":")[2]
                assert "".join(row["chips"]).translate(BARE) == re.sub("=[0-9]+|[],[]", "", cargo)
                assert ("drowned" in row["say"]) == bool(cargo)


BARE = str.maketrans("", "", "[]")


def test_faults_say_what_was_asked_and_what_came() -> None:
    record = record_of(faulty())
    shown = frames(record)
    wrong = [row for row in shown["decisions"] if row["fault"]]
    assert [row["fault"] for row in wrong] == ["timeout"] * 3
    assert all(row["came"] == "no answer" and len(row["asked"]) > 1 for row in wrong)
    assert [mark["seat"] for mark in shown["marks"] if mark["kind"] == "fault"] == [1, 1, 1]
    assert shown["result"]["forfeits"][0]["seat"] == 1
    # A watcher does not get what a bot sent, and another seat not even that something came.
    assert not any("came" in row for row in frames(record, WATCHER)["decisions"])
    other = frames(record, 0)
    assert not any(row["fault"] for row in other["decisions"])
    assert all((row["us"] is None) == (row["seat"] != 0) for row in other["decisions"])
    assert "no answer" not in json.dumps(other)


def test_the_bank_of_time_is_counted_down() -> None:
    record = record_of(faulty())
    slow = [one._replace(us=150_000) if one.seat == 0 else one for one in record.decisions]
    shown = frames(replace(record, decisions=tuple(slow)))
    assert (shown["budget"], shown["bank"]) == (100_000, 2_000_000)
    banks = [row["bank"] for row in shown["decisions"] if row["seat"] == 0]
    assert banks[:3] == [1_950_000, 1_900_000, 1_850_000]
    assert any(mark["kind"] == "slowest" for mark in shown["marks"])


def test_a_record_that_a_run_does_not_give_has_no_frames() -> None:
    record = record_of(played())
    with pytest.raises(InvalidRecord, match=r"result\.points"):
        frames(replace(record, points=tuple(point + 1 for point in record.points)))


@pytest.mark.parametrize("text", HOSTILE[1:7])
def test_untrusted_texts_are_printable_and_short(text: str) -> None:
    shown = frames(replace(saying(record_of(faulty()), text), game_id=text))
    for part in (shown["id"], *said(shown), *(seat["name"] for seat in shown["seats"])):
        assert part.isprintable()
        assert len(part) <= 400
