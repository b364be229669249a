"""`ladder withdraw`, `disable` and `enable`."""

from __future__ import annotations

import click

from deepsea_cli.ladder.options import open_store
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.output import echo
from deepsea_ladder.accounts import MACHINE


@click.command("withdraw")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="The reason that is shown.")
@place_option
def withdraw(*, place: Place, name: str, reason: str | None) -> None:
    """Schedule no more games for the bot NAME, for its author.

    Its games and rating stay. Games that are being played are finished.
    """
    place.refuse_options(reason=reason)
    if place.remote is not None:
        with place.opened(own=True) as ladder:
            gone = ladder.withdraw(bot=name).bot
        echo(f"{gone.bot} is {gone.state}: {gone.reason}")
        return
    with open_store(place.store_text) as store:
        bot = store.bots.withdraw(name, reason or "withdrawn by its author", MACHINE)
    echo(f"{bot.name} is withdrawn: {bot.reason}")


@click.command("disable")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", required=True, help="The reason, for its author.")
@place_option
def disable(*, place: Place, name: str, reason: str) -> None:
    """Schedule no more games for the bot NAME, for the ladder's operator."""
    with place.opened(own=True) as ladder:
        bot = ladder.set_bot_state(bot=name, state="disabled", reason=reason).bot
    echo(f"{bot.bot} is disabled: {bot.reason}")


@click.command("enable")
@click.argument("name", metavar="NAME")
@place_option
def enable(*, place: Place, name: str) -> None:
    """Schedule games for the bot NAME again; its count of failures is reset."""
    with place.opened(own=True) as ladder:
        bot = ladder.set_bot_state(bot=name, state="active").bot
    echo(f"{bot.bot} is active with version {bot.version}")
