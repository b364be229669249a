"""macOS and Windows, with the standard library and psutil: plain processes and the wall clock.

Invariants: nothing here is of one system alone; what a system lacks (Unix sockets, process groups,
timer signals) is asked for where it is used. Waiting is done by threads, so that any event loop
will do. Python's `subprocess` passes no descriptor but the standard streams on Windows: workers
connect to this process over loopback, with a token that is used once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final

from deepsea_referee.sandbox.interface import (
    IsolatedProcess,
    Isolation,
    IsolationLevel,
    SandboxUnavailable,
)
from deepsea_referee.system import private_folders
from deepsea_referee.system.cpu_shares import CpuShare
from deepsea_referee.system.interface import ExitSignal, PipeReader
from deepsea_referee.system.own_group import OWN_GROUP_FLAGS
from deepsea_referee.system.plain_process import PlainProcess
from deepsea_referee.system.pulse import Pulse
from deepsea_referee.system.threads import ThreadReader, exit_signal
from deepsea_referee.system.wall_gauge import WallGauge
from deepsea_referee.system.worker_socket import BEFORE_MAIN, accept, listen
from deepsea_referee.timing.host_load import Gauge

NEEDS_LINUX: Final = (
    "a sandbox needs Linux: use --isolation process for your own bots, or run the referee there"
)


class PortableSystem:
    """macOS or Windows; see `interface.System`."""

    confines = False
    tells_delays = False

    def __init__(self) -> None:
        self.tcp_host = None if hasattr(socket, "AF_UNIX") else "127.0.0.1"
        self._pulse: Pulse | None = None

    def cpus(self) -> int:
        return os.cpu_count() or 1

    def opens_browsers(self) -> bool:
        return True

    def late_share(self) -> float:
        return 0.0 if self._pulse is None else self._pulse.late_share()

    def begin_test(self, level: IsolationLevel) -> AbstractContextManager[Any]:
        return nullcontext()

    def choose(self, level: IsolationLevel, begun: Any = None) -> Isolation:
        if level == "sandbox":
            raise SandboxUnavailable(NEEDS_LINUX)
        return PlainProcess()

    def choose_bot_users(self, text: str) -> None:
        raise ValueError(NEEDS_LINUX)

    def gauge(self, process: IsolatedProcess) -> Gauge:
        if self._pulse is None:
            self._pulse = Pulse()
            self._pulse.start()
        return WallGauge(process, self._pulse, self.cpus())

    def pipe_reader(self, descriptor: int, ready: Callable[[], object]) -> PipeReader:
        return ThreadReader(descriptor, ready)

    def private_folder(self) -> Path:
        return private_folders.make()

    def remove_folder(self, folder: Path) -> None:
        private_folders.remove(folder)

    def start_worker(self, main: str) -> tuple[subprocess.Popen[bytes], Connection]:
        with listen() as listening:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", BEFORE_MAIN + main],
                stdin=subprocess.PIPE,
                # Ctrl-C is for this process, which says when to stop.
                start_new_session=True,
                creationflags=OWN_GROUP_FLAGS,
            )
            return process, accept(listening, process)

    def keep_to(self, share: CpuShare) -> None:
        """Do nothing: macOS binds no process to a CPU."""

    def accept_interrupts(self) -> None:
        """Do nothing: Ctrl-C does not reach a worker, which has a group of its own."""

    def give_way(self) -> None:
        if hasattr(os, "nice"):
            os.nice(19)

    def exit_signal(self, process: subprocess.Popen[bytes]) -> ExitSignal:
        return exit_signal(process)

    def interrupt_main(self) -> None:
        import _thread

        if hasattr(signal, "pthread_kill"):
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
        else:
            _thread.interrupt_main(signal.SIGINT)

    def ticking(
        self, seconds: float, tick: Callable[[FrameType | None], object]
    ) -> AbstractContextManager[None]:
        if hasattr(signal, "setitimer"):
            from deepsea_referee.system.alarm_ticks import alarm_ticks

            return alarm_ticks(seconds, tick)
        from deepsea_referee.system.threads import thread_ticks

        return thread_ticks(seconds, tick)

    async def read_stdin(self, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()

        def read() -> None:
            while data := os.read(0, 65536):
                loop.call_soon_threadsafe(reader.feed_data, data)
            loop.call_soon_threadsafe(reader.feed_eof)

        threading.Thread(target=read, name="stdin", daemon=True).start()
