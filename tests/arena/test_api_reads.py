"""The ladder's API: who may call what, and what everybody may read."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import islice, takewhile

import pytest
from msgspec.structs import replace

from deepsea_arena.api.errors import FAILED, ApiError, RefusalKind, refusal_of
from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE, LadderService, visitor
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_ladder.errors import (
    NotOnLadder,
    SeasonClosed,
    StoreDamaged,
    StoreUnavailable,
    SubmissionError,
)
from deepsea_ladder.model import GameLine, SeatLog
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from helpers import ladder


@pytest.fixture
def service(played: Store) -> LadderService:
    return LadderService(played, entropy=lambda: b"")


def person(role: Role, *scopes: Scope) -> Caller:
    return Caller(author="anna", role=role, scopes=frozenset(scopes))


VISITOR, READER, ADMIN = (
    visitor(),
    person(Role.AUTHOR, Scope.READ),
    person(Role.ADMIN, Scope.READ, Scope.ADMIN),
)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (NotOnLadder("there is no bot 'x'"), RefusalKind.NOT_FOUND, "there is no bot 'x'"),
        (UserError("limit is\na number"), RefusalKind.INVALID, "limit is a number"),
        (
            SubmissionError("you have submitted enough"),
            RefusalKind.NOT_NOW,
            "you have submitted enough",
        ),
        (SeasonClosed("the season is closed"), RefusalKind.NOT_NOW, "the season is closed"),
        (StoreUnavailable("/srv/ladder.db is locked"), RefusalKind.UNAVAILABLE, None),
        (StoreDamaged("/srv/ladder.db: row 7"), RefusalKind.INTERNAL, FAILED),
        (ZeroDivisionError("division by zero"), RefusalKind.INTERNAL, FAILED),
    ],
)
def test_a_refusal_says_nothing_of_the_inside(
    error: Exception, kind: RefusalKind, said: str | None
) -> None:
    refused = refusal_of(error)
    assert refused.kind is kind
    assert said is None or str(refused) == said
    assert "/srv" not in str(refused)
    assert refusal_of(refused) is refused


def test_errors_of_methods_become_refusals_but_for_the_machine(service: LadderService) -> None:
    with pytest.raises(ApiError) as info:
        LocalLadder(service, VISITOR).bot(bot="nobody")
    assert info.value.kind is RefusalKind.NOT_FOUND
    with pytest.raises(NotOnLadder):
        LocalLadder(service, MACHINE).bot(bot="nobody")


def test_no_two_methods_have_one_address() -> None:
    paths = [(method.verb, method.path) for method in METHODS.values()]
    assert len(set(paths)) == len(paths)


def test_tracebacks_are_for_the_author_and_for_admins(service: LadderService) -> None:
    game = service.store.history.latest(4)[-1]
    bot = service.store.bots.get(game.seats[0].bot).current
    season = service.store.seasons.get("s1")
    service.store.jobs.add(season, ladder.rotations(ladder.ids(service.store), 4))
    ladder.play_all(service.store, season, {"s1-9": [bot.bot]})
    (newest, *_) = service.store.history.latest_of(season, bot.id, 0, limit_with_faults=1)
    seat = [seat.label for seat in newest.seats].index(bot.label)
    service.store.logs.add(newest.seq, [SeatLog(seat, "anna v1", "its traceback", "")])
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
        faults = LocalLadder(service, caller).bot(bot=bot.bot.upper()).faults
        assert faults[0].error == error


def test_the_feed_gives_all_games_since_a_break_the_oldest_first(played: Store) -> None:
    """However many there are: 1,000 games, of which somebody missed the last 300."""
    copies = "WITH RECURSIVE n(n) AS (SELECT 9 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) "
    seats = "season_id, version_id, points, placement, decisions, faults, forfeit, mu, sigma"
    game = "season_id, 's1-' || n, attempt, n, head, played_at, record"
    with closing(sqlite3.connect(str(played.database))) as file, file:
        file.execute(f"INSERT INTO games {copies} SELECT n, n, {game} FROM games, n WHERE seq = 8")
        seat = f"SELECT n, seat, n, {seats} FROM game_seats, n WHERE seq = 8"
        file.execute(f"INSERT INTO game_seats (seq, seat, number, {seats}) {copies} {seat}")
    feed = LocalLadder(LadderService(played, entropy=lambda: b""), VISITOR).feed(after=700)
    told = [step.seq for step in takewhile(lambda step: step is not None, feed) if step]
    assert told == list(range(701, 1001))


# What the commands import from afar: tests/cli/test_remote_login.py.
@pytest.mark.release
def test_a_client_needs_neither_a_database_nor_a_server() -> None:
    seen = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        (sys.executable, "-c", f"from deepsea_arena.api import ladder_api, remote; {seen}"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(done.stdout.split()) & {"sqlalchemy", "alembic", "grpc", "starlette"}


def test_the_feed_tells_games_once_and_then_that_there_is_nothing_new(
    service: LadderService,
) -> None:
    seqs = [game.seq for game in LocalLadder(service, VISITOR).games(limit=500).games]
    feed = LocalLadder(service, VISITOR).feed(after=min(seqs))
    told = [found.seq for found in islice(feed, len(seqs) - 1) if found]
    assert told == sorted(seqs)[1:]
    assert next(feed) is None
    assert next(LocalLadder(service, VISITOR).feed()) is None
    assert isinstance(next(LocalLadder(service, VISITOR).feed(after=min(seqs))), GameLine)
