"""Answers that last, such as streams: they end when the session that asked for them has.

Invariant: at most CHECK_US and one look into the store after a session has ended, what it asked
for is told that its reader has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepsea_referee.timing.clock import Clock

CHECK_US: Final = 3_000_000
"""How often it is asked whether a session still is one."""


async def pause(clock: Clock, us: int) -> None:
    """Return after so many microseconds."""
    over = asyncio.Event()
    alarm = clock.at(clock.now_us() + us, over.set)
    try:
        await over.wait()
    finally:
        alarm.cancel()


class WhileValid:
    """An application whose reader leaves when `valid` says no."""

    def __init__(self, app: ASGIApp, valid: Callable[[], Awaitable[bool]], clock: Clock) -> None:
        self._app = app
        self._valid = valid
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ended = asyncio.Event()

        async def watch() -> None:
            try:
                valid = True
                while valid:
                    await pause(self._clock, CHECK_US)
                    valid = await self._valid()
            finally:
                ended.set()  # also if it cannot be found out

        async def received() -> Message:
            if ended.is_set():
                return {"type": "http.disconnect"}
            waiting = asyncio.ensure_future(receive()), asyncio.ensure_future(ended.wait())
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                message = waiting[0]
                return message.result() if message.done() else {"type": "http.disconnect"}
            finally:
                for one in waiting:
                    one.cancel()

        watching = asyncio.create_task(watch())
        try:
            await self._app(scope, received, send)
        finally:
            watching.cancel()
