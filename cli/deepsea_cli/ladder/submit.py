"""`ladder submit` and `submissions`: adds a bot to the ladder, and lists what was submitted.

Invariant: one submission, however often the connection breaks: an upload is repeated with the same
key until the ladder has said that it has it, and from then on it is only followed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from deepsea_arena.api.errors import ApiError, BadServer, RefusalKind, Unreachable
from deepsea_arena.api.submissions import MOST_SUBMISSIONS, Archive
from deepsea_arena.run_report import RunWatcher
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.options import Location, Target, location_option, open_store
from deepsea_cli.options import bot_uids_option, complete_bot, number_option, prepare_machine
from deepsea_cli.output import (
    Column,
    Progress,
    echo,
    echo_lines,
    grid,
    minute,
    print_command,
    print_document,
    print_error,
    short_digest,
)
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_token

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_bundle.reader import BotBundle
    from deepsea_ladder.model import Submission
    from deepsea_ladder.store import Store

KIB = 1024
CHUNK = 32 * KIB
"""Bytes of an upload that are sent at a time."""
RETRIES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0)
"""Seconds before each further attempt; after a step of the submission they begin anew."""
LONGEST_WAIT = 60
"""Longest wait before an attempt that a ladder may ask for, in seconds."""
MOST_BREAKS = 100
"""Broken connections after which the command gives up, whatever came between."""
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
@location_option
@click.pass_context
def submit(
    ctx: click.Context, *, path: str, name: str | None, author: str | None, location: Location
) -> None:
    """Submit the bot at PATH: a folder or zip with bot.toml, a Python file, or a sample's name.

    It plays admission games first, against itself and a sample bot, with the settings of each open
    season. If the name exists, this is a new version, which starts without a rating.

    Exit status: 0 accepted, 1 refused, or it could not be checked, 2 it is not a valid bot.
    """
    from deepsea_referee.bots.resolve import bundle_for_ladder

    if location.remote is not None:
        if author is not None:
            raise UserError(f"--author: at {location.remote.url} your token says who you are")
        location.refuse_options(
            bot_uids=ctx.get_parameter_source("bot_uids") is ParameterSource.COMMANDLINE
        )
        bundle = bundle_for_ladder(path, name)
        submission = submit_bot(location.remote.authorised(), bundle, location.note)
    elif author is None:
        raise click.UsageError("Missing option '--author'.", ctx)
    else:
        prepare_machine("ladder submit to a ladder here")
        bundle = bundle_for_ladder(path, name)
        submission = _submit_here(location, bundle, author)
    _print_outcome(submission, bundle, path)
    if location.remote is None and submission.author != author:
        echo(f"note: {author} was there as {submission.author}; names that differ in case are one")
    if submission.state != "accepted":
        ctx.exit(NEGATIVE)


def _submit_here(location: Location, bundle: BotBundle, author: str) -> Submission:
    """Submit a bot to a ladder on this machine, check it at once, and return its last state.

    Raises Interrupted if the check is stopped; then a run of the ladder does it later.
    """
    from deepsea_arena.api.local import ladder_of

    with open_store(location.store_text) as store:
        store.authors.ensure(author)
        ladder = ladder_of(store, author)
        archive = Archive.of(bundle.archive, bundle.name, fresh_token(), CHUNK)
        queued = _present_state(ladder.submit(archive))
        with closing(_SubmissionProgress(len(bundle.archive), location.note)) as progress:
            progress.show(queued)
            _check_now(store, queued.id, progress)
            checked = store.submissions.get(queued.id)
            progress.show(checked)
        return checked


def _present_state(steps: Iterable[Submission | None]) -> Submission:
    """Return a submission as it is now, from the stream of its states.

    The stream begins with the present state, and is not read on: further states come only while the
    submission is checked. None in the stream only shows that the ladder is still there.
    """
    return next(state for state in steps if state is not None)


def _check_now(store: Store, submission_id: int, progress: _SubmissionProgress) -> None:
    """Check a submission on this machine, whatever waits before it, and show its progress.

    Raises Interrupted if the user stops it.
    """
    from deepsea_arena.background_work import do_now
    from deepsea_arena.handlers import CHECKS
    from deepsea_arena.run_report import Stop

    def show_state() -> None:
        progress.show(store.submissions.get(submission_id))

    with closing(Stop()) as stop:
        has_ended = do_now(CHECKS, store, submission_id, _Watcher(show_state), stop)
    if not has_ended:
        raise Interrupted(f"; submission {submission_id} waits for `ladder run`")


class _Watcher(RunWatcher):
    """Shows the progress of a check on this machine, and prints its problems to stderr."""

    def __init__(self, show_progress: Callable[[], object]) -> None:
        self._show_progress = show_progress

    def checking(self, number: int) -> None:
        self._show_progress()

    def trouble(self, message: str) -> None:
        print_error(message)


def with_reports(archive: Archive, report_sent: Callable[[int], object]) -> Archive:
    """Return the same archive, which calls `report_sent` with the bytes of each part it has sent.

    The archive is sent in parts, and a part has been sent when the sender asks for the next one.
    """

    def parts() -> Iterator[bytes]:
        for part in archive.parts():
            yield part
            report_sent(len(part))

    return replace(archive, parts=parts)


def submit_bot(
    target: Target,
    bundle: BotBundle,
    note: Note,
    pause: Callable[[float], object] | None = None,
) -> Submission:
    """Submit a bot to a ladder on another machine, and return the submission in its last state.

    `note` prints lines for users who ask for more; `pause` waits so many seconds before a broken
    connection is made again. Raises UserError if the bot is larger than the ladder allows, and
    BadServer if the ladder accepted other files than these.
    """
    progress = _SubmissionProgress(len(bundle.archive), note)
    url = target.url
    with target.connect() as ladder:
        limits = {limit.name: limit.value for limit in ladder.server().limits}
        size = len(bundle.archive)
        most_bytes = limits.get("archive_bytes", size)
        if size > most_bytes:
            raise UserError(
                f"{bundle.name} has {size} bytes as an archive, and {url} takes {most_bytes}: "
                "leave out what it does not need"
            )
        archive = Archive.of(bundle.archive, bundle.name, fresh_token(), CHUNK)
        try:
            submission = follow_submission(
                ladder,
                with_reports(archive, progress.count_sent),
                progress.show,
                progress.begin_again,
                pause or threading.Event().wait,
            )
        except KeyboardInterrupt:
            raise Interrupted(progress.interruption()) from None
        finally:
            progress.close()
    if submission.state == "accepted" and (
        submission.version is None or submission.digest != bundle.digest
    ):
        raise BadServer(f"{url} has accepted something else than was sent")
    return submission


def follow_submission(
    ladder: LadderApi,
    archive: Archive,
    show: Callable[[Submission], object],
    report_break: Callable[[Exception], object],
    pause: Callable[[float], object],
) -> Submission:
    """Submit an archive, follow its check, and return the submission in its last state.

    `show` is called with each state. When the connection breaks, `report_break` is called, and then
    `pause` with the seconds to wait. The archive is sent again, with the same key, until the ladder
    has it; then the submission is only followed.

    Raises ApiError if the ladder refuses the archive, and Unreachable if it does not come back.
    """
    submission: Submission | None = None
    waits: Iterator[float] = iter(RETRIES)
    for _ in range(MOST_BREAKS):
        try:
            if submission is None:
                steps = ladder.submit(archive)
            else:
                steps = ladder.watch_submission(id=submission.id)
            for submission in filter(None, steps):
                waits = iter(RETRIES)
                show(submission)
                if submission.state.is_final:
                    return submission
            problem: ApiError | Unreachable = Unreachable("the ladder ended the answer too early")
        except Unreachable as error:
            problem = error
        except ApiError as error:
            # Once the ladder has it, the only refusal to wait out is of too many requests.
            if submission is None or error.kind is not RefusalKind.EXHAUSTED:
                raise
            problem = error
            if error.retry_after is None:
                # This ladder allows no streams: read the state from the list, as long as it takes.
                waits = chain(waits, repeat(RETRIES[-1]))
                submission = _listed(ladder, submission)
                show(submission)
                if submission.state.is_final:
                    return submission
        wait_s = next(waits, None)
        if wait_s is None:
            raise problem
        report_break(problem)
        pause(max(wait_s, min(problem.retry_after or 0, LONGEST_WAIT)))
    raise BadServer("the connection to the ladder breaks again and again")


def _listed(ladder: LadderApi, submission: Submission) -> Submission:
    """Return a submission as the author's list has it now; as it was, if it is in none."""
    for line in ladder.submissions(limit=MOST_SUBMISSIONS):
        if line.id == submission.id:
            return line
    return submission


class _SubmissionProgress:
    """A line on the terminal: bytes of the upload that were sent, then games of the check."""

    def __init__(self, size: int, note: Note) -> None:
        """Begin with an upload of `size` bytes; `note` prints lines for users who ask for more."""
        self._note = note
        self._progress = Progress(max(1, size // KIB), "KiB")
        self._sent = 0
        """Bytes that were sent in the present attempt."""
        self._last_text = ""
        """The state in words that was shown last."""
        self.submission: Submission | None = None
        """The submission in its last known state; None until the ladder has it."""

    def count_sent(self, count: int) -> None:
        """Count bytes that were sent."""
        self._sent += count
        self._progress.reach(self._sent // KIB, "uploading")

    def show(self, submission: Submission) -> None:
        """Show a state of the submission in the line of progress.

        The line counts bytes at first. From the first state in which games of the check are played,
        another line counts these.
        """
        former = self.submission
        self.submission = submission
        text = _progress_words(submission)
        is_new_state = former is None or submission.state != former.state
        if is_new_state:
            self._note(f"submission {int(submission.id)}: {text}")
        plays_games = submission.of_games > 0
        played_games_before = former is not None and former.of_games > 0
        if plays_games and not played_games_before:
            self.close()
            self._progress = Progress(submission.of_games)
        games = submission.games if plays_games else 0
        self._progress.reach(games, text, at_once=text != self._last_text)
        self._last_text = text

    def begin_again(self, error: Exception) -> None:
        """Note that the connection broke, and that the upload begins again."""
        self._sent = 0
        self._note(f"{error}; it goes on")

    def interruption(self) -> str:
        """Return the end of the message after Ctrl-C: when it came, and what goes on without."""
        if self.submission is None:
            return "before the ladder said that it has the bot"
        state, number = self.submission.state, int(self.submission.id)
        return f"while it is {state}; the ladder goes on with submission {number} by itself"

    def close(self) -> None:
        self._progress.close()


def _progress_words(submission: Submission) -> str:
    """Return the state of a submission in words, beside the bar of its progress."""
    if submission.state == "queued":
        ahead = submission.ahead
        return f"waiting, {ahead} before it" if ahead else "waiting, the next"
    if submission.state != "running":
        return submission.state
    all_games = submission.of_games
    if not all_games:
        return "its files are being read"
    # The game that is being played is the one after those that have ended.
    game = min(submission.games + 1, all_games)
    return f"checking, game {game} of {all_games}"


# ----- Output


def _print_outcome(submission: Submission, bundle: BotBundle, path: str) -> None:
    """Print if a submission was accepted, or else why not and what its author can do.

    path  argument that names the bot, for a command to copy
    """
    if submission.state == "accepted":
        _print_accepted(submission, bundle)
    elif submission.state == "failed":
        echo(f"the ladder could not check {bundle.name}: {submission.found}")
        echo(f"to do: {submission.remedy}")
    else:
        echo(f"{bundle.name} is refused: {submission.found}")
        echo_lines(submission.error, "  ")
        if submission.remedy:
            echo(f"to do: {submission.remedy}")
        if submission.log and not submission.error:
            echo("its output:")
            for line in submission.log:
                echo(f"  {line}")
        echo("for more:")
        print_command("deepsea-referee", "check", path)


def _print_accepted(submission: Submission, bundle: BotBundle) -> None:
    """Print the new version of a bot on the ladder, and the files of which it consists."""
    from deepsea_referee.workbench.advice import files

    bot, digest = submission.bot, short_digest(submission.digest)
    echo(f"{bot} version {submission.version} by {submission.author} is on the ladder")
    echo(f"digest {digest} (`ladder bot {bot} --json` has all of it)")
    echo(files(bundle).found)


@click.command("submissions")
@click.argument("author", metavar="[AUTHOR]", required=False)
@number_option("--limit", most=500, default=20, help="Number of submissions.")
@number_option("--id", "number", help="This one, in full.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def submissions(
    *, location: Location, author: str | None, limit: int, number: int | None, as_json: bool
) -> None:
    """List what AUTHOR has submitted, or from afar your own, newest first.

    From afar, only admins may list those of another AUTHOR.
    """
    if location.remote is None and number is None and author is None:
        raise click.UsageError("Missing argument 'AUTHOR'.", click.get_current_context())
    from deepsea_arena.status import same_files_as

    with location.open_ladder(needs_token=True) as ladder:
        if number is None:
            lines = ladder.submissions(limit=limit, author=author or "")
        else:
            lines = (_present_state(ladder.watch_submission(id=number)),)
    if as_json:
        print_document({"submissions": lines})
    elif number is not None:
        _print_submission(*lines)
    elif not lines:
        echo("nothing was submitted")
    else:
        findings = [line.found or same_files_as(line.same_files) for line in lines]
        grid(
            Column("id", [str(line.id) for line in lines]),
            Column("bot", [line.bot or "-" for line in lines], text=True),
            Column("state", [str(line.state) for line in lines], text=True),
            Column("version", [str(line.version or "-") for line in lines], spare=1),
            Column("received", [minute(line.created_at) for line in lines], spare=2),
            Column("found", findings, text=True),
        )


def _print_submission(submission: Submission) -> None:
    """Print a submission in full: its state, the outcome of its check, and what to do about it."""
    from deepsea_arena.status import same_files_as

    bot = submission.bot or "a bot"
    if submission.version:
        bot += f" version {submission.version}"
    state = str(submission.state)
    if submission.of_games:
        state += f", game {submission.games} of {submission.of_games}"
    echo(f"submission {submission.id}, {bot} by {submission.author}: {state}")
    if submission.same_files:
        echo(same_files_as(submission.same_files))
    if submission.found:
        echo(submission.found)
        echo_lines(submission.error, "  ")
        if submission.remedy:
            echo(f"to do: {submission.remedy}")
        for line in submission.log:
            echo(f"  {line}")
