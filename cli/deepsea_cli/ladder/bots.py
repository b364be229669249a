"""`ladder withdraw`, `disable` and `enable`: which bots get games."""

from __future__ import annotations

import click

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.output import say


@click.command("withdraw")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", default="withdrawn by its author", help="Said with it.")
@store_option
def withdraw(*, store_text: str, name: str, reason: str) -> None:
    """Give the bot NAME no more games, for its author.

    Its games and rating stay. What is being played is played.
    """
    with open_store(store_text) as store:
        bot = store.bots.withdraw(name, reason)
    say(f"{bot.name} is withdrawn: {bot.reason}")


@click.command("disable")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", required=True, help="Said to its author.")
@store_option
def disable(*, store_text: str, name: str, reason: str) -> None:
    """Give the bot NAME no more games, for the one who keeps the ladder."""
    with open_store(store_text) as store:
        bot = store.bots.disable(name, reason)
    say(f"{bot.name} is disabled: {bot.reason}")


@click.command("enable")
@click.argument("name", metavar="NAME")
@store_option
def enable(*, store_text: str, name: str) -> None:
    """Give the bot NAME games again; what was counted against it is forgotten."""
    with open_store(store_text) as store:
        bot = store.bots.enable(name)
    say(f"{bot.name} is active with version {bot.current.number}")
