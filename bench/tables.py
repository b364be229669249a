"""Tables in this process, and roll-outs, beside other programs that play games.

Invariants: one thread; CPU time, so that others on the machine do not count; bots and roll-outs
choose by chance among the legal actions. The other programs choose alike, play their own games, and
are left out where they are not installed; what they call a step is one player's action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

from at_once import AtOnce
from deepsea_rules.state import GameState
from deepsea_rules.view import View
from deepsea_sdk.bot import Bot
from deepsea_sdk.policies import TurnDice, roll_out, steady
from deepsea_sdk.table import play
from figures import Row, Scale, beside, median, rate, seconds

DECISIONS = 100_000
WITH_FEATURES = 40_000
TURNS = 200_000
STEADY_TURNS = 300_000
SEATS = 3
GAMES: dict[Scale, int] = {"tiny": 2, "full": 1500}
ROLL_OUTS: dict[Scale, int] = {"tiny": 5, "full": 3000}
OTHERS: dict[Scale, int] = {"tiny": 1, "full": 150}
"""Games of each other program."""
SPIEL = ("pig", "backgammon")
ZOO = ("connect_four_v3", "tictactoe_v3")
EVERY = 10
"""Of the views of a few games every tenth is rolled out from."""


def measure(scale: Scale) -> Iterator[Row]:
    """The rows of this goal."""
    games = OTHERS[scale]
    yield _tables(GAMES[scale])
    yield _features(GAMES[scale])
    yield from _roll_outs(ROLL_OUTS[scale])
    for name in SPIEL:
        yield _other(f"OpenSpiel, {name}", partial(_spiel, name), games)
    for name in ZOO:
        yield _other(f"PettingZoo, {name}", partial(_zoo, name), games)


def _tables(games: int) -> Row:
    def work() -> int:
        seeds = (f"bench {number}" for number in range(games))
        return sum(len(play([AtOnce] * SEATS, seed=seed).decisions) for seed in seeds)

    decisions = work()
    return rate(
        "tables in this process: decisions on one core", decisions / seconds(work), DECISIONS
    )


def _features(games: int) -> Row:
    what = "tables in this process: decisions with features, on one core"
    try:
        features = import_module("deepsea_sdk.features").features
    except ImportError:
        return beside(what, "not measured: numpy is not installed")

    class Learner(AtOnce):
        """Makes what a network would be asked with."""

        def decide(self, view: View) -> str:
            features(view)
            return super().decide(view)

    # New games each time: what is kept of the last ones must not help.
    numbers = count()
    decisions = []

    def work() -> None:
        seeds = [f"bench {next(numbers)}" for _ in range(games)]
        decisions.append(sum(len(play([Learner] * SEATS, seed=seed).decisions) for seed in seeds))

    taken = seconds(work)
    return rate(what, median(decisions) / taken, WITH_FEATURES)


class _Watcher(AtOnce):
    """Keeps the views of its decisions."""

    def __init__(self, views: list[View]) -> None:
        super().__init__()
        self.views = views

    def decide(self, view: View) -> str:
        self.views.append(view)
        return super().decide(view)


def _roll_outs(number: int) -> list[Row]:
    views: list[View] = []
    for game in range(3):
        watchers: list[Bot] = [_Watcher(views) for _ in range(SEATS)]
        play(watchers, seed=f"bench {game}")
    views = views[::EVERY]

    def at_random() -> None:
        rng = Random(1)
        for index in range(number):
            roll_out(views[index % len(views)].sample(rng), rng)

    def by_policy() -> None:
        rng = Random(1)
        for index in range(number):
            roll_out(views[index % len(views)].sample(rng), TurnDice(rng, SEATS), steady)

    what = "roll-outs from view.sample{}: turns on one core"
    return [
        rate(what.format(""), _turns(at_random) / seconds(at_random), TURNS),
        rate(
            what.format(", by the steady policy"),
            _turns(by_policy) / seconds(by_policy),
            STEADY_TURNS,
        ),
    ]


def _turns(work: Callable[[], None]) -> int:
    """The turns of some roll-outs, counted when no time is measured."""
    turns = count()
    move = GameState.unchecked_move

    def counted(state: GameState, d1: int, d2: int) -> None:
        next(turns)
        move(state, d1, d2)

    with patch.object(GameState, "unchecked_move", counted):
        work()
    return next(turns)


def _other(what: str, load: Callable[[], Callable[[], int]], games: int) -> Row:
    try:
        game = load()
    except ImportError:
        return beside(what, "not installed")
    steps = 0

    def work() -> None:
        nonlocal steps
        steps = sum(game() for _ in range(games))

    taken = seconds(work)
    return beside(what, f"{steps / taken:,.0f} steps/s", per_second=steps / taken)


def _spiel(name: str) -> Callable[[], int]:
    """A game of OpenSpiel; gives its number of actions."""
    game = import_module("pyspiel").load_game(name)
    random = Random(1)

    def one() -> int:
        state: Any = game.new_initial_state()
        steps = 0
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, chances = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(random.choices(outcomes, chances)[0])
            else:
                legal = state.legal_actions()
                state.apply_action(legal[int(random.random() * len(legal))])
                steps += 1
        return steps

    return one


def _zoo(name: str) -> Callable[[], int]:
    """A game of PettingZoo; gives its number of actions."""
    environment: Any = import_module(f"pettingzoo.classic.{name}").env()
    random = Random(1)

    def one() -> int:
        environment.reset(seed=1)
        steps = 0
        for _ in environment.agent_iter():
            observation, _reward, ended, cut, _info = environment.last()
            if ended or cut:
                environment.step(None)
                continue
            legal = observation["action_mask"].nonzero()[0]
            environment.step(int(legal[int(random.random() * len(legal))]))
            steps += 1
        return steps

    return one
