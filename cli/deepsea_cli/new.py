"""`deepsea-referee new`: creates a working bot."""

from __future__ import annotations

from typing import get_args

import click

from deepsea_cli.output import echo, print_command
from deepsea_referee.workbench.scaffold import Language, create


@click.command("new")
@click.argument("name", metavar="NAME")
@click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    default="python",
    show_default=True,
    help="What it is written in.",
)
def command(name: str, language: Language) -> None:
    """Create the folder NAME with a working bot, its bot.toml and, in Python, a test.

    Existing files are not overwritten.
    """
    for file in create(name, language):
        echo(str(file))
    click.echo()
    if language == "node":
        print_command("npm", "install", "--prefix", name)
    for words in (("check", name), ("match", name, "greedy"), ("compare", name, "greedy")):
        print_command("deepsea-referee", *words)
