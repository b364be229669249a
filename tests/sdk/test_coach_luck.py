"""Luck: the identity holds exactly, and steps are those of the game."""

from __future__ import annotations

from itertools import pairwise
from math import exp

import pytest
from hypothesis import given, settings

from deepsea_rules.game import Game
from deepsea_sdk.coach.decisions import (
    Estimate,
    Outlook,
    Step,
    game_steps,
    known_to_any,
    luck_of_many,
    rolls,
)
from deepsea_sdk.coach.roll_outs import LEADS, LuckSource
from helpers import games
from helpers.commands import faulty, played
from helpers.positions import at


@settings(max_examples=20)
@given(games.finished)
def test_the_course_is_that_of_the_game(game: Game) -> None:
    steps = list(game_steps(game))
    for step, following in pairwise(steps):
        assert step.after is following.before
    assert steps[-1].after.state == game.state
    assert steps[-1].after.known == known_to_any(game.state)
    made = [(step.seat, step.action) for step in steps if step.kind == "decision"]
    assert made == [(decision.seat, decision.action) for decision in game.decisions]


def test_a_seat_that_forfeited_decides_nothing_any_more() -> None:
    game = faulty()
    steps = list(game_steps(game))
    assert steps[-1].after.state == game.state
    late = [step for step in steps if step.decision is not None and step.seat == 1]
    assert len(late) == 3
    assert [step.kind for step in steps].count("decision") == len(game.decisions)


def luck_of(step: Step, stream: LuckSource, trials: int) -> list[Estimate]:
    return luck_of_many([(step, stream)], trials)[0]


def _first(kind: str, dive: int) -> Step:
    steps = game_steps(played("manual", 3))
    return next(step for step in steps if step.kind == kind and step.dive == dive)


@pytest.mark.parametrize("dive", [1, 3])
@pytest.mark.parametrize("kind", ["roll", "reveal"])
def test_luck_by_roll_outs_sums_to_nothing_over_the_seats(kind: str, dive: int) -> None:
    luck = luck_of(_first(kind, dive), LuckSource(kind, 3), 20)
    assert sum(one.mean for one in luck) == pytest.approx(0)
    assert any(one.mean for one in luck)


def test_the_mean_luck_by_roll_outs_is_zero_over_the_sums() -> None:
    step = _first("roll", 2)
    total = [0.0] * 3
    for dots, ways, after in rolls(step.before):
        first = min(3, dots - 1)
        rolled = step._replace(after=after, dice=(first, dots - first))
        for seat, luck in enumerate(luck_of(rolled, LuckSource("mean", 3), 10)):
            total[seat] += ways * luck.mean
    assert total == pytest.approx([0, 0, 0])


@pytest.mark.parametrize("dive", [1, 2])
def test_a_lead_at_the_end_of_a_dive_counts_by_how_often_such_a_lead_wins(dive: int) -> None:
    # A is home with 9 points by a sum of 5 or 6, in three of nine ways; else it drowns.
    state = at(f"x x x 3 | *A3^:2=5,2=4 Bh | d{dive} a0 roll")
    before = Outlook(state, {chip: state.values[chip] for unit in state.cargo[0] for chip in unit})
    after = {dots: outlook for dots, _, outlook in rolls(before)}
    step = Step("roll", dive, 0, before, after[6], dice=(3, 3))
    own, other = luck_of(step, LuckSource("lead", 2), 2)
    spread, turn = LEADS[2][dive - 1]
    # A begins the next dive, as the last one home or as the one who drowned.
    home, drowned = (1 / (1 + exp(-(lead + turn) / spread)) for lead in (9, 0))
    assert own == pytest.approx((2 / 3 * (home - drowned), 0), abs=1e-6)
    assert other.mean == -own.mean


def test_a_reveal_at_a_dives_end_belongs_to_that_dive() -> None:
    steps = list(game_steps(played("manual", 3)))
    reveals = [step for step in steps if step.kind == "reveal"]
    assert [step.dive for step in reveals] == [1, 2, 3]
    assert reveals[0].before.state.dive == 2


def test_a_roll_that_changes_nothing_is_no_luck() -> None:
    state = at("1 2 3 x 4 4 | *A4v:1,1,2,2,2,3 B2v | d1 a20")
    state.unchecked_declare("down")
    before = Outlook(state, {})
    ends = [after for *_, after in rolls(before)]
    step = Step("roll", 1, 0, before, ends[0], dice=(1, 1))
    assert luck_of(step, LuckSource("still", 2), 5) == [(0, 0), (0, 0)]
