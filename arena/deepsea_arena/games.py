"""The games of a ladder: the newest ones, one with its record, all of them for other programs, and
those of people.

Invariants: games are listed by the order in which they were rated; seats stand in the order of the
table; an export writes numbers so that reading them gives the same bits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from deepsea_arena import documents
from deepsea_arena.documents import to_object
from deepsea_arena.ladder_analyses import LadderAnalyses, analyses_of
from deepsea_arena.seasons import SeasonInfo, season_info
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.export import export_lines
from deepsea_ladder.model import (
    GameFilter,
    GameLine,
    GameSeat,
    Int64,
    PersonGame,
    Presence,
    StoredSeason,
    TaskState,
    Time,
    utc_time,
)
from deepsea_referee.errors import UserError
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import commitment

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


GAMES = 20
"""The games of a page, if nothing else was asked for."""
MOST_GAMES = 500
"""The games of one page, at most."""


class GamesPage(Struct, frozen=True):
    """Some of a ladder's games, the newest first."""

    games: tuple[GameLine, ...]
    older: Int64 | None
    """The beginning of older games, for `before`; None if there are none."""


class RatingChange(Struct, frozen=True, kw_only=True):
    """The change of a seat's rating, which is mu - 3 sigma, by a game."""

    before: float
    after: float
    mu_before: float
    mu_after: float
    first: bool
    """True if it was the version's first game of the season."""

    @property
    def change(self) -> float:
        """The change of the rating."""
        return self.after - self.before


class GameReport(Struct, frozen=True, kw_only=True):
    """A game that was played."""

    game: GameLine
    season: SeasonInfo
    changes: tuple[RatingChange, ...]
    """By seat."""
    record: str
    """The record as one line of JSON, which anybody can verify."""
    seed: str
    """The game's seed in hex, and the SHA-256 of it that bots were sent before."""
    commitment: str
    season_seed: str | None
    """The seed from which those of the season's games follow; None before it is revealed."""
    analyses: LadderAnalyses
    """Requested and finished analyses."""


def newest_games(
    store: Store,
    limit: int,
    season_name: str | None = None,
    wanted: GameFilter | None = None,
    *,
    before: int | None = None,
) -> GamesPage:
    """The newest games of one season or of all that the filter lets through.

    before  leave out the game with this sequence number and newer ones
    """
    wanted = wanted or GameFilter()
    if wanted.bot is None and (wanted.against is not None or wanted.lost):
        raise UserError("--against and --lost are about a bot: name it with --bot")
    season = None if season_name is None else store.seasons.get(season_name)
    for name in (wanted.bot, wanted.against):
        if name is not None:
            store.bots.get(name)  # which says so if there is none
    numbers = store.history.newest(limit + 1, season, wanted, before=before)
    older = Int64(numbers[limit - 1]) if len(numbers) > limit else None
    return GamesPage(tuple(store.history.numbered(numbers[:limit])), older)


CSV_COLUMNS = (
    *(name for name in GameLine.__struct_fields__ if name != "seats"),
    "seat",
    *GameSeat.__struct_fields__,
)


def json_lines(store: Store, season_name: str | None = None) -> Iterator[str]:
    """The chain of a season, or of all, the oldest first: see `deepsea_ladder.export`.

    A season of which something is damaged is left out whole, since a part of its chain cannot be
    followed to a head. Raises `StoreDamaged` behind the last season that can be read.
    """
    seasons = store.seasons.all() if season_name is None else [store.seasons.get(season_name)]
    damage = [*store.seasons.damages()] if season_name is None else []
    for season in seasons:
        try:
            deque(export_lines(store, season), maxlen=0)  # all of it is read before a line is given
        except StoreDamaged as error:
            damage.append(str(error))
        else:
            yield from export_lines(store, season)
    for line in damage:
        raise StoreDamaged(line)


def csv_lines(store: Store, season_name: str | None = None) -> Iterator[str]:
    """The names of the columns, then a line for each seat of each game that can be read.

    Raises `StoreDamaged` behind the last one if one cannot.
    """
    season = None if season_name is None else store.seasons.get(season_name)
    games = store.history.lines(season)
    yield from documents.csv_lines(
        (
            to_object(game) | {"seat": index} | to_object(seat)
            for game in games
            for index, seat in enumerate(game.seats)
        ),
        CSV_COLUMNS,
    )


@lru_cache(maxsize=16)
def read_record(text: str) -> GameRecord:
    """A stored record; kept for the rest of a page, which needs it too."""
    return GameRecord.from_json(text)


def game_report(store: Store, game_id: str) -> GameReport:
    """The report of a game. Raises StoreError if there is none."""
    stored = store.history.get(game_id)
    game, season = stored.line, store.seasons.get(stored.line.season)
    seed = read_record(stored.record).seed
    return GameReport(
        game=game,
        season=season_info(season),
        changes=_changes(store, season, game),
        record=stored.record,
        seed=seed.hex(),
        commitment=commitment(seed),
        season_seed=store.seasons.revealed_seed(season),
        analyses=analyses_of(store, game_id),
    )


def _changes(store: Store, season: StoredSeason, game: GameLine) -> tuple[RatingChange, ...]:
    former, newcomer = store.history.before(game.seq), season.settings.rating.newcomer
    return tuple(
        RatingChange(
            before=(before or newcomer).conservative,
            after=seat.rating.conservative,
            mu_before=(before or newcomer).mu,
            mu_after=seat.mu,
            first=before is None,
        )
        for seat, before in zip(game.seats, former, strict=True)
    )


# Of people


class PersonGameLine(Struct, frozen=True, kw_only=True):
    """A game of a person against bots, which is not rated."""

    game_id: str
    season: str
    """The season of the bots, with whose clock and limits they play."""
    rules: str
    seat: int
    """The person's."""
    person: str
    """The author's name; "" of a visitor."""
    names: tuple[str, ...]
    """By seat, as in the record, where every person is called `person`."""
    state: TaskState
    presence: Presence
    reason: str
    """The reason for which it is void, or is tried again."""
    created_at: Time
    placement: int | None
    """The person's, once the game is over."""


class PersonGameList(Struct, frozen=True):
    """The caller's games, newest first, and whether the caller may begin another one."""

    games: tuple[PersonGameLine, ...]
    season: str
    """The season whose bots are played."""
    rules: str
    """Its preset."""
    refusal: str
    """The reason for which the caller may not; "" else."""


class SeatText(Struct, frozen=True):
    """A game as its person sees it."""

    person_game: PersonGameLine
    document: str
    """The content of the seat's page, as a JSON object: `frames` are positions, as the viewer
    reads them; `asked` is the question, with its number `id` and its `choices`; after `left_us`
    microseconds the default action is played; `news` is another number after each change."""


class PersonGameReport(Struct, frozen=True):
    """A game of a person that is over."""

    game: PersonGameLine
    record: str
    """The record as one line of JSON, which anybody can verify."""
    analyses: LadderAnalyses


def person_game_line(game: PersonGame) -> PersonGameLine:
    """A game, without its course."""
    return PersonGameLine(
        game_id=game.game_id,
        season=game.season.name,
        rules=game.rules,
        seat=game.seat,
        person=game.person,
        names=tuple(game.names),
        state=game.state,
        presence=game.presence,
        reason=game.reason,
        created_at=utc_time(game.created_at),
        placement=read_record(game.record).placements[game.seat] if game.record else None,
    )


def person_game_report(store: Store, game: PersonGame) -> PersonGameReport:
    """The report of a game that is over."""
    return PersonGameReport(person_game_line(game), game.record, analyses_of(store, game.game_id))
