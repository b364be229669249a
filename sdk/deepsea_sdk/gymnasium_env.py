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
    """Return the rewards [games] of the learners' seats.

    points, halves  [games, seats]
    seats           [games] the learner's seat
    """
    rows, players = np.arange(len(seats)), points.shape[1]
    if reward == "placement":
        # Two halves for each of the others that the seat is ahead of: 0 to 2, less 1
        reward_of_placement: Array = halves[rows, seats] / (players - 1) - 1
        return reward_of_placement
    others = points.astype(np.float64)
    others[rows, seats] = -np.inf
    lead: Array = points[rows, seats] - others.max(axis=1)
    return lead


def _check_legal(games: Array, numbers: Array, legal: Array) -> None:
    """Raise IllegalAction for the first number that its game's mask does not allow.

    games  [n] numbers of games, for the message
    legal  [n, TURN_ACTIONS] their masks
    """
    is_number = (numbers >= 0) & (numbers < TURN_ACTIONS)
    # Numbers outside of the mask are looked up at 0.
    wrong = np.flatnonzero(~is_number | (legal[np.arange(len(games)), numbers * is_number] == 0))
    if len(wrong):
        first = wrong[0]
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
        """Return the slots that the divers drop; numbers below the drops become -1, to leave."""
        return np.maximum(self.choose(batch, turn, SEARCH).astype(np.int64) - len(WORDS), -1)


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
        """Return the model's action numbers for the divers to move.

        Raise an error for illegal ones.
        """
        games = turn.of(np.arange(batch.games))
        kinds = np.full(len(turn.diver), kind)
        legal = masks_many(batch, games, kinds)
        seats = turn.diver % batch.players  # a diver is game × seats + seat
        numbers = np.asarray(self.model(features_many(batch, games, seats, kinds), legal))
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
        """Begin all games. With a seed all that follows is reproducible by the same actions.

        Policies of others have to be reproducible, too. There are no options.
        """
        super().reset(seed=seed)
        rng = self.np_random
        named = {"random": RandomPolicy(rng), "steady": SteadyPolicy(self.players)}
        policies = [
            named[opponent] if isinstance(opponent, str) else opponent
            for opponent in self._opponents
        ]
        self._policy = BySeat(
            [self._learners, *policies], np.zeros((self.num_envs, self.players), int)
        )
        self._dice = RandomDice(rng)
        if self._fixed_seat is not None:
            self._seat[:] = self._fixed_seat
        else:
            # The seats of the games go round the table from a random one on. `_begin` takes the
            # next seat in each game, hence one less.
            self._seat[:] = int(rng.integers(self.players)) + self._games - 1
        self._kind[:] = NOTHING
        self._begin(self._games)
        self._play_on(self._games)
        return self._observe()

    def step(self, actions: Array) -> tuple[Features, Array, Array, Array, dict[str, Any]]:
        """Play an action in each game, and on until all learners are asked again.

        Raise IllegalAction, with the game, for an illegal action; then nothing changes.
        """
        if not self._kind.all():
            raise ResetNeeded("the environment waits for no actions: call reset() first")
        numbers = checked_answers(np.asarray(actions), self._games, "iu", "actions are")
        numbers = numbers.astype(np.int64)
        _check_legal(self._games, numbers, self._legal)
        self._learners.numbers = numbers
        declaring = np.flatnonzero(self._kind == DECLARE)
        searching = np.flatnonzero(self._kind == SEARCH)
        # Until the step is done; an exception of a policy leaves it so, and a reset is needed.
        self._kind[:] = NOTHING
        self._over: list[Array] = []
        self._points: list[Array] = []
        self._earned = np.zeros(self.num_envs)
        turn = self.batch.turn(declaring)
        self.batch.declare(turn, self._policy)
        games_after_turn = [self._move(turn), self._finish_turns(self.batch.turn(searching))]
        self._play_on(np.concatenate(games_after_turn))
        observation, info = self._observe()
        ended = np.zeros(self.num_envs, bool)
        if self._over:
            ended[np.concatenate(self._over)] = True
            info |= self._final_info(ended)
        return observation, self._earned, ended, np.zeros(self.num_envs, bool), info

    def action_masks(self) -> Array:
        """Return which actions are legal, as booleans [games, 12]."""
        return self._legal.astype(bool)

    def __copy__(self) -> SeatVectorEnv:
        # Copies that share games would move each other's.
        return deepcopy(self)

    def _final_info(self, ended: Array) -> dict[str, Any]:
        """Return the entries of `info` for games that are over, in the form of `SyncVectorEnv`."""
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
        """Begin these games anew, with the learner's seat and the opponents of each."""
        rng = self.np_random
        open_random(self.batch, games, rng)
        if self._fixed_seat is None:
            self._seat[games] = (self._seat[games] + 1) % self.players
        policy_numbers = rng.integers(1, len(self._opponents) + 1, (len(games), self.players))
        # Policy 0 is the learners'.
        policy_numbers[np.arange(len(games)), self._seat[games]] = 0
        self._policy.seats[games] = policy_numbers

    def _play_on(self, games: Array) -> None:
        """Play these games, which are at the start of a turn, until their learners are asked."""
        while len(games):
            turn = self.batch.turn(games)
            turn = self._ask(turn, self.batch.may_declare(turn), DECLARE)
            self.batch.declare(turn, self._policy)
            games = self._move(turn)

    def _move(self, turn: Turn) -> Array:
        """Move, and finish the turns in which no learner is asked; return the games that go on."""
        self.batch.move(turn, self._dice(self.batch, turn))
        units = self.batch.units_here(turn)
        has_choice = (units != 0) | self.batch.may_drop(turn, units)
        return self._finish_turns(self._ask(turn, has_choice, SEARCH))

    def _ask(self, turn: Turn, has_choice: Array, kind: int) -> Turn:
        """Store the decision of learners with a choice, and return the turns of all other seats.

        kind  the decision, DECLARE or SEARCH
        """
        games = turn.of(self._games)
        is_learner = turn.diver == games * self.players + self._seat.take(games)
        is_asked = has_choice & is_learner
        self._kind[games[is_asked]] = kind
        return turn.part(np.flatnonzero(~is_asked))

    def _finish_turns(self, turn: Turn) -> Array:
        """Let the policies search in these turns, which ends them; return the games of the turns.

        The results of games that are over are stored, and these games begin anew.
        """
        over = self.batch.clean_up(self.batch.search(turn, self._policy), self._policy)
        if len(over):
            points, halves = self.batch.results(over)
            self._earned[over] = _rewards(self._reward, points, halves, self._seat[over])
            self._over.append(over)
            self._points.append(points)
            self._begin(over)
        return turn.of(self._games)

    def _observe(self) -> tuple[Features, dict[str, Any]]:
        """Return the observations and the `info` of all games."""
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
        """Begin a game.

        With a seed everything that follows is reproducible; there are no options.
        """
        super().reset(seed=seed)
        rng = self.np_random
        # If an opponent raises before the learner is asked, `step` demands another reset.
        self._view = None
        if self._fixed_seat is None:
            # Seats come in turn. The first one is random, and with a seed it depends on that alone.
            if self._seat >= 0 and seed is None:
                self._seat = (self._seat + 1) % self.players
            else:
                self._seat = int(rng.integers(self.players))
        self.game = Game(self.rules, self.players, rng.bytes(SEED_BYTES))
        self.game.keep_no_events()
        drawn = rng.integers(len(self._opponents), size=self.players)
        self._by_seat = [self._opponents[number] for number in drawn]
        self._view = self._play_on()
        return self._observe()

    def step(self, action: SupportsIndex) -> tuple[Features, float, bool, bool, dict[str, Any]]:
        """Play an action, and on until the learner is asked again or the game is over.

        Raise InvalidAction for anything but a whole number; then nothing changes.
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
        self._view = None
        self.game.decide(played_action)
        self._view = self._play_on()
        observation, info = self._observe()
        if self._view is not None:
            return observation, 0.0, False, False, info
        result = self.game.result()
        points, halves = np.array([result.points]), np.array([halves_ahead(result.placements)])
        earned = _rewards(self._reward, points, halves, np.array([self._seat]))
        return observation, float(earned[0]), True, False, {**info, "points": points[0]}

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
