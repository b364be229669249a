"""Points, tie-breaks and placements.

Laws: placements are competition ranks, 1 is best, and tied seats share one; who forfeited ranks
below all who finished, whatever it had banked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .units import count_levels


class Result(NamedTuple):
    """How a game ended, by seat."""

    scores: tuple[int, ...]
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
    counts = [count_levels(bank) for bank in banks]
    keys: list[tuple[bool, int, tuple[int, ...]]] = []
    for seat, score in enumerate(scores):
        if seat in forfeits:
            keys.append((False, forfeits.index(seat), ()))
            continue
        tied = [
            counts[other]
            for other in range(len(banks))
            if scores[other] == score and other not in forfeits
        ]
        keys.append((True, 0, (score, *_tie_key(tiebreak, counts[seat], tied))))
    placements = tuple([1 + sum([other > key for other in keys]) for key in keys])
    return Result(scores, placements)


def _tie_key(tiebreak: str, counts: Sequence[int], tied: Sequence[Sequence[int]]) -> Sequence[int]:
    """What decides among banks of equal points: more is better. Chips in stacks count singly.

    counts  how many chips of level 1, 2, 3 and 4 are in the bank
    tied    the same for all who are tied, this one too
    """
    if tiebreak == "lexicographic":
        return counts[::-1]
    if tiebreak == "level4":
        return counts[3:]
    # top_level: the count at the highest level that any of the tied holds.
    for level in (3, 2, 1, 0):
        if any(other[level] for other in tied):
            return counts[level : level + 1]
    return ()
