"""`rules`: the table says what the presets are, and marks where they differ."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deepsea_rules.ruleset import DEFAULT, OPTIONS, PRESETS
from helpers.commands import Run


def word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def test_the_table_has_a_mark_for_every_preset_and_option(run: Run) -> None:
    done = run("rules")
    assert done.status == 0
    head, *lines = done.out.splitlines()
    assert head.split() == list(PRESETS)
    option, starred, seen = "", False, set()
    for line in lines:
        if match := re.fullmatch(r"([* ]) (\w+)", line):
            starred, option = match[1] == "*", match[2]
            values = {getattr(rules, option) for rules in PRESETS.values()}
            assert starred == (len(values) > 1), option
        elif match := re.fullmatch(r"    (\w+)\s+([●·](?:\s+[●·])*)", line):
            marks = dict(zip(PRESETS, match[2].split(), strict=True))
            for name, rules in PRESETS.items():
                assert (marks[name] == "●") == (word(getattr(rules, option)) == match[1])
            seen |= {(option, name) for name, mark in marks.items() if mark == "●"}
    assert seen == {(option.name, name) for option in OPTIONS for name in PRESETS}


@pytest.mark.parametrize("arguments", [(), *((name,) for name in PRESETS)])
def test_it_fits_sixty_columns(
    run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("rules", *arguments).out.splitlines()
    assert max(map(len, lines)) <= 60
    if not arguments:
        assert lines[0].split() == [name[:3] for name in PRESETS]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_explained_option_by_option(run: Run, name: str) -> None:
    lines = [line[2:].split() for line in run("rules", name).out.splitlines()]
    for option in OPTIONS:
        assert [option.name, word(getattr(PRESETS[name], option.name))] in lines


def test_json_has_everything_in_one_document(run: Run) -> None:
    data = json.loads(run("rules", "--json").out)
    assert data["default"] == DEFAULT
    assert data["presets"] == {name: rules.options() for name, rules in PRESETS.items()}
    assert [option["name"] for option in data["options"]] == [option.name for option in OPTIONS]
    differing = {option["name"] for option in data["options"] if option["differs"]}
    assert differing == {option.name for option in OPTIONS} - {"drop_order", "first_player"}
    guide = json.loads(run("rules", "guide", "--json").out)
    assert guide == {"name": "guide", "options": PRESETS["guide"].options()}


def test_a_rule_set_of_ones_own_is_explained_too(run: Run, tmp_path: Path) -> None:
    house = tmp_path / "house.toml"
    house.write_text('name = "house"\nbase = "guide"\n[options]\nblank_count = 99\n')
    data = json.loads(run("rules", house, "--json").out)
    assert data["name"] == "house"
    assert data["options"] == {**PRESETS["guide"].options(), "blank_count": 99}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("manul", "did you mean 'manual'"),
        ("nothing.toml", "nothing.toml: cannot be read"),
        (".", "cannot be read"),
        ("./", "cannot be read"),
    ],
)
def test_unknown_rules_cost_one_line(run: Run, text: str, said: str) -> None:
    assert said in run("rules", text).refusal


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = ", "not a TOML file"),
        (b"name = " + b"1" * 5000, "not a TOML file"),
        (b"name = " + b"[" * 5000, "not a TOML file"),
        (b"\xff\xfe", "is not a text file"),
        (b"[options]\nstarter = 3", "starter is one of"),
        (b"[options]\nforced_turn = 'when_cannot_advance'", "turn_needs_treasure"),
        (b"#" * (4 * 1024 * 1024 + 1), "is this the right file?"),
    ],
)
def test_a_bad_file_is_named(run: Run, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    line = run("rules", path).refusal
    assert said in line
    assert str(path) in line
