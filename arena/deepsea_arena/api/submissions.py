"""Submissions of an author from afar, and what an author may do with own bots.

Invariants: somebody else's bots are refused like bots that are not there; a half upload leaves no
row; strangers' uploads never meet a season that plays bots without a sandbox.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.api.declarations import LadderPart, method
from deepsea_arena.api.errors import ApiError, RefusalKind, refusal_of, refused_as_api_error
from deepsea_arena.ladder_analyses import AnalysisFound, analyses_of, found_of, plan
from deepsea_arena.status import copies
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
MOST_SUBMISSIONS = 500
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[A-Za-z0-9._:-]{8,64}")


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The zip of a bot on its way to a ladder."""

    bot: str
    """The bot's name; "" stands for the one in its bot.toml."""
    key: str
    """The sender's: an upload with the same key is the same submission."""
    size: int
    """Its bytes."""
    sha256: str
    """The SHA-256 of its bytes, in hex."""
    parts: Callable[[], Iterator[bytes]] = lambda: iter(())
    """The bytes, in parts; none as long as only the header of an upload is there."""

    @classmethod
    def of(cls, content: bytes, bot: str, key: str, part: int) -> Archive:
        """An archive in memory, in parts of so many bytes."""

        def parts() -> Iterator[bytes]:
            return (content[start : start + part] for start in range(0, len(content), part))

        digest = hashlib.sha256(content).hexdigest()
        return cls(bot=bot, key=key, size=len(content), sha256=digest, parts=parts)


_UNKNOWN = Archive(bot="", key="", size=0, sha256="")
"""An archive of which nothing is known yet."""


class BotPlace(Struct, frozen=True, kw_only=True):
    """A bot's place in the store."""

    bot: str
    author: str
    version: int
    state: BotState
    reason: str
    same_files: tuple[str, ...] = ()
    """Other authors' versions with the same files as one of its own, in lists for admins alone."""


class SubmissionMethods(LadderPart):
    """The methods about submissions and bots of one's own."""

    @refused_as_api_error
    def is_known(self, announced: Archive) -> bool:
        """True if an upload is a submission already, so that its bytes need not come.

        Raises ApiError if it may not be added now.
        """
        return self.store.submissions.check(self._new(announced), self.limits) is not None

    def submission_refusal(self) -> ApiError | None:
        """The refusal that every upload of the caller would get now; None if there is none."""
        try:
            self.store.submissions.check(self._submission(_UNKNOWN), self.limits)
        except LadderError as error:
            return refusal_of(error)
        return None

    def submissions_left(self) -> tuple[int, int]:
        """The number of archives that the caller may still submit within an hour and a day."""
        return self.store.submissions.left(self.own_id, self.limits)

    @method("PUT", "/bots/{bot}", role=Role.AUTHOR, scope=Scope.SUBMIT, key="submission")
    def submit(self, archive: Archive) -> Iterator[Submission | None]:
        """Submit a bot, and follow its check until it has ended."""
        found = self.store.submissions.add(self._new(archive), archive.parts(), self.limits)
        return self._steps(found)

    @method("GET", "/submissions/{id}", role=Role.AUTHOR, scope=Scope.READ, key="submission")
    def watch_submission(self, *, id: int) -> Iterator[Submission | None]:  # noqa: A002
        """Follow a submission of the caller's author, or for an admin of anybody, from its present
        state on."""
        whose = None if self.caller.is_admin else self.caller.author_id
        return self._steps(self.store.submissions.get(id, whose))

    @method("GET", "/submissions", role=Role.AUTHOR, scope=Scope.READ, key="submissions")
    def submissions(self, *, limit: int = 0, author: str = "") -> tuple[Submission, ...]:
        """List the submissions of the caller's author, newest first; for an admin of `author`."""
        if not 0 <= limit <= MOST_SUBMISSIONS:
            raise UserError(f"limit is a number from 1 to {MOST_SUBMISSIONS}")
        if author:
            self.check_admin()
        author_id = self.store.authors.id_of(author) if author else self.own_id
        found = self.store.submissions.of_author(author_id, limit or SUBMISSIONS)
        return self._with_copies(*found)

    @method("GET", "/admin/queue", role=Role.ADMIN, scope=Scope.ADMIN, key="submissions")
    def queue(self) -> tuple[Submission, ...]:
        """List the submissions that are checked or wait, in their order."""
        return tuple(self.store.submissions.queue())

    @method("GET", "/account/bots", role=Role.AUTHOR, scope=Scope.READ, key="bots")
    def bots(self, *, everybody: bool = False) -> tuple[BotPlace, ...]:
        """List the bots of the caller's author, or of everybody, for an admin."""
        if everybody:
            self.check_admin()
        bots = self.store.bots.all(None if everybody else self.own_id)
        shared = self.store.bots.shared_files() if everybody else ()
        return tuple(
            bot_place(bot, copies(shared, bot.author, bot.name))
            for bot in bots
            if everybody or self.is_own(bot.author)
        )

    @method("POST", "/bots/{bot}/withdraw", role=Role.AUTHOR, scope=Scope.SUBMIT, key="bot")
    def withdraw(self, *, bot: str) -> BotPlace:
        """Withdraw a bot of the caller's author: it plays no more games."""
        found = self._own_bot(bot)
        return bot_place(self.store.bots.withdraw(found.name, actor=self.caller.by))

    @method("GET", "/bots/{bot}/archive", role=Role.AUTHOR, scope=Scope.READ)
    def download_bot(self, *, bot: str, version: int = 0) -> Iterator[bytes]:
        """Download a version of a bot of the caller's author, as a zip."""
        found = self._own_bot(bot)
        versions = {one.number: one for one in self.store.bots.versions(found.name)}
        chosen = versions.get(version or found.current.number)
        if chosen is None:
            raise ApiError(RefusalKind.NOT_FOUND, f"{found.name} has no version {version}")
        archive = self.store.bots.archive(chosen.digest)
        chunk = self.limits.chunk_bytes
        return (archive[at : at + chunk] for at in range(0, len(archive), chunk))

    @method("GET", "/games/{game_id}/log", role=Role.AUTHOR, scope=Scope.READ, key="logs")
    def log(self, *, game_id: str) -> tuple[SeatLog, ...]:
        """Return the last output of the caller's bots that were at fault in a game."""
        everything = self.caller.is_machine and not self.caller.author
        nothing = ApiError(
            RefusalKind.NOT_FOUND, f"there is no game {quoted(game_id, 80)} with a bot of yours"
        )
        try:
            seats = self.store.history.get(game_id).line.seats
        except NotOnLadder:
            if everything:
                raise
            raise nothing from None
        readable = {
            number for number, seat in enumerate(seats) if everything or self.is_own(seat.author)
        }
        if not readable:
            raise nothing
        logs = self.store.logs.of_game(game_id)
        return tuple(log for log in logs if log.seat in readable)

    # ---------------------------------------------------------------------- analyses of games

    @method(
        "POST", "/games/{game_id}/analysis", role=Role.AUTHOR, scope=Scope.SUBMIT, key="analysis"
    )
    def request_analysis(self, *, game_id: str) -> LadderAnalysis:
        """Request the analysis of a game; of one that is there, or waits, nothing changes."""
        asked_by = self.caller.author_id or None
        return self.store.analyses.request(game_id, asked_by, plan(), self.limits)

    @method("GET", "/games/{game_id}/analysis")
    def analysis(self, *, game_id: str) -> AnalysisFound:
        """Return the analysis of a game, and the state of the last request."""
        return found_of(self.store, game_id)

    @method("GET", "/games/{game_id}/analysis/steps", key="analysis")
    def watch_analysis(self, *, game_id: str) -> Iterator[LadderAnalysis | None]:
        """Follow the analysis of a game that was requested last, until it has ended."""
        self.store.games.record(game_id)
        found = analyses_of(self.store, game_id).last
        if found is None:
            raise NotOnLadder("nobody has asked for an analysis of that game")
        return self._analysis_steps(found)

    def _analysis_steps(self, found: LadderAnalysis) -> Iterator[LadderAnalysis | None]:
        yield found
        while not found.state.is_final:
            before, found = found, self.store.analyses.get(found.id, plan)
            yield None if found == before else found

    # ----------------------------------------------------------------------------------- within

    def _steps(self, found: Submission) -> Iterator[Submission | None]:
        yield from self._with_copies(found)
        while not found.state.is_final:
            before, found = found, self.store.submissions.get(found.id)
            yield from (None,) if found == before else self._with_copies(found)

    def _with_copies(self, *submissions: Submission) -> tuple[Submission, ...]:
        """The same, each with other authors' versions that have its files, for admins."""
        if not self.caller.is_admin or all(one.version is None for one in submissions):
            return submissions
        shared = self.store.bots.shared_files()
        return tuple(
            one
            if one.version is None
            else replace(one, same_files=copies(shared, one.author, one.bot, one.version))
            for one in submissions
        )

    def _new(self, archive: Archive) -> NewSubmission:
        """A submission for the store. Raises ApiError for what no archive may say of itself."""
        most, size = self.limits.archive_bytes, archive.size
        for is_right, sentence in (
            (size > 0, "no file came: an archive has at least a byte"),
            (
                size <= most or self.caller.is_machine,
                f"the archive has {size_in_words(size)}; at most {size_in_words(most)} are taken",
            ),
            (
                _SHA256.fullmatch(archive.sha256),
                "the header's sha256 is not 64 hexadecimal digits in lower case",
            ),
            (
                _KEY.fullmatch(archive.key),
                "the key of an upload has 8 to 64 characters of A-Z a-z 0-9 . _ : -",
            ),
        ):
            if not is_right:
                raise ApiError(RefusalKind.INVALID, sentence)
        return self._submission(archive)

    def _submission(self, archive: Archive) -> NewSubmission:
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
        try:
            found = self.store.bots.get(name)
        except NotOnLadder:
            found = None
        if found is None or not self.is_own(found.author):
            raise ApiError(RefusalKind.NOT_FOUND, f"you have no bot {quoted(name, 40)}")
        return found


def bot_place(bot: LadderBot, same_files: tuple[str, ...] = ()) -> BotPlace:
    """A bot of the store for people and programs."""
    return BotPlace(
        bot=bot.name,
        author=bot.author,
        version=bot.current.number,
        state=bot.state,
        reason=bot.reason or "",
        same_files=same_files,
    )
