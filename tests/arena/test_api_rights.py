"""Who may call what: a row for every declared method, a column for every kind of caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_arena.api.ladder_api import METHODS, LadderApi
from deepsea_arena.api.local import LocalLadder, check_call
from deepsea_arena.api.remote import RemoteLadder
from deepsea_arena.api.service import MACHINE, LadderService, visitor
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_ladder.store import Store


def _caller(role: Role, *scopes: Scope) -> Caller:
    return Caller(author="anna", author_id=1, role=role, scopes=frozenset(scopes), secret_id=1)


CALLERS: Final = {
    "visitor": visitor("192.0.2.7"),
    "no scope": _caller(Role.AUTHOR),
    "reads": _caller(Role.AUTHOR, Scope.READ),
    "submits": _caller(Role.AUTHOR, Scope.READ, Scope.SUBMIT),
    # A scope without the role, and the role without the scope.
    "pretends": _caller(Role.AUTHOR, *Scope),
    "rests": _caller(Role.ADMIN, Scope.READ, Scope.SUBMIT),
    "admin": _caller(Role.ADMIN, *Scope),
    "machine": MACHINE,
}
OPEN: Final = tuple(CALLERS)
KNOWN: Final = OPEN[1:]
READERS: Final = OPEN[2:]
SUBMITTERS: Final = OPEN[3:]
ADMINS: Final = ("admin", "machine")

MAY: Final = {
    "server": OPEN,
    "settings": OPEN,
    "redeem": OPEN,
    "who_am_i": KNOWN,
    "tokens": READERS,
    "create_token": SUBMITTERS,
    "revoke_token": KNOWN,
    "sessions": READERS,
    "end_session": KNOWN,
    "audit": READERS,
    "submit": SUBMITTERS,
    "watch_submission": READERS,
    "submissions": READERS,
    "withdraw": SUBMITTERS,
    "download_bot": READERS,
    "log": READERS,
    "bots": READERS,
    "standings": OPEN,
    "bot": OPEN,
    "games": OPEN,
    "game": OPEN,
    "season": OPEN,
    "seasons": OPEN,
    "pairs": OPEN,
    "verdicts": OPEN,
    "tournaments": OPEN,
    "tournament": OPEN,
    "record": OPEN,
    "frames": OPEN,
    "export": OPEN,
    "feed": OPEN,
    "request_analysis": SUBMITTERS,
    "analysis": OPEN,
    "watch_analysis": OPEN,
    # Whose game it is, is asked below.
    "play": OPEN,
    "person_games": OPEN,
    "watch_seat": OPEN,
    "decide": OPEN,
    "leave": OPEN,
    "person_game": OPEN,
    "create_codes": ADMINS,
    "codes": ADMINS,
    "revoke_code": ADMINS,
    "overview": ADMINS,
    "authors": ADMINS,
    "reset_author": ADMINS,
    "rename_author": ADMINS,
    "anonymise_author": ADMINS,
    "block_author": ADMINS,
    "set_bot_state": ADMINS,
    "queue": ADMINS,
    "set_setting": ADMINS,
    "season_control": ADMINS,
    "set_deadline": ADMINS,
    "pause_season": ADMINS,
    "open_season": ADMINS,
    "close_season": ADMINS,
    "begin_tournament": ADMINS,
    "status": ADMINS,
    "quarantine": ADMINS,
    "requeue": ADMINS,
}
"""Who may call each method."""
ALWAYS: Final = ("server", "redeem")
"""What visitors of a private ladder may call."""


def test_here_every_method_is_checked_and_elsewhere_a_request() -> None:
    for name in METHODS:
        assert vars(LocalLadder)[name] is not getattr(LadderApi, name)
        assert vars(RemoteLadder)[name] is not getattr(LadderApi, name)


@pytest.fixture(scope="module")
def store(played_file: Path) -> Iterator[Store]:
    with Store.open(played_file) as store:
        yield store


def service_of(store: Store, *, private: bool = False) -> LadderService:
    return LadderService(store, entropy=lambda: bytes(32), private=private)


def refusal(service: LadderService, caller: Caller, name: str) -> RefusalKind | None:
    """The kind of the refusal of a call; None if it is allowed."""
    try:
        check_call(service, caller, METHODS[name])
    except ApiError as refused:
        return refused.kind
    return None


def test_every_method_has_a_row() -> None:
    assert set(MAY) == set(METHODS)


@pytest.mark.parametrize("name", MAY)
def test_who_may_call_a_method(store: Store, name: str) -> None:
    service = service_of(store)
    found = {word: refusal(service, caller, name) for word, caller in CALLERS.items()}
    denied = dict.fromkeys(CALLERS, RefusalKind.DENIED) | {"visitor": RefusalKind.UNAUTHENTICATED}
    assert found == {word: None if word in MAY[name] else denied[word] for word in CALLERS}


@pytest.mark.parametrize("name", MAY)
def test_visitors_of_a_private_ladder_may_join_and_nothing_else(store: Store, name: str) -> None:
    service = service_of(store, private=True)
    expected = None if name in ALWAYS else RefusalKind.UNAUTHENTICATED
    assert refusal(service, CALLERS["visitor"], name) is expected
    for word in MAY[name]:
        assert word == "visitor" or refusal(service, CALLERS[word], name) is None


def test_whoever_may_only_read_changes_nothing() -> None:
    assert all(
        method.scope is not Scope.READ and name not in ("standings", "games")
        for name, method in METHODS.items()
        if method.changes
    )
