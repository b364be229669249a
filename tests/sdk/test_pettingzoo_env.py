"""The training environment passes PettingZoo's own tests, and plays the game that all play."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pettingzoo", reason="the extra is not installed: pip install 'deepsea-sdk[pettingzoo]'"
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import numpy as np
    from pettingzoo.test import api_test, render_test, seed_test

from deepsea_rules.errors import IllegalAction, InvalidAction, RulesError
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk import features as row
from deepsea_sdk.features import ACTIONS, LENGTH, action_of, mask, number_of, numbered
from deepsea_sdk.pettingzoo_env import DeepSeaEnv, env
from helpers.games import Chooser, play_out, rng

PAGE = Path(__file__).parents[2] / "docs" / "pettingzoo.md"


def played(found: DeepSeaEnv, seed: int) -> DeepSeaEnv:
    """The environment after an episode of random legal actions."""
    found.reset(seed=seed)
    chance = rng(f"{seed}")
    for agent in found.agent_iter():
        observation, _, ended, _, _ = found.last()
        assert observation is not None
        assert found.observation_space(agent).contains(observation)
        legal = np.flatnonzero(observation["action_mask"])
        found.step(None if ended else int(chance.choice(list(legal))))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("players", [2, 4, 6])
@pytest.mark.parametrize("make", [env, DeepSeaEnv])
def test_the_test_of_pettingzoo(make: type[DeepSeaEnv], players: int) -> None:
    api_test(make(players), num_cycles=300)


@pytest.mark.filterwarnings("ignore")
def test_the_seed_test_of_pettingzoo() -> None:
    seed_test(lambda: env(3), num_cycles=200)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [env, DeepSeaEnv])
def test_the_render_test_of_pettingzoo(make: type[DeepSeaEnv]) -> None:
    render_test(lambda render_mode=None: make(3, render_mode=render_mode))


@pytest.mark.parametrize("rules", PRESETS)
def test_an_episode_is_a_game_like_any_other(rules: str) -> None:
    found = played(DeepSeaEnv(5, rules), 1)
    game = found.game
    seats = [("agent", "00")] * 5
    verify(GameRecord.of(game, game_id="g", clock="1s", seats=seats))
    assert found.agents == []


def test_rewards_are_placements_and_add_up_to_nothing() -> None:
    found = DeepSeaEnv(4)
    found.reset(seed=3)
    rewards = {}
    for agent in found.agent_iter():
        observation, reward, ended, _, info = found.last()
        assert observation is not None
        if ended:
            rewards[agent] = (reward, info["points"])
            found.step(None)
        else:
            assert reward == 0
            found.step(int(np.flatnonzero(observation["action_mask"])[-1]))
    result = found.game.result()
    assert [rewards[agent][1] for agent in found.possible_agents] == list(result.points)
    assert sum(reward for reward, _ in rewards.values()) == pytest.approx(0)
    best = result.placements.index(1)
    assert max(reward for reward, _ in rewards.values()) == rewards[f"seat_{'ABCD'[best]}"][0]


def test_every_legal_action_has_a_number_of_its_own() -> None:
    def look(game: Game) -> None:
        if (question := game.pending()) is not None:
            found = numbered(game.view(question.seat))
            assert sorted(found.values()) == sorted(question.legal)
            assert max(found) < ACTIONS
            for number, action in found.items():
                assert action_of(number, game.view(question.seat)) == action
                assert number_of(action, game.view(question.seat)) == number
            assert list(np.flatnonzero(mask(game.view(question.seat)))) == sorted(found)
            assert not mask(game.view((question.seat + 1) % game.players)).any()

    for name in PRESETS:
        for players in (2, 6):
            game = Game(PRESETS[name], players, seed_from_text("numbers"))
            play_out(game, Chooser(name, takes=True), look)


def test_an_illegal_action_is_refused_and_changes_nothing() -> None:
    found = DeepSeaEnv(2)
    found.reset(seed=1)
    before = found.render_mode, list(found.game.decisions), found.agent_selection
    with pytest.raises(RulesError):
        found.step(ACTIONS - 1)
    assert (found.render_mode, list(found.game.decisions), found.agent_selection) == before


@pytest.mark.parametrize("make", [env, DeepSeaEnv])
@pytest.mark.parametrize("number", [2.0, 2.7, True, np.True_, np.float32(2), "2", [2], None])
def test_what_is_no_whole_number_is_refused(make: type[DeepSeaEnv], number: Any) -> None:
    found = make(2)
    found.reset(seed=1)
    with pytest.raises(InvalidAction, match=r"^an action is one whole number, not "):
        found.step(number)
    assert found.unwrapped.game.decisions == []
    found.step(np.int64(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, ACTIONS])
def test_a_number_of_no_action_in_any_position_is_refused_by_the_checked_one(number: int) -> None:
    found = env(2)
    found.reset(seed=1)
    with pytest.raises(InvalidAction, match=f"^there is no action {number}: 0 to {ACTIONS - 1}$"):
        found.step(number)
    assert found.unwrapped.game.decisions == []


def test_an_action_without_a_number_and_a_number_without_an_action_are_refused() -> None:
    game = Game(PRESETS["manual"], 2, seed_from_text("numbers"))
    question = game.pending()
    assert question is not None
    view = game.view(question.seat)
    legal = "; legal are 2 leave, 3 take: "
    for number in (0, -1, ACTIONS):
        with pytest.raises(IllegalAction, match=f"^action {number} is not legal here{legal}"):
            action_of(number, view)
    with pytest.raises(IllegalAction, match=f"^'down' has no number here{legal}"):
        number_of("down", view)
    with pytest.raises(IllegalAction, match="this seat is not asked"):
        action_of(2, game.view(1 - question.seat))


def test_episodes_that_follow_a_seed_are_the_same_and_differ() -> None:
    runs: list[list[bytes]] = []
    for found in (DeepSeaEnv(2, render_mode="ansi"), DeepSeaEnv(2, render_mode="ansi", seed=7)):
        found.reset(seed=7 if not runs else None)
        seeds = [found.game.seed]
        found.reset()
        runs.append([*seeds, found.game.seed])
        assert "d1 a25" in str(found.render())
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_the_page_has_the_right_numbers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"`Discrete({ACTIONS})`" in page
    assert f"`({LENGTH},)`" in page
    for name in re.findall(r"`(\w+)` = \d+", page):
        assert f"`{name}` = {getattr(row, name)}" in page
