"""Trials of the coach: the same with numpy and without it, and marks where the truth is known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.view import view_for
from deepsea_sdk.coach.decisions import (
    Effort,
    PlayedDecision,
    game_steps,
    judge,
    judge_many,
    try_out,
)
from deepsea_sdk.coach.roll_outs import LEADS, ONE, LuckSource, Trials, lead_shares, one_by_one
from helpers import games
from helpers.games import Chooser, play_out
from helpers.positions import at
from helpers.tiers import daily


def trials_of(game: Game, every: int) -> list[Trials]:
    """Some trials of each option in some positions of a game."""
    found: list[Trials] = []
    for step in list(game_steps(game))[::every]:
        state = step.before.state
        seat = state.to_move if state.phase != "over" else None
        states = [state.clone() for _ in state.legal or [None]]
        for option, action in zip(states, state.legal, strict=False):
            option.unchecked_apply(action)
        stream = LuckSource(f"trials {len(found)}", game.players)
        numbers = range(len(found), len(found) + 3)
        found.append(Trials(view_for(state, seat), stream, numbers, states, step.dive))
    return found


@settings(max_examples=3)
@given(games.finished)
def test_batches_have_the_scores_of_trials_one_by_one(game: Game) -> None:
    batched = pytest.importorskip("deepsea_sdk.coach.batched_roll_outs")
    wanted = trials_of(game, 7)
    alone = [one_by_one(trials) for trials in wanted]
    assert batched.scores(wanted) == alone == try_out(wanted)


@pytest.mark.parametrize("players", LEADS)
@pytest.mark.parametrize("dive", [1, 2])
def test_a_lead_is_worth_what_the_same_lag_costs(players: int, dive: int) -> None:
    shares = lead_shares(players, dive)
    for later in range(players):
        for lead in range(100):
            assert shares[later][lead] + shares[-later][-lead] == pytest.approx(ONE, abs=1)
            assert shares[later][lead] <= shares[later][lead + 1]
    assert shares[0][0] == ONE // 2


def test_decisions_are_judged_together_as_by_themselves() -> None:
    game = play_out(Game(PRESETS["guide"], 4, seed_from_text("some")), Chooser("some", takes=True))
    decisions = [
        PlayedDecision(
            view_for(step.before.state, step.seat), step.action, LuckSource(f"{step.decision}", 4)
        )
        for step in game_steps(game)
        if step.action is not None and step.decision is not None and step.decision % 9 == 0
    ]
    effort = Effort(0.1, 200)
    assert len(decisions) > 3
    assert judge_many(decisions, effort) == [judge(one, effort) for one in decisions]


# By 24,000 roll-outs to the end of the game for each action; such positions are in
# bench/blunders.py.
TRUTHS = """
0.293 back    1 1 1 1 1 x 2 2 2 2 2 2 3 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4
              | *A6v:2/1=0,1=1,1=2 B4v/2=7 | d2 a25
0.289 drop:3  1 1 1 1 1 1 2 2 2 x 2 2 3 3 3 3 3 x x 3 4 4 4 4 4 4 4 4
              | *A10^:3/2=6,1=3,1=2 B7^:3,2/2=6 | d2 a14 search
0.123 take    1 1 1 1 x 1 x x x 2 2 2 3 x 3 3 3 3 3 4 4 4 4 4 4 4 4
              | *A2^:2,2,2/2=5,1=3,1=3 B4^:3,2/3=10,1=2 | d2 a7 search
0.112 back    1 1 1 1 x x 2 2 x 2 3 x 3 3 3 3 3 3 4 4 4 4 4 4 4
              | *A5v:2/1=3,1=0,1=2 B2v/2=6,1=1 C9v:2/4=12 D12v:2,3/2=7 | d2 a24
0.227 drop:3  x x x x x x 2 3 x x 4 4 4 4 4 4 4 4 {22}
              | Ah1/2=7,1=3,1=0,3=10,1=0,3 Bh2/3=9,3,1 *C2^:3,1,1/2=4,2=7
              D3^:2,3/2=4,1=2,3=10,1=1 | d3 a6 search
0.210 take    2 3 x x x x 3 x x 4 x 4 4 4 4 4 {2}
              | *A7^:3,4/1=2,1=3,1=1,1=2,2=7,2=5,1=1 B9v:3,4/2=4,1=0,2=4,1=0 C3^:3,2/3=11
              D4^:3/2=5,1=3,3=8 | d3 a19 search
0.070 back    1 1 1 1 1 1 x 1 2 2 2 x x 2 2 2 3 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4
              | A12v:2 B13v:2 *C7v:1 D8v | d1 a25
0.073 take    1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 3 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4
              | *A2v B5v | d1 a25 search
0.000 drop:2  1 x x x x x x 3 3 3 4 4 4 4 4 4 4 4
              | A2^:3,1/2=4,1=3,1=1,2=7,3=9 Bh1/2=4,2=5,2=6,2=7,3 *C7v:2/1=1,1=0
              D6v:3,3/2=5,1=2,1=3 | d3 a21 search
0.000 take    1 1 1 1 1 2 2 2 2 2 2 3 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4
              | *A6v/2=4,1=0,1=3 B0v/2=6,1=1 | d2 a25 search
"""
"""What an action truly costs in a position, known to 0.007 or better."""


LINES = TRUTHS.strip().replace("\n    ", " ").splitlines()


@pytest.mark.parametrize("line", daily(LINES, [*LINES[:3], LINES[4], *LINES[8:]]))
def test_an_action_has_a_mark_if_it_truly_cost_so_much(line: str) -> None:
    cost, action, *rest = line.split()
    state = at(position := " ".join(rest))
    view = view_for(state, state.to_move)
    found = judge(PlayedDecision(view, action, LuckSource(position, view.players)), Effort.to(0.03))
    assert bool(found.mark) == (float(cost) > 0.05)
    assert found.regret.mean == pytest.approx(float(cost), abs=0.04)
