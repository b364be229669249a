"""The net of the evaluation: its weights, their file, and what it answers, in plain Python.

A file of weights is a line of JSON and then numbers as 16-bit floats, lowest byte first: of each
layer a row for each of its outputs, and then what is added to them.

Invariants: what is read is checked, and an error is one sentence with the file; no numpy is needed.
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
"""The name and version of the SDK's weights, for results that depend on them."""
_FOLDER = Path(__file__).parent
_LONGEST_HEADER = 65536
"""Bytes, with a long list of rule sets."""


class WeightsError(ValueError):
    """Why a file has no weights that can be used, in one sentence."""


class Layer(NamedTuple):
    """Each output is its row times the inputs, plus what is added."""

    rows: tuple[tuple[float, ...], ...]
    added: tuple[float, ...]


class Weights(NamedTuple):
    """What training finds, for one number of seats."""

    name: str
    players: int
    spreads: tuple[float, float]
    """After dive 1 and dive 2: 73 of 100 rivals stay behind whom one leads by so many points."""
    layers: tuple[Layer, ...]
    training: object = None
    """What `deepsea_sdk.train` noted of the training that found them; None in the SDK's own."""


def output(weights: Weights, inputs: Sequence[float]) -> float:
    """What the net answers to these inputs."""
    *hidden, last = weights.layers
    for layer in hidden:
        sums = [sum(map(mul, row, inputs), add) for row, add in zip(*layer, strict=True)]
        inputs = [total if total > 0 else 0.0 for total in sums]
    return sum(map(mul, last.rows[0], inputs), last.added[0])


@cache
def sdk_weights(players: int) -> Weights:
    """The weights that come with the SDK, for a number of seats."""
    return read_weights(_FOLDER / f"{EVALUATION}.{players}.weights")


def read_weights(path: Path) -> Weights:
    """The weights in a file. Raises OSError, or `WeightsError` with the file."""
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
    count = sum((before + 1) * after for before, after in pairwise(sizes))
    numbers = struct.unpack(f"<{count}e", body)
    spreads = float(fields["spreads"][0]), float(fields["spreads"][1])
    if not all(map(math.isfinite, (*numbers, *spreads))) or min(spreads) <= 0:
        raise WeightsError("a number in it is not finite, or a spread not above 0: train again")
    layers = []
    for before, after in pairwise(sizes):
        rows, numbers = numbers[: before * after], numbers[before * after :]
        by_output = [rows[at : at + before] for at in range(0, len(rows), before)]
        layers.append(Layer(tuple(by_output), numbers[:after]))
        numbers = numbers[after:]
    training = fields.get("training")
    return Weights(str(fields["name"]), players, spreads, tuple(layers), training)


def half_written(path: Path) -> Path:
    """Where the new content of a file is written first, under a name that nobody else has."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_weights(path: Path, weights: Weights) -> None:
    """Write weights to a file, which is there whole or as it was before."""
    fields = {
        "name": weights.name,
        "players": weights.players,
        "spreads": weights.spreads,
        "inputs": VERSION,
        "sizes": [INPUTS, *(len(layer.added) for layer in weights.layers)],
        "training": weights.training,
    }
    numbers = [
        number for rows, added in weights.layers for part in (*rows, added) for number in part
    ]
    new = half_written(path)
    body = struct.pack(f"<{len(numbers)}e", *numbers)
    new.write_bytes(json.dumps(fields).encode() + b"\n" + body)
    new.replace(path)
