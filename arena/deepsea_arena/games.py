"""The games of a ladder: the newest ones, and all of them for other programs.

Invariants: games are listed by the order in which they were rated; seats stand in the order of the
table; an export writes numbers so that reading them gives the same bits.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

from deepsea_arena.wire.json import Int64, Json, to_object, utc_time
from deepsea_ladder.model import GameFilter, StoredGame, StoredSeat
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_rules.record import GameRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSeat:
    """How a game went for one seat."""

    bot: str
    version: int
    author: str
    digest: str
    points: int
    placement: int
    decisions: int
    faults: int
    forfeit: str | None
    """The fault that forfeited the seat."""
    mu: float
    """The rating after the game."""
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GameLine:
    """A game that was played."""

    seq: Int64
    """Its place in the order in which games are rated."""
    game_id: str
    season: str
    played_at: datetime
    seats: tuple[GameSeat, ...]

    def by_placement(self) -> list[GameSeat]:
        """The seats, the best placement first."""
        return sorted(self.seats, key=lambda seat: seat.placement)


@dataclass(frozen=True, slots=True)
class GamesPage:
    """Some of a ladder's games, the newest first."""

    games: tuple[GameLine, ...]


def newest_games(
    store: Store,
    limit: int,
    season_name: str | None = None,
    wanted: GameFilter | None = None,
) -> GamesPage:
    """The newest games of one season or of all that the filter lets through."""
    wanted = wanted or GameFilter()
    if wanted.bot is None and (wanted.against is not None or wanted.lost):
        raise UserError("--against and --lost are about a bot: name it with --bot")
    season = None if season_name is None else store.seasons.get(season_name)
    for name in (wanted.bot, wanted.against):
        if name is not None:
            store.bots.get(name)  # which says so if there is none
    return GamesPage(tuple(map(_game, store.history.latest(limit, season, wanted))))


CSV_COLUMNS: Final = (
    *(field.name for field in fields(GameLine) if field.name != "seats"),
    "seat",
    *(field.name for field in fields(GameSeat)),
)


def json_lines(store: Store, season_name: str | None = None) -> Iterator[str]:
    """A line of JSON for each game: what `GameLine` has, and its record."""
    for game in _games(store, season_name):
        line = {**to_object(_game(game)), "record": json.loads(game.record)}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def csv_lines(store: Store, season_name: str | None = None) -> Iterator[str]:
    """The names of the columns, then a line for each seat of each game."""
    yield _csv(dict.fromkeys(CSV_COLUMNS), head=True)
    for stored in _games(store, season_name):
        game = _game(stored)
        for index, seat in enumerate(game.seats):
            yield _csv(to_object(game) | {"seat": index} | to_object(seat))


def _games(store: Store, season_name: str | None) -> Iterator[StoredGame]:
    season = None if season_name is None else store.seasons.get(season_name)
    return store.history.games(season)


def _game(game: StoredGame) -> GameLine:
    return GameLine(
        seq=Int64(game.seq),
        game_id=game.game_id,
        season=game.season,
        played_at=utc_time(game.played_at),
        seats=tuple(map(_seat, game.seats)),
    )


def _seat(seat: StoredSeat) -> GameSeat:
    version, result = seat.version, seat.result
    return GameSeat(
        bot=version.bot,
        version=version.number,
        author=version.author,
        digest=version.digest,
        points=result.points,
        placement=result.placement,
        decisions=result.decisions,
        faults=result.faults,
        forfeit=result.forfeit,
        mu=seat.rating.mu,
        sigma=seat.rating.sigma,
    )


def _csv(row: Mapping[str, Json], *, head: bool = False) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS if head else [row[column] for column in CSV_COLUMNS])
    return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class BotLogLine:
    """What a bot at fault left of a game; a stranger's text, to be escaped."""

    seat: int
    bot: str
    """Its name and version."""
    error: str
    output: str


def game_logs(store: Store, game_id: str) -> list[BotLogLine]:
    """The logs of a game, by seat. Raises StoreError if there is no such game."""
    logs = store.logs.of_game(game_id)
    seats = GameRecord.from_json(store.games.record(game_id)).seats
    return [
        BotLogLine(seat=log.seat, bot=seats[log.seat].name, error=log.error, output=log.output)
        for log in logs
    ]
