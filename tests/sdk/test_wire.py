"""The wire: what is written and read again is the same, whatever the rules and the position."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import TypeVar

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import EngineEvent, Event, TurnPlayed, event_for
from deepsea_rules.faults import Fault
from deepsea_rules.game import Forfeit, Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.state import GameState
from deepsea_rules.view import View, view_for
from deepsea_sdk import FaultNotice, GameEnd, GameInfo, Unit, WireError, wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import TimeLeft
from deepsea_sdk.wire import decision_from_wire, framing
from deepsea_sdk.wire.games import (
    ViewWriter,
    event_from_wire,
    event_to_wire,
    events_from_wire,
    fault_from_wire,
    last_events_from_wire,
    result_from_wire,
    rules_from_wire,
    rules_to_wire,
    start_from_wire,
    view_from_wire,
)
from helpers import games
from helpers.positions import at

M = TypeVar("M", bound=Message)

# No deadline: machines differ. Whole games are many positions each, so a few of them do.
examples = settings(max_examples=50)
whole_games = settings(max_examples=8)

names = st.text(max_size=20)
numbers = st.integers(0, 2**63 - 1)
seats = st.integers(0, 5)


def sent(message: M) -> M:
    """The message after its way over the wire."""
    return type(message).FromString(message.SerializeToString())


def fault_sent(notice: FaultNotice) -> pb.FaultNotice:
    (fault,) = pb.PlayResponse.FromString(wire.fault_message(notice)).faults
    return fault


def view_sent(view: View) -> View:
    message = pb.View.FromString(ViewWriter().write(view))
    return view_from_wire(message, view.rules, view.legal)


def decision_sent(answer: wire.RequestAnswer) -> pb.Decision:
    message = pb.Decision()
    wire.decision_to_wire(answer, message)
    return sent(message)


def event_sent(event: EngineEvent, known: Mapping[int, int]) -> Event | None:
    return event_from_wire(pb.Event.FromString(event_to_wire(event, known)))


# Rules


@examples
@given(games.rule_sets)
def test_rules(rules: RuleSet) -> None:
    assert rules_from_wire(sent(rules_to_wire(rules))) == rules


def option(message: pb.Rules, name: str) -> pb.RuleOption:
    return next(option for option in message.options if option.name == name)


def test_rules_that_make_no_sense_are_refused() -> None:
    message = rules_to_wire(PRESETS["manual"])
    option(message, "forced_turn").value = "when_cannot_advance"
    with pytest.raises(WireError, match="forced_turn"):
        rules_from_wire(message)


@pytest.mark.parametrize(
    ("changed", "added", "unknown"),
    [
        ({}, {"currents": "strong"}, "currents"),
        ({"reveal": "never"}, {}, "reveal"),
        ({"blank_count": "1e9"}, {}, "blank_count"),
        ({"starter": None}, {}, "starter"),
        ({"home_empty_handed": "tolled"}, {"barred_release": "on_pickup"}, "home_empty_handed"),
    ],
)
def test_a_view_by_rules_of_a_newer_referee_is_read_but_not_simulated(
    changed: dict[str, str | None], added: dict[str, str], unknown: str
) -> None:
    message = rules_to_wire(PRESETS["manual"])
    for name, value in changed.items():
        if value is None:
            message.options.remove(option(message, name))
        else:
            option(message, name).value = value
    for name, value in added.items():
        message.options.add(name=name, value=value)
    rules = rules_from_wire(message)
    assert rules.unknown_options == (unknown,)
    assert rules.name == "manual"
    view = view_for(at("1 x 3 | *A3v:2 B1v/1 | d2 a20 search"), 0)
    data = pb.View.FromString(ViewWriter().write(view))
    read = view_from_wire(data, rules, view.legal)
    assert (read.kind, read.legal, read.trail) == (view.kind, view.legal, view.trail)
    assert read.items == view.items
    for simulate in (
        lambda: read.sample(games.rng("a")),
        lambda: Game(rules, 2, bytes(32)),
        lambda: GameState(rules, view_for(at("1 | *A0v B0v"), 0).banked_earlier, 2),
    ):
        with pytest.raises(InvalidRules, match=unknown):
            simulate()


# Views and events, from whole games


@whole_games
@given(games.rule_sets, games.players, games.salts, games.choosers)
def test_views_and_events_of_whole_games(
    rules: RuleSet, players: int, salt: str, chooser: games.Chooser
) -> None:
    game = Game(rules, players, seed_from_text(salt))

    def look(game: Game) -> None:
        for seat in range(players):
            view = game.view(seat)
            assert view_sent(view) == view

    games.play_out(game, chooser, look)
    for seat in range(players):
        known = game.view(seat).known
        for event in game.events:
            assert event_sent(event, known) == event_for(event, known)
            assert event_sent(event, {}) == event_for(event, {})


def test_what_is_read_is_made_of_units() -> None:
    view = view_sent(view_for(at("1 {12} x | *A3v:[34],2 B0v | d1 a20 search"), 0))
    assert {type(unit) for unit in (*view.trail, *view.laid, *view.cargo[0])} == {Unit}


def test_a_watchers_view_is_not_for_the_wire() -> None:
    with pytest.raises(ValueError, match="watcher"):
        ViewWriter().write(view_for(at("1 | *A0v B0v"), None))


def test_the_seats_view_alone_decides_what_is_sent() -> None:
    # The same public position over two deals: not a byte may differ.
    text = "1 x 3 | *A3v:2 B1v/1 | d2 a20 search"
    rules = PRESETS["guide"]
    deals = [at(text, rules), at(text, rules)]
    deals[1].values = tuple(reversed(deals[0].values))
    a, b = (ViewWriter().write(view_for(state, 0)) for state in deals)
    assert a == b


def test_an_event_whose_beginning_is_unknown() -> None:
    turn = TurnPlayed(1, 0, None, None, None, 4, False, "leave", -1)
    assert event_sent(turn, {}) == event_for(turn, {})


@pytest.mark.parametrize("message", [pb.Event(), pb.Event.FromString(b"\xfa\x01\x00")])
def test_unknown_events_are_skipped(message: pb.Event) -> None:
    assert event_from_wire(message) is None
    dive = pb.Event(dive=pb.DiveEvent(dive=2))
    (event,) = events_from_wire([message, dive, message])
    assert event["event"] == "dive"


@pytest.mark.parametrize("phase", [0, 6, 77])
def test_an_unknown_phase_asks_nothing_that_we_know(phase: int) -> None:
    message = pb.View.FromString(ViewWriter().write(view_for(at("1 | *A0v B0v"), 0)))
    message.phase = pb.Phase.ValueType(phase)
    view = view_from_wire(message, PRESETS["manual"], ("a", "b"))
    assert (view.phase, view.kind, view.legal) == ("unknown", None, ("a", "b"))
    assert "unknown" in repr(view)


def test_an_unknown_end_of_a_dive_has_no_name() -> None:
    message = pb.Event(cleanup=pb.CleanupEvent(dive=1, reason=pb.EndReason.ValueType(9)))
    event = event_from_wire(message)
    assert event is not None
    assert (event["event"], dict(event)["reason"]) == ("cleanup", "unknown")


def test_a_view_without_divers_is_refused() -> None:
    view = view_from_wire(pb.View(phase=pb.PHASE_DECLARE), PRESETS["manual"], ())
    with pytest.raises(WireError, match="divers"):
        _ = view.place


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(pb.View(trail=[33]), id="a stack that is not there"),
        pytest.param(pb.View(trail=[34], stacks=[pb.Stack(chips=[1, 2])]), id="nor this one"),
        pytest.param(pb.View(trail=[300]), id="a number beyond all units"),
        pytest.param(pb.View(trail=[2**32 - 1]), id="the largest number"),
        pytest.param(pb.View(stacks=[pb.Stack()]), id="a stack without chips"),
        pytest.param(pb.View(stacks=[pb.Stack(chips=[33])]), id="chip 33"),
        pytest.param(pb.View(stacks=[pb.Stack(chips=[0, 1])]), id="a blank in a stack"),
        pytest.param(pb.View(divers=[pb.Diver(cargo=[33])]), id="a cargo that is not there"),
    ],
)
def test_numbers_that_are_no_units_are_refused(change: pb.View) -> None:
    message = pb.View.FromString(ViewWriter().write(view_for(at("1 | *A0v B0v"), 0)))
    message.MergeFrom(change)
    view = view_from_wire(message, PRESETS["manual"], ())
    with pytest.raises(WireError):
        _ = view.trail, view.cargo


def test_a_view_that_was_read_can_be_copied_and_sent_to_another_process() -> None:
    view = view_sent(view_for(at("1 {3} x [12] | *A4v:1 B0v | d1 a20 search"), 0))
    for copied in (copy.copy(view), pickle.loads(pickle.dumps(view))):
        assert type(copied) is View
        assert copied == view


def test_a_field_that_a_view_does_not_have() -> None:
    view = view_sent(view_for(at("1 | *A0v B0v"), 0))
    assert not hasattr(view, "tide")
    with pytest.raises(AttributeError, match="'View' object has no attribute 'tide'"):
        _ = view.tide  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "event",
    [
        pb.Event(dive=pb.DiveEvent(trail=[33])),
        pb.Event(cleanup=pb.CleanupEvent(banked=[pb.BankedChips(chips=[33])])),
        pb.Event(cleanup=pb.CleanupEvent(banked=[pb.BankedChips(chips=[0])])),
    ],
)
def test_events_about_nothing_are_refused(event: pb.Event) -> None:
    with pytest.raises(WireError):
        event_from_wire(event)


def test_a_view_prints_as_numbers() -> None:
    # Chip 1, a blank, a pile that was laid, a stack; A carries a stack, B is home with a chip.
    view = view_for(at("1 x [34] {12} | *A3v:[23],4 Bh1/1=2 | d2 a20 search"), 0)
    message = pb.View.FromString(ViewWriter().write(view))
    stacks = [(list(stack.chips), stack.tail_pile) for stack in message.stacks]
    assert list(message.trail) == [view.trail[1][0], 0, 33, 34]
    assert stacks == [
        (list(view.trail[3]), False),
        (list(view.trail[4]), True),
        (list(view.cargo[0][0]), False),
    ]
    a, b = message.divers
    assert (a.location, a.space, list(a.cargo)) == (pb.LOCATION_TRAIL, 3, [35, view.cargo[0][1][0]])
    assert (b.location, b.space, list(b.bank)) == (pb.LOCATION_HOME, 0, list(view.bank[1]))


@whole_games
@given(games.rule_sets, games.players, games.salts, games.choosers)
def test_the_requests_of_a_game_are_each_as_if_it_were_the_only_one(
    rules: RuleSet, players: int, salt: str, chooser: games.Chooser
) -> None:
    game = Game(rules, players, seed_from_text(salt))
    writer = wire.RequestWriter("g", game.events)
    marks = [0] * players

    def look(game: Game) -> None:
        question = game.pending()
        if question is None:
            return
        seat, view = question.seat, game.view(question.seat)
        data = writer.write(view, marks[seat], TimeLeft(5, 7))
        request = pb.DecisionRequest.FromString(data)
        assert wire.request_from_wire(request, rules)[0] == view
        known = game.view(seat).known
        since = [event_for(event, known) for event in game.events[marks[seat] :]]
        assert events_from_wire(request.events) == since
        marks[seat] = len(game.events)

    games.play_out(game, chooser, look)


@examples
@given(st.integers(0, 2**64 - 1))
def test_numbers_are_written_as_protobuf_does(number: int) -> None:
    message = pb.DecisionRequest(budget_us=number) if number else pb.DecisionRequest()
    written = framing.tag(pb.DecisionRequest.DESCRIPTOR, "budget_us", 0) + framing.varint(number)
    assert pb.DecisionRequest.FromString(written) == message


@examples
@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_numbers_are_written_as_protobuf_does(air: int) -> None:
    tag = framing.tag(pb.View.DESCRIPTOR, "air", 0)
    assert pb.View.FromString(tag + framing.varint(framing.zigzag(air))).air == air


def test_a_field_whose_number_needs_two_bytes_is_refused() -> None:
    fields = [field for field in FieldDescriptorProto.DESCRIPTOR.fields if field.number > 15]
    with pytest.raises(ValueError, match="too high"):
        framing.small_tags(FieldDescriptorProto.DESCRIPTOR, *[field.name for field in fields])


@pytest.mark.parametrize("number", [-1, 128, 255, 256])
def test_a_number_that_needs_two_bytes_is_refused(number: int) -> None:
    assert framing.small_fields(8, 127) == b"\x08\x7f"
    with pytest.raises(ValueError, match=r"number|range"):
        framing.small_fields(8, number)


# A game's start and end


@examples
@given(st.builds(GameInfo, names, seats, games.players, games.rule_sets, numbers, numbers, names))
def test_game_start(info: GameInfo) -> None:
    (start,) = pb.PlayResponse.FromString(wire.start_message(info)).starts
    assert start_from_wire(start) == info


@whole_games
@given(games.presets, games.players, games.salts, games.choosers, st.data())
def test_game_over(
    rules: RuleSet, players: int, salt: str, chooser: games.Chooser, data: st.DataObject
) -> None:
    game = games.play_out(Game(rules, players, seed_from_text(salt)), chooser)
    forfeits = data.draw(
        st.lists(st.builds(Forfeit, seats, st.sampled_from(Fault), st.integers(0, 999)))
    )
    values = game.state.values
    end = GameEnd("g", 1, *game.result(), game.seed, values, tuple(forfeits), is_void=False)
    (message,) = pb.PlayResponse.FromString(wire.result_message(end, game.events[3:])).results
    assert result_from_wire(message, 1) == end
    # The last event is made of the result: what is in one is not sent in the other.
    assert last_events_from_wire(message) == game.events_for(1, 3)
    assert len(message.events) == len(game.events) - 3


def test_a_void_game_has_no_result() -> None:
    end = GameEnd("g", 0, (), (), b"", (), (), is_void=True)
    (message,) = pb.PlayResponse.FromString(wire.void_message("g")).results
    assert wire.void_message("g") == wire.result_message(end, ())
    assert result_from_wire(message, 0) == end
    assert last_events_from_wire(message) == []


# Questions and answers


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 1 x 2 | *A2v:1 B0v | d1 a20", pb.DECISION_KIND_DECLARE),
        ("1 1 x 2 | *A4v:1 B0v | d1 a20 search", pb.DECISION_KIND_SEARCH),
        ("2 x x x x x | *A5^:1,2,3,4 Bh1 | d1 a0 order", pb.DECISION_KIND_ORDER),
    ],
)
def test_request(text: str, kind: int) -> None:
    view = view_for(at(text), 0)
    data = wire.with_request_id(wire.RequestWriter("g", []).write(view, 0, TimeLeft(5, 7)), 2**40)
    (message,) = pb.PlayResponse.FromString(data).requests
    assert message.kind == kind
    assert tuple(message.legal) == view.legal
    assert (message.game_id, message.request_id) == ("g", 2**40)
    assert wire.request_from_wire(message, view.rules) == (view, (5, 7))


def test_nothing_is_asked_where_nothing_is_to_be_decided() -> None:
    view = view_for(at("1 | *A1v B0v | d1 a20 roll"), 0)
    view.legal = ("down", "back")
    with pytest.raises(KeyError):
        wire.RequestWriter("g", []).write(view, 0, TimeLeft(5, 7))


@pytest.mark.parametrize("kind", [0, 4, pb.DECISION_KIND_ORDER])
def test_a_kind_of_decision_that_we_do_not_know_has_a_default(kind: int) -> None:
    view = view_for(at("1 1 x 2 | *A2v:1 B0v | d1 a20"), 0)
    data = wire.RequestWriter("g", []).write(view, 0, TimeLeft(5, 7))
    message = pb.DecisionRequest.FromString(data)
    message.kind = pb.DecisionKind.ValueType(kind)
    read, _ = wire.request_from_wire(message, view.rules)
    assert (read.kind, read.legal) == (None, view.legal)


@examples
@given(numbers, st.text(max_size=1000))
def test_decision(request_id: int, action: str) -> None:
    answer = wire.RequestAnswer(request_id, action)
    assert decision_from_wire(decision_sent(answer)) == answer


@examples
@given(numbers, st.text(max_size=1000))
def test_an_error_is_an_answer_without_an_action(request_id: int, error: str) -> None:
    answer = wire.RequestAnswer(request_id, "", error)
    assert decision_from_wire(decision_sent(answer)) == answer


def test_an_error_keeps_its_last_8_kib() -> None:
    text = "é" * 10_000 + "the last line"
    message = decision_sent(wire.RequestAnswer(1, "", text))
    assert len(message.error.encode()) <= 8 * 1024
    assert message.error.endswith("éé" + "the last line")
    # Whoever sends more, in whatever language, has it cut when it is read.
    answer = decision_from_wire(sent(pb.Decision(request_id=1, error=text)))
    assert answer.error == message.error


@pytest.mark.parametrize("action", ["take" * 100_000, "\ud800", "tak\udcffe"])
def test_no_action_breaks_the_stream_however_senseless(action: str) -> None:
    message = decision_sent(wire.RequestAnswer(1, action))
    assert message.action != action
    assert len(message.SerializeToString()) < 5_000


@examples
@given(st.builds(FaultNotice, names, numbers, st.sampled_from(Fault), names, st.booleans()))
def test_fault_notice(notice: FaultNotice) -> None:
    assert fault_from_wire(fault_sent(notice), notice.game_id) == notice


def test_every_fault_has_its_number() -> None:
    numbers = {fault_sent(FaultNotice("g", 1, fault, "", False)).fault for fault in Fault}
    assert numbers == set(pb.Fault.values()) - {pb.FAULT_UNSPECIFIED}


def test_an_unknown_fault_has_no_name() -> None:
    notice = fault_from_wire(pb.FaultNotice(fault=pb.Fault.ValueType(99), message="m"), "g")
    assert (notice.fault, notice.message) == ("unknown", "m")


def test_hello_says_what_the_bot_is_built_with_and_can_do() -> None:
    hello = wire.hello_to_wire("secret", ["concurrent_games"]).hello
    assert (hello.token, list(hello.features)) == ("secret", ["concurrent_games"])
    assert hello.sdk.startswith("deepsea-sdk/")


def test_a_flood_of_decisions_is_refused_before_any_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message of 64 KiB had room for 32,000 empty ones, which took 37 ms."""
    many = [pb.Decision(request_id=number) for number in range(wire.MOST_DECISIONS + 1)]
    most = pb.PlayRequest(decisions=many[1:]).SerializeToString()
    assert len(wire.read_from_bot(most).answers) == wire.MOST_DECISIONS
    monkeypatch.setattr(wire, "decision_from_wire", None)
    with pytest.raises(WireError, match="it sent 1,001 decisions in a message, and 1,000 are"):
        wire.read_from_bot(pb.PlayRequest(decisions=many).SerializeToString())


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x12\x7f", b"\x12\x05\x12\x03\xff\xff\xff"])
def test_bytes_of_a_bot_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="no PlayRequest"):
        wire.read_from_bot(data)
