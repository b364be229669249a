"""Ctrl-C, SIGTERM and a closed terminal as requests to stop.

Invariants: a signal only sets a flag and wakes the waiting code, so that nothing is interrupted
halfway; the former handlers are restored afterwards.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

if TYPE_CHECKING:
    from _typeshed import HasFileno

T = TypeVar("T")


@contextmanager
def on_signals(
    interrupt: Callable[[], object], terminate: Callable[[], object] | None = None
) -> Iterator[None]:
    """Call `interrupt` at Ctrl-C and `terminate`, by default the same, at SIGTERM.

    A closed terminal is a SIGTERM, except for a process that ignores it (`nohup`).
    Signals reach the main thread alone: in another one nothing is called, unless `apart` began it.
    They may be called between any two steps of the code; wake an event loop with its
    `call_soon_threadsafe`.
    """
    if threading.current_thread() is not threading.main_thread():
        with _relayed(interrupt, terminate or interrupt):
            yield
        return
    calls = {signal.SIGINT: interrupt, signal.SIGTERM: terminate or interrupt}
    if (pause_key := getattr(signal, "SIGBREAK", None)) is not None:  # Ctrl-Break on Windows
        calls[pause_key] = calls[signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        calls[hang_up] = calls[signal.SIGTERM]
    former = {number: signal.signal(number, own_handler(call)) for number, call in calls.items()}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class _Relay(threading.local):
    """What `on_signals` calls in a thread that `apart` began, the innermost last; else None."""

    calls: list[tuple[Callable[[], object], Callable[[], object]]] | None = None


_relay = _Relay()


@contextmanager
def _relayed(interrupt: Callable[[], object], terminate: Callable[[], object]) -> Iterator[None]:
    calls = _relay.calls
    if calls is None:
        yield
        return
    calls.append((interrupt, terminate))
    try:
        yield
    finally:
        calls.pop()


def apart(play: Callable[[], T]) -> T:
    """Call `play` in a thread of its own, where no event loop runs, and wait for what it returns.

    Signals that come meanwhile are for `on_signals` there; before it is reached, or in a thread
    that is not the main one, they are lost.
    """
    calls: list[tuple[Callable[[], object], Callable[[], object]]] = []

    def played() -> T:
        _relay.calls = calls
        return play()

    def relay(which: int) -> None:
        for call in calls[-1:]:
            call[which]()

    with (
        on_signals(partial(relay, 0), partial(relay, 1)),
        ThreadPoolExecutor(1, "match") as thread,
    ):
        return thread.submit(played).result()


def own_handler(call: Callable[[], object]) -> Callable[[int, object], object]:
    """A handler of signals for this process alone.

    A process that a bot forks here does not inherit it: such a signal ends that process.
    """

    def handle(_number: int, _frame: object) -> None:
        call()

    _own_handlers.add(handle)
    return handle


_own_handlers: WeakSet[Callable[[int, object], object]] = WeakSet()
_forking = threading.local()


if sys.platform != "win32":
    _STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def _before_fork() -> None:
        """Hold signals back: Python forgets those that come before a child has begun."""
        _forking.former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)

    def _after_fork_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.former_mask)

    def _after_fork_in_child() -> None:
        for number in _STOP_SIGNALS:
            if signal.getsignal(number) in _own_handlers:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.former_mask)

    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


class StopRequests:
    """Counter of requests to end a match: after the game at hand, from the second on at once."""

    def __init__(self) -> None:
        self.count = 0

    def ask(self) -> None:
        self.count += 1

    def ask_at_once(self) -> None:
        self.count += 2

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Ctrl-C asks for it, SIGTERM and a closed terminal at once."""
        with on_signals(self.ask, self.ask_at_once):
            yield


class WakePipe:
    """A pipe that wakes a `select`; may be rung from any thread or signal handler."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)

    def ring(self) -> None:
        """Wake the waiting code, now or later; does nothing once the pipe is closed."""
        with suppress(OSError):  # it is closed, or full of rings already
            self._writing.send(b"!")

    def fileno(self) -> int:
        """Readable once it rang."""
        return self._reading.fileno()

    def clear(self) -> None:
        with suppress(BlockingIOError):
            self._reading.recv(4096)

    def pause(self, seconds: float) -> None:
        """Wait that long, or until it rings."""
        pause(seconds, self)

    def close(self) -> None:
        self._reading.close()
        self._writing.close()


def pause(seconds: float | None, *wakers: WakePipe) -> None:
    """Wait that long, or until one of them rings; all are cleared."""
    first_ready(wakers, seconds)
    for waker in wakers:
        waker.clear()


def first_ready(
    sources: Sequence[HasFileno | Connection], seconds: float | None
) -> Sequence[object]:
    """Wait until one is readable; returns those that are, none if time passed or at Ctrl-C.

    Each has a socket, on Linux and macOS any descriptor.
    """
    try:
        return wait(cast(Any, [*sources]), seconds)
    except InterruptedError:  # on Windows; elsewhere the handler has run and waiting goes on
        return []
