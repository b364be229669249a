"""A game from its seed, and its record: `Game` is the one loop of referee, tables and re-runs.

    while (question := game.pending()) is not None:
        game.decide(choose(game.view(question.seat)))

Invariants of a game: it is its seed and its decisions; nothing else changes it. There is no
question where only one action is legal. A refused action changes nothing.

Invariants of a record: it has the seed and the decisions, from which everything else follows.
`verify` accepts it only if its re-run gives the same course and result. The other parts (names,
digests, times, the text of a faulty bot) are notes, which no re-run can give. The format is
"deepsea-record/1", one JSON object, described in docs/records.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, get_type_hints

from . import randomness
from .actions import Kind
from .errors import IllegalAction, InvalidRecord, RulesError
from .events import EngineEvent, Event, end_event, event_for, new_tuple
from .faults import Fault, is_forfeit
from .notation import format_position
from .printable import quoted
from .randomness import SEED_BYTES
from .ruleset import DIVES, MAX_PLAYERS, MIN_PLAYERS, PRESETS, SEAT_LETTERS, RuleSet
from .scoring import Result
from .state import GameState
from .view import View, known_values, view_for


class Question(NamedTuple):
    """Decision that a seat has to make now."""

    seat: int
    kind: Kind
    legal: tuple[str, ...]
    """Legal actions, the default action first; an order may be legal without being listed."""


class Decision(NamedTuple):
    """Decision that a seat was asked for, with its answer."""

    seat: int
    action: str
    us: int
    """Time that it took, in microseconds."""
    fault: Fault | None
    """The fault of the bot, if any; the action is the default one then."""
    came: str | None = None
    """A short description of what the bot did instead; None without a fault."""


class Forfeit(NamedTuple):
    """A seat that lost its right to decide."""

    seat: int
    fault: Fault
    decision: int
    """The index of the faulty decision among the game's decisions."""


class Game:
    """One game of 2 to 6 players; `seed` has 32 bytes."""

    def __init__(self, rules: RuleSet, players: int, seed: bytes) -> None:
        if not MIN_PLAYERS <= players <= MAX_PLAYERS:
            raise ValueError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} players, not {players}")
        if len(seed) != randomness.SEED_BYTES:
            raise ValueError(f"a seed has {randomness.SEED_BYTES} bytes, not {len(seed)}")
        self.rules = rules
        self.players = players
        self.seed = seed
        self.commitment = randomness.commitment(seed)
        self.decisions: list[Decision] = []
        self.forfeits: list[Forfeit] = []
        self.events: list[EngineEvent] = []
        starter = 0
        if rules.first_player == "roll_off":
            starter = randomness.first_player(seed, players)
        self.state = GameState.opening(
            rules, randomness.deal(seed), players, starter, log=self.events
        )
        self._source = randomness.source(seed)
        self._question: Question | None = None
        self._forfeited = [False] * players
        self._faults: list[list[Fault]] = [[] for _ in range(players)]
        self._turns = [[0] * players for _ in range(DIVES + 1)]

    def pending(self) -> Question | None:
        """Return the next decision to ask for, or None when the game is over.

        On the way to it dice are rolled, single legal actions are played, and seats that have
        forfeited play default actions. Another call without a decision in between returns the same
        question.
        """
        question = self._question
        if question is not None:
            return question
        state = self.state
        while (phase := state.phase) != "over":
            seat = state.to_move
            if phase != "roll":
                legal = state.legal
                if len(legal) > 1 and not self._forfeited[seat]:
                    question = new_tuple(Question, (seat, phase, legal))
                    self._question = question
                    return question
                if phase == "search":
                    state.unchecked_search(legal[0])
                    continue
                if phase == "order":
                    state.unchecked_order(legal[0])
                    continue
                state.unchecked_declare(legal[0] if legal else None)
            dive = state.dive
            turns = self._turns[dive]
            turns[seat] += 1
            d1, d2 = self._source.dice(dive, seat, turns[seat])
            state.unchecked_move(d1, d2)
        return None

    def decide(
        self,
        action: str | None,
        us: int = 0,
        fault: Fault | None = None,
        came: str | None = None,
    ) -> Decision:
        """Play the answer to the pending question, and return it as a decision.

        Raise `InvalidAction` or `IllegalAction` for an action that the position does not allow.

        action  an action, or None with a `fault`: the default action is played then
        us      time that the decision took, in microseconds
        came    with a fault, what the bot did instead, for its author
        """
        question = self._question or self.pending()
        if question is None:
            raise IllegalAction("the game is over, nothing is to be decided")
        if fault is not None:
            action = question.legal[0]
        elif action is None:
            raise IllegalAction("only a fault is answered with the default action")
        state = self.state
        seat = state.to_move
        state.apply(action)
        self._question = None
        decision = new_tuple(Decision, (seat, action, us, fault, came))
        self.decisions.append(decision)
        if fault is not None:
            self._count(fault, seat)
        return decision

    def _count(self, fault: Fault, seat: int) -> None:
        """Count a fault of a seat, which may forfeit it."""
        self._faults[seat].append(fault)
        if is_forfeit(self._faults[seat]):
            self._forfeited[seat] = True
            self.forfeits.append(Forfeit(seat, fault, len(self.decisions) - 1))

    def has_forfeited(self, seat: int) -> bool:
        """Return True if the seat has lost its right to decide."""
        return self._forfeited[seat]

    def view(self, seat: int | None) -> View:
        """Return the position as a seat, or a watcher (None), may know it."""
        return view_for(self.state, seat)

    def events_for(self, viewer: int | None, skip: int = 0) -> list[Event]:
        """Return the events as a viewer may know them now; None is a watcher.

        skip  number of events at the beginning to leave out, such as `len(game.events)` at an
              earlier call. The event with the end of a finished game is never left out
        """
        known = known_values(self.state, viewer)
        events = [event_for(event, known) for event in self.events[skip:]]
        if self.state.phase == "over":
            events.append(end_event(self.result(), self.seed))
        return events

    def keep_no_events(self) -> None:
        """Drop all events and log no more of them: for a game whose events nobody reads."""
        self.state.log = None
        self.events.clear()

    def result(self) -> Result:
        """Return points and placements of a finished game; forfeited seats rank last."""
        return self.state.result([forfeit.seat for forfeit in self.forfeits])


FORMAT = "deepsea-record/1"
US_LIMIT = 2**53
"""Upper bound of whole numbers, such as times in microseconds.

Every JSON reader reads numbers below it exactly.
"""


# ----- Record of a game


class RecordSeat(NamedTuple):
    """The bot of a seat: its name, and the SHA-256 of its files in hex."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class GameRecord:
    """Record of one finished game."""

    game_id: str
    rules: RuleSet
    clock: str
    seed: bytes
    commitment: str
    seats: tuple[RecordSeat, ...]
    decisions: tuple[Decision, ...]
    points: tuple[int, ...]
    placements: tuple[int, ...]
    forfeits: tuple[Forfeit, ...]
    final: str
    """The last position in notation, with all values."""
    attempt: int = 0
    """Number of the attempt at a game of a match or a comparison, from 0."""

    @classmethod
    def of(
        cls,
        game: Game,
        *,
        game_id: str,
        clock: str,
        seats: Sequence[tuple[str, str]],
        attempt: int = 0,
    ) -> GameRecord:
        """Return the record of a finished game.

        clock    the time control as text, such as "100ms+2s"
        seats    the name and the digest of each bot, seat A first
        attempt  the number of void attempts at this game before
        """
        result = game.result()
        return cls(
            game_id=game_id,
            rules=game.rules,
            clock=clock,
            seed=game.seed,
            commitment=game.commitment,
            seats=tuple(RecordSeat(*seat) for seat in seats),
            decisions=tuple(game.decisions),
            points=result.points,
            placements=result.placements,
            forfeits=tuple(game.forfeits),
            final=format_position(game.state, "all"),
            attempt=attempt,
        )

    def to_json(self) -> str:
        """Return the record as one line of JSON with its line end."""
        data = {
            "format": FORMAT,
            "game_id": self.game_id,
            "rules": {"name": self.rules.name, "options": self.rules.options()},
            "clock": self.clock,
            # Left out of nearly all records: it is 0 unless an earlier attempt was void.
            **({"attempt": self.attempt} if self.attempt else {}),
            "seed": self.seed.hex(),
            "commitment": self.commitment,
            "seats": [seat._asdict() for seat in self.seats],
            "decisions": [_decision_data(decision) for decision in self.decisions],
            "result": {
                "points": list(self.points),
                "placements": list(self.placements),
                "forfeits": [forfeit._asdict() for forfeit in self.forfeits],
                "final": self.final,
            },
        }
        return json.dumps(data, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> GameRecord:
        """Return the record in a text.

        Raise `InvalidRecord`, which names the first thing that is wrong.
        """
        try:
            data = json.loads(text, object_pairs_hook=_unique_keys)
        except InvalidRecord:
            raise
        except (ValueError, RecursionError) as error:
            raise InvalidRecord(f"not JSON: {error}") from None
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise InvalidRecord(f"the format is {data['format']!r}, not {FORMAT!r}")
        fields = _read(_FORM, data, "")
        rules, result = fields["rules"], fields["result"]
        if not re.fullmatch(f"[0-9a-f]{{{2 * SEED_BYTES}}}", fields["seed"]):
            raise InvalidRecord(f"seed is not {SEED_BYTES} bytes in lower-case hex")
        try:
            rule_set = RuleSet.from_options(rules["name"], rules["options"])
        except RulesError as error:
            raise InvalidRecord(f"rules: {error}") from None
        record = cls(
            game_id=fields["game_id"],
            rules=rule_set,
            clock=fields["clock"],
            seed=bytes.fromhex(fields["seed"]),
            commitment=fields["commitment"],
            seats=fields["seats"],
            decisions=fields["decisions"],
            points=result["points"],
            placements=result["placements"],
            forfeits=result["forfeits"],
            final=result["final"],
            attempt=fields.get("attempt", 0),
        )
        if not MIN_PLAYERS <= len(record.seats) <= MAX_PLAYERS:
            raise InvalidRecord(f"{len(record.seats)} seats; a game has 2 to 6")
        return record


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, where a repeated one gets a number: "greedy", "greedy 2"."""
    unique: list[str] = []
    for name in names:
        candidate, number = name, 1
        # A name with a number must not be the name of another one, either.
        while candidate in unique or (number > 1 and candidate in names):
            number += 1
            candidate = f"{name} {number}"
        unique.append(candidate)
    return unique


def replay(
    record: GameRecord, on_decision: Callable[[Game, Question, Decision], object] | None = None
) -> Game:
    """Play the record's decisions again from its seed, and return the finished game.

    Raise `InvalidRecord` at the first decision that the game does not allow.

    on_decision  called before each decision with the game, the question and the decision
    """
    game = Game(record.rules, len(record.seats), record.seed)
    for index, decision in enumerate(record.decisions):
        question = game.pending()
        if question is None:
            raise InvalidRecord(f"decision {index}: the game is over before it")
        seat, action, us, fault, came = decision
        if seat != question.seat:  # the usual case needs no text
            _check_same(f"decision {index}: seat", seat, question.seat)
        if fault is not None:
            _check_same(f"decision {index}: action after a fault", action, question.legal[0])
        if on_decision is not None:
            on_decision(game, question, decision)
        try:
            game.decide(action, us, fault, came)
        except RulesError as error:
            raise InvalidRecord(f"decision {index}: {error}") from None
    question = game.pending()
    if question is not None:
        raise InvalidRecord(
            f"after {len(record.decisions)} decisions the game is not over: "
            f"seat {SEAT_LETTERS[question.seat]} has to {question.kind}"
        )
    return game


def verify(
    record: GameRecord, on_decision: Callable[[Game, Question, Decision], object] | None = None
) -> Game:
    """Play a record again, check that it leads to the recorded result, and return the game.

    Raise `InvalidRecord` with the first difference.

    on_decision  called before each decision with the game, the question and the decision
    """
    # A record that names a preset must have the preset's options. Only who begins may differ,
    # because the rule texts leave that open.
    published_rules = PRESETS.get(record.rules.name, record.rules)
    if record.rules != replace(published_rules, first_player=record.rules.first_player):
        raise InvalidRecord(f"rules: the options are not those of {record.rules.name}")
    game = replay(record, on_decision)
    result = game.result()
    _check_same("commitment", record.commitment, game.commitment)
    _check_same("result.points", record.points, result.points)
    _check_same("result.placements", record.placements, result.placements)
    _check_same("result.forfeits", record.forfeits, tuple(game.forfeits))
    _check_same("result.final", record.final, format_position(game.state, "all"))
    return game


def _check_same(field: str, recorded: object, replayed: object) -> None:
    """Raise `InvalidRecord` unless the recorded value is the one of the re-run."""
    if recorded != replayed:
        raise InvalidRecord(
            f"{field} is {_text_in_message(recorded)}, "
            f"but the re-run gives {_text_in_message(replayed)}"
        )


def _text_in_message(value: object) -> str:
    """Return a value of a record as the message of a difference shows it."""
    if isinstance(value, Forfeit):  # a named tuple, but no list
        return f"seat {value.seat} {value.fault} at decision {value.decision}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_text_in_message, value)) + "]"
    return str(value)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object with these keys and values. Raise `InvalidRecord` for a repeated key.

    Python would take its last value, and other readers of JSON may take the first one.
    """
    data = dict(pairs)
    if len(data) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidRecord(f"the key {quoted(key)} stands twice in one object")
            seen.add(key)
    return data


_FORM = {
    "format": str,
    "game_id": str,
    "rules": {"name": str, "options": dict},
    "clock": str,
    "attempt": int,
    "seed": str,
    "commitment": str,
    "seats": tuple[RecordSeat, ...],
    "decisions": tuple[Decision, ...],
    "result": {
        "points": tuple[int, ...],
        "placements": tuple[int, ...],
        "forfeits": tuple[Forfeit, ...],
        "final": str,
    },
}
"""Form of a record; see `_read`."""
_OPTIONAL_KEYS = {"attempt", "came"}
_KEYS_WITHOUT_FAULT = {"seat", "action", "us", "fault"}
"""Keys of a decision without a fault, which has no `came`."""
_TYPES_IN_WORDS = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}
_fields_of = cache(get_type_hints)


def _read(form: Any, value: Any, name: str) -> Any:
    """Return a value of JSON as an object of Python, if it has the expected form.

    Raise `InvalidRecord`, with the value's name in the record, if it has another form.

    form  a type; a tuple of one type, for a list; `T | None`; or a dictionary of forms by key.
          A named tuple is a JSON object of its fields. Whole numbers are below `US_LIMIT`
    """
    if type(value) is form:  # not isinstance: True is an int to Python, but not in JSON
        if form is int and not 0 <= value < US_LIMIT:
            raise InvalidRecord(f"{name} is {quoted(value, 40)}, not 0 to 2**53 - 1")
        return value
    if isinstance(form, dict):
        return _read_object(form, value, name)
    if form is Fault:
        return _read_fault(_read(str, value, name), name)
    if form in _TYPES_IN_WORDS:  # a plain type, and the value has another one
        raise InvalidRecord(f"{name} is {quoted(value)}, not {_TYPES_IN_WORDS[form]}")
    if isinstance(form, type):  # a named tuple
        return form(**_read_object(_fields_of(form), value, name))
    inner_form = form.__args__[0]  # of `tuple[Decision, ...]`, or of `str | None`
    if isinstance(form, UnionType):
        return None if value is None else _read(inner_form, value, name)
    return _read_list(inner_form, value, name)


def _read_fault(text: str, name: str) -> Fault:
    """Return the fault with this name. Raise `InvalidRecord` if there is no such fault."""
    if text not in [*Fault]:
        faults = ", ".join(Fault)
        raise InvalidRecord(f"{name} is {quoted(text)}, no fault; there are {faults}")
    return Fault(text)


def _read_list(form: Any, value: Any, name: str) -> tuple[Any, ...]:
    """Return the items of a JSON list, all of which have this form."""
    items = []
    for index, item in enumerate(_read(list, value, name)):
        decision = _read_usual_decision(item) if form is Decision else None
        if decision is not None:
            items.append(decision)
        else:
            items.append(_read(form, item, f"{name}[{index}]"))
    return tuple(items)


def _read_object(forms: dict[str, Any], value: Any, name: str) -> dict[str, Any]:
    """Return a JSON object with the values that are read by the form of each key.

    Raise `InvalidRecord` for another key, or for a missing one that is not optional.
    """
    if not isinstance(value, dict):
        raise InvalidRecord(f"{name or 'the record'} is not a JSON object")
    if value.keys() != forms.keys():
        for key in forms:
            if key not in value and key not in _OPTIONAL_KEYS:
                raise InvalidRecord(f"{name or 'the record'} lacks {key!r}")
        for key in value:
            if key not in forms:
                raise InvalidRecord(f"{name or 'the record'} has an unknown key {key!r}")
    prefix = f"{name}." if name else ""
    return {key: _read(forms[key], value[key], f"{prefix}{key}") for key in value}


def _read_usual_decision(value: object) -> Decision | None:
    """Return the decision in a JSON object if it is valid and has no fault, as nearly all are.

    Return None for any other value: `_read` then reads or refuses it. This is a shortcut, with
    which it takes half as long to read a record as to play it again.
    """
    if type(value) is not dict or value.keys() != _KEYS_WITHOUT_FAULT:
        return None
    seat, action, us = value["seat"], value["action"], value["us"]
    has_valid_numbers = type(seat) is type(us) is int and 0 <= us < US_LIMIT
    if value["fault"] is None and has_valid_numbers and type(action) is str:
        return new_tuple(Decision, (seat, action, us, None, None))
    return None


def _decision_data(decision: Decision) -> dict[str, Any]:
    """Return a decision as a JSON object."""
    data = decision._asdict()
    if decision.came is None:
        del data["came"]
    return data
