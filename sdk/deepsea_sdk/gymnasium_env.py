"""One seat of a game as Gymnasium environments, for training: pip install 'deepsea-sdk[learn]'.

`SeatVectorEnv` plays thousands of games at once in a batch, `SeatEnv` one game of the reference
engine; docs/learn.md describes spaces, opponents and rewards, which are the same in both.

Invariants: the learner's seat is asked only where it has a choice of its turn; an observation is
made from what that seat may know and nothing else; actions are checked before anything changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal, SupportsIndex, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from deepsea_rules.actions import BACK, TAKE
from deepsea_rules.errors import IllegalAction
from deepsea_rules.game import Game
from deepsea_rules.notation import format_position
from deepsea_rules.printable import quoted
from deepsea_rules.randomness import SEED_BYTES
from deepsea_rules.ruleset import DEFAULT, USUAL_PLAYERS, RuleSet, preset
from deepsea_rules.scoring import halves_ahead
from deepsea_rules.view import View

from .batch import Batch, BySeat, Policy, RandomDice, RandomPolicy, SteadyPolicy, Turn, open_random
from .batch.units import Array, checked
from .features import LARGEST, LENGTH, WORDS, Features, Mask, action_of, features, mask
from .features_many import DECLARE, NOTHING, SEARCH, TURN_ACTIONS, features_many, masks_many
from .policies import steady

__all__ = ["ID", "Model", "ModelPolicy", "SeatEnv", "SeatVectorEnv"]

ID = "DeepSeaAdventure-v0"
"""The name for `gymnasium.make`, once this module is imported."""

Model: TypeAlias = Callable[[Features, Array], Array]
"""A function that was trained: observations [n, LENGTH] and masks [n, 12] to n action numbers."""
Reward: TypeAlias = Literal["placement", "lead"]
"""Of a game: 1 for the first to -1 for the last, ties share; or the points ahead of the best other
seat."""
Opponent: TypeAlias = str | Policy
OneOpponent: TypeAlias = str | Callable[[View], str]

_NAMES = ("random", "steady")
_BACK, _TAKE = WORDS.index(BACK), WORDS.index(TAKE)


def _observation_space() -> spaces.Box:
    return spaces.Box(-LARGEST, LARGEST, (LENGTH,), np.float32)


def _check_arguments(players: int, seat: int | None, opponents: Any, reward: str) -> None:
    if seat is not None and not 0 <= seat < players:
        raise ValueError(f"there is no seat {seat}: {players} seats are 0 to {players - 1}")
    if reward not in ("placement", "lead"):
        raise ValueError(f"a reward is 'placement' or 'lead', not {quoted(reward)}")
    if not opponents:
        raise ValueError("there are no opponents: name one, such as 'steady'")
    for opponent in opponents:
        if isinstance(opponent, str) and opponent not in _NAMES:
            raise ValueError(
                f"an opponent is 'random', 'steady' or a policy, not {quoted(opponent)}"
            )


def _listed(opponents: Any) -> list[Any]:
    """Several opponents, or one, as a list."""
    several = isinstance(opponents, Sequence) and not isinstance(opponents, str)
    return list(opponents) if several else [opponents]


def _rewards(reward: Reward, points: Array, halves: Array, seats: Array) -> Array:
    """What the learners' seats of some games get; points and halves are [games, seats]."""
    rows, players = np.arange(len(seats)), points.shape[1]
    if reward == "placement":
        placed: Array = halves[rows, seats] / (players - 1) - 1
        return placed
    others = points.astype(np.float64)
    others[rows, seats] = -np.inf
    lead: Array = points[rows, seats] - others.max(axis=1)
    return lead


def _check_legal(games: Array, numbers: Array, legal: Array) -> None:
    """Raise for the first number that its game's row of the masks does not allow."""
    inside = (numbers >= 0) & (numbers < TURN_ACTIONS)
    wrong = np.flatnonzero(~inside | (legal[np.arange(len(games)), numbers * inside] == 0))
    if len(wrong):
        first = wrong[0]
        there = ", ".join(map(str, np.flatnonzero(legal[first])))
        raise IllegalAction(
            f"game {games[first]}: action {numbers[first]} is not legal here; legal are {there}"
        )


class _ByNumbers(Policy):
    """Decides by action numbers."""

    def choose(self, batch: Batch, turn: Turn, kind: int) -> Array:
        """An action number for each game that is asked; kind is DECLARE or SEARCH."""
        raise NotImplementedError

    def declare(self, batch: Batch, turn: Turn) -> Array:
        back: Array = self.choose(batch, turn, DECLARE) == _BACK
        return back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        takes: Array = self.choose(batch, turn, SEARCH) == _TAKE
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        return np.maximum(self.choose(batch, turn, SEARCH).astype(np.int64) - len(WORDS), -1)


class _Learners(_ByNumbers):
    """The actions of a step."""

    def __init__(self, games: int) -> None:
        self.numbers = np.zeros(games, np.int64)

    def choose(self, batch: Batch, turn: Turn, kind: int) -> Array:
        return turn.of(self.numbers)


class ModelPolicy(_ByNumbers):
    """The policy of a model, such as the learner's own for self-play: what `model` has learned
    since counts from the next decision on."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def choose(self, batch: Batch, turn: Turn, kind: int) -> Array:
        games, kinds = turn.of(np.arange(batch.games)), np.full(len(turn.diver), kind)
        legal = masks_many(batch, games, kinds)
        seats = turn.diver % batch.players
        numbers = np.asarray(self.model(features_many(batch, games, seats, kinds), legal))
        checked(numbers, games, "iu", "the model's answer is")
        _check_legal(games, numbers, legal)
        return numbers


class SeatVectorEnv(VectorEnv[Features, Array, Array]):
    """Many games at once, in each of which one seat is the learner's.

    opponents  "random", "steady" or a policy of `deepsea_sdk.batch`; of several, one is drawn for
               each seat and game
    seat       the learner's; None to take the next one in each new game

    A step plays on until each game asks its learner again. A game that is over begins anew in the
    same step (AutoresetMode.SAME_STEP): `info["final_obs"]` and `info["final_info"]` are of the old
    one. No game ends without asking the learner, because its first move ends on a chip.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  (as Gymnasium)

    def __init__(
        self,
        num_envs: int,
        players: int = USUAL_PLAYERS,
        rules: RuleSet | str = DEFAULT,
        *,
        opponents: Opponent | Sequence[Opponent] = "steady",
        seat: int | None = None,
        reward: Reward = "placement",
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"a vector environment has 1 or more games, not {num_envs}")
        self.batch = Batch(preset(rules) if isinstance(rules, str) else rules, players, num_envs)
        self._opponents = _listed(opponents)
        _check_arguments(players, seat, self._opponents, reward)
        self.num_envs, self.players = num_envs, players
        self._fixed_seat, self._reward = seat, reward
        self.single_observation_space = _observation_space()
        self.single_action_space = spaces.Discrete(TURN_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._games = np.arange(num_envs)
        self._seat = np.zeros(num_envs, np.int64)
        self._kind = np.full(num_envs, NOTHING)
        """What each learner is asked; NOTHING before the first reset, and after a failed step."""
        self._legal = np.zeros((num_envs, TURN_ACTIONS), np.int8)
        self._rows = np.zeros((num_envs, LENGTH), np.float32)
        self._learners = _Learners(num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Features, dict[str, Any]]:
        """Begin all games. With a seed all that follows is always the same, given the actions and
        policies; there are no options."""
        super().reset(seed=seed)
        rng = self.np_random
        named = {"random": RandomPolicy(rng), "steady": SteadyPolicy(self.players)}
        policies = [named[o] if isinstance(o, str) else o for o in self._opponents]
        self._policy = BySeat(
            [self._learners, *policies], np.zeros((self.num_envs, self.players), int)
        )
        self._dice = RandomDice(rng)
        first = int(rng.integers(self.players)) if self._fixed_seat is None else self._fixed_seat
        self._seat[:] = first if self._fixed_seat is not None else first + self._games - 1
        self._kind[:] = NOTHING
        self._begin(self._games)
        self._play_on(self._games)
        return self._observe()

    def step(self, actions: Array) -> tuple[Features, Array, Array, Array, dict[str, Any]]:
        """Play an action in each game; raises IllegalAction, with the game, and changes nothing."""
        if not self._kind.all():
            raise ResetNeeded("the environment waits for no actions: call reset() first")
        numbers = checked(np.asarray(actions), self._games, "iu", "actions are")
        numbers = numbers.astype(np.int64)
        _check_legal(self._games, numbers, self._legal)
        self._learners.numbers = numbers
        declaring = np.flatnonzero(self._kind == DECLARE)
        searching = np.flatnonzero(self._kind == SEARCH)
        self._kind[:] = NOTHING
        self._over: list[Array] = []
        self._points: list[Array] = []
        self._earned = np.zeros(self.num_envs)
        turn = self.batch.turn(declaring)
        self.batch.declare(turn, self._policy)
        on = [self._move(turn), self._search(self.batch.turn(searching))]
        self._play_on(np.concatenate(on))
        observation, info = self._observe()
        ended = np.zeros(self.num_envs, bool)
        if self._over:
            ended[np.concatenate(self._over)] = True
            info |= self._final(ended)
        return observation, self._earned, ended, np.zeros(self.num_envs, bool), info

    def action_masks(self) -> Array:
        """Which actions are legal, as booleans [games, 12]."""
        return self._legal.astype(bool)

    def __copy__(self) -> SeatVectorEnv:
        # Copies that share games would move each other's.
        return deepcopy(self)

    def _final(self, ended: Array) -> dict[str, Any]:
        """What Gymnasium wants of games that were over, as `SyncVectorEnv` has it."""
        points = np.zeros((self.num_envs, self.players), np.int64)
        points[np.concatenate(self._over)] = np.concatenate(self._points)
        last = np.full(self.num_envs, None, dtype=object)
        for game in np.flatnonzero(ended):
            last[game] = np.zeros(LENGTH, np.float32)
        return {
            "final_obs": last,
            "_final_obs": ended.copy(),
            "final_info": {"points": points, "_points": ended.copy()},
            "_final_info": ended.copy(),
        }

    def _begin(self, games: Array) -> None:
        rng = self.np_random
        open_random(self.batch, games, rng)
        if self._fixed_seat is None:
            self._seat[games] = (self._seat[games] + 1) % self.players
        who = rng.integers(1, len(self._opponents) + 1, (len(games), self.players))
        who[np.arange(len(games)), self._seat[games]] = 0
        self._policy.seats[games] = who

    def _play_on(self, games: Array) -> None:
        """Play games, which are at the start of a turn, until their learners are asked."""
        while len(games):
            turn = self.batch.turn(games)
            turn = self._ask(turn, self.batch.may_declare(turn), DECLARE)
            self.batch.declare(turn, self._policy)
            games = self._move(turn)

    def _move(self, turn: Turn) -> Array:
        """Move, and finish the turns in which no learner is asked; returns the games that go on."""
        self.batch.move(turn, self._dice(self.batch, turn))
        units = self.batch.units_here(turn)
        asked = (units != 0) | self.batch.may_drop(turn, units)
        return self._search(self._ask(turn, asked, SEARCH))

    def _ask(self, turn: Turn, asked: Array, kind: int) -> Turn:
        """Leave out the turns in which the learner has a choice, and note what it is."""
        games = turn.of(self._games)
        asked = asked & (turn.diver == games * self.players + self._seat.take(games))
        self._kind[games[asked]] = kind
        return turn.part(np.flatnonzero(~asked))

    def _search(self, turn: Turn) -> Array:
        """Finish these turns; games that are over begin anew. Returns the games, which go on."""
        over = self.batch.clean_up(self.batch.search(turn, self._policy), self._policy)
        if len(over):
            points, halves = self.batch.results(over)
            self._earned[over] = _rewards(self._reward, points, halves, self._seat[over])
            self._over.append(over)
            self._points.append(points)
            self._begin(over)
        return turn.of(self._games)

    def _observe(self) -> tuple[Features, dict[str, Any]]:
        features_many(self.batch, self._games, self._seat, self._kind, self._rows)
        self._legal = masks_many(self.batch, self._games, self._kind)
        everywhere = np.ones(self.num_envs, bool)
        return self._rows.copy(), {
            "action_mask": self._legal.copy(),
            "_action_mask": everywhere,
            "seat": self._seat.copy(),
            "_seat": everywhere.copy(),
        }


class SeatEnv(gymnasium.Env[Any, Any]):
    """One game of the reference engine, in which one seat is the learner's.

    opponents       "random", "steady", or a function of a view, such as a bot's `decide`; of
                    several, one is drawn for each seat and game
    seat            the learner's; None to take the next one in each new game
    illegal_reward  an illegal action ends the game with this reward; with None it raises
                    IllegalAction, and changes nothing
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (as Gymnasium)

    def __init__(
        self,
        players: int = USUAL_PLAYERS,
        rules: RuleSet | str = DEFAULT,
        render_mode: str | None = None,
        *,
        opponents: OneOpponent | Sequence[OneOpponent] = "steady",
        seat: int | None = None,
        reward: Reward = "placement",
        illegal_reward: float | None = -1.0,
    ) -> None:
        self.rules = preset(rules) if isinstance(rules, str) else rules
        self.players, self.render_mode = players, render_mode
        self._opponents = _listed(opponents)
        self._fixed_seat, self._reward, self._illegal_reward = seat, reward, illegal_reward
        # A number of seats that no game has is refused by the game.
        self.game = Game(self.rules, players, bytes(SEED_BYTES))
        _check_arguments(players, seat, self._opponents, reward)
        self.observation_space = _observation_space()
        self.action_space = spaces.Discrete(TURN_ACTIONS)
        self._seat = -1 if seat is None else seat
        self._view: View | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Features, dict[str, Any]]:
        """Begin a game. With a seed all that follows is always the same; there are no options."""
        super().reset(seed=seed)
        rng = self.np_random
        self._view = None
        if self._fixed_seat is None:
            known = self._seat >= 0 and seed is None
            self._seat = (
                (self._seat + 1) % self.players if known else int(rng.integers(self.players))
            )
        self.game = Game(self.rules, self.players, rng.bytes(SEED_BYTES))
        self.game.keep_no_events()
        drawn = rng.integers(len(self._opponents), size=self.players)
        self._by_seat = [self._opponents[i] for i in drawn]
        self._view = self._play_on()
        return self._observe()

    def step(self, action: SupportsIndex) -> tuple[Features, float, bool, bool, dict[str, Any]]:
        """Play an action; raises InvalidAction for what is no whole number, and changes nothing."""
        view = self._view
        if view is None:
            raise ResetNeeded("the environment waits for no action: call reset() first")
        try:
            chosen = action_of(action, view)
        except IllegalAction as error:
            if self._illegal_reward is None:
                raise
            self._view = None
            observation, info = self._observe()
            return observation, self._illegal_reward, True, False, {**info, "illegal": str(error)}
        self._view = None
        self.game.decide(chosen)
        self._view = self._play_on()
        observation, info = self._observe()
        if self._view is not None:
            return observation, 0.0, False, False, info
        result = self.game.result()
        points, halves = np.array([result.points]), np.array([halves_ahead(result.placements)])
        earned = _rewards(self._reward, points, halves, np.array([self._seat]))
        return observation, float(earned[0]), True, False, {**info, "points": points[0]}

    def _play_on(self) -> View | None:
        """Play until the learner is asked for a choice of its turn: its view; None at the end."""
        game = self.game
        while (question := game.pending()) is not None:
            view = game.view(question.seat)
            if question.seat != self._seat:
                game.decide(self._decide(self._by_seat[question.seat], view))
            elif question.kind == "order":
                game.decide(question.legal[0])
            else:
                return view
        return None

    def _decide(self, opponent: OneOpponent, view: View) -> str:
        if opponent == "random":
            return view.legal[int(self.np_random.integers(len(view.legal)))]
        return steady(view) if isinstance(opponent, str) else opponent(view)

    def action_masks(self) -> Array:
        """Which actions are legal, as 12 booleans: what sb3-contrib's MaskablePPO asks for."""
        return self._mask().astype(bool)

    def __copy__(self) -> SeatEnv:
        # Copies that share a game would move each other's.
        return deepcopy(self)

    def _mask(self) -> Mask:
        view = self._view
        return np.zeros(TURN_ACTIONS, np.int8) if view is None else mask(view)[:TURN_ACTIONS]

    def _observe(self) -> tuple[Features, dict[str, Any]]:
        row = np.zeros(LENGTH, np.float32) if self._view is None else features(self._view)
        return row, {"action_mask": self._mask(), "seat": self._seat}

    def render(self) -> str | None:
        """The position in one line of notation, as everybody may know it."""
        return format_position(self.game.state) if self.render_mode == "ansi" else None


if ID not in gymnasium.registry:
    gymnasium.register(
        ID,
        entry_point=f"{__name__}:{SeatEnv.__name__}",
        vector_entry_point=f"{__name__}:{SeatVectorEnv.__name__}",
    )
