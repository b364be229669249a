"""Failed codes and logins, counted by where they come from.

Invariants: a valid code or token is never asked about here, so that nobody is kept out by others
behind the same address; what is kept is bounded, however many addresses fail.
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

    def add(self, address: str) -> None:
        """Count a failure. Raises ServiceError instead as long as this address has to wait."""
        key = source(address)
        with self._lock:
            failed = self._failed.setdefault(key, [])
            now = self._clock()
            wait = math.ceil(failure_wait(failed, now, self._most))
            if wait <= 0:
                failed.append(now)
                del failed[: -self._most]
            self._failed.move_to_end(key)
            if len(self._failed) > self._most_sources:
                self._failed.popitem(last=False)
        if wait > 0:
            raise ServiceError(
                Kind.EXHAUSTED,
                f"too many wrong codes or tokens from your address; try again in {wait} s",
                wait,
            )
