"""Who may call what, over gRPC and HTTP: every method and every role has its place in a table.

A new method without a row fails the first test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from deepsea_arena.service.caller import MACHINE
from deepsea_arena.service.login import log_in
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.upload import Uploads
from deepsea_ladder.store import Store
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.entropy import fresh_seed
from helpers import submissions
from helpers.remote import OK, WAYS, Answer, Remote, served

CALLERS: Final = ("visitor", "other", "reader", "usual admin", "author", "admin")
"""`author` is anna-senior, whose things are asked for; `reader` is her token with the scope read
alone; `usual admin` an admin's token without the scope admin. In the order of their calls."""
NOBODY, DENIED, MISSING = "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"
INVALID, NOT_NOW = "INVALID_ARGUMENT", "FAILED_PRECONDITION"
ALL: Final = (OK,) * 6
OWN: Final = (NOBODY, OK, OK, OK, OK, OK)
"""Each gets what is their own."""
HERS: Final = (NOBODY, MISSING, OK, MISSING, OK, MISSING)
"""Of something that is anna's, as a whole or in part."""
CHANGE_HERS: Final = (NOBODY, MISSING, DENIED, MISSING, OK, MISSING)
ADMIN: Final = (NOBODY, DENIED, DENIED, DENIED, DENIED, OK)


class World:
    """A ladder with something of everybody's."""

    def __init__(self, service: LadderService, there: Remote) -> None:
        self.service = service
        self.store = service.store
        self.there = there
        anna = there.token("anna-senior")
        self.tokens: dict[str, str | None] = {
            "visitor": None,
            "other": there.token("ben-senior"),
            "reader": there.token("anna-senior", ("read",)),
            "usual admin": there.token("chief", ("read", "submit"), admin=True),
            "author": anna,
            "admin": there.token("head", admin=True),
        }
        self.anna = anna
        self.waiting = submissions.add(self.store, self.author_id("anna-senior"), "waiting")

    def author_id(self, name: str) -> int:
        return submissions.an_author(self.store, name)

    def new_token(self) -> int:
        """The id of another token of anna's."""
        made = self.there.call("CreateToken", self.anna, label="x", scopes=("read",), days=1)
        return int(made.document["token"]["id"])

    def new_session(self) -> int:
        """The id of a login of anna's."""
        return log_in(self.service, self.anna, "127.0.0.1").caller.session_id

    def analysed(self) -> str:
        """A game whose analysis was asked for."""
        self.service.call(MACHINE, "RequestAnalysis", game_id="s1-3")
        return "s1-3"

    def new_code(self) -> Any:
        (code,) = self.service.call(MACHINE, "CreateCodes", count=1).codes
        return code

    def somebody(self) -> str:
        """An author whom nothing else is about."""
        name = f"victim-{len(self.store.authors.all())}"
        self.service.call(MACHINE, "CreateCodes", authors=(name,))
        return name


Fields = Callable[[World], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A method, what it is called with, and what each of CALLERS gets."""

    method: str
    codes: tuple[str, ...]
    fields: Fields = lambda world: {}


def given(**fields: Any) -> Fields:
    return lambda world: fields


def renamed(**fields: Any) -> dict[str, Any]:
    return fields


ROWS: Final = (
    Row("GetServer", ALL),
    Row("GetStandings", ALL),
    Row("GetBot", ALL, given(bot="ben")),
    Row("ListGames", ALL),
    Row("GetRecord", ALL, given(game_id="s1-1")),
    Row("GetFrames", ALL, given(game_id="s1-1")),
    Row("GetAnalysis", ALL, given(game_id="s1-1")),
    Row("RequestAnalysis", (NOBODY, OK, DENIED, OK, OK, OK), given(game_id="s1-1")),
    Row("WatchAnalysis", ALL, lambda world: {"game_id": world.analysed()}),
    Row("Export", ALL),
    Row("WatchFeed", ALL, given(after=1)),
    Row("WhoAmI", OWN),
    Row("ListTokens", OWN),
    Row("ListSessions", OWN),
    Row("ListSubmissions", OWN),
    Row("ListBots", OWN),
    Row("ListBots", ADMIN, given(everybody=True)),
    Row("ListAudit", OWN),
    Row("ListAudit", ADMIN, given(everybody=True)),
    Row("WatchSubmission", HERS, lambda world: {"id": world.waiting.id}),
    Row("DownloadBot", HERS, given(bot="anna")),
    # In this game ben crashed, and everybody has a bot in it but the admins.
    Row("GetLog", (NOBODY, OK, OK, MISSING, OK, MISSING), given(game_id="s1-2")),
    Row(
        "CreateToken",
        (NOBODY, OK, DENIED, OK, OK, OK),
        given(label="more", scopes=("read",), days=1),
    ),
    # More than the caller's own token gives.
    Row(
        "CreateToken",
        (NOBODY, DENIED, DENIED, DENIED, DENIED, OK),
        given(label="more", scopes=("admin",), days=1),
    ),
    Row(
        "RevokeToken",
        (NOBODY, MISSING, DENIED, MISSING, OK, MISSING),
        lambda world: {"id": world.new_token()},
    ),
    Row(
        "EndSession",
        (NOBODY, MISSING, DENIED, MISSING, OK, MISSING),
        lambda world: {"id": world.new_session()},
    ),
    Row("Withdraw", CHANGE_HERS, given(bot="anna")),
    Row("CreateCodes", ADMIN, given(count=1)),
    Row("ListCodes", ADMIN),
    Row("RevokeCode", ADMIN, lambda world: {"id": world.new_code().id}),
    Row("ListAuthors", ADMIN),
    Row("ResetAuthor", ADMIN, lambda world: {"author": world.somebody()}),
    Row(
        "RenameAuthor",
        ADMIN,
        lambda world: renamed(author=world.somebody(), to=f"new-{fresh_seed().hex()[:8]}"),
    ),
    Row("AnonymiseAuthor", ADMIN, lambda world: {"author": world.somebody()}),
    Row("BlockAuthor", ADMIN, lambda world: {"author": world.somebody(), "blocked": True}),
    Row("SetBotState", ADMIN, given(bot="ben", state="disabled", reason="a test")),
    Row("ListQueue", ADMIN),
    Row("ListQuarantine", ADMIN),
    Row("Requeue", (NOBODY, DENIED, DENIED, DENIED, DENIED, MISSING), given(game_id="s1-99")),
    # A code is its own proof, whoever brings it.
    Row(
        "Redeem",
        ALL,
        lambda world: {"code": world.new_code().code, "author": f"new-{fresh_seed().hex()[:8]}"},
    ),
    Row("Submit", (NOBODY, OK, DENIED, OK, OK, OK)),
)


def test_every_method_has_a_row() -> None:
    assert {row.method for row in ROWS} == set(METHODS)
    assert all(len(row.codes) == len(CALLERS) for row in ROWS)


@pytest.fixture
def world(played: Store, request: pytest.FixtureRequest) -> Iterator[World]:
    uploads = Uploads(SystemClock(), local=True)
    service = LadderService(played, played, METHODS, entropy=fresh_seed, uploads=uploads)
    with served(service) as server:
        yield World(service, Remote(server, request.param))


@pytest.mark.parametrize("world", WAYS, indirect=True)
def test_everybody_gets_what_the_table_says(world: World) -> None:
    found = {}
    for number, row in enumerate(ROWS):
        codes = tuple(
            asked(world, row, token, f"{who}-{number}").code for who, token in world.tokens.items()
        )
        found[number, row.method] = codes
    assert found == {(number, row.method): row.codes for number, row in enumerate(ROWS)}


def asked(world: World, row: Row, token: str | None, key: str) -> Answer:
    if row.method == "Submit":
        content = submissions.zipped(key)
        digest = hashlib.sha256(content).hexdigest()
        header = {"bot": "mine", "size": len(content), "sha256": digest, "key": digest[:16]}
        return world.there.submit(token, header, [content], most=1)
    return world.there.call(row.method, token, most=1, **row.fields(world))


@pytest.mark.parametrize("world", WAYS, indirect=True)
def test_answers_hold_what_is_the_callers_own(world: World) -> None:
    """Authors, tokens and submissions of others are not among them."""
    for who, author in (("author", "anna-senior"), ("other", "ben-senior")):
        token = world.tokens[who]
        assert world.there.call("WhoAmI", token).document["account"]["author"] == author
        tokens = {one["id"] for one in world.there.call("ListTokens", token).document["tokens"]}
        bots = world.there.call("ListBots", token).document["bots"]
        queue = world.there.call("ListSubmissions", token).document["submissions"]
        assert {bot["author"] for bot in bots} == {author}
        assert {one["author"] for one in queue} <= {author}
        logs = world.there.call("GetLog", token, game_id="s1-2").document["logs"]
        assert {log["bot"].split()[0] for log in logs} <= {author.removesuffix("-senior")}
        known = {str(one.id) for one in world.store.accounts.tokens(world.author_id(author))}
        assert tokens == known


@pytest.mark.parametrize("world", WAYS, indirect=True)
def test_what_is_not_there_and_what_is_somebody_elses_read_alike(world: World) -> None:
    other = world.tokens["other"]
    pairs: list[tuple[str, str, Any, Any]] = [
        ("DownloadBot", "bot", "anna", "anne"),
        ("Withdraw", "bot", "anna", "anne"),
        ("WatchSubmission", "id", world.waiting.id, world.waiting.id + 1),
        ("RevokeToken", "id", world.new_token(), 10_000),
        ("EndSession", "id", world.new_session(), 10_000),
    ]
    for name, field, hers, nobodys in pairs:
        said = [
            world.there.call(name, other, **{field: value}).message.replace(str(value), "X")
            for value in (hers, nobodys)
        ]
        assert said[0] == said[1], name


@pytest.mark.parametrize("world", WAYS, indirect=True)
def test_a_private_ladder_has_the_same_table_for_visitors_as_for_nobody(world: World) -> None:
    world.service.private = True
    always = {name for name, method in METHODS.items() if method.always}
    assert always == {"GetServer", "Redeem"}
    for number, row in enumerate(ROWS):
        code = asked(world, row, None, f"private-{number}").code
        assert code == (OK if row.method in always else NOBODY), row.method
    assert world.there.call("GetServer").document["season"] == ""
    assert world.there.call("GetServer", world.anna).document["season"] == "s1"
