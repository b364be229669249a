"""`ladder submit` and `submissions`: adds a bot to the ladder, and lists what was submitted.

Invariant: one submission, however often the connection breaks: an upload is repeated with the same
key until the ladder has said that it has it, and from then on it is only followed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from deepsea_arena.api.errors import ApiError, BadServer, RefusalKind, Unreachable
from deepsea_arena.api.submissions import MOST_SUBMISSIONS, Archive
from deepsea_arena.run_report import RunWatcher
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.options import Place, Target, open_store, place_option
from deepsea_cli.options import bot_uids_option, complete_bot, number_option, plays_here
from deepsea_cli.output import (
    Column,
    Progress,
    beginning,
    echo,
    echo_lines,
    grid,
    minute,
    print_command,
    print_document,
    print_error,
)
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_token

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_bundle.reader import BotBundle
    from deepsea_ladder.model import Submission

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

    Exit status: 0 accepted, 1 refused, or it could not be checked, 2 it is not a valid bot.
    """
    from deepsea_referee.bots.resolve import bundle_for_ladder

    if place.remote is not None:
        if author is not None:
            raise UserError(f"--author: at {place.remote.url} your token says who you are")
        place.refuse_options(
            bot_uids=ctx.get_parameter_source("bot_uids") is ParameterSource.COMMANDLINE
        )
        bundle = bundle_for_ladder(path, name)
        ended = submit_bot(place.remote.authorised(), bundle, place.note)
    elif author is None:
        raise click.UsageError("Missing option '--author'.", ctx)
    else:
        plays_here("ladder submit to a ladder here")
        bundle = bundle_for_ladder(path, name)
        ended = _submit_here(place, bundle, author)
    _print_end(ended, bundle, path)
    if place.remote is None and ended.author != author:
        echo(f"note: {author} was there as {ended.author}; names that differ in case are one")
    if ended.state != "accepted":
        ctx.exit(NEGATIVE)


def _submit_here(place: Place, bundle: BotBundle, author: str) -> Submission:
    """The submission in its last state, after its check on this machine."""
    from deepsea_arena.api.local import ladder_of
    from deepsea_arena.background_work import do_now
    from deepsea_arena.handlers import CHECKS
    from deepsea_arena.run_report import Stop

    with open_store(place.store_text) as store:
        store.authors.ensure(author)
        ladder = ladder_of(store, author)
        archive = Archive.of(bundle.archive, bundle.name, fresh_token(), CHUNK)
        (submission,) = islice(filter(None, ladder.submit(archive)), 1)
        number = submission.id
        with closing(_Shown(len(bundle.archive), place.note)) as shown, closing(Stop()) as stop:
            shown.news(submission)
            watcher = _Watcher(lambda: shown.news(store.submissions.get(number)))
            if not do_now(CHECKS, store, number, watcher, stop):
                raise Interrupted(f"; submission {number} waits for `ladder run`")
            ended = store.submissions.get(number)
            shown.news(ended)
        return ended


class _Watcher(RunWatcher):
    """Shows how a check on this machine goes."""

    def __init__(self, show: Callable[[], object]) -> None:
        self._show = show

    def checking(self, number: int) -> None:
        self._show()

    def trouble(self, message: str) -> None:
        print_error(message)


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
    waits: Iterator[float] = iter(RETRIES)
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
            if found is None or error.kind is not RefusalKind.EXHAUSTED:
                raise
            trouble = error
            if error.retry_after is None:  # this ladder lets nobody follow, but be asked
                number, waits = found.id, chain(waits, repeat(RETRIES[-1]))
                listed = ladder.submissions(limit=MOST_SUBMISSIONS)
                found = next((one for one in listed if one.id == number), found)
                news(found)
                if found.state.is_final:
                    return found
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


def _print_end(ended: Submission, bundle: BotBundle, path: str) -> None:
    if ended.state == "accepted":
        from deepsea_referee.workbench.advice import files

        echo(f"{ended.bot} version {ended.version} by {ended.author} is on the ladder")
        echo(f"digest {beginning(ended.digest)} (`ladder bot {ended.bot} --json` has all of it)")
        echo(files(bundle).found)
        return
    if ended.state == "failed":
        echo(f"the ladder could not check {bundle.name}: {ended.found}")
        echo(f"to do: {ended.remedy}")
        return
    echo(f"{bundle.name} is refused: {ended.found}")
    echo_lines(ended.error, "  ")
    if ended.remedy:
        echo(f"to do: {ended.remedy}")
    if ended.log and not ended.error:
        echo("its output:")
        for line in ended.log:
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
    """List what AUTHOR has submitted, or from afar your own, newest first.

    From afar, those of another AUTHOR are for admins.
    """
    if place.remote is None and number is None and author is None:
        raise click.UsageError("Missing argument 'AUTHOR'.", click.get_current_context())
    from deepsea_arena.status import same_files_as

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
        echo("nothing was submitted")
    else:
        grid(
            Column("id", [str(one.id) for one in listed]),
            Column("bot", [one.bot or "-" for one in listed], text=True),
            Column("state", [str(one.state) for one in listed], text=True),
            Column("version", [str(one.version or "-") for one in listed], spare=1),
            Column("received", [minute(one.created_at) for one in listed], spare=2),
            Column(
                "found", [one.found or same_files_as(one.same_files) for one in listed], text=True
            ),
        )


def _print_submission(one: Submission) -> None:
    from deepsea_arena.status import same_files_as

    games = f", game {one.games} of {one.of_games}" if one.of_games else ""
    version = f" version {one.version}" if one.version else ""
    echo(f"submission {one.id}, {one.bot or 'a bot'}{version} by {one.author}: {one.state}{games}")
    if one.same_files:
        echo(same_files_as(one.same_files))
    if one.found:
        echo(one.found)
        echo_lines(one.error, "  ")
        if one.remedy:
            echo(f"to do: {one.remedy}")
        for line in one.log:
            echo(f"  {line}")
