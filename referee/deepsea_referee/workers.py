"""The pool of worker processes under matches, comparisons and the ladder, and a worker's own side.

Invariants: a task is a picklable argument for the function that the pool's `setup` yields in each
worker; each task that was started ends in one event (TaskResult, TaskFailure or WorkerDeath),
whatever happens to its worker; a worker that ended is replaced; a worker may exit before it begins
a task, which the next worker gets; no worker outlives this process; Ctrl-C does not reach workers.
In a worker the main thread runs tasks, one after another, and another thread listens; a task ends
early on request and when the process of the pool has ended; nothing here knows what the tasks do.
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

TaskFunction: TypeAlias = Callable[[Any], object]
"""Runs a task, given its argument; returns the result."""
WorkerSetup: TypeAlias = "Callable[[Link], AbstractContextManager[TaskFunction]]"
"""Context manager that sets up a worker in its process, and cleans up at its exit.

It yields the function that runs tasks. It must be picklable.
"""

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
    """The digests of the files that the task needs."""


class TaskMessage(NamedTuple):
    """A message of a task."""

    task: Task
    message: Any


class TaskResult(NamedTuple):
    """The result of a task."""

    task: Task
    result: Any


class TaskFailure(NamedTuple):
    """The error that a task, or the setup of its worker, raised."""

    task: Task
    error: Exception


class WorkerDeath(NamedTuple):
    """The unexpected end of a worker during a task."""

    task: Task
    ending: str
    """The worker's exit status in words."""


WorkerEvent: TypeAlias = TaskMessage | TaskResult | TaskFailure | WorkerDeath


class Workers(Protocol):
    """A pool of workers, here or on other machines."""

    def free(self) -> Sequence[Hashable]:
        """Return the workers that can take a task, idle ones first.

        A worker that can take several tasks is listed several times.
        """

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        """Start a task on a free worker; `needs` are the digests of the files that it needs."""

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        """Wait for events, and return them.

        There may be none if so many seconds have passed (None: forever), or if a waker rings.
        Wakers that ring are cleared.
        """

    def stop(self) -> None:
        """Request all tasks to end early; they still have results."""

    def kill(self, task: Task) -> None:
        """Kill the worker of a task; the task has no event then."""

    def close(self) -> None:
        """End all workers, even in the middle of tasks."""


def no_files(digest: str) -> bytes:
    """Raise KeyError: the function to fetch files for pools whose tasks need none."""
    raise KeyError(digest)


def do_nothing() -> None:
    """Ignore a request to stop, when there is no task that could end."""


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker process, and the tasks that it has; the first one is running."""

    process: subprocess.Popen[bytes]
    exit: FileIO | WakePipe
    connection: Connection
    tasks: deque[Task] = field(default_factory=deque)
    files: set[str] = field(default_factory=set)
    """The digests of the files that were sent to it."""


class LocalWorkers:
    """Workers that are processes on this machine, started when they get their first task.

    setup  called in each worker; must be importable there
    fetch  returns the content of a file by its digest
    ahead  the number of tasks that may wait at a worker while it runs another one
    cpus   the CPUs of each worker and its bots; by default all workers use all CPUs
    """

    def __init__(
        self,
        setup: WorkerSetup,
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
        self._events: list[WorkerEvent] = []
        """Events of tasks that failed before a worker got them."""

    def free(self) -> Sequence[int]:
        """Return the numbers of workers that can take a task, idle ones first.

        A worker is listed once for each task that it can take.
        """
        task_counts = [len(worker.tasks) if worker else 0 for worker in self._workers]
        numbers = []
        # First the workers without a task, then also those with one, up to those with `_ahead`.
        for most_tasks in range(self._ahead + 1):
            for number, tasks in enumerate(task_counts):
                if tasks <= most_tasks:
                    numbers.append(number)
        return numbers

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        """Start a task on the worker with this number, and start the worker if necessary.

        argument  the argument of the function that runs tasks in the worker
        needs     the digests of the files that the task needs; if one cannot be fetched, the task
                  fails with that error
        """
        assert isinstance(worker, int)
        task = Task(argument, tuple(needs))
        running = self._workers[worker]
        if running is not None and not running.tasks and running.process.poll() is not None:
            self._end_worker(running)  # it died while it was idle
            running = None
        self._send_task(running or self._start_worker(worker), task)
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        """Wait for messages of the workers, and return at most one event for each worker.

        Wakers that ring end the wait, and are cleared.

        seconds  the longest wait; None to wait forever
        """
        busy = [worker for worker in self._workers if worker is not None and worker.tasks]
        sources: list[Connection | FileIO | WakePipe] = [*dict.fromkeys(wakers)]
        for worker in busy:
            # Also wait for the exit of its process, because a child may hold the connection open.
            sources += worker.connection, worker.exit
        # Tasks that failed before a worker got them have events already: then nothing is awaited.
        ready = first_ready(sources, 0 if self._events else seconds)
        for waker in wakers:
            if waker in ready:
                waker.clear()
        events = []
        for worker in busy:
            if worker.connection in ready or worker.exit in ready:
                events += self._receive(worker)
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
        """Kill the worker that runs the task; tasks that wait there go to a new worker."""
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
            self._end_worker(worker)

    def _receive(self, worker: _Worker) -> list[WorkerEvent]:
        """Receive the message of a worker, and return its event in a list.

        If the worker has exited without a message, the event is its death. If it leaves before it
        has begun its task, another worker gets the task, and there is no event.
        """
        try:
            if not worker.connection.poll():
                raise EOFError
            kind, value = worker.connection.recv()
        except (EOFError, OSError):
            task = worker.tasks.popleft()
            ending = self._replace(worker)
            return [WorkerDeath(task, ending)]
        if kind == "sent":  # a message of the task that it is running
            return [TaskMessage(worker.tasks[0], value)]
        if kind == "leaves":
            self._replace(worker)
            return []
        task = worker.tasks.popleft()
        if kind == "done":
            return [TaskResult(task, value)]
        return [TaskFailure(task, value)]

    def _replace(self, worker: _Worker) -> str:
        """Remove a worker that has exited or will exit, and return its exit status in words.

        Its tasks go to a new worker.
        """
        number = self._workers.index(worker)
        ending = self._end_worker(worker)
        if worker.tasks:
            successor = self._start_worker(number)
            for task in worker.tasks:
                self._send_task(successor, task)
        return ending

    def _send_task(self, worker: _Worker, task: Task) -> None:
        """Send a task to a worker, with those of its files that the worker does not have.

        If a file cannot be fetched, the task fails, and the worker does not get it.
        """
        missing_digests = [digest for digest in task.needs if digest not in worker.files]
        try:
            files = {digest: self._fetch(digest) for digest in missing_digests}
        except Exception as error:  # noqa: BLE001  (any error fails this task only)
            self._events.append(TaskFailure(task, error))
            return
        worker.tasks.append(task)
        worker.files |= files.keys()
        with suppress(OSError):  # if the worker has just died, `wait` reports it
            worker.connection.send((pickle.dumps(task.argument), files))

    def _start_worker(self, number: int) -> _Worker:
        """Start the process of the worker with this number, and send it the setup."""
        # A new program instead of a fork, since a process with threads or gRPC cannot be forked
        # safely; and not multiprocessing, which runs the main module again, and does not allow
        # children in workers of Dask.
        process, connection = SYSTEM.start_worker(_MAIN)
        worker = _Worker(process, SYSTEM.exit_signal(process), connection)
        self._workers[number] = worker
        with suppress(OSError):
            connection.send(sys.path)
            connection.send(self._cpus[number])
            connection.send_bytes(self._setup)
        return worker

    def _end_worker(self, worker: _Worker) -> str:
        """Remove a worker: wait until it has exited, or kill it after `GRACE_S` seconds.

        Return its exit status in words, such as "signal 9".
        """
        self._workers[self._workers.index(worker)] = None
        worker.connection.close()
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(GRACE_S)
        worker.process.kill()
        code = worker.process.wait()
        worker.exit.close()
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def results_in_order(
    setup: WorkerSetup, arguments: Iterable[object], workers: int, name: str
) -> Iterator[Any]:
    """Run a task for each argument by several workers, and yield the results in order.

    name  the name of a worker in an error, such as "a worker of the analysis"

    Raises RefereeError if a worker has died, or the error that a task has raised.
    """
    waiting = iter(arguments)
    begun: deque[Task] = deque()
    """The tasks whose results were not yielded yet, in order."""
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
                    case TaskResult(task, result):
                        results[task] = result
                    case TaskFailure(_, error):
                        raise error
                    case WorkerDeath(_, ending):
                        raise RefereeError(f"{name} ended: {ending}")
            while begun and begun[0] in results:
                yield results.pop(begun.popleft())


# In a worker


class Link:
    """A worker's connection to the process of the pool.

    The main thread runs tasks in `run`; a second thread receives messages in `_listen`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.RLock()
        self._tasks: SimpleQueue[bytes | None] = SimpleQueue()
        self._files: dict[str, bytes] = {}
        self._stopping = False
        self._pool_has_ended = False
        """True once the process of the pool has ended."""
        self._stop: Callable[[], object] = do_nothing
        self._next: Callable[[Any], object] | None = None

    def send(self, message: object) -> None:
        """Send a message of the current task; block while the receiver is busy."""
        self._post("sent", message)

    def file(self, digest: str) -> bytes:
        """Remove and return a file that came with a task. Raises KeyError if there is none."""
        return self._files.pop(digest)

    def leave(self) -> NoReturn:
        """End this worker, which cannot begin the current task; another worker gets the task."""
        # The pool closes the connection as soon as it knows, which must not end the cleanup.
        self._stop = do_nothing
        self._post("leaves", None)
        raise SystemExit(0)

    def on_stop(self, call: Callable[[], object]) -> None:
        """Set the function that ends the current task early when a stop is requested.

        It may be called in any thread, and more than once; it is called at once if the stop was
        requested before. The process of a task that sets no function exits at once at a stop.
        """
        self._stop = call
        if self._stopping:
            call()

    def on_next(self, call: Callable[[Any], object]) -> None:
        """Set a function that is called with the argument of each task as soon as it arrives.

        It may be called in any thread, while an earlier task is running.
        """
        self._next = call

    def stop(self) -> None:
        """End the current task early, and then the worker; may be called in any thread."""
        self._stopping = True
        self._tasks.put(None)
        self._stop()

    def run(self, setup: bytes) -> None:
        """Run the tasks that `_listen` receives, until a stop is requested; then clean up.

        An error of a task, or of the setup, is reported as the task's outcome.

        setup  the pickled `WorkerSetup`; it is called for the first task
        """
        threading.Thread(target=self._listen, daemon=True).start()
        perform: TaskFunction | None = None
        with ExitStack() as cleanup:
            while True:
                packed = self._tasks.get()
                if packed is None or self._stopping:
                    return
                try:
                    if perform is None:
                        perform = cleanup.enter_context(pickle.loads(setup)(self))
                    argument = pickle.loads(packed)
                    # From here on a stop exits the process, unless the task sets a better function.
                    self._stop = lambda: os._exit(1)
                    # A stop before that line has done nothing. If the pool's process has ended
                    # during the setup, nobody waits for the task.
                    if self._pool_has_ended:
                        return
                    try:
                        result = perform(argument)
                    finally:
                        self._stop = do_nothing
                    self._post("done", result)
                except Exception as error:  # noqa: BLE001  (every error is reported)
                    self._post("failed", _portable(error))

    def _listen(self) -> None:
        """Receive tasks until the pool sends None, or its process has ended; runs in a thread.

        If the pool's process has ended, the current task gets `GRACE_S` seconds to end before this
        process exits.
        """
        try:
            while (message := self._connection.recv()) is not None:
                packed, files = message
                self._files |= files
                if self._next is not None:
                    with suppress(Exception):  # the task will report the same error
                        self._next(pickle.loads(packed))
                self._tasks.put(packed)
            self.stop()
            # Nothing more is sent: this raises EOFError when the pool closes the connection.
            self._connection.recv()
        except (EOFError, OSError):  # OSError if the process of the pool was killed
            self._pool_has_ended = True
            self.stop()
            threading.Event().wait(GRACE_S)
            os._exit(1)

    def _post(self, kind: str, value: object) -> None:
        """Send a message of this kind to the process of the pool, if that still exists."""
        packed = pickle.dumps((kind, value))
        with self._sending, suppress(OSError):  # `_listen` notices a closed connection
            self._connection.send_bytes(packed)


def main(connection: Connection) -> None:
    """Run a worker: the main function of its process.

    connection  the connection to the process of the pool, which sends first the CPUs of this
                worker, then the setup, then the tasks
    """
    # As in the command line: games leave hardly any garbage, and collecting it takes 7 % of their
    # time; at exit the system frees all memory anyway.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    os.set_inheritable(connection.fileno(), False)  # bots must not get it
    cpus = connection.recv()
    SYSTEM.restrict_to(cpus)
    link = Link(connection)
    # At Ctrl-C the pool requests a stop, and the signal itself is ignored. By a handler instead of
    # SIG_IGN, because bots would inherit SIG_IGN.
    signal.signal(signal.SIGINT, own_handler(do_nothing))
    signal.signal(signal.SIGTERM, own_handler(link.stop))
    SYSTEM.accept_interrupts()
    setup = connection.recv_bytes()
    link.run(setup)
    loading = sys.modules.get("deepsea_referee.bots.loading")
    if loading is not None:  # bots were imported: their threads must not keep the process alive
        loading.end_process(0)


def _portable(error: Exception) -> Exception:
    """Return an error that can be pickled, to be sent to another process, with the same message.

    A UserError or OSError can be pickled itself. Of any kind of RefereeError, and of
    SandboxUnavailable, only the message is sent. Any other error is unexpected, and is sent with
    its traceback.
    """
    if isinstance(error, UserError | OSError):
        return error
    for kind in (SandboxUnavailable, RefereeError):
        if isinstance(error, kind):
            return kind(str(error))
    return RuntimeError(f"in a worker: {''.join(traceback.format_exception(error))}")
