"""`ladder submit` and `submissions`: adds a bot to the ladder, and lists what came from afar."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.options import Place, open_store, place_option
from deepsea_cli.ladder.tables import minute
from deepsea_cli.options import bot_uids_option, complete_bot, needs_linux, number_option
from deepsea_cli.output import Column, echo, echo_lines, grid, print_command, print_json
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_bundle.reader import BotBundle
    from deepsea_ladder.model.bots import Submission, SubmissionRefusal


@click.command("submit")
@click.argument("path", metavar="PATH", shell_complete=complete_bot)
@click.option(
    "--name", metavar="NAME", help="The bot's name.  [default: bot.toml's, or the file's]"
)
@click.option(
    "--author", metavar="NAME", help="The bot's author; for a remote ladder, that of the token."
)
@bot_uids_option
@place_option
@click.pass_context
def submit(
    ctx: click.Context, *, path: str, name: str | None, author: str | None, place: Place
) -> None:
    """Submit the bot at PATH: a folder or zip with bot.toml, a Python file, or a sample's name.

    It plays admission games first, against itself and a sample bot, with the settings of each open
    season. If the name exists, this is a new version, which starts without a rating.

    Exit status: 0 accepted, 1 it failed in a game, 2 it is not a valid bot.
    """
    from deepsea_referee.bots.resolve import bundle_for_ladder

    if place.remote is not None:
        if author is not None:
            raise UserError(f"--author: at {place.remote.address.url} your token says who you are")
        place.refuse_options(
            bot_uids=ctx.get_parameter_source("bot_uids") is ParameterSource.COMMANDLINE
        )
        accepted = _from_afar(place, bundle_for_ladder(path, name), path)
    elif author is None:
        raise click.UsageError("Missing option '--author'.", ctx)
    else:
        accepted = _here(place, bundle_for_ladder(path, name), author, path)
    if not accepted:
        ctx.exit(NEGATIVE)


def _here(place: Place, bundle: BotBundle, author: str, path: str) -> bool:
    needs_linux("ladder submit to a ladder here")
    from deepsea_arena.play.admission import admission_games
    from deepsea_arena.play.admission import submit as submitted

    with open_store(place.store_text) as store, Progress(admission_games(store)) as progress:
        result = submitted(store, author, bundle, progress.advance)
    if result.refusal is not None:
        _print_refusal(result.refusal, bundle.name, path)
        return False
    _print_accepted(bundle, result.bot, result.version, result.author, result.digest)
    if result.author != author:
        echo(f"note: {author} was there as {result.author}; names that differ in case are one")
    return True


def _from_afar(place: Place, bundle: BotBundle, path: str) -> bool:
    from deepsea_cli.ladder.submit_remote import submit_bot

    assert place.remote is not None
    result = submit_bot(place.remote.authorised(), bundle, place.note)
    if result.state == "accepted":
        _print_accepted(bundle, result.bot, result.version, result.author, result.digest)
        return True
    if result.state == "failed":
        echo(f"the ladder could not check {bundle.name}: {result.found}")
        echo(f"to do: {result.remedy}")
        return False
    _print_refusal(result, bundle.name, path)
    return False


def _print_accepted(
    bundle: BotBundle, bot: str, version: int | None, author: str, digest: str
) -> None:
    from deepsea_referee.workbench.advice import files

    echo(f"{bot} version {version} by {author} is on the ladder")
    echo(f"digest {digest}")
    echo(files(bundle.facts).found)


def _print_refusal(refusal: SubmissionRefusal | Submission, name: str, path: str) -> None:
    echo(f"{name} is refused: {refusal.found}")
    echo_lines(refusal.error, "  ")
    echo(f"to do: {refusal.remedy}")
    if refusal.log and not refusal.error:
        echo("its output:")
        for line in refusal.log:
            echo(f"  {line}")
    echo("for more:")
    print_command("deepsea-referee", "check", path)


@click.command("submissions")
@click.argument("author", metavar="[AUTHOR]", required=False)
@number_option("--limit", most=500, default=20, help="Number of submissions.")
@number_option("--id", "number", help="This one, in full.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def submissions(
    *, place: Place, author: str | None, limit: int, number: int | None, as_json: bool
) -> None:
    """List what AUTHOR has submitted from afar, or from there your own, newest first.

    From afar, those of another AUTHOR are for admins.
    """
    from deepsea_arena.api.types import SubmissionList
    from deepsea_arena.documents import to_json

    if place.remote is None and number is None and author is None:
        raise click.UsageError("Missing argument 'AUTHOR'.", click.get_current_context())
    with place.opened(own=True) as ladder:
        if number is None:
            found = ladder.submissions(limit=limit, author=author or "")
        else:
            (step,) = islice(filter(None, ladder.watch_submission(id=number)), 1)
            found = SubmissionList((step.submission,))
    listed = found.submissions
    if as_json:
        print_json(to_json(found))
    elif number is not None:
        _print_submission(*listed)
    elif not listed:
        echo("nothing was submitted from afar")
    else:
        grid(
            [
                Column("id", [str(one.id) for one in listed]),
                Column("bot", [one.bot or "-" for one in listed], text=True),
                Column("state", [str(one.state) for one in listed], text=True),
                Column("version", [str(one.version or "-") for one in listed], spare=1),
                Column("received", [minute(one.created_at) for one in listed], spare=2),
                Column("found", [one.found for one in listed], text=True),
            ]
        )


def _print_submission(one: Submission) -> None:
    games = f", game {one.games} of {one.of_games}" if one.of_games else ""
    version = f" version {one.version}" if one.version else ""
    echo(f"submission {one.id}, {one.bot or 'a bot'}{version} by {one.author}: {one.state}{games}")
    if one.found:
        echo(one.found)
        echo_lines(one.error, "  ")
        echo(f"to do: {one.remedy}")
        for line in one.log:
            echo(f"  {line}")
