"""The record of a game: its seed and decisions, from which everything else follows.

Invariants: a record that `verify` accepts has no course or result of the game that its own re-run
does not give; what a re-run cannot give (names, digests, times, what a faulty bot sent) is
a note. The format is "deepsea-record/1", one JSON object, described in docs/records.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from .errors import InvalidRecord, RulesError
from .events import new_tuple
from .faults import Fault
from .game import Decision, Forfeit, Game, Question
from .notation import format_position
from .printable import quoted
from .randomness import SEED_BYTES
from .ruleset import MAX_PLAYERS, MIN_PLAYERS, PRESETS, SEAT_LETTERS, RuleSet

FORMAT = "deepsea-record/1"
US_LIMIT = 2**53
"""Times are below it, in microseconds: every JSON reader has such numbers exactly."""
_T = TypeVar("_T")


class RecordSeat(NamedTuple):
    """Who sat where: the bot's name and the SHA-256 of its files, in hex."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class GameRecord:
    """One finished game."""

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
    """Which attempt at a game of a match or a comparison it was, from 0."""

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
        """The record of a finished game; `seats` are names and digests, seat A first."""
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
        """The record as one line of JSON with its line end."""
        data = {
            "format": FORMAT,
            "game_id": self.game_id,
            "rules": {"name": self.rules.name, "options": self.rules.options()},
            "clock": self.clock,
            **({"attempt": self.attempt} if self.attempt else {}),
            "seed": self.seed.hex(),
            "commitment": self.commitment,
            "seats": [seat._asdict() for seat in self.seats],
            "decisions": [_decision_data(decision) for decision in self.decisions],
            "result": {
                "scores": list(self.points),
                "placements": list(self.placements),
                "forfeits": [forfeit._asdict() for forfeit in self.forfeits],
                "final": self.final,
            },
        }
        return json.dumps(data, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> GameRecord:
        """Read a record; raises `InvalidRecord` naming the first thing that is wrong with it."""
        try:
            data = json.loads(text, object_pairs_hook=_unique_keys)
        except InvalidRecord:
            raise
        except (ValueError, RecursionError) as error:
            raise InvalidRecord(f"not JSON: {error}") from None
        top = _Fields(data, "the record")
        if top.take("format", str) != FORMAT:
            raise InvalidRecord(f"the format is {data['format']!r}, not {FORMAT!r}")
        result = top.fields("result")
        record = cls(
            game_id=top.take("game_id", str),
            rules=_read_rules(top.fields("rules")),
            clock=top.take("clock", str),
            seed=_read_seed(top.take("seed", str)),
            commitment=top.take("commitment", str),
            seats=tuple(_read_seat(fields) for fields in top.rows("seats")),
            decisions=_read_decisions(top),
            points=tuple(result.numbers("scores")),
            placements=tuple(result.numbers("placements")),
            forfeits=tuple(_read_forfeit(fields) for fields in result.rows("forfeits")),
            final=result.take("final", str),
            attempt=top.take("attempt", int) if top.has("attempt") else 0,
        )
        result.refuse_rest()
        top.refuse_rest()
        if not MIN_PLAYERS <= len(record.seats) <= MAX_PLAYERS:
            raise InvalidRecord(f"{len(record.seats)} seats; a game has 2 to 6")
        if not 0 <= record.attempt < US_LIMIT:
            raise InvalidRecord(f"'attempt' is {quoted(record.attempt, 40)}, not 0 to 2**53 - 1")
        return record


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names; one that stands there already gets a number: "greedy", "greedy 2"."""
    found: list[str] = []
    for name in names:
        new, number = name, 1
        while new in found or (number > 1 and new in names):
            number += 1
            new = f"{name} {number}"
        found.append(new)
    return found


def replay(
    record: GameRecord, on_decision: Callable[[Game, Question, Decision], object] | None = None
) -> Game:
    """Play the record's decisions again from its seed; the finished game.

    on_decision  called before each decision with the game, the question and the decision
    Raises `InvalidRecord` at the first decision that cannot have been made.
    """
    game = Game(record.rules, len(record.seats), record.seed)
    for index, decision in enumerate(record.decisions):
        question = game.pending()
        if question is None:
            raise InvalidRecord(f"decision {index}: the game is over before it")
        seat, action, us, fault, came = decision
        if seat != question.seat:
            _same(f"decision {index}: seat", seat, question.seat)
        if fault is not None:
            _same(f"decision {index}: action after a fault", action, question.legal[0])
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
    """Re-run the record and compare all that follows from it; the finished game.

    on_decision  as for `replay`
    Raises `InvalidRecord` with the first difference.
    """
    named = PRESETS.get(record.rules.name, record.rules)
    # Who begins is the scheduler's choice, not the rule text's.
    if record.rules != replace(named, first_player=record.rules.first_player):
        raise InvalidRecord(f"rules: the options are not those of {record.rules.name}")
    game = replay(record, on_decision)
    result = game.result()
    _same("commitment", record.commitment, game.commitment)
    _same("result.scores", record.points, result.points)
    _same("result.placements", record.placements, result.placements)
    _same("result.forfeits", record.forfeits, tuple(game.forfeits))
    _same("result.final", record.final, format_position(game.state, "all"))
    return game


def _same(what: str, found: object, derived: object) -> None:
    if found != derived:
        raise InvalidRecord(f"{what} is {_shown(found)}, but the re-run gives {_shown(derived)}")


def _shown(value: object) -> str:
    if isinstance(value, tuple) and not hasattr(value, "_asdict"):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, Forfeit):
        return f"seat {value.seat} {value.fault} at decision {value.decision}"
    return str(value)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand once: of two, another reader might take the other one."""
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = next(key for key in data if [name for name, _ in pairs].count(key) > 1)
        raise InvalidRecord(f"the key {quoted(twice)} stands twice in one object")
    return data


class _Fields:
    """The fields of one JSON object, taken one by one, with errors that say where."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise InvalidRecord(f"{where} is not a JSON object")
        self._left = dict(data)
        self._where = where

    def take(self, key: str, kind: type[_T]) -> _T:
        """The value of a key that has to be there and be of that type."""
        if key not in self._left:
            raise InvalidRecord(f"{self._where} lacks {key!r}")
        value = self._left.pop(key)
        # bool is an int to Python, but not to a reader of the format.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InvalidRecord(f"{self._where}: {key!r} is {quoted(value)}, not {_WORDS[kind]}")
        return value

    def take_us(self) -> int:
        """The time of a decision."""
        us = self.take("us", int)
        if not 0 <= us < US_LIMIT:
            raise InvalidRecord(
                f"{self._where}: 'us' is {quoted(us, 40)}, not 0 to 2**53 - 1 microseconds"
            )
        return us

    def fields(self, key: str) -> _Fields:
        return _Fields(self.take(key, dict), f"{key!r}")

    def rows(self, key: str) -> list[_Fields]:
        return [_Fields(row, f"{key}[{i}]") for i, row in enumerate(self.take(key, list))]

    def numbers(self, key: str) -> list[int]:
        values = self.take(key, list)
        if not all(type(value) is int for value in values):
            raise InvalidRecord(f"{self._where}: {key!r} is not a list of whole numbers")
        return values

    def has(self, key: str) -> bool:
        return self._left.get(key) is not None

    def refuse_rest(self) -> None:
        """Raise for a key that the format does not have."""
        for key in self._left:
            raise InvalidRecord(f"{self._where} has an unknown key {key!r}")


_USUAL = {"seat", "action", "us", "fault"}
_WORDS = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def _read_rules(fields: _Fields) -> RuleSet:
    name, options = fields.take("name", str), fields.take("options", dict)
    fields.refuse_rest()
    try:
        return RuleSet.from_options(name, options)
    except RulesError as error:
        raise InvalidRecord(f"rules: {error}") from None


def _read_seed(text: str) -> bytes:
    if not re.fullmatch(f"[0-9a-f]{{{2 * SEED_BYTES}}}", text):
        raise InvalidRecord(f"'seed' is not {SEED_BYTES} bytes in lower-case hex")
    return bytes.fromhex(text)


def _read_seat(fields: _Fields) -> RecordSeat:
    seat = RecordSeat(fields.take("name", str), fields.take("digest", str))
    fields.refuse_rest()
    return seat


def _decision_data(decision: Decision) -> dict[str, Any]:
    data = decision._asdict()
    if decision.came is None:
        del data["came"]
    return data


def _read_decisions(fields: _Fields) -> tuple[Decision, ...]:
    rows = fields.take("decisions", list)
    return tuple(
        [
            _usual_decision(row) or _read_decision(_Fields(row, f"decisions[{i}]"))
            for i, row in enumerate(rows)
        ]
    )


def _usual_decision(row: object) -> Decision | None:
    """A decision without a fault, which nearly all are; None for another, or if it is wrong."""
    # Field by field, a record would take half as long to read as to run again.
    if type(row) is not dict or row.keys() != _USUAL:
        return None
    seat, action, us = row["seat"], row["action"], row["us"]
    whole = type(seat) is type(us) is int and 0 <= us < US_LIMIT
    if row["fault"] is None and whole and type(action) is str:
        return new_tuple(Decision, (seat, action, us, None, None))
    return None


def _read_decision(fields: _Fields) -> Decision:
    decision = Decision(
        seat=fields.take("seat", int),
        action=fields.take("action", str),
        us=fields.take_us(),
        fault=_read_fault(fields.take("fault", str)) if fields.has("fault") else None,
        came=fields.take("came", str) if fields.has("came") else None,
    )
    if decision.fault is None:
        fields.take("fault", type(None))
    fields.refuse_rest()
    return decision


def _read_forfeit(fields: _Fields) -> Forfeit:
    forfeit = Forfeit(
        seat=fields.take("seat", int),
        fault=_read_fault(fields.take("fault", str)),
        decision=fields.take("decision", int),
    )
    fields.refuse_rest()
    return forfeit


def _read_fault(name: str) -> Fault:
    try:
        return Fault(name)
    except ValueError:
        raise InvalidRecord(f"no fault is called {name!r}; there are {', '.join(Fault)}") from None
