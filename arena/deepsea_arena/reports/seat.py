"""What the page of a person's seat shows, as a document of JSON: of a game here or on a ladder.

Invariants: of a game under way nothing is read but what the seat saw; which actions there are, and
in what words, `choices` says.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from deepsea_arena.reports.frames import frames
from deepsea_arena.reports.games import read_record
from deepsea_ladder.model.games import PersonGame, PersonGameState, Presence
from deepsea_referee.choices import QUESTIONS, Choosing, rules_of
from deepsea_rules import narration
from deepsea_rules.game import Game
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS, preset
from deepsea_rules.scoring import Result
from deepsea_rules.view import View

YOU = "you"
"""The person's name on the page of its seat."""
PICKS = 64
"""More choices than an order takes: the number of a question is that of its decision times this."""


class SeatDocument(TypedDict):
    """What a page shows."""

    news: int
    """Grows with each change."""
    game: int
    """The number of the game, from 1."""
    seat: str
    """The person's letter; "" before its first decision."""
    rules: str
    names: list[str]
    frames: list[dict[str, Any]]
    """Positions, with the keys `t`, `p`, `dice` and `say` of docs/viewer.md."""
    asked: dict[str, Any] | None
    """The decision: `id`, `words`, `choices` (each `key`, `action`, `meaning`) and `rules`."""
    left_us: int | None
    """The time that is left for it."""
    note: list[str]
    """Words for the person, such as a hint."""
    table: list[str]
    """The final table, once the game is over."""
    judging: bool
    judged: dict[str, Any] | None
    """`words`, and `worst`: each `turn`, `dive`, `position`, `played`, `better`, `lost`."""
    more: bool
    """Another game may follow."""
    ended: str
    """Why nothing comes any more; "" while something may."""


def nothing_yet() -> SeatDocument:
    """The document before a game."""
    return {
        "news": 0,
        "game": 0,
        "seat": "",
        "rules": "",
        "names": [],
        "frames": [],
        "asked": None,
        "left_us": None,
        "note": [],
        "table": [],
        "judging": False,
        "judged": None,
        "more": False,
        "ended": "",
    }


def course(seen: Iterable[narration.SeenPosition]) -> list[dict[str, Any]]:
    """The `frames` of a game under way."""
    return [{"t": one.turn, "p": one.text, "dice": one.dice, "say": one.lines} for one in seen]


def question(number: int, view: View, choosing: Choosing) -> dict[str, Any]:
    """What is `asked`."""
    assert view.kind is not None
    return {
        "id": number,
        "words": QUESTIONS[view.kind],
        "choices": [choice._asdict() for choice in choosing.offered],
        "rules": rules_of(view),
    }


def ending(record: GameRecord, seat: int, names: Sequence[str]) -> dict[str, Any]:
    """The `frames` and the `table` of a game that is over, as the seat saw it."""
    seats = [one._replace(name=name) for one, name in zip(record.seats, names, strict=True)]
    shown = frames(replace(record, seats=tuple(seats)), seat)["frames"]
    table = narration.tell_end(Result(record.points, record.placements), names)
    return {
        "frames": [{key: frame[key] for key in ("t", "p", "dice", "say")} for frame in shown],
        "table": list(table),
    }


# On a ladder


def choosing_of(game: PersonGame, played: Game | None = None) -> tuple[int, Choosing] | None:
    """The number of the question that waits for the person, and its choices; None for none."""
    if game.state is not PersonGameState.ASKED:
        return None
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
        **nothing_yet(),
        "game": 1,
        "seat": SEAT_LETTERS[game.seat],
        "rules": game.rules,
        "names": names,
        "note": _note(game),
        "ended": f"the game is void: {game.reason}" if is_void else "",
        **(ending(read_record(game.record), game.seat, names) if game.record else _under_way(game)),
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
    shown: dict[str, Any] = {"frames": course(narration.seen(played, game.seat))}
    if (found := choosing_of(game, played)) is not None:
        number, choosing = found
        shown["asked"] = question(number, played.view(game.seat), choosing)
        shown["note"] = [*_note(game), *choosing.note]
    return shown


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
