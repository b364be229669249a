"""Games of people, as programs read them: lists, a seat, a finished one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from deepsea_arena.coach.ladder_analyses import LadderAnalyses, analyses_of
from deepsea_arena.reports.games import read_record
from deepsea_ladder.model.games import PersonGame, PersonGameState, Presence
from deepsea_ladder.values import Time, utc_time

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


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
    """By seat, as in the record: there a person has no name of its own."""
    state: PersonGameState
    presence: Presence
    reason: str
    """Why it is void, or is tried again."""
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
    """Why the caller may not; "" else."""


class SeatText(Struct, frozen=True):
    """A game as its person sees it."""

    person_game: PersonGameLine
    document: str
    """What the page of the seat shows, as a JSON object: the positions in `frames` have the keys of
    a viewer's, `asked` is the question with its number `id` and its `choices`, after `left_us`
    microseconds the default action is played, and `news` is another number with each change."""


class PersonGameReport(Struct, frozen=True):
    """A game of a person that is over."""

    game: PersonGameLine
    record: str
    """One line of JSON, to be verified."""
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
