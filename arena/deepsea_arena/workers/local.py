"""Local workers, in this thread or in processes of their own.

Invariants: a worker knows neither the store nor other workers, and asks the runner for the files of
bots that it lacks; whatever happens to it (an exception, a signal, a hang) is an outcome like any
other; a pool never loses a job.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Final, Protocol

from deepsea_arena.shutdown import Stop
from deepsea_arena.worker_protocol import (
    ArchiveRequest,
    Fetch,
    MakePlay,
    Outcome,
    Play,
    VoidOutcome,
)
from deepsea_ladder.errors import LadderError, StoreError
from deepsea_ladder.model import Job
from deepsea_rules.printable import one_line


class InlineWorker:
    """One worker, in the caller's own thread: `wait` plays."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._job: Job | None = None
        self._rotation: int | None = None

    def free(self) -> Sequence[int | None]:
        """One, unless a job waits to be played."""
        return [] if self._job else [self._rotation]

    def start(self, job: Job) -> None:
        """Remember the job."""
        self._job, self._rotation = job, job.rotation

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """Play the job; `seconds` is no limit to it."""
        job, self._job = self._job, None
        if job is None:
            stop.pause(seconds)
            return []
        return [(job, _outcome(self._play, job))]

    def abandon(self, job: Job) -> None:
        """Forget the job."""
        if self._job == job:
            self._job = None

    def close(self) -> None:
        """Forget the job."""
        self._job = None


class Running(Protocol):
    """A worker's process, as `multiprocessing` has it."""

    @property
    def pid(self) -> int | None:
        """Its number."""

    @property
    def exitcode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """End it."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its exit, with a timeout in seconds."""

    def close(self) -> None:
        """Free what is left of it."""


def no_archives(digest: str) -> bytes:
    """A `Fetch` where all bots that may be played are unpacked already."""
    raise StoreError(f"the files of {digest} are not here, or damaged")


StartWorker = Callable[[MakePlay], tuple[Running, Connection]]
"""Starts a process that does what `attend` does, and has the other end of the connection."""


@dataclass(slots=True)
class _Worker:
    process: Running
    connection: Connection
    job: Job | None = None
    rotation: int | None = None


class LocalWorkers:
    """Workers in processes of their own, each with a main thread to itself.

    `make_play` is called in each of them and must be importable there; `fetch` is called here.
    """

    GRACE_SECONDS: Final = 5.0
    """Timeout for a worker to clean up when it is stopped."""

    def __init__(
        self,
        make_play: MakePlay,
        workers: int,
        launch: StartWorker | None = None,
        *,
        fetch: Fetch = no_archives,
    ) -> None:
        self._make_play = make_play
        self._fetch = fetch
        self._most = workers
        # Forking a process that has threads or gRPC in it is not safe.
        self._launch = launch or partial(start_in, multiprocessing.get_context("spawn"))
        self._workers: list[_Worker] = []

    def free(self) -> Sequence[int | None]:
        """Workers without a job, and those that may still be started."""
        idle = [worker.rotation for worker in self._workers if worker.job is None]
        return idle + [None] * (self._most - len(self._workers))

    def start(self, job: Job) -> None:
        """Give a job to the idle worker that played its rotation, or to a new one, or to any."""
        idle = [worker for worker in self._workers if worker.job is None]
        same = [worker for worker in idle if worker.rotation == job.rotation]
        if not same and len(self._workers) < self._most:
            same = [self._hire()]
        worker = (same or idle)[0]
        try:
            worker.connection.send(job)
        except OSError:  # it died while it was idle
            self._dismiss(worker)
            worker = self._hire()
            worker.connection.send(job)
        worker.job, worker.rotation = job, job.rotation

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """Receive the workers' messages."""
        busy = [worker for worker in self._workers if worker.job]
        ready = wait([stop.fileno(), *(worker.connection for worker in busy)], seconds)
        if stop.fileno() in ready:
            stop.clear()
        received = [self._receive(worker) for worker in busy if worker.connection in ready]
        return [finished for finished in received if finished is not None]

    def _receive(self, worker: _Worker) -> tuple[Job, Outcome] | None:
        """The outcome of the worker's job; None if it requested files and continues."""
        try:
            message: Outcome | ArchiveRequest = worker.connection.recv()
            if isinstance(message, ArchiveRequest):
                worker.connection.send(self._answer(message.digest))
                return None
        except (EOFError, OSError):
            self._dismiss(worker)
            message = VoidOutcome(f"the worker ended ({_ending(worker.process.exitcode)})")
        job, worker.job = worker.job, None
        assert job is not None, "only workers with a job are waited for"
        return job, message

    def _answer(self, digest: str) -> bytes | LadderError:
        try:
            return self._fetch(digest)
        except LadderError as error:
            return error
        except Exception as error:  # noqa: BLE001  (the game is void, and the runner goes on)
            return StoreError(failure(error).reason)

    def abandon(self, job: Job) -> None:
        """Kill the job's worker."""
        for worker in [worker for worker in self._workers if worker.job == job]:
            worker.process.kill()
            self._dismiss(worker)

    def close(self) -> None:
        """Dismiss idle workers, stop the others."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
            if worker.job:
                worker.process.terminate()
        for worker in workers:
            worker.process.join(self.GRACE_SECONDS)
            worker.process.kill()
            worker.process.join()
            worker.process.close()

    def _hire(self) -> _Worker:
        worker = _Worker(*self._launch(self._make_play))
        self._workers.append(worker)
        return worker

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join(self.GRACE_SECONDS)
        worker.process.kill()
        worker.process.join()


def start_in(
    context: SpawnContext | ForkServerContext, make_play: MakePlay
) -> tuple[Running, Connection]:
    """A `StartWorker` by a context of `multiprocessing`."""
    ours, theirs = context.Pipe()
    process = context.Process(target=attend, args=(theirs, make_play), daemon=False)
    # Ctrl-C reaches workers too, even those that are not yet ready to hear of it. The tracker would
    # be started with the first one, and end with unblocking what is blocked here.
    resource_tracker.ensure_running()
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
    theirs.close()
    return process, ours


def attend(connection: Connection, make_play: MakePlay) -> None:
    """Run a worker in its process's main thread: play jobs until the connection is closed."""
    # The runner decides when to stop. Unlike SIG_IGN, a handler is not inherited by bots.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, lambda *_: _leave())
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    with make_play(partial(_ask, connection)) as play:
        try:
            _play_all(connection, play)
        finally:
            # Who leaves already is not to be disturbed in cleaning up.
            signal.signal(signal.SIGTERM, lambda *_: None)


def _play_all(connection: Connection, play: Play) -> None:
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):  # reset, if the runner was killed
            return
        try:
            connection.send(_outcome(play, job))
        except OSError:  # the runner is gone, and with it who wanted to know
            return


def _ask(connection: Connection, digest: str) -> bytes:
    """A worker's `Fetch`: the runner is the one who has the store."""
    connection.send(ArchiveRequest(digest))
    answer: bytes | LadderError = connection.recv()
    if isinstance(answer, LadderError):
        raise answer
    return answer


def _end_with(descriptor: int) -> None:
    """End this process, in the middle of a game too, when the other end of a socket is gone."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLRDHUP)
    waiting.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def _leave() -> None:
    raise SystemExit(0)


def _outcome(play: Play, job: Job) -> Outcome:
    try:
        return play(job)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
        return failure(error)


def failure(error: BaseException) -> VoidOutcome:
    """The outcome of a game that raised."""
    return VoidOutcome(one_line(f"{type(error).__name__}: {error}"))


def _ending(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"signal {-exitcode}"
    return f"exit status {exitcode}"


@contextmanager
def ready_made(play: Play, fetch: Fetch) -> Iterator[Play]:
    """A `MakePlay` for a worker that needs no setting up: `partial(ready_made, play)`."""
    yield play
