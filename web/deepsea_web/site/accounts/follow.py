"""What somebody follows alone: an iterator of the service, asked again and again, as events.

Invariants: the service is asked in a thread, at most once at a time and every ASK_US; a reader gets
the newest answer, so nothing is queued for a slow one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from deepsea_rules.printable import one_line
from deepsea_web.site.accounts.desk import Desk
from deepsea_web.site.accounts.ending import pause

ASK_US: Final = 500_000
_log = logging.getLogger(__name__)


class Followed:
    """The source of one reader's stream; what the reader has is the number of answers."""

    def __init__(
        self,
        desk: Desk,
        address: str,
        first: Any,
        answers: Iterator[Any],
        event: Callable[[Any], str],
    ) -> None:
        """`answers` yields None while nothing is new; `event` writes an answer."""
        self._desk = desk
        self._address = address
        self._newest = first
        self._number = 1
        self._answers = answers
        self._event = event
        self._told = 0
        self._over = False

    @property
    def closed(self) -> bool:
        """Whether there will be nothing new any more."""
        return self._desk.host.closing.is_set() or (self._over and self._told == self._number)

    @contextmanager
    def watching(self, wake: Callable[[], object]) -> Iterator[None]:
        """Ask while somebody reads."""
        asking = asyncio.create_task(self._ask(wake))
        closing = asyncio.create_task(self._closing(wake))
        try:
            with self._desk.streaming(self._address):
                yield
        finally:
            asking.cancel()
            closing.cancel()

    def since(self, has: int) -> tuple[int, str]:
        """The newest answer, if the reader does not have it."""
        self._told = self._number
        return self._number, self._event(self._newest) if has < self._number else ""

    async def _ask(self, wake: Callable[[], object]) -> None:
        try:
            while True:
                answer = await self._desk.in_thread(lambda: next(self._answers, self))
                if answer is self:
                    return
                if answer is None:
                    await pause(self._desk.host.clock, ASK_US)
                    continue
                self._newest = answer
                self._number += 1
                wake()
        except Exception as error:  # noqa: BLE001  (the stream ends, and its reader comes back)
            _log.error("a stream of steps has ended: %s", one_line(str(error)))
        finally:
            self._over = True
            wake()

    async def _closing(self, wake: Callable[[], object]) -> None:
        await self._desk.host.closing.wait()
        wake()
