"""`deepsea-referee check`: tests whether a bot is ready for matches.

Every line is the outcome of a test of the bot. Advice (`note`) does not change the exit status.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import DONE, NEGATIVE
from deepsea_cli.options import bot_uids_option, clock_option, complete_bot, isolation_option
from deepsea_cli.output import echo, echo_lines, print_check, print_json
from deepsea_cli.progress import Progress

if TYPE_CHECKING:
    from deepsea_referee.sandbox.interface import IsolationLevel


@click.command("check")
@click.argument("bot", metavar="BOT", shell_complete=complete_bot)
@clock_option
@isolation_option
@bot_uids_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context, bot: str, clock: str, isolation: IsolationLevel, as_json: bool
) -> None:
    """Test BOT as a match would: start-up, every preset with two to six seats, timeouts, reconnect.

    Exit status: 0 it is ready, 1 something must be fixed.
    """
    from deepsea_cli.match_report import too_busy
    from deepsea_referee.bots.process import Hosting
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.system import SYSTEM
    from deepsea_referee.workbench.checks import examine
    from deepsea_rules.time_control import TimeControl

    spec, control = resolve(bot), TimeControl.parse(clock)
    hosting = Hosting(isolation=SYSTEM.choose(isolation), grace_us=5_000_000)
    with Progress(None, printed=True) as progress:
        checking = examine(spec, hosting, control, on_game=partial(progress.advance, 1))
        report = asyncio.run(checking)
    if as_json:
        checks = [asdict(finding) for finding in report.findings]
        print_json({"bot": spec.name, "fine": report.fine, "checks": checks, "log": report.log})
    else:
        shown: set[str] = set()
        for finding in report.findings:
            print_check(finding.ok, finding.needed, f"{finding.name}: {finding.found}")
            if finding.error not in shown:  # once, even if many checks meet it
                shown.add(finding.error)
                echo_lines(finding.error, "     ")
            if not finding.ok:
                echo(f"     to do: {finding.remedy}")
        if report.log and shown <= {""}:
            echo("what it printed:")
            for line in report.log:
                echo(f"  {line}")
        if note := too_busy(SYSTEM.late_share(), "check with a longer --clock"):
            echo(note)
        ready = f"{spec.name} is ready" if report.fine else f"{spec.name} is not ready"
        unmet = [finding for finding in report.findings if not finding.ok and not finding.needed]
        about = ", ".join(dict.fromkeys(finding.name for finding in unmet))
        echo(f"{ready}; see the notes on: {about}" if about and report.fine else ready)
    ctx.exit(DONE if report.fine else NEGATIVE)
