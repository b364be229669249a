"""What admins do: codes, authors, bots that are disabled, games in quarantine.

Invariant: every method needs the role and the scope of an admin, and whatever it changes stands in
the audit log with who did it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from deepsea_arena.service.accounts import Done
from deepsea_arena.service.caller import Caller
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.submissions import BotPlace, bot_place
from deepsea_arena.service.table import Method
from deepsea_arena.wire.json import Int64, utc_time
from deepsea_ladder.accounts import Role, Scope, code_digest, new_code
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.jobs import JobStatus
from deepsea_ladder.model.people import StoredAuthor, StoredCode
from deepsea_referee.errors import UserError

CODE_DAYS: Final = 14


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A code."""

    id: Int64
    code: str
    """The secret; "" in lists."""
    author: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CodeList:
    """Codes."""

    codes: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class NewCode:
    """A code for an author who was reset."""

    code: CodeLine


@dataclass(frozen=True, slots=True)
class AuthorLine:
    """An author."""

    author: str
    role: str
    state: str
    bots: int
    tokens: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AuthorList:
    """All authors."""

    authors: tuple[AuthorLine, ...]


@dataclass(frozen=True, slots=True)
class ChangedAuthor:
    """An author as it is now."""

    author: AuthorLine


@dataclass(frozen=True, slots=True)
class ChangedBot:
    """A bot as it is now."""

    bot: BotPlace


@dataclass(frozen=True, slots=True)
class QuarantinedJob:
    """A job that failed too often."""

    game_id: str
    bots: tuple[str, ...]
    failures: int
    note: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Jobs that failed too often."""

    jobs: tuple[QuarantinedJob, ...]


def create_codes(
    service: LadderService,
    caller: Caller,
    *,
    count: int = 0,
    authors: Sequence[str] = (),
    days: int = 0,
) -> CodeList:
    """Codes for new authors, and one for each of these authors, who are added if need be."""
    most, longest = service.limits.codes, service.limits.code_days
    if count < 0 or not 1 <= count + len(authors) <= most:
        raise UserError(f"from 1 to {most} codes are made at once")
    if not 0 <= days <= longest:
        raise UserError(f"days is a number from 1 to {longest}")
    wanted = [("", _code(service)) for _ in range(count)]
    if not all(authors):
        raise UserError("an author's name is missing")
    wanted += [(name, _code(service)) for name in authors]
    stored = service.store.accounts.make_codes(
        [(digest, author) for author, (_, digest) in wanted], days or CODE_DAYS, caller.by
    )
    return CodeList(
        tuple(_code_line(one, secret) for one, (_, (secret, _)) in zip(stored, wanted, strict=True))
    )


def list_codes(service: LadderService, caller: Caller) -> CodeList:
    """Codes that may be redeemed, without their secret."""
    return CodeList(tuple(_code_line(one, "") for one in service.store.accounts.codes()))


def revoke_code(service: LadderService, caller: Caller, *, id: int = 0) -> Done:  # noqa: A002
    """End a code."""
    service.store.accounts.revoke_code(id, caller.by)
    return Done()


def list_authors(service: LadderService, caller: Caller) -> AuthorList:
    """All authors."""
    return AuthorList(tuple(map(_author_line, service.store.authors.all())))


def reset_author(service: LadderService, caller: Caller, *, author: str = "") -> NewCode:
    """End all tokens and sessions of an author, and make a code for new ones."""
    secret, digest = _code(service)
    stored = service.store.accounts.reset(author, digest, CODE_DAYS, caller.by)
    return NewCode(_code_line(stored, secret))


def rename_author(
    service: LadderService, caller: Caller, *, author: str = "", to: str = ""
) -> ChangedAuthor:
    """Give an author another name."""
    return ChangedAuthor(_author_line(service.store.authors.rename(author, to, caller.by)))


def anonymise_author(service: LadderService, caller: Caller, *, author: str = "") -> ChangedAuthor:
    """Remove an author's name and rights for good; games stay."""
    return ChangedAuthor(_author_line(service.store.authors.anonymise(author, caller.by)))


def block_author(
    service: LadderService, caller: Caller, *, author: str = "", blocked: bool = False
) -> ChangedAuthor:
    """Block an author, or lift that."""
    found = service.store.authors.set_blocked(author, caller.by, blocked=blocked)
    return ChangedAuthor(_author_line(found))


def set_bot_state(
    service: LadderService, caller: Caller, *, bot: str = "", state: str = "", reason: str = ""
) -> ChangedBot:
    """Disable a bot, or enable it again."""
    if state == BotState.ACTIVE:
        found = service.store.bots.enable(bot, caller.by)
    elif state == BotState.DISABLED:
        if not reason.strip():
            raise UserError("say the reason, for the bot's author")
        found = service.store.bots.disable(bot, reason, caller.by)
    else:
        raise UserError("state is active or disabled")
    return ChangedBot(bot_place(found))


def list_quarantine(service: LadderService, caller: Caller) -> Quarantine:
    """Jobs in quarantine, the oldest first."""
    store = service.store
    found = [
        job
        for season in store.seasons.all()
        for job in store.queue.listed(season, JobStatus.QUARANTINED)
    ]
    return Quarantine(
        tuple(
            QuarantinedJob(job.game_id, job.lineup, job.failures, job.note or "") for job in found
        )
    )


def requeue(service: LadderService, caller: Caller, *, game_id: str = "") -> Done:
    """Give a job in quarantine another try."""
    service.store.jobs.requeue(game_id, caller.by)
    return Done()


def _code(service: LadderService) -> tuple[str, str]:
    """A new code, and what is stored of it."""
    secret = new_code(service.entropy())
    digest = code_digest(secret)
    assert digest is not None
    return secret, digest


def _code_line(code: StoredCode, secret: str) -> CodeLine:
    return CodeLine(Int64(code.id), secret, code.author, utc_time(code.expires_at))


def _author_line(author: StoredAuthor) -> AuthorLine:
    return AuthorLine(
        author=author.name,
        role=author.role.word,
        state=author.state,
        bots=author.bots,
        tokens=author.tokens,
        created_at=utc_time(author.created_at),
    )


def _method(name: str, handler: Callable[..., Any], verb: str, path: str) -> Method:
    return Method(
        name=name,
        handler=handler,
        role=Role.ADMIN,
        scope=Scope.ADMIN,
        verb=verb,
        path=f"/admin/{path}",
    )


ADMINISTRATION: Final = (
    _method("CreateCodes", create_codes, "POST", "codes"),
    _method("ListCodes", list_codes, "GET", "codes"),
    _method("RevokeCode", revoke_code, "DELETE", "codes/{id}"),
    _method("ListAuthors", list_authors, "GET", "authors"),
    _method("ResetAuthor", reset_author, "POST", "authors/{author}/reset"),
    _method("RenameAuthor", rename_author, "POST", "authors/{author}/rename"),
    _method("AnonymiseAuthor", anonymise_author, "POST", "authors/{author}/anonymise"),
    _method("BlockAuthor", block_author, "POST", "authors/{author}/blocked"),
    _method("SetBotState", set_bot_state, "POST", "bots/{bot}/state"),
    _method("ListQuarantine", list_quarantine, "GET", "quarantine"),
    _method("Requeue", requeue, "POST", "quarantine/{game_id}"),
)
