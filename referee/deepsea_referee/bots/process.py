"""One bot as a process: its door, its program, what it prints, and its end.

A bot is started with the address and a one-use token in its environment and has a limit of its own
for saying hello. When its first process ends, the whole tree is ended, so that nobody holds its
stream open. At the end it hears goodbye, has a short grace, and then nothing of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deepsea_referee.bots.output_capture import OutputCapture
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.random import fresh_token
from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import (
    ADDRESS_VARIABLE,
    IsolatedProcess,
    Isolation,
    LaunchSpec,
    ResourceLimits,
)
from deepsea_referee.timing.clock import Clock, time_limit
from deepsea_referee.timing.host_load import Reading
from deepsea_referee.transport.server import SeatServer
from deepsea_referee.transport.session import Session
from deepsea_rules.faults import Fault

TOKEN_VARIABLE: Final = "DEEPSEA_TOKEN"
_KILL_LIMIT_US: Final = 5_000_000
_THE_PROGRAMS: Final = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
"""What is wrong with a program that cannot be started; all else is wrong with this machine."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """How bots are started and ended."""

    isolation: Isolation
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    start_limit_us: int = 10_000_000
    """How long a bot may take until it says hello."""
    grace_us: int = 1_000_000
    """How long it may take to end after goodbye."""
    gauged: bool = True
    """Look at what the host took before time is charged; not by a clock that is not the host's."""
    freeze: bool = False
    """Stop bots while it is not their turn, so that nobody thinks on another's time."""
    tcp_host: str | None = None
    """Listen on a free TCP port of this host instead of on Unix sockets."""


class EarlyEnd(Exception):
    """The program ended, or could not be started, before the bot said hello."""


class _Gauge:
    """Reads what a bot and this process use."""

    def __init__(self, contained: IsolatedProcess) -> None:
        self._contained = contained
        self._waits = process_tree.Waits()
        self.cpu_us = contained.cpu_us
        self.bot_is_ready = contained.is_ready

    def read(self) -> Reading:
        bot = self._contained
        return Reading(bot.cpu_us(), bot.waited_us(), self._waits.us(os.getpid()))

    def referee_is_ready(self) -> bool:
        return process_tree.is_ready(os.getpid(), but=threading.get_native_id())


class BotProcess:
    """A started bot. `session` is usable once `start` has returned, unless it missed the limit."""

    def __init__(self, bot: BotSpec, hosting: Hosting, clock: Clock) -> None:
        self.bot = bot
        self.session = Session(clock)
        self.troubled = False
        """Set when it did something wrong: what it printed is worth keeping then."""
        self.missed_start = False
        """Whether it let the start-up limit pass."""
        self._hosting = hosting
        self._clock = clock
        self._token = fresh_token()
        self._server = SeatServer(self.session, self._token, clock)
        self._loop = asyncio.get_running_loop()
        self._stdout = OutputCapture()
        self._stderr = OutputCapture()
        self._contained: IsolatedProcess | None = None
        self._pidfd: int | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self.session.explain_end = self._limit_passed

    async def start(self, socket: Path) -> None:
        """Start it and wait for its hello. Raises EarlyEnd.

        A bot that lets the limit pass is ended, and its session meets every question with
        START_TIMEOUT.
        """
        host = self._hosting.tcp_host
        address = await self._server.start(socket if host is None else f"{host}:0")
        self._spawn(socket if host is None else None, address)
        session = self.session
        try:
            async with time_limit(self._clock, self._hosting.start_limit_us):
                await asyncio.wait(
                    (session.connected, self._exited), return_when=asyncio.FIRST_COMPLETED
                )
        except TimeoutError:
            self.missed_start = True
            limit_ms = self._hosting.start_limit_us // 1000
            session.fail(Fault.START_TIMEOUT, f"it did not say hello within {limit_ms} ms")
            self._kill()
            return
        if not session.connected.done():
            if self._contained is not None and (error := self._contained.setup_error()):
                raise RefereeError(f"the isolation of {self.bot.name!r} failed: {error}")
            raise EarlyEnd(f"it ended before it said hello: {await self.last_words()}")

    async def stop(self) -> None:
        """End it and everything that belongs to it. May be called again, and at any time."""
        if self._contained is not None:
            session, grace_us = self.session, self._hosting.grace_us
            if grace_us and session.connected.done() and session.usable:
                session.close("the match is over")
                with contextlib.suppress(TimeoutError):
                    async with time_limit(self._clock, grace_us):
                        await asyncio.wait((self._exited,))
            self._kill()
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, _KILL_LIMIT_US):
                    await asyncio.wait((self._exited,))
        await self._server.stop()
        self._forget_pidfd()
        self._stdout.finish()
        self._stderr.finish()
        if self._contained is not None:
            # It may take a moment, and other games' clocks run meanwhile.
            await asyncio.to_thread(self._contained.close)

    @property
    def running(self) -> bool:
        """Whether its program has been started and has not ended."""
        return self._contained is not None and not self._exited.done()

    async def last_words(self) -> str:
        """How its program ended, with the last line that it wrote to stderr."""
        if self.running:
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, self._hosting.grace_us):
                    await asyncio.wait((self._exited,))
        if self._contained is None or self._contained.returncode is None:
            return "its process still runs"
        self._stderr.finish()
        how = _how_it_ended(self._contained.returncode)
        if limit := self._contained.over_limit():
            how = f"{how} for going over a limit ({limit})"
        last = self._stderr.last_line()
        return f"{how}; its last words: {last}" if last else f"{how}; it wrote nothing to stderr"

    def log(self) -> str:
        """What it printed, as text that is safe to show; "" if it printed nothing."""
        parts = (("stderr", self._stderr.text()), ("stdout", self._stdout.text()))
        return "".join(
            f"--- {name} of {self.bot.name}\n{text.rstrip()}\n" for name, text in parts if text
        )

    def _spawn(self, socket: Path | None, address: str) -> None:
        launch = LaunchSpec(
            command=self.bot.command,
            folder=self.bot.folder,
            environment=self._environment(address),
            socket=socket,
            stdout=self._stdout.writing,
            stderr=self._stderr.writing,
            limits=self._hosting.limits,
        )
        try:
            contained = self._contained = self._hosting.isolation.spawn(launch)
            self._pidfd = os.pidfd_open(contained.pid)
        except OSError as error:
            why = f"{self.bot.command[0]!r} cannot be started: {error.strerror or error}"
            raise (EarlyEnd if error.errno in _THE_PROGRAMS else RefereeError)(why) from None
        finally:
            self._stdout.close_writing()
            self._stderr.close_writing()
        self._loop.add_reader(self._pidfd, self._on_exit)
        if self._hosting.gauged:
            self.session.gauge = _Gauge(contained)
        if self._hosting.freeze:
            self.session.freeze = contained.freeze
            self.session.thaw = contained.thaw

    def _environment(self, address: str) -> dict[str, str]:
        return {
            ADDRESS_VARIABLE: address,
            TOKEN_VARIABLE: self._token,
            # What a bot prints is kept even if it is killed, and the order of its sets repeats.
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",
        }

    def _on_exit(self) -> None:
        assert self._contained is not None
        self._forget_pidfd()
        self._contained.kill()  # what it left behind, while its process group still has a name
        self._contained.poll()
        if not self._exited.done():
            self._exited.set_result(None)

    def _kill(self) -> None:
        if self._contained is not None:
            self._contained.kill()

    def _forget_pidfd(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _limit_passed(self) -> BotFault | None:
        limit = self._contained.over_limit() if self._contained is not None else None
        return BotFault(Fault.RESOURCE_LIMIT, f"it went over a limit: {limit}") if limit else None


def _how_it_ended(returncode: int) -> str:
    if returncode == 0:
        return "its program ended with status 0"
    number = -returncode if returncode < 0 else returncode - 128
    try:
        return f"its program was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"its program ended with status {returncode}"
