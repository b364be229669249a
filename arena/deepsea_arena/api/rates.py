"""Rates: at most so many requests of a caller in a period.

Invariants: a caller within the rate is never refused; memory is bounded, whatever keys come, and a
forgotten key counts as a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock

from deepsea_arena.api.errors import ApiError, Kind

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
_SECOND_US = 1_000_000
MOST_KEYS = 20_000


class Rate:
    """At most `most()` at once for each key, and as many in each period that follows.

    A period has less than twice as many, right after a time in which the key did not ask. Threads
    may share one.
    now_us  the time, in microseconds since any moment
    """

    def __init__(
        self,
        most: Callable[[], int],
        period_us: int,
        now_us: Callable[[], int],
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._most = most
        self._period_us = period_us
        self._now_us = now_us
        self._most_keys = most_keys
        self.refused = 0
        self._full_us: dict[Hashable, int] = {}
        """The time when each key has its whole allowance again."""
        self._lock = Lock()

    def take(self, key: Hashable, sentence: str) -> None:
        """Count one more. Raises ApiError instead, with this sentence, if there were too many."""
        now, most = self._now_us(), self._most()
        each_us = self._period_us // most
        with self._lock:
            full = max(self._full_us.get(key, now), now) + each_us
            if (over := full - each_us * most - now) > 0:
                self.refused += 1
                raise ApiError(Kind.EXHAUSTED, sentence, -(-over // _SECOND_US))
            self._full_us.pop(key, None)  # to the end
            self._full_us[key] = full
            if len(self._full_us) > self._most_keys:
                self._forget(now)

    def _forget(self, now: int) -> None:
        """Forget those who have everything again, else those who asked longest ago."""
        left = [(key, full) for key, full in self._full_us.items() if full > now]
        self._full_us = dict(left[-(self._most_keys // 2) :])
