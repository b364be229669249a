"""Submissions of an author from afar, and what an author may do with own bots.

Invariants: what is somebody else's is refused as what is not there; a half upload leaves no row;
strangers' uploads never meet a season that plays bots without a sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.errors import Kind, ServiceError, refusal_of
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Flow, Method
from deepsea_arena.service.upload import Upload
from deepsea_arena.wire.json import Int64, utc_time
from deepsea_bundle import names
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model import submissions
from deepsea_ladder.model.bots import BotState, LadderBot
from deepsea_ladder.model.submissions import NewSubmission, SubmissionState
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

SUBMISSIONS: Final = 50
MOST_SUBMISSIONS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A bot that was uploaded."""

    id: Int64
    bot: str
    author: str
    state: SubmissionState
    ahead: int
    """Of one that waits: how many are checked before it."""
    games: int
    of_games: int
    version: int | None
    digest: str
    found: str
    remedy: str
    error: str
    log: tuple[str, ...]
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class SubmissionStep:
    """The present state of a submission."""

    submission: Submission


@dataclass(frozen=True, slots=True)
class SubmissionList:
    """Submissions of an author, the newest first."""

    submissions: tuple[Submission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPlace:
    """A bot's place in the store."""

    bot: str
    author: str
    version: int
    state: BotState
    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A bot that gets no more games."""

    bot: BotPlace


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """A part of a zip."""

    chunk: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatLogText:
    """What a bot left of a game."""

    seat: int
    bot: str
    """Its name and version."""
    error: str
    output: str


@dataclass(frozen=True, slots=True)
class GameLogs:
    """What is kept of the caller's bots, by seat."""

    logs: tuple[SeatLogText, ...]


def begin_upload(service: LadderService, caller: Caller) -> Upload:
    """An upload of this caller: feed it with what comes, then call `Submit` with it, and close it.

    Raises ServiceError if the caller may not submit. A header that is refused for the author's
    limits is refused at once, before the bytes.
    """
    service.allowed(caller, "Submit")
    if not caller.author_id:
        raise ServiceError(Kind.DENIED, "an author's token submits; here `ladder submit` does")

    def on_header(upload: Upload) -> bool:
        new = _new(service, caller, upload)
        try:
            return service.store.submissions.check(new, upload.limits) is not None
        except Exception as error:
            raise refusal_of(error) from error

    return service.uploads.begin(caller.author_id, on_header)


def submit(
    service: LadderService, caller: Caller, *, upload: Upload
) -> Iterator[SubmissionStep | None]:
    """Put an upload into the queue, and follow its check; see `begin_upload`."""
    upload.finish()
    parts = () if upload.known else upload.parts()
    new = _new(service, caller, upload)
    found = service.store.submissions.add(new, parts, upload.limits)
    upload.close()
    return _steps(service.store, found)


def watch_submission(
    service: LadderService,
    caller: Caller,
    *,
    id: int = 0,  # noqa: A002  (the field of the request)
) -> Iterator[SubmissionStep | None]:
    """Follow a submission of one's own, from its present state on."""
    return _steps(service.store, service.store.submissions.get(id, caller.author_id))


def _steps(store: Store, found: submissions.Submission) -> Iterator[SubmissionStep | None]:
    yield SubmissionStep(submission_view(found))
    while not found.state.is_final:
        before, found = found, store.submissions.get(found.id)
        yield None if found == before else SubmissionStep(submission_view(found))


def list_submissions(service: LadderService, caller: Caller, *, limit: int = 0) -> SubmissionList:
    """The submissions of the caller's author, the newest first."""
    if not 0 <= limit <= MOST_SUBMISSIONS:
        raise UserError(f"limit is a number from 1 to {MOST_SUBMISSIONS}")
    return submissions_of(service.store, caller.author_id, limit or SUBMISSIONS)


def submissions_of(store: Store, author_id: int, limit: int) -> SubmissionList:
    """What an author has submitted, the newest first."""
    found = store.submissions.of_author(author_id, limit)
    return SubmissionList(tuple(map(submission_view, found)))


def list_queue(service: LadderService, caller: Caller) -> SubmissionList:
    """What is being checked or waits, in the order in which it is checked."""
    return SubmissionList(tuple(map(submission_view, service.store.submissions.queue())))


def withdraw(service: LadderService, caller: Caller, *, bot: str = "") -> Withdrawn:
    """Take a bot of one's own out."""
    found = _own_bot(service, caller, bot)
    if found.state is BotState.DISABLED:
        raise ServiceError(Kind.NOT_NOW, f"{found.name} is disabled: {found.reason}")
    if found.state is BotState.ACTIVE:
        found = service.store.bots.withdraw(found.name, by=caller.by)
    return Withdrawn(bot_place(found))


def download_bot(
    service: LadderService, caller: Caller, *, bot: str = "", version: int = 0
) -> Iterator[ArchivePart]:
    """The files of a version of one's own bot, as a zip in parts."""
    found = _own_bot(service, caller, bot)
    versions = {one.number: one for one in service.store.bots.versions(found.name)}
    chosen = versions.get(version or found.current.number)
    if chosen is None:
        raise ServiceError(Kind.NOT_FOUND, f"{found.name} has no version {version}")
    archive = service.store.bots.archive(chosen.digest)
    chunk = service.limits.chunk_bytes
    return (ArchivePart(archive[at : at + chunk]) for at in range(0, len(archive), chunk))


def get_log(service: LadderService, caller: Caller, *, game_id: str = "") -> GameLogs:
    """What one's own bots left of a game with a fault."""
    nothing = ServiceError(
        Kind.NOT_FOUND, f"there is no game {quoted(game_id, 80)} with a bot of yours"
    )
    try:
        game = service.public.history.get(game_id)
    except NotOnLadder:
        raise nothing from None
    own = {
        number: seat.version
        for number, seat in enumerate(game.seats)
        if _is_own(caller, seat.version.author)
    }
    if not own:
        raise nothing
    return GameLogs(
        tuple(
            SeatLogText(seat=log.seat, bot=own[log.seat].label, error=log.error, output=log.output)
            for log in service.public.logs.of_game(game_id)
            if log.seat in own
        )
    )


def submission_view(found: submissions.Submission) -> Submission:
    """A submission for people and programs."""
    return Submission(
        id=Int64(found.id),
        bot=found.bot,
        author=found.author,
        state=found.state,
        ahead=found.ahead,
        games=found.games,
        of_games=found.of_games,
        version=found.version,
        digest=found.digest,
        found=found.found,
        remedy=found.remedy,
        error=found.error,
        log=found.log,
        created_at=utc_time(found.created_at),
        changed_at=utc_time(found.changed_at),
    )


def bot_place(bot: LadderBot) -> BotPlace:
    """A bot of the store for people and programs."""
    return BotPlace(
        bot=bot.name,
        author=bot.author,
        version=bot.current.number,
        state=bot.state,
        reason=bot.reason or "",
    )


def _new(service: LadderService, caller: Caller, upload: Upload) -> NewSubmission:
    return NewSubmission(
        author_id=caller.author_id,
        bot=upload.bot,
        key=upload.key,
        size=upload.size,
        sha256=upload.sha256,
        needs_sandbox=not service.uploads.local,
    )


def _is_own(caller: Caller, author: str) -> bool:
    return bool(caller.author) and names.key(author) == names.key(caller.author)


def _own_bot(service: LadderService, caller: Caller, name: str) -> LadderBot:
    try:
        found = service.store.bots.get(name)
    except NotOnLadder:
        found = None
    if found is None or not _is_own(caller, found.author):
        raise ServiceError(Kind.NOT_FOUND, f"you have no bot {quoted(name, 40)}")
    return found


SUBMISSIONS_METHODS: Final = (
    Method(
        name="Submit",
        handler=submit,
        role=Role.AUTHOR,
        scope=Scope.SUBMIT,
        flow=Flow.UPLOAD,
        verb="PUT",
        path="/bots/{bot}",
    ),
    Method(
        name="WatchSubmission",
        handler=watch_submission,
        role=Role.AUTHOR,
        scope=Scope.READ,
        flow=Flow.WATCH,
        path="/submissions/{id}",
    ),
    Method(
        name="ListSubmissions",
        handler=list_submissions,
        role=Role.AUTHOR,
        scope=Scope.READ,
        path="/submissions",
    ),
    Method(
        name="Withdraw",
        handler=withdraw,
        role=Role.AUTHOR,
        scope=Scope.SUBMIT,
        verb="POST",
        path="/bots/{bot}/withdraw",
    ),
    Method(
        name="DownloadBot",
        handler=download_bot,
        role=Role.AUTHOR,
        scope=Scope.READ,
        flow=Flow.MANY,
        path="/bots/{bot}/archive",
    ),
    Method(
        name="GetLog",
        handler=get_log,
        role=Role.AUTHOR,
        scope=Scope.READ,
        path="/games/{game_id}/log",
    ),
    Method(
        name="ListQueue",
        handler=list_queue,
        role=Role.ADMIN,
        scope=Scope.ADMIN,
        path="/admin/queue",
    ),
)
