"""Notes: from the bot to the one who reads them, within the limits, and in no record."""

from __future__ import annotations

import json
from math import inf, nan

import pytest

from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk import LEAVE, Bot, View, bot, table, wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import GAME_BYTES, MOST_READ, NAME_BYTES, TEXT_BYTES, Note, note_of
from deepsea_sdk.table import RefereedGame, play_by_calls
from deepsea_sdk.wire import decision_from_wire
from deepsea_sdk.wire.lines import answer_from_line


class Noting(Bot):
    """Notes how deep it is on each space that it may search."""

    def search(self, view: View) -> str:
        self.note("space", view.me.place)
        self.note("air", view.air)
        self.note("air", view.air - 1)
        self.note("on we go")
        return LEAVE


def noted(*bots: type[Bot]) -> RefereedGame:
    refereed = RefereedGame(Game(PRESETS["manual"], len(bots), seed_from_text("notes")), "g")
    play_by_calls(refereed, bots)
    return refereed


def test_a_note_stands_by_its_decision() -> None:
    played = noted(Noting, Bot).played()
    decisions = played.record.decisions
    assert {decisions[number].seat for number in played.notes} == {0}
    assert sorted(played.notes) == [n for n, one in enumerate(decisions) if one.seat == 0]
    (first, *_) = played.notes.values()
    assert first == Note("on we go", {"space": 2.0, "air": 24.0})
    assert first.line() == "space 2; air 24; on we go"


def test_no_record_has_notes() -> None:
    class Silent(Noting):
        def note(self, text: str, number: float | None = None) -> None:
            pass

    assert noted(Silent, Bot).notes == {}
    assert noted(Silent, Bot).played().record == noted(Noting, Bot).played().record


def test_a_game_keeps_so_much_of_each_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = note_of("x" * TEXT_BYTES, [(f"{n}" * NAME_BYTES, n) for n in range(20)])
    assert longest.size * 20 < GAME_BYTES
    monkeypatch.setattr(table, "GAME_BYTES", longest.size * 5)
    refereed = RefereedGame(Game(PRESETS["manual"], 2, seed_from_text("notes")), "g")
    while (question := refereed.game.pending()) is not None:
        note = note_of("short") if question.seat else longest
        refereed.answer(question, question.legal[0], note=note)
    seats = [one.seat for one in refereed.game.decisions]
    kept = [seats[number] for number in refereed.notes]
    assert kept.count(0) == 5
    assert kept.count(1) == seats.count(1) > 5


@pytest.mark.parametrize("speaks", ["gRPC", "lines"])
def test_a_flood_of_numbers_is_not_read(speaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def count(name: str, limit: int) -> str:
        read.append(name)
        return name[:limit]

    monkeypatch.setattr(bot, "_cut", count)
    if speaks == "gRPC":
        flood = pb.Note(numbers=[pb.NamedNumber() for _ in range(30_000)])
        answer = decision_from_wire(pb.Decision(request_id=7, action="down", note=flood))
        assert answer.note == Note("", {"": 0.0})
    else:
        numbers = {f"{number}": None for number in range(5_000)}
        said = {"type": "answer", "id": 7, "action": "down", "note": {"numbers": numbers}}
        assert answer_from_line(json.dumps(said).encode()).note == Note("", {})
    assert len(read) == MOST_READ + 1  # and the text


@pytest.mark.parametrize(
    ("text", "numbers", "kept"),
    [
        ("é" * 200, [], Note("é" * 100, {})),
        ("two\nlines\x1b[2J", [], Note("two lines\\x1b[2J", {})),
        ("", [(f"n{i}", i) for i in range(9)], Note("", {f"n{i}": i for i in range(8)})),
        ("", [("a", nan), ("b", inf), ("c", -inf), ("d", 1)], Note("", {"d": 1})),
        ("", [("n" * 50, 1.5)], Note("", {"n" * 40: 1.5})),
        ("\ud800", [], Note("\\ud800", {})),
    ],
)
def test_limits(text: str, numbers: list[tuple[str, float]], kept: Note) -> None:
    assert note_of(text, numbers) == kept


def test_over_the_wire() -> None:
    note = note_of("äöü", [("chance home", 0.7), ("score", -1.0)])
    message = pb.Decision()
    wire.decision_to_wire((7, "down", None, note), message)
    sent = pb.Decision.FromString(message.SerializeToString())
    assert decision_from_wire(sent) == wire.RequestAnswer(7, "down", None, note)
    # What another program sends is cut when it is read.
    pairs = [pb.NamedNumber(name=f"n{i}", value=nan if i == 3 else i) for i in range(2_000)]
    sent = pb.Decision(request_id=7, action="down", note=pb.Note(text="x" * 9_999, numbers=pairs))
    found = decision_from_wire(sent).note
    assert found is not None
    assert len(found.text) == TEXT_BYTES
    assert list(found.numbers) == [f"n{i}" for i in range(9) if i != 3]


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ({"text": "hello", "numbers": {"chance home": 0.5}}, Note("hello", {"chance home": 0.5})),
        ({"numbers": {"a": 1, "b": nan}}, Note("", {"a": 1.0})),
        ({"numbers": {"a": None, "b": 1}}, Note("", {"b": 1.0})),
        ({"numbers": {"a": "1", "b": True, "c": [1], "d": 0.5}}, Note("", {"d": 0.5})),
        ({"numbers": {"a": 10**400, "b": 2}}, Note("", {"b": 2.0})),
        ({"numbers": [1, 2], "text": "on"}, Note("on", {})),
        ({"numbers": None, "text": 5}, Note("", {})),
        ({}, Note("", {})),
        ("hello", None),
        ([1], None),
        (5, None),
        (None, None),
    ],
)
def test_on_a_line_another_form_is_left_out(said: object, note: Note | None) -> None:
    line = json.dumps({"type": "answer", "id": 1, "action": "down", "note": said}).encode()
    assert answer_from_line(line) == wire.RequestAnswer(1, "down", None, note)
