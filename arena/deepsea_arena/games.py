"""The games of a ladder, as lists, as reports with their records, and as exports.

Start reading at `newest_games`, `game_report` and `json_lines`. Games of people have functions of
their own.

Invariants: games are listed by the order in which they were rated; seats stand in the order of the
table; an export writes numbers so that reading them gives the same bits.
"""

from __future__ import annotations

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
"""Default number of games on a page."""
MOST_GAMES = 500
"""Largest number of games on a page."""


class GamesPage(Struct, frozen=True):
    """Some of a ladder's games, the newest first."""

    games: tuple[GameLine, ...]
    older: Int64 | None
    """The value of `before` for the page of older games; None if there are none."""


class RatingChange(Struct, frozen=True, kw_only=True):
    """The change of a seat's rating by a game; the rating is mu - 3 sigma."""

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
    """A game with its record, its rating changes and its analyses."""

    game: GameLine
    season: SeasonInfo
    changes: tuple[RatingChange, ...]
    """The change of each seat's rating."""
    record: str
    """The record as one line of JSON, which anybody can verify."""
    seed: str
    """The game's seed in hex."""
    commitment: str
    """SHA-256 of the seed, which bots were sent before the game."""
    season_seed: str | None
    """The seed from which the seeds of the season's games follow; None before it is revealed."""
    analyses: LadderAnalyses
    """Requested and finished analyses."""


def newest_games(
    store: Store,
    limit: int,
    season_name: str | None = None,
    game_filter: GameFilter | None = None,
    *,
    before: int | None = None,
) -> GamesPage:
    """Return a page of the newest games that pass the filter, the newest first.

    limit        the largest number of games on the page
    season_name  only games of this season; None takes all seasons
    before       only games older than the one with this sequence number

    Raises UserError for a filter by an opponent or by losses without a bot, NotOnLadder for unknown
    names.
    """
    game_filter = game_filter or GameFilter()
    if game_filter.bot is None and (game_filter.against is not None or game_filter.lost):
        raise UserError("--against and --lost are about a bot: name it with --bot")
    season = None if season_name is None else store.seasons.get(season_name)
    for name in (game_filter.bot, game_filter.against):
        if name is not None:
            store.bots.get(name)  # raises NotOnLadder if there is none
    # One game more than the page has tells whether there are older games.
    numbers = store.history.newest_numbers(limit + 1, season, game_filter, before=before)
    has_older_games = len(numbers) > limit
    page_numbers = numbers[:limit]
    games = tuple(store.history.by_numbers(page_numbers))
    return GamesPage(games, older=Int64(page_numbers[-1]) if has_older_games else None)


CSV_COLUMNS = (
    *(name for name in GameLine.__struct_fields__ if name != "seats"),
    "seat",
    *GameSeat.__struct_fields__,
)


def json_lines(store: Store, season_name: str | None = None) -> Iterator[str]:
    """Yield the export of a season, or of all seasons, as lines of JSON; the oldest season first.

    A damaged season is left out whole, since nobody could verify a part of its chain. If there is
    one, raise StoreDamaged after the last season that can be read. See `deepsea_ladder.export` for
    the lines.
    """
    seasons = store.seasons.all() if season_name is None else [store.seasons.get(season_name)]
    damage = [*store.seasons.damage_lines()] if season_name is None else []
    for season in seasons:
        try:
            # A first pass only reads the season, so that no line of a damaged one is yielded.
            for _line in export_lines(store, season):
                pass
        except StoreDamaged as error:
            damage.append(str(error))
        else:
            yield from export_lines(store, season)
    if damage:
        raise StoreDamaged(damage[0])


def csv_lines(store: Store, season_name: str | None = None) -> Iterator[str]:
    """Yield the games of a season, or of all, as CSV: a header, and a line for each seat of a game.

    Games that cannot be read are left out. If there is one, raise StoreDamaged after the last game.
    """
    season = None if season_name is None else store.seasons.get(season_name)
    rows = (
        to_object(game) | {"seat": index} | to_object(seat)
        for game in store.history.lines(season)
        for index, seat in enumerate(game.seats)
    )
    yield from documents.csv_lines(rows, CSV_COLUMNS)


@lru_cache(maxsize=16)
def read_record(text: str) -> GameRecord:
    """Read a stored record. The result is remembered, since a page needs a record several times."""
    return GameRecord.from_json(text)


def game_report(store: Store, game_id: str) -> GameReport:
    """Return the report of a game. Raises StoreError if there is no such game."""
    stored = store.history.get(game_id)
    game, season = stored.line, store.seasons.get(stored.line.season)
    seed = read_record(stored.record).seed
    return GameReport(
        game=game,
        season=season_info(season),
        changes=_rating_changes(store, season, game),
        record=stored.record,
        seed=seed.hex(),
        commitment=commitment(seed),
        season_seed=store.seasons.revealed_seed(season),
        analyses=analyses_of(store, game_id),
    )


def _rating_changes(store: Store, season: StoredSeason, game: GameLine) -> tuple[RatingChange, ...]:
    """Return the change of each seat's rating by a game.

    The rating before a version's first game is that of a newcomer.
    """
    changes = []
    ratings_before = store.history.ratings_before(game.seq)
    for seat, stored_rating in zip(game.seats, ratings_before, strict=True):
        before = stored_rating or season.settings.rating.newcomer
        changes.append(
            RatingChange(
                before=before.conservative,
                after=seat.rating.conservative,
                mu_before=before.mu,
                mu_after=seat.mu,
                first=stored_rating is None,
            )
        )
    return tuple(changes)


# --------------------------------------------------------------------------------- games of people


class PersonGameLine(Struct, frozen=True, kw_only=True):
    """A game of a person against bots, which is not rated."""

    game_id: str
    season: str
    """The season of the bots, with whose clock and limits they play."""
    rules: str
    seat: int
    """The person's seat."""
    person: str
    """The person's name as an author; "" for a visitor."""
    names: tuple[str, ...]
    """The names by seat, as in the record, where every person is called `person`."""
    state: TaskState
    presence: Presence
    reason: str
    """The reason why it is void, or why a step is tried again; "" for neither."""
    created_at: Time
    placement: int | None
    """The person's placement; None before the game is over."""


class PersonGameList(Struct, frozen=True):
    """The caller's games, newest first, and whether the caller may begin another one."""

    games: tuple[PersonGameLine, ...]
    season: str
    """The season whose bots are played."""
    rules: str
    """The preset of its rules."""
    refusal: str
    """The reason why the caller may not begin a game; "" if the caller may."""


class SeatText(Struct, frozen=True):
    """A game as its person sees it."""

    person_game: PersonGameLine
    document: str
    """The content of the seat's page, as a JSON object. `frames` are positions as the viewer reads
    them. `asked` is the question, with its number `id` and its `choices`. After `left_us`
    microseconds the default action is played. `news` is another number after each change."""


class PersonGameReport(Struct, frozen=True):
    """A game of a person that is over."""

    game: PersonGameLine
    record: str
    """The record as one line of JSON, which anybody can verify."""
    analyses: LadderAnalyses


def person_game_line(game: PersonGame) -> PersonGameLine:
    """Return the line of a person's game in a list of games, without its decisions and record."""
    placement = None
    if game.record:
        placement = read_record(game.record).placements[game.seat]
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
        placement=placement,
    )


def person_game_report(store: Store, game: PersonGame) -> PersonGameReport:
    """Return the report of a person's game that is over."""
    return PersonGameReport(person_game_line(game), game.record, analyses_of(store, game.game_id))
