"""The API's methods for submissions, an author's own bots, and analyses of games.

Invariants: bots of other authors are refused like bots that do not exist; an incomplete upload
leaves no row; uploads of strangers never enter a season that plays bots without a sandbox.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.api.declarations import LadderPart, method
from deepsea_arena.api.errors import ApiError, RefusalKind, refusal_of, refused_as_api_error
from deepsea_arena.ladder_analyses import AnalysisFound, analyses_and_document, analyses_of, plan
from deepsea_arena.status import same_files_of_others
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.errors import LadderError, NotOnLadder
from deepsea_ladder.limits import size_in_words
from deepsea_ladder.model import (
    BotState,
    LadderAnalysis,
    LadderBot,
    NewSubmission,
    SeatLog,
    Submission,
)
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

SUBMISSIONS = 50
"""Number of submissions in a list unless the call says another one."""
MOST_SUBMISSIONS = 500
"""Maximum of `limit` in a call of `submissions`."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[A-Za-z0-9._:-]{8,64}")


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The zip of a bot that is uploaded to a ladder."""

    bot: str
    """The bot's name; "" stands for the one in its bot.toml."""
    key: str
    """The sender's key of the upload; another upload with it is the same submission."""
    size: int
    """Number of bytes of the zip."""
    sha256: str
    """The SHA-256 of the zip, in hex."""
    parts: Callable[[], Iterator[bytes]] = lambda: iter(())
    """Returns the bytes of the zip in parts; none while only the header has been received."""

    @classmethod
    def of(cls, content: bytes, bot: str, key: str, part_size: int) -> Archive:
        """Return an archive whose bytes are in memory, to be sent in parts of `part_size` bytes."""

        def parts() -> Iterator[bytes]:
            starts = range(0, len(content), part_size)
            return (content[start : start + part_size] for start in starts)

        digest = hashlib.sha256(content).hexdigest()
        return cls(bot=bot, key=key, size=len(content), sha256=digest, parts=parts)


_UNKNOWN = Archive(bot="", key="", size=0, sha256="")
"""A placeholder for an archive before its upload, of which nothing is known."""


class BotPlace(Struct, frozen=True, kw_only=True):
    """A bot with its author, its current version and its state."""

    bot: str
    author: str
    version: int
    state: BotState
    reason: str
    same_files: tuple[str, ...] = ()
    """Versions of other authors with the same files as one of this bot; only for admins."""


class SubmissionMethods(LadderPart):
    """The methods for submissions, the caller's own bots, and analyses of games."""

    @refused_as_api_error
    def is_known(self, announced: Archive) -> bool:
        """Return True if an announced upload has been stored before, so that it need not be sent.

        Raises ApiError if the upload may not be added now.
        """
        new_submission = self._checked_submission(announced)
        return self.store.submissions.check(new_submission, self.limits) is not None

    def submission_refusal(self) -> ApiError | None:
        """Return the refusal that every upload of the caller would get now.

        None if the caller may upload; a certain archive can still be refused.
        """
        try:
            self.store.submissions.check(self._new_submission(_UNKNOWN), self.limits)
        except LadderError as error:
            return refusal_of(error)
        return None

    def submissions_left(self) -> tuple[int, int]:
        """Return how many archives the caller may still submit in this hour and in this day."""
        return self.store.submissions.left(self.own_id, self.limits)

    @method("PUT", "/bots/{bot}", role=Role.AUTHOR, scope=Scope.SUBMIT, key="submission")
    def submit(self, archive: Archive) -> Iterator[Submission | None]:
        """Submit a bot, and follow its check until the check has ended."""
        new_submission = self._checked_submission(archive)
        submission = self.store.submissions.add(new_submission, archive.parts(), self.limits)
        return self._submission_states(submission)

    @method("GET", "/submissions/{id}", role=Role.AUTHOR, scope=Scope.READ, key="submission")
    def watch_submission(self, *, id: int) -> Iterator[Submission | None]:  # noqa: A002
        """Follow a submission of the caller's author until its check has ended.

        An admin may follow a submission of any author.
        """
        author_id = None if self.caller.is_admin else self.caller.author_id
        return self._submission_states(self.store.submissions.get(id, author_id))

    @method("GET", "/submissions", role=Role.AUTHOR, scope=Scope.READ, key="submissions")
    def submissions(self, *, limit: int = 0, author: str = "") -> tuple[Submission, ...]:
        """List the submissions of the caller's author, newest first; an admin may name `author`."""
        if not 0 <= limit <= MOST_SUBMISSIONS:
            raise UserError(f"limit is a number from 1 to {MOST_SUBMISSIONS}")
        if author:
            self.check_admin()
        author_id = self.store.authors.id_of(author) if author else self.own_id
        # 0, the default of the argument, stands for SUBMISSIONS.
        newest = self.store.submissions.of_author(author_id, limit or SUBMISSIONS)
        return self._with_same_files(newest)

    @method("GET", "/admin/queue", role=Role.ADMIN, scope=Scope.ADMIN, key="submissions")
    def queue(self) -> tuple[Submission, ...]:
        """List the submissions that are being checked or wait for their check, in that order."""
        return tuple(self.store.submissions.queue())

    @method("GET", "/account/bots", role=Role.AUTHOR, scope=Scope.READ, key="bots")
    def bots(self, *, everybody: bool = False) -> tuple[BotPlace, ...]:
        """List the bots of the caller's author; with `everybody` those of all, for an admin."""
        if not everybody:
            own_bots = self.store.bots.all(self.own_id)
            return tuple(bot_place(bot) for bot in own_bots if self.is_own(bot.author))
        self.check_admin()
        shared_files = self.store.bots.shared_files()
        return tuple(
            bot_place(bot, same_files_of_others(shared_files, bot.author, bot.name))
            for bot in self.store.bots.all()
        )

    @method("POST", "/bots/{bot}/withdraw", role=Role.AUTHOR, scope=Scope.SUBMIT, key="bot")
    def withdraw(self, *, bot: str) -> BotPlace:
        """Withdraw a bot of the caller's author: it plays no more games."""
        own_bot = self._own_bot(bot)
        return bot_place(self.store.bots.withdraw(own_bot.name, actor=self.caller.by))

    @method("GET", "/bots/{bot}/archive", role=Role.AUTHOR, scope=Scope.READ)
    def download_bot(self, *, bot: str, version: int = 0) -> Iterator[bytes]:
        """Download a version of a bot of the caller's author, as a zip."""
        own_bot = self._own_bot(bot)
        versions = {stored.number: stored for stored in self.store.bots.versions(own_bot.name)}
        # 0, the default of the argument, stands for the current version.
        chosen_version = versions.get(version or own_bot.current.number)
        if chosen_version is None:
            raise ApiError(RefusalKind.NOT_FOUND, f"{own_bot.name} has no version {version}")
        archive = self.store.bots.archive(chosen_version.digest)
        chunk_size = self.limits.chunk_bytes
        starts = range(0, len(archive), chunk_size)
        return (archive[start : start + chunk_size] for start in starts)

    @method("GET", "/games/{game_id}/log", role=Role.AUTHOR, scope=Scope.READ, key="logs")
    def log(self, *, game_id: str) -> tuple[SeatLog, ...]:
        """Return the last output of the caller's bots that were at fault in a game."""
        # A command on the ladder's machine that acts for no author reads the logs of all seats.
        may_read_all = self.caller.is_machine and not self.caller.author
        # The same refusal for a missing game and for a game of others.
        refusal = ApiError(
            RefusalKind.NOT_FOUND, f"there is no game {quoted(game_id, 80)} with a bot of yours"
        )
        try:
            seats = self.store.history.get(game_id).line.seats
        except NotOnLadder:
            if may_read_all:
                raise
            raise refusal from None
        readable_seats = {
            number for number, seat in enumerate(seats) if may_read_all or self.is_own(seat.author)
        }
        if not readable_seats:
            raise refusal
        logs = self.store.logs.of_game(game_id)
        return tuple(log for log in logs if log.seat in readable_seats)

    # ---------------------------------------------------------------------- analyses of games

    @method(
        "POST", "/games/{game_id}/analysis", role=Role.AUTHOR, scope=Scope.SUBMIT, key="analysis"
    )
    def request_analysis(self, *, game_id: str) -> LadderAnalysis:
        """Request the analysis of a game; an analysis that exists or waits is returned as it is."""
        author_id = self.caller.author_id or None
        return self.store.analyses.request(game_id, author_id, plan(), self.limits)

    @method("GET", "/games/{game_id}/analysis")
    def analysis(self, *, game_id: str) -> AnalysisFound:
        """Return the analysis of a game, and the state of the last request for one."""
        return analyses_and_document(self.store, game_id)

    @method("GET", "/games/{game_id}/analysis/steps", key="analysis")
    def watch_analysis(self, *, game_id: str) -> Iterator[LadderAnalysis | None]:
        """Follow the last requested analysis of a game until it has ended."""
        self.store.games.record(game_id)  # raises NotOnLadder if there is no such game
        last_request = analyses_of(self.store, game_id).last
        if last_request is None:
            raise NotOnLadder("nobody has asked for an analysis of that game")
        return self._analysis_states(last_request)

    def _analysis_states(self, analysis: LadderAnalysis) -> Iterator[LadderAnalysis | None]:
        """Yield the state of an analysis, and again when it has changed, until its end.

        Yields None if the store still has the same state; the caller then pauses for a while.
        """
        yield analysis
        while not analysis.state.is_final:
            current = self.store.analyses.get(analysis.id, plan)
            yield None if current == analysis else current
            analysis = current

    # ----------------------------------------------------------------------------------- within

    def _submission_states(self, submission: Submission) -> Iterator[Submission | None]:
        """Yield the state of a submission, and again when it has changed, until its check's end.

        Yields None if the store still has the same state; the caller then pauses for a while.
        """
        yield from self._with_same_files([submission])
        while not submission.state.is_final:
            current = self.store.submissions.get(submission.id)
            if current == submission:
                yield None
            else:
                yield from self._with_same_files([current])
            submission = current

    def _with_same_files(self, submissions: Sequence[Submission]) -> tuple[Submission, ...]:
        """Fill in `same_files` of submissions for an admin; other callers get them unchanged.

        The field names other authors' versions with the same files. It stays empty for a submission
        that has not become a version.
        """
        has_versions = any(submission.version is not None for submission in submissions)
        if not (self.caller.is_admin and has_versions):
            return tuple(submissions)
        shared_files = self.store.bots.shared_files()
        completed: list[Submission] = []
        for submission in submissions:
            same_files: tuple[str, ...] = ()
            if submission.version is not None:
                same_files = same_files_of_others(
                    shared_files, submission.author, submission.bot, submission.version
                )
            completed.append(replace(submission, same_files=same_files))
        return tuple(completed)

    def _checked_submission(self, archive: Archive) -> NewSubmission:
        """Return the caller's submission of an archive, to be added to the store.

        Raises ApiError if the archive's size, digest or key is not allowed.
        """
        largest, size = self.limits.archive_bytes, archive.size
        problem = ""
        if size <= 0:
            problem = "no file came: an archive has at least a byte"
        elif size > largest and not self.caller.is_machine:
            problem = (
                f"the archive has {size_in_words(size)}; at most {size_in_words(largest)} are taken"
            )
        elif not _SHA256.fullmatch(archive.sha256):
            problem = "the header's sha256 is not 64 hexadecimal digits in lower case"
        elif not _KEY.fullmatch(archive.key):
            problem = "the key of an upload has 8 to 64 characters of A-Z a-z 0-9 . _ : -"
        if problem:
            raise ApiError(RefusalKind.INVALID, problem)
        return self._new_submission(archive)

    def _new_submission(self, archive: Archive) -> NewSubmission:
        """Return the caller's submission of an archive; its values have not been checked."""
        return NewSubmission(
            author_id=self.own_id,
            bot=archive.bot,
            key=archive.key,
            size=archive.size,
            sha256=archive.sha256,
            needs_sandbox=not (self.service.is_local or self.caller.is_machine),
            by_machine=self.caller.is_machine,
        )

    def _own_bot(self, name: str) -> LadderBot:
        """Return the bot of the caller's author that has this name.

        Raises ApiError, in the same words for a bot of another author as for no bot, so that
        nobody learns which names exist.
        """
        try:
            bot = self.store.bots.get(name)
        except NotOnLadder:
            bot = None
        if bot is None or not self.is_own(bot.author):
            raise ApiError(RefusalKind.NOT_FOUND, f"you have no bot {quoted(name, 40)}")
        return bot


def bot_place(bot: LadderBot, same_files: tuple[str, ...] = ()) -> BotPlace:
    """Return the document of a stored bot; `same_files` is only for admins."""
    return BotPlace(
        bot=bot.name,
        author=bot.author,
        version=bot.current.number,
        state=bot.state,
        reason=bot.reason or "",
        same_files=same_files,
    )
