"""Training of weights for the evaluation: python -m deepsea_sdk.train FILE --seats 4.

In a round the net plays some hundreds of games with itself, by one rule set, and is fitted to them.
An example is a position after a choice, or of a seat that has none. Its target is the mean of the
value of the seat's next position and of how the game went on from there (TD(λ)); a dive that has
ended is worth what such leads have been worth in the games so far.

Invariants: a round depends only on the seed and on the results of earlier rounds, which are stored
in FILE.training: a training that was stopped and is started again finds the same weights. Weights
are overwritten only by weights of the same settings with more rounds, and those of a finished
training only when the longer one has finished, too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

if __name__ == "__main__":
    # Matrices of this size take longer on several cores; numpy reads it when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import numpy as np
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"deepsea_sdk.train: {error}: pip install 'deepsea-sdk[learn]'")

from deepsea_rules.errors import InvalidRules
from deepsea_rules.ruleset import DEFAULT, DIVES, MAX_PLAYERS, MIN_PLAYERS, PRESETS, preset
from deepsea_sdk.evaluation.plain import (
    INPUTS,
    VERSION,
    Layer,
    Weights,
    WeightsError,
    half_written,
    read_weights,
    write_weights,
)

from .batch import Batch, BySeat, RandomDice, SteadyPolicy, Turn, open_random
from .batch.units import Array
from .coach.decisions import SURE
from .evaluation.arrays import F32, EvaluationPolicy, Net, columns, facts_of, standings_of

RULES = tuple(name for other in PRESETS if other != DEFAULT for name in (DEFAULT, other))
"""Presets of the rounds in turn; every other round is played by the default rules."""
_TRACE = 0.5
"""Weight λ in a target of how the game went on after the seat's next position."""
_OTHERS = 0.15
"""Share of turns in which the position of a random seat becomes an example, too."""
_PASSES = 3
"""Times that each example is used."""
_AT_ONCE = 512
"""Examples in one step of the optimiser."""
_RATES = (2e-3, 5e-5)
"""Learning rates of the first round and of the last one."""
_AT_RANDOM = (0.14, 0.02)
"""Shares of choices that are made at random, in the first round and in the last one."""
_PLAYED = 0.97
"""Share of its games that must be over to end a round."""
_POINTS = 20
"""Points of the training curve."""
_SPREADS = (8.5, 6.5)
"""Spreads of an untrained net; see `Weights.spreads`."""


@dataclass(frozen=True)
class Settings:
    """Settings of a training: what is trained, and for how long."""

    players: int
    rules: tuple[str, ...] = RULES
    """Presets, one for each round in turn."""
    rounds: int = 160
    games: int = 1024
    """Games in a round."""
    hidden: tuple[int, ...] = (64, 32)
    """Sizes of the hidden layers."""
    seed: int = 1
    name: str = "mine"


Point: TypeAlias = dict[str, float]
"""Point of the training curve: rounds, decisions, error, lead, and margin of the lead.

The error is the mean squared one; the lead over `steady` is in placement score, and its margin is
that of 95 %.
"""


@dataclass
class Progress:
    """State of a training between two rounds."""

    net: Net
    moments: list[tuple[Array, Array]]
    """Adam's means of the slopes and of their squares, for each array of the net."""
    rounds: int = 0
    steps: int = 0
    decisions: int = 0

    def arrays(self) -> list[Array]:
        """Return the matrices and biases of the net, layer by layer, for changes in place."""
        return [array for layer in self.net.layers for array in layer]


def train(
    path: Path, settings: Settings, report: Callable[[Point], None] = lambda point: None
) -> None:
    """Train for all rounds, or for those that are not done yet, and write the weights.

    A finished training of the same settings is continued if more rounds are asked for. Raise
    ValueError for files of another training, and for files of another kind.
    """
    state_path = path.with_name(f"{path.name}.training")
    progress, finished = _earlier(path, settings)
    if state_path.exists():
        progress = begin(settings)
        _restore(state_path, settings, progress)
    elif progress.rounds >= settings.rounds:
        raise ValueError(
            f"{path}: {progress.rounds} rounds are done; a training that goes on from there has "
            f"more of them, such as --rounds {2 * progress.rounds}"
        )
    report_every = max(1, settings.rounds // _POINTS)
    while progress.rounds < settings.rounds:
        error = play_and_fit(settings, progress)
        is_last = progress.rounds == settings.rounds
        if progress.rounds % report_every == 0 or is_last:
            # The weights of a finished training are replaced only by those of a longer one.
            if is_last or not finished:
                write_weights(path, weights_of(settings, progress))
            _save_state(state_path, settings, progress)
            lead, margin = lead_over_steady(settings, progress)
            point = {"rounds": progress.rounds, "decisions": progress.decisions}
            report({**point, "error": error, "lead": lead, "margin": margin})
    state_path.unlink(missing_ok=True)


def begin(settings: Settings) -> Progress:
    """Return the progress of round 0: a random net, which answers 0.5 to any inputs."""
    rng = np.random.default_rng(settings.seed)
    sizes = (INPUTS, *settings.hidden)
    layers = [
        (rng.normal(0, 1 / np.sqrt(inputs), (inputs, outputs)).astype(F32), np.zeros(outputs, F32))
        for inputs, outputs in pairwise(sizes)
    ]
    # The last layer ignores its inputs at first: weights 0 and the bias 0.5.
    layers.append((np.zeros((sizes[-1], 1), F32), np.full(1, 0.5, F32)))
    arrays = [array for layer in layers for array in layer]
    moments = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
    return Progress(Net(layers, _SPREADS), moments)


def play_and_fit(settings: Settings, progress: Progress) -> float:
    """Play a round and fit the net to it; return the mean squared error of its examples."""
    rng = np.random.default_rng([settings.seed, progress.rounds])
    share_done = progress.rounds / settings.rounds
    # The learning rate and the share of random choices change evenly from round to round.
    at_random = _AT_RANDOM[0] + (_AT_RANDOM[1] - _AT_RANDOM[0]) * share_done
    if progress.rounds == 0:
        at_random = 0.3  # an untrained net needs more variety
    round_ = _Round(settings, progress, at_random, rng)
    round_.play()
    inputs, targets = round_.examples()
    rate = _RATES[0] + (_RATES[1] - _RATES[0]) * share_done
    errors: list[float] = []
    for _ in range(_PASSES):
        order = rng.permutation(len(targets))
        for start in range(0, len(order) - _AT_ONCE + 1, _AT_ONCE):
            rows = order[start : start + _AT_ONCE]
            errors.append(_adam_step(progress, inputs[rows], targets[rows], rate))
    progress.net.spreads = round_.better_spreads()
    progress.decisions += round_.batch.decisions
    progress.rounds += 1
    return sum(errors) / max(1, len(errors))


class _Round(EvaluationPolicy):
    """Games of the net with itself, with some random choices, and the examples from them."""

    def __init__(
        self, settings: Settings, progress: Progress, at_random: float, rng: np.random.Generator
    ) -> None:
        super().__init__(progress.net)
        games, players = settings.games, settings.players
        rules = preset(settings.rules[progress.rounds % len(settings.rules)])
        self.batch = Batch(rules, players, games)
        open_random(self.batch, np.arange(games), rng)
        self.rng, self.at_random = rng, at_random
        self.spreads = np.array([1, *progress.net.spreads, 1], F32)
        self.over = np.zeros(games, bool)
        # [game, dive, seat]: points at the end of the dive, and the placement score that these
        # points were worth; NaN until the dive has ended.
        self.points = np.full((games, DIVES + 1, players), np.nan, F32)
        self.end_values = np.full((games, DIVES + 1, players), np.nan, F32)
        self.examples_so_far: list[tuple[Array, Array, Array]] = []
        """The parts of the examples so far, three arrays each.

        These are indexes in the flat `end_values` (game, dive, seat), values [examples], and inputs
        [examples, INPUTS] of their positions.
        """

    def play(self) -> None:
        """Play until most games are over, and collect the examples.

        The few longest games are dropped: waiting for them would take more time than they are
        worth.
        """
        batch, dice = self.batch, RandomDice(self.rng)
        while self.over.mean() < _PLAYED:
            turn = batch.turn()
            batch.declare(turn, self)
            self._note_some_seat(np.flatnonzero(self.rng.random(batch.games, F32) < _OTHERS))
            batch.move(turn, dice(batch, turn))
            self._end_dives(batch.search(turn, self))

    def pick_options(self, batch: Batch, turn: Turn, values: Array, inputs: Array) -> Array:
        """Return each diver's option, mostly the best one, and store the positions as examples.

        A share of the options is random.
        """
        choice: Array = values.argmax(axis=0)
        random_rows = np.flatnonzero(self.rng.random(len(choice), F32) < self.at_random)
        choice[random_rows] = self.rng.integers(0, len(values), len(random_rows))
        row = np.arange(len(choice))
        # Inputs are listed by option and then by diver.
        example = inputs[choice * len(choice) + row]
        self._note(turn.games, turn.diver % batch.players, values[choice, row], example)
        return choice

    def _note_some_seat(self, games: Array) -> None:
        """Store the position of a random seat in these games, between declaration and dice."""
        if len(games):
            first = self.batch.to_move[games]
            turns_after_mover = int(self.rng.integers(self.batch.players))
            facts = facts_of(self.batch, games, first, turns_after_mover)
            # The declaration has used the mover's air, and `facts_of` wants the air before it.
            facts.air = facts.air + facts.divers[0].load
            facts.rolls = float(turns_after_mover == 0)
            inputs = columns(facts)
            seats = (first + turns_after_mover) % self.batch.players
            self._note(games, seats, self.net(inputs), inputs)

    def _note(self, games: Array | None, seats: Array, values: Array, inputs: Array) -> None:
        """Store positions of these games, or of all games for None, unless a game is over."""
        # Games that are over were opened anew to keep the batch full, and do not count.
        # An array indexed by None has all of its entries.
        rows = np.flatnonzero(~self.over[games])
        games = np.arange(len(self.over))[games][rows]
        dive = games * (DIVES + 1) + self.batch.dive[games]
        end_index = dive * self.batch.players + seats[rows]
        self.examples_so_far.append((end_index, values[rows], inputs[rows]))

    def _end_dives(self, games: Array) -> None:
        """Store the worth of the points at the end of these dives, and begin the next dives.

        After the last dive the worth is the placement score itself. Games that are over are opened
        anew.
        """
        if not len(games):
            return
        dives, (points, halves) = self.batch.dive[games], self.batch.results(games)
        finished = self.batch.clean_up(games, self)
        is_counted = ~self.over[games]
        is_over = np.isin(games, finished)[:, None]
        end_values = standings_of(points.astype(F32), self.spreads[dives])
        # A placement score is the share of the others that a seat is ahead of, at two halves each.
        end_values = np.where(is_over, halves / (2 * (self.batch.players - 1)), end_values)
        self.points[games[is_counted], dives[is_counted]] = points[is_counted]
        self.end_values[games[is_counted], dives[is_counted]] = end_values[is_counted]
        self.over[finished] = True
        open_random(self.batch, finished, self.rng)

    def examples(self) -> tuple[Array, Array]:
        """Return inputs [examples, INPUTS] and targets [examples] of all dives that ended."""
        end_index, values, inputs = map(np.concatenate, zip(*self.examples_so_far, strict=True))
        end_values = self.end_values.reshape(-1)[end_index]
        # The sort is stable: it brings the examples of a seat in a dive together, in order of time.
        rows = end_index.argsort(kind="stable")
        has_ended = ~np.isnan(end_values[rows])
        rows = rows[has_ended]
        return inputs[rows], _targets(end_index[rows], values[rows], end_values[rows])

    def better_spreads(self) -> tuple[float, float]:
        """Return spreads for dives 1 and 2 that are one step closer to this round's results.

        A spread says how many points of lead are how likely to win. The step is one of Gauss-Newton
        on the inverse of the spread, a tenth of its full length.
        """
        finals = self.end_values[:, DIVES]
        spreads = []
        for dive in range(1, DIVES):
            has_both = ~np.isnan(finals[:, 0]) & ~np.isnan(self.points[:, dive, 0])
            points, steepness = self.points[has_both, dive], 1 / self.spreads[dive]
            gaps = points[:, :, None] - points[:, None, :]
            # [games, seats, seats]: the logistic curve, as the chance to end ahead of a rival
            ahead = 0.5 + 0.5 * np.tanh(gaps * steepness / 2)
            rivals = points.shape[1] - 1
            # Without the seat's 0.5 against itself
            residual = finals[has_both] - (ahead.sum(axis=2) - 0.5) / rivals
            slope = (ahead * (1 - ahead) * gaps).sum(axis=2) / rivals
            steepness += 0.1 * (residual * slope).sum() / max((slope * slope).sum(), 1e-6)
            spreads.append(float(1 / np.clip(steepness, 0.03, 0.6)))
        return spreads[0], spreads[1]


def _targets(end_index: Array, values: Array, end_values: Array) -> Array:
    """Return the target of each example, from the value and the target of its seat's next example.

    Examples are sorted by `end_index`, which names their seat and dive, and then by time. The
    target of a dive's last example is the end value; targets of earlier ones follow from it
    backwards: TD(λ).
    """
    is_last = np.append(end_index[1:] != end_index[:-1], True)
    last_rows = np.flatnonzero(is_last)
    row = np.arange(len(end_index))
    # The number of later examples of the same seat in the same dive
    later_count = last_rows[np.searchsorted(last_rows, row)] - row
    # All examples with the same count are computed at once, from the end of the dives backwards.
    # The first group are the last examples, which have the end value; the last group is empty.
    rows_by_count = np.split(later_count.argsort(kind="stable"), np.bincount(later_count).cumsum())
    targets: Array = end_values.copy()
    for rows in rows_by_count[1:-1]:
        targets[rows] = (1 - _TRACE) * values[rows + 1] + _TRACE * targets[rows + 1]
    return targets


def _adam_step(progress: Progress, inputs: Array, targets: Array, rate: float) -> float:
    """Change the net by one step of Adam; return the mean squared error before the step."""
    layers = progress.net.layers
    layer_inputs = [inputs]
    for matrix, bias in layers[:-1]:
        layer_inputs.append(np.maximum(layer_inputs[-1] @ matrix + bias, 0))
    # The slope of the error, and backwards through the layers to each matrix and bias
    error = (layer_inputs[-1] @ layers[-1][0] + layers[-1][1])[:, 0] - targets
    slope = error[:, None] / F32(len(targets))
    gradients: list[Array] = []
    for (matrix, _), layer_input in zip(reversed(layers), reversed(layer_inputs), strict=True):
        gradients = [layer_input.T @ slope, slope.sum(axis=0), *gradients]
        slope = (slope @ matrix.T) * (layer_input > 0)
    progress.steps += 1
    # The usual decay rates of Adam, 0.9 and 0.999; the means are corrected for their start at 0.
    rate /= 1 - 0.9**progress.steps
    scale = F32(1 - 0.999**progress.steps)
    arrays = progress.arrays()
    for array, moments, gradient in zip(arrays, progress.moments, gradients, strict=True):
        mean, square = moments
        mean[:] += F32(0.1) * (gradient - mean)
        square[:] += F32(0.001) * (gradient * gradient - square)
        array[:] -= F32(rate) * mean / (np.sqrt(square / scale) + F32(1e-8))
    return float((error * error).mean())


def lead_over_steady(settings: Settings, progress: Progress) -> tuple[float, float]:
    """Return the net's lead over `steady` in placement score, and its 95 % margin.

    They play against each other in games with half of the seats each, chosen at random.
    """
    rng = np.random.default_rng([settings.seed, progress.rounds, 1])
    players, games = settings.players, 2 * settings.games
    batch = Batch(preset(settings.rules[0]), players, games)
    open_random(batch, np.arange(games), rng)
    is_net = rng.random((games, players)).argsort(axis=1) < players // 2
    net = EvaluationPolicy(Net.of(weights_of(settings, progress)))
    policy = BySeat([SteadyPolicy(players), net], is_net.astype(np.int64))
    dice = RandomDice(rng)
    leads = np.full(games, np.nan)
    while np.isnan(leads).any():
        finished = batch.play_turn(policy, dice)
        score = batch.results(finished).halves / (2 * (players - 1))
        is_net_seat = is_net[finished]
        lead = (score * is_net_seat).sum(axis=1) / is_net_seat.sum(axis=1)
        lead -= (score * ~is_net_seat).sum(axis=1) / (~is_net_seat).sum(axis=1)
        # A game counts once, and plays on as another one until all have ended.
        leads[finished] = np.where(np.isnan(leads[finished]), lead, leads[finished])
        open_random(batch, finished, rng)
    return float(leads.mean()), float(SURE * leads.std() / np.sqrt(games))


def weights_of(settings: Settings, progress: Progress) -> Weights:
    """Return the weights as they are written to the file, rounded to 16-bit floats."""
    layers = [
        Layer(
            tuple(map(tuple, matrix.T.astype(np.float16).tolist())),
            tuple(bias.astype(np.float16).tolist()),
        )
        for matrix, bias in progress.net.layers
    ]
    counts = {"rounds": progress.rounds, "decisions": progress.decisions}
    return Weights(
        settings.name,
        settings.players,
        progress.net.spreads,
        tuple(layers),
        {"settings": _facts(settings), "done": counts},
    )


# A training that goes on

_COUNTS = ("rounds", "steps", "decisions")


def _all_arrays(progress: Progress) -> list[Array]:
    """Return all arrays that a training changes, in a fixed order: the net and Adam's means."""
    return [*progress.arrays(), *(array for pair in progress.moments for array in pair)]


def _facts(settings: Settings) -> dict[str, Any]:
    """Return the settings with the version of the inputs, as they come back from JSON."""
    facts: dict[str, Any] = json.loads(json.dumps({"inputs": VERSION, **asdict(settings)}))
    return facts


def _earlier(path: Path, settings: Settings) -> tuple[Progress, bool]:
    """Return the progress of an earlier training from its file of weights, and if it was done.

    Without a file, that is a new net and False. The earlier training may have had another number of
    rounds; raise ValueError for any other difference, and for any other file.
    """
    progress = begin(settings)
    if not os.path.lexists(path):
        return progress, False
    if not path.is_file():
        raise ValueError(f"{path} is no file; name another one for the weights")
    try:
        weights = read_weights(path)
    except WeightsError as error:
        raise ValueError(f"{error}; nothing is written over it: name another file") from None
    facts, training = _facts(settings), weights.training
    origin = "of no training known here"
    try:
        earlier, done = training["settings"], training["done"]  # type: ignore[index]
        different = [name for name in facts if name != "rounds" and earlier[name] != facts[name]]
        if different:
            differences = ", ".join(
                f"{name} {json.dumps(earlier[name])[:60]}" for name in different
            )
            origin = f"of another training, with {differences}"
        else:
            progress.net = Net.of(weights)
            progress.rounds, progress.decisions = int(done["rounds"]), int(done["decisions"])
            return progress, progress.rounds >= int(earlier["rounds"])
    except (LookupError, TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{path}: these weights are {origin}; name another file")


def _save_state(path: Path, settings: Settings, progress: Progress) -> None:
    """Write the state of a training that is not finished; the file is replaced as a whole."""
    counts = {name: getattr(progress, name) for name in _COUNTS}
    temporary = half_written(path)
    with temporary.open("wb") as file:
        np.savez(
            file,
            json.dumps([_facts(settings), progress.net.spreads, counts]),
            *_all_arrays(progress),
        )
    temporary.replace(path)


def _restore(path: Path, settings: Settings, progress: Progress) -> None:
    """Read the state of a training back into `progress`.

    Raise ValueError for a file that is damaged, or of a training with other settings.
    """
    try:
        with np.load(path) as saved:
            facts, spreads, counts = json.loads(str(saved["arr_0"]))
            if facts != _facts(settings):
                raise ValueError("it was begun with other settings")
            for i, array in enumerate(_all_arrays(progress), 1):
                array[:] = saved[f"arr_{i}"]
        progress.net.spreads = float(spreads[0]), float(spreads[1])
        for name in _COUNTS:
            setattr(progress, name, int(counts[name]))
    except (
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
        RecursionError,
        EOFError,
        BadZipFile,
    ) as error:
        raise ValueError(
            f"{path}: this training cannot go on: {error}; remove the file to begin anew"
        ) from None


def main(arguments: Sequence[str]) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deepsea_sdk.train",
        description="Train weights for the evaluation, for one number of seats. Points of the "
        "curve are printed as lines of JSON. A training that was stopped goes on, and a longer one "
        "goes on from weights that are finished.",
    )
    defaults = Settings(players=4)
    parser.add_argument("file", type=Path, help="where the weights are written")
    seats = range(MIN_PLAYERS, MAX_PLAYERS + 1)
    parser.add_argument(
        "--seats", dest="players", type=int, default=defaults.players, choices=seats
    )
    parser.add_argument("--rules", default=",".join(RULES), help="presets, one a round in turn")
    parser.add_argument("--rounds", type=int, default=defaults.rounds)
    parser.add_argument("--games", type=int, default=defaults.games, help="games in a round")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--name", default=defaults.name, help="name and version of the weights")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.games) < 1 or options.seed < 0:
        parser.error("--rounds and --games are 1 or more, and --seed is not below 0")
    try:
        options.rules = tuple(preset(name).name for name in options.rules.split(","))
        settings = vars(options)
        train(settings.pop("file"), Settings(**settings), _print)
    except (InvalidRules, ValueError, OSError) as error:
        sys.stderr.write(f"deepsea_sdk.train: {error}\n")
        return 2
    return 0


def _print(point: Point) -> None:
    """Write a point of the training curve as a line of JSON."""
    rounded = {name: round(number, 5) for name, number in point.items()}
    sys.stdout.write(json.dumps(rounded) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
