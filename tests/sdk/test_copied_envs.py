"""A copy of an environment goes on as the original would, and neither moves the other."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import pytest

pytest.importorskip("gymnasium", reason="the extra is not installed: deepsea-sdk[learn]")
pytest.importorskip("pettingzoo", reason="the extra is not installed: deepsea-sdk[pettingzoo]")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cloudpickle  # type: ignore[import-untyped]
    import gymnasium
    import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk import steady
from deepsea_sdk.batch import Batch, RandomDice, RandomPolicy, open_random, state_of
from deepsea_sdk.batch.units import Array
from deepsea_sdk.evaluation.arrays import EvaluationPolicy, Net
from deepsea_sdk.evaluation.plain import sdk_weights
from deepsea_sdk.features import LENGTH, Features
from deepsea_sdk.features_many import TURN_ACTIONS
from deepsea_sdk.gymnasium_env import ID, ModelPolicy, SeatEnv, SeatVectorEnv
from deepsea_sdk.pettingzoo_env import DeepSeaEnv, env
from helpers.games import Chooser, play_out


def scored(observations: Features, legal: Array) -> Array:
    """A model: numbers that depend on what is observed."""
    chosen: Array = np.where(legal, np.abs(observations @ WEIGHTS), -1).argmax(axis=1)
    return chosen


WEIGHTS = np.random.default_rng(1).normal(size=(LENGTH, TURN_ACTIONS))
NET = Net.of(sdk_weights(3))
HOW: dict[str, Callable[[Any], Any]] = {
    "copy": copy,
    "deepcopy": deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: cloudpickle.loads(cloudpickle.dumps(value)),
}
MAKE: dict[str, Callable[[str], Any]] = {
    "one game": lambda rules: SeatEnv(3, rules, opponents=["random", "steady", steady]),
    "many games": lambda rules: SeatVectorEnv(
        5, 3, rules, opponents=["random", "steady", ModelPolicy(scored), EvaluationPolicy(NET)]
    ),
    "agents": lambda rules: env(3, rules),
    "agents, unchecked": lambda rules: DeepSeaEnv(3, rules),
}


def play_on(environment: Any, steps: int, chance: np.random.Generator) -> list[bytes]:
    """Everything that an environment says in some steps with legal actions at random."""
    told: list[bytes] = []
    for _ in range(steps):
        if isinstance(environment.unwrapped, DeepSeaEnv):
            if not environment.agents:
                environment.reset()
            observation, reward, over, cut, info = environment.last()
            legal = observation["action_mask"]
            told.append(pickle.dumps((observation["observation"].tolist(), reward, over, info)))
            environment.step(None if over or cut else int(chance.choice(np.flatnonzero(legal))))
            continue
        legal = environment.unwrapped.action_masks()
        actions = (chance.random(legal.shape) * legal).argmax(axis=-1)
        observation, reward, over, _, info = environment.step(actions)
        told.append(pickle.dumps((observation.tolist(), np.asarray(reward).tolist(), repr(info))))
        if isinstance(environment.unwrapped, SeatEnv) and over:
            environment.reset()
    return told


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("make", MAKE)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 999), steps=st.integers(0, 80), rules=st.sampled_from(sorted(PRESETS)))
def test_a_copy_goes_on_as_the_original(
    make: str, how: str, seed: int, steps: int, rules: str
) -> None:
    original = MAKE[make](rules)
    original.reset(seed=seed)
    play_on(original, steps, np.random.default_rng(seed))
    other = HOW[how](original)
    courses = [
        play_on(environment, 25, np.random.default_rng(seed + 1))
        for environment in (other, original)
    ]
    assert courses[0] == courses[1]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("make", MAKE)
def test_a_copy_is_made_before_the_first_game_and_plays_it(make: str, how: str) -> None:
    original = MAKE[make]("manual")
    other = HOW[how](original)
    courses = []
    for environment in (other, original):
        environment.reset(seed=1)
        courses.append(play_on(environment, 10, np.random.default_rng(1)))
    assert courses[0] == courses[1]


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "cloudpickle"])
def test_an_environment_in_the_wrappers_of_gymnasium_is_copied_with_them(how: str) -> None:
    original = gymnasium.make(ID, players=2)
    original.reset(seed=1)
    other = HOW[how](original)
    courses = [
        play_on(environment, 60, np.random.default_rng(1)) for environment in (other, original)
    ]
    assert courses[0] == courses[1]


@pytest.mark.parametrize("how", HOW)
def test_a_copy_of_a_batch_has_games_of_its_own(how: str) -> None:
    games, rng = np.arange(6), np.random.default_rng(1)
    batch = Batch(PRESETS["guide"], 4, 6)
    open_random(batch, games, rng)
    policy, dice = RandomPolicy(rng), RandomDice(rng)
    for _ in range(30):
        batch.play_turn(policy, dice)
    other = HOW[how](batch)
    before = [state_of(batch, game) for game in range(6)]
    ends = []
    for played in (other, batch):
        rng = np.random.default_rng(2)
        policy, dice = RandomPolicy(rng), RandomDice(rng)
        for _ in range(60):
            open_random(played, played.play_turn(policy, dice), rng)
        ends.append([str(state_of(played, game)) for game in range(6)])
        if played is other:
            assert [state_of(batch, game) for game in range(6)] == before
    assert ends[0] == ends[1]


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "cloudpickle"])
def test_a_game_is_copied_between_two_decisions(how: str) -> None:
    game = Game(PRESETS["manual"], 3, seed_from_text("copy"))
    for _ in range(20):
        question = game.pending()
        assert question is not None
        game.decide(question.legal[-1])
    other = HOW[how](game)
    for played in (other, game):
        play_out(played, Chooser("copy", takes=True))
    assert (other.decisions, other.events) == (game.decisions, game.events)
    assert other.result() == game.result()
