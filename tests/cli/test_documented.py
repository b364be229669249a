"""docs/cli.md and docs/ladder.md name every command, argument and option, and no other.

Examples print what the pages say.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from msgspec import Struct

from deepsea_arena.bots import BotProfile
from deepsea_arena.games import GamesPage
from deepsea_arena.standings import Standings
from deepsea_arena.status import LadderStatus
from deepsea_arena.tournament_run import TournamentResult
from deepsea_cli import COMMANDS
from deepsea_cli.ladder import COMMANDS as LADDER
from deepsea_cli.ladder import SECTIONS as HEADINGS
from deepsea_cli.ladder.authors import VERBS
from deepsea_ladder.model import GameLine, GameSeat
from helpers.commands import Run, every_command

DOCS = Path(__file__).parents[2] / "docs"
PAGE, LADDER_PAGE = ((DOCS / name).read_text(encoding="utf-8") for name in ("cli.md", "ladder.md"))
EXAMPLES = re.findall(r"^\$ deepsea-referee (.+)\n((?:(?!```).+\n)+)", PAGE, re.M)
LADDER_COMMANDS = [
    *(name for name in LADDER if name != "author"),
    *(f"author {verb}" for verb in VERBS),
]
ALL = every_command()
COMMON = {"--store", "--remote", "--verbose", "-v"}
"""Options of the ladder's commands that are described once."""


def sections(page: str) -> dict[str, str]:
    return dict(re.findall(r"^## ([a-z -]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))


def every() -> Iterator[tuple[str, str]]:
    for name in COMMANDS:
        yield name, sections(PAGE).get(name, "")
    for name in LADDER_COMMANDS:
        yield f"ladder {name}", sections(LADDER_PAGE).get(name, "")  # missing: see below


EVERY = pytest.mark.parametrize(
    ("name", "section"), [pytest.param(*one, id=one[0]) for one in every()]
)


def options(name: str) -> set[str]:
    found = [one for one in ALL[name].params if isinstance(one, click.Option)]
    return {option for one in found for option in one.opts} - {"--help-all"}  # described once


def test_every_command_has_a_section_and_no_other() -> None:
    assert sorted(sections(PAGE)) == sorted(COMMANDS)
    assert sorted(sections(LADDER_PAGE)) == sorted(LADDER_COMMANDS)
    assert all(f"[`{name}`](#{name})" in PAGE for name in COMMANDS)
    for name in LADDER_COMMANDS:
        assert f"| [`{name}`](#{name.replace(' ', '-')}) | " in LADDER_PAGE


def test_the_help_lists_the_commands_by_section(run: Run) -> None:
    lines = run("ladder", "--help").out.splitlines()
    _, *parts, _examples = "\n".join(lines[lines.index("Options:") :]).split("\n\n")
    listed = {
        heading.rstrip(":"): [line.split()[0] for line in rows]
        for heading, *rows in (part.splitlines() for part in parts)
    }
    assert listed == {heading: list(commands) for heading, commands in HEADINGS.items()}


@EVERY
def test_every_option_is_described_and_no_other(name: str, section: str) -> None:
    real = options(name)
    if name.startswith("ladder "):
        assert real & COMMON or name.split()[-1] in ("login", "logout", "limits", "make-cert")
        real -= COMMON
    assert set(re.findall(r"^\| `(--[\w-]+)", section, re.M)) == real


@EVERY
def test_every_argument_is_in_the_synopsis(name: str, section: str) -> None:
    synopsis = re.search(rf"^deepsea-referee {name}(.*)$", section, re.M)
    assert synopsis
    for one in ALL[name].params:
        if isinstance(one, click.Argument):
            words = one.make_metavar(click.Context(ALL[name])).strip("{}[].")
            assert words in synopsis[1]


@pytest.mark.parametrize("name", LADDER_COMMANDS)
def test_every_command_of_the_ladder_has_help_on_one_line_and_in_full(name: str) -> None:
    found = ALL[f"ladder {name}"]
    assert 10 <= len(found.get_short_help_str()) <= 70
    assert found.help


def test_commands_from_afar_are_those_that_the_page_names() -> None:
    line = re.search(r"^(`.*) are also for ladders on other machines", LADDER_PAGE, re.M)
    assert line is not None
    real = {
        name for name in LADDER_COMMANDS if {"--remote", "--store"} <= options(f"ladder {name}")
    }
    assert set(re.findall(r"`([\w ]+)`", line[1])) == real


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bot", BotProfile),
        ("export", GameLine),
        ("export", GameSeat),
        ("games", GamesPage),
        ("standings", Standings),
        ("status", LadderStatus),
        ("tournament", TournamentResult),
    ],
)
def test_every_key_of_a_json_document_is_named(name: str, kind: type[Struct]) -> None:
    named = set(re.findall(r"`(\w+)`", sections(LADDER_PAGE)[name]))
    assert set(kind.__struct_fields__) <= named


def test_the_options_of_the_program_and_common_ones_are_named() -> None:
    assert all(option in PAGE for option in ("--version", "-h", "--help", "--help-all"))
    assert set(re.findall(r"`(-[\w-]+)", LADDER_PAGE)) >= COMMON


@pytest.mark.parametrize(
    ("line", "output"),
    [example for example in EXAMPLES if example[0].startswith(("explain", "rules"))],
)
def test_examples_print_what_the_page_says(run: Run, line: str, output: str) -> None:
    line, _, head = line.partition(" | head -")
    done = run(*shlex.split(line))
    lines = (done.out + done.err).splitlines()
    assert lines[: int(head or len(lines))] == output.splitlines()


def test_there_are_examples() -> None:
    assert {line.split()[0] for line, _ in EXAMPLES} == set(COMMANDS)
