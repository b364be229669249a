"""The page of a person's seat, as a document of JSON.

Invariants: of a game under way nothing is read but what the seat saw; which actions there are, and
in what words, `choices` says.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from deepsea_arena.coach.analysis import GameAnalysis
from deepsea_arena.coach.own import in_words, worst
from deepsea_arena.reports.frames import LONGEST_NAME, frames
from deepsea_arena.reports.games import read_record
from deepsea_ladder.model import PersonGame, Presence, TaskState
from deepsea_referee.choices import QUESTIONS, Choosing, rules_of
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.game import Game
from deepsea_rules.position import position_text
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.scoring import Result
from deepsea_rules.view import view_for

YOU = "you"
"""The person's name on the page of its seat."""
THINKING = "the coach is looking at it"
"""The note while a hint is found."""
PICKS = 64
"""More choices than an order takes: the number of a question is that of its decision times this."""


class SeatDocument(TypedDict):
    """A game as the page of its person's seat shows it."""

    news: int
    """Grows with each change."""
    game: int
    """The number of the game, from 1."""
    seat: str
    """The person's letter."""
    rules: str
    names: list[str]
    frames: list[dict[str, Any]]
    """Positions, with the keys `t`, `p`, `dice` and `say` of docs/viewer.md."""
    asked: dict[str, Any] | None
    """The decision: `id`, `words`, `choices` (each `key`, `action`, `meaning`) and `rules`."""
    left_us: int | None
    """The time that is left for it."""
    hints: bool
    """The coach may be asked."""
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
    """The reason for which nothing comes any more; "" while something may."""


def choosing_of(game: PersonGame, played: Game | None = None) -> tuple[int, Choosing] | None:
    """The number of the question that waits for the person, and its choices; None for none."""
    if game.state is not TaskState.ASKED:
        return None
    view = (played or _played(game)).view(game.seat)
    choosing, picks = Choosing(view), (game.answer or "").split()
    for pick in picks:
        choosing.choose(pick)
    return len(game.decisions) * PICKS + len(picks), choosing


def seat_document(
    game: PersonGame, now: int, host_fields: Mapping[str, Any] | None = None
) -> SeatDocument:
    """The document of a game for the page of its person's seat.

    now          the store's time
    host_fields  fields that the game's host adds or replaces, `left_us` among them
    """
    fields = host_fields or {}
    names = fields.get("names") or [
        YOU if seat == game.seat else name for seat, name in enumerate(game.names)
    ]
    is_void = game.state is TaskState.VOID
    document: SeatDocument = {
        "news": 0,
        "game": 1,
        "seat": SEAT_LETTERS[game.seat],
        "rules": one_line(game.rules, LONGEST_NAME),
        "names": names,
        "frames": [],
        "asked": None,
        "left_us": None,
        "hints": False,
        "note": _note(game),
        "table": [],
        "judging": False,
        "judged": None,
        "more": False,
        "ended": f"the game is void: {game.reason}" if is_void else "",
    }
    if game.record:
        _add_end(document, read_record(game.record), game.seat)
    else:
        _add_course(document, game)
    note = [*document["note"], *fields.get("note", ())]
    document |= {**fields, "note": note, "left_us": None}  # type: ignore[typeddict-item]
    document["news"] = zlib.crc32(json.dumps(document).encode())
    if fields:
        document["left_us"] = fields["left_us"]
    elif game.until is not None:
        document["left_us"] = max(0, game.until - now) * 1000
    return document


def _add_end(document: SeatDocument, record: GameRecord, seat: int) -> None:
    """The course of a game that is over as the seat saw it, and the final table."""
    names = document["names"]
    seats = [one._replace(name=name) for one, name in zip(record.seats, names, strict=True)]
    shown = frames(replace(record, seats=tuple(seats)), seat)["frames"]
    table = narration.tell_end(Result(record.points, record.placements), names)
    document["frames"] = [{key: frame[key] for key in ("t", "p", "dice", "say")} for frame in shown]
    document["table"] = list(table)


def _add_course(document: SeatDocument, game: PersonGame) -> None:
    """The course as the seat saw it, and what is asked."""
    played = _played(game)
    document["frames"] = [
        {
            "t": moment.turn,
            "p": position_text(view_for(moment.state, game.seat), moment.known),
            "dice": moment.dice,
            "say": moment.lines,
        }
        for moment in narration.moments(
            played, lambda state: view_for(state, game.seat).known, game.seat
        )
    ]
    if (found := choosing_of(game, played)) is not None:
        number, choosing = found
        view = played.view(game.seat)
        assert view.kind is not None
        document["asked"] = {
            "id": number,
            "words": QUESTIONS[view.kind],
            "choices": [choice._asdict() for choice in choosing.offered],
            "rules": rules_of(view),
        }
        document["note"] += choosing.note


def _played(game: PersonGame) -> Game:
    """The game up to the person's next decision, or the bots' first one."""
    played = Game(game.ruleset, len(game.names), game.seed)
    played.pending()
    for decision in game.decisions:
        played.decide(*decision[1:])
        played.pending()
    return played


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


def judgement(found: GameAnalysis, seat: int) -> dict[str, Any]:
    """The field `judged`: the worth of the seat's decisions in words, and the worst ones."""
    decisions = [
        {
            "turn": one.turn,
            "dive": one.judged.dive,
            "position": str(game_at(found.record, one.number).view(seat)),
            "played": one.judged.played,
            "better": one.judged.best,
            "lost": round(one.judged.regret.mean, 2),
        }
        for one in worst(found)
    ]
    return {"words": in_words(found, seat), "worst": decisions}
