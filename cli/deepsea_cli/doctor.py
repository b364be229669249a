"""`deepsea-referee doctor`: checks whether untrusted bots can be run on this machine.

Every line is the outcome of a test. Advice (`note`) does not change the exit status.
"""

from __future__ import annotations

import click

from deepsea_cli.errors import DONE, NEGATIVE
from deepsea_cli.options import bot_uids_option
from deepsea_cli.output import echo, print_check, print_json


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@bot_uids_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Test everything that the sandbox needs; print what works and how to fix the rest.

    Exit status: 0 the sandbox is complete, 1 it is not.
    """
    from deepsea_referee.system import SYSTEM

    if not SYSTEM.confines:
        SYSTEM.choose("sandbox")  # says in one line what it needs
    from deepsea_referee.sandbox import doctor_checks

    found = doctor_checks.checks()
    complete = doctor_checks.complete(found)
    if as_json:
        print_json({"sandbox": complete, "checks": [check._asdict() for check in found]})
    else:
        for check in found:
            seen = f" ({check.found})" if check.found else ""
            print_check(check.ok, check.needed, f"{check.name}: {check.meaning}{seen}")
            if not check.ok:
                echo(f"     to do: {check.remedy}")
        echo(doctor_checks.verdict(found))
    ctx.exit(DONE if complete else NEGATIVE)
