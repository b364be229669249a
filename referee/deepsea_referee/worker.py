"""A worker process: runs tasks one after another, for the process that has the pool.

Invariants: the main thread runs tasks, another one listens; a task ends early on request and when
the process that has the pool is gone; nothing here knows what the tasks do.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeAlias

from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_referee.system import SYSTEM

GRACE_S = 10.0
"""The time in which a worker must end its task and clean up."""

Perform: TypeAlias = Callable[[Any], object]
"""Runs a task, given its argument; returns the result."""
Setup: TypeAlias = "Callable[[Link], AbstractContextManager[Perform]]"
"""Sets up a worker, in its process: a context manager that gives what runs the tasks, and cleans up
at its exit. It can be pickled."""


class Link:
    """A worker's connection to the process that has the pool."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.RLock()
        self._tasks: SimpleQueue[bytes | None] = SimpleQueue()
        self._files: dict[str, bytes] = {}
        self._stopping = False
        self._alone = False
        """Whether the process that has the pool is gone."""
        self._stop: Callable[[], object] = int
        self._next: Callable[[Any], object] | None = None

    def send(self, message: object) -> None:
        """Send a message of the present task; waits while the receiver is busy."""
        self._post("sent", message)

    def file(self, digest: str) -> bytes:
        """Take out a file that came with a task. Raises KeyError if none did, or it was taken."""
        return self._files.pop(digest)

    def on_stop(self, call: Callable[[], object]) -> None:
        """Set what ends the present task early; called in any thread, maybe more than once.

        A task that sets nothing ends with its process.
        """
        self._stop = call
        if self._stopping:
            call()

    def on_next(self, call: Callable[[Any], object]) -> None:
        """Set what is called with the argument of each task as it comes; called in any thread."""
        self._next = call

    def stop(self) -> None:
        """End the present task early, and the worker after it."""
        self._stopping = True
        self._tasks.put(None)
        self._stop()

    def run(self, setup: bytes) -> None:
        """Run tasks until there is a request to stop."""
        threading.Thread(target=self._listen, daemon=True).start()
        perform: Perform | None = None
        with ExitStack() as leaving:
            while (packed := self._tasks.get()) is not None and not self._stopping:
                try:
                    if perform is None:
                        perform = leaving.enter_context(pickle.loads(setup)(self))
                    argument = pickle.loads(packed)
                    self._stop = lambda: os._exit(1)
                    if self._alone:  # since this worker was being set up
                        break
                    try:
                        result = perform(argument)
                    finally:
                        self._stop = int
                    self._post("done", result)
                except Exception as error:  # noqa: BLE001  (every error is reported)
                    self._post("failed", _portable(error))

    def _listen(self) -> None:
        try:
            while (message := self._connection.recv()) is not None:
                packed, files = message
                self._files |= files
                if self._next is not None:
                    with suppress(Exception):  # the task itself will report it
                        self._next(pickle.loads(packed))
                self._tasks.put(packed)
            self.stop()
            self._connection.recv()
        except (EOFError, OSError):  # reset, if the process that has the pool was killed
            self._alone = True
            self.stop()
            threading.Event().wait(GRACE_S)
            os._exit(1)

    def _post(self, kind: str, value: object) -> None:
        packed = pickle.dumps((kind, value))
        with self._sending, suppress(OSError):  # who is gone is noticed by who listens
            self._connection.send_bytes(packed)


def main(connection: Connection) -> None:
    """Run a worker: the main function of its process."""
    # As in the command line: games leave hardly any garbage, and looking for it takes 7 % of their
    # time; at exit the system takes all memory back anyway.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    os.set_inheritable(connection.fileno(), False)
    SYSTEM.keep_to(connection.recv())
    link = Link(connection)
    # The pool says when to stop. Unlike SIG_IGN, a handler is not inherited by bots.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: link.stop())
    SYSTEM.accept_interrupts()
    link.run(connection.recv_bytes())


def _portable(error: Exception) -> Exception:
    """The error in a form that can be sent to another process."""
    if isinstance(error, UserError):
        return error
    for kind in (SandboxUnavailable, RefereeError):
        if isinstance(error, kind):
            return kind(str(error))
    if isinstance(error, OSError):
        return error
    return RuntimeError(f"in a worker: {''.join(traceback.format_exception(error))}")
