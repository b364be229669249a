"""The runner beside a server: a process of its own, which plays and checks bots.

Invariants: it inherits no open file but the terminal's error output, and no token or address of a
key from the environment; it ends with the server, however that ends; when it ends by itself or
cannot be started, it is started again, later each time until it has lived for a while.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deepsea_referee.timing.clock import Clock, time_limit

FIRST_PAUSE_S = 2
LONGEST_PAUSE_S = 60
HEALTHY_S = 300
"""The time after which a runner that ends is started again as soon as the first time."""
PATIENCE_US = 10_000_000
"""The time that it may take to hand its games back."""
STORE = "DEEPSEA_LADDER"
"""The variable that tells it the store: other users of the machine can read command lines."""
SECRET = frozenset({"DEEPSEA_LADDER_TOKEN", "DEEPSEA_TOKEN"})
_CHILD = Path(__file__).with_name("runner_child.py")
_log = logging.getLogger(__name__)


def runner_command(workers: int, until: str | None = None) -> list[str]:
    """The command of a runner for everything that a ladder has to play, until `settled` or a time
    if one is given."""
    return [
        sys.executable,
        *("-m", "deepsea_cli", "ladder", "run", "--forever", "--workers", str(workers)),
        *(() if until is None else ("--until", until)),
    ]


class RunnerProcess:
    """A command that runs beside a server until `stop`; one event loop uses it.

    store  the ladder, as --store takes it
    """

    def __init__(self, command: Sequence[str], store: str, clock: Clock) -> None:
        self._command = command
        self._environment = _environment(os.environ, store)
        self._clock = clock
        self.ended = asyncio.Event()
        """Set each time it has ended or could not be started."""
        self._ending = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None if it is not running at this moment."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start it; called in the main thread, whose end is its end."""
        await self._begin()
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Let it give its games back, and end it."""
        self._ending.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        if self._task is not None:
            try:
                async with time_limit(self._clock, PATIENCE_US):
                    await asyncio.shield(self._task)
            except TimeoutError:
                self.kill()
                await self._task

    def kill(self) -> None:
        """End it at once; the next run plays its games again."""
        self._ending.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _begin(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(_CHILD),
                str(os.getpid()),
                *self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=self._environment,
                close_fds=True,
                start_new_session=True,  # Ctrl-C is the server's to pass on
            )
        except OSError as error:  # no file or process is free
            _log.error("the runner cannot be started: %s; another try soon", error.strerror)
            self.ended.set()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            if self._process is not None:
                began_us = self._clock.now_us()
                status = await self._process.wait()
                self._process = None
                if self._clock.now_us() - began_us >= HEALTHY_S * 1_000_000:
                    pause = FIRST_PAUSE_S
                self.ended.set()
                if not self._ending.is_set():
                    _log.warning("the runner has ended with status %d; another starts soon", status)
            with suppress(TimeoutError):
                async with time_limit(self._clock, pause * 1_000_000):
                    await self._ending.wait()
            if self._ending.is_set():
                return
            pause = min(2 * pause, LONGEST_PAUSE_S)
            await self._begin()


def _environment(given: Mapping[str, str], store: str) -> dict[str, str]:
    kept = {name: value for name, value in given.items() if name not in SECRET}
    return {**kept, STORE: store}
