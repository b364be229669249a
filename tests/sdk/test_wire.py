"""The wire: what is written and read again is the same, whatever the rules and the position."""

from __future__ import annotations

from typing import TypeVar

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_rules.events import Event
from deepsea_rules.faults import Fault
from deepsea_rules.game import Forfeit, Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.view import View, view_for
from deepsea_sdk import FaultNotice, GameEnd, GameInfo, TimeLeft, Unit, WireError, wire
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.wire import framing
from helpers import games
from helpers.positions import ALL, at, custom

M = TypeVar("M", bound=Message)

# No deadline: machines differ. Whole games are many positions each, so a few of them do.
examples = settings(deadline=None, max_examples=50)
whole_games = settings(deadline=None, max_examples=20)

names = st.text(max_size=20)
numbers = st.integers(0, 2**63 - 1)


def sent(message: M) -> M:
    """The message after its way over the wire."""
    return type(message).FromString(message.SerializeToString())


def view_sent(view: View) -> View:
    message = pb.View.FromString(wire.view_to_wire(view))
    return wire.view_from_wire(message, view.rules, view.legal)


def events_sent(events: list[Event]) -> list[Event]:
    return wire.events_from_wire([sent(wire.event_to_wire(event)) for event in events])


# Rules


@examples
@given(games.rule_sets)
def test_rules(rules: RuleSet) -> None:
    assert wire.rules_from_wire(sent(wire.rules_to_wire(rules))) == rules


@pytest.mark.parametrize("preset", ALL)
def test_the_proto_has_every_option_and_no_other(preset: str) -> None:
    fields = [field.name for field in pb.Rules.DESCRIPTOR.fields]
    assert fields == ["name", *PRESETS[preset].options()]


def test_rules_that_make_no_sense_are_refused() -> None:
    message = wire.rules_to_wire(PRESETS["manual"])
    message.reveal = "never"
    with pytest.raises(WireError, match="reveal"):
        wire.rules_from_wire(message)


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
        events = game.events_for(seat)
        assert events_sent(events) == events


def test_views_of_one_position_differ_by_what_each_seat_knows() -> None:
    state = at("2 x 3 | *A3v B1v/1=0,2=5 | d2 a20 search", custom("publisher"))
    views = [view_sent(view_for(state, seat)) for seat in (0, 1)]
    assert [sorted(view.known.values()) for view in views] == [
        sorted(view_for(state, seat).known.values()) for seat in (0, 1)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1 {12} [34] x {1} | *A2^!:1,[23] Bh2/4,1 Ch1 | d3 a-4 search",
        "1 2 3 | *A0v B0v | d1 a25",
        "1 2 x | *A2^:3 B1v | d1 a7 s1 roll",
        "2 x x x x x | *A5^:1,2,3,4 Bh1 | d1 a0 order",
        "1 2 | A0v/3 B0v/4 | d3 a25 over",
    ],
)
def test_views_of_odd_positions(text: str) -> None:
    rules = custom("reference", barred_release="never_this_dive")
    for seat in range(2):
        view = view_for(at(text, rules), seat)
        assert view_sent(view) == view


def test_what_is_read_is_made_of_units() -> None:
    view = view_sent(view_for(at("1 {12} x | *A3v:[34],2 B0v | d1 a20 search"), 0))
    assert {type(unit) for unit in (*view.trail, *view.laid, *view.cargo[0])} == {Unit}


def test_a_watchers_view_is_not_for_the_wire() -> None:
    with pytest.raises(ValueError, match="watcher"):
        wire.view_to_wire(view_for(at("1 | *A0v B0v"), None))


def test_the_seats_view_alone_decides_what_is_sent() -> None:
    # The same public position over two deals: not a byte may differ.
    text = "1 x 3 | *A3v:2 B1v/1 | d2 a20 search"
    rules = PRESETS["guide"]
    deals = [at(text, rules), at(text, rules)]
    deals[1].values = tuple(reversed(deals[0].values))
    a, b = (wire.view_to_wire(view_for(state, 0)) for state in deals)
    assert a == b


def test_an_event_whose_beginning_is_unknown() -> None:
    event: Event = {
        "event": "turn",
        "dive": 1,
        "seat": 0,
        "declare": None,
        "dice": None,
        "from_space": None,
        "to_space": 4,
        "home": False,
        "search": "leave",
        "air": -1,
    }
    assert events_sent([event]) == [event]


@pytest.mark.parametrize("message", [pb.Event(), pb.Event.FromString(b"\xfa\x01\x00")])
def test_unknown_events_are_refused(message: pb.Event) -> None:
    with pytest.raises(WireError, match="event"):
        wire.event_from_wire(message)


@pytest.mark.parametrize("phase", [0, 6, 77])
def test_unknown_phases_are_refused(phase: int) -> None:
    message = pb.View.FromString(wire.view_to_wire(view_for(at("1 | *A0v B0v"), 0)))
    message.phase = pb.Phase.ValueType(phase)
    with pytest.raises(WireError, match=f"phase {phase}"):
        wire.view_from_wire(message, PRESETS["manual"], ())


def test_a_view_without_divers_is_refused() -> None:
    with pytest.raises(WireError, match="divers"):
        wire.view_from_wire(pb.View(phase=pb.PHASE_TURN), PRESETS["manual"], ())


@pytest.mark.parametrize(
    ("field", "data"),
    [
        pytest.param("trail", b"\x01\x82", id="a stack without its last chip"),
        pytest.param("trail", b"\x21", id="chip 33"),
        pytest.param("trail", b"\x80\x01", id="a blank in a stack"),
        pytest.param("known", b"\x01\x02\x03", id="a chip without its value"),
    ],
)
def test_bytes_that_are_no_units_are_refused(field: str, data: bytes) -> None:
    message = pb.View.FromString(wire.view_to_wire(view_for(at("1 | *A0v B0v"), 0)))
    setattr(message, field, data)
    with pytest.raises(WireError):
        wire.view_from_wire(message, PRESETS["manual"], ())


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
        assert wire.request_from_wire(request, rules).view == view
        assert wire.events_from_wire(request.events) == game.events_for(seat, marks[seat])
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
    fields = pb.Rules.DESCRIPTOR.fields
    assert max(field.number for field in fields) > 15
    with pytest.raises(ValueError, match="too high"):
        framing.small_tags(pb.Rules.DESCRIPTOR, *[field.name for field in fields])


@pytest.mark.parametrize("number", [-1, 128, 255, 256])
def test_a_number_that_needs_two_bytes_is_refused(number: int) -> None:
    assert framing.small_fields(8, 127) == b"\x08\x7f"
    with pytest.raises(ValueError, match=r"number|range"):
        framing.small_fields(8, number)


# A game's start and end


@examples
@given(
    st.builds(
        GameInfo,
        names,
        st.integers(0, 5),
        st.integers(2, 6),
        games.rule_sets,
        numbers,
        numbers,
        names,
    )
)
def test_game_start(info: GameInfo) -> None:
    assert wire.start_from_wire(sent(wire.start_to_wire(info))) == info


@whole_games
@given(games.presets, games.players, games.salts, games.choosers, st.data())
def test_game_over(
    rules: RuleSet, players: int, salt: str, chooser: games.Chooser, data: st.DataObject
) -> None:
    game = games.play_out(Game(rules, players, seed_from_text(salt)), chooser)
    forfeits = data.draw(
        st.lists(st.builds(Forfeit, st.integers(0, 5), st.sampled_from(Fault), st.integers(0, 999)))
    )
    end = GameEnd("g", 1, *game.result(), game.seed, game.state.values, tuple(forfeits), void=False)
    events = game.events_for(1, 3)
    message = sent(wire.over_to_wire(end, events))
    assert wire.over_from_wire(message, 1) == end
    assert wire.events_from_wire(message.events) == events


def test_a_void_game_has_no_result() -> None:
    end = GameEnd("g", 0, (), (), b"", (), (), void=True)
    assert wire.over_from_wire(sent(wire.over_to_wire(end, ())), 0) == end


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
    data = wire.numbered(wire.RequestWriter("g", []).write(view, 0, TimeLeft(5, 7)), 2**40)
    (message,) = pb.RefereeMessage.FromString(data).requests
    assert message.kind == kind
    assert tuple(message.legal) == view.legal
    assert wire.request_from_wire(message, view.rules) == ("g", 2**40, view, (5, 7))


def test_nothing_is_asked_where_nothing_is_to_be_decided() -> None:
    view = replace_legal(view_for(at("1 | *A1v B0v | d1 a20 roll"), 0))
    with pytest.raises(KeyError):
        wire.RequestWriter("g", []).write(view, 0, TimeLeft(5, 7))


def replace_legal(view: View) -> View:
    view.legal = ("down", "back")
    return view


@examples
@given(names, numbers, st.text(max_size=1000))
def test_decision(game_id: str, request_id: int, action: str) -> None:
    answer = wire.Answer(game_id, request_id, action)
    assert wire.decision_from_wire(sent(wire.decision_to_wire(answer))) == answer


@pytest.mark.parametrize("action", ["take" * 100_000, "\ud800", "tak\udcffe"])
def test_no_action_breaks_the_stream_however_senseless(action: str) -> None:
    message = sent(wire.decision_to_wire(wire.Answer("g", 1, action)))
    assert message.action != action
    assert len(message.SerializeToString()) < 5_000


@examples
@given(
    st.builds(FaultNotice, names, numbers, st.sampled_from(Fault), names, st.booleans()),
)
def test_fault_notice(notice: FaultNotice) -> None:
    assert wire.fault_from_wire(sent(wire.fault_to_wire(notice))) == notice


def test_every_fault_has_its_number() -> None:
    numbers = {wire.fault_to_wire(FaultNotice("g", 1, fault, "", False)).fault for fault in Fault}
    assert numbers == set(pb.Fault.values()) - {pb.FAULT_UNSPECIFIED}


def test_unknown_faults_are_refused() -> None:
    with pytest.raises(WireError, match="fault 99"):
        wire.fault_from_wire(pb.FaultNotice(fault=pb.Fault.ValueType(99)))


def test_hello_names_the_protocol_and_what_the_bot_is_built_with() -> None:
    hello = wire.hello_to_wire("secret").hello
    assert (hello.token, hello.protocol_version) == ("secret", 1)
    assert hello.sdk.startswith("deepsea-sdk/")


def test_changes_of_a_view_change_its_message() -> None:
    # Remembered bytes must not make different divers alike.
    view = view_for(at("1 x 3 | *A3v:2 B1v | d2 a20 search"), 0)
    seen = {wire.view_to_wire(view)}
    for name, value in (
        ("homeward", (True, False)),
        ("barred", (True, False)),
        ("place", (-1, 1)),
        ("cargo", ((), ())),
        ("bank", ((1,), ())),
        ("laid", frozenset({view.trail[1]})),
    ):
        changed = view_for(at("1 x 3 | *A3v:2 B1v | d2 a20 search"), 0)
        setattr(changed, name, value)
        seen.add(wire.view_to_wire(changed))
        assert view_sent(changed) == changed
    assert len(seen) == 7
