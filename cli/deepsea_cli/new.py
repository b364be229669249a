"""`deepsea-referee new`: creates a working bot."""

from __future__ import annotations

from typing import get_args

import click

from deepsea_cli.output import echo, print_command
from deepsea_referee.workbench.scaffold import Language, Template, create


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
def command(name: str, language: Language | None, template: Template | None) -> None:
    """Create the folder NAME with a working bot, its bot.toml and, in Python, a test.

    Existing files are not overwritten.
    """
    if language and template:
        raise click.UsageError("--language and --template exclude each other: templates are Python")
    for file in create(name, language or "python", template or "simple"):
        echo(str(file))
    click.echo()
    if template == "learned":
        print_command("python", f"{name}/train.py")
    if language == "node":
        print_command("npm", "install", "--prefix", name)
    for words in (("check", name), ("match", name, "greedy"), ("compare", name, "greedy")):
        print_command("deepsea-referee", *words)
