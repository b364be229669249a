"""What all commands share: help, versions, exit statuses, and what happens to the output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from deepsea_cli import COMMANDS, main, verify
from deepsea_cli.errors import exit_status
from deepsea_referee.errors import BotStartError, RefereeError, UserError
from deepsea_rules.errors import (
    IllegalAction,
    InvalidAction,
    InvalidPosition,
    InvalidRecord,
    InvalidRules,
)
from deepsea_sdk import __version__
from helpers.commands import (
    Run,
    environment,
    imported_by,
    one_line,
    played,
    program,
    start,
    written,
)


def test_help_names_every_command(run: Run) -> None:
    for option in ("-h", "--help"):
        done = run(option)
        assert (done.status, done.err) == (0, "")
        for name in COMMANDS:
            assert f"\n  {name}" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    assert run(name, "-h") == run(name, "--help")
    assert run(name, "-h").out.startswith(f"Usage: deepsea-referee {name}")


def test_without_a_command_there_is_help_on_stderr(run: Run) -> None:
    assert (done := run()).status == 2
    assert (done.out, "Your bot:" in done.err) == ("", True)


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"deepsea-referee {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (("--help",), {"errors", "lazy"}),
        (("ladder", "--help"), {"errors", "lazy", "ladder"}),
    ],
)
def test_help_loads_nothing_but_click(arguments: tuple[str, ...], own: set[str]) -> None:
    loaded = imported_by(arguments)
    ours = {name for name in loaded if name.startswith("deepsea_")}
    assert ours == {f"deepsea_cli.{name}" for name in own} | {"deepsea_cli"}
    heavy = {"asyncio", "google.protobuf", "grpc", "importlib.metadata", "logging", "rich"}
    assert not loaded & heavy


def test_it_ends_without_looking_for_garbage() -> None:
    code = (
        "import atexit, gc, sys\n"
        "sys.argv = ['deepsea-referee', '--version']\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "from deepsea_cli import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mach",), "there is no command 'mach': did you mean 'match'?"),
        (("shw",), "did you mean 'show'?"),
        (("ladder", "standing"), "there is no command 'standing': did you mean 'standings'?"),
        (("xyz",), "No such command 'xyz'"),
        (("--nothing",), "No such option"),
        (("show",), "Missing argument"),
        (("verify", "--quite", "x"), "--quite"),
        (("rules", "manual", "guide"), "unexpected extra argument"),
    ],
)
def test_mistakes_of_usage_cost_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    line = run(*arguments).refusal
    assert line.startswith("deepsea-referee: ")
    assert said in line
    assert "--help)" in line


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UserError("no"), 2),
        (BotStartError(0, "no"), 2),
        (InvalidAction("no"), 2),
        (InvalidPosition("no"), 2),
        (InvalidRules("no"), 2),
        (InvalidRecord("no"), 2),
        (IllegalAction("no"), 1),
        (RefereeError("no"), 1),
        (OSError(28, "No space left"), 1),
        (click.UsageError("no"), 2),
        (click.ClickException("no"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_is_one_line_and_a_status(
    error: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    assert exit_status(fail) == status
    one_line(capsys.readouterr().err)


def test_a_message_of_many_lines_becomes_one(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise UserError("first\n  second\tthird")

    assert exit_status(fail) == 2
    assert capsys.readouterr().err == "deepsea-referee: first second third\n"


def test_an_error_in_the_program_itself_is_not_hidden() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        exit_status(fail)


def test_ctrl_c_in_a_command_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "check_record", interrupt)
    done = run("verify", "x")
    assert (done.status, done.err) == (130, "deepsea-referee: interrupted\n")


# As a program of its own


@pytest.mark.parametrize("arguments", [("rules",), ("rules", "--json")])
def test_a_closed_pipe_is_quiet(arguments: tuple[str, ...]) -> None:
    process = start(*arguments)
    process.stdout.close()  # before it has written anything
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()
    process.stdin.close()


@pytest.mark.parametrize("arguments", [("rules",), ("--help",)])
def test_a_full_disk_costs_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            program(*arguments),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert "No space left" in one_line(done.stderr)


def test_closed_streams_are_no_trouble(tmp_path: Path) -> None:
    record = written(tmp_path, played())
    line = f'exec "{sys.executable}" -m deepsea_cli show "{record}" <&- >&- 2>&-'
    done = subprocess.run(["/bin/sh", "-c", line], env=environment(), check=False)
    assert done.returncode == 0


def test_no_colours_unless_it_is_a_terminal(run: Run) -> None:
    for arguments in (("rules",), ("rules", "manual")):
        assert "\x1b" not in run(*arguments).out


def test_the_program_has_one_name_however_it_is_started() -> None:
    done = subprocess.run(
        program("--help"), capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.startswith("Usage: deepsea-referee ")
    assert main.name == "main"
