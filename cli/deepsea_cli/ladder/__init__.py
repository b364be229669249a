"""`deepsea-referee ladder`: arguments in, tables or JSON out; the arena does the work.

Invariant: a command is an attribute of the module named beside it, and imports no other command.
"""

from __future__ import annotations

from typing import Final

import click

from deepsea_cli.errors import BAD_INPUT
from deepsea_cli.lazy import LazyCommand, LazyGroup

COMMANDS: Final = {
    "init": ("seasons", "Make a ladder, with one season."),
    "season": ("seasons", "Open another season."),
    "close": ("seasons", "Close a season, and show the seed of its games."),
    "submit": ("submit", "Check a bot, let it play, and take it in."),
    "withdraw": ("bots", "Take a bot out for its author."),
    "disable": ("bots", "Take a bot out for the ladder."),
    "enable": ("bots", "Give a bot games again."),
    "run": ("run", "Play rated games."),
    "tournament": ("tournament", "Play a tournament in a season of its own."),
    "standings": ("standings", "Show who stands where."),
    "bot": ("bot", "Show everything about a bot."),
    "games": ("games", "List the newest games."),
    "record": ("games", "Print the record of a game."),
    "export": ("games", "Print all results."),
    "refold": ("refold", "Make the ratings again from the games, and compare."),
    "status": ("status", "Show the queue, who plays, and what went wrong."),
    "requeue": ("status", "Try a game again that was set aside."),
    "backup": ("backup_commands", "Copy the ladder while it runs."),
    "restore": ("backup_commands", "Make a ladder from a backup."),
    "upgrade": ("backup_commands", "Bring a ladder of an older program up to this one."),
}
"""The commands in the order of help: the module that each is in, and what help says about it."""


@click.group(
    "ladder",
    cls=LazyGroup,
    entries={
        name: LazyCommand(f"{__name__}.{module}:{name}", line)
        for name, (module, line) in COMMANDS.items()
    },
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
