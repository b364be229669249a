"""Points and placements of many games: `deepsea_rules.scoring` on arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .units import Array, level_counts


class Results(NamedTuple):
    """How games stand or ended, both [games, seats]."""

    points: Array
    halves: Array
    """As `scoring.halves_ahead`: a 2 for each seat that one is ahead of, and a 1 for a tie."""


def results_of(banks: Array, values: Array, tiebreak: str) -> Results:
    """From what has been brought home: banks [games, seats] as bits, values [games, 32]."""
    points = points_of(banks, values)
    counts = level_counts(banks).astype(np.int64)
    keys = points << 20 | _tie_keys(points, counts, tiebreak)
    own, other = keys[:, :, None], keys[:, None, :]
    return Results(points, (own > other).sum(axis=2) + (own >= other).sum(axis=2) - 1)


def points_of(banks: Array, values: Array) -> Array:
    """The points of each seat."""
    octets = banks.astype("<u4")[..., None].view(np.uint8)
    chips = np.unpackbits(octets, axis=-1, bitorder="little")
    points: Array = np.einsum("gsc,gc->gs", chips, values, dtype=np.int64)
    return points


def _tie_keys(points: Array, counts: Array, tiebreak: str) -> Array:
    """What decides among equal points: more is better; counts [games, seats, level]."""
    if tiebreak == "level4":
        return np.asarray(counts[:, :, 3])
    if tiebreak == "lexicographic":
        return np.asarray(counts @ np.array([1, 16, 256, 4096]))
    # top_level: the count at the highest level that any of the tied holds.
    tied = points[:, :, None] == points[:, None, :]
    held = (tied[..., None] & (counts[:, None] > 0)).any(axis=2)
    top = 3 - held[:, :, ::-1].argmax(axis=2)
    return np.take_along_axis(counts, top[..., None], 2)[..., 0]
