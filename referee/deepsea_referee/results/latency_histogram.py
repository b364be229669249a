"""A histogram of decision times: quantiles of any number of them in limited memory.

Invariants: a time is only counted in a bucket; up to 1,023 us a bucket is one microsecond, above
that it spans at most 1/512 of the time; the slowest time is exact.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Final

_BITS: Final = 10
"""The number of leading binary digits of a time that determine its bucket."""
_RECENT: Final = 4096
"""The number of times that are counted at once: much faster than one by one."""


class LatencyHistogram:
    """The times of many decisions, in microseconds."""

    def __init__(self) -> None:
        self._slowest = 0
        self._counts: Counter[int] = Counter()
        self._recent = array("Q")

    def add(self, times_us: Iterable[int]) -> None:
        """Count the times of some decisions."""
        self._recent.extend(times_us)
        if len(self._recent) >= _RECENT:
            self._settle()

    @property
    def count(self) -> int:
        """The number of times."""
        return self._counts.total() + len(self._recent)

    @property
    def slowest_us(self) -> int | None:
        """The slowest one; None if there is none."""
        self._settle()
        return self._slowest if self._counts else None

    @property
    def median_us(self) -> int | None:
        """The lower median; None if there is none."""
        return self.quantile_us(50)

    def quantile_us(self, percent: int) -> int | None:
        """The time that this percentage does not exceed: exact up to 1,023 us, else off by at most
        0.1 %, because it is the middle of its bucket; None if there is none."""
        self._settle()
        total, before = self._counts.total(), 0
        for bucket in sorted(self._counts):
            before += self._counts[bucket]
            if 100 * before >= percent * total:
                return min(_middle(bucket), self._slowest)
        return None

    def counts(self) -> list[tuple[int, int]]:
        """Times, each the middle of its bucket, and how many there are, from the fastest one."""
        self._settle()
        return [
            (min(_middle(bucket), self._slowest), self._counts[bucket])
            for bucket in sorted(self._counts)
        ]

    def _settle(self) -> None:
        for us, count in Counter(self._recent).items():
            self._counts[_bucket(us)] += count
        self._slowest = max(self._slowest, max(self._recent, default=0))
        del self._recent[:]


def _bucket(us: int) -> int:
    """One for each of the first 2**_BITS microseconds, then half as many for each doubling."""
    shift = max(0, us.bit_length() - _BITS)
    return (shift << (_BITS - 1)) + (us >> shift)


def _middle(bucket: int) -> int:
    """The time in the middle of a bucket."""
    shift = max(0, (bucket >> (_BITS - 1)) - 1)
    low = (bucket - (shift << (_BITS - 1))) << shift
    return low + ((1 << shift) >> 1)
