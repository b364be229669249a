"""The environments ask the learner what the reference engine would ask it, and nothing else."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip(
    "gymnasium", reason="the extra is not installed: pip install 'deepsea-sdk[learn]'"
)

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

from deepsea_rules.errors import InvalidAction
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import GameState
from deepsea_rules.view import View, view_for
from deepsea_sdk import Bot, steady
from deepsea_sdk.batch import Batch, Policy, SteadyPolicy, Turn, put, state_of
from deepsea_sdk.batch.units import Array
from deepsea_sdk.features import LENGTH, Features, action_of, features, mask, numbered
from deepsea_sdk.features_many import DECLARE, SEARCH, TURN_ACTIONS
from deepsea_sdk.gymnasium_env import ID, ModelPolicy, SeatEnv, SeatVectorEnv
from helpers.games import Chooser, opening_state, rng, walk
from helpers.positions import custom
from helpers.tiers import daily

CASES = [("manual", 4), ("reference", 2), ("guide", 3), ("revised", 5), ("publisher", 6)]


def pick(source: np.random.Generator, legal: Array) -> Array:
    """A legal action of each row, at random."""
    chosen: Array = (source.random(legal.shape) * legal).argmax(axis=-1)
    return chosen


def scored(observations: Features, legal: Array) -> Array:
    """A model: numbers that depend on what is observed."""
    scores = np.abs(observations @ np.random.default_rng(1).normal(size=(LENGTH, TURN_ACTIONS)))
    chosen: Array = np.where(legal, scores, -1).argmax(axis=1)
    return chosen


class Counted(SteadyPolicy):
    """Counts the choices that it is asked for."""

    asked = 0

    def declare(self, batch: Batch, turn: Turn) -> Array:
        self.asked += len(turn.diver)
        return super().declare(batch, turn)

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        self.asked += len(turn.diver)
        return super().take(batch, turn, units)

    def drop(self, batch: Batch, turn: Turn) -> Array:
        self.asked += len(turn.diver)
        return super().drop(batch, turn)


@pytest.mark.parametrize(("name", "seats"), daily(CASES, [("publisher", 6)]))
def test_many_learners_are_asked_what_the_reference_engine_asks(name: str, seats: int) -> None:
    games, steps = 4, 50
    others = Counted(seats)
    env = SeatVectorEnv(games, seats, name, opponents=others)
    source, hidden = np.random.default_rng(1), rng("hidden")
    observation, info = env.reset(seed=1)
    ended = 0
    for _ in range(steps):
        assert env.observation_space.contains(observation)
        for game in range(games):
            seat = int(info["seat"][game])
            phases = {DECLARE: "declare", SEARCH: "search"}
            state = state_of(env.batch, game, phases[int(env._kind[game])])  # type: ignore[arg-type]
            state.refresh()
            assert state.to_move == seat
            assert len(state.legal) > 1
            view = view_for(state, seat)
            assert features(view).tobytes() == observation[game].tobytes()
            assert (mask(view)[:TURN_ACTIONS] == info["action_mask"][game]).all()
            env.batch.values[game] = view.sample(hidden).values[1:]
        # What a seat cannot know changes nothing.
        assert env._observe()[0].tobytes() == observation.tobytes()
        observation, _, over, cut, info = env.step(pick(source, info["action_mask"]))
        ended += over.sum()
        assert not cut.any()
    assert ended
    assert env.batch.decisions - others.asked == games * steps


@pytest.mark.parametrize(("name", "seats"), CASES)
def test_the_observation_of_one_learner_has_nothing_hidden(name: str, seats: int) -> None:
    env = SeatEnv(seats, name, opponents=["random", "steady", steady])
    source = np.random.default_rng(1)
    observation, info = env.reset(seed=1)
    for _ in range(2):
        while True:
            view = env.game.view(info["seat"])
            other = view_for(view.sample(rng("hidden")), info["seat"])
            assert features(other).tobytes() == observation.tobytes()
            assert mask(other)[:TURN_ACTIONS].tobytes() == info["action_mask"].tobytes()
            observation, _, over, _, info = env.step(int(pick(source, info["action_mask"])))
            if over:
                break
        assert not observation.any()
        assert not info["action_mask"].any()
        observation, info = env.reset()


@pytest.mark.filterwarnings("ignore:.*alternative render modes")
@pytest.mark.parametrize("seats", [2, 6])
def test_the_checker_of_gymnasium(seats: int) -> None:
    check_env(SeatEnv(seats))
    check_env(gymnasium.make(ID, players=seats).unwrapped)


def test_gymnasium_makes_the_environments_by_their_name() -> None:
    one: Any = gymnasium.make(f"{SeatEnv.__module__}:DeepSeaAdventure-v0", players=3, rules="guide")
    many: Any = gymnasium.make_vec(ID, num_envs=5, players=3, opponents="random")
    assert isinstance(one.unwrapped, SeatEnv)
    assert isinstance(many.unwrapped, SeatVectorEnv)
    for env, shape in ((one, (12,)), (many, (5, 12))):
        _, info = env.reset(seed=1)
        legal = env.unwrapped.action_masks()
        assert (legal.shape, legal.dtype) == (shape, bool)
        assert (legal == info["action_mask"]).all()
        env.step(pick(np.random.default_rng(1), legal))
    with pytest.raises(ResetNeeded):
        gymnasium.make(ID).step(2)


def test_nothing_is_legal_before_the_first_game_and_after_the_last_move() -> None:
    env = SeatEnv(2)
    assert not env.action_masks().any()
    env.reset(seed=1)
    over = False
    while not over:
        action = int(pick(np.random.default_rng(1), env.action_masks()))
        _, _, over, *_ = env.step(action)
    assert not env.action_masks().any()
    assert not SeatVectorEnv(3).action_masks().any()


def test_games_that_are_over_begin_anew_and_say_how_they_ended() -> None:
    games, seats = 8, 3
    env = SeatVectorEnv(games, seats, opponents=["random", "steady"])
    lead = SeatVectorEnv(games, seats, opponents=["random", "steady"], reward="lead")
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    source = np.random.default_rng(1)
    _, info = env.reset(seed=1)
    lead.reset(seed=1)
    assert np.bincount(info["seat"]).tolist() in ([3, 3, 2], [3, 2, 3], [2, 3, 3])
    ended = 0
    for _ in range(60):
        before = info["seat"]
        actions = pick(source, info["action_mask"])
        _, earned, over, _, info = env.step(actions)
        _, ahead, *_ = lead.step(actions)
        assert not earned[~over].any()
        assert (info["seat"] == (before + over) % seats).all()
        assert over.any() == ("final_info" in info)
        for game in np.flatnonzero(over):
            ended += 1
            points = info["final_info"]["points"][game].tolist()
            own = points.pop(before[game])
            assert ahead[game] == own - max(points)
            if own > max(points):
                assert earned[game] == 1
            if own < min(points):
                assert earned[game] == -1
            assert info["_final_obs"][game]
            assert not info["final_obs"][game].any()
    assert ended >= games


def test_the_reward_of_one_game_is_that_of_its_placement() -> None:
    earned: dict[str, list[float]] = {}
    for reward in ("placement", "lead"):
        env = SeatEnv(3, seat=1, reward=reward, opponents="random")
        env.reset(seed=2)
        for _ in range(5):
            over, gained, info = False, 0.0, env.reset()[1]
            source = np.random.default_rng(1)
            while not over:
                _, gained, over, _, info = env.step(int(pick(source, info["action_mask"])))
            assert info["seat"] == 1
            own, others = info["points"][1], np.delete(info["points"], 1)
            if reward == "lead":
                assert gained == own - others.max()
            elif own not in others:
                assert gained == (own > others).sum() - 1
            earned.setdefault(reward, []).append(gained)
    assert len(set(earned["placement"])) > 1


def test_a_seed_repeats_everything() -> None:
    def course(env: SeatVectorEnv | SeatEnv, seed: int | None) -> list[bytes]:
        source = np.random.default_rng(1)
        observation, info = env.reset(seed=seed)
        seen = [observation.tobytes()]
        for _ in range(15):
            action: Any = pick(source, info["action_mask"])
            observation, reward, over, _, info = env.step(action)
            if isinstance(env, SeatEnv) and over:
                _, info = env.reset()
            seen.append(observation.tobytes() + np.asarray(reward).tobytes())
        return seen

    many = SeatVectorEnv(5, 3, opponents=["random", ModelPolicy(scored), "steady"])
    for env in (many, SeatEnv(3, opponents=["random", "steady"])):
        first = course(env, 1)
        assert course(env, None) != first
        assert course(env, 1) == first
        assert course(env, 2) != first


def test_seat_a_begins_where_the_rules_say_so() -> None:
    env = SeatVectorEnv(20, 3, custom("manual", first_player="seat_a"), seat=0)
    env.reset(seed=1)
    assert (env.batch.by_seat(env.batch.place)[:, 1:] == 0).all()


VECTOR_WRAPPERS: dict[str, Callable[[SeatVectorEnv], Any]] = {
    "clipped rewards": lambda env: wrappers.ClipReward(env, -0.5, 0.5),
    "information as a list": wrappers.DictInfoToList,
    "normal rewards": wrappers.NormalizeReward,
    "other actions": lambda env: wrappers.TransformAction(env, lambda actions: actions),
    "other rewards": lambda env: wrappers.TransformReward(env, lambda rewards: 2 * rewards),
    "statistics": wrappers.RecordEpisodeStatistics,
}


@pytest.mark.parametrize("name", VECTOR_WRAPPERS)
def test_wrappers_of_gymnasium_that_know_a_reset_in_the_same_step(name: str) -> None:
    plain, wrapped = SeatVectorEnv(4, 2), VECTOR_WRAPPERS[name](SeatVectorEnv(4, 2))
    plain.reset(seed=1)
    wrapped.reset(seed=1)
    source, ended = np.random.default_rng(1), 0
    for _ in range(40):
        actions = pick(source, plain.action_masks())
        observation, _, over, *_ = plain.step(actions)
        other, _, other_over, *_ = wrapped.step(actions)
        assert observation.tobytes() == other.tobytes()
        assert over.tolist() == other_over.tolist()
        ended += over.sum()
    assert ended


def test_episodes_are_counted_by_a_wrapper_of_gymnasium() -> None:
    env = wrappers.RecordEpisodeStatistics(SeatVectorEnv(4, 2))
    _, info = env.reset(seed=1)
    source = np.random.default_rng(1)
    lengths: list[int] = []
    for _ in range(60):
        _, _, over, _, info = env.step(pick(source, info["action_mask"]))
        if over.any():
            lengths += info["episode"]["l"][over].tolist()
    assert lengths
    assert min(lengths) > 5


def test_a_number_is_the_same_action_in_a_batch_and_for_a_bot() -> None:
    seen: set[int] = set()
    number = 0
    policy = ModelPolicy(lambda rows, legal: np.full(len(rows), number))
    for name, seats in CASES[::2]:
        for state in walk(opening_state(PRESETS[name], seats, name), Chooser(name, takes=True)):
            if state.phase not in ("declare", "search") or len(state.legal) < 2:
                continue
            view = view_for(state, state.to_move)
            for number in numbered(view):
                seen.add(number)
                batch = Batch(state.rules, seats, 1)
                put(batch, np.arange(1), state)
                turn, after = batch.turn(np.arange(1)), state.clone()
                after.apply(action_of(number, view))
                if state.phase == "declare":
                    batch.declare(turn, policy)
                elif len(batch.search(turn, policy)) or after.phase == "order":
                    continue
                compare(batch, after)
    assert seen >= set(range(7))


def compare(batch: Batch, state: GameState) -> None:
    found = state_of(batch, 0, state.phase)  # type: ignore[arg-type]
    assert (found.air, found.homeward, found.to_move) == (state.air, state.homeward, state.to_move)
    names = [[unit.name for unit in units] for units in state.cargo]
    assert [[unit.name for unit in units] for units in found.cargo] == names


def test_what_plays_in_a_batch_plays_as_a_bot() -> None:
    class Learned(Bot):
        def decide(self, view: View) -> str:
            if view.kind == "order":
                return view.legal[0]
            legal = mask(view)[:TURN_ACTIONS]
            return action_of(scored(features(view)[None], legal[None])[0], view)

    env = SeatEnv(3, opponents=Learned().decide)
    many = SeatVectorEnv(3, 3, opponents=ModelPolicy(scored))
    for found in (env, many):
        source, (_, info) = np.random.default_rng(1), found.reset(seed=1)
        for _ in range(8):
            action: Any = pick(source, info["action_mask"])
            *_, info = found.step(action)


# Bad input


def stepped(actions: Any, **options: Any) -> None:
    env = SeatVectorEnv(4, **options)
    env.reset(seed=1)
    env.step(actions)


class Failing(Policy):
    """Fails at the first choice."""

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        raise ArithmeticError


BAD: dict[str, Callable[[], object]] = {
    "no preset is called 'manul'; did you mean 'manual'?": lambda: SeatVectorEnv(4, 4, "manul"),
    "a game has 2 to 6 players, not 7": lambda: SeatVectorEnv(4, 7),
    "a game has 2 to 6 players, not 1": lambda: SeatEnv(1),
    "a vector environment has 1 or more games, not 0": lambda: SeatVectorEnv(0),
    "there is no seat 4: 4 seats are 0 to 3": lambda: SeatVectorEnv(4, seat=4),
    "there is no seat -1: 2 seats are 0 to 1": lambda: SeatEnv(2, seat=-1),
    "there are no opponents": lambda: SeatEnv(opponents=[]),
    "an opponent is 'random', 'steady' or a policy, not 'stedy'": lambda: SeatVectorEnv(
        4, opponents=["random", "stedy"]
    ),
    "a reward is 'placement' or 'lead', not 'points'": lambda: SeatEnv(
        reward="points"  # type: ignore[arg-type]
    ),
    "actions are an array of int64 (3,), not of int (4,)": lambda: stepped(np.full(3, 2)),
    "actions are an array of float64 (4,), not of int (4,)": lambda: stepped(np.full(4, 2.0)),
    "game 1: action 12 is not legal here; legal are 2, 3": lambda: stepped(np.array([2, 12, 2, 2])),
    "game 2: action -1 is not legal here; legal are 2, 3": lambda: stepped(np.array([3, 3, -1, 2])),
    "game 3: action 0 is not legal here; legal are 2, 3": lambda: stepped(np.array([3, 3, 2, 0])),
    "game 0: action 1 is not legal here; legal are 2, 3": lambda: stepped(
        np.full(4, 2), seat=0, opponents=ModelPolicy(lambda rows, legal: np.ones(len(rows), int))
    ),
    "the model's answer is an array of float32": lambda: stepped(
        np.full(4, 2), opponents=ModelPolicy(lambda rows, legal: rows[:, 0])
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused_in_one_sentence(message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        BAD[message]()
    assert "\n" not in str(caught.value)


def test_an_illegal_action_in_a_batch_changes_nothing() -> None:
    first, second = SeatVectorEnv(4), SeatVectorEnv(4)
    for env in (first, second):
        env.reset(seed=1)
    with pytest.raises(ValueError, match="game 3"):
        first.step(np.array([2, 2, 2, 5]))
    left, right = (env.step(np.full(4, 3)) for env in (first, second))
    assert left[0].tobytes() == right[0].tobytes()


def test_an_illegal_action_ends_a_single_game_or_is_refused() -> None:
    env = SeatEnv(illegal_reward=-3)
    env.reset(seed=1)
    _, reward, over, _, info = env.step(7)
    assert (reward, over) == (-3, True)
    assert info["illegal"].startswith("action 7 is not legal here; legal are 2 leave, 3 take: ")
    with pytest.raises(ResetNeeded):
        env.step(2)
    strict = SeatEnv(illegal_reward=None, render_mode="ansi")
    strict.reset(seed=1)
    before = strict.render()
    with pytest.raises(ValueError, match="action 7 is not legal"):
        strict.step(7)
    assert strict.render() == before
    strict.step(2)


@pytest.mark.parametrize("number", [2, np.int8(2), np.uint64(2), np.array(2)])
def test_a_whole_number_of_any_kind_is_an_action(number: Any) -> None:
    env = SeatEnv(2)
    env.reset(seed=1)
    _, _, over, _, info = env.step(number)
    assert not over
    assert "illegal" not in info


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (2.0, "a float"),
        (True, "a bool"),
        (np.True_, "a bool"),
        (np.float32(2), "a float32"),
        (np.array([2]), "a ndarray"),
        (np.array(2.0), "a ndarray"),
        ("2", "a str"),
        (None, "None"),
    ],
)
def test_what_is_no_whole_number_is_refused_and_changes_nothing(number: Any, kind: str) -> None:
    env = SeatEnv(2, render_mode="ansi")
    env.reset(seed=1)
    before = env.render()
    with pytest.raises(InvalidAction, match=f"^an action is one whole number, not {kind}$"):
        env.step(number)
    assert env.render() == before
    env.step(2)


@pytest.mark.parametrize("actions", [2.0, True, 2, None, [2.0] * 4, [True] * 4, ["2"] * 4, [2]])
def test_actions_of_many_games_are_a_whole_number_for_each(actions: Any) -> None:
    with pytest.raises(ValueError, match=r"^actions are an array of .*, not of int \(4,\)$"):
        stepped(actions)


@pytest.mark.release  # torch is large, and this takes most of a minute
def test_the_learner_with_masks_of_sb3_contrib() -> None:
    sb3_contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gymnasium.make(ID, players=2)
        learner = sb3_contrib.MaskablePPO("MlpPolicy", env, n_steps=500, seed=1, device="cpu")
        learner.learn(2000)
    assert learner.num_timesteps == 2000
    observation, info = env.reset(seed=1)
    over = False
    while not over:
        action, _ = learner.predict(observation, action_masks=info["action_mask"])
        observation, _, over, _, info = env.step(action)
        assert "illegal" not in info


def test_a_step_before_the_first_reset_or_after_a_failed_one_is_refused() -> None:
    env = SeatVectorEnv(4, 2, opponents=Failing(), seat=0)
    with pytest.raises(ResetNeeded):
        env.step(np.full(4, 2))
    # In the last of these games the learner begins, so that the first step fails.
    for seed in range(99):
        try:
            env.reset(seed=seed)
        except ArithmeticError:
            continue
        break
    with pytest.raises(ArithmeticError):
        env.step(np.full(4, 2))
    with pytest.raises(ResetNeeded):
        env.step(np.full(4, 2))
