"""`ladder submit`: adds a bot to the ladder."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.options import bot_uids_option
from deepsea_cli.output import echo, echo_lines
from deepsea_cli.progress import Progress
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from deepsea_arena.admission import AdmissionRefusal


@click.command("submit")
@click.argument("path", metavar="PATH")
@click.option(
    "--name", metavar="NAME", help="The bot's name.  [default: bot.toml's, or the file's]"
)
@click.option("--author", metavar="NAME", required=True, help="The bot's author.")
@bot_uids_option
@store_option
@click.pass_context
def submit(
    ctx: click.Context, *, path: str, name: str | None, author: str, store_text: str
) -> None:
    """Submit the bot at PATH: a folder or zip with bot.toml, a Python file, or a sample's name.

    It plays admission games first, against itself and a sample bot, with the settings of each open
    season. If the name exists, this is a new version, which starts without a rating.

    Exit status: 0 accepted, 1 it failed in a game, 2 it is not a valid bot.
    """
    from deepsea_arena.submit import admission_games
    from deepsea_arena.submit import submit as submitted
    from deepsea_referee.bots.resolve import bundle_for_ladder
    from deepsea_referee.workbench.file_checks import files

    with open_store(store_text) as store:
        bundle = bundle_for_ladder(path, name)
        with Progress(admission_games(store)) as progress:
            result = submitted(store, author, bundle, progress.advance)
    if result.refusal is not None:
        _print_refusal(result.refusal, bundle.name, path)
        ctx.exit(NEGATIVE)
    echo(f"{result.bot} version {result.version} by {result.author} is on the ladder")
    echo(f"digest {result.digest}")
    echo(f"files {files(bundle.facts).found}")


def _print_refusal(refusal: AdmissionRefusal, name: str, path: str) -> None:
    echo(f"{name} is refused: {refusal.found}")
    echo_lines(refusal.error, "  ")
    echo(f"to do: {refusal.remedy}")
    if refusal.log and not refusal.error:
        echo("its output:")
        for line in refusal.log:
            echo(f"  {line}")
    echo("for more:")
    click.echo(f"  {printable(shlex.join(['deepsea-referee', 'check', path]))}")
