"""Runs what a test does in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(test: Coroutine[Any, Any, T], seconds: float = 500) -> T:
    """Run a coroutine; one that hangs fails where it waits, on the busiest machine too.

    seconds  its time limit: less than `faulthandler_timeout`, which only shows the loop
    """

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await test

    return asyncio.run(bounded())
