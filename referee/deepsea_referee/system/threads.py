"""Threads that wait for exits and pipes, because some event loops cannot.

Invariants: a thread changes no state of its owner; it passes data on and calls the event loop. All
threads are daemons, so that waiting for a process that nobody can end does not block the exit.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from deepsea_referee.interrupts import WakePipe

_CHUNK = 16 * 1024
"""The largest number of bytes that are read at once."""
_LAST_CHUNKS = 16
"""The number of chunks that are read after the end of a process."""
_SETTLE_S = 0.25
"""The longest wait for the last output of an ended process: a child may hold the pipe open."""


def exit_signal(process: subprocess.Popen[bytes]) -> WakePipe:
    """Return a pipe that rings when a process has exited; see `LinuxSystem.exit_signal`."""
    wake = WakePipe()

    def wait() -> None:
        process.wait()
        wake.ring()

    threading.Thread(target=wait, name="exit", daemon=True).start()
    return wake


def on_exit(process: subprocess.Popen[bytes], call: Callable[[], object]) -> Callable[[], object]:
    """Let the running event loop make a call once a process has exited.

    Returns the function that cancels the call.
    """
    loop = asyncio.get_running_loop()
    cancelled = threading.Event()

    def exited() -> None:
        if not cancelled.is_set():
            call()

    def wait() -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(exited)

    threading.Thread(target=wait, name="exit", daemon=True).start()
    return cancelled.set


class ThreadReader:
    """Reads a pipe in a thread; `linux.LoopReader` documents the methods.

    The thread reads one chunk ahead, and then waits until the event loop has taken it.
    """

    def __init__(self, descriptor: int, ready: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._ready = ready
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._room = 1
        """The number of chunks that may be read ahead: one, so that a bot that prints without end
        has to wait."""
        self._ended = False
        self._closed = threading.Event()
        self._pause_s = 0.0
        threading.Thread(target=self._read, name="output", daemon=True).start()

    def take(self) -> bytes | None:
        with self._changed:
            if not self._chunks:
                return b"" if self._ended else None
            self._changed.notify_all()
            return self._chunks.popleft()

    def pause(self, seconds: float) -> None:
        self._pause_s = seconds

    def settle(self) -> None:
        """Wait shortly for the last bytes of an ended process."""
        with self._changed:
            self._room, self._pause_s = _LAST_CHUNKS, 0.0
            self._changed.notify_all()
            self._changed.wait_for(self._has_settled, _SETTLE_S)

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()

    def _has_settled(self) -> bool:
        """Return True at the end of the pipe, or if enough was read."""
        return self._ended or len(self._chunks) >= self._room

    def _has_room(self) -> bool:
        """Return True if another chunk may be read, or the reader is closed."""
        return self._closed.is_set() or len(self._chunks) < self._room

    def _read(self) -> None:
        """Read the pipe until its end or `close`; runs in the thread.

        After each chunk the event loop is called. Then the thread waits, first until there is room
        for another chunk, and then for the time of `pause`.
        """
        # Only this thread closes the descriptor: its number could be another file's afterwards.
        with os.fdopen(self._descriptor, "rb", buffering=0) as pipe, suppress(OSError):
            while not self._closed.is_set() and (data := pipe.read(_CHUNK)):
                with self._changed:
                    self._chunks.append(data)
                    self._changed.notify_all()
                self._call_ready()
                with self._changed:
                    self._changed.wait_for(self._has_room)
                self._closed.wait(self._pause_s)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._call_ready()

    def _call_ready(self) -> None:
        """Let the event loop call `ready`, unless it is closed."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ready)
