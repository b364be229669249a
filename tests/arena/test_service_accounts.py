"""Accounts by the service: what a stranger, an author and an admin can do, and cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from deepsea_arena.service.accounts import ACCOUNTS
from deepsea_arena.service.administration import ADMINISTRATION
from deepsea_arena.service.caller import MACHINE, Caller, visitor
from deepsea_arena.service.errors import INVALID, Kind, ServiceError
from deepsea_arena.service.failures import Failures
from deepsea_arena.service.login import (
    caller_of_session,
    caller_of_token,
    log_in,
    log_out,
    still_valid,
)
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.wire.messages import request_from_bytes, request_to_bytes
from deepsea_ladder import accounts
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_ladder.store import Store
from helpers.ladder_messages import field_names

HERE = "192.0.2.7"


class Time:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def entropy() -> Callable[[], bytes]:
    """Other bytes at each call."""
    numbers = count()
    return lambda: hashlib.sha256(b"deepsea-test:%d" % next(numbers)).digest()


def service_of(
    store: Store, clock: Callable[[], float] | None = None, **extra: Any
) -> LadderService:
    return LadderService(store, store, METHODS, entropy=entropy(), clock=clock or Time(), **extra)


@pytest.fixture
def service(played: Store) -> LadderService:
    return service_of(played)


def codes(service: LadderService, **fields: object) -> list[str]:
    return [one.code for one in service.call(MACHINE, "CreateCodes", **fields).codes]


def joined(service: LadderService, author: str) -> tuple[str, Caller]:
    """An author's token, and the author as a caller."""
    (code,) = codes(service, count=1)
    token = service.call(visitor(HERE), "Redeem", code=code, author=author).token
    return token, caller_of_token(service, token, HERE)


def an_admin(service: LadderService) -> Caller:
    _, caller = joined(service, "boss")
    secret = accounts.new_token(service.entropy())
    digest = accounts.token_digest(secret)
    assert digest is not None
    from deepsea_ladder.store.account_rows import NewToken

    service.store.accounts.admin_token(
        caller.author, NewToken(digest, secret[:8], "", 365, tuple(Scope)), accounts.MACHINE
    )
    return caller_of_token(service, secret, HERE)


def refused(service: LadderService, caller: Caller, name: str, **fields: object) -> ServiceError:
    with pytest.raises(ServiceError) as info:
        service.call(caller, name, **fields)
    assert "\n" not in str(info.value)
    return info.value


def test_a_code_becomes_a_token_that_says_who_one_is(service: LadderService) -> None:
    (code,) = codes(service, count=1)
    redeemed = service.call(visitor(HERE), "Redeem", code=code.lower(), author="Zoe", label="lab")
    assert (redeemed.account.author, redeemed.account.role) == ("Zoe", "author")
    assert redeemed.account.scopes == ("read", "submit")
    caller = caller_of_token(service, redeemed.token, HERE)
    assert service.call(caller, "WhoAmI").account == redeemed.account
    (line,) = service.call(caller, "ListTokens").tokens
    assert (line.label, line.start) == ("lab", redeemed.token[:8])
    assert redeemed.token not in str(service.call(MACHINE, "ListAudit", everybody=True))


@pytest.mark.parametrize("days", [-1, 366])
def test_codes_are_bounded(service: LadderService, days: int) -> None:
    for fields in ({}, {"count": -1}, {"count": 501}, {"count": 1, "days": days}):
        assert refused(service, MACHINE, "CreateCodes", **fields).kind is Kind.INVALID
    for name in ("", "a b", "x" * 41, "machine"):
        assert refused(service, MACHINE, "CreateCodes", authors=[name]).kind is Kind.INVALID
    assert service.call(MACHINE, "ListCodes").codes == ()


class Asked(Exception):
    """The store was asked."""


def unreadable() -> Any:
    def asked(*_: object, **__: object) -> None:
        raise Asked

    return SimpleNamespace(
        accounts=SimpleNamespace(by_token=asked, redeem=asked),
        sessions=SimpleNamespace(find=asked, open=asked),
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda token: " " + token,
        lambda token: token + " ",
        lambda token: token[:20] + " " + token[20:],
        lambda token: token * 200,
        lambda token: token[:-1] + ("x" if token[-1] != "x" else "y"),
        lambda token: "",
        lambda token: "dsl_",
        lambda token: "\x00" * len(token),
    ],
)
def test_what_is_no_token_is_refused_before_the_store_is_asked(
    change: Callable[[str], str],
) -> None:
    service = service_of(unreadable())
    token = accounts.new_token(bytes(32))
    for enter in (caller_of_token, log_in):
        with pytest.raises(Asked):
            enter(service, token, HERE)
        with pytest.raises(ServiceError) as info:
            enter(service_of(unreadable()), change(token), HERE)
        assert info.value.kind is Kind.UNAUTHENTICATED


def test_every_refused_token_is_refused_in_the_same_words(service: LadderService) -> None:
    token, caller = joined(service, "Zoe")
    blocked, _ = joined(service, "Yan")
    service.call(caller, "RevokeToken", id=caller.token_id)
    service.call(MACHINE, "BlockAuthor", author="Yan", blocked=True)
    said = set()
    for one in (token, blocked, accounts.new_token(bytes(32)), "nonsense"):
        with pytest.raises(ServiceError) as info:
            caller_of_token(service, one, HERE)
        said.add((info.value.kind, str(info.value)))
    assert len(said) == 1


def test_wrong_codes_cost_time_by_address(played: Store) -> None:
    time = Time()
    service = service_of(played, time)
    token, _ = joined(service, "Yan")
    (code,) = codes(service, count=1)
    for _ in range(5):
        assert refused(service, visitor(HERE), "Redeem", code="x").kind is Kind.UNAUTHENTICATED
    found = refused(service, visitor(HERE), "Redeem", code="x")
    assert (found.kind, found.retry_after) == (Kind.EXHAUSTED, 1)
    with pytest.raises(ServiceError) as info:
        log_in(service, "x", HERE)
    assert info.value.kind is Kind.EXHAUSTED
    assert log_in(service, token, HERE).caller.author == "Yan"
    other = visitor("192.0.2.8")
    assert refused(service, other, "Redeem", code="x").kind is Kind.UNAUTHENTICATED
    assert service.call(visitor(HERE), "Redeem", code=code, author="Zoe").account.author == "Zoe"
    time.now = 1.0
    assert refused(service, visitor(HERE), "Redeem", code="x").kind is Kind.UNAUTHENTICATED


def test_who_chooses_no_name_is_asked_for_one(service: LadderService) -> None:
    (code,) = codes(service, count=1)
    found = refused(service, visitor(HERE), "Redeem", code=code)
    assert (found.kind, str(found)) == (
        Kind.NOT_NOW,
        "this code is for a new author: choose a name",
    )


def test_a_name_that_is_not_allowed_is_no_failure(service: LadderService) -> None:
    joined(service, "Zoe")
    (code,) = codes(service, count=1)
    for _ in range(9):
        found = refused(service, visitor(HERE), "Redeem", code=code, author="zoe")
        assert found.kind is Kind.NOT_NOW
        found = refused(service, visitor(HERE), "Redeem", code=code, author="a b")
        assert found.kind is Kind.INVALID


def test_logins_fail_at_most_so_often_in_any_hour() -> None:
    """Also of one who tries again as soon as it may be."""
    time = Time()
    failures = Failures(time, most=20, most_sources=2)
    failed = []
    for number in range(100):
        try:
            failures.add(f"2001:db8::{number:x}")  # all from one network
            failed.append(time.now)
        except ServiceError as error:
            time.now += error.retry_after or 0
    assert len(failed) > 40
    assert all(later - at >= 3600 for at, later in zip(failed, failed[20:], strict=False))
    failures.add(HERE)
    failures.add("192.0.2.9")
    assert len(failures._failed) == 2


def test_wrong_codes_and_tokens_keep_no_writer_waiting(played: Store) -> None:
    """They are refused by a read: here nothing can be written."""
    assert played.database.path is not None
    with Store.open(played.database.path, read_only=True) as store:
        service = service_of(store)
        code, token = "AAAA-AAAA-AAAA-AAAA", accounts.new_token(bytes(32))
        assert refused(service, visitor(HERE), "Redeem", code=code).kind is Kind.UNAUTHENTICATED
        with pytest.raises(ServiceError, match=INVALID):
            log_in(service, token, HERE)


def test_a_token_gives_no_more_than_the_one_that_makes_it(service: LadderService) -> None:
    _, caller = joined(service, "Zoe")
    for scopes in (["admin"], ["read", "admin"]):
        assert refused(service, caller, "CreateToken", scopes=scopes).kind is Kind.DENIED
    for fields in ({"scopes": ["root"]}, {"days": -1}, {"days": 366}, {"label": "x" * 61}):
        assert refused(service, caller, "CreateToken", **fields).kind is Kind.INVALID
    made = service.call(caller, "CreateToken", scopes=["read"], days=7, label="dash\x1bboard")
    assert (made.token.scopes, made.token.label) == (("read",), "dash\\x1bboard")
    reader = caller_of_token(service, made.secret, HERE)
    for name, fields in (
        ("CreateToken", {"scopes": ["read"]}),
        ("RevokeToken", {"id": caller.token_id}),
        ("EndSession", {"id": 1}),
    ):
        assert refused(service, reader, name, **fields).kind is Kind.DENIED
    service.call(reader, "RevokeToken", id=reader.token_id)
    assert not still_valid(service, reader)
    assert still_valid(service, caller)


def test_an_admins_usual_token_is_no_admins_token(service: LadderService) -> None:
    boss = an_admin(service)
    made = service.call(boss, "CreateToken")
    assert made.token.scopes == ("read", "submit")
    usual = caller_of_token(service, made.secret, HERE)
    assert refused(service, usual, "CreateCodes", count=1).kind is Kind.DENIED
    assert refused(service, usual, "ListAudit", everybody=True).kind is Kind.DENIED
    assert service.call(boss, "CreateCodes", count=1).codes[0].code
    (code,) = [one.code for one in service.call(boss, "CreateCodes", authors=["boss"]).codes]
    token = service.call(visitor(HERE), "Redeem", code=code).token
    assert Scope.ADMIN not in caller_of_token(service, token, HERE).scopes


@pytest.mark.parametrize("method", ADMINISTRATION, ids=lambda method: str(method.name))
def test_nobody_but_an_admin_administers(service: LadderService, method: Any) -> None:
    _, caller = joined(service, "Zoe")
    assert refused(service, visitor(HERE), method.name).kind is Kind.UNAUTHENTICATED
    assert refused(service, caller, method.name).kind is Kind.DENIED
    forged = Caller(author="Zoe", role=Role.AUTHOR, scopes=frozenset(Scope))
    assert refused(service, forged, method.name).kind is Kind.DENIED


def test_what_is_somebody_elses_is_not_there(service: LadderService) -> None:
    _, zoe = joined(service, "Zoe")
    token, yan = joined(service, "Yan")
    page = log_in(service, token, HERE)
    for name, known, unknown in (
        ("RevokeToken", yan.token_id, 99),
        ("EndSession", page.caller.session_id, 99),
    ):
        theirs, nobodys = (refused(service, zoe, name, id=one) for one in (known, unknown))
        assert theirs.kind is nobodys.kind is Kind.NOT_FOUND
        assert str(theirs) == str(nobodys)
    assert still_valid(service, yan)
    assert {one.actor for one in service.call(zoe, "ListAudit").entries} <= {"Zoe", ""}


@pytest.mark.parametrize(
    "method", [*ACCOUNTS, *ADMINISTRATION], ids=lambda method: str(method.name)
)
def test_no_request_says_who_calls(method: Any) -> None:
    fields = field_names(method.name)
    assert not fields & {"role", "author_id", "actor", "session_id", "token_id", "state"} or (
        method.name == "SetBotState"
    )
    if method.role is not Role.ADMIN:
        assert "author" not in fields or method.name == "Redeem"
    with pytest.raises((TypeError, ValueError)):
        request_to_bytes(method.name, {"role": "admin"})
    assert request_from_bytes(method.name, request_to_bytes(method.name, {})).keys() <= fields


def test_extra_fields_reach_no_handler(service: LadderService) -> None:
    (code,) = codes(service, count=1)
    found = refused(
        service, visitor(HERE), "Redeem", code=code, author="Zoe", role="admin", scopes=["admin"]
    )
    assert found.kind is Kind.INTERNAL
    assert codes(service, count=1)
    assert service.call(visitor(HERE), "Redeem", code=code, author="Zoe").account.role == "author"


def test_a_session_is_opened_by_a_token_and_ends(service: LadderService) -> None:
    token, _ = joined(service, "Zoe")
    login = log_in(service, token, HERE)
    caller = caller_of_session(service, login.session, HERE)
    assert caller == login.caller
    assert service.call(caller, "WhoAmI").account.token_id == 0
    (line,) = service.call(caller, "ListSessions").sessions
    assert line.address == "192.0.2.0/24"
    assert (line.expires_at - line.created_at).days == service.limits.session_days
    log_out(service, caller)
    log_out(service, caller)
    assert not still_valid(service, caller)
    for session in (login.session, "", login.session + " ", "0" * 64):
        with pytest.raises(ServiceError) as info:
            caller_of_session(service, session, HERE)
        assert info.value.kind is Kind.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("BlockAuthor", {"author": "Zoe", "blocked": True}),
        ("ResetAuthor", {"author": "Zoe"}),
        ("AnonymiseAuthor", {"author": "Zoe"}),
    ],
)
def test_what_an_admin_ends_is_no_longer_valid(
    service: LadderService, name: str, fields: dict[str, object]
) -> None:
    token, caller = joined(service, "Zoe")
    page = log_in(service, token, HERE).caller
    boss = an_admin(service)
    assert still_valid(service, caller)
    assert still_valid(service, page)
    service.call(boss, name, **fields)
    assert not still_valid(service, caller)
    assert not still_valid(service, page)
    assert service.call(boss, "ListAudit", everybody=True).entries[0].actor == "boss"


def test_the_last_admin_is_kept(service: LadderService) -> None:
    boss = an_admin(service)
    for name, fields in (
        ("BlockAuthor", {"author": "boss", "blocked": True}),
        ("AnonymiseAuthor", {"author": "boss"}),
        ("ResetAuthor", {"author": "boss"}),
        ("RevokeToken", {"id": boss.token_id}),
    ):
        assert refused(service, boss, name, **fields).kind is Kind.NOT_NOW
    assert still_valid(service, boss)


def test_an_admin_disables_and_enables_bots(service: LadderService) -> None:
    boss = an_admin(service)
    made = service.call(boss, "SetBotState", bot="ben", state="disabled", reason="it snores").bot
    assert (made.state, made.reason) == ("disabled", "it snores")
    assert service.call(boss, "SetBotState", bot="ben", state="active").bot.state == "active"
    for fields, kind in (
        ({"bot": "ben", "state": "withdrawn"}, Kind.INVALID),
        ({"bot": "ben", "state": "disabled"}, Kind.INVALID),
        ({"bot": "nobody", "state": "active"}, Kind.NOT_FOUND),
    ):
        assert refused(service, boss, "SetBotState", **fields).kind is kind
    (enabled, *_) = service.call(boss, "ListAudit", everybody=True).entries
    assert (enabled.kind, enabled.subject, enabled.actor) == ("enabled", "ben", "boss")


def test_an_admin_requeues_what_is_in_quarantine(service: LadderService) -> None:
    boss = an_admin(service)
    assert service.call(boss, "ListQuarantine").jobs == ()
    assert refused(service, boss, "Requeue", game_id="s1-1").kind is Kind.NOT_FOUND
    assert refused(service, boss, "Requeue", game_id="nothing").kind is Kind.NOT_FOUND


def test_authors_of_before_get_codes(service: LadderService) -> None:
    (code,) = codes(service, authors=["ben-senior"])
    assert service.call(visitor(HERE), "Redeem", code=code).account.author == "ben-senior"
    lines = {one.author: one for one in service.call(MACHINE, "ListAuthors").authors}
    assert (lines["ben-senior"].bots, lines["ben-senior"].tokens) == (1, 1)


def test_files_come_in_parts_of_the_limits_size(played: Store) -> None:
    service = service_of(played, limits=RemoteLimits(chunk_bytes=100))
    (code,) = codes(service, authors=["ben-senior"])
    token = service.call(visitor(HERE), "Redeem", code=code).token
    caller = caller_of_token(service, token, HERE)
    *parts, last = [len(part.chunk) for part in service.call(caller, "DownloadBot", bot="ben")]
    assert set(parts) == {100}
    assert 0 < last <= 100


def test_a_private_ladder_lets_people_in_by_code(played: Store) -> None:
    service = service_of(played, private=True)
    assert refused(service, visitor(HERE), "GetStandings").kind is Kind.UNAUTHENTICATED
    _, caller = joined(service, "Zoe")
    assert service.call(caller, "GetStandings").standings


def test_limits_are_parameters(played: Store) -> None:
    service = service_of(played, limits=RemoteLimits(codes=2, tokens=1, failures_per_hour=1))
    assert refused(service, MACHINE, "CreateCodes", count=3).kind is Kind.INVALID
    _, caller = joined(service, "Zoe")
    assert refused(service, caller, "CreateToken").kind is Kind.NOT_NOW
    refused(service, visitor(HERE), "Redeem", code="x")
    assert refused(service, visitor(HERE), "Redeem", code="x").retry_after == 3600


def test_strange_names_are_just_not_there(service: LadderService) -> None:
    for name in ("\x00", "\ud800", "x" * 100_000, "ben'; DROP TABLE authors", "ä"):
        assert refused(service, MACHINE, "ResetAuthor", author=name).kind is Kind.NOT_FOUND
        assert refused(service, MACHINE, "RenameAuthor", author="ben-senior", to=name).kind in (
            Kind.INVALID,
        )
