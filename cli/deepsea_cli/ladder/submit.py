"""`ladder submit`: a bot comes to the ladder.

What is stored is what was looked at and played, to the byte; a bot that is refused changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.output import say
from deepsea_cli.progress import Progress

if TYPE_CHECKING:
    from deepsea_arena.admission import AdmissionRefusal


@click.command("submit")
@click.argument("path", metavar="PATH")
@click.option(
    "--name", metavar="NAME", help="The bot's name.  [default: bot.toml's, or the file's]"
)
@click.option("--author", metavar="NAME", required=True, help="Whose bot it is.")
@store_option
@click.pass_context
def submit(
    ctx: click.Context, *, path: str, name: str | None, author: str, store_text: str
) -> None:
    """Take in the bot at PATH: a folder or zip with bot.toml, a Python file, or a sample's name.

    It plays a few games first, against itself and against a sample bot, as each open season
    plays. A name that is there already gets a new version, which begins without a rating.

    Exit status: 0 taken in, 1 it failed in a game, 2 it is no bot.
    """
    from deepsea_arena.admission import games, try_out
    from deepsea_bundle import names
    from deepsea_bundle.submission import read_submission
    from deepsea_ladder.season import Season
    from deepsea_referee.bots.resolve import sample_bots

    samples = sample_bots()
    is_sample = path in samples and not Path(path).exists()
    file = samples[path] if is_sample else Path(path)
    with open_store(store_text) as store:
        submission = read_submission(file)
        name = name or submission.manifest.name or (path if is_sample else file.resolve().stem)
        names.checked("the bot's name", name)
        names.checked("the author's name", author)
        seasons = [s.season for s in store.seasons.all() if s.closed_at is None]
        seasons = seasons or [Season(name="none")]
        with Progress(games(seasons)) as progress:
            trouble = try_out(submission, name, seasons, progress.advance)
        if trouble is not None:
            _say_trouble(trouble, name, path)
            ctx.exit(NEGATIVE)
        version = store.bots.submit(name, author, submission)
    say(f"{version.bot} version {version.number} by {version.author} is on the ladder")
    say(f"digest {version.digest}")


def _say_trouble(trouble: AdmissionRefusal, name: str, path: str) -> None:
    say(f"{name} is not taken in: {trouble.found}")
    say(f"to do: {trouble.remedy}")
    if trouble.log:
        say("what it printed:")
        for line in trouble.log:
            say(f"  {line}")
    say(f"deepsea-referee check {path} tells more")
