"""Many games at once are the games of the reference engine: position by position, to the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("numpy", reason="the extra is not installed: pip install 'deepsea-sdk[learn]'")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_rules.actions import BACK, LEAVE, TAKE, drop, order
from deepsea_rules.cleanup import items_of
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.scoring import halves_ahead
from deepsea_rules.state import GameState
from deepsea_sdk import steady
from deepsea_sdk.batch import (
    Batch,
    Orders,
    Policy,
    RandomDice,
    RandomPolicy,
    SteadyPolicy,
    Turn,
    open_random,
    put,
    state_of,
)
from deepsea_sdk.batch.clean_up import BELOW
from deepsea_sdk.batch.units import Array
from helpers.games import players, rule_sets
from helpers.positions import faces

GAMES = 16
PER_GAME = [
    "dive",
    "air",
    "quiet",
    "to_move",
    "out",
    "breath",
    "last",
    "homes",
    "taken",
    "banked_earlier",
    "trail",
    "values",
]
PER_DIVER = ["place", "load", "homeward", "barred", "home_rank", "cargo", "carried", "bank"]


class Noted(Policy):
    """Decides by another policy, and notes the actions, by game."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.declared: dict[int, str] = {}
        self.searched: dict[int, str | int] = {}
        self.ordered: dict[tuple[int, int], list[int]] = {}
        self.orders = policy.orders

    def declare(self, batch: Batch, turn: Turn) -> Array:
        back = self.policy.declare(batch, turn)
        self.declared = {g: BACK if b else "down" for g, b in zip(games(turn), back, strict=True)}
        return back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        takes = self.policy.take(batch, turn, units)
        self.searched |= {g: TAKE if t else LEAVE for g, t in zip(games(turn), takes, strict=True)}
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        slots = self.policy.drop(batch, turn)
        self.searched |= dict(zip(games(turn), slots.tolist(), strict=True))
        return slots

    def order(self, batch: Batch, orders: Orders) -> Array:
        chosen = self.policy.order(batch, orders)
        for game, diver, size, row in zip(
            orders.games, orders.diver, orders.sizes, chosen.tolist(), strict=True
        ):
            self.ordered[int(game), int(diver) % batch.players] = row[:size]
        return chosen


def games(turn: Turn) -> list[int]:
    assert turn.games is not None
    return [int(game) for game in turn.games]


def both(rules: RuleSet, seats: int, policy: Policy, seed: int) -> Iterator[list[GameState]]:
    """Play some games in both engines, and compare them turn by turn; yields those that end."""
    rng = np.random.default_rng(seed)
    batch = Batch(rules, seats, GAMES)
    open_random(batch, np.arange(GAMES), rng)
    dice, noted = RandomDice(rng), Noted(policy)
    states = [state_of(batch, game) for game in range(GAMES)]
    while True:
        noted.declared, noted.searched = {}, {}
        turn = batch.turn()
        batch.declare(turn, noted)
        sums = dice(batch, turn)
        batch.move(turn, sums)
        ended = batch.search(turn, noted)
        over = batch.clean_up(ended, noted)
        for game, state in enumerate(states):
            dive = state.dive
            play(state, noted, int(sums[game]), game)
            assert (state.phase == "over") == (game in over), state
            assert (state.dive > dive or state.phase == "over") == (game in ended), state
        assert not noted.declared
        assert not noted.searched
        assert not noted.ordered
        compare(batch, states)
        if len(over):
            results = batch.results(over)
            for game, points, halves in zip(over, *results, strict=True):
                result = states[game].result()
                assert result.points == tuple(points)
                assert halves_ahead(result.placements) == halves.tolist()
            yield [states[game] for game in over]
            open_random(batch, over, rng)
            for game in over:
                states[game] = state_of(batch, int(game))


def play(state: GameState, noted: Noted, total: int, game: int) -> None:
    """The same turn of one game; where there is more than one action the policy was asked."""
    is_steady = isinstance(noted.policy, SteadyPolicy)
    declared = noted.declared.pop(game, None)
    assert (len(state.legal) > 1) == (declared is not None), state
    if declared is not None:
        assert not is_steady or steady(state) == declared, state
        state.apply(declared)
    seat = state.to_move
    state.roll(*faces(total))
    if state.phase == "search" and state.to_move == seat:
        assert (len(state.legal) > 1) == (game in noted.searched), state
        found = noted.searched.pop(game, LEAVE)
        if isinstance(found, int):
            found = LEAVE if found < 0 else drop(state.cargo[seat][found])
        assert not is_steady or steady(state) == found, state
        state.apply(found)
    while state.phase == "order":
        items = items_of(state.rules, state.cargo[state.to_move])
        places = range(len(items)) if is_steady else noted.ordered.pop((game, state.to_move))
        state.apply(order(items[place] for place in places))


def compare(batch: Batch, states: list[GameState]) -> None:
    """All that the batch holds of these games is what it would hold of these positions."""
    going = [game for game, state in enumerate(states) if state.phase != "over"]
    wanted = Batch(batch.rules, batch.players, len(going))
    for row, game in enumerate(going):
        put(wanted, np.array([row]), states[game])
    found = batch.part(np.array(going))
    for name in PER_GAME:
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    found.cargo[~BELOW[found.load]] = 0
    for name in PER_DIVER:
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


@settings(max_examples=30, deadline=None)
@given(rules=rule_sets, seats=players, seed=st.integers(0, 10**9), is_random=st.booleans())
def test_positions_and_results_are_those_of_the_reference_engine(
    rules: RuleSet, seats: int, seed: int, is_random: bool
) -> None:
    policy = RandomPolicy(np.random.default_rng(seed)) if is_random else SteadyPolicy(seats)
    ended = both(rules, seats, policy, seed)
    done = 0
    while done < GAMES:
        done += len(next(ended))
