"""`explain`: what it takes for a step, what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import NO_TREASURE_NO_ENTRY, OUT_FOR_THIS_DIVE
from helpers.commands import Run, one_line
from helpers.positions import opening

AT_SEA = "1 1 x 2 [12] {34} | *A3v:1 B5v | d2 a17"


def explained(run: Run, *arguments: object) -> dict[str, Any]:
    done = run("explain", *arguments, "--json")
    assert (done.status, done.err) == (0, "")
    data = json.loads(done.out)
    assert list(data) == ["position", "legal", "events", "phase", "to_move"]
    assert isinstance(data, dict)
    return data


def test_a_position_alone_is_printed_with_what_is_legal(run: Run) -> None:
    assert explained(run, AT_SEA) == {
        "position": AT_SEA,
        "legal": ["down", "back"],
        "events": [],
        "phase": "declare",
        "to_move": 0,
    }
    assert run("explain", AT_SEA).out == f"position  {AT_SEA}\nlegal     A: down back\n"


@pytest.mark.parametrize(
    "steps", [("down", "r2+2", "take"), ("down r2+2 take",), ("down r2+2", "take"), ("r2+2 take",)]
)
def test_steps_may_be_one_argument_or_many(run: Run, steps: tuple[str, ...]) -> None:
    data = explained(run, AT_SEA, *steps)
    assert data["position"] == "1 1 x 2 [12] x | A6v:1,[34] *B5v | d2 a16"
    assert data["events"] == [
        {
            "event": "turn",
            "dive": 2,
            "seat": 0,
            "declare": "down",
            "dice": [2, 2],
            "from_space": 3,
            "to_space": 6,
            "home": False,
            "search": "take",
            "air": 16,
        }
    ]
    assert (data["phase"], data["to_move"]) == ("declare", 1)


def test_before_the_dice_the_legal_steps_are_rolls(run: Run) -> None:
    rolls = ["r2", "r3", "r4", "r5", "r6"]
    declared = explained(run, AT_SEA, "back")
    assert (declared["phase"], declared["legal"]) == ("roll", rolls)
    # Who has turned back has nothing to declare.
    assert explained(run, "1 1 1 | *A2^:1 B0v | d1 a9")["legal"] == rolls


@pytest.mark.parametrize("preset", PRESETS)
def test_a_roll_without_a_declaration_keeps_the_way(run: Run, preset: str) -> None:
    data = explained(run, AT_SEA, "r4", "--rules", preset)
    assert "A6v:1" in data["position"]


def test_a_roll_without_a_declaration_turns_who_has_to_turn(run: Run) -> None:
    position = f"{opening()} | *A32v B0v | d1 a25"
    data = explained(run, position, "r4", "leave", "--rules", "guide")
    assert "A28^" in data["position"]
    assert data["events"][0]["declare"] == "back"


@pytest.mark.parametrize(
    ("diver", "rules", "moved"),
    [
        ("A2^", "reference", f"from 2 to 1: {NO_TREASURE_NO_ENTRY}"),
        ("A2^", "revised", f"from 2 to 1: {NO_TREASURE_NO_ENTRY}"),
        ("A2^!:1", "revised", f"from 2 to 1: {OUT_FOR_THIS_DIVE}"),
        ("A6^", "revised", "from 6 to 1"),
    ],
)
def test_who_is_kept_out_of_the_submarine_is_told_the_rule(
    run: Run, diver: str, rules: str, moved: str
) -> None:
    done = run("explain", f"1 1 1 1 2 2 | *{diver} B3v | d1 a25", "r4", "--rules", rules)
    assert f"r4        A▲ moves {moved}\n" in done.out


def test_leave_may_be_left_out_where_nothing_else_is_legal(run: Run) -> None:
    left_out = explained(run, "x x x x x 1 | *A0v B0v | d1 a25", "r2 r3 r2")
    assert left_out == explained(run, "x x x x x 1 | *A0v B0v | d1 a25", "r2 leave r3 leave r2")
    assert run("explain", "1 1 1 1 1 1 | *A0v B0v | d1 a25", "r2 r3").status == 1


def test_nothing_is_left_out_at_the_end(run: Run) -> None:
    data = explained(run, "x x x x x 1 | *A0v B0v | d1 a25", "r2")
    assert (data["phase"], data["legal"]) == ("search", ["leave"])


def test_the_order_of_stranded_cargo_is_a_step(run: Run) -> None:
    data = explained(run, "x 2 x x | *A2^:1,2,3,4 Bh | d1 a4", "r2 leave order:4,3,2,1")
    assert data["position"].startswith("2 {432} {1} |")
    assert [event["event"] for event in data["events"]] == ["turn", "cleanup", "dive"]


def test_a_dive_that_begins_to_be_cleaned_up_says_why_it_ended(run: Run) -> None:
    position = "1 1 1 2 2 3 | *A3^:1,2,3,4 B5v:1,2 | d1 a0 order"
    assert "dive 1 ends: the air ran out" in run("explain", position, "order:1,2,3,4").out
    cleanup, _ = explained(run, position, "order:1,2,3,4")["events"]
    assert (cleanup["event"], cleanup["reason"]) == ("cleanup", "air")


def test_the_end_of_a_game_is_an_event_and_nobody_is_to_move(run: Run) -> None:
    data = explained(run, "1=2 1 | *A1^:4=13 Bh | d3 a9", "r4")
    assert (data["phase"], data["to_move"], data["legal"]) == ("over", None, [])
    end = data["events"][-1]
    assert (end["event"], end["points"], end["placements"]) == ("end", [13, 0], [1, 2])
    assert "over      A 13, B 0\n" in run("explain", "1 | *A1^:4=13 Bh | d3 a9", "r4").out


def test_values_are_shown_if_they_are_public_or_were_written(run: Run) -> None:
    assert explained(run, "1=2 3 | *A0v B0v/4=12 | d2 a25")["position"].startswith("1=2 3 |")
    banked = explained(run, "1 | *A1^:2 Bh | d1 a9", "r4")["events"][1]["banked"]
    assert [text[:2] for text in banked["A"]] == ["2="]
    secret = explained(run, "1 | *A1^:2 Bh | d1 a9", "r4", "--rules", "guide")
    assert secret["events"][1]["banked"]["A"] == ["2"]


def test_a_seed_deals_what_is_not_written(run: Run) -> None:
    def scores(seed: str) -> list[int]:
        events = explained(run, "1 | *A1^:4,4,4 Bh | d3 a9", "r6", "--seed", seed)["events"]
        found = events[-1]["points"]
        assert isinstance(found, list)
        return found

    assert scores("one") == scores("one")
    assert len({tuple(scores(str(seed))) for seed in range(20)}) > 1


def test_the_rules_may_come_from_a_file(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "house.toml"
    rules.write_text('name = "house"\nbase = "manual"\n[options]\nturn_needs_treasure = false\n')
    empty = "1 1 1 | *A2v B0v | d1 a25"
    assert explained(run, empty)["legal"] == ["down"]
    assert explained(run, empty, "--rules", rules)["legal"] == ["down", "back"]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("take", "take is not legal"),
        ("down down", "down is not legal"),
        ("r3 r3", "no roll is due"),
        ("r4 drop:1", "drop:1 is not legal"),
        ("order:1,2", "order:1,2 is not legal"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_illegal_step_is_a_negative_answer(
    run: Run, steps: str, reason: str, form: tuple[str, ...]
) -> None:
    done = run("explain", AT_SEA, steps, *form)
    assert done.status == 1
    line = one_line(done.err)
    assert reason in line
    assert " | d2 a1" in line  # the position in which it was refused
    assert not form or done.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("1 1 1 | *A9v B0v | d1 a25",),
        (AT_SEA, "jump"),
        (AT_SEA, "r7"),
        (AT_SEA, "r1+5"),
        (AT_SEA, "-1"),
        (AT_SEA, "-"),
        (AT_SEA, "take", "jump"),  # said before the first step is made
        (AT_SEA, "--jsn"),
        (AT_SEA, "--rules", "manul"),
        (AT_SEA, "--rules", "no_such_file.toml"),
        (),
    ],
)
def test_bad_input_costs_one_line(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("explain", *arguments).refusal


def test_what_looks_like_a_negative_number_is_no_option(run: Run) -> None:
    assert "'-1' is no action" in run("explain", AT_SEA, "-1").err
    over_the_edge = explained(run, "1 1 1 | *A2v:1 B0v | d1 a-1 search", "leave")
    assert over_the_edge["events"][0]["air"] == -1
