"""Points, tie-breaks and placements.

Invariants: placements are competition ranks: 1 is best, and tied seats share one. Seats that
forfeited rank below all that finished, whatever they had banked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .actions import count_levels


class Result(NamedTuple):
    """Points and placements of a game, by seat."""

    points: tuple[int, ...]
    placements: tuple[int, ...]


def points(banks: Sequence[Sequence[int]], values: Sequence[int]) -> tuple[int, ...]:
    """Return the worth of the chips in each bank."""
    return tuple([sum([values[chip] for chip in bank]) for bank in banks])


def final_result(
    tiebreak: str,
    banks: Sequence[Sequence[int]],
    values: Sequence[int],
    forfeits: Sequence[int] = (),
) -> Result:
    """Return the points and placements of a finished game.

    tiebreak  the rule set's option
    banks     the chip ids that each seat brought home
    values    the value of each chip, indexed by chip id
    forfeits  the seats that forfeited, in order of time: a later one ranks better
    """
    scores = points(banks, values)
    # A key for each seat, of which the highest ranks best. It has: True for a seat that finished,
    # the place among the forfeits, and the points with what breaks a tie.
    keys: list[tuple[bool, int, tuple[int, ...]]] = []
    for seat, score in enumerate(scores):
        if seat in forfeits:
            keys.append((False, forfeits.index(seat), ()))
            continue
        # The seat itself is among them.
        tied_banks = [
            bank
            for other, bank in enumerate(banks)
            if scores[other] == score and other not in forfeits
        ]
        tie_key = _tie_key(tiebreak, banks[seat], tied_banks) if len(tied_banks) > 1 else ()
        keys.append((True, 0, (score, *tie_key)))
    placements = tuple([1 + sum([other > key for other in keys]) for key in keys])
    return Result(scores, placements)


def _tie_key(
    tiebreak: str, bank: Sequence[int], tied_banks: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Return the key of a seat that is tied in points: the highest key wins the tie.

    bank        the chip ids of the seat
    tied_banks  those of all seats with the same points, the seat's own among them
    """
    counts = count_levels(bank)  # of levels 1 to 4
    if tiebreak == "lexicographic":  # level 4 counts first, then level 3, and so on
        return counts[::-1]
    if tiebreak == "level4":
        return (counts[3],)
    # "top_level": the chips of the highest level of which any of the tied seats has one.
    counts_of_tied = [count_levels(tied_bank) for tied_bank in tied_banks]
    for index in (3, 2, 1, 0):
        if any(tied_counts[index] for tied_counts in counts_of_tied):
            return (counts[index],)
    return ()


def placement_scores(placements: Sequence[int]) -> list[float]:
    """Return for each seat the share of the others that it is ahead of; a tie counts half."""
    return [half / (2 * (len(placements) - 1)) for half in halves_ahead(placements)]


def halves_ahead(placements: Sequence[int]) -> list[int]:
    """Return for each seat 2 for every other seat that it is ahead of, and 1 for every tie."""
    # A seat counts as tied with itself, hence one less.
    return [sum((own < other) + (own <= other) for other in placements) - 1 for own in placements]
