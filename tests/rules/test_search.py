"""Searching: leave, take or drop, one of the three, and what lies there afterwards."""

import pytest

from deepsea_rules.actions import BACK, BLANK, DOWN, LEAVE, TAKE, Unit, drop, kind_of, order
from deepsea_rules.errors import IllegalAction, InvalidAction, RulesError
from helpers.positions import ALL, at, chips_of, choices, play, snapshot, trail

# what is shown, position, legal searches
SEARCHES = {
    "a chip, no cargo": ("1 2 3 | A2v B0v", ["leave", "take"]),
    "a chip, with cargo": ("1 2 3 | A2v:1,4 B0v", ["leave", "take"]),
    "a stack": ("1 [12] 3 | A2v B0v", ["leave", "take"]),
    "a tail pile": ("1 {12} | A2v B0v", ["leave", "take"]),
    "a blank, no cargo": ("1 x 3 | A2v B0v", ["leave"]),
    "a blank, with cargo": ("1 x 3 | A2v:1,4 B0v", ["leave", "drop:1", "drop:4"]),
    "a blank, pick-up order": ("1 x 3 | A2v:4,1 B0v", ["leave", "drop:4", "drop:1"]),
    "a blank, equal units once": ("1 x 3 | A2v:1,4,1,1 B0v", ["leave", "drop:1", "drop:4"]),
    "a blank, a stack and its chips": (
        "1 x 3 | A2v:[12],1,2 B0v",
        ["leave", "drop:[12]", "drop:1", "drop:2"],
    ),
}


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(("text", "legal"), SEARCHES.values(), ids=SEARCHES)
def test_searches(text: str, legal: list[str], preset: str) -> None:
    state = at(f"{text} | d1 a20 search", preset)
    assert choices(state) == legal
    for action in legal:
        after = play(state.clone(), action)
        assert chips_of(after) == chips_of(state)
        assert after.to_move == 1


def test_drop_names_the_first_such_unit_in_pickup_order() -> None:
    state = at("1 x 3 | A2v:4,1,1 B0v | d1 a20 search")
    four, first, second = state.cargo[0]
    play(state, "drop:1")
    assert state.trail[2] == first
    assert state.cargo[0] == (four, second)


@pytest.mark.parametrize("preset", ALL)
def test_a_carried_pile_is_an_ordinary_stack_from_then_on(preset: str) -> None:
    state = at("1 x {12} 3 | A3v B0v | d2 a20 search", preset)
    assert trail(play(state, "take")) == "1 x x 3"
    assert not state.laid
    state = at("1 x 3 | A2v:[12] B0v | d2 a20 search", preset)
    assert trail(play(state, "drop:[12]")) == "1 [12] 3"


# ---------------------------------------------------------------------------- bad actions

MALFORMED = [
    "", " ", "jump", "DOWN", "Take", "take ", " take", "drop", "drop:", "drop:0", "drop:5",
    "drop:x", "drop:1,2", "drop:[", "drop:[]", "drop:[15]", "drop:12", "drop:1=0", "drop: 1",
    "order", "order:,", "order:1,", "order:1,,2", "order:[1", "order:9", "r3", "r1+2", "turn:1",
    "drop:1\n", "drop:١", "order:1,2\n", "drop:" + "1" * 500,
]  # fmt: skip


@pytest.mark.parametrize("action", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_actions(action: str) -> None:
    state = at("1 x 3 | A2v:1,2 B0v | d1 a20 search")
    before = snapshot(state)
    assert not state.is_legal(action)
    with pytest.raises(InvalidAction) as caught:
        state.apply(action)
    assert isinstance(caught.value, RulesError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert snapshot(state) == before


ILLEGAL = {
    "drop what is not carried": ("1 x 3 | A2v:1,2 B0v | d1 a20 search", "drop:3"),
    "drop a chip of a stack": ("1 x 3 | A2v:[12] B0v | d1 a20 search", "drop:1"),
    "drop two units as a stack": ("1 x 3 | A2v:1,2 B0v | d1 a20 search", "drop:[12]"),
    "drop on a chip": ("1 2 3 | A2v:1,2 B0v | d1 a20 search", "drop:1"),
    "take a blank": ("1 x 3 | A2v:1,2 B0v | d1 a20 search", "take"),
    "declare after the move": ("1 x 3 | A2v:1,2 B0v | d1 a20 search", "down"),
    "turn after the move": ("1 x 3 | A2v:1,2 B0v | d1 a20 search", "back"),
    "order in a search": ("1 x 3 | A2v:1,2 B0v | d1 a20 search", "order:2,1"),
    "search before the declaration": ("1 2 3 | A2v B0v | d1 a20 declare", "take"),
    "search before the roll": ("1 2 3 | A2v B0v | d1 a20 roll", "take"),
    "leave before the roll": ("1 2 3 | A2v B0v | d1 a20 roll", "leave"),
    "search in an order": ("1 | A1v:1,2,3,4 Bh | d1 a0 order", "leave"),
    "order something else": ("1 | A1v:1,2,3,4 Bh | d1 a0 order", "order:1,2,3,3"),
    "order too little": ("1 | A1v:1,2,3,4 Bh | d1 a0 order", "order:1,2,3"),
    "order too much": ("1 | A1v:1,2,3,4 Bh | d1 a0 order", "order:1,2,3,4,4"),
    "order a stack that is none": ("1 | A1v:1,2,3,4 Bh | d1 a0 order", "order:[12],3,4"),
    "split a stack": ("1 | A1v:[12],2,3,4 Bh | d1 a0 order", "order:1,2,2,3,4"),
    "anything when it is over": ("1 | A0v B0v | d3 a0 over", "down"),
}


@pytest.mark.parametrize(("text", "action"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_actions(text: str, action: str) -> None:
    state = at(text)
    before = snapshot(state)
    assert not state.is_legal(action)
    with pytest.raises(IllegalAction) as caught:
        state.apply(action)
    message = str(caught.value)
    assert "\n" not in message
    assert action in message
    assert snapshot(state) == before


def test_the_message_names_action_and_position() -> None:
    state = at("1 x 3 | A2v:1,2 B0v | d1 a20 search")
    with pytest.raises(IllegalAction, match=r"drop:3") as caught:
        state.apply("drop:3")
    assert "1 x 3 |" in str(caught.value)


# -------------------------------------------------------------------------- action texts


def test_action_texts() -> None:
    assert (DOWN, BACK, LEAVE, TAKE) == ("down", "back", "leave", "take")
    single, stack = Unit((9,)), Unit((1, 9, 32))
    assert (single.name, single.levels) == ("2", (2,))
    assert (stack.name, stack.levels) == ("[124]", (1, 2, 4))
    assert drop(single) == "drop:2"
    assert drop(stack) == "drop:[124]"
    assert order([single, stack, Unit((2,))]) == "order:2,[124],1"
    assert not BLANK


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("down", "declare"),
        ("back", "declare"),
        ("leave", "search"),
        ("take", "search"),
        ("drop:3", "search"),
        ("drop:[12]", "search"),
        ("order:1,[23]", "order"),
    ],
)
def test_kinds(action: str, kind: str) -> None:
    assert kind_of(action) == kind
