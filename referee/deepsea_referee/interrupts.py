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
    """Within the `with` block, call `interrupt` at Ctrl-C and `terminate` at SIGTERM.

    `terminate` is `interrupt` by default. A closed terminal counts as SIGTERM, unless the process
    ignores it (`nohup`). The functions may be called between any two steps of the code, so they
    should only set a flag or wake an event loop by its `call_soon_threadsafe`.

    Python handles signals in the main thread only. In another thread this has no effect, unless
    `run_apart` has started that thread.
    """
    if threading.current_thread() is not threading.main_thread():
        with _relayed(interrupt, terminate or interrupt):
            yield
        return
    calls = {signal.SIGINT: interrupt, signal.SIGTERM: terminate or interrupt}
    pause_key = getattr(signal, "SIGBREAK", None)  # Ctrl-Break on Windows; no other system has it
    if pause_key is not None:
        calls[pause_key] = calls[signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # a closed terminal; Windows does not have it
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        calls[hang_up] = calls[signal.SIGTERM]
    former_handlers = {}
    for number, call in calls.items():
        former_handlers[number] = signal.signal(number, own_handler(call))
    try:
        yield
    finally:
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


class _Relay(threading.local):
    """The functions of `on_signals` in a thread that `run_apart` has started."""

    functions_of_blocks: list[tuple[Callable[[], object], Callable[[], object]]] | None = None
    """The functions for Ctrl-C and for SIGTERM, of the innermost `with` block last.

    None in a thread that `run_apart` has not started.
    """


_relay = _Relay()


@contextmanager
def _relayed(interrupt: Callable[[], object], terminate: Callable[[], object]) -> Iterator[None]:
    """Within the `with` block, have these functions called at Ctrl-C and at SIGTERM.

    The main thread calls them, while it waits in `run_apart` for this thread. In a thread that
    `run_apart` has not started, there are no such calls.
    """
    functions_of_blocks = _relay.functions_of_blocks
    if functions_of_blocks is None:
        yield
        return
    functions_of_blocks.append((interrupt, terminate))
    try:
        yield
    finally:
        functions_of_blocks.pop()


def run_apart(play: Callable[[], T]) -> T:
    """Call `play` in a thread of its own, where no event loop runs, and return its result.

    Python handles signals in the main thread only. If that calls this, it passes each signal on to
    the innermost `on_signals` block of the new thread, and ignores it if there is no such block.
    """
    # For each block of the new thread, its functions for Ctrl-C and for SIGTERM; innermost last.
    functions_of_blocks: list[tuple[Callable[[], object], Callable[[], object]]] = []

    def play_with_relay() -> T:
        _relay.functions_of_blocks = functions_of_blocks
        return play()

    def interrupt() -> None:
        if functions_of_blocks:
            interrupt_block, _ = functions_of_blocks[-1]
            interrupt_block()

    def terminate() -> None:
        if functions_of_blocks:
            _, terminate_block = functions_of_blocks[-1]
            terminate_block()

    with on_signals(interrupt, terminate), ThreadPoolExecutor(1, "match") as thread:
        return thread.submit(play_with_relay).result()


def own_handler(call: Callable[[], object]) -> Callable[[int, object], object]:
    """Return a signal handler that calls `call` in this process, but not in its forks.

    In a fork, a hook restores the default handler, so that the signal ends a process that a bot has
    forked.
    """

    def handle(_number: int, _frame: object) -> None:
        call()

    _own_handlers.add(handle)
    return handle


_own_handlers: WeakSet[Callable[[int, object], object]] = WeakSet()
_forking = threading.local()


if sys.platform != "win32" and hasattr(signal, "SIGHUP"):
    _STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def _before_fork() -> None:
        """Block stop signals during a fork, as Python would lose one that comes too early."""
        _forking.former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)

    def _after_fork_in_parent() -> None:
        """Unblock stop signals."""
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.former_mask)

    def _after_fork_in_child() -> None:
        """Replace handlers of `own_handler` by the default ones, then unblock stop signals."""
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
    """A counter of requests to end a match.

    One request ends the match after the current game, two or more requests end it at once.
    """

    def __init__(self) -> None:
        self.count = 0

    def ask(self) -> None:
        """Request the end after the current game; a second call requests it at once."""
        self.count += 1

    def ask_at_once(self) -> None:
        """Request the end at once."""
        self.count += 2

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Within the `with` block, take Ctrl-C as a request, and SIGTERM as one to end at once."""
        with on_signals(self.ask, self.ask_at_once):
            yield


class WakePipe:
    """A pipe that wakes code that waits for it; any thread or signal handler may ring it."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)

    def ring(self) -> None:
        """Wake the code that waits or will wait next; do nothing once the pipe is closed."""
        with suppress(OSError):  # closed, or full of unread rings
            self._writing.send(b"!")

    def fileno(self) -> int:
        """Return the descriptor that is readable after a ring."""
        return self._reading.fileno()

    def clear(self) -> None:
        """Forget all rings so far."""
        with suppress(BlockingIOError):
            self._reading.recv(4096)

    def pause(self, seconds: float) -> None:
        """Wait so many seconds, or until a ring, and forget all rings."""
        pause(seconds, self)

    def close(self) -> None:
        self._reading.close()
        self._writing.close()


def pause(seconds: float | None, *wakers: WakePipe) -> None:
    """Wait so many seconds (None: forever), or until one of the wakers rings; clear them all."""
    first_ready(wakers, seconds)
    for waker in wakers:
        waker.clear()


def first_ready(
    sources: Sequence[HasFileno | Connection], seconds: float | None
) -> Sequence[object]:
    """Wait until at least one of the sources is readable, and return all that are.

    Return an empty sequence if none is within `seconds`, and on Windows at Ctrl-C.

    sources  connections, or on Windows sockets and elsewhere any objects with a descriptor
    seconds  the longest wait; None to wait forever
    """
    try:
        return wait(cast(Any, [*sources]), seconds)
    except InterruptedError:  # only on Windows: elsewhere the wait continues after the handler
        return []
