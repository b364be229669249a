"""One seat of a game as Gymnasium environments, for training: pip install 'deepsea-sdk[learn]'.

`SeatVectorEnv` plays thousands of games at once in a batch, `SeatEnv` one game of the reference
engine. docs/learn.md describes spaces, opponents and rewards, which are the same in both.

Invariants: the learner's seat is asked only where it has a choice in its turn. An observation is
made from what that seat may know and nothing else. Actions are checked before anything changes.
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
from .batch.units import Array, checked_answers
from .features import LARGEST, LENGTH, WORDS, Features, Mask, action_of, features, mask
from .features_many import DECLARE, NOTHING, SEARCH, TURN_ACTIONS, features_many, masks_many
from .policies import steady

__all__ = ["ID", "Model", "ModelPolicy", "SeatEnv", "SeatVectorEnv"]

ID = "DeepSeaAdventure-v0"
"""Name for `gymnasium.make`, once this module is imported."""

Model: TypeAlias = Callable[[Features, Array], Array]
"""A trained function: it gets observations [n, LENGTH] and masks [n, 12].

It returns n action numbers.
"""
Reward: TypeAlias = Literal["placement", "lead"]
"""Reward of a game: "placement" or "lead".

"placement" is 1 for the first to -1 for the last, and ties share; "lead" is the points ahead of the
best other seat.
"""
Opponent: TypeAlias = str | Policy
"""Opponent in a batch: a name, or a policy."""
OneOpponent: TypeAlias = str | Callable[[View], str]
"""Opponent in a single game: a name, or a function of a view that returns an action."""

_NAMES = ("random", "steady")
_BACK, _TAKE = WORDS.index(BACK), WORDS.index(TAKE)


def _observation_space() -> spaces.Box:
    return spaces.Box(-LARGEST, LARGEST, (LENGTH,), np.float32)


def _check_arguments(players: int, seat: int | None, opponents: Any, reward: str) -> None:
    """Raise ValueError for arguments of an environment that make no sense."""
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
    """Return the opponents as a list; the argument may be one opponent or several."""
    is_list = isinstance(opponents, Sequence) and not isinstance(opponents, str)
    return list(opponents) if is_list else [opponents]


def _rewards(reward: Reward, points: Array, halves: Array, seats: Array) -> Array:
    """Return [games] the rewards of the learners' seats at the end of their games.

    points  [games, seats] the final points
    halves  [games, seats] two for each other seat that the seat is ahead of, one for a tie
    seats   [games] the learner's seat
    """
    rows, players = np.arange(len(seats)), points.shape[1]
    if reward == "placement":
        # The quotient is between 0 and 2, the reward between -1 and 1.
        placement_rewards: Array = halves[rows, seats] / (players - 1) - 1
        return placement_rewards
    others_points = points.astype(np.float64)
    others_points[rows, seats] = -np.inf  # never the largest
    leads: Array = points[rows, seats] - others_points.max(axis=1)
    return leads


def _check_legal(games: Array, numbers: Array, legal: Array) -> None:
    """Raise IllegalAction for the first game whose action is not legal.

    games    [n] numbers of the games, for the message
    numbers  [n] an action number for each of them
    legal    [n, TURN_ACTIONS] masks: 1 for each legal action
    """
    in_range = (numbers >= 0) & (numbers < TURN_ACTIONS)
    indexes = np.where(in_range, numbers, 0)  # numbers out of range are no indexes of the mask
    is_legal = in_range & (legal[np.arange(len(games)), indexes] != 0)
    illegal = np.flatnonzero(~is_legal)
    if len(illegal):
        first = illegal[0]
        legal_numbers = ", ".join(map(str, np.flatnonzero(legal[first])))
        raise IllegalAction(
            f"game {games[first]}: action {numbers[first]} is not legal here; "
            f"legal are {legal_numbers}"
        )


class _ActionNumberPolicy(Policy):
    """Policy that decides by action numbers."""

    def choose(self, batch: Batch, turn: Turn, kind: int) -> Array:
        """Return the number of an action for each game of `turn`.

        kind  the decision, DECLARE or SEARCH
        """
        raise NotImplementedError

    def declare(self, batch: Batch, turn: Turn) -> Array:
        """Return which divers turn back."""
        turns_back: Array = self.choose(batch, turn, DECLARE) == _BACK
        return turns_back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        """Return which divers take the unit on their space."""
        takes: Array = self.choose(batch, turn, SEARCH) == _TAKE
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return for each diver the slot of the unit that it drops; -1 to leave."""
        numbers = self.choose(batch, turn, SEARCH).astype(np.int64)
        # The actions that are words come first, then a drop for each slot. Here the only legal word
        # is to leave: its number, less the count of words, is below 0.
        return np.maximum(numbers - len(WORDS), -1)


class _LearnerPolicy(_ActionNumberPolicy):
    """Policy that plays the actions of a step."""

    def __init__(self, games: int) -> None:
        self.numbers = np.zeros(games, np.int64)

    def choose(self, batch: Batch, turn: Turn, kind: int) -> Array:
        return turn.of(self.numbers)


class ModelPolicy(_ActionNumberPolicy):
    """Policy of a model, such as the learner's own for self-play.

    The model may be trained further: each decision uses it as it is then.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def choose(self, batch: Batch, turn: Turn, kind: int) -> Array:
        """Ask the model, and return an action number for each game of `turn`.

        kind  the decision, DECLARE or SEARCH

        Raise ValueError if the model returns something else than one whole number for each game,
        and IllegalAction if a number is not a legal action of its game.
        """
        games = turn.of(np.arange(batch.games))  # the numbers of the games that are asked
        kinds = np.full(len(games), kind)
        seats = turn.diver % batch.players  # `turn.diver` is game × players + seat
        observations = features_many(batch, games, seats, kinds)
        legal = masks_many(batch, games, kinds)
        numbers = np.asarray(self.model(observations, legal))
        # "i" and "u" are numpy's types of whole numbers.
        checked_answers(numbers, games, kinds="iu", subject="the model's answer is")
        _check_legal(games, numbers, legal)
        return numbers


class SeatVectorEnv(VectorEnv[Features, Array, Array]):
    """Many games at once, in each of which one seat is the learner's.

    opponents  "random", "steady" or a policy of `deepsea_sdk.batch`; if there are several, one is
               drawn for each seat and game
    seat       the learner's seat; by default another one in each new game, in turn

    A step plays on until each game asks its learner again. A game that is over begins anew in the
    same step (AutoresetMode.SAME_STEP); `info["final_obs"]` and `info["final_info"]` belong to the
    old game. No game ends without asking the learner, because its first move ends on a chip.
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
        """The decision of each learner [games].

        It is NOTHING before the first reset, and after a failed step.
        """
        self._legal = np.zeros((num_envs, TURN_ACTIONS), np.int8)
        self._rows = np.zeros((num_envs, LENGTH), np.float32)
        self._learners = _LearnerPolicy(num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Features, dict[str, Any]]:
        """Begin all games anew; return the observations and the `info`.

        seed     makes all that follows reproducible by the same actions, if the opponents' policies
                 are reproducible; None to draw on from the random numbers so far
        options  ignored: the environment has none
        """
        super().reset(seed=seed)
        rng = self.np_random
        policies_by_name = {"random": RandomPolicy(rng), "steady": SteadyPolicy(self.players)}
        opponents = [
            policies_by_name[opponent] if isinstance(opponent, str) else opponent
            for opponent in self._opponents
        ]
        # Policy 0 plays the learner of each game. `_begin` fills in the policy of each seat.
        policy_numbers = np.zeros((self.num_envs, self.players), int)
        self._policy = BySeat([self._learners, *opponents], policy_numbers)
        self._dice = RandomDice(rng)
        if self._fixed_seat is not None:
            self._seat[:] = self._fixed_seat
        else:
            # The learner's seat is a random one in the first game, the next one in the second and
            # so on. It is less by one here, since `_begin` counts it up.
            self._seat[:] = int(rng.integers(self.players)) + self._games - 1
        self._kind[:] = NOTHING
        self._begin(self._games)
        self._play_on(self._games)
        return self._observe()

    def step(self, actions: Array) -> tuple[Features, Array, Array, Array, dict[str, Any]]:
        """Play the learner's action in each game, and go on until all learners are asked again.

        Return observations, rewards, which games have ended, which were truncated (none), and the
        `info`. Raise IllegalAction, with the game, for an illegal action; then nothing changes.

        actions  [games] action numbers
        """
        if not self._kind.all():
            raise ResetNeeded("the environment waits for no actions: call reset() first")
        numbers = checked_answers(np.asarray(actions), self._games, "iu", "actions are")
        numbers = numbers.astype(np.int64)
        _check_legal(self._games, numbers, self._legal)
        self._learners.numbers = numbers
        declaring = np.flatnonzero(self._kind == DECLARE)
        searching = np.flatnonzero(self._kind == SEARCH)
        # If a policy raises an exception, it stays so, and the next step demands a reset.
        self._kind[:] = NOTHING
        # `_finish_turns` adds the results of games that end in this step.
        self._ended_games: list[Array] = []
        self._final_points: list[Array] = []
        self._step_rewards = np.zeros(self.num_envs)
        # A declaration is at the beginning of a turn, a search at its end.
        declaring_turn = self.batch.turn(declaring)
        self.batch.declare(declaring_turn, self._policy)
        games_after_move = self._move(declaring_turn)
        games_after_search = self._finish_turns(self.batch.turn(searching))
        self._play_on(np.concatenate([games_after_move, games_after_search]))
        observation, info = self._observe()
        has_ended = np.zeros(self.num_envs, bool)
        if self._ended_games:
            has_ended[np.concatenate(self._ended_games)] = True
            info |= self._final_info(has_ended)
        is_truncated = np.zeros(self.num_envs, bool)
        return observation, self._step_rewards, has_ended, is_truncated, info

    def action_masks(self) -> Array:
        """Return which actions are legal, as booleans [games, 12]."""
        return self._legal.astype(bool)

    def __copy__(self) -> SeatVectorEnv:
        # Copies that share games would move each other's.
        return deepcopy(self)

    def _final_info(self, has_ended: Array) -> dict[str, Any]:
        """Return the entries of `info` for games that ended in this step, as `SyncVectorEnv` does.

        The last observation of such a game is all 0, since its learner is asked nothing more.

        has_ended  [games] True for these games
        """
        points = np.zeros((self.num_envs, self.players), np.int64)
        points[np.concatenate(self._ended_games)] = np.concatenate(self._final_points)
        last_observations = np.full(self.num_envs, None, dtype=object)
        for game in np.flatnonzero(has_ended):
            last_observations[game] = np.zeros(LENGTH, np.float32)
        # Gymnasium's form: the array `_NAME` says in which games the entry NAME is set.
        return {
            "final_obs": last_observations,
            "_final_obs": has_ended.copy(),
            "final_info": {"points": points, "_points": has_ended.copy()},
            "_final_info": has_ended.copy(),
        }

    def _begin(self, games: Array) -> None:
        """Begin these games anew: deal the chips, seat the learner, and draw its opponents.

        Each game has one learner. Unless its seat is fixed, it moves on by one seat in every game.
        """
        rng = self.np_random
        open_random(self.batch, games, rng)
        if self._fixed_seat is None:
            self._seat[games] = (self._seat[games] + 1) % self.players
        # [games, seats]: the number of the policy that plays each seat. Number 0 is the learner,
        # and 1, 2 ... are the opponents, of which each seat gets one at random.
        policy_numbers = rng.integers(1, len(self._opponents) + 1, (len(games), self.players))
        rows = np.arange(len(games))
        policy_numbers[rows, self._seat[games]] = 0
        self._policy.seats[games] = policy_numbers

    def _play_on(self, games: Array) -> None:
        """Play these games, which are at the start of a turn, until their learners are asked."""
        # Each pass plays a turn in each game. A game in which the learner is asked, by `_ask` here
        # or in `_move`, is not in the next pass.
        while len(games):
            turn = self.batch.turn(games)
            others_turn = self._ask(turn, self.batch.may_declare(turn), DECLARE)
            self.batch.declare(others_turn, self._policy)
            games = self._move(others_turn)

    def _move(self, turn: Turn) -> Array:
        """Move, and finish the turns in which no learner is asked; return the games that go on."""
        self.batch.move(turn, self._dice(self.batch, turn))
        units = self.batch.units_here(turn)
        has_choice = (units != 0) | self.batch.may_drop(turn, units)
        return self._finish_turns(self._ask(turn, has_choice, SEARCH))

    def _ask(self, turn: Turn, has_choice: Array, kind: int) -> Turn:
        """Leave decisions to the learners that are to move and have a choice.

        Their games wait for the actions of the next step, which `_kind` stores. Return the other
        part of the turn, which goes on at once: its divers have no choice, or are opponents.

        has_choice  [games of the turn] True where the diver to move has a choice
        kind        the decision, DECLARE or SEARCH
        """
        games = turn.of(self._games)
        learners_diver = games * self.players + self._seat.take(games)
        is_asked = has_choice & (turn.diver == learners_diver)
        self._kind[games[is_asked]] = kind
        return turn.part(np.flatnonzero(~is_asked))

    def _finish_turns(self, turn: Turn) -> Array:
        """Play the search of these turns, which ends them, and return all their games.

        If a turn ends a dive, the dive is cleaned up. If it ends the game, reward and points are
        stored for the result of the step, and the game begins anew.
        """
        ended_dives = self.batch.search(turn, self._policy)
        ended = self.batch.clean_up(ended_dives, self._policy)
        if len(ended):
            points, halves = self.batch.results(ended)
            self._step_rewards[ended] = _rewards(self._reward, points, halves, self._seat[ended])
            self._ended_games.append(ended)
            self._final_points.append(points)
            self._begin(ended)
        return turn.of(self._games)

    def _observe(self) -> tuple[Features, dict[str, Any]]:
        """Return the observations [games, LENGTH] and the `info`, after a reset or a step.

        Both are copies: the next step overwrites the arrays of this environment.
        """
        features_many(self.batch, self._games, self._seat, self._kind, self._rows)
        self._legal = masks_many(self.batch, self._games, self._kind)
        # Gymnasium's form: the array `_NAME` says in which environments the entry NAME is set.
        everywhere = np.ones(self.num_envs, bool)
        return self._rows.copy(), {
            "action_mask": self._legal.copy(),
            "_action_mask": everywhere,
            "seat": self._seat.copy(),
            "_seat": everywhere.copy(),
        }


class SeatEnv(gymnasium.Env[Any, Any]):
    """One game of the reference engine, in which one seat is the learner's.

    opponents       "random", "steady", or a function of a view, such as a bot's `decide`; if there
                    are several, one is drawn for each seat and game
    seat            the learner's seat; by default another one in each new game, in turn
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
        # Raises ValueError for a wrong number of players.
        self.game = Game(self.rules, players, bytes(SEED_BYTES))
        _check_arguments(players, seat, self._opponents, reward)
        self.observation_space = _observation_space()
        self.action_space = spaces.Discrete(TURN_ACTIONS)
        self._seat = -1 if seat is None else seat
        self._view: View | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Features, dict[str, Any]]:
        """Begin a game, play until the learner is asked, and return its observation and the `info`.

        seed     makes all that follows reproducible; None to draw on from the random numbers so far
        options  ignored: the environment has none
        """
        super().reset(seed=seed)
        rng = self.np_random
        # If an opponent raises an exception below, it stays None, and `step` demands a reset.
        self._view = None
        if self._fixed_seat is None:
            # Seats come in turn. The first one is random, and with a seed it depends on that alone.
            has_played = self._seat >= 0  # it is -1 before the first game
            if has_played and seed is None:
                self._seat = (self._seat + 1) % self.players
            else:
                self._seat = int(rng.integers(self.players))
        self.game = Game(self.rules, self.players, rng.bytes(SEED_BYTES))
        self.game.keep_no_events()
        opponent_numbers = rng.integers(len(self._opponents), size=self.players)
        self._by_seat = [self._opponents[number] for number in opponent_numbers]
        self._view = self._play_on()
        return self._observe()

    def step(self, action: SupportsIndex) -> tuple[Features, float, bool, bool, dict[str, Any]]:
        """Play the learner's action, and go on until it is asked again or the game is over.

        Return the observation, the reward, True if the episode has ended, False (no episode is
        truncated), and the `info`. An illegal action ends the episode, or raises IllegalAction if
        the environment was made so. Raise InvalidAction for anything but a whole number; then
        nothing changes.
        """
        view = self._view
        if view is None:
            raise ResetNeeded("the environment waits for no action: call reset() first")
        try:
            played_action = action_of(action, view)
        except IllegalAction as error:
            if self._illegal_reward is None:
                raise
            self._view = None
            observation, info = self._observe()
            return observation, self._illegal_reward, True, False, {**info, "illegal": str(error)}
        # If an opponent raises an exception below, it stays None, and a reset is needed.
        self._view = None
        self.game.decide(played_action)
        self._view = self._play_on()
        observation, info = self._observe()
        if self._view is not None:
            return observation, 0.0, False, False, info
        result = self.game.result()
        points, halves = np.array([result.points]), np.array([halves_ahead(result.placements)])
        rewards = _rewards(self._reward, points, halves, np.array([self._seat]))
        return observation, float(rewards[0]), True, False, {**info, "points": points[0]}

    def _play_on(self) -> View | None:
        """Play until the learner has a choice in its turn, and return its view; None at the end.

        The learner is not asked for orders: it lays its cargo in pick-up order.
        """
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
        """Return an opponent's action."""
        if opponent == "random":
            return view.legal[int(self.np_random.integers(len(view.legal)))]
        return steady(view) if isinstance(opponent, str) else opponent(view)

    def action_masks(self) -> Array:
        """Return which actions are legal, as 12 booleans: the form of sb3-contrib's MaskablePPO."""
        return self._mask().astype(bool)

    def __copy__(self) -> SeatEnv:
        # Copies that share a game would move each other's.
        return deepcopy(self)

    def _mask(self) -> Mask:
        """Return which actions are legal as numbers, all 0 if the learner is not asked."""
        view = self._view
        return np.zeros(TURN_ACTIONS, np.int8) if view is None else mask(view)[:TURN_ACTIONS]

    def _observe(self) -> tuple[Features, dict[str, Any]]:
        """Return the learner's observation, zeros if it is not asked, and the `info`."""
        row = np.zeros(LENGTH, np.float32) if self._view is None else features(self._view)
        return row, {"action_mask": self._mask(), "seat": self._seat}

    def render(self) -> str | None:
        """Return the position in one line of notation, without hidden values."""
        return format_position(self.game.state) if self.render_mode == "ansi" else None


if ID not in gymnasium.registry:
    gymnasium.register(
        ID,
        entry_point=f"{__name__}:{SeatEnv.__name__}",
        vector_entry_point=f"{__name__}:{SeatVectorEnv.__name__}",
    )
