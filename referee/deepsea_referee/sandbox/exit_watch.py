"""Waits in an event loop for the exit of a process, by its handle."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def on_exit(pid: int, call: Callable[[], object]) -> Callable[[], object]:
    """Call once the process has exited; see `interface.IsolatedProcess`."""
    handle = os.pidfd_open(pid)
    loop = asyncio.get_running_loop()
    watched = True

    def cancel() -> None:
        nonlocal watched
        if watched:
            watched = False
            loop.remove_reader(handle)
            os.close(handle)

    def exited() -> None:
        cancel()
        call()

    loop.add_reader(handle, exited)
    return cancel
