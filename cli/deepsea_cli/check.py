"""`deepsea-referee new`, `check` and `doctor`: tests of a bot and of this machine.

Every line of output is the outcome of a test. Advice (`note`) does not change the exit status.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import get_args

import click

from deepsea_cli.errors import DONE, NEGATIVE
from deepsea_cli.options import (
    bot_uids_option,
    clock_option,
    complete_bot,
    isolation_option,
    json_option,
)
from deepsea_cli.output import Progress, echo, print_check, print_command, print_json
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_referee.workbench.scaffold import Language, Template, create
from deepsea_rules.time_control import TimeControl


@click.command("new")
@click.argument("name", metavar="NAME")
@click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    help="What it is written in.  [default: python]",
)
@click.option(
    "--template",
    type=click.Choice(get_args(Template)),
    help="How it decides, in Python.  [default: simple]",
)
def new(name: str, language: Language | None, template: Template | None) -> None:
    """Create the folder NAME with a working bot, its bot.toml and, in Python, a test.

    Existing files are not overwritten. sdk/README.md in the project has all methods and views of a
    bot in Python on one page.
    """
    if language and template:
        raise click.UsageError("--language and --template exclude each other: templates are Python")
    new_files = create(name, language or "python", template or "simple")
    if template == "learned":
        # The bot plays by numbers that its author has to train before its first game.
        echo("to be trained it needs numpy, and to play nothing more; first of all:")
        print_command("pip", "install", "-r", f"{name}/train-requirements.txt")
        print_command("python", f"{name}/train.py")
        click.echo()
    for path in new_files:
        echo(str(path))
    click.echo()
    if language == "node":
        print_command("npm", "install", "--prefix", name)
    for arguments in (("check", name), ("match", name, "greedy"), ("compare", name, "greedy")):
        print_command("deepsea-referee", *arguments)
    if language in (None, "python"):
        echo("methods and views of a bot, on one page: sdk/README.md in the project")


@click.command("check")
@click.argument("bot", metavar="BOT", shell_complete=complete_bot)
@clock_option
@isolation_option
@bot_uids_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, bot: str, clock: str, isolation: IsolationLevel, json: bool
) -> None:
    """Test BOT as a match would: start-up, every preset with two to six seats, timeouts, reconnect.

    Exit status: 0 it is ready, 1 something must be fixed.
    """
    from deepsea_cli.match_report import too_busy
    from deepsea_referee.bots.process import Hosting
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.system import SYSTEM
    from deepsea_referee.workbench.checks import examine

    spec, control = resolve(bot), TimeControl.parse(clock)
    hosting = Hosting(isolation=SYSTEM.choose(isolation), grace_us=5_000_000)
    with Progress(None, printed=True) as progress:
        checks = examine(spec, hosting, control, on_game=partial(progress.advance, 1))
        report = asyncio.run(checks)
    if json:
        findings = [asdict(finding) for finding in report.findings]
        print_json(
            {"bot": spec.name, "fine": report.is_ready, "checks": findings, "log": report.log}
        )
    else:
        printed_errors = {""}
        for check in report.findings:
            # An error is printed once, even if many checks meet it.
            error = "" if check.error in printed_errors else check.error
            printed_errors.add(check.error)
            line = f"{check.name}: {check.found}"
            print_check(check.ok, check.needed, line, check.remedy, error)
        if report.log and printed_errors == {""}:
            echo("what it printed:")
            for line in report.log:
                echo(f"  {line}")
        if note := too_busy(SYSTEM.late_share(), "check with a longer --clock"):
            echo(note)
        ready = f"{spec.name} is ready" if report.is_ready else f"{spec.name} is not ready"
        notes = [check.name for check in report.findings if not check.ok and not check.needed]
        names = ", ".join(dict.fromkeys(notes))
        echo(f"{ready}; see the notes on: {names}" if names and report.is_ready else ready)
    ctx.exit(DONE if report.is_ready else NEGATIVE)


@click.command("doctor")
@json_option
@bot_uids_option
@click.pass_context
def doctor(ctx: click.Context, json: bool) -> None:
    """Test everything that the sandbox needs; print what works and how to fix the rest.

    Exit status: 0 the sandbox is complete, 1 it is not.
    """
    from deepsea_referee.system import SYSTEM

    if not SYSTEM.confines:
        # There is no sandbox on this system: choosing one raises the error that says so.
        SYSTEM.choose("sandbox")
    from deepsea_referee.sandbox import probe

    checks = probe.checks()
    complete = probe.complete(checks)
    if json:
        print_json({"sandbox": complete, "checks": [check._asdict() for check in checks]})
    else:
        for check in checks:
            observation = f" ({check.found})" if check.found else ""
            line = f"{check.name}: {check.meaning}{observation}"
            print_check(check.ok, check.needed, line, check.remedy)
        echo(probe.verdict(checks))
    ctx.exit(DONE if complete else NEGATIVE)
