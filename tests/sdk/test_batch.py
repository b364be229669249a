"""Many games at once are the games of the reference engine: position by position, to the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

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
from deepsea_rules.view import view_for
from deepsea_sdk import TurnDice, steady
from deepsea_sdk.batch import (
    Batch,
    Orders,
    Policy,
    RandomDice,
    RandomPolicy,
    SteadyPolicy,
    Turn,
    given_luck,
    open_random,
    play_on_many,
    put,
    state_of,
)
from deepsea_sdk.batch.clean_up import BELOW
from deepsea_sdk.batch.units import Array
from deepsea_sdk.coach.decisions import halves
from deepsea_sdk.features import features, mask
from deepsea_sdk.features_many import (
    DECLARE,
    NOTHING,
    SEARCH,
    TURN_ACTIONS,
    features_many,
    masks_many,
)
from deepsea_sdk.policies import play_on
from helpers.games import Chooser, choosers, opening_state, players, rng, rule_sets, walk
from helpers.positions import faces

GAMES = 8
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
    source = np.random.default_rng(seed)
    batch = Batch(rules, seats, GAMES)
    open_random(batch, np.arange(GAMES), source)
    dice, noted = RandomDice(source), Noted(policy)
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
            open_random(batch, over, source)
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


@settings(max_examples=25, deadline=None)
@given(rules=rule_sets, seats=players, seed=st.integers(0, 10**9), is_random=st.booleans())
def test_positions_and_results_are_those_of_the_reference_engine(
    rules: RuleSet, seats: int, seed: int, is_random: bool
) -> None:
    policy = RandomPolicy(np.random.default_rng(seed)) if is_random else SteadyPolicy(seats)
    ended = both(rules, seats, policy, seed)
    done = 0
    while done < GAMES:
        done += len(next(ended))


def position(rules: RuleSet, seats: int, chooser: Chooser, steps: int) -> GameState:
    """A position in the course of a game, of a short one its last but one."""
    found = opening_state(rules, seats, f"{steps}{seats}")
    for state in islice(walk(found.clone(), chooser), steps):
        if state.phase != "over":
            found = state.clone()
    return found


@settings(max_examples=40, deadline=None)
@given(rules=rule_sets, seats=players, chooser=choosers, steps=st.integers(1, 250), data=st.data())
def test_a_trial_of_many_ends_as_play_on_ends_it(
    rules: RuleSet, seats: int, chooser: Chooser, steps: int, data: st.DataObject
) -> None:
    state = position(rules, seats, chooser, steps)
    states = [state]
    for action in state.legal:
        states.append(state.clone())
        states[-1].apply(action)
    to_end_of: Literal["game", "dive"] = data.draw(st.sampled_from(["game", "dive"]))
    source = rng(chooser.pick("abcdefgh"))
    deals = [view_for(state, None).sample(source).values for _ in range(4)]
    dice = [TurnDice(source, seats).rolls[: 200 + trial] for trial in range(4)]
    trials = [np.array([3, 0]), *(np.arange(1 + i % 4) for i in range(len(states) - 1))]
    found = play_on_many(
        states, given_luck(deals, dice), SteadyPolicy(seats), trials, to_end_of=to_end_of
    )
    wanted = []
    for begun, numbers in zip(states, trials, strict=True):
        for trial in numbers:
            played = begun.clone()
            played.values = deals[trial]
            play_on(played, dice[trial], steady, begun.dive if to_end_of == "dive" else 3)
            wanted.append((played.points(), halves(played)))
    assert [(tuple(p), h) for p, h in zip(*map(np.ndarray.tolist, found), strict=True)] == wanted


@settings(max_examples=40, deadline=None)
@given(rules=rule_sets, seats=players, chooser=choosers, steps=st.integers(1, 250))
def test_features_masks_and_positions_of_a_game_are_those_of_its_views(
    rules: RuleSet, seats: int, chooser: Chooser, steps: int
) -> None:
    state = position(rules, seats, chooser, steps)
    if state.phase not in ("declare", "roll", "search"):
        return
    batch = Batch(rules, seats, seats)
    all_seats = np.arange(seats)
    put(batch, all_seats, state)
    kind = np.full(seats, {"declare": DECLARE, "roll": NOTHING, "search": SEARCH}[state.phase])
    views = [view_for(state, seat) for seat in range(seats)]
    rows = features_many(batch, all_seats, all_seats, kind)
    for view, row in zip(views, rows, strict=True):
        assert features(view).tobytes() == row.tobytes(), str(view)
    legal = masks_many(batch, all_seats, kind)
    assert (legal == mask(views[state.to_move])[:TURN_ACTIONS]).all(), str(state)
    # What a seat cannot know changes nothing.
    other = views[0].sample(rng(str(steps)))
    batch.values[:] = other.values[1:]
    assert rows[0].tobytes() == features_many(batch, all_seats, all_seats, kind)[0].tobytes()
    back = state_of(batch, 0, state.phase)
    other.bank = [tuple(sorted(bank)) for bank in other.bank]
    back.bank = [tuple(sorted(bank)) for bank in back.bank]
    assert str(back) == str(other)
    assert back.legal == other.legal
