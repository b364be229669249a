"""docs/ladder.md names every command of the ladder with its arguments and options, and no other."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

from deepsea_arena.reports.bots import BotProfile
from deepsea_arena.reports.games import GameLine, GameSeat, GamesPage
from deepsea_arena.reports.standings import Standings
from deepsea_arena.reports.status import LadderStatus
from deepsea_arena.season_close import CheckLine, SeasonCheck, UnforetoldPair
from deepsea_arena.tournaments import TournamentResult
from deepsea_cli.ladder import COMMANDS
from deepsea_cli.ladder import SECTIONS as HEADINGS
from deepsea_cli.ladder import command as group
from helpers.commands import Run

PAGE = (Path(__file__).parents[2] / "docs" / "ladder.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([a-z-]+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def command(name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


def test_every_command_has_a_section_and_no_other() -> None:
    assert list(SECTIONS) == list(COMMANDS)
    for name in COMMANDS:
        assert f"| [`{name}`](#{name}) | " in PAGE


def test_the_help_lists_the_commands_by_section(run: Run) -> None:
    lines = run("ladder", "--help").out.splitlines()
    _, *parts = "\n".join(lines[lines.index("Options:") :]).split("\n\n")
    listed = {
        heading.rstrip(":"): [line.split()[0] for line in rows]
        for heading, *rows in (part.splitlines() for part in parts)
    }
    assert listed == {heading: list(commands) for heading, commands in HEADINGS.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described_and_no_other(name: str) -> None:
    real = {
        option
        for parameter in command(name).params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    # These are described once.
    assert real & {"--store", "--remote"} or name in ("login", "logout", "limits", "make-cert")
    common = {"--store", "--remote", "--verbose", "-v"}
    assert common <= set(re.findall(r"`(-[\w-]+)", PAGE))
    described = set(re.findall(r"^\| `(--[\w-]+)", SECTIONS[name], re.M))
    assert described == real - common


def test_commands_from_afar_are_those_that_the_page_names() -> None:
    line = re.search(r"^(`.*) are also for ladders on other machines", PAGE, re.M)
    assert line is not None
    options = {name: {o for one in command(name).params for o in one.opts} for name in COMMANDS}
    real = {name for name, found in options.items() if {"--remote", "--store"} <= found}
    assert set(re.findall(r"`(\w+)`", line[1])) == real


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_in_the_synopsis(name: str) -> None:
    synopsis = re.search(rf"^deepsea-referee ladder {name}(.*)$", SECTIONS[name], re.M)
    assert synopsis
    for parameter in command(name).params:
        if not isinstance(parameter, click.Argument):
            continue
        words = parameter.make_metavar(click.Context(command(name))).strip("{}[]")
        assert words in synopsis[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_on_one_line_and_in_full(name: str) -> None:
    assert 10 <= len(command(name).get_short_help_str()) <= 70
    assert command(name).help


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bot", BotProfile),
        ("export", GameLine),
        ("export", GameSeat),
        ("games", GamesPage),
        ("standings", Standings),
        ("standings", SeasonCheck),
        ("standings", CheckLine),
        ("standings", UnforetoldPair),
        ("status", LadderStatus),
        ("tournament", TournamentResult),
    ],
)
def test_every_key_of_a_json_document_is_named(name: str, kind: type) -> None:
    assert {field.name for field in fields(kind)} <= set(re.findall(r"`(\w+)`", SECTIONS[name]))
