"""Games of people, as their pages and programs read them: lists, a seat's document, a finished one.

Invariants: of a game under way nothing is read but views of its person's seat; which actions there
are, and in what words, `choices` says.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deepsea_arena.coach.ladder_analyses import LadderAnalyses, analyses_of
from deepsea_arena.reports.games import read_record
from deepsea_ladder.model.games import PersonGame, PersonGameState, Presence
from deepsea_ladder.values import Time, utc_time
from deepsea_rules import narration
from deepsea_rules.game import Game
from deepsea_rules.ruleset import SEAT_LETTERS, preset
from deepsea_rules.scoring import Result

if TYPE_CHECKING:
    from deepsea_ladder.store import Store
    from deepsea_referee.choices import Choosing

YOU = "you"
"""The person's name on the page of its seat."""
PICKS = 64
"""More choices than an order takes: the number of a question is that of its decision times this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonGameLine:
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


@dataclass(frozen=True, slots=True)
class PersonGameList:
    """The caller's games, newest first, and whether the caller may begin another one."""

    games: tuple[PersonGameLine, ...]
    season: str
    """The season whose bots are played."""
    rules: str
    """Its preset."""
    refusal: str
    """Why the caller may not; "" else."""


@dataclass(frozen=True, slots=True)
class SeatText:
    """A game as its person sees it."""

    person_game: PersonGameLine
    document: str
    """What the page of the seat shows, as a JSON object: the positions in `frames` have the keys of
    a viewer's, `asked` is the question with its number `id` and its `choices`, after `left_us`
    microseconds the default action is played, and `news` is another number with each change."""


@dataclass(frozen=True, slots=True)
class PersonGameReport:
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


def choosing_of(game: PersonGame, played: Game | None = None) -> tuple[int, Choosing] | None:
    """The number of the question that waits for the person, and its choices; None for none."""
    if game.state is not PersonGameState.ASKED:
        return None
    from deepsea_referee.choices import Choosing  # loads the SDK

    view = (played or _played(game)).view(game.seat)
    choosing, picks = Choosing(view), (game.answer or "").split()
    for pick in picks:
        choosing.choose(pick)
    return len(game.decisions) * PICKS + len(picks), choosing


def seat_document(game: PersonGame, now: int) -> dict[str, Any]:
    """What the page of the seat shows; `now` is the store's time."""
    names = [YOU if seat == game.seat else name for seat, name in enumerate(game.names)]
    is_void = game.state is PersonGameState.VOID
    document = {
        "game": 1,
        "seat": SEAT_LETTERS[game.seat],
        "rules": game.rules,
        "names": names,
        "asked": None,
        "note": _note(game),
        "table": [],
        "judging": False,
        "judged": None,
        "more": False,
        "ended": f"the game is void: {game.reason}" if is_void else "",
        **(_ended(game, names) if game.record else _under_way(game)),
    }
    news = zlib.crc32(json.dumps(document).encode())
    left = None if game.until is None else max(0, game.until - now) * 1000
    return {**document, "news": news, "left_us": left}


def _played(game: PersonGame) -> Game:
    """The game up to the person's next decision, or the bots' first one."""
    played = Game(preset(game.rules), len(game.names), game.seed)
    played.pending()
    for decision in game.decisions:
        played.decide(*decision[1:])
        played.pending()
    return played


def _under_way(game: PersonGame) -> dict[str, Any]:
    """The course as the seat saw it, and what is asked."""
    played = _played(game)
    course = [
        {"t": one.turn, "p": one.text, "dice": one.dice, "say": one.lines}
        for one in narration.seen(played, game.seat)
    ]
    if (found := choosing_of(game, played)) is None:
        return {"frames": course}
    from deepsea_referee.choices import QUESTIONS, rules_of

    number, choosing = found
    view = played.view(game.seat)
    assert view.kind is not None
    asked = {
        "id": number,
        "words": QUESTIONS[view.kind],
        "choices": [choice._asdict() for choice in choosing.offered],
        "rules": rules_of(view),
    }
    return {"frames": course, "asked": asked, "note": [*_note(game), *choosing.note]}


def _ended(game: PersonGame, names: list[str]) -> dict[str, Any]:
    """The whole course as the seat saw it, and the final table."""
    from deepsea_arena.reports.frames import frames

    record = read_record(game.record)
    seats = [seat._replace(name=name) for seat, name in zip(record.seats, names, strict=True)]
    shown = frames(replace(record, seats=tuple(seats)), game.seat)["frames"]
    course = [{key: frame[key] for key in ("t", "p", "dice", "say")} for frame in shown]
    table = narration.tell_end(Result(record.points, record.placements), names)
    return {"frames": course, "table": list(table)}


def _note(game: PersonGame) -> list[str]:
    if game.state.is_final:
        return []
    found = {
        Presence.SILENT: ["you were silent: default actions are played until you answer"],
        Presence.LEFT: ["you left: default actions are played"],
    }.get(game.presence, [])
    if game.reason:
        found = [*found, "a step failed and is tried again; nothing of the game is lost"]
    return found
