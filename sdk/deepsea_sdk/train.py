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
_BATCH_SIZE = 512
"""Examples in one step of the optimiser."""
_LEARNING_RATES = (2e-3, 5e-5)
"""Learning rates of the first round and of the last one."""
_RANDOM_SHARES = (0.14, 0.02)
"""Shares of choices that are made at random, in the first round and in the last one."""
_UNTRAINED_RANDOM_SHARE = 0.3
"""Share of random choices of a net without any training, which needs more variety."""
_ENOUGH_ENDED = 0.97
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
    """Return the state of a training before its first round, with an untrained net.

    The hidden layers are random, and depend on the seed alone. The output is 0.5 for any inputs.
    """
    rng = np.random.default_rng(settings.seed)
    sizes = (INPUTS, *settings.hidden)
    layers = []
    for inputs, outputs in pairwise(sizes):
        # With this deviation an output varies about as much as one of the inputs.
        matrix = rng.normal(0, 1 / np.sqrt(inputs), (inputs, outputs)).astype(F32)
        layers.append((matrix, np.zeros(outputs, F32)))
    # The last layer ignores its inputs at first: weights 0 and the bias 0.5.
    layers.append((np.zeros((sizes[-1], 1), F32), np.full(1, 0.5, F32)))
    arrays = [array for layer in layers for array in layer]
    moments = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
    return Progress(Net(layers, _SPREADS), moments)


def play_and_fit(settings: Settings, progress: Progress) -> float:
    """Play the next round of games, fit the net to their examples, and count the round.

    Return the mean squared error of the net on the examples while it was fitted to them.
    """
    rng = np.random.default_rng([settings.seed, progress.rounds])
    share_done = progress.rounds / settings.rounds
    random_share = _between(_RANDOM_SHARES, share_done)
    if progress.rounds == 0:
        random_share = _UNTRAINED_RANDOM_SHARE
    round_ = _Round(settings, progress, random_share, rng)
    round_.play()
    inputs, targets = round_.examples()
    learning_rate = _between(_LEARNING_RATES, share_done)
    mean_error = _fit(progress, inputs, targets, learning_rate, rng)
    progress.net.spreads = round_.better_spreads()
    progress.decisions += round_.batch.decisions
    progress.rounds += 1
    return mean_error


def _between(first_and_last: tuple[float, float], share_done: float) -> float:
    """Return a value of the training that changes evenly from its first round to its last one.

    share_done  share of the rounds that have been played, from 0 to 1
    """
    first, last = first_and_last
    return first + (last - first) * share_done


def _fit(
    progress: Progress,
    inputs: Array,
    targets: Array,
    learning_rate: float,
    rng: np.random.Generator,
) -> float:
    """Fit the net to examples, and return the mean squared error over all steps.

    Each pass takes the examples in a new random order, `_BATCH_SIZE` in each step. The examples
    that are left over at the end of a pass are not used in it.
    """
    errors: list[float] = []
    for _ in range(_PASSES):
        order = rng.permutation(len(targets))
        for start in range(0, len(order) - _BATCH_SIZE + 1, _BATCH_SIZE):
            rows = order[start : start + _BATCH_SIZE]
            errors.append(_adam_step(progress, inputs[rows], targets[rows], learning_rate))
    return sum(errors) / max(1, len(errors))  # 0 if there are too few examples for a step


class _Round(EvaluationPolicy):
    """Games of the net with itself, with some random choices, and the examples from them."""

    def __init__(
        self, settings: Settings, progress: Progress, random_share: float, rng: np.random.Generator
    ) -> None:
        super().__init__(progress.net)
        games, players = settings.games, settings.players
        rules = preset(settings.rules[progress.rounds % len(settings.rules)])
        self.batch = Batch(rules, players, games)
        open_random(self.batch, np.arange(games), rng)
        self.rng, self.random_share = rng, random_share
        self.spreads = np.array([1, *progress.net.spreads, 1], F32)
        """[dive] the spread at its end; the 1 of dives 0 and 3 has no effect."""
        self.is_over = np.zeros(games, bool)
        """[game] True once it is over: another game goes on in its place, and is not counted."""
        # [game, dive, seat]: points at the end of the dive, and the placement score to expect with
        # them; NaN until the dive has ended.
        self.points = np.full((games, DIVES + 1, players), np.nan, F32)
        self.end_values = np.full((games, DIVES + 1, players), np.nan, F32)
        self.stored_parts: list[tuple[Array, Array, Array]] = []
        """The examples so far, in parts of three arrays.

        These are the examples' indexes in the flat `end_values` (game, dive, seat), the net's
        values of the positions [examples], and the inputs of the net [examples, INPUTS].
        """

    def play(self) -> None:
        """Play until nearly all games are over, and store the examples.

        The few longest games are not finished: each of their turns takes as long as one of all
        games, since the whole batch is played on.
        """
        batch, dice = self.batch, RandomDice(self.rng)
        while self.is_over.mean() < _ENOUGH_ENDED:
            turn = batch.turn()
            batch.declare(turn, self)  # calls `pick_options`, which stores the movers' positions
            # In some of the games the position of a random seat becomes an example, too.
            sampled_games = np.flatnonzero(self.rng.random(batch.games, F32) < _OTHERS)
            self._store_random_seats(sampled_games)
            batch.move(turn, dice(batch, turn))
            ended_dives = batch.search(turn, self)
            self._finish_dives(ended_dives)

    def pick_options(self, batch: Batch, turn: Turn, values: Array, inputs: Array) -> Array:
        """Choose an option for each diver, and store the positions that follow as examples.

        Return [divers] the numbers of the options: those of highest value, or random ones for a
        share `random_share` of the divers.

        values  [options, divers]
        inputs  [options × divers, INPUTS] inputs of the net, all divers of option 0 first
        """
        divers = values.shape[1]
        choice: Array = values.argmax(axis=0)
        random_rows = np.flatnonzero(self.rng.random(divers, F32) < self.random_share)
        choice[random_rows] = self.rng.integers(0, len(values), len(random_rows))
        diver_numbers = np.arange(divers)
        chosen_values = values[choice, diver_numbers]
        chosen_inputs = inputs[choice * divers + diver_numbers]
        self._store_examples(turn.games, turn.diver % batch.players, chosen_values, chosen_inputs)
        return choice

    def _store_random_seats(self, games: Array) -> None:
        """Store the position of a random seat in each of these games as an example.

        This is called after the declarations and before the dice. The seat is drawn as a number of
        turns after the seat to move, the same number for all games.
        """
        if not len(games):
            return
        mover = self.batch.to_move[games]
        turns_after_mover = int(self.rng.integers(self.batch.players))
        facts = facts_of(self.batch, games, mover, turns_after_mover)
        # The mover has breathed already, and `facts_of` expects the air before that.
        facts.air = facts.air + facts.divers[0].load
        # The mover is still to roll; all other seats begin with their declaration.
        facts.rolls = float(turns_after_mover == 0)
        inputs = columns(facts)
        seats = (mover + turns_after_mover) % self.batch.players
        self._store_examples(games, seats, self.net(inputs), inputs)

    def _store_examples(
        self, games: Array | None, seats: Array, values: Array, inputs: Array
    ) -> None:
        """Store a position of each game as an example, unless the game is over.

        games   numbers of the games; None for all games
        seats   [games] seat from whose side the position is seen
        values  [games] the net's value of the position for that seat
        inputs  [games, INPUTS] the position as inputs of the net
        """
        if games is None:
            games = np.arange(len(self.is_over))
        rows = np.flatnonzero(~self.is_over[games])
        counted_games = games[rows]
        dives = self.batch.dive[counted_games]
        # The end values are not known before the dives end, so an example has only the index at
        # which `end_values`, as a flat array, will have that of its game, dive and seat.
        shape = self.end_values.shape
        end_index = np.ravel_multi_index((counted_games, dives, seats[rows]), shape)
        self.stored_parts.append((end_index, values[rows], inputs[rows]))

    def _finish_dives(self, games: Array) -> None:
        """Store the results of the dives that have just ended, and begin the next dives.

        games  numbers of the games in which a dive has ended

        A game that is over is replaced by a new one, which keeps the batch full and is not counted.
        """
        if not len(games):
            return
        # These come before `clean_up`, which begins the next dive.
        dives = self.batch.dive[games]
        points, halves = self.batch.results(games)
        finished = self.batch.clean_up(games, self)
        expected_scores = standings_of(points.astype(F32), self.spreads[dives])
        # Two halves for each rival that the seat is ahead of, as a share of all rivals
        final_scores = halves / (2 * (self.batch.players - 1))
        has_finished = np.isin(games, finished)[:, None]
        end_values = np.where(has_finished, final_scores, expected_scores)
        is_counted = ~self.is_over[games]
        self.points[games[is_counted], dives[is_counted]] = points[is_counted]
        self.end_values[games[is_counted], dives[is_counted]] = end_values[is_counted]
        self.is_over[finished] = True
        open_random(self.batch, finished, self.rng)

    def examples(self) -> tuple[Array, Array]:
        """Return the stored examples of all dives that have ended, for the optimiser.

        These are the inputs of the net [examples, INPUTS] and the values that it is to learn for
        them [examples].
        """
        end_index, values, inputs = map(np.concatenate, zip(*self.stored_parts, strict=True))
        end_values = self.end_values.reshape(-1)[end_index]
        # A stable sort brings the examples of a seat in a dive together, in order of time.
        rows = end_index.argsort(kind="stable")
        has_ended = ~np.isnan(end_values[rows])
        rows = rows[has_ended]
        return inputs[rows], _targets(end_index[rows], values[rows], end_values[rows])

    def better_spreads(self) -> tuple[float, float]:
        """Return the spreads of dives 1 and 2, moved one step towards this round's results.

        A spread is the lead in points at the end of the dive with which a seat ends the game ahead
        of 73 of 100 rivals.
        """
        final_scores = self.end_values[:, DIVES]
        spreads = []
        for dive in range(1, DIVES):
            points = self.points[:, dive]
            has_both = ~np.isnan(final_scores[:, 0]) & ~np.isnan(points[:, 0])
            spread = _improved_spread(self.spreads[dive], points[has_both], final_scores[has_both])
            spreads.append(spread)
        return spreads[0], spreads[1]


def _improved_spread(spread: float, points: Array, final_scores: Array) -> float:
    """Return a spread with which the points of a dive predict the final scores a little better.

    The games of one round differ by chance, so it is only a tenth of a Gauss-Newton step. The step
    is made in the steepness of the logistic curve, which is the inverse of the spread.

    spread        the spread so far
    points        [games, seats] points at the end of the dive
    final_scores  [games, seats] placement scores at the end of the game
    """
    steepness = 1 / spread
    leads = points[:, :, None] - points[:, None, :]
    # [games, seats, seats]: chance to end ahead of the other seat; the logistic curve as a tanh
    ahead = 0.5 + 0.5 * np.tanh(leads * steepness / 2)
    rivals = points.shape[1] - 1
    # A seat's 0.5 against itself does not count.
    predicted = (ahead.sum(axis=2) - 0.5) / rivals
    residual = final_scores - predicted
    # The derivative of `predicted` by the steepness; that of the logistic curve f is f * (1 - f).
    slope = (ahead * (1 - ahead) * leads).sum(axis=2) / rivals
    # A whole step would be the one that makes the squared residuals least, if the slope stayed.
    steepness += 0.1 * (residual * slope).sum() / max((slope * slope).sum(), 1e-6)
    # Even after a round of odd games a spread stays between 1.7 and 33 points.
    return float(1 / np.clip(steepness, 0.03, 0.6))


def _targets(end_index: Array, values: Array, end_values: Array) -> Array:
    """Return the value that the net is to learn for each example, by TD(λ).

    For the last example of a seat in a dive it is the end value. For an earlier one it is a mean of
    the net's value of the next example and of the target of the next example, with λ = `_TRACE` as
    the weight of the latter.

    end_index   [examples] number of the seat's dive: equal numbers are adjacent, in order of time
    values      [examples] values of the positions by the net
    end_values  [examples] placement score to expect at the end of the dive
    """
    # [examples] True for the last example of its seat in its dive
    is_last = np.append(end_index[1:] != end_index[:-1], True)
    last_rows = np.flatnonzero(is_last)
    row_numbers = np.arange(len(end_index))
    # For each example the row of the last one of the same seat and dive: the first from there on
    own_last_rows = last_rows[np.searchsorted(last_rows, row_numbers)]
    later_count = own_last_rows - row_numbers  # later examples of the same seat in the same dive
    # Examples with equal counts are computed at once, from the end of the dives backwards.
    rows_by_count = np.split(later_count.argsort(kind="stable"), np.bincount(later_count).cumsum())
    targets: Array = end_values.copy()
    # Group 0 are the last examples, which are done. `split` adds an empty group at the end.
    for rows in rows_by_count[1:-1]:
        targets[rows] = (1 - _TRACE) * values[rows + 1] + _TRACE * targets[rows + 1]
    return targets


def _adam_step(progress: Progress, inputs: Array, targets: Array, learning_rate: float) -> float:
    """Change the net by one step of the optimiser Adam on a batch of examples.

    Return the mean squared error of the net on the batch before the step.
    """
    gradients, mean_error = _gradients(progress.net.layers, inputs, targets)
    progress.steps += 1
    # The running means begin at 0. In the first steps these two factors make up for that.
    rate = learning_rate / (1 - 0.9**progress.steps)
    scale = F32(1 - 0.999**progress.steps)
    arrays = progress.arrays()
    for array, moments, gradient in zip(arrays, progress.moments, gradients, strict=True):
        mean, mean_square = moments
        # The usual decay rates of Adam, 0.9 and 0.999
        mean[:] += F32(0.1) * (gradient - mean)
        mean_square[:] += F32(0.001) * (gradient * gradient - mean_square)
        # The last summand keeps this from a division by 0.
        array[:] -= F32(rate) * mean / (np.sqrt(mean_square / scale) + F32(1e-8))
    return mean_error


def _gradients(
    layers: Sequence[tuple[Array, Array]], inputs: Array, targets: Array
) -> tuple[list[Array], float]:
    """Return the gradients of half the mean squared error, and the mean squared error itself.

    The gradients, computed by backpropagation, are those of each matrix and bias, in the order of
    the layers.
    """
    # Forwards: the inputs of each layer. All layers but the last one make negative values 0.
    layer_inputs = [inputs]
    for matrix, bias in layers[:-1]:
        layer_inputs.append(np.maximum(layer_inputs[-1] @ matrix + bias, 0))
    last_matrix, last_bias = layers[-1]
    outputs = (layer_inputs[-1] @ last_matrix + last_bias)[:, 0]
    error = outputs - targets
    # Backwards: `slope` is that of half the mean squared error by the outputs of the layer.
    slope = error[:, None] / F32(len(targets))
    gradients: list[Array] = []
    for (matrix, _), layer_input in zip(reversed(layers), reversed(layer_inputs), strict=True):
        gradients = [layer_input.T @ slope, slope.sum(axis=0), *gradients]
        slope = (slope @ matrix.T) * (layer_input > 0)
    return gradients, float((error * error).mean())


def lead_over_steady(settings: Settings, progress: Progress) -> tuple[float, float]:
    """Let the net play against `steady`, and return its mean lead with the margin of 95 %.

    The lead is the difference of the mean placement scores. Each of the two has half of the seats
    of a game, chosen at random; of an odd number of seats the net has one less.
    """
    rng = np.random.default_rng([settings.seed, progress.rounds, 1])
    players, games = settings.players, 2 * settings.games
    batch = Batch(preset(settings.rules[0]), players, games)
    open_random(batch, np.arange(games), rng)
    # [games, seats]: in each game the numbers from 0 on in a random order
    random_order = rng.random((games, players)).argsort(axis=1)
    is_net = random_order < players // 2
    net = EvaluationPolicy(Net.of(weights_of(settings, progress)))
    policy = BySeat([SteadyPolicy(players), net], is_net.astype(np.int64))
    dice = RandomDice(rng)
    leads = np.full(games, np.nan)  # NaN until the game has ended
    while np.isnan(leads).any():
        finished = batch.play_turn(policy, dice)
        scores = batch.results(finished).halves / (2 * (players - 1))
        new_leads = _mean_lead(scores, is_net[finished])
        # Games go on as new ones until all have ended, but only the first one counts.
        leads[finished] = np.where(np.isnan(leads[finished]), new_leads, leads[finished])
        open_random(batch, finished, rng)
    return float(leads.mean()), float(SURE * leads.std() / np.sqrt(games))


def _mean_lead(scores: Array, is_net: Array) -> Array:
    """Return [games] the mean score of the net's seats less that of the other seats.

    scores  [games, seats]
    is_net  [games, seats] True for the seats of the net
    """
    net_mean: Array = (scores * is_net).sum(axis=1) / is_net.sum(axis=1)
    others_mean: Array = (scores * ~is_net).sum(axis=1) / (~is_net).sum(axis=1)
    return net_mean - others_mean


def weights_of(settings: Settings, progress: Progress) -> Weights:
    """Return the weights of the net for its file, with the settings and the rounds done so far.

    Numbers are rounded to 16-bit floats, as the file stores them.
    """
    layers = []
    for matrix, bias in progress.net.layers:
        # The file has a row for each output; the matrix has one for each input.
        rows = tuple(map(tuple, matrix.T.astype(np.float16).tolist()))
        layers.append(Layer(rows, tuple(bias.astype(np.float16).tolist())))
    counts = {"rounds": progress.rounds, "decisions": progress.decisions}
    return Weights(
        settings.name,
        settings.players,
        progress.net.spreads,
        tuple(layers),
        {"settings": _json_settings(settings), "done": counts},
    )


# A training that goes on

_COUNTS = ("rounds", "steps", "decisions")


def _all_arrays(progress: Progress) -> list[Array]:
    """Return all arrays that a training changes, in a fixed order: the net and Adam's means."""
    return [*progress.arrays(), *(array for pair in progress.moments for array in pair)]


def _json_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings, and the version of the net's inputs, in the form that JSON gives back.

    Tuples are lists, for example. So they can be compared with settings that were read from a file.
    """
    data: dict[str, Any] = json.loads(json.dumps({"inputs": VERSION, **asdict(settings)}))
    return data


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
    wanted, training = _json_settings(settings), weights.training
    origin = "of no training known here"
    try:
        earlier, done = training["settings"], training["done"]  # type: ignore[index]
        different = [name for name in wanted if name != "rounds" and earlier[name] != wanted[name]]
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
    """Write the state of an unfinished training to a file, from which `_restore` reads it.

    The state is written beside the old file and then replaces it, so the file is never incomplete.
    """
    counts = {name: getattr(progress, name) for name in _COUNTS}
    header = json.dumps([_json_settings(settings), progress.net.spreads, counts])
    temporary = half_written(path)
    with temporary.open("wb") as file:
        np.savez(file, header, *_all_arrays(progress))
    temporary.replace(path)


def _restore(path: Path, settings: Settings, progress: Progress) -> None:
    """Read the state that `_save_state` wrote into `progress`, whose arrays have the same shapes.

    Raise ValueError for a file that is damaged, or of a training with other settings.
    """
    try:
        with np.load(path) as saved:
            # numpy names the arrays of a file arr_0, arr_1 and so on.
            saved_settings, spreads, counts = json.loads(str(saved["arr_0"]))
            if saved_settings != _json_settings(settings):
                raise ValueError("it was begun with other settings")
            for number, array in enumerate(_all_arrays(progress), start=1):
                array[:] = saved[f"arr_{number}"]
        progress.net.spreads = float(spreads[0]), float(spreads[1])
        for name in _COUNTS:
            setattr(progress, name, int(counts[name]))
    except (  # all that numpy, JSON and the numbers of a damaged file may raise
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
