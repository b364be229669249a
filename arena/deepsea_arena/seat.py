"""The page of a person's seat as a JSON document, and a person who decides on that page in a match.

Start reading at `seat_document` and `StoredPerson`. To a match of this process `StoredPerson` is a
referee's `Person`, to the ladder's service it is the host of the game. A question is stored as a
runner stores it, and the page stores the answer.

Invariants: of a game under way the document has nothing but what the seat saw; `choices` has the
legal actions with their words; the ladder keeps each game of the match as a game of its person,
which nobody else leases; the fields of a host have nothing that the seat does not know; a request
or an answer for a question that is over does nothing.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypedDict

from deepsea_arena.analysis import GameAnalysis
from deepsea_arena.analysis_document import in_words, worst
from deepsea_arena.frames import LONGEST_NAME, frames
from deepsea_arena.games import read_record
from deepsea_ladder.errors import PersonGameError
from deepsea_ladder.model import PersonGame, Presence, TaskState
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock
from deepsea_referee.person import (
    HINT_EFFORT,
    QUESTIONS,
    ChoiceDialog,
    PersonRequest,
    hint,
    rules_of,
)
from deepsea_referee.summary import VoidGame
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.game import Decision, Game, GameRecord
from deepsea_rules.position import position_text
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.scoring import Result
from deepsea_rules.state import GameState
from deepsea_rules.view import View, view_for
from deepsea_sdk.bot import NO_CLOCK
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.table import RefereedGame

YOU = "you"
"""The person's name on the page of its seat."""
THINKING = "the coach is looking at it"
"""The note that is shown while the coach computes a hint."""
MOST_CHOICES = 64
"""Upper bound of the choices that one decision takes.

The number of a question is the number of its decision times this, plus the choices made so far.
"""


class SeatDocument(TypedDict):
    """A game as the page of its person's seat shows it."""

    news: int
    """A checksum of the document, which differs after each change."""
    game: int
    """The number of the game, from 1."""
    seat: str
    """The letter of the person's seat."""
    rules: str
    names: list[str]
    frames: list[dict[str, Any]]
    """Positions, with the keys `t`, `p`, `dice` and `say` of docs/viewer.md."""
    asked: dict[str, Any] | None
    """The question; None while the person has nothing to decide.

    It has `id`, `words`, `choices` (each with `key`, `action` and `meaning`) and `rules`.
    """
    left_us: int | None
    """Microseconds until the default action is played; None without a limit."""
    hints: bool
    """True if the person may ask the coach for a hint."""
    note: list[str]
    """Words for the person, such as a hint."""
    table: list[str]
    """The lines of the final table; empty before the game is over."""
    judging: bool
    """True while the coach judges the person's decisions."""
    judged: dict[str, Any] | None
    """The judgement: `words`, and the `worst` decisions; see `judgement`. None without one."""
    more: bool
    """True if another game can follow."""
    ended: str
    """The reason why the page does not change any more; "" while it may."""


def open_question(
    game: PersonGame, replayed: Game | None = None
) -> tuple[int, ChoiceDialog] | None:
    """Return the number of the question that waits for the person's answer, and its choices.

    Return None if no question waits. `replayed` is the game up to now, if the caller has it.

    An answer may take several choices, such as the units of an order one by one. The dialog has
    those that the person has made, and each of them changes the number.
    """
    if game.state is not TaskState.ASKED:
        return None
    view = (replayed or _replay(game)).view(game.seat)
    dialog = ChoiceDialog(view)
    choices_made = (game.answer or "").split()
    for choice in choices_made:
        dialog.choose(choice)
    # Each decision has MOST_CHOICES numbers of its own, one for each choice of its dialog.
    number = len(game.decisions) * MOST_CHOICES + len(choices_made)
    return number, dialog


def seat_document(
    game: PersonGame, now_ms: int, host_fields: Mapping[str, Any] | None = None
) -> SeatDocument:
    """Return the document of a game for the page of its person's seat.

    now_ms       the store's time in milliseconds
    host_fields  fields of the game's host that are added or replaced, with `left_us` among them
    """
    extra_fields = host_fields or {}
    names = extra_fields.get("names") or [
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
        "note": _presence_note(game),
        "table": [],
        "judging": False,
        "judged": None,
        "more": False,
        "ended": f"the game is void: {game.reason}" if is_void else "",
    }
    if game.record:
        _add_end(document, read_record(game.record), game.seat)
    else:
        _add_progress(document, game)
    note = [*document["note"], *extra_fields.get("note", ())]
    document |= {**extra_fields, "note": note, "left_us": None}  # type: ignore[typeddict-item]
    document["news"] = zlib.crc32(json.dumps(document).encode())
    if extra_fields:
        document["left_us"] = extra_fields["left_us"]
    elif game.until is not None:
        document["left_us"] = max(0, game.until - now_ms) * 1000
    return document


def _add_end(document: SeatDocument, record: GameRecord, seat: int) -> None:
    """Add the frames of a game that is over, as the seat saw them, and the lines of its result.

    Players have the names that they have in the document, such as "you".
    """
    names = document["names"]
    renamed_seats = [
        record_seat._replace(name=name)
        for record_seat, name in zip(record.seats, names, strict=True)
    ]
    seat_frames = frames(replace(record, seats=tuple(renamed_seats)), seat)["frames"]
    # The page of a seat needs no other keys of a frame.
    keys: tuple[Literal["t", "p", "dice", "say"], ...] = ("t", "p", "dice", "say")
    document["frames"] = [{key: frame[key] for key in keys} for frame in seat_frames]
    document["table"] = list(narration.tell_end(Result(record.points, record.placements), names))


def _add_progress(document: SeatDocument, game: PersonGame) -> None:
    """Add to a seat's document what has happened in a game that is not over yet.

    These are the positions of the game so far, as the person's seat saw them, and the question that
    waits for the person's answer, if one does.
    """
    replayed = _replay(game)
    document["frames"] = _frames_so_far(replayed, game.seat)
    number_and_dialog = open_question(game, replayed)
    if number_and_dialog is not None:
        number, dialog = number_and_dialog
        _add_question(document, replayed.view(game.seat), number, dialog)


def _frames_so_far(game: Game, seat: int) -> list[dict[str, Any]]:
    """Return a frame for each position of a game so far, as the seat saw it.

    A frame has the number of the turn as `t`, the position in notation as `p`, the dice, and the
    sentences about it as `say`.
    """

    def known_values(state: GameState) -> Mapping[int, int]:
        """Return the values of the chips that the seat knows in a state, by chip."""
        return view_for(state, seat).known

    return [
        {
            "t": moment.turn,
            "p": position_text(view_for(moment.state, seat), moment.known),
            "dice": moment.dice,
            "say": moment.lines,
        }
        for moment in narration.moments(game, known_values, seat)
    ]


def _add_question(document: SeatDocument, view: View, number: int, dialog: ChoiceDialog) -> None:
    """Add the question with this number, its choices, and the dialog's note for the person."""
    assert view.kind is not None
    document["asked"] = {
        "id": number,
        "words": QUESTIONS[view.kind],
        "choices": [choice._asdict() for choice in dialog.offered],
        "rules": rules_of(view),
    }
    document["note"] += dialog.note


def _replay(game: PersonGame) -> Game:
    """Return a person's game with its stored decisions played, up to the next decision."""
    replayed = Game(game.ruleset, len(game.names), game.seed)
    replayed.pending()  # plays what needs no decision
    for decision in game.decisions:
        replayed.decide(decision.action, decision.us, decision.fault, decision.came)
        replayed.pending()
    return replayed


def _presence_note(game: PersonGame) -> list[str]:
    """Return lines for the person about an absence, or about a failure of the runner.

    A game that is over has none.
    """
    if game.state.is_final:
        return []
    lines = []
    if game.presence is Presence.SILENT:
        lines.append("you were silent: default actions are played until you answer")
    elif game.presence is Presence.LEFT:
        lines.append("you left: default actions are played")
    if game.reason:
        lines.append("a step failed and is tried again; nothing of the game is lost")
    return lines


def judgement(analysis: GameAnalysis, seat: int) -> dict[str, Any]:
    """Return the field `judged` of a seat's document: a sentence, and the worst decisions.

    The sentence says what the seat's decisions lost. `position` of a decision is what the seat saw,
    `better` the best action, and `lost` a difference in placement score.
    """
    worst_decisions = [
        {
            "turn": decision.turn,
            "dive": decision.judged.dive,
            "position": str(game_at(analysis.record, decision.number).view(seat)),
            "played": decision.judged.played,
            "better": decision.judged.best,
            "lost": round(decision.judged.regret.mean, 2),
        }
        for decision in worst(analysis)
    ]
    return {"words": in_words(analysis, seat), "worst": worst_decisions}


# -------------------------------------------------------------------------- the person of a match

OWNER = "play"
"""The owner of the leases: no other program leases games on such a ladder."""
LOOK_S = 1.0
"""Seconds between two looks for an answer, if no thread reports one before."""
NEXT_QUESTION_S = 1.0
"""Longest wait, in seconds, for the next question after an answer was stored."""
LEASE_S = 86_400.0
"""Duration of a lease: longer than bots play between two decisions of a person."""
NEXT_S = 30.0
"""Longest wait, in seconds, for the next game to begin after it was requested."""


class StoredPerson:
    """The person of a match. Any thread may call any method.

    The match calls `begin` and `decide`, and the page stores an answer in another thread.
    """

    def __init__(
        self,
        store: Store,
        season_id: int,
        author_id: int,
        versions: Mapping[str, int],
        clock: Clock,
        hint_effort: Effort = HINT_EFFORT,
    ) -> None:
        """Make the person of a match.

        versions     ids of the bots' versions, by their names in the match
        clock        the clock of the match, for the time that is left
        hint_effort  effort of the coach for a hint
        """
        self.on_drop: Callable[[], object] = lambda: None
        """Called when the person drops the game."""
        self.hints = 0
        """Number of hints that were shown in this game."""
        self.away = False
        """True if the person has left: default actions are played for the seat."""
        self.dropped = False
        """True if the person has dropped the match."""
        self.skips = False
        """True if the person does not wait for the judgement of the decisions."""
        self.interrupted = False
        """True once all waiting for the person has to end."""
        self._is_over = False
        self.game_id = ""
        """The id of the present game, or of the last one."""
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
        """The deadline of the present decision by the clock; None without a limit."""
        self._fields: dict[str, Any] = {}
        """Fields of the seat's document that the store does not have."""
        self._events = 0
        """Number of questions and ends of games so far, for `wait_for_question`."""
        self._deciding = threading.Lock()
        """Held while a decision is awaited, and while the end of a game is stored."""
        self._changed = threading.Condition()
        """Notified at a stored answer, a request, a changed field, and at the end of a wait."""
        self._has_news = False
        """True if `_changed` was notified since the last look for an answer."""
        self._requested = ""
        """The request of the person that was not met yet: "hint", "next" or ""."""

    # ------------------------------------------------------------------------- called by the match

    def store_new(self, game: RefereedGame, seat: int) -> None:
        """Store a new game of the match, with the person in this seat, and show it on the page.

        The command of the match calls this for the first game, before its bots have started.
        """
        bot_names = [name for other, name in enumerate(game.names) if other != seat]
        self._games.begin(
            [self._versions[name] for name in bot_names],
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
            self.game_id = game.game_id
            self._requested = ""
            self._fields = {
                "game": self._number,
                "names": [one_line(name, LONGEST_NAME) for name in game.names],
            }
            self._ring()

    def begin(self, game: RefereedGame, seat: int) -> None:
        """Prepare for the decisions of a game that begins, and store it if it is not stored yet."""
        if game.game_id != self.game_id:
            self.store_new(game, seat)
        self._game = game
        self.hints = 0
        self._set(hints=True)

    def wake(self, why: str) -> None:
        """End the decision that waits, after a timeout; `why` is shown to the person."""
        self._set(note=[why])

    def decide(self, request: PersonRequest) -> str | None:
        """Put a question to the person, wait for the answer on the page, and return the action.

        Return None if the match does not need the answer any more. For a person who has left,
        return the default action.
        """
        # Another thread may still be ending the former decision, whose answer came too late.
        with self._deciding:
            if self.away:
                return request.view.legal[0]
            assert self._game is not None
            self._due_us = None
            if request.time_left != NO_CLOCK:
                self._due_us = self._clock.now_us() + sum(request.time_left)  # budget and bank
            try:
                return self._await_answer(request, self._game.game.decisions)
            finally:
                self._due_us = None
                if request.is_wanted():  # otherwise the note says why the decision has ended
                    self._set(note=[])

    # ------------------------------------------------------- called by the command of the match

    def over(self, game: int, record: GameRecord, place: int, *, judging: bool, more: bool) -> None:
        """Store the record of a game that is over, and show its end on the page.

        judging  True if the person's decisions are being judged; a request for the next game ends
                 that
        more     True if another game can follow

        The page needs neither the number of the game nor the person's placement.
        """
        with self._deciding:  # a decision that came too late may still give its lease back
            assert self._lease is not None
            self._games.finish(self._lease, record.to_json())
        self.skips = False
        self._events += 1
        self._set(judging=judging, more=more, hints=False)

    def void(self, void: VoidGame, *, more: bool) -> None:
        """Show that a game does not count. `more` is True if another one can follow."""
        self._events += 1
        self._set(ended=f"the game is void: {void.reason}", more=more, hints=False)
        self._games.leave(self.game_id, drop=True)

    def judged(self, analysis: GameAnalysis | None, seat: int) -> None:
        """Show what the person's decisions were worth; None shows no judgement."""
        self._set(judging=False, judged=None if analysis is None else judgement(analysis, seat))

    def wait_for_next(self) -> None:
        """Wait until the person requests the next game or leaves.

        Return at once if no other game can follow, or if all waiting has to end.
        """
        with self._changed:
            while self._fields.get("more"):
                if self.interrupted or self.dropped or self._requested == "next":
                    return
                self._changed.wait()

    def interrupt(self) -> None:
        """End all waiting for the person."""
        self.interrupted = True
        self._set()

    def drop(self) -> None:
        """Leave the match, and drop a game that is under way."""
        self.dropped = True
        self._set()
        self.on_drop()

    def end(self, why: str) -> None:
        """Show that the match is over, with the reason."""
        self.on_drop = lambda: None
        self._is_over = True
        self._set(asked=None, more=False, judging=False, ended=why)

    # -------------------------------------------------------------- called by the ladder's service

    def fields(self, game_id: str) -> Mapping[str, Any]:
        """Return the fields of the seat's document that are not in the store.

        Return no fields for a game that is not the present one.
        """
        with self._changed:
            if game_id != self.game_id:
                return {}
            left_us = None
            if self._due_us is not None:
                left_us = max(0, self._due_us - self._clock.now_us())
            return {**self._fields, "left_us": left_us}

    def request(self, game_id: str, what: str) -> None:
        """Pass a request of the person to the match: `what` is a "hint", or the "next" game.

        For the next game wait until it has begun, or the match is over. Raises PersonGameError if
        the page does not offer the request any more.
        """
        is_next_game = what == "next"
        with self._changed:
            is_offered = self._fields.get("more" if is_next_game else "hints")
            if game_id != self.game_id or not is_offered:
                raise PersonGameError(f"the {what} cannot be had now: load the page again")
            self._requested = what
            self.skips = is_next_game
            self._ring()
            if is_next_game:
                self._changed.wait_for(lambda: self.game_id != game_id or self._is_over, NEXT_S)

    def wait_for_question(self) -> None:
        """Wake the match after the page has stored an answer, and wait for its next question.

        Return also when the game is over, and at the latest after `NEXT_QUESTION_S` seconds.
        """
        with self._changed:
            events_before = self._events
            self._ring()
            self._changed.wait_for(lambda: self._events != events_before, NEXT_QUESTION_S)

    # ------------------------------------------------------------------------------------- private

    def _await_answer(self, request: PersonRequest, decisions: Sequence[Decision]) -> str | None:
        """Store the question, and wait until the page stores an action; return it.

        Return None if the action is not needed any more: after a timeout, or if the person leaves.
        The game is leased before and after the wait, and not meanwhile.
        """
        assert self._lease is not None
        game_id, decisions_before = self.game_id, tuple(decisions)
        self._games.ask(self._lease, decisions_before)
        self._events += 1
        self._set()
        while True:
            stored = self._stored_game(game_id)
            if stored.state is TaskState.VOID:
                break
            if stored.state is TaskState.QUEUED:  # the page has stored an answer
                lease = self._games.claim(OWNER, LEASE_S)
                if lease is None:
                    continue
                self._lease = lease
                self.away = lease.presence is Presence.LEFT
                return lease.answer or request.view.legal[0]
            if not request.is_wanted() or self.interrupted or self.dropped:
                self._take_back(request, len(decisions_before))
                return None
            has_shown_hint = self._show_hint_if_requested(request)
            if not has_shown_hint:
                with self._changed:
                    self._changed.wait_for(lambda: self._has_news, LOOK_S)
        # The game was void on the page's side: its person has dropped it.
        if game_id == self.game_id and not self._fields.get("ended"):
            self.drop()
        return None

    def _stored_game(self, game_id: str) -> PersonGame:
        """Return the game as it is stored; changes after this look count as news."""
        with self._changed:
            self._has_news = False
        return self._games.get(game_id)

    def _take_back(self, request: PersonRequest, decisions_before: int) -> None:
        """End a question that the match needs no answer to any more, and lease the game again.

        The stored question gets the default action as its answer. `decisions_before` is the number
        of decisions before it.
        """
        default_action = request.view.legal[0]
        with suppress(PersonGameError):  # the person has answered just now, too late
            self._games.answer(self.game_id, decisions_before, default_action)
        self._lease = self._games.claim(OWNER, LEASE_S) or self._lease

    def _show_hint_if_requested(self, request: PersonRequest) -> bool:
        """Compute a hint and show it on the page, if the person has requested one.

        Return False if not. It takes some seconds, while the page shows that the coach is at work.
        """
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
        """Change fields of the seat's document, and notify waiting threads."""
        with self._changed:
            self._fields |= fields
            self._ring()

    def _ring(self) -> None:
        """Notify waiting threads. The caller holds `_changed`."""
        self._has_news = True
        self._changed.notify_all()
