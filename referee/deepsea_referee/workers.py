"""The pool of worker processes under matches, comparisons and the ladder, and a worker's own side.

Invariants: a task is a picklable argument for what the pool's `setup` gives in each worker; each
task that was started ends in one event (Done, Failed or Died), whatever happens to its worker; a
worker that ended is replaced; one that leaves before it begins a task leaves it to the next; no
worker outlives this process; Ctrl-C leaves workers alone. In a
worker the main thread runs tasks, one after another, and another thread listens; a task ends early
on request and when the process that has the pool is gone; nothing here knows what the tasks do.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field
from io import FileIO
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from deepsea_referee.errors import RefereeError, UserError
from deepsea_referee.interrupts import WakePipe, first_ready, own_handler
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_referee.system import ALL_CPUS, SYSTEM, CpuShare

GRACE_S = 10.0
"""The time in which a worker must end its task and clean up."""

Perform: TypeAlias = Callable[[Any], object]
"""Runs a task, given its argument; returns the result."""
Setup: TypeAlias = "Callable[[Link], AbstractContextManager[Perform]]"
"""Sets up a worker, in its process: a context manager that gives what runs the tasks, and cleans up
at its exit. It can be pickled."""

_MAIN = """
import sys
sys.path[:] = connection.recv()
from deepsea_referee.workers import main
main(connection)
"""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A task that was started."""

    argument: object
    needs: tuple[str, ...] = ()
    """Digests of the files that it needs."""


class Sent(NamedTuple):
    """A message of a task."""

    task: Task
    message: Any


class Done(NamedTuple):
    """The result of a task."""

    task: Task
    result: Any


class Failed(NamedTuple):
    """The error that a task, or the setup of its worker, raised."""

    task: Task
    error: Exception


class Died(NamedTuple):
    """The end of a worker in the middle of a task, in words."""

    task: Task
    ending: str


Event: TypeAlias = Sent | Done | Failed | Died


class Workers(Protocol):
    """A pool of workers, here or on other machines."""

    def free(self) -> Sequence[Hashable]:
        """The workers that can take a task, once for each; those that have none come first."""

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        """Start a task on a free worker; it gets the files that it needs by their digests."""

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[Event]:
        """Wait for events; maybe none after `seconds`, or when a waker rings, which is cleared."""

    def stop(self) -> None:
        """Request all tasks to end early; they still have results."""

    def kill(self, task: Task) -> None:
        """Kill the worker of a task, which has no event then."""

    def close(self) -> None:
        """End all workers, whatever they do."""


def no_files(digest: str) -> bytes:
    """Fail: for pools with tasks that need no files."""
    raise KeyError(digest)


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    exit: FileIO | WakePipe
    connection: Connection
    tasks: deque[Task] = field(default_factory=deque)
    files: set[str] = field(default_factory=set)
    """The digests of the files that it got."""


class LocalWorkers:
    """Workers that are processes on this machine, started when they get their first task.

    setup  called in each worker; must be importable there
    fetch  returns a file by its digest
    ahead  the number of tasks that may wait at a worker while it runs another
    cpus   for each worker its share of the CPUs, which is also that of its bots; by default all
           use all
    """

    def __init__(
        self,
        setup: Setup,
        workers: int,
        *,
        fetch: Callable[[str], bytes] = no_files,
        ahead: int = 0,
        cpus: Sequence[CpuShare] = (),
    ) -> None:
        self._setup = pickle.dumps(setup)
        self._cpus = cpus or [ALL_CPUS] * workers
        self._fetch = fetch
        self._ahead = ahead
        self._workers: list[_Worker | None] = [None] * workers
        self._events: list[Event] = []
        """Events that did not come from a worker."""

    def free(self) -> Sequence[int]:
        """Workers without a task, then those that may have one more, and so on; by number."""
        loads = [len(worker.tasks) if worker else 0 for worker in self._workers]
        return [
            number
            for depth in range(self._ahead + 1)
            for number, load in enumerate(loads)
            if load <= depth
        ]

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        """Start a task; it fails if `fetch` does."""
        assert isinstance(worker, int)
        task = Task(argument, tuple(needs))
        present = self._workers[worker]
        if present is not None and not present.tasks and present.process.poll() is not None:
            self._dismiss(present)  # it died while it was idle
        self._give(self._workers[worker] or self._hire(worker), task)
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[Event]:
        """Receive the workers' messages, one of each."""
        # The process too, because a child of it may hold the connection open.
        sources: dict[Connection | FileIO | WakePipe, _Worker] = {
            source: worker
            for worker in self._workers
            if worker is not None and worker.tasks
            for source in (worker.connection, worker.exit)
        }
        ready = first_ready([*sources, *dict.fromkeys(wakers)], 0 if self._events else seconds)
        for waker in wakers:
            if waker in ready:
                waker.clear()
        heard = dict.fromkeys(sources[source] for source in sources if source in ready)
        events = [event for worker in heard for event in self._receive(worker)]
        events += self._events
        self._events.clear()
        return events

    def stop(self) -> None:
        """Request all workers to end."""
        for worker in self._workers:
            if worker is not None:
                with suppress(OSError):
                    worker.connection.send(None)

    def kill(self, task: Task) -> None:
        """Kill the task's worker; tasks that waited there wait for a new one."""
        for worker in self._workers:
            if worker is not None and worker.tasks and worker.tasks[0] is task:
                worker.process.kill()
                worker.tasks.popleft()
                self._replace(worker)

    def close(self) -> None:
        """End all workers, and wait until they have exited."""
        workers = [worker for worker in self._workers if worker is not None]
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            self._dismiss(worker)

    def _receive(self, worker: _Worker) -> list[Event]:
        try:
            if not worker.connection.poll():
                raise EOFError
            kind, value = worker.connection.recv()
        except (EOFError, OSError):
            task = worker.tasks.popleft()
            return [Died(task, self._replace(worker))]
        if kind == "sent":
            return [Sent(worker.tasks[0], value)]
        if kind == "leaves":
            self._replace(worker)
            return []
        task = worker.tasks.popleft()
        return [Done(task, value) if kind == "done" else Failed(task, value)]

    def _replace(self, worker: _Worker) -> str:
        """Remove a worker that has exited or is about to; returns its exit status in words.

        Tasks that it has go to a new worker.
        """
        number = self._workers.index(worker)
        ending = self._dismiss(worker)
        if worker.tasks:
            heir = self._hire(number)
            for task in worker.tasks:
                self._give(heir, task)
        return ending

    def _give(self, worker: _Worker, task: Task) -> None:
        lacking = [digest for digest in task.needs if digest not in worker.files]
        try:
            files = {digest: self._fetch(digest) for digest in lacking}
        except Exception as error:  # noqa: BLE001  (whatever it is, other tasks may go on)
            self._events.append(Failed(task, error))
            return
        worker.tasks.append(task)
        worker.files |= files.keys()
        with suppress(OSError):  # it died just now, which `wait` notices
            worker.connection.send((pickle.dumps(task.argument), files))

    def _hire(self, number: int) -> _Worker:
        # A program of its own: forking a process with threads or gRPC in it is not safe, and
        # multiprocessing runs the main module again, and forbids Dask's workers any children.
        process, connection = SYSTEM.start_worker(_MAIN)
        worker = _Worker(process, SYSTEM.exit_signal(process), connection)
        self._workers[number] = worker
        with suppress(OSError):
            connection.send(sys.path)
            connection.send(self._cpus[number])
            connection.send_bytes(self._setup)
        return worker

    def _dismiss(self, worker: _Worker) -> str:
        """Wait until a worker has exited, or kill it; returns its exit status in words."""
        self._workers[self._workers.index(worker)] = None
        worker.connection.close()
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(GRACE_S)
        worker.process.kill()
        code = worker.process.wait()
        worker.exit.close()
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def results_in_order(
    setup: Setup, arguments: Iterable[object], workers: int, name: str
) -> Iterator[Any]:
    """The results of tasks with these arguments, by so many workers, in the order of the tasks.

    name  that of a worker, such as "a worker of the analysis"
    Raises RefereeError if a worker ended, and what a task raised.
    """
    waiting = iter(arguments)
    begun: deque[Task] = deque()
    """Tasks whose results were not given yet."""
    results: dict[Task, Any] = {}
    # One more task waits at each worker, so that none is idle while this process reads.
    with closing(LocalWorkers(setup, workers, ahead=1)) as pool:
        while True:
            for worker, argument in zip(pool.free(), waiting, strict=False):
                begun.append(pool.start(argument, worker))
            if not begun:
                return
            for event in pool.wait(None):
                match event:
                    case Done(task, result):
                        results[task] = result
                    case Failed(_, error):
                        raise error
                    case Died(_, ending):
                        raise RefereeError(f"{name} ended: {ending}")
            while begun and begun[0] in results:
                yield results.pop(begun.popleft())


# In a worker


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

    def leave(self) -> NoReturn:
        """End this worker, which cannot begin the present task; another one does it."""
        self._post("leaves", None)
        raise SystemExit(0)

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
    signal.signal(signal.SIGINT, own_handler(lambda: None))
    signal.signal(signal.SIGTERM, own_handler(link.stop))
    SYSTEM.accept_interrupts()
    link.run(connection.recv_bytes())
    if (loading := sys.modules.get("deepsea_referee.bots.loading")) is not None:
        loading.end_process(0)


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
