"""docs/cli.md names every command and option, and its examples are what the program prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from deepsea_cli import COMMANDS, main
from helpers.commands import Run

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
EXAMPLES = re.findall(r"^\$ deepsea-referee (.+)\n((?:(?!```).+\n)+)", PAGE, re.M)


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def test_every_command_has_a_section_and_no_other() -> None:
    assert list(SECTIONS) == list(COMMANDS)
    for name in COMMANDS:
        assert f"[`{name}`](#{name})" in PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described_and_no_other(name: str) -> None:
    real = {
        option
        for parameter in command(name).params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    described = set(re.findall(r"^\| `(--[\w-]+)", SECTIONS[name], re.M))
    assert described == real


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_in_the_synopsis(name: str) -> None:
    synopsis = re.search(rf"^deepsea-referee {name} (.*)$", SECTIONS[name], re.M)
    assert synopsis
    for parameter in command(name).params:
        if isinstance(parameter, click.Argument):
            assert parameter.human_readable_name in synopsis[1].replace("[NAME]", "NAME")


@pytest.mark.parametrize("option", ["--version", "-h", "--help"])
def test_the_options_of_the_program_are_named(option: str) -> None:
    assert option in PAGE


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
