"""`deepsea-referee new`: creates a working bot."""

from __future__ import annotations

import shlex

import click

from deepsea_cli.output import say
from deepsea_referee.workbench.scaffold import create
from deepsea_rules.printable import printable


@click.command("new")
@click.argument("name", metavar="NAME")
def command(name: str) -> None:
    """Create the folder NAME with a working bot, its bot.toml and a test.

    Existing files are not overwritten.
    """
    for file in create(name):
        say(str(file))
    click.echo()
    for words in (("check", name), ("match", name, "greedy"), ("compare", name, "greedy")):
        click.echo(f"  {printable(shlex.join(['deepsea-referee', *words]))}")
