"""Points, tie-breaks and placements.

Invariants: placements are competition ranks, 1 is best, and tied seats share one; seats that
forfeited rank below all that finished, whatever they had banked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .actions import count_levels


class Result(NamedTuple):
    """How a game ended, by seat."""

    points: tuple[int, ...]
    placements: tuple[int, ...]


def points(banks: Sequence[Sequence[int]], values: Sequence[int]) -> tuple[int, ...]:
    """What the chips in each bank are worth together."""
    return tuple([sum([values[chip] for chip in bank]) for bank in banks])


def final_result(
    tiebreak: str,
    banks: Sequence[Sequence[int]],
    values: Sequence[int],
    forfeits: Sequence[int] = (),
) -> Result:
    """Scores and placements.

    tiebreak  the rule set's option
    banks     the chip ids that each seat brought home
    values    the value of each chip, indexed by chip id
    forfeits  the seats that forfeited, first one first: the later, the better its rank
    """
    scores = points(banks, values)
    keys: list[tuple[bool, int, tuple[int, ...]]] = []
    for seat, score in enumerate(scores):
        if seat in forfeits:
            keys.append((False, forfeits.index(seat), ()))
            continue
        tied = [
            bank
            for other, bank in enumerate(banks)
            if scores[other] == score and other not in forfeits
        ]
        tie_key = _tie_key(tiebreak, banks[seat], tied) if len(tied) > 1 else ()
        keys.append((True, 0, (score, *tie_key)))
    placements = tuple([1 + sum([other > key for other in keys]) for key in keys])
    return Result(scores, placements)


def _tie_key(tiebreak: str, bank: Sequence[int], tied: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """What decides among banks of equal points: more is better. Chips in stacks count singly."""
    counts = count_levels(bank)
    if tiebreak == "lexicographic":
        return counts[::-1]
    if tiebreak == "level4":
        return (counts[3],)
    # top_level: the count at the highest level that any of the tied holds.
    all_counts = [count_levels(other) for other in tied]
    for level in (3, 2, 1, 0):
        if any(other[level] for other in all_counts):
            return (counts[level],)
    return ()


def placement_scores(placements: Sequence[int]) -> list[float]:
    """For each seat the share of the others that it is ahead of; a tie is half of it."""
    return [half / (2 * (len(placements) - 1)) for half in halves_ahead(placements)]


def halves_ahead(placements: Sequence[int]) -> list[int]:
    """For each seat a 2 for every other seat that it is ahead of, and a 1 for every tie."""
    return [sum((own < p) + (own <= p) for p in placements) - 1 for own in placements]
