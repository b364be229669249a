"""`ladder submit` and `submissions`: adds a bot to the ladder, and lists what came from afar.

Invariant: one submission, however often the connection breaks: an upload is repeated with the same
key until the ladder has said that it has it, and from then on it is only followed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from deepsea_arena.api.errors import ApiError, BadServer, Kind, Unreachable
from deepsea_arena.api.submissions import Archive
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.logins import Target
from deepsea_cli.ladder.options import Place, open_store, place_option
from deepsea_cli.ladder.tables import minute
from deepsea_cli.options import bot_uids_option, complete_bot, needs_linux, number_option
from deepsea_cli.output import Column, echo, echo_lines, grid, print_command, print_document
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_token

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_bundle.reader import BotBundle
    from deepsea_ladder.model.bots import Submission, SubmissionRefusal

KIB = 1024
CHUNK = 32 * KIB
"""Bytes of an upload that are sent at a time."""
RETRIES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0)
"""Seconds before each further attempt; after news they begin anew."""
LONGEST_WAIT = 60
"""Seconds that a ladder may ask for."""
MOST_BREAKS = 100
"""Broken connections after which it is given up, whatever came between."""
Note = Callable[[str], object]


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
            raise UserError(f"--author: at {place.remote.url} your token says who you are")
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
    from deepsea_ladder.model.bots import SubmissionRefusal

    with open_store(place.store_text) as store, Progress(admission_games(store)) as progress:
        result = submitted(store, author, bundle, progress.advance)
    if isinstance(result, SubmissionRefusal):
        _print_refusal(result, bundle.name, path)
        return False
    _print_accepted(bundle, result.bot, result.number, result.author, result.digest)
    if result.author != author:
        echo(f"note: {author} was there as {result.author}; names that differ in case are one")
    return True


def _from_afar(place: Place, bundle: BotBundle, path: str) -> bool:
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


def reporting(archive: Archive, sent: Callable[[int], object]) -> Archive:
    """The same archive, which calls `sent` with the bytes of each part when the next is taken."""

    def parts() -> Iterator[bytes]:
        for part in archive.parts():
            yield part
            sent(len(part))

    return replace(archive, parts=parts)


def submit_bot(
    target: Target,
    bundle: BotBundle,
    note: Note,
    pause: Callable[[float], object] | None = None,
) -> Submission:
    """The submission in its last state. Raises UserError for what the ladder does not take.

    pause  waits so many seconds before a broken connection is made again
    """
    shown = _Shown(len(bundle.archive), note)
    url = target.url
    with target.opened() as ladder:
        limits = {one.name: one.value for one in ladder.server().limits}
        most = limits.get("archive_bytes", len(bundle.archive))
        if len(bundle.archive) > most:
            raise UserError(
                f"{bundle.name} has {len(bundle.archive)} bytes as an archive, and "
                f"{url} takes {most}: leave out what it does not need"
            )
        archive = Archive.of(bundle.archive, bundle.name, fresh_token(), CHUNK)
        try:
            found = followed(
                ladder,
                reporting(archive, shown.sent),
                shown.news,
                shown.broken,
                pause or threading.Event().wait,
            )
        except KeyboardInterrupt:
            raise Interrupted(shown.interruption()) from None
        finally:
            shown.close()
    if found.state == "accepted" and (found.version is None or found.digest != bundle.digest):
        raise BadServer(f"{url} has accepted something else than was sent")
    return found


def followed(
    ladder: LadderApi,
    archive: Archive,
    news: Callable[[Submission], object],
    broken: Callable[[Exception], object],
    pause: Callable[[float], object],
) -> Submission:
    """The submission in its last state.

    news    called with each state
    broken  called when the connection broke, before `pause`
    pause   waits so many seconds

    Raises ApiError if it is not taken, Unreachable if the ladder does not come back.
    """
    found: Submission | None = None
    waits = iter(RETRIES)
    for _ in range(MOST_BREAKS):
        try:
            steps = ladder.watch_submission(id=found.id) if found else ladder.submit(archive)
            for found in filter(None, steps):
                waits = iter(RETRIES)
                news(found)
                if found.state.is_final:
                    return found
            trouble: ApiError | Unreachable = Unreachable("the ladder ended the answer too early")
        except Unreachable as error:
            trouble = error
        except ApiError as error:
            # Of a submission that the ladder has, only that it is asked for too often.
            if found is None or error.kind is not Kind.EXHAUSTED:
                raise
            trouble = error
        wait = next(waits, None)
        if wait is None:
            raise trouble
        broken(trouble)
        pause(max(wait, min(trouble.retry_after or 0, LONGEST_WAIT)))
    raise BadServer("the connection to the ladder breaks again and again")


class _Shown:
    """A line on the terminal: what was sent, then how many games were played."""

    def __init__(self, size: int, note: Note) -> None:
        self._note = note
        self._progress = Progress(max(1, size // KIB), "KiB")
        self._sent = 0
        """Of this attempt."""
        self._words = ""
        self.submission: Submission | None = None

    def sent(self, count: int) -> None:
        self._sent += count
        self._progress.reach(self._sent // KIB, "uploading")

    def news(self, now: Submission) -> None:
        before, self.submission = self.submission, now
        words = _words(now)
        if before is None or now.state != before.state:
            self._note(f"submission {int(now.id)}: {words}")
        if now.of_games > 0 and not (before and before.of_games):
            self.close()
            self._progress = Progress(now.of_games)
        games = now.games if now.of_games else 0
        self._progress.reach(games, words, at_once=words != self._words)
        self._words = words

    def broken(self, error: Exception) -> None:
        """The connection broke, and is made again."""
        self._sent = 0
        self._note(f"{error}; it goes on")

    def interruption(self) -> str:
        if self.submission is None:
            return "before the ladder said that it has the bot"
        state, number = self.submission.state, int(self.submission.id)
        return f"while it is {state}; the ladder goes on with submission {number} by itself"

    def close(self) -> None:
        self._progress.close()


def _words(now: Submission) -> str:
    if now.state == "queued":
        return f"waiting, {now.ahead} before it" if now.ahead else "waiting, the next"
    if now.state == "running" and not now.of_games:
        return "its files are being read"
    if now.state == "running":
        return f"checking, game {min(now.games + 1, now.of_games)} of {now.of_games}"
    return now.state


# What is printed


def _print_accepted(
    bundle: BotBundle, bot: str, version: int | None, author: str, digest: str
) -> None:
    from deepsea_referee.workbench.advice import files

    echo(f"{bot} version {version} by {author} is on the ladder")
    echo(f"digest {digest}")
    echo(files(bundle).found)


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
    if place.remote is None and number is None and author is None:
        raise click.UsageError("Missing argument 'AUTHOR'.", click.get_current_context())
    with place.opened(own=True) as ladder:
        if number is None:
            listed = ladder.submissions(limit=limit, author=author or "")
        else:
            listed = (*islice(filter(None, ladder.watch_submission(id=number)), 1),)
    if as_json:
        print_document({"submissions": listed})
    elif number is not None:
        _print_submission(*listed)
    elif not listed:
        echo("nothing was submitted from afar")
    else:
        grid(
            Column("id", [str(one.id) for one in listed]),
            Column("bot", [one.bot or "-" for one in listed], text=True),
            Column("state", [str(one.state) for one in listed], text=True),
            Column("version", [str(one.version or "-") for one in listed], spare=1),
            Column("received", [minute(one.created_at) for one in listed], spare=2),
            Column("found", [one.found for one in listed], text=True),
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
