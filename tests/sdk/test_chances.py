"""Chances and turns against brute force: all rolls, and games that are played on."""

from __future__ import annotations

import itertools

import pytest

from deepsea_rules.ruleset import FACES
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk import MANY_TURNS, home_chance, turns_left
from helpers.positions import at

ROLLS = [d1 + d2 for d1 in FACES for d2 in FACES]


def counted(distance: int, load: int, turns: int) -> float:
    """The share of all sequences of rolls that cover the distance."""
    home = [
        sum(max(0, roll - load) for roll in rolls) >= distance
        for rolls in itertools.product(ROLLS, repeat=turns)
    ]
    return sum(home) / len(home)


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("load", range(7))
def test_the_chance_to_get_home_is_that_of_all_rolls_counted(load: int, turns: int) -> None:
    for distance in (0, 1, 2, 3, 5, 8, 12):
        expected = counted(distance, load, turns)
        assert home_chance(distance, load, turns) == pytest.approx(expected)


def test_other_divers_on_the_way_only_help() -> None:
    # With B and C on the way, 6 spaces home are 4 that count.
    home = 0
    for d1, d2 in itertools.product(FACES, FACES):
        state = at("1 1 1 1 1 x 1 | *A6^:1 B5v C4v | d1 a25")
        state.roll(d1, d2)
        home += state.home_order == (0,)
    assert home / 9 == pytest.approx(home_chance(4, 1, 1))
    assert home / 9 > home_chance(6, 1, 1)


def rolls_played(state: GameState) -> int:
    """How many rolls the seat to move makes in this dive if nobody takes, drops or gets home."""
    seat, dive, rolls = state.to_move, state.dive, 0
    while state.dive == dive and state.phase != "over":
        if state.phase == "search":
            state.apply("leave")
        elif state.phase == "order":
            state.apply(state.legal[0])
        else:
            rolls += state.to_move == seat
            state.roll(1, 1)
    return rolls


@pytest.mark.parametrize("air", [1, 2, 3, 4, 5, 6, 7, 12, 25])
@pytest.mark.parametrize(
    "divers",
    ["*A30v:1,1 B29v:1,1", "*A30v:1,1 B0v", "*A30v:1,1 B29v:1,1,1 C28v:2,2,2,2", "*A31v B29v:1,1"],
)
@pytest.mark.parametrize("phase", ["", "roll", "search"])
def test_the_turns_left_are_those_that_are_played(divers: str, air: int, phase: str) -> None:
    # Two ones move nobody who carries two or more; who carries none only goes down.
    state = at(f"1 {'x ' * 31}| {divers} | d1 a{air} {phase}".strip())
    load = len(state.cargo[state.to_move])
    expected = turns_left(state, load)
    assert turns_left(view_for(state, state.to_move), load) == expected
    assert min(rolls_played(state), MANY_TURNS) == expected


def test_turns_left_is_asked_for_a_load_that_is_not_carried_yet() -> None:
    state = at("1 1 1 1 | *A4v B3v:1,1 | d1 a12 search")
    # The two of B, and then rounds of 2 or 3.
    assert [turns_left(state, load) for load in (0, 1)] == [5, 4]


def test_without_anybody_who_carries_there_is_no_end() -> None:
    assert turns_left(at("1 1 1 1 | *A4v B3v | d1 a1 search"), 0) == MANY_TURNS
