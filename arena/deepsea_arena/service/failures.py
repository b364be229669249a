"""Failed codes and logins, counted by where they come from.

Invariants: nobody is let in or kept out by anything but these counts and the time; what is kept is
bounded, however many addresses fail.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_ladder.accounts import failure_wait, source

MOST_SOURCES: Final = 10_000


class Failures:
    """The failures of an hour. Threads may share one.

    clock         the time in seconds, from any origin
    most          failures of one source in an hour
    most_sources  the number of sources that are remembered, the latest ones
    """

    def __init__(
        self, clock: Callable[[], float], most: int, most_sources: int = MOST_SOURCES
    ) -> None:
        self._clock = clock
        self._most = most
        self._most_sources = most_sources
        self._failed: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = Lock()

    def check(self, address: str) -> None:
        """Raise ServiceError as long as nobody at this address may try."""
        with self._lock:
            failed = self._failed.get(source(address), [])
            wait = math.ceil(failure_wait(failed, self._clock(), self._most))
        if wait > 0:
            raise ServiceError(
                Kind.EXHAUSTED,
                f"too many wrong codes or tokens from your address; try again in {wait} s",
                wait,
            )

    def add(self, address: str) -> None:
        """Count a failure."""
        key = source(address)
        with self._lock:
            failed = self._failed.setdefault(key, [])
            failed.append(self._clock())
            del failed[: -self._most]
            self._failed.move_to_end(key)
            if len(self._failed) > self._most_sources:
                self._failed.popitem(last=False)
