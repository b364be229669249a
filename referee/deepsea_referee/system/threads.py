"""Waits in threads for what not every event loop can wait for: exits and pipes.

Invariants: a thread touches nothing of its owner; it hands over and calls the loop. All threads are
daemons: one that waits for a process which nothing can end holds up nobody.
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
_LAST_CHUNKS = 16
_SETTLE_S = 0.25
"""How long what an ended process wrote is waited for: a child may hold the pipe open."""


def exit_signal(process: subprocess.Popen[bytes]) -> WakePipe:
    """Rings when a process has exited; see `LinuxSystem.exit_signal`."""
    wake = WakePipe()

    def wait() -> None:
        process.wait()
        wake.ring()

    threading.Thread(target=wait, name="exit", daemon=True).start()
    return wake


def on_exit(process: subprocess.Popen[bytes], call: Callable[[], object]) -> Callable[[], object]:
    """Call from the running event loop once a process has exited; returns what cancels that."""
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
    """Reads a pipe in a thread; see `linux.LoopReader`."""

    def __init__(self, descriptor: int, ready: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._ready = ready
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._room = 1
        """The number of chunks that may wait: one, so that a bot that prints without end waits."""
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
        with self._changed:
            self._room, self._pause_s = _LAST_CHUNKS, 0.0
            self._changed.notify_all()
            self._changed.wait_for(self._has_settled, _SETTLE_S)

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()

    def _has_settled(self) -> bool:
        return self._ended or len(self._chunks) >= self._room

    def _has_room(self) -> bool:
        return self._closed.is_set() or len(self._chunks) < self._room

    def _read(self) -> None:
        # The descriptor is this thread's alone: closed elsewhere, its number could be another's.
        with os.fdopen(self._descriptor, "rb", buffering=0) as pipe, suppress(OSError):
            while not self._closed.is_set() and (data := pipe.read(_CHUNK)):
                with self._changed:
                    self._chunks.append(data)
                    self._changed.notify_all()
                self._call()
                with self._changed:
                    self._changed.wait_for(self._has_room)
                self._closed.wait(self._pause_s)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._call()

    def _call(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ready)
