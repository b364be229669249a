"""Every hint can be followed: the commands, options, pages and names in messages exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deepsea_ladder.errors import PairingError
from deepsea_ladder.pairing import Candidate, choose
from deepsea_ladder.season import SeasonSettings
from deepsea_referee.workbench.advice import ladder_remedy
from deepsea_rules.faults import REMEDIES, Fault
from deepsea_rules.view import View
from deepsea_sdk import Bot
from helpers.commands import every_command

ROOT = Path(__file__).parents[2]
OWN_OPTIONS = [
    ROOT / place
    for place in (
        *("bench", "tools", "referee/deepsea_referee/sandbox"),
        "sdk/deepsea_sdk/train.py",
    )
]
"""Places whose texts have options of other programs: those in them, or those that they start."""
SOURCES = [
    path
    for folder in (*ROOT.glob("*/deepsea_*"), ROOT / "bench", ROOT / "tools")
    for path in sorted(folder.rglob("*"))
    if path.suffix in (".py", ".html", ".js") and "_pb" not in path.parts
]
ALL = [*REMEDIES.values(), *(ladder_remedy(fault, "100ms+2s") for fault in Fault)]


def options(command: click.Command) -> set[str]:
    return {name for found in command.params for name in (*found.opts, *found.secondary_opts)}


COMMANDS = every_command()
OPTIONS = {name for command in COMMANDS.values() for name in options(command)}
OPTIONS |= {"--help", "--version"}
OPTIONS |= {"--prefix"}  # npm's, in what `new --language node` prints


def messages(path: Path) -> Iterator[str]:
    """The texts of a program that people may read, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in described:
            yield str(node.value)


def test_each_fault_has_a_remedy_for_both_places() -> None:
    assert set(REMEDIES) == set(Fault)
    assert all(ladder_remedy(fault, "1s") for fault in Fault)


@pytest.mark.parametrize("text", sorted(set(ALL)))
def test_what_a_remedy_names_is_there(text: str) -> None:
    for name in re.findall(r"\bself\.(\w+)", text):
        assert hasattr(Bot, name)
    for name in re.findall(r"\bview\.(\w+)", text):
        assert hasattr(View, name)
    for page in re.findall(r"\bdocs/\S+\.md", text):
        assert (ROOT / page).is_file()
    assert set(re.findall(r"--[a-z-]+", text)) <= options(COMMANDS["check"])
    # `check` and `submit` keep no record that these could show.
    assert not re.search(r"`(show|debug)`", text)


def test_too_few_authors_name_an_option_of_seasons() -> None:
    season = SeasonSettings(name="s1", seats=(2,))
    same = [Candidate(bot, "anna", season.rating.newcomer) for bot in (1, 2)]
    with pytest.raises(PairingError) as error:
        choose(same, season.seats, season.pairing, season.rating, 1, b"")
    (option,) = re.findall(r"--[a-z-]+", str(error.value))
    assert option in options(COMMANDS["ladder season"]) & options(COMMANDS["ladder init"])


@pytest.mark.parametrize("fault", Fault)
def test_on_a_ladder_nobody_is_told_to_choose_a_clock(fault: Fault) -> None:
    assert "--" not in ladder_remedy(fault, "100ms+2s")


def test_commands_and_options_in_messages_exist() -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".py":
            followed(text, path)
            continue
        try:  # with docstrings, and texts of several parts as one: quicker than to parse it
            followed(re.sub(r"""(["'])\s*\n\s*f?\1""", "", text), path)
        except AssertionError:
            for message in messages(path):
                followed(message, path)


def followed(text: str, path: Path) -> None:
    for inner in re.findall(r"(?:deepsea-referee |`)ladder ([a-z-]+)", text):
        assert f"ladder {inner}" in COMMANDS, f"{path}: {text}"
    for outer in re.findall(r"(?:`|<code>|run |try: )deepsea-referee ([a-z]+)\b", text):
        assert outer in COMMANDS, f"{path}: {text}"
    if path.suffix != ".py":  # style sheets and SVG have names that look like options
        text = "\n".join(re.findall(r"deepsea-referee [^<\n]*", text))
    if not any(path.is_relative_to(folder) for folder in OWN_OPTIONS):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
            assert option in OPTIONS, f"{path}: {text}"
