"""The requests that timed out, whose answers may still come and are ignored."""

from __future__ import annotations

from typing import Final

KEPT: Final = 1_000
"""The number that is remembered; answers to older ones are refused."""


class LateRequests:
    """The ids of the last `kept` requests that timed out and were not answered since."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._ids: dict[int, None] = {}  # a set that knows what came first

    def add(self, request_id: int) -> None:
        """Remember a request, and forget the oldest one if there are too many."""
        self._ids[request_id] = None
        if len(self._ids) > self._kept:
            del self._ids[next(iter(self._ids))]

    def take(self, request_id: int) -> bool:
        """Forget a request that is answered; whether it was there."""
        if request_id not in self._ids:
            return False
        del self._ids[request_id]
        return True
