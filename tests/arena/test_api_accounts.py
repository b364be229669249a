"""Accounts by the service: what a stranger, an author and an admin can do, and cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from deepsea_arena.api.errors import INVALID_TOKEN, ApiError, RefusalKind, refusal_of
from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE, LadderService, visitor
from deepsea_bundle.errors import BundleError
from deepsea_ladder.accounts import Caller, Role, Scope, SecretKind, new_secret
from deepsea_ladder.errors import LadderError
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from helpers import ladder
from helpers.manual_clock import ManualClock

HERE = "192.0.2.7"


def entropy() -> Callable[[], bytes]:
    """Other bytes at each call."""
    numbers = count()
    return lambda: hashlib.sha256(b"deepsea-test:%d" % next(numbers)).digest()


def service_of(store: Store, clock: ManualClock | None = None, **extra: Any) -> LadderService:
    return LadderService(store, entropy=entropy(), clock=clock or ManualClock(), **extra)


@pytest.fixture
def service(played: Store) -> LadderService:
    return service_of(played)


def codes(service: LadderService, **fields: Any) -> list[str]:
    return [one.code for one in LocalLadder(service, MACHINE).create_codes(**fields)]


def joined(service: LadderService, author: str) -> tuple[str, Caller]:
    """An author's token, and the author as a caller."""
    (code,) = codes(service, count=1)
    token = LocalLadder(service, visitor(HERE)).redeem(code=code, author=author).token
    return token, service.caller_of(token, HERE)


def an_admin(service: LadderService) -> Caller:
    _, caller = joined(service, "boss")
    made = LocalLadder(service, MACHINE).admin_token(caller.author)
    return service.caller_of(made.token, HERE)


def refused(service: LadderService, caller: Caller, name: str, **fields: object) -> ApiError:
    with pytest.raises((ApiError, BundleError, LadderError, UserError, TypeError)) as info:
        getattr(LocalLadder(service, caller), name)(**fields)
    assert "\n" not in str(info.value)
    return refusal_of(info.value)


def test_a_code_becomes_a_token_that_says_who_one_is(service: LadderService) -> None:
    (code,) = codes(service, count=1)
    redeemed = LocalLadder(service, visitor(HERE)).redeem(
        code=code.lower(), author="Zoe", label="lab"
    )
    assert (redeemed.account.author, redeemed.account.role) == ("Zoe", "author")
    assert redeemed.account.scopes == ("read", "submit")
    caller = service.caller_of(redeemed.token, HERE)
    assert LocalLadder(service, caller).who_am_i() == redeemed.account
    (line,) = LocalLadder(service, caller).tokens()
    assert (line.label, line.start) == ("lab", redeemed.token[:8])
    assert redeemed.token not in str(LocalLadder(service, MACHINE).audit(everybody=True))


@pytest.mark.parametrize("days", [-1, 366])
def test_codes_are_bounded(service: LadderService, days: int) -> None:
    for fields in ({}, {"count": -1}, {"count": 501}, {"count": 1, "days": days}):
        assert refused(service, MACHINE, "create_codes", **fields).kind is RefusalKind.INVALID
    for name in ("", "a/b", "x" * 41, "machine"):
        assert refused(service, MACHINE, "create_codes", authors=[name]).kind is RefusalKind.INVALID
    assert LocalLadder(service, MACHINE).codes() == ()


class Asked(Exception):
    """The store was asked."""


def unreadable() -> Any:
    def asked(*_: object, **__: object) -> None:
        raise Asked

    return SimpleNamespace(
        accounts=SimpleNamespace(holder_by_digest=asked, redeem=asked, open_session=asked),
        settings=SimpleNamespace(limits=lambda usual: usual),
    )


def asks(call: Callable[[], object]) -> bool:
    """Whether a call asks the store; else it is refused for its form."""
    with pytest.raises(ApiError) as info:
        call()
    assert info.value.kind is RefusalKind.UNAUTHENTICATED or isinstance(info.value.__cause__, Asked)
    return isinstance(info.value.__cause__, Asked)


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
    token = new_secret(SecretKind.TOKEN, bytes(32))[0]
    for enter in ("caller_of", "log_in"):
        assert asks(partial(getattr(service, enter), token, HERE))
        assert not asks(partial(getattr(service_of(unreadable()), enter), change(token), HERE))


def test_every_refused_token_is_refused_in_the_same_words(service: LadderService) -> None:
    token, caller = joined(service, "Zoe")
    blocked, _ = joined(service, "Yan")
    LocalLadder(service, caller).revoke_token(id=caller.secret_id)
    LocalLadder(service, MACHINE).block_author(author="Yan", blocked=True)
    said = set()
    for one in (token, blocked, new_secret(SecretKind.TOKEN, bytes(32))[0], "nonsense"):
        with pytest.raises(ApiError) as info:
            service.caller_of(one, HERE)
        said.add((info.value.kind, str(info.value)))
    assert len(said) == 1


def test_wrong_codes_cost_time_by_address(played: Store) -> None:
    clock = ManualClock()
    service = service_of(played, clock)
    token, _ = joined(service, "Yan")
    (code,) = codes(service, count=1)
    for _ in range(20):
        assert (
            refused(service, visitor(HERE), "redeem", code="x").kind is RefusalKind.UNAUTHENTICATED
        )
    found = refused(service, visitor(HERE), "redeem", code="x")
    assert (found.kind, found.retry_after) == (RefusalKind.EXHAUSTED, 180)
    with pytest.raises(ApiError) as info:
        service.log_in("x", HERE)
    assert info.value.kind is RefusalKind.EXHAUSTED
    assert service.log_in(token, HERE).caller.author == "Yan"
    other = visitor("192.0.2.8")
    assert refused(service, other, "redeem", code="x").kind is RefusalKind.UNAUTHENTICATED
    redeemed = LocalLadder(service, visitor(HERE)).redeem(code=code, author="Zoe")
    assert redeemed.account.author == "Zoe"
    clock.jump(180_000_000)
    assert refused(service, visitor(HERE), "redeem", code="x").kind is RefusalKind.UNAUTHENTICATED


def test_a_name_that_is_not_allowed_is_no_failure(service: LadderService) -> None:
    joined(service, "Zoe")
    (code,) = codes(service, count=1)
    for _ in range(21):
        found = refused(service, visitor(HERE), "redeem", code=code, author="zoe")
        assert found.kind is RefusalKind.NOT_NOW
        found = refused(service, visitor(HERE), "redeem", code=code, author="a/b")
        assert found.kind is RefusalKind.INVALID


def test_wrong_codes_and_tokens_keep_no_writer_waiting(played: Store) -> None:
    """They are refused by a read: here nothing can be written."""
    service = service_of(played)
    with ladder.no_writes(played):
        code, token = "AAAA-AAAA-AAAA-AAAA", new_secret(SecretKind.TOKEN, bytes(32))[0]
        assert (
            refused(service, visitor(HERE), "redeem", code=code).kind is RefusalKind.UNAUTHENTICATED
        )
        with pytest.raises(ApiError, match=INVALID_TOKEN):
            service.log_in(token, HERE)


def test_a_token_gives_no_more_than_the_one_that_makes_it(service: LadderService) -> None:
    _, caller = joined(service, "Zoe")
    for scopes in (["admin"], ["read", "admin"]):
        assert refused(service, caller, "create_token", scopes=scopes).kind is RefusalKind.DENIED
    for fields in ({"scopes": ["root"]}, {"days": -1}, {"days": 366}, {"label": "x" * 61}):
        assert refused(service, caller, "create_token", **fields).kind is RefusalKind.INVALID
    made = LocalLadder(service, caller).create_token(scopes=["read"], days=7, label="dash\x1bboard")
    assert (made.token.scopes, made.token.label) == (("read",), "dash\\x1bboard")
    reader = service.caller_of(made.secret, HERE)
    for name, fields in (
        ("create_token", {"scopes": ["read"]}),
        ("revoke_token", {"id": caller.secret_id}),
        ("end_session", {"id": 1}),
    ):
        assert refused(service, reader, name, **fields).kind is RefusalKind.DENIED
    LocalLadder(service, reader).revoke_token(id=reader.secret_id)
    assert not service.still_valid(reader)
    assert service.still_valid(caller)


def test_an_admins_usual_token_is_no_admins_token(service: LadderService) -> None:
    boss = an_admin(service)
    made = LocalLadder(service, boss).create_token()
    assert made.token.scopes == ("read", "submit")
    usual = service.caller_of(made.secret, HERE)
    assert refused(service, usual, "create_codes", count=1).kind is RefusalKind.DENIED
    assert refused(service, usual, "audit", everybody=True).kind is RefusalKind.DENIED
    assert LocalLadder(service, boss).create_codes(count=1)[0].code
    (code,) = [one.code for one in LocalLadder(service, boss).create_codes(authors=["boss"])]
    token = LocalLadder(service, visitor(HERE)).redeem(code=code).token
    assert Scope.ADMIN not in service.caller_of(token, HERE).scopes


def test_what_is_somebody_elses_is_not_there(service: LadderService) -> None:
    _, zoe = joined(service, "Zoe")
    token, yan = joined(service, "Yan")
    page = service.log_in(token, HERE)
    for name, known, unknown in (
        ("revoke_token", yan.secret_id, 99),
        ("end_session", page.caller.secret_id, 99),
    ):
        theirs, nobodys = (refused(service, zoe, name, id=one) for one in (known, unknown))
        assert theirs.kind is nobodys.kind is RefusalKind.NOT_FOUND
        assert str(theirs) == str(nobodys)
    assert service.still_valid(yan)
    assert {one.actor for one in LocalLadder(service, zoe).audit()} <= {"Zoe", ""}


def test_no_request_says_who_calls() -> None:
    for name, method in METHODS.items():
        fields = method.parameters.keys()
        assert not fields & {"role", "author_id", "actor", "secret_id", "caller"}
        if method.role is not Role.ADMIN:
            # `submissions` of another author are for admins.
            assert "author" not in fields or name in ("redeem", "submissions")


def test_a_session_is_opened_by_a_token_and_ends(service: LadderService) -> None:
    token, _ = joined(service, "Zoe")
    login = service.log_in(token, HERE)
    caller = service.caller_of(login.session, HERE, SecretKind.SESSION)
    assert caller == login.caller
    assert LocalLadder(service, caller).who_am_i().token_id == 0
    (line,) = LocalLadder(service, caller).sessions()
    assert line.address == "192.0.2.0/24"
    assert (line.expires_at - line.created_at).days == service.limits.session_days
    for refuse in (
        lambda: service.caller_of(login.session, HERE),
        lambda: service.caller_of(token, HERE, SecretKind.SESSION),
        lambda: service.log_in(login.session, HERE),
    ):
        with pytest.raises(ApiError):
            refuse()
    service.log_out(caller)
    service.log_out(caller)
    assert not service.still_valid(caller)
    for session in (login.session, "", login.session + " ", "0" * 64):
        with pytest.raises(ApiError) as info:
            service.caller_of(session, HERE, SecretKind.SESSION)
        assert info.value.kind is RefusalKind.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("block_author", {"author": "Zoe", "blocked": True}),
        ("reset_author", {"author": "Zoe"}),
        ("anonymise_author", {"author": "Zoe"}),
    ],
)
def test_what_an_admin_ends_is_no_longer_valid(
    service: LadderService, name: str, fields: dict[str, object]
) -> None:
    token, caller = joined(service, "Zoe")
    page = service.log_in(token, HERE).caller
    boss = an_admin(service)
    assert service.still_valid(caller)
    assert service.still_valid(page)
    getattr(LocalLadder(service, boss), name)(**fields)
    assert not service.still_valid(caller)
    assert not service.still_valid(page)
    assert LocalLadder(service, boss).audit(everybody=True)[0].actor == "boss"


def test_files_come_in_parts_of_the_limits_size(played: Store) -> None:
    service = service_of(played, limits=RemoteLimits(chunk_bytes=100))
    (code,) = codes(service, authors=["ben-senior"])
    token = LocalLadder(service, visitor(HERE)).redeem(code=code).token
    caller = service.caller_of(token, HERE)
    *parts, last = [len(part) for part in LocalLadder(service, caller).download_bot(bot="ben")]
    assert set(parts) == {100}
    assert 0 < last <= 100


def test_limits_are_parameters(played: Store) -> None:
    service = service_of(played, limits=RemoteLimits(codes=2, tokens=1, failures_per_hour=1))
    assert refused(service, MACHINE, "create_codes", count=3).kind is RefusalKind.INVALID
    _, caller = joined(service, "Zoe")
    assert refused(service, caller, "create_token").kind is RefusalKind.NOT_NOW
    refused(service, visitor(HERE), "redeem", code="x")
    assert refused(service, visitor(HERE), "redeem", code="x").retry_after == 3600


def test_strange_names_are_just_not_there(service: LadderService) -> None:
    for name in ("\x00", "\ud800", "x" * 100_000, "ben'; DROP TABLE authors"):
        assert refused(service, MACHINE, "reset_author", author=name).kind is RefusalKind.NOT_FOUND
        assert refused(service, MACHINE, "rename_author", author="ben-senior", to=name).kind in (
            RefusalKind.INVALID,
        )


@pytest.mark.parametrize("at", ["9999-12-31T23:00-14:00", "0001-01-01T00:00+14:00"])
def test_a_time_that_no_calendar_has_is_refused(service: LadderService, at: str) -> None:
    """In UTC it would lie after the year 9999, or before the first."""
    for refusal in (
        refused(service, MACHINE, "open_season", settings={"name": "s2"}, deadline=at),
        refused(service, MACHINE, "set_deadline", until=at),
    ):
        assert refusal.kind is RefusalKind.INVALID
        assert f"'{at}' is no time" in str(refusal)
