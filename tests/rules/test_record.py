"""Records: their shape, which other programs read, and the proof that one was not altered."""

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deepsea_rules.errors import InvalidRecord, RulesError
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.notation import format_position, parse_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from helpers.games import Chooser
from helpers.positions import ALL, custom

SEED = seed_from_text("record")
SEATS = [("greedy", "a" * 64), ("cautious", "b" * 64), ("random", "c" * 64)]
Data = dict[str, Any]


def play(rules: RuleSet, *, crash_at: int | None = None) -> Game:
    """A game of three; the seat asked at decision `crash_at` crashes there."""
    game = Game(rules, 3, SEED)
    chooser = Chooser("record", takes=True)
    while (question := game.pending()) is not None:
        if len(game.decisions) == crash_at:
            game.decide(None, us=7, fault=Fault.CRASH)
        else:
            game.decide(chooser.action(question.legal), us=len(game.decisions))
    return game


def record_of(game: Game) -> GameRecord:
    return GameRecord.of(game, game_id="demo/0", clock="100ms+2s", seats=SEATS)


def data_of(rules: RuleSet | None = None, crash_at: int | None = 30) -> Data:
    data: Data = json.loads(
        record_of(play(rules or PRESETS["manual"], crash_at=crash_at)).to_json()
    )
    return data


def text_of(data: Data) -> str:
    return json.dumps(data)


# ------------------------------------------------------------------------------- shape


@pytest.mark.parametrize("preset", ALL)
def test_the_shape(preset: str) -> None:
    game = play(PRESETS[preset], crash_at=30)
    text = record_of(game).to_json()
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    data = json.loads(text)
    assert list(data) == [
        "format", "game_id", "rules", "clock", "seed", "commitment", "seats", "decisions", "result",
    ]  # fmt: skip
    assert data["format"] == "deepsea-record/1"
    assert data["game_id"] == "demo/0"
    assert data["rules"] == {"name": preset, "options": PRESETS[preset].options()}
    assert list(data["rules"]) == ["name", "options"]
    assert list(data["rules"]["options"]) == list(PRESETS[preset].options())
    assert data["clock"] == "100ms+2s"
    assert data["seed"] == SEED.hex()
    assert data["commitment"] == hashlib.sha256(SEED).hexdigest()
    assert data["seats"] == [{"name": name, "digest": digest} for name, digest in SEATS]
    assert data["decisions"] == [
        {"seat": d.seat, "action": d.action, "us": d.us, "fault": d.fault} for d in game.decisions
    ]
    for decision in data["decisions"]:
        assert list(decision) == ["seat", "action", "us", "fault"]
    result = game.result()
    crashed = game.decisions[30].seat
    assert data["result"] == {
        "points": list(result.points),
        "placements": list(result.placements),
        "forfeits": [{"seat": crashed, "fault": "crash", "decision": 30}],
        "final": format_position(game.state, "all"),
    }
    assert list(data["result"]) == ["points", "placements", "forfeits", "final"]
    assert list(data["result"]["forfeits"][0]) == ["seat", "fault", "decision"]


def test_only_what_was_asked_is_a_decision() -> None:
    """After its crash the seat is not asked any more."""
    data = data_of(crash_at=30)
    crashed = data["decisions"][30]["seat"]
    assert data["decisions"][30]["fault"] == "crash"
    assert all(decision["seat"] != crashed for decision in data["decisions"][31:])


def test_the_final_position_has_all_values() -> None:
    data = data_of()
    state = parse_position(data["result"]["final"], PRESETS["manual"])
    assert state.phase == "over"
    assert data["result"]["final"].count("=") == 32
    assert tuple(state.result().points) == tuple(data["result"]["points"])


@pytest.mark.parametrize("preset", ALL)
def test_what_is_written_is_read_again(preset: str) -> None:
    record = record_of(play(PRESETS[preset], crash_at=20))
    read = GameRecord.from_json(record.to_json())
    assert read == record
    assert read.to_json() == record.to_json()
    verify(read)


def test_custom_rule_sets_are_in_the_record_whole() -> None:
    rules = custom("guide", tiebreak="level4", blank_count=None, first_player="seat_a")
    read = GameRecord.from_json(record_of(play(rules)).to_json())
    assert read.rules == rules
    verify(read)


@pytest.mark.parametrize("preset", ALL)
def test_a_scheduler_may_seat_the_first_player_of_a_preset(preset: str) -> None:
    rules = replace(PRESETS[preset], first_player="seat_a")
    game = play(rules)
    assert game.events_for(None)[0]["starter"] == 0  # type: ignore[typeddict-item]
    verify(GameRecord.from_json(record_of(game).to_json()))


def test_names_of_any_script() -> None:
    game = play(PRESETS["manual"])
    seats = [("Ælfred 🐙", "a" * 64), ('quo"te\n', "b" * 64), ("", "c" * 64)]
    record = GameRecord.of(game, game_id="ü/1", clock="1s", seats=seats)
    assert record.to_json().count("\n") == 1
    assert GameRecord.from_json(record.to_json()) == record


# ----------------------------------------------------------------------- what may differ

NOTES: dict[str, Callable[[Data], None]] = {
    "game id": lambda data: data.update(game_id="other"),
    "clock": lambda data: data.update(clock="1s"),
    "name": lambda data: data["seats"][0].update(name="other"),
    "digest": lambda data: data["seats"][0].update(digest="d" * 64),
    "time": lambda data: data["decisions"][3].update(us=123456),
}


@pytest.mark.parametrize("name", NOTES)
def test_notes_do_not_follow_from_the_seed(name: str) -> None:
    data = data_of()
    NOTES[name](data)
    verify(GameRecord.from_json(text_of(data)))


@pytest.mark.parametrize("at", [3, 30], ids=["usual", "with a fault"])
def test_times_are_numbers_that_every_reader_has_exactly(at: int) -> None:
    data = data_of(crash_at=30)
    for us in (0, 2**53 - 1):
        data["decisions"][at]["us"] = us
        assert verify(GameRecord.from_json(text_of(data))).decisions[at].us == us
    for us in (-1, 2**53, 2**60, 10**400):
        data["decisions"][at]["us"] = us
        with pytest.raises(
            InvalidRecord, match=rf"^decisions\[{at}\]\.us is .*, not 0 to 2\*\*53 - 1$"
        ):
            GameRecord.from_json(text_of(data))


def test_an_attempt_stands_in_the_record_from_the_second_on() -> None:
    text = record_of(play(PRESETS["manual"])).to_json()
    again = replace(GameRecord.from_json(text), attempt=1)
    assert GameRecord.from_json(text).attempt == 0
    assert json.loads(again.to_json()) == json.loads(text) | {"attempt": 1}
    assert GameRecord.from_json(again.to_json()) == again
    verify(again)


@pytest.mark.parametrize("attempt", [-1, 2**53, 10**400, 1.0, "1", True, None])
def test_attempts_that_are_none(attempt: object) -> None:
    with pytest.raises(InvalidRecord, match="attempt"):
        GameRecord.from_json(text_of(data_of() | {"attempt": attempt}))


# ---------------------------------------------------------------------- altered records


def other_action(data: Data, index: int) -> str:
    """Another legal action at a decision."""
    game = Game(PRESETS["manual"], 3, SEED)
    for decision in data["decisions"][:index]:
        game.pending()
        game.decide(decision["action"], fault=decision["fault"] and Fault(decision["fault"]))
    question = game.pending()
    assert question is not None
    return next(a for a in question.legal if a != data["decisions"][index]["action"])


def flip(text: str) -> str:
    """The same hex with its first digit changed."""
    return ("1" if text[0] == "0" else "0") + text[1:]


def raise_first(values: list[int]) -> None:
    values[0] += 1


def reseed(data: Data) -> None:
    data["seed"] = flip(data["seed"])
    data["commitment"] = hashlib.sha256(bytes.fromhex(data["seed"])).hexdigest()


def search_at(data: Data, action: str) -> int:
    return next(i for i, d in enumerate(data["decisions"]) if d["action"] == action)


# the alteration, and a word that the message must have
ALTERED: dict[str, tuple[Callable[[Data], object], str]] = {
    "commitment": (lambda d: d.update(commitment=flip(d["commitment"])), "commitment"),
    "seed": (lambda d: d.update(seed=flip(d["seed"])), ""),
    "seed and commitment": (reseed, ""),
    "preset's name": (lambda d: d["rules"].update(name="guide"), "guide"),
    "options under a preset's name": (
        lambda d: d["rules"]["options"].update(turn_needs_treasure=False),
        "manual",
    ),
    "options that asked for more": (
        lambda d: (
            d["rules"].update(name="house"),
            d["rules"]["options"].update(turn_needs_treasure=False),
        ),
        "decision",
    ),
    "options that make no sense": (
        lambda d: d["rules"]["options"].update(forced_turn="when_cannot_advance"),
        "forced_turn",
    ),
    "a seat less": (lambda d: d["seats"].pop(), ""),
    "a seat more": (lambda d: d["seats"].append({"name": "x", "digest": "e" * 64}), ""),
    "another legal action": (lambda d: d["decisions"][5].update(action=other_action(d, 5)), ""),
    "another legal action at the end": (
        lambda d: d["decisions"][-1].update(action=other_action(d, len(d["decisions"]) - 1)),
        "",
    ),
    "an illegal action": (
        lambda d: d["decisions"][search_at(d, "take")].update(action="drop:4"),
        "drop:4",
    ),
    "no action at all": (lambda d: d["decisions"][5].update(action="jump"), "jump"),
    "another seat": (
        lambda d: d["decisions"][5].update(seat=(d["decisions"][5]["seat"] + 1) % 3),
        "seat",
    ),
    "a seat that is none": (lambda d: d["decisions"][5].update(seat=9), "seat"),
    "the first decision left out": (lambda d: d["decisions"].pop(0), ""),
    "the last decision left out": (lambda d: d["decisions"].pop(), ""),
    "no decisions": (lambda d: d["decisions"].clear(), ""),
    "a decision too many": (lambda d: d["decisions"].append(d["decisions"][-1]), "over"),
    "two decisions exchanged": (
        lambda d: d["decisions"].insert(0, d["decisions"].pop(search_at(d, "take"))),
        "",
    ),
    "a fault that would have forfeited": (lambda d: d["decisions"][4].update(fault="crash"), ""),
    "a fault with an action of its own": (
        lambda d: d["decisions"][search_at(d, "take")].update(fault="timeout"),
        "take",
    ),
    "a fault left out": (lambda d: d["decisions"][30].update(fault=None), ""),
    "a lesser fault": (lambda d: d["decisions"][30].update(fault="timeout"), ""),
    "points": (lambda d: raise_first(d["result"]["points"]), "points"),
    "a score too many": (lambda d: d["result"]["points"].append(0), "points"),
    "placements": (lambda d: d["result"]["placements"].reverse(), "placements"),
    "a placement": (lambda d: raise_first(d["result"]["placements"]), "placements"),
    "forfeits left out": (lambda d: d["result"]["forfeits"].clear(), "forfeits"),
    "a forfeit more": (
        lambda d: d["result"]["forfeits"].append({"seat": 0, "fault": "crash", "decision": 3}),
        "forfeits",
    ),
    "a forfeit's seat": (
        lambda d: d["result"]["forfeits"][0].update(
            seat=(d["result"]["forfeits"][0]["seat"] + 1) % 3
        ),
        "forfeits",
    ),
    "a forfeit's fault": (lambda d: d["result"]["forfeits"][0].update(fault="timeout"), "forfeits"),
    "a forfeit's decision": (lambda d: d["result"]["forfeits"][0].update(decision=31), "forfeits"),
    "final": (
        lambda d: d["result"].update(final=d["result"]["final"].replace("a", "a1", 1)),
        "final",
    ),
    "final is no position": (lambda d: d["result"].update(final="nothing"), "final"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_altered_records_are_refused_with_the_difference(name: str) -> None:
    alter, word = ALTERED[name]
    data = data_of()
    verify(GameRecord.from_json(text_of(data)))
    before = copy.deepcopy(data)
    alter(data)
    assert data != before
    with pytest.raises(InvalidRecord) as caught:
        verify(GameRecord.from_json(text_of(data)))
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert word in message
    assert isinstance(caught.value, RulesError)


def test_the_difference_names_both_sides() -> None:
    data = data_of()
    right = list(data["result"]["points"])
    data["result"]["points"] = [77, 78, 79]
    with pytest.raises(InvalidRecord) as caught:
        verify(GameRecord.from_json(text_of(data)))
    for number in (77, *right):
        assert str(number) in str(caught.value)


# ------------------------------------------------------------------------------ garbage

GARBAGE = {
    "nothing": "",
    "a word": "record",
    "null": "null",
    "a list": "[]",
    "a number": "3",
    "a text": '"deepsea-record/1"',
    "an empty object": "{}",
    "half a record": '{"format": "deepsea-record/1", "game_id": "x"',
    "two records": '{"format": "deepsea-record/1"}\n{"format": "deepsea-record/1"}',
    "deep nesting": "[" * 100_000,
    "deep objects": '{"format":' * 50_000,
    "a huge number": "9" * 10_000,
    "not a number": "NaN",
    "zero bytes": "\0\0\0",
    "lone surrogate": '"\ud800"',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage(name: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        GameRecord.from_json(GARBAGE[name])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, one entry of each list."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*path, key))
    elif isinstance(value, list) and value:
        found += paths(value[0], (*path, 0))
    return found


BASE = data_of()
PATHS = paths(BASE)
WRONG: tuple[Any, ...] = (None, True, 1.5, -1, "?", [], {}, [None], {"?": 1})


def inner(data: Data, path: tuple[Any, ...]) -> Any:
    value: Any = data
    for key in path[:-1]:
        value = value[key]
    return value


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "/".join(map(str, path)))
def test_each_key_is_needed(path: tuple[Any, ...]) -> None:
    if isinstance(path[-1], int):
        pytest.skip("an entry of a list")
    data = copy.deepcopy(BASE)
    del inner(data, path)[path[-1]]
    with pytest.raises(InvalidRecord) as caught:
        verify(GameRecord.from_json(text_of(data)))
    assert path[-1] in str(caught.value)


def refusal_of(text: str) -> str | None:
    """What is said against a record, if anything is."""
    try:
        verify(GameRecord.from_json(text))
    except InvalidRecord as error:
        return str(error)
    return None


NOTED = {"game_id", "clock", "name", "digest", "us", "blank_count"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "/".join(map(str, path)))
def test_wrong_types_are_refused(path: tuple[Any, ...]) -> None:
    """Nothing but InvalidRecord comes out, whatever stands in a place."""
    original = inner(BASE, path)[path[-1]]
    for wrong in WRONG:
        if wrong == original and type(wrong) is type(original):
            continue
        data = copy.deepcopy(BASE)
        inner(data, path)[path[-1]] = wrong
        refusal = refusal_of(text_of(data))
        if refusal is None:
            # Accepted only if the type is right and the place is a note.
            assert type(wrong) is type(original), (path, wrong)
            assert path[-1] in NOTED, (path, wrong)
        else:
            assert "\n" not in refusal


@pytest.mark.parametrize(
    "path", [(), ("rules",), ("rules", "options"), ("seats", 0), ("decisions", 0), ("result",),
             ("result", "forfeits", 0)],
)  # fmt: skip
def test_unknown_keys_are_refused(path: tuple[Any, ...]) -> None:
    data = copy.deepcopy(BASE)
    value: Any = data
    for key in path:
        value = value[key]
    value["extra"] = 1
    with pytest.raises(InvalidRecord, match="extra"):
        GameRecord.from_json(text_of(data))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_numbers_of_seats(count: int) -> None:
    data = copy.deepcopy(BASE)
    data["seats"] = [{"name": "x", "digest": "y"}] * count
    with pytest.raises(InvalidRecord):
        GameRecord.from_json(text_of(data))


@pytest.mark.parametrize("seed", ["", "00", "zz" * 32, "00" * 31, "00" * 33, "0x" + "0" * 62,
                                  "AB" * 32, " " + "00" * 32, "00 " * 32, "٠" * 64])  # fmt: skip
def test_seeds_that_are_none(seed: str) -> None:
    data = copy.deepcopy(BASE)
    data["seed"] = seed
    with pytest.raises(InvalidRecord, match="seed"):
        GameRecord.from_json(text_of(data))


def test_damaged_bytes_are_refused_or_read_but_never_break() -> None:
    text = text_of(BASE)
    chooser = Chooser("damage")
    refused = 0
    for _ in range(150):
        place = chooser.number(len(text))
        damaged = text[:place] + chooser.pick(["", "0", "9", '"', "{", "}", ",", "e", "-", "٣"])
        damaged += text[place + 1 :]
        if (refusal := refusal_of(damaged)) is not None:
            refused += 1
            assert "\n" not in refusal
    assert refused > 50


def test_a_game_that_is_not_over_has_no_record() -> None:
    game = Game(PRESETS["manual"], 3, SEED)
    game.pending()
    with pytest.raises(RulesError, match="over"):
        record_of(game)


@pytest.mark.parametrize("key", ["seed", "result", "decisions", "rules"])
def test_a_key_that_stands_twice_is_refused(key: str) -> None:
    """Readers differ in which of the two they take: one would see another game than was proved."""
    text = text_of(BASE)
    twice = "{" + json.dumps({key: BASE[key]})[1:-1] + ", " + text[1:]
    with pytest.raises(InvalidRecord):
        GameRecord.from_json(twice)
