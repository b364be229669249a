"""Runs what a test does in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; one that hangs fails where it waits, on the busiest machine too."""

    async def bounded() -> T:
        async with asyncio.timeout(500):  # before faulthandler_timeout, which only shows the loop
            return await test

    return asyncio.run(bounded())
