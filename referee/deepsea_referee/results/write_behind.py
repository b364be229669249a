"""Runs calls one after another in a thread, because they may block.

Invariants: calls run in order; their exceptions are raised in the caller; a caller that is faster
than the thread gets a future to wait for, so that the queue is limited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec

_WAITING: Final = 64
_P = ParamSpec("_P")


class WriteBehind:
    """A thread and its queue."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._waiting: deque[Future[object]] = deque()

    def do(
        self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[object] | None:
        """Queue a call; if a future is returned, wait for it before the next one.

        Raises what an earlier call raised.
        """
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(call, *args, **kwargs))
        return self._waiting[0] if len(self._waiting) > _WAITING else None

    def finish(self) -> None:
        """Wait until everything is done. Raises what a call raised."""
        self._thread.shutdown()
        for done in self._waiting:
            done.result()

    def close(self) -> None:
        """Wait until everything is done, ignoring exceptions."""
        self._thread.shutdown()
