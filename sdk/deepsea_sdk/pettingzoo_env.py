"""The game as a PettingZoo environment, for training: pip install 'deepsea-sdk[pettingzoo]'.

Invariants: no other module imports pettingzoo. An observation is made from the seat's view and
nothing else. Rules, deal and dice are those of every other game, so an episode is a seed and its
actions. docs/pettingzoo.md describes the spaces.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from deepsea_rules.errors import InvalidAction
from deepsea_rules.game import Game
from deepsea_rules.notation import format_position
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.ruleset import (
    DEFAULT,
    MAX_PLAYERS,
    MIN_PLAYERS,
    SEAT_LETTERS,
    USUAL_PLAYERS,
    RuleSet,
    preset,
)
from deepsea_rules.scoring import placement_scores

from .features import (
    ACTIONS,
    LARGEST,
    LENGTH,
    Features,
    Mask,
    action_number,
    action_of,
    features,
    mask,
)

__all__ = ["DeepSeaEnv", "env"]

Observation = dict[str, Features | Mask]


def env(
    players: int = USUAL_PLAYERS,
    rules: RuleSet | str = DEFAULT,
    render_mode: str | None = None,
    *,
    seed: int = 0,
) -> wrappers.OrderEnforcingWrapper:
    """Return the environment with PettingZoo's usual checks.

    An illegal action ends the episode and costs 1.
    """
    raw = DeepSeaEnv(players, rules, render_mode, seed=seed)
    return _CheckedEnv(wrappers.TerminateIllegalWrapper(raw, illegal_reward=-1))


class _CheckedEnv(wrappers.OrderEnforcingWrapper):
    """Wrapper that refuses numbers of no action before PettingZoo looks for them in the mask."""

    def step(self, action: int | None) -> None:
        if self._has_reset and self.agents and not self._has_ended():
            number = action_number(action)
            if not 0 <= number < ACTIONS:
                raise InvalidAction(f"there is no action {number}: 0 to {ACTIONS - 1}")
        super().step(action)

    def _has_ended(self) -> bool:
        """Return True if the episode is over for the agent to act."""
        agent = self.agent_selection
        return bool(self.terminations[agent] or self.truncations[agent])

    def __copy__(self) -> _CheckedEnv:
        return deepcopy(self)


class DeepSeaEnv(AECEnv[str, Observation, int]):
    """Environment whose agents are seats, `seat_A` first; an illegal action raises IllegalAction.

    seed  determines the games until `reset` gets another seed
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "deepsea_v0",
        "render_modes": ["ansi"],
        "is_parallelizable": False,
    }

    def __init__(
        self,
        players: int = USUAL_PLAYERS,
        rules: RuleSet | str = DEFAULT,
        render_mode: str | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not MIN_PLAYERS <= players <= MAX_PLAYERS:
            raise ValueError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} players, not {players}")
        self._rules = preset(rules) if isinstance(rules, str) else rules
        self.render_mode = render_mode
        self.possible_agents = [f"seat_{letter}" for letter in SEAT_LETTERS[:players]]
        self.agents: list[str] = []
        box = spaces.Box(-LARGEST, LARGEST, (LENGTH,), np.float32)
        legal = spaces.Box(0, 1, (ACTIONS,), np.int8)
        self.observation_spaces = {
            agent: spaces.Dict({"observation": box, "action_mask": legal})
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(ACTIONS) for agent in self.possible_agents}
        self._begin(seed)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin the next game of the current seed, or the first game of another seed.

        seed     determines this game and the games after it; None to continue with the current seed
        options  ignored: the environment has none
        """
        if seed is not None:
            self._begin(seed)
        self._episode += 1
        players = len(self.possible_agents)
        self.game = Game(self._rules, players, game_seed(self._seed, self._episode))
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._select()

    def _begin(self, seed: int) -> None:
        """Set the seed of this game and those after it."""
        self._seed = seed_from_text(f"pettingzoo:{seed}")
        self._episode = -1

    def observe(self, agent: str) -> Observation:
        """Return the features of the agent's view, and its legal actions."""
        view = self.game.view(self.possible_agents.index(agent))
        return {"observation": features(view), "action_mask": mask(view)}

    def step(self, action: int | None) -> None:
        """Play an action of the agent to move, and select the next agent.

        An agent whose game is over has to be stepped with None, which removes it.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)  # PettingZoo's own: checks for None, removes the agent
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        view = self.game.view(self.possible_agents.index(agent))
        self.game.decide(action_of(action, view))
        self._select()
        self._accumulate_rewards()

    def __copy__(self) -> DeepSeaEnv:
        # Copies that share a game would move each other's.
        return deepcopy(self)

    def _select(self) -> None:
        """Select the agent of the next decision, or end the game with rewards from 1 to -1."""
        question = self.game.pending()
        if question is not None:
            self.agent_selection = self.possible_agents[question.seat]
            return
        result = self.game.result()
        for agent, score, points in zip(
            self.agents, placement_scores(result.placements), result.points, strict=True
        ):
            self.rewards[agent] = 2 * score - 1  # a score is from 0 to 1
            self.terminations[agent] = True
            self.infos[agent] = {"points": points}

    def render(self) -> str | None:
        """Return the position in one line of notation, without hidden values."""
        return format_position(self.game.state) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
