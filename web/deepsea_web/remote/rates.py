"""How often somebody may ask, and how many streams may be open; in memory, by key.

Invariants: whoever stays within a rate is never refused; what is kept is bounded, whatever keys
come, and who was forgotten is as one who never asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

MOST_KEYS: Final = 20_000
MINUTE_US: Final = 60_000_000
_SECOND_US: Final = 1_000_000


class Rate:
    """At most `most` at once for each key, and as many in each period that follows.

    A period has less than twice as many, right after a time in which the key did not ask.
    now_us  the time, in microseconds since any moment
    """

    def __init__(
        self,
        most: int,
        period_us: int,
        now_us: Callable[[], int],
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._each_us = period_us // most
        self._period_us = self._each_us * most
        self._now_us = now_us
        self._most_keys = most_keys
        self._full_us: dict[Hashable, int] = {}
        """When a key has everything again."""

    def wait_s(self, key: Hashable) -> int:
        """After how many seconds the key may ask once more; 0 is now."""
        now = self._now_us()
        over = max(self._full_us.get(key, now), now) + self._each_us - self._period_us - now
        return -(-over // _SECOND_US) if over > 0 else 0

    def count(self, key: Hashable) -> None:
        """The key has asked once."""
        now = self._now_us()
        self._full_us[key] = max(self._full_us.pop(key, now), now) + self._each_us
        if len(self._full_us) > self._most_keys:
            self._forget(now)

    def take(self, key: Hashable) -> int:
        """Count one more if it may be: 0, or after how many seconds it may."""
        wait = self.wait_s(key)
        if not wait:
            self.count(key)
        return wait

    def _forget(self, now: int) -> None:
        """Forget those who have everything again, else those who asked longest ago."""
        left = [(key, full) for key, full in self._full_us.items() if full > now]
        self._full_us = dict(left[-(self._most_keys // 2) :])


class Slots:
    """How many of a kind are open at once: of each key, and in all."""

    def __init__(self, most_each: int, most: int) -> None:
        self._most_each = most_each
        self._most = most
        self._open: Counter[Hashable] = Counter()

    @property
    def open(self) -> int:
        """How many are open."""
        return self._open.total()

    @contextmanager
    def taken(self, key: Hashable | None) -> Iterator[bool]:
        """Hold a slot; False if there is none. Those without a key are bounded in all alone."""
        of_key = 0 if key is None else self._open[key]
        if self.open >= self._most or of_key >= self._most_each:
            yield False
            return
        self._open[key] += 1
        try:
            yield True
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
