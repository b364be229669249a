"""Many games at once in arrays, against the same games one by one.

    python bench/batches.py    other sizes, the coach, and PettingZoo: beside the goals

Invariants: one core and CPU time; the batch and `roll_out` take turns, and each ratio is the median
of such pairs; of both the choices of turns are counted, those of stranded divers on neither side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import count
from random import Random
from typing import Literal

from deepsea_bots.cautious import Cautious
from deepsea_bots.greedy import Greedy
from deepsea_bots.heuristic import Heuristic
from deepsea_bots.steady import Steady
from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import DEFAULT, USUAL_PLAYERS, preset
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk.coach.decisions import Effort, PlayedDecision, game_steps, judge_many
from deepsea_sdk.coach.roll_outs import LuckSource, Trials, one_by_one
from deepsea_sdk.policies import Policy, TurnDice, roll_out, steady
from deepsea_sdk.table import play
from figures import Row, Scale, at_least, beside, median, rate, report, seconds

GAMES = 4096
DECISIONS = 1_000_000
FASTER = 12
TRIALS = 1000
TRIALS_FASTER = 8
RULES = preset(DEFAULT)
SEATS = USUAL_PLAYERS
LEARNER_DECISIONS = 100_000
STEPS: dict[Scale, int] = {"tiny": 2, "full": 60}
"""Of the environment; in each every game's learner decides once."""
TURNS: dict[Scale, int] = {"tiny": 3, "full": 300}
"""Of each game in a batch, in one pair."""
ONE_BY_ONE: dict[Scale, int] = {"tiny": 2, "full": 400}
PAIRS: dict[Scale, int] = {"tiny": 1, "full": 7}


def measure(scale: Scale) -> Iterator[Row]:
    """The rows of these goals."""
    what = f"{GAMES:,} games at once by the steady policy: decisions on one core"
    if find_spec("numpy") is None:
        yield beside(what, "not measured: numpy is not installed")
        return
    rates, ratios = _games("steady", scale)
    yield rate(what, rates, DECISIONS)
    yield at_least(f"{what}, against `roll_out`", f"{rates:,.0f}/s", ratios, FASTER)
    rates, ratios = _games("random", scale)
    what = f"{GAMES:,} games at once at random: decisions on one core, against `roll_out`"
    yield beside(what, f"{rates:,.0f}/s, {ratios:.1f} times as many", per_second=rates)
    yield from _trials("game", scale)
    what = f"{GAMES:,} games as an environment, against {{}}: learner's decisions on one core"
    if find_spec("gymnasium") is None:
        yield beside(what.format("others"), "not measured: gymnasium is not installed")
        return
    yield rate(what.format("steady"), _learner("steady", scale), LEARNER_DECISIONS)
    for opponent in ("random", "itself"):
        shown = _learner(opponent, scale)
        yield beside(what.format(opponent), f"{shown:,.0f}/s", per_second=shown)


def beside_the_goals() -> Iterator[Row]:
    """Rows of other sizes, and of what is built on batches."""
    for games in (256, 1024, 4096, 16_384):
        for kind in ("random", "steady"):
            rates, ratios = _games(kind, "full", games)
            what = f"{games:,} games at once, {kind}: decisions on one core, against `roll_out`"
            yield beside(what, f"{rates:,.0f}/s, {ratios:.1f} times as many")
    yield from _trials("game", "full")
    yield from _trials("dive", "full")
    for games in (1, 6):
        many, alone = _races(games)
        what = f"the coach's trials of {games} game{'s' * (games > 1)}, one by one"
        yield beside(f"{what} and in batches", f"{alone:.0f} µs and {many:.0f} µs for a roll-out")
    for games in (GAMES, 4 * GAMES):
        what = f"{games:,} games as an environment, against steady: learner's decisions"
        yield beside(what, f"{_learner('steady', 'full', games):,.0f}/s")
    yield beside("PettingZoo: steps with observations", f"{_pettingzoo():,.0f}/s")


def _pairs(
    scale: Scale, many: Callable[[], int], one_by_one: Callable[[], int]
) -> tuple[float, float]:
    """What `many` does a second, and how many times as much as `one_by_one`: medians."""
    rates, ratios = [], []
    for _ in range(PAIRS[scale]):
        batch, reference = (_rate(work) for work in (many, one_by_one))
        rates.append(batch)
        ratios.append(batch / reference)
    return median(rates), median(ratios)


def _rate(work: Callable[[], int]) -> float:
    start = time.process_time()
    done = work()
    return done / (time.process_time() - start)


def _games(kind: str, scale: Scale, size: int = GAMES) -> tuple[float, float]:
    import numpy as np

    from deepsea_sdk.batch import Batch, RandomDice, RandomPolicy, SteadyPolicy, open_random

    rng = np.random.default_rng(1)
    batch = Batch(RULES, SEATS, size)
    policy = SteadyPolicy(SEATS) if kind == "steady" else RandomPolicy(rng)
    dice = RandomDice(rng)
    open_random(batch, np.arange(size), rng)

    def many() -> int:
        batch.decisions = 0
        for _ in range(TURNS[scale]):
            turn = batch.turn()
            batch.declare(turn, policy)
            batch.move(turn, dice(batch, turn))
            ended = batch.search(turn, policy)
            made = batch.decisions
            over = batch.clean_up(ended, policy)
            batch.decisions = made
            if len(over):
                batch.results(over)
                open_random(batch, over, rng)
        return batch.decisions

    games = ONE_BY_ONE[scale]
    by_steady = steady if kind == "steady" else None
    decisions = sum(_decisions(game, by_steady) for game in range(games))

    def one_by_one() -> int:
        source = Random(1)
        for game in range(games):
            if by_steady is None:
                roll_out(_opening(game), source)
            else:
                roll_out(_opening(game), TurnDice(source, SEATS), by_steady)
        return decisions

    many()  # until games are in all their parts
    return _pairs(scale, many, one_by_one)


def _opening(game: int) -> GameState:
    return GameState.opening(RULES, DEAL, SEATS, game % SEATS)


DEAL = deal(seed_from_text("bench"))


def _decisions(game: int, policy: Policy | None) -> int:
    """The choices of a game, but for those of stranded divers, counted when nothing is measured."""
    choices = count()
    random = Random(game)

    def counted(state: GameState) -> str:
        if state.phase != "order":
            next(choices)
        return policy(state) if policy else random.choice(state.legal)

    roll_out(_opening(game), random, counted)
    return next(choices)


def _trials(end: Literal["game", "dive"], scale: Scale) -> Iterator[Row]:
    import numpy as np

    from deepsea_sdk.batch import SteadyPolicy, roll_out_many

    view = view_for(_opening(0), 0)
    rng, policy = np.random.default_rng(1), SteadyPolicy(SEATS)
    source = Random(1)
    some = ONE_BY_ONE[scale] // 4 or 1

    def one_by_one() -> int:
        for _ in range(some):
            roll_out(view.sample(source), TurnDice(source, SEATS), steady, to_end_of=end)
        return some

    for trials in (100, TRIALS, 3 * TRIALS):

        def many(trials: int = trials) -> int:
            roll_out_many(view, trials, policy, rng, to_end_of=end)
            return trials

        what = f"{trials:,} roll-outs of one position by the steady policy, against `roll_out`"
        what += ", to the end of the dive" * (end == "dive")
        rates, ratios = _pairs(scale, many, one_by_one)
        shown = f"{rates:,.0f}/s"
        if trials == TRIALS and end == "game":
            yield at_least(what, shown, ratios, TRIALS_FASTER, per_second=rates)
        else:
            yield beside(what, f"{shown}, {ratios:.1f} times as many", per_second=rates)


def _races(games: int) -> tuple[float, float]:
    """Return the microseconds of a roll-out of the coach, in batches and one by one."""
    decisions: list[PlayedDecision] = []
    for number in range(games):
        game = play([Heuristic, Greedy, Cautious, Steady], seed=f"races {number}")
        for step in game_steps(game):
            if step.kind == "decision" and step.action is not None:
                view = view_for(step.before.state, step.seat)
                stream = LuckSource(f"{number}/{step.decision}", SEATS)
                decisions.append(PlayedDecision(view, step.action, stream))
    tried = sum(len(one.options) for one in decisions)
    many = seconds(lambda: judge_many(decisions, Effort.of(200)), 1) / (200 * tried)
    alone = 0.0
    for one in decisions[:: 5 * games]:
        states = [one.view.sample(one.stream.luck(0)) for _ in one.options]
        for state, action in zip(states, one.options, strict=True):
            state.unchecked_apply(action)
        trials = Trials(one.view, one.stream, range(50), states, one.view.dive)
        alone += seconds(partial(one_by_one, trials), 1) / (50 * len(states))
    return 1e6 * many, 1e6 * alone / len(decisions[:: 5 * games])


def _pettingzoo() -> float:
    """Steps a second of the environment, with actions at random."""
    from deepsea_sdk.pettingzoo_env import DeepSeaEnv

    env, source, steps = DeepSeaEnv(SEATS, RULES), Random(1), 0
    start = time.process_time()
    for _ in range(20):
        env.reset()
        for _ in env.agent_iter():
            observation, _, ended, _, _ = env.last()
            legal = [] if ended or observation is None else observation["action_mask"].nonzero()[0]
            env.step(None if ended else int(source.choice(legal)))
            steps += 1
    return steps / (time.process_time() - start)


def _learner(opponent: str, scale: Scale, size: int = GAMES) -> float:
    """Decisions a second of a learner that chooses at random, which is not measured."""
    import numpy as np

    from deepsea_sdk.batch.units import Array
    from deepsea_sdk.features import Features
    from deepsea_sdk.gymnasium_env import ModelPolicy, SeatVectorEnv

    rng = np.random.default_rng(1)

    def at_random(_: Features, legal: Array) -> Array:
        chosen: Array = (rng.random(legal.shape, np.float32) * legal).argmax(axis=1)
        return chosen

    opponents = ModelPolicy(at_random) if opponent == "itself" else opponent
    env = SeatVectorEnv(size, SEATS, RULES, opponents=opponents)
    observations, info = env.reset(seed=1)
    spent = []
    for _ in range(STEPS[scale]):
        actions = at_random(observations, info["action_mask"])
        start = time.process_time()
        observations, _, _, _, info = env.step(actions)
        spent.append(time.process_time() - start)
    # Some steps take longer than others, hence no median.
    return size * len(spent) / sum(spent)


if __name__ == "__main__":
    raise SystemExit(report({"batches": beside_the_goals}, None))
