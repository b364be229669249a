"""Help: examples that can be typed, options that only `--help-all` lists; completion in shells."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from deepsea_cli import main
from deepsea_cli.lazy import EXAMPLES, RARE
from helpers.commands import Run, environment, every_command
from helpers.tools import require

ALL = every_command()
LINES = [(words, line) for words, lines in EXAMPLES.items() for line in lines]


def test_every_command_has_examples_and_no_other() -> None:
    assert set(EXAMPLES) == set(ALL)
    assert all(1 <= len(lines) <= 3 for lines in EXAMPLES.values())


@pytest.mark.parametrize(("words", "line"), LINES)
def test_every_example_can_be_typed(run: Run, words: str, line: str) -> None:
    called = f"deepsea-referee {words} {line}".replace("  ", " ").strip()
    assert f"\n    {called}\n" in run(*words.split(), "--help").out
    command: click.Command = main
    context: click.Context | None = None
    name, *rest = [*words.split(), *shlex.split(line.partition(" >> ")[0])]
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context, **command.context_settings)
        found = command.get_command(context, name)
        assert found is not None
        command = found
        if isinstance(command, click.Group):
            name, *rest = rest
    command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("words", ["new", "explain", "rules"])
def test_examples_run(
    run: Run, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in EXAMPLES[words]:
        assert run(words, *shlex.split(line)).status == 0


@pytest.mark.parametrize("words", RARE)
def test_rare_options_are_listed_by_help_all_only(run: Run, words: str) -> None:
    rare = RARE[words].split()
    options = [option for option in ALL[words].params if isinstance(option, click.Option)]
    assert set(rare) <= {name for option in options for name in option.opts}
    short, full = (run(*words.split(), option) for option in ("--help", "--help-all"))
    assert (short.status, full.status) == (0, 0)
    for name in rare:
        assert f"  {name} " not in short.out
        assert f"  {name} " in full.out
    count = f"{len(rare)} more option{'s' if len(rare) > 1 else ''}"
    assert short.out.splitlines()[-1].strip() == f"--help-all lists {count}."
    assert "--help-all" not in full.out
    assert run(*words.split(), "--help") == short  # also after --help-all


def test_help_all_is_help_where_nothing_is_rare(run: Run) -> None:
    for words in ((), ("ladder",), ("rules",)):
        assert run(*words, "--help-all") == run(*words, "--help")


def test_authors_see_their_eight_commands_first(run: Run) -> None:
    for words, heading in (((), "Your bot:"), (("ladder",), "Authors:")):
        sections = run(*words, "--help").out.split("\n\n")
        first = next(section for section in sections if not section.startswith((" ", "U", "O")))
        assert first.splitlines()[0] == heading
        assert len([line for line in first.splitlines() if re.match("  [a-z]", line)]) == 8


# Completion


LINES_IN_A_SHELL = {
    "deepsea-referee co": ["plain,compare", "plain,completion"],
    "deepsea-referee ladder st": ["plain,standings", "plain,status"],
    "deepsea-referee match --ga": ["plain,--games"],
    "deepsea-referee match greedy st": ["plain,steady", "file,st"],
    "deepsea-referee compare mine greedy --field random,d": ["plain,random,diver", "file,random,d"],
    "deepsea-referee rank --rules p": ["plain,publisher", "file,p"],
    "deepsea-referee show ru": ["file,ru"],
    "deepsea-referee ladder submit my": ["file,my"],
}
COMPLETED = """
import os, sys
sys.argv = ["deepsea-referee"]
from deepsea_cli import main
for line in sys.stdin.read().splitlines():
    os.environ.update(COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    try:
        main()
    except SystemExit:
        print()
print(*sys.modules)
"""


def test_shells_complete() -> None:
    """What bash would complete the last word to; this loads no module that takes long."""
    done = subprocess.run(
        [sys.executable, "-c", COMPLETED],
        input="\n".join(LINES_IN_A_SHELL),
        capture_output=True,
        text=True,
        env={**environment(), "_DEEPSEA_REFEREE_COMPLETE": "bash_complete"},
        check=True,
    )
    *found, modules = done.stdout.strip().split("\n\n")
    assert [items.splitlines() for items in found] == [*LINES_IN_A_SHELL.values()]
    heavy = {"asyncio", "google.protobuf", "grpc", "rich", "sqlalchemy"}
    assert "deepsea_cli" in modules.split()
    assert not heavy & set(modules.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_for_this_program(run: Run, shell: str) -> None:
    done = run("completion", shell)
    assert done.status == 0
    assert f"_DEEPSEA_REFEREE_COMPLETE={shell}_complete" in done.out
    if shell != "bash":
        require(shell)
    subprocess.run([shell, "-n"], input=done.out, text=True, check=True)


def test_another_shell_is_named(run: Run) -> None:
    assert "tcsh" in run("completion", "tcsh").refusal
