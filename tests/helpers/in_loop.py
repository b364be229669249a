"""Runs what a test does in an event loop, and fails one that waits for what never comes."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PULSE_S = 0.1
"""How often the waiting is looked at."""
IDLE_S = 15.0
"""A test that has waited so long says where, on the terminal; it fails if CPUs of this machine had
nothing to do for so long meanwhile. On a busy machine what it waits for may not have got a CPU."""
BUSY_S = 60.0
"""A test fails that has waited so long, however busy the machine is."""
LONG_S = 500.0
"""A test with a mark fails only then, as its bots may sleep: less than `faulthandler_timeout`."""


is_marked = False
"""True in a test with a mark, which is a long one."""
errors = 2
"""The descriptor of the terminal, which conftest.py keeps: pytest captures what tests print."""


class StandsStill(TimeoutError):
    """A test that waits for what never comes, with the place of each of its tasks."""


def run(test: Coroutine[Any, Any, T], *, is_long: bool = False) -> T:
    """Run a coroutine; one that hangs says where its tasks wait, and fails.

    is_long  True: as if it had a mark
    """
    return asyncio.run(_bounded(test, is_long or is_marked))


async def _bounded(test: Coroutine[Any, Any, T], is_long: bool) -> T:
    task = asyncio.ensure_future(test)
    waited = idle = 0.0
    is_said = False
    idle_before = idle_seconds()
    while not (await asyncio.wait({task}, timeout=PULSE_S))[0]:
        waited += PULSE_S
        # Several CPUs may have had nothing to do.
        idle += min(PULSE_S, (now := idle_seconds()) - idle_before)
        idle_before = now
        if waited >= IDLE_S and not is_said:
            is_said = True
            name = os.environ.get("PYTEST_CURRENT_TEST", "a test")
            os.write(errors, f"\n{name} has waited {waited:.0f} s here:\n{_places()}".encode())
        if waited >= LONG_S or (not is_long and (idle >= IDLE_S or waited >= BUSY_S)):
            await _fail(task, f"it has waited {waited:.0f} s, and stands here:\n{_places()}")
    return task.result()


async def _fail(task: asyncio.Task[T], words: str) -> None:
    """Raise `StandsStill` on top of what the test had raised before it waited, if that is so."""
    task.cancel()
    # Cleaning up may wait for ever, too.
    await asyncio.wait({task}, timeout=PULSE_S)
    if not task.done():
        raise StandsStill(f"{words}and does not end though it is cancelled")
    try:
        task.result()
    except (Exception, asyncio.CancelledError) as error:
        raise StandsStill(words) from error
    raise StandsStill(words)


def _places() -> str:
    text = io.StringIO()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        try:
            task.print_stack(file=text)
        except TypeError:  # a frame of compiled code has no line
            text.write(f"{task!r}\n")
    return text.getvalue()


def idle_seconds() -> float:
    """The time in which CPUs of this machine had nothing to do, all of them added."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:  # no Linux: taken for busy
        return 0.0
    return int(first.split()[4]) / os.sysconf("SC_CLK_TCK")
