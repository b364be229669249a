"""The steady policy: legal everywhere, by public facts alone, and strong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk.coach.common_luck import Stream, halves
from deepsea_sdk.policies import play_on
from deepsea_sdk.sensible import sensible
from deepsea_sdk.steady import STEADY, policy, steady
from helpers import games
from helpers.games import Chooser, opening_state, walk
from helpers.positions import at


@settings(max_examples=40)
@given(games.rule_sets, games.players, games.choosers)
def test_it_is_legal_and_the_same_for_a_view(
    rules: RuleSet, players: int, chooser: Chooser
) -> None:
    for state in walk(opening_state(rules, players, "steady"), chooser):
        if state.legal:
            action = steady(state)
            assert action in state.legal
            assert steady(view_for(state, state.to_move)) == action


@pytest.mark.parametrize(
    ("position", "action"),
    [
        # Nothing to lose yet.
        ("1 1 1 1 2 2 2 2 | *A3v B0v | d1 a25", DOWN),
        # The way home takes all the air that is left.
        ("1 1 1 x 2 2 x x 3 3 3 | *A8v:2,2 B4v:1 | d1 a12", BACK),
        # A first unit that surely comes home, and one that cannot.
        ("1 1 1 1 2 2 2 2 3 3 | A9v B0v | d1 a25 *A?", TAKE),
        ("1 1 1 1 2 2 2 2 3 3 | A9^ B1v:1,1,1 | d1 a3 *A?", LEAVE),
    ],
)
def test_what_it_does(position: str, action: str) -> None:
    if position.endswith("?"):
        position = position.replace(" *A?", "").replace("| A", "| *A")
        state = at(position)
        state.phase = "search"
        state.refresh()
    else:
        state = at(position)
    assert steady(state) == action


def test_it_plays_much_better_than_sensible() -> None:
    stream = Stream("steady against sensible", 4)
    ahead = 0
    for number in range(60):
        for ours in (0, 1):

            def choose(state: GameState, ours: int = ours) -> str:
                return (steady if state.to_move % 2 == ours else sensible)(state)

            state = opening_state(PRESETS["manual"], 4, f"{number}")
            play_on(state, stream.luck(number).dice, choose)
            found = halves(state)
            ahead += sum(found[ours::2]) - sum(found[1 - ours :: 2])
    assert ahead > 0


def test_other_numbers_play_otherwise() -> None:
    bold = policy(STEADY[2]._replace(turn_back=(0.0, 0.0, 0.0)))
    state = at("1 1 1 x 2 2 x x 3 3 3 | *A8v:2,2 B4v:1 | d1 a12")
    assert (steady(state), bold(state)) == (BACK, DOWN)
