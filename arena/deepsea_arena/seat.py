"""The page of a person's seat, as a document of JSON.

Invariants: of a game under way nothing is read but what the seat saw; which actions there are, and
in what words, `choices` says.

A person who decides on the seat's page of a ladder, in a match of this process.

To the match it is a referee's `Person`, to the ladder's service the host of the game: the question
is stored as a runner stores it, and the page stores the answer.

Invariants: the ladder keeps each game of the match as a game of its person, which nobody else
leases; the seat's page is made of what is stored, and of `fields`, which has nothing that the seat
does not know; a request or an answer for a question that is over does nothing.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypedDict

from deepsea_arena.analysis import GameAnalysis
from deepsea_arena.analysis_document import in_words, worst
from deepsea_arena.frames import LONGEST_NAME, frames
from deepsea_arena.games import read_record
from deepsea_ladder.errors import PersonGameError
from deepsea_ladder.model import PersonGame, Presence, TaskState
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock
from deepsea_referee.person import HINT_EFFORT, QUESTIONS, Choosing, PersonRequest, hint, rules_of
from deepsea_referee.summary import VoidGame
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.game import Decision, Game, GameRecord
from deepsea_rules.position import position_text
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.scoring import Result
from deepsea_rules.view import view_for
from deepsea_sdk.bot import NO_CLOCK
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.table import RefereedGame

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


OWNER = "play"
"""The owner of the leases: there is no other one on such a ladder."""
LOOK_S = 1.0
"""The time between two looks for an answer, if nothing rings before."""
SETTLE_S = 1.0
"""The longest wait for the next question, once an answer is stored."""
LEASE_S = 86_400.0
"""Longer than bots play between two decisions of a person."""
NEXT_S = 30.0
"""The longest wait for the next game to begin, once it is requested."""


class StoredPerson:
    """The person of a match; every method may be called from any thread."""

    def __init__(
        self,
        store: Store,
        season_id: int,
        author_id: int,
        versions: Mapping[str, int],
        clock: Clock,
        hint_effort: Effort = HINT_EFFORT,
    ) -> None:
        """`versions` has the ids of the bots' versions by the names of the match."""
        self.on_drop: Callable[[], object] = lambda: None
        """Called when the person drops the game."""
        self.hints = 0
        """The number of hints that were shown in this game."""
        self.away = False
        """The person has left: default actions are played for the seat."""
        self.dropped = False
        self.skips = False
        """The person does not wait for the judgement of the decisions."""
        self.interrupted = False
        self._is_over = False
        self.game_id = ""
        """The id of the game at hand, or of the last one."""
        self._games = store.person_games
        self._season_id = season_id
        self._author_id = author_id
        self._versions = versions
        self._clock = clock
        self._hint_effort = hint_effort
        self._number = 0
        self._lease: PersonGame | None = None
        self._game: RefereedGame | None = None
        self._due_us: int | None = None
        """The time by which the decision at hand is due; None without a limit."""
        self._fields: dict[str, Any] = {}
        self._turns = 0
        """Questions that were stored, and ends of games."""
        self._deciding = threading.Lock()
        self._changed = threading.Condition()
        """Rings at a stored answer, a request, a changed field, and at the end of a wait."""
        self._has_news = False
        """True once `_changed` has rung since the last look for an answer."""
        self._requested = ""

    # Of the match

    def store_new(self, game: RefereedGame, seat: int) -> None:
        """Store a game that begins; the first one before its bots have started."""
        others = [name for place, name in enumerate(game.names) if place != seat]
        self._games.begin(
            [self._versions[name] for name in others],
            author_id=self._author_id,
            address="",
            visitor=None,
            season_id=self._season_id,
            game_id=game.game_id,
            rules=game.game.rules.name,
            seed=game.game.seed,
            seat=seat,
        )
        self._lease = self._games.claim(OWNER, LEASE_S)
        with self._changed:
            self._number += 1
            self.game_id, self._requested = game.game_id, ""
            self._fields = {
                "game": self._number,
                "names": [one_line(name, LONGEST_NAME) for name in game.names],
            }
            self._ring()

    def begin(self, game: RefereedGame, seat: int) -> None:
        if game.game_id != self.game_id:
            self.store_new(game, seat)
        self._game = game
        self.hints = 0
        self._set(hints=True)

    def wake(self, why: str) -> None:
        """End the decision that waits, after a timeout."""
        self._set(note=[why])

    def decide(self, request: PersonRequest) -> str | None:
        """Store the question, and wait for the page to store an answer."""
        with self._deciding:  # one that is not wanted any more may still be ending
            if self.away:
                return request.view.legal[0]
            assert self._game is not None
            limit_us = sum(request.time_left)
            limited = request.time_left != NO_CLOCK
            self._due_us = self._clock.now_us() + limit_us if limited else None
            try:
                return self._answer(request, self._game.game.decisions)
            finally:
                self._due_us = None
                if request.is_wanted():
                    self._set(note=[])

    # Of the command that plays the match

    def over(self, game: int, record: GameRecord, place: int, *, judging: bool, more: bool) -> None:
        """Store and show the end of a game.

        judging  its decisions are being judged, which a request for the next game skips
        """
        with self._deciding:  # a decision that came too late may still give its lease back
            assert self._lease is not None
            self._games.finish(self._lease, record.to_json())
        self.skips = False
        self._turns += 1
        self._set(judging=judging, more=more, hints=False)

    def void(self, void: VoidGame, *, more: bool) -> None:
        """Show that a game does not count."""
        self._turns += 1
        self._set(ended=f"the game is void: {void.reason}", more=more, hints=False)
        self._games.leave(self.game_id, drop=True)

    def judged(self, found: GameAnalysis | None, place: int) -> None:
        """Show what the person's decisions were worth."""
        self._set(judging=False, judged=None if found is None else judgement(found, place))

    def wait_for_next(self) -> None:
        """Wait until the person wants another game, or leaves."""
        with self._changed:
            while self._fields.get("more") and not (self.interrupted or self.dropped):
                if self._requested == "next":
                    break
                self._changed.wait()

    def interrupt(self) -> None:
        """End all waiting for the person."""
        self.interrupted = True
        self._set()

    def drop(self) -> None:
        """Leave, and drop a game that is under way."""
        self.dropped = True
        self._set()
        self.on_drop()

    def end(self, why: str) -> None:
        """Show that nothing comes any more."""
        self.on_drop = lambda: None
        self._is_over = True
        self._set(asked=None, more=False, judging=False, ended=why)

    # Of the ladder's service

    def fields(self, game_id: str) -> Mapping[str, Any]:
        """Fields of the seat's document beside what is stored; none of a game that is past."""
        with self._changed:
            if game_id != self.game_id:
                return {}
            left = None if self._due_us is None else max(0, self._due_us - self._clock.now_us())
            return {**self._fields, "left_us": left}

    def request(self, game_id: str, what: str) -> None:
        """Request a "hint", or the "next" game, whose beginning is waited for."""
        with self._changed:
            offered = self._fields.get("hints" if what == "hint" else "more")
            if game_id != self.game_id or not offered:
                raise PersonGameError(f"the {what} cannot be had now: load the page again")
            self._requested = what
            self.skips = what == "next"
            self._ring()
            if what == "next":
                self._changed.wait_for(lambda: self.game_id != game_id or self._is_over, NEXT_S)

    def settle(self) -> None:
        """See what was stored just now, and wait for the next question or the end of the game."""
        with self._changed:
            before = self._turns
            self._ring()
            self._changed.wait_for(lambda: self._turns != before, SETTLE_S)

    # ----------------------------------------------------------------------------------- within

    def _answer(self, request: PersonRequest, decisions: Sequence[Decision]) -> str | None:
        """The action that the page stores; None if none is wanted any more."""
        assert self._lease is not None
        game_id, made = self.game_id, tuple(decisions)
        self._games.ask(self._lease, made)
        self._turns += 1
        self._set()
        while (found := self._look(game_id)).state is not TaskState.VOID:
            if found.state is TaskState.QUEUED:
                if (lease := self._games.claim(OWNER, LEASE_S)) is None:
                    continue
                self._lease = lease
                self.away = lease.presence is Presence.LEFT
                return lease.answer or request.view.legal[0]
            if not request.is_wanted() or self.interrupted or self.dropped:
                self._take_back(request, len(made))
                return None
            if not self._gives_hint(request):
                with self._changed:
                    self._changed.wait_for(lambda: self._has_news, LOOK_S)
        if game_id == self.game_id and not self._fields.get("ended"):
            self.drop()
        return None

    def _look(self, game_id: str) -> PersonGame:
        with self._changed:
            self._has_news = False
        return self._games.get(game_id)

    def _take_back(self, request: PersonRequest, number: int) -> None:
        """End the stored question without an answer of the person."""
        with suppress(PersonGameError):  # the person has answered just now, too late
            self._games.answer(self.game_id, number, request.view.legal[0])
        self._lease = self._games.claim(OWNER, LEASE_S) or self._lease

    def _gives_hint(self, request: PersonRequest) -> bool:
        """Show a hint, if one was requested; whether it was."""
        with self._changed:
            if self._requested != "hint":
                return False
            self._requested = ""
        self._set(note=[THINKING])
        lines = hint(request.view, self._hint_effort)
        self.hints += 1
        self._set(note=lines)
        return True

    def _set(self, **fields: object) -> None:
        with self._changed:
            self._fields |= fields
            self._ring()

    def _ring(self) -> None:
        self._has_news = True
        self._changed.notify_all()
