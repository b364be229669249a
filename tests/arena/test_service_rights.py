"""Who may call what: a row for every method of the proto, a column for every kind of caller."""

from __future__ import annotations

from typing import Final

import pytest

from deepsea_arena.service.caller import MACHINE, Caller, visitor
from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.wire import messages
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.store import Store


def _caller(role: Role, *scopes: Scope) -> Caller:
    return Caller(author="anna", author_id=1, role=role, scopes=frozenset(scopes), token_id=1)


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
    "GetServer": OPEN,
    "Redeem": OPEN,
    "WhoAmI": KNOWN,
    "ListTokens": READERS,
    "CreateToken": SUBMITTERS,
    "RevokeToken": KNOWN,
    "ListSessions": READERS,
    "EndSession": KNOWN,
    "ListAudit": READERS,
    "Submit": SUBMITTERS,
    "WatchSubmission": READERS,
    "ListSubmissions": READERS,
    "Withdraw": SUBMITTERS,
    "DownloadBot": READERS,
    "GetLog": READERS,
    "ListBots": READERS,
    "GetStandings": OPEN,
    "GetBot": OPEN,
    "ListGames": OPEN,
    "GetRecord": OPEN,
    "GetFrames": OPEN,
    "Export": OPEN,
    "WatchFeed": OPEN,
    "RequestAnalysis": SUBMITTERS,
    "GetAnalysis": OPEN,
    "WatchAnalysis": OPEN,
    "CreateCodes": ADMINS,
    "ListCodes": ADMINS,
    "RevokeCode": ADMINS,
    "ListAuthors": ADMINS,
    "ResetAuthor": ADMINS,
    "RenameAuthor": ADMINS,
    "AnonymiseAuthor": ADMINS,
    "BlockAuthor": ADMINS,
    "SetBotState": ADMINS,
    "ListQueue": ADMINS,
    "ListQuarantine": ADMINS,
    "Requeue": ADMINS,
}
"""Who may call each method."""
CHANGES: Final = (
    "Create",
    "Redeem",
    "Revoke",
    "End",
    "Submit",
    "Withdraw",
    "Reset",
    "Rename",
    "Anonymise",
    "Block",
    "Set",
    "Requeue",
    "Request",
)
"""How the names of methods begin that change something."""
ALWAYS: Final = ("GetServer", "Redeem")
"""What visitors of a private ladder may call."""


def service_of(store: Store, *, private: bool = False) -> LadderService:
    return LadderService(store, store, METHODS, entropy=lambda: bytes(32), private=private)


def refusal(service: LadderService, caller: Caller, name: str) -> Kind | None:
    """The kind of the refusal of a call; None if it is allowed."""
    try:
        service.allowed(caller, name)
    except ServiceError as refused:
        return refused.kind
    return None


def test_every_method_has_a_row() -> None:
    assert set(MAY) == set(messages.METHODS) == set(METHODS)


@pytest.mark.parametrize("name", MAY)
def test_who_may_call_a_method(played: Store, name: str) -> None:
    service = service_of(played)
    found = {word: refusal(service, caller, name) for word, caller in CALLERS.items()}
    denied = dict.fromkeys(CALLERS, Kind.DENIED) | {"visitor": Kind.UNAUTHENTICATED}
    assert found == {word: None if word in MAY[name] else denied[word] for word in CALLERS}


@pytest.mark.parametrize("name", MAY)
def test_visitors_of_a_private_ladder_may_join_and_nothing_else(played: Store, name: str) -> None:
    service = service_of(played, private=True)
    expected = None if name in ALWAYS else Kind.UNAUTHENTICATED
    assert refusal(service, CALLERS["visitor"], name) is expected
    for word in MAY[name]:
        assert word == "visitor" or refusal(service, CALLERS[word], name) is None


@pytest.mark.parametrize("name", MAY)
def test_what_changes_something_is_no_get(name: str) -> None:
    assert (METHODS[name].verb != "GET") == name.startswith(CHANGES)
