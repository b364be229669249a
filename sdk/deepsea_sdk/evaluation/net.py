"""The net of the evaluation in plain Python: its weights, their file, and its output.

A file of weights is a line of JSON and then numbers as 16-bit floats, lowest byte first. Each layer
has a row for each of its outputs, and then its biases.

Invariants: files are checked when they are read, and an error is one sentence with the file; no
numpy is needed.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import NamedTuple

from deepsea_rules.ruleset import MAX_PLAYERS, MIN_PLAYERS

from .inputs import INPUTS, VERSION

EVALUATION = "pearl-1"
"""Name and version of the SDK's weights, for results that depend on them."""
_FOLDER = Path(__file__).parent
_LONGEST_HEADER = 65536
"""Most bytes of the line of JSON; a long list of rule sets fits in."""


class WeightsError(ValueError):
    """Raised for a file without usable weights; the message is one sentence."""


class Layer(NamedTuple):
    """A layer of the net: an output is its row times the inputs, plus its bias."""

    rows: tuple[tuple[float, ...], ...]
    biases: tuple[float, ...]


class Weights(NamedTuple):
    """Weights of a trained net, for one number of seats."""

    name: str
    players: int
    spreads: tuple[float, float]
    """For the ends of dives 1 and 2, the points of a lead that keeps 73 of 100 rivals behind."""
    layers: tuple[Layer, ...]
    training: object = None
    """Settings and progress of the training, as `deepsea_sdk.train` stored them; None in the SDK's
    own."""


def output(weights: Weights, inputs: Sequence[float]) -> float:
    """Return the output of the net for these inputs."""
    *hidden, last = weights.layers
    for layer in hidden:
        sums = [sum(map(mul, row, inputs), bias) for row, bias in zip(*layer, strict=True)]
        inputs = [total if total > 0 else 0.0 for total in sums]
    return sum(map(mul, last.rows[0], inputs), last.biases[0])


@cache
def sdk_weights(players: int) -> Weights:
    """Return the weights that come with the SDK for a number of seats."""
    return read_weights(_FOLDER / f"{EVALUATION}.{players}.weights")


def read_weights(path: Path) -> Weights:
    """Return the weights in a file. Raise OSError, or `WeightsError` with the file's path."""
    with path.open("rb") as file:
        header, body = file.readline(_LONGEST_HEADER), file.read()
    try:
        return _checked(header, body)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError, struct.error):
        raise WeightsError(
            f"{path}: this is no whole file of weights, as deepsea_sdk.train writes them"
        ) from None


def _checked(header: bytes, body: bytes) -> Weights:
    """Return the weights in a file's header and body.

    Raise WeightsError, or one of the errors of json and struct for a damaged file.
    """
    fields = json.loads(header)
    if fields["inputs"] != VERSION:
        raise WeightsError(
            f"these weights are for inputs of version {fields['inputs']!r}, and this SDK has "
            f"version {VERSION}: train them again with this SDK"
        )
    players, sizes = fields["players"], fields["sizes"]
    if players not in range(MIN_PLAYERS, MAX_PLAYERS + 1):
        raise WeightsError(f"weights for {players!r} seats; there are 2 to 6")
    if (sizes[0], sizes[-1]) != (INPUTS, 1):
        raise WeightsError(f"layers of {sizes!r}; the net has {INPUTS} inputs and 1 output")
    count = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    numbers = struct.unpack(f"<{count}e", body)
    spreads = float(fields["spreads"][0]), float(fields["spreads"][1])
    if not all(map(math.isfinite, (*numbers, *spreads))) or min(spreads) <= 0:
        raise WeightsError("a number in it is not finite, or a spread not above 0: train again")
    layers = []
    for inputs, outputs in pairwise(sizes):
        rows, numbers = numbers[: inputs * outputs], numbers[inputs * outputs :]
        by_output = [rows[start : start + inputs] for start in range(0, len(rows), inputs)]
        layers.append(Layer(tuple(by_output), numbers[:outputs]))
        numbers = numbers[outputs:]
    training = fields.get("training")
    return Weights(str(fields["name"]), players, spreads, tuple(layers), training)


def half_written(path: Path) -> Path:
    """Return a temporary path beside a file, of this process alone, to write new content to."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_weights(path: Path, weights: Weights) -> None:
    """Write weights to a file. It is replaced as a whole, so it is never seen half written."""
    fields = {
        "name": weights.name,
        "players": weights.players,
        "spreads": weights.spreads,
        "inputs": VERSION,
        "sizes": [INPUTS, *(len(layer.biases) for layer in weights.layers)],
        "training": weights.training,
    }
    numbers = [
        number for rows, biases in weights.layers for part in (*rows, biases) for number in part
    ]
    temporary = half_written(path)
    body = struct.pack(f"<{len(numbers)}e", *numbers)
    temporary.write_bytes(json.dumps(fields).encode() + b"\n" + body)
    temporary.replace(path)
