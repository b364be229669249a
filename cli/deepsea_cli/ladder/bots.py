"""`ladder withdraw`, `disable` and `enable`."""

from __future__ import annotations

import click

from deepsea_cli.ladder.options import open_store, store_option
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
        from deepsea_cli.remote.source import RemoteSource

        with place.remote.authorised().client(place.note) as client:
            gone = RemoteSource(client).withdraw(name)
        echo(f"{gone.bot} is {gone.state}: {gone.reason}")
        return
    with open_store(place.store_text) as store:
        bot = store.bots.withdraw(name, reason or "withdrawn by its author", MACHINE)
    echo(f"{bot.name} is withdrawn: {bot.reason}")


@click.command("disable")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", required=True, help="The reason, for its author.")
@store_option
def disable(*, store_text: str, name: str, reason: str) -> None:
    """Schedule no more games for the bot NAME, for the ladder's operator."""
    with open_store(store_text) as store:
        bot = store.bots.disable(name, reason, MACHINE)
    echo(f"{bot.name} is disabled: {bot.reason}")


@click.command("enable")
@click.argument("name", metavar="NAME")
@store_option
def enable(*, store_text: str, name: str) -> None:
    """Schedule games for the bot NAME again; its count of failures is reset."""
    with open_store(store_text) as store:
        bot = store.bots.enable(name, MACHINE)
    echo(f"{bot.name} is active with version {bot.current.number}")
