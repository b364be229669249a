"""Things that are done one after another in a thread, because they may take time.

Laws: they are done in order; what one of them raises is raised here; whoever hands them over faster
than they are done is told to wait, so that what waits takes no more memory than so many of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec

_WAITING: Final = 64
_P = ParamSpec("_P")


class WriteBehind:
    """A thread and what waits for it."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._waiting: deque[Future[object]] = deque()

    def do(
        self, call: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[object] | None:
        """Hand something over; the future is to be waited for before more is handed over.

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
        """Wait until everything is done, and hear of nothing."""
        self._thread.shutdown()
