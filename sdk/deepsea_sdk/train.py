"""Train weights for the evaluation: python -m deepsea_sdk.train FILE --seats 4.

In a round the net plays some hundreds of games with itself, by one rule set, and is fitted to them.
An example is a position after a choice, or of a seat that has none, and its target is half what the
seat's next position was worth and half how it went on from there (TD(λ)); a dive that has ended is
worth what such leads have been worth in the games so far.

Invariants: a round depends on the seed and on what earlier rounds have left alone, and that is kept
in FILE.training: a training that was stopped and is started again finds the same weights. Nothing
is overwritten but weights of the same settings with fewer rounds, and those of a finished training
only when the longer one has finished, too.
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

from .batch import Batch, BySeat, RandomDice, SteadyPolicy, Turn, open_random
from .batch.units import Array
from .coach.decisions import SURE
from .evaluation.arrays import F32, Evaluated, Net, columns, facts_of, standings_of
from .evaluation.inputs import INPUTS, VERSION
from .evaluation.net import (
    Layer,
    Weights,
    WeightsError,
    half_written,
    read_weights,
    write_weights,
)

RULES = tuple(name for other in PRESETS if other != DEFAULT for name in (DEFAULT, other))
"""Every other round is played by the default rules."""
_TRACE = 0.5
"""How much of a target is what came after the seat's next position (λ)."""
_OTHERS = 0.15
"""The share of turns in which the position of some seat is an example, too."""
_PASSES = 3
"""How often each example is used."""
_AT_ONCE = 512
"""Examples of a step."""
_RATES = (2e-3, 5e-5)
"""The learning rate of the first round and of the last one."""
_AT_RANDOM = (0.14, 0.02)
"""The share of choices that are made at random, in the first round and in the last one."""
_PLAYED = 0.97
"""A round is over when this share of its games is."""
_POINTS = 20
"""Of the curve."""
_SPREADS = (8.5, 6.5)
"""To begin with."""


@dataclass(frozen=True)
class Settings:
    """What is trained, and for how long."""

    players: int
    rules: tuple[str, ...] = RULES
    """Presets, one for each round in turn."""
    rounds: int = 160
    games: int = 1024
    """Of a round."""
    hidden: tuple[int, ...] = (64, 32)
    """Outputs of the hidden layers."""
    seed: int = 1
    name: str = "mine"


Point: TypeAlias = dict[str, float]
"""Of the curve: rounds and decisions so far, the mean squared error, the lead over `steady` in
placement score with the margin of 95 %."""


@dataclass
class Progress:
    """What a round leaves for the next one."""

    net: Net
    moments: list[tuple[Array, Array]]
    """Of Adam, for each array of the net."""
    rounds: int = 0
    steps: int = 0
    decisions: int = 0

    def arrays(self) -> list[Array]:
        return [array for layer in self.net.layers for array in layer]


def train(
    path: Path, settings: Settings, report: Callable[[Point], None] = lambda point: None
) -> None:
    """Train for all rounds, or for those that are left, and write the weights.

    With more rounds than a finished training of the same settings it goes on from that one's
    weights. Raises ValueError for what another training has left, and for a file of another kind.
    """
    kept = path.with_name(f"{path.name}.training")
    progress, finished = _earlier(path, settings)
    if kept.exists():
        progress = begin(settings)
        _restore(kept, settings, progress)
    elif progress.rounds >= settings.rounds:
        raise ValueError(
            f"{path}: {progress.rounds} rounds are done; a training that goes on from there has "
            f"more of them, such as --rounds {2 * progress.rounds}"
        )
    pace = max(1, settings.rounds // _POINTS)
    while progress.rounds < settings.rounds:
        error = play_and_fit(settings, progress)
        if progress.rounds % pace == 0 or progress.rounds == settings.rounds:
            if not finished or progress.rounds == settings.rounds:
                write_weights(path, weights_of(settings, progress))
            _keep(kept, settings, progress)
            lead, margin = lead_over_steady(settings, progress)
            point = {"rounds": progress.rounds, "decisions": progress.decisions}
            report({**point, "error": error, "lead": lead, "margin": margin})
    kept.unlink(missing_ok=True)


def begin(settings: Settings) -> Progress:
    """A net at random, whose answer is the mean placement score."""
    rng = np.random.default_rng(settings.seed)
    sizes = (INPUTS, *settings.hidden)
    layers = [
        (rng.normal(0, 1 / np.sqrt(before), (before, after)).astype(F32), np.zeros(after, F32))
        for before, after in pairwise(sizes)
    ]
    layers.append((np.zeros((sizes[-1], 1), F32), np.full(1, 0.5, F32)))
    arrays = [array for layer in layers for array in layer]
    return Progress(Net(layers, _SPREADS), [(np.zeros_like(a), np.zeros_like(a)) for a in arrays])


def play_and_fit(settings: Settings, progress: Progress) -> float:
    """Play a round and learn from it; returns the mean squared error of its examples."""
    rng = np.random.default_rng([settings.seed, progress.rounds])
    done = progress.rounds / settings.rounds
    at_random = _AT_RANDOM[0] + (_AT_RANDOM[1] - _AT_RANDOM[0]) * done
    played = _Round(settings, progress, at_random if progress.rounds else 0.3, rng)
    played.play()
    inputs, targets = played.examples()
    rate = _RATES[0] + (_RATES[1] - _RATES[0]) * done
    errors = [0.0]
    for _ in range(_PASSES):
        order = rng.permutation(len(targets))
        for start in range(0, len(order) - _AT_ONCE + 1, _AT_ONCE):
            some = order[start : start + _AT_ONCE]
            errors.append(_step(progress, inputs[some], targets[some], rate))
    progress.net.spreads = played.better_spreads()
    progress.decisions += played.batch.decisions
    progress.rounds += 1
    return sum(errors) / max(1, len(errors) - 1)


class _Round(Evaluated):
    """Games of the net with itself, with some choices at random; it notes the examples."""

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
        # By game, dive and seat: its points at the end of the dive, and what they were worth.
        self.points = np.full((games, DIVES + 1, players), np.nan, F32)
        self.worth = np.full((games, DIVES + 1, players), np.nan, F32)
        self.notes: list[tuple[Array, Array, Array]] = []
        """Whose positions, as an index of `worth`; their values and inputs."""

    def play(self) -> None:
        batch, dice = self.batch, RandomDice(self.rng)
        while self.over.mean() < _PLAYED:
            turn = batch.turn()
            batch.declare(turn, self)
            self._note_some_seat(np.flatnonzero(self.rng.random(batch.games, F32) < _OTHERS))
            batch.move(turn, dice(batch, turn))
            self._end_dives(batch.search(turn, self))

    def chosen(self, batch: Batch, turn: Turn, values: Array, inputs: Array) -> Array:
        choice: Array = values.argmax(axis=0)
        odd = np.flatnonzero(self.rng.random(len(choice), F32) < self.at_random)
        choice[odd] = self.rng.integers(0, len(values), len(odd))
        row = np.arange(len(choice))
        example = inputs[choice * len(choice) + row]
        self._note(turn.games, turn.diver % batch.players, values[choice, row], example)
        return choice

    def _note_some_seat(self, games: Array) -> None:
        """After the declaration, and before the dice."""
        if len(games):
            first = self.batch.to_move[games]
            own = int(self.rng.integers(self.batch.players))
            facts = facts_of(self.batch, games, first, own)
            facts.air = facts.air + facts.divers[0].load
            facts.rolls = float(own == 0)
            inputs = columns(facts)
            self._note(games, (first + own) % self.batch.players, self.net(inputs), inputs)

    def _note(self, games: Array | None, seats: Array, values: Array, inputs: Array) -> None:
        # Games that are over play on for nothing.
        rows = np.flatnonzero(~self.over[games])
        games = np.arange(len(self.over))[games][rows]
        dive = games * (DIVES + 1) + self.batch.dive[games]
        self.notes.append((dive * self.batch.players + seats[rows], values[rows], inputs[rows]))

    def _end_dives(self, games: Array) -> None:
        if not len(games):
            return
        dives, (points, halves) = self.batch.dive[games], self.batch.results(games)
        finished = self.batch.clean_up(games, self)
        counted = ~self.over[games]
        last = np.isin(games, finished)[:, None]
        worth = standings_of(points.astype(F32), self.spreads[dives])
        worth = np.where(last, halves / (2 * (self.batch.players - 1)), worth)
        self.points[games[counted], dives[counted]] = points[counted]
        self.worth[games[counted], dives[counted]] = worth[counted]
        self.over[finished] = True
        open_random(self.batch, finished, self.rng)

    def examples(self) -> tuple[Array, Array]:
        """Inputs [examples, INPUTS] and targets, of the dives that have ended."""
        whose, values, inputs = map(np.concatenate, zip(*self.notes, strict=True))
        ends = self.worth.reshape(-1)[whose]
        order = whose.argsort(kind="stable")
        order = order[~np.isnan(ends[order])]
        return inputs[order], _targets(whose[order], values[order], ends[order])

    def better_spreads(self) -> tuple[float, float]:
        """A step to where leads are worth what these games have made of them (Gauss-Newton)."""
        finals = self.worth[:, DIVES]
        found = []
        for dive in range(1, DIVES):
            whole = ~np.isnan(finals[:, 0]) & ~np.isnan(self.points[:, dive, 0])
            points, steepness = self.points[whole, dive], 1 / self.spreads[dive]
            gaps = points[:, :, None] - points[:, None, :]
            ahead = 0.5 + 0.5 * np.tanh(gaps * steepness / 2)
            rivals = points.shape[1] - 1
            missing = finals[whole] - (ahead.sum(axis=2) - 0.5) / rivals
            slope = (ahead * (1 - ahead) * gaps).sum(axis=2) / rivals
            steepness += 0.1 * (missing * slope).sum() / max((slope * slope).sum(), 1e-6)
            found.append(float(1 / np.clip(steepness, 0.03, 0.6)))
        return found[0], found[1]


def _targets(whose: Array, values: Array, ends: Array) -> Array:
    """Of examples in the order of time, those of one seat in one dive side by side."""
    last = np.flatnonzero(np.append(whose[1:] != whose[:-1], True))
    row = np.arange(len(whose))
    # From the end backwards, all examples after which as many follow at once.
    follow = last[np.searchsorted(last, row)] - row
    order = follow.argsort(kind="stable")
    targets: Array = ends.copy()
    for some in np.split(order, np.bincount(follow).cumsum())[1:-1]:
        targets[some] = (1 - _TRACE) * values[some + 1] + _TRACE * targets[some + 1]
    return targets


def _step(progress: Progress, inputs: Array, targets: Array, rate: float) -> float:
    """A step of Adam; returns the mean squared error before it."""
    layers = progress.net.layers
    active = [inputs]
    for matrix, added in layers[:-1]:
        active.append(np.maximum(active[-1] @ matrix + added, 0))
    error = (active[-1] @ layers[-1][0] + layers[-1][1])[:, 0] - targets
    slope = error[:, None] / F32(len(targets))
    slopes: list[Array] = []
    for (matrix, _), before in zip(reversed(layers), reversed(active), strict=True):
        slopes = [before.T @ slope, slope.sum(axis=0), *slopes]
        slope = (slope @ matrix.T) * (before > 0)
    progress.steps += 1
    rate /= 1 - 0.9**progress.steps
    scale = F32(1 - 0.999**progress.steps)
    for array, moments, down in zip(progress.arrays(), progress.moments, slopes, strict=True):
        mean, square = moments
        mean[:] += F32(0.1) * (down - mean)
        square[:] += F32(0.001) * (down * down - square)
        array[:] -= F32(rate) * mean / (np.sqrt(square / scale) + F32(1e-8))
    return float((error * error).mean())


def lead_over_steady(settings: Settings, progress: Progress) -> tuple[float, float]:
    """The lead over `steady` in placement score, with half of the seats each; and its margin."""
    rng = np.random.default_rng([settings.seed, progress.rounds, 1])
    players, games = settings.players, 2 * settings.games
    batch = Batch(preset(settings.rules[0]), players, games)
    open_random(batch, np.arange(games), rng)
    own = rng.random((games, players)).argsort(axis=1) < players // 2
    net = Evaluated(Net.of(weights_of(settings, progress)))
    policy = BySeat([SteadyPolicy(players), net], own.astype(np.int64))
    dice = RandomDice(rng)
    leads = np.full(games, np.nan)
    while np.isnan(leads).any():
        finished = batch.play_turn(policy, dice)
        score = batch.results(finished).halves / (2 * (players - 1))
        mine = own[finished]
        lead = (score * mine).sum(axis=1) / mine.sum(axis=1)
        lead -= (score * ~mine).sum(axis=1) / (~mine).sum(axis=1)
        # A game counts once, and plays on as another one until all have ended.
        leads[finished] = np.where(np.isnan(leads[finished]), lead, leads[finished])
        open_random(batch, finished, rng)
    return float(leads.mean()), float(SURE * leads.std() / np.sqrt(games))


def weights_of(settings: Settings, progress: Progress) -> Weights:
    """The weights as they are written, in 16-bit floats."""
    layers = [
        Layer(
            tuple(map(tuple, matrix.T.astype(np.float16).tolist())),
            tuple(added.astype(np.float16).tolist()),
        )
        for matrix, added in progress.net.layers
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
    return [*progress.arrays(), *(array for pair in progress.moments for array in pair)]


def _facts(settings: Settings) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(json.dumps({"inputs": VERSION, **asdict(settings)}))
    return facts


def _earlier(path: Path, settings: Settings) -> tuple[Progress, bool]:
    """What a training of these settings has left in its file, and whether that was its end.

    The number of its rounds may be another one. Raises ValueError for any other file.
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
    own, note = _facts(settings), weights.training
    what = "of no training known here"
    try:
        theirs, done = note["settings"], note["done"]  # type: ignore[index]
        differs = [name for name in own if name != "rounds" and theirs[name] != own[name]]
        if differs:
            which = ", ".join(f"{name} {json.dumps(theirs[name])[:60]}" for name in differs)
            what = f"of another training, with {which}"
        else:
            progress.net = Net.of(weights)
            progress.rounds, progress.decisions = int(done["rounds"]), int(done["decisions"])
            return progress, progress.rounds >= int(theirs["rounds"])
    except (LookupError, TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{path}: these weights are {what}; name another file")


def _keep(path: Path, settings: Settings, progress: Progress) -> None:
    counts = {name: getattr(progress, name) for name in _COUNTS}
    new = half_written(path)
    with new.open("wb") as file:
        np.savez(
            file,
            json.dumps([_facts(settings), progress.net.spreads, counts]),
            *_all_arrays(progress),
        )
    new.replace(path)


def _restore(path: Path, settings: Settings, progress: Progress) -> None:
    try:
        with np.load(path) as kept:
            facts, spreads, counts = json.loads(str(kept["arr_0"]))
            if facts != _facts(settings):
                raise ValueError("it was begun with other settings")
            for i, array in enumerate(_all_arrays(progress), 1):
                array[:] = kept[f"arr_{i}"]
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
    """The command line; returns the exit status."""
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
    parser.add_argument("--games", type=int, default=defaults.games, help="of a round")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--name", default=defaults.name, help="name and version of the weights")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.games) < 1 or options.seed < 0:
        parser.error("--rounds and --games are 1 or more, and --seed is not below 0")
    try:
        options.rules = tuple(preset(name).name for name in options.rules.split(","))
        given = vars(options)
        train(given.pop("file"), Settings(**given), _print)
    except (InvalidRules, ValueError, OSError) as error:
        sys.stderr.write(f"deepsea_sdk.train: {error}\n")
        return 2
    return 0


def _print(point: Point) -> None:
    rounded = {name: round(number, 5) for name, number in point.items()}
    sys.stdout.write(json.dumps(rounded) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
