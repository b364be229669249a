"""How long decisions took: a median of any number of them in a bounded space.

Laws: a time is counted in a bucket and forgotten; up to 1,023 us a bucket is one microsecond, above
that it spans at most 1/512 of the time; the slowest time is exact.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Final

_BITS: Final = 10
"""How many leading binary digits of a time tell its bucket."""
_RECENT: Final = 4096
"""So many times are counted at once: that is much faster than one by one."""


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
        """How many there are."""
        return self._counts.total() + len(self._recent)

    @property
    def slowest_us(self) -> int | None:
        """The slowest one; None if there is none."""
        self._settle()
        return self._slowest if self._counts else None

    @property
    def median_us(self) -> int | None:
        """The lower median: exact up to 1,023 us, else off by at most 0.1 %; None if there is none.

        It is the middle of its bucket.
        """
        self._settle()
        total, before = self._counts.total(), 0
        for bucket in sorted(self._counts):
            before += self._counts[bucket]
            if 2 * before >= total:
                return min(_middle(bucket), self._slowest)
        return None

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
