"""`deepsea-referee ladder`: where the ladder and the referee are put together.

Laws: the ladder decides who plays and what it is worth, the referee plays, and only here does one
know of the other; a command is an attribute of the module that is named beside it; whatever a
command prints comes from the store, so that it can be asked for again.
"""

from __future__ import annotations

from typing import Final

import click

from deepsea_referee.cli.errors import BAD_INPUT
from deepsea_referee.cli.lazy import LazyGroup

COMMANDS: Final = {
    "init": "seasons",
    "season": "seasons",
    "close": "seasons",
    "submit": "submit",
    "withdraw": "bots",
    "disable": "bots",
    "enable": "bots",
    "run": "run",
    "tournament": "tournament",
    "standings": "standings",
    "bot": "bot",
    "games": "games",
    "record": "games",
    "export": "games",
    "refold": "refold",
    "status": "status",
    "requeue": "status",
    "backup": "keeping",
    "restore": "keeping",
    "upgrade": "keeping",
}
"""The commands in the order of help, and the modules that they are in."""


@click.group(
    "ladder",
    cls=LazyGroup,
    modules={name: f"{__name__}.{module}:{name}" for name, module in COMMANDS.items()},
    short_help="Rate bots on a ladder of rated games.",
    invoke_without_command=True,
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Keep a ladder: take bots in, let them play rated games, and show how they stand.

    A ladder is one file, or a PostgreSQL database. Every command takes --store, or the variable
    DEEPSEA_LADDER.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_INPUT)
