"""Threads for work that reads or writes the store.

Invariant: what waits for a thread is bounded; what comes then is 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.exceptions import HTTPException

MOST_WAITING: Final = 64
"""Requests that wait for a thread."""
T = TypeVar("T")


class Threads:
    """Some threads; one event loop uses them."""

    def __init__(self, number: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(number, name)
        self._waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work; 503 if too much waits."""
        if self._waiting >= MOST_WAITING:
            raise HTTPException(503, headers={"Retry-After": "1"})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End them; what they do now is done first."""
        self._executor.shutdown(cancel_futures=True)
