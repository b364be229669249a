"""The service: who may call what, and what everybody may read."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from deepsea_arena.service.caller import MACHINE, Caller, visitor
from deepsea_arena.service.errors import FAILED, Kind, ServiceError, refusal_of
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Method
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.errors import (
    NotOnLadder,
    SeasonClosed,
    StoreDamaged,
    StoreUnavailable,
    SubmissionError,
)
from deepsea_ladder.model.games import SeatLog
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from helpers import ladder

PROTO = Path("proto/deepsea/ladder/v1/ladder.proto")


def hello(service: LadderService, caller: Caller, *, to: str = "") -> str:
    if to == "nobody":
        raise NotOnLadder("there is no such author")
    return f"hello {to}"


def service_of(store: Store, *methods: Method, private: bool = False) -> LadderService:
    table = {method.name: method for method in methods} if methods else METHODS
    return LadderService(store, store, table, entropy=lambda: b"", private=private)


@pytest.fixture
def service(played: Store) -> Iterator[LadderService]:
    assert played.database.path is not None
    with Store.open(played.database.path, read_only=True, public=True) as public:
        yield LadderService(played, public, METHODS, entropy=lambda: b"")


def person(role: Role, *scopes: Scope) -> Caller:
    return Caller(author="anna", role=role, scopes=frozenset(scopes))


VISITOR, READER, SUBMITTER, ADMIN = (
    visitor(),
    person(Role.AUTHOR, Scope.READ),
    person(Role.AUTHOR, Scope.READ, Scope.SUBMIT),
    person(Role.ADMIN, Scope.READ, Scope.ADMIN),
)


@pytest.mark.parametrize(
    ("role", "scope", "refused"),
    [
        (Role.VISITOR, None, [None, None, None, None]),
        (Role.AUTHOR, Scope.READ, [Kind.UNAUTHENTICATED, None, None, None]),
        (Role.AUTHOR, Scope.SUBMIT, [Kind.UNAUTHENTICATED, Kind.DENIED, None, Kind.DENIED]),
        (Role.ADMIN, Scope.ADMIN, [Kind.UNAUTHENTICATED, Kind.DENIED, Kind.DENIED, None]),
    ],
)
def test_only_those_with_the_role_and_the_scope_may_call(
    played: Store, role: Role, scope: Scope | None, refused: list[Kind | None]
) -> None:
    method = Method(name="Hello", handler=hello, role=role, scope=scope, path="/hello")
    service = service_of(played, method)
    for caller, kind in zip((VISITOR, READER, SUBMITTER, ADMIN), refused, strict=True):
        if kind is None:
            assert service.call(caller, "Hello", to="ben") == "hello ben"
        else:
            with pytest.raises(ServiceError) as info:
                service.call(caller, "Hello", to="ben")
            assert info.value.kind is kind
    assert service.call(MACHINE, "Hello", to="ben") == "hello ben"


@pytest.mark.parametrize("always", [False, True])
def test_visitors_of_a_private_ladder_may_call_what_is_always_open(
    played: Store, always: bool
) -> None:
    method = Method(name="Hello", handler=hello, path="/hello", always=always)
    service = service_of(played, method, private=True)
    assert service.call(READER, "Hello") == "hello "
    if always:
        assert service.call(VISITOR, "Hello") == "hello "
    else:
        with pytest.raises(ServiceError) as info:
            service.call(VISITOR, "Hello")
        assert info.value.kind is Kind.UNAUTHENTICATED


def test_what_is_not_in_the_table_cannot_be_called(played: Store) -> None:
    with pytest.raises(ServiceError) as info:
        service_of(played).call(MACHINE, "Shutdown")
    assert info.value.kind is Kind.NOT_FOUND


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (NotOnLadder("there is no bot 'x'"), Kind.NOT_FOUND, "there is no bot 'x'"),
        (UserError("limit is\na number"), Kind.INVALID, "limit is a number"),
        (SubmissionError("you have submitted enough"), Kind.NOT_NOW, "you have submitted enough"),
        (SeasonClosed("the season is closed"), Kind.NOT_NOW, "the season is closed"),
        (StoreUnavailable("/srv/ladder.db is locked"), Kind.UNAVAILABLE, None),
        (StoreDamaged("/srv/ladder.db: row 7"), Kind.INTERNAL, FAILED),
        (ZeroDivisionError("division by zero"), Kind.INTERNAL, FAILED),
    ],
)
def test_a_refusal_says_nothing_of_the_inside(
    error: Exception, kind: Kind, said: str | None
) -> None:
    refused = refusal_of(error)
    assert refused.kind is kind
    assert said is None or str(refused) == said
    assert "/srv" not in str(refused)
    assert refusal_of(refused) is refused


def test_errors_of_handlers_become_refusals(played: Store) -> None:
    service = service_of(played, Method(name="Hello", handler=hello, path="/hello"))
    with pytest.raises(ServiceError) as info:
        service.call(VISITOR, "Hello", to="nobody")
    assert info.value.kind is Kind.NOT_FOUND


def test_every_method_is_one_of_the_proto() -> None:
    calls = re.findall(r"^  rpc (\w+)\(", PROTO.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(METHODS) <= set(calls)
    paths = [(method.verb, method.path) for method in METHODS.values()]
    assert len(set(paths)) == len(paths)


def test_everybody_may_read_what_was_played(service: LadderService) -> None:
    standings = service.call(VISITOR, "GetStandings")
    assert [line.bot for line in standings.standings if line.rank == 1] != []
    assert service.call(VISITOR, "GetBot", bot="ben").faulty_games == 2
    games = service.call(VISITOR, "ListGames", limit=3).games
    assert len(games) == 3
    faulty = service.call(VISITOR, "ListGames", faults=True).games
    assert [game.game_id for game in faulty] == ["s1-5", "s1-2"]
    game = games[0].game_id
    record = service.call(VISITOR, "GetRecord", game_id=game).record
    assert json.loads(record)["seats"]
    everything = json.loads(service.call(VISITOR, "GetFrames", game_id=game).frames)
    as_a = json.loads(service.call(VISITOR, "GetFrames", game_id=game, seat=0).frames)
    assert len(everything["frames"]) == len(as_a["frames"])
    assert everything != as_a
    assert len(list(service.call(VISITOR, "Export"))) > 8


def test_tracebacks_are_for_the_author_and_for_admins(service: LadderService) -> None:
    game = service.store.history.latest(4)[-1]
    bot = game.seats[0].version
    season = service.store.seasons.get("s1")
    service.store.jobs.add(season, ladder.rotations(ladder.ids(service.store), 4))
    ladder.play_all(service.store, season, {"s1-9": [bot.bot]})
    (newest, *_) = service.store.history.faulty(season, bot.id, 1)[1]
    seat = next(index for index, one in enumerate(newest.seats) if one.version.id == bot.id)
    service.store.logs.add(newest.seq, [SeatLog(seat, "its traceback", "")])
    owner = replace(READER, author=bot.author)
    for caller, error in (
        (VISITOR, None),
        (READER, None),
        (replace(READER, author=""), None),
        (replace(ADMIN, scopes=frozenset({Scope.READ})), None),
        (owner, "its traceback"),
        (ADMIN, "its traceback"),
        (MACHINE, "its traceback"),
    ):
        faults = service.call(caller, "GetBot", bot=bot.bot.upper()).faults
        assert faults[0].error == error


@pytest.mark.parametrize(
    ("name", "fields", "kind"),
    [
        ("GetStandings", {"season": "s9"}, Kind.NOT_FOUND),
        ("GetBot", {"bot": "nobody"}, Kind.NOT_FOUND),
        ("GetBot", {"bot": "ben", "version": 7}, Kind.NOT_FOUND),
        ("ListGames", {"limit": 501}, Kind.INVALID),
        ("ListGames", {"limit": -1}, Kind.INVALID),
        ("ListGames", {"lost": True}, Kind.INVALID),
        ("GetRecord", {"game_id": "s1-99"}, Kind.NOT_FOUND),
        ("GetFrames", {"game_id": "s1-1", "seat": 4}, Kind.INVALID),
        ("GetFrames", {"game_id": "s1-1", "seat": -1}, Kind.INVALID),
        ("Export", {"season": "s9"}, Kind.NOT_FOUND),
    ],
)
def test_what_there_is_not_is_refused_in_a_sentence(
    service: LadderService, name: str, fields: dict[str, object], kind: Kind
) -> None:
    with pytest.raises(ServiceError) as info:
        service.call(VISITOR, name, **fields)
    assert info.value.kind is kind
    assert "\n" not in str(info.value)


def test_nothing_under_embargo_is_read(service: LadderService) -> None:
    for later in (None, 2**50):
        ladder.a_cup(service.store, f"cup-{later or 0}", later)
    seen = service.call(VISITOR, "ListGames", limit=500).games
    assert {game.season for game in seen} == {"s1", "cup-0"}
    for name, fields in (
        ("GetStandings", {"season": f"cup-{2**50}"}),
        ("GetRecord", {"game_id": f"cup-{2**50}-1"}),
        ("Export", {"season": f"cup-{2**50}"}),
    ):
        with pytest.raises(ServiceError) as info:
            service.call(VISITOR, name, **fields)
        assert info.value.kind is Kind.NOT_FOUND


def test_the_feed_tells_games_once_and_then_that_there_is_nothing_new(
    service: LadderService,
) -> None:
    seqs = [game.seq for game in service.call(VISITOR, "ListGames", limit=500).games]
    feed = service.call(VISITOR, "WatchFeed", after=min(seqs))
    told = [found.game.seq for found in islice(feed, len(seqs) - 1)]
    assert told == sorted(seqs)[1:]
    assert next(feed) is None
    assert next(service.call(VISITOR, "WatchFeed")) is None
    assert dataclasses.is_dataclass(next(service.call(VISITOR, "WatchFeed", after=min(seqs))))
