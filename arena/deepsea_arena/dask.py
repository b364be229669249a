"""The pool of workers on many machines, with a worker process for each thread of a Dask cluster.

Start reading at `DaskWorkers`, which is in the process of the run, and `Agent`, which is in each
worker of Dask.

Invariants: a task runs in a worker process, as on one machine, and nowhere a second time; a Dask
worker is used only if it has the same programs and says that it can play; a file goes to it once.

Everything that a run has on the cluster lives as long as its keys in Dask: a task until its future
is cancelled, a worker process until its lease is released. Dask does both when the run has ended.
Methods of the pool belong to one thread. Dask's thread sends them what to do by a queue.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import platform
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from queue import SimpleQueue
from typing import Any

import distributed

from deepsea_ladder.errors import WorkerError
from deepsea_referee.clock import SystemClock
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import WakePipe, pause
from deepsea_referee.system import CpuShare, equal_shares
from deepsea_referee.workers import (
    GRACE_S,
    LocalWorkers,
    Task,
    TaskFailure,
    TaskMessage,
    WorkerDeath,
    WorkerEvent,
    WorkerSetup,
    no_files,
)
from deepsea_rules.printable import one_line
from deepsea_sdk import __version__
from deepsea_sdk.entropy import fresh_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskTimes:
    """Timeouts and intervals in seconds."""

    connect: float = 10.0
    """Timeout for the scheduler, and for the first worker."""
    survey: float = 2.0
    """Interval between two requests for the list of workers."""
    alone: float = 60.0
    """The time that a run waits for another worker when all have left."""
    set_up: float = 60.0
    """Timeout for a worker to say whether it can play."""


# ------------------------------------------------------------------------------ on Dask's workers


class Agent(distributed.WorkerPlugin):
    """A worker process for one thread of a Dask worker.

    Its name is the key of its lease in Dask: when the lease is released, it leaves.
    """

    def __init__(self, name: str, setup: WorkerSetup, cpus: CpuShare, worker: Any) -> None:
        """Make an agent for a Dask worker, with a pool of one worker process.

        setup  called in the worker process
        cpus   its share of the CPUs
        """
        self._name = name
        self._worker = worker
        self._files: dict[str, bytes] = {}
        self._pool = LocalWorkers(setup, 1, fetch=lambda digest: self._files[digest], cpus=[cpus])
        self._busy = threading.Lock()
        """Held while a task runs, or the pool is closed."""
        self._wake = WakePipe()
        self._released: set[str] = set()
        """Keys of cancelled tasks, and its own name once it has to leave."""

    def transition(self, key: Any, start: str, finish: str, **_: object) -> None:
        """React to a change of the state of a key on the Dask worker, from `start` to `finish`.

        Dask calls this for every key: a task, a file or a lease. When the lease of this agent is
        released, the agent leaves the worker. When a running task is cancelled, `perform` is woken
        to kill it.
        """
        is_lease_released = key == self._name and finish == "released"
        is_task_cancelled = start == "executing" and finish == "released"
        if is_lease_released:
            self._worker.loop.add_callback(self._worker.plugin_remove, name=self._name)
        elif is_task_cancelled:
            self._released.add(key)
            self._wake.ring()

    async def teardown(self, worker: Any) -> None:
        """End the worker process, after its present task.

        Dask calls this when the lease was released, and when the Dask worker closes.
        """
        self._released.add(self._name)  # asks a running task to end early
        self._wake.ring()
        await asyncio.to_thread(self._end)

    def perform(self, argument: bytes, files: dict[str, bytes]) -> list[WorkerEvent]:
        """Run a task in the worker process, and return its events up to its end.

        Return no events if the lease was released before. If it is released meanwhile, the task is
        asked to end, and killed when it sends nothing for `GRACE_S`. A cancelled task is killed at
        once.
        """
        task_key = self._worker.get_current_task()
        with self._busy:
            if self._name in self._released:
                return []
            self._files = files  # the same bytes that Dask keeps, no copy
            task = self._pool.start(pickle.loads(argument), 0, tuple(files))
            events: list[WorkerEvent] = []
            while not {task_key, self._name} & self._released:
                events += self._pool.wait(None, self._wake)
                if _has_ended(events):
                    return events
            if task_key not in self._released:
                self._pool.stop()
            # The wake pipe stays readable from now on: each wait with it would end at once.
            while task_key not in self._released:
                new_events = self._pool.wait(GRACE_S)
                events += new_events
                if _has_ended(events):
                    return events
                if not new_events:
                    break  # the grace period is over
            self._pool.close()
            return [*events, WorkerDeath(task, "it was ended")]

    def _end(self) -> None:
        """End the worker process once its task has ended."""
        with self._busy:
            self._pool.close()
            self._wake.close()


def _has_ended(events: Sequence[WorkerEvent]) -> bool:
    """Return True if the last of a task's events is its end, and not a message."""
    return bool(events) and not isinstance(events[-1], TaskMessage)


def perform(agent_name: str, argument: bytes, files: dict[str, bytes]) -> list[WorkerEvent]:
    """Run a task in the worker process of the agent with this name, and return its events.

    Dask calls this on one of its workers. Return no events if the agent is missing, because Dask's
    worker was started again.

    argument  the pickled argument of the task, which Dask need not understand
    files     the files that the task needs, by digest
    """
    agent: Agent | None = distributed.get_worker().plugins.get(agent_name)
    return [] if agent is None else agent.perform(argument, files)


async def add_agents(
    agent_names: Sequence[str], check_and_setup: bytes, dask_worker: Any = None
) -> None:
    """Check that a Dask worker can play, and add an agent to it for each of the names.

    check_and_setup  the pickled functions of the run: one that raises if the worker cannot play,
                     and the one that sets up a worker process
    dask_worker      the worker on which Dask calls this; Dask fills it in
    """
    check, setup = pickle.loads(check_and_setup)
    await asyncio.to_thread(check)
    for name, cpus in zip(agent_names, equal_shares(len(agent_names)), strict=True):
        # An agent lives as long as its lease. Without the lease the run has ended meanwhile.
        if name in dask_worker.data:
            await dask_worker.plugin_add(Agent(name, setup, cpus, dask_worker), name=name)


def programs() -> dict[str, str]:
    """Return the programs that must be the same on every machine of a run, with their versions."""
    return {
        "deepsea-referee": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),  # such as 3.11
        "distributed": distributed.__version__,
    }


# ----------------------------------------------------------------------- in the process of the run


@dataclass(slots=True, eq=False)
class _Slot:
    """A thread of a Dask worker, and the task that it does."""

    address: str
    lease: Any
    """Dask's future whose key is the name of the agent."""
    task: Task | None = None
    """None while the thread is free."""
    future: Any = None
    """Dask's future of the task."""


class DaskWorkers:
    """The workers of the Dask scheduler at `address`, one for each thread of them.

    setup   called in each worker process
    check   called on each of Dask's workers, which is not used if it raises
    fetch   returns a file by its digest
    report  called with a message for each worker that cannot be used

    Raises WorkerError if the scheduler cannot be reached or none of its workers can play. Methods
    raise it once there are no workers and none will come.
    """

    def __init__(
        self,
        address: str,
        setup: WorkerSetup,
        check: Callable[[], object],
        *,
        fetch: Callable[[str], bytes] = no_files,
        report: Callable[[str], object],
        times: DaskTimes | None = None,
    ) -> None:
        """Connect to the scheduler, and wait until a worker can play; see the class."""
        self._address = address
        self._check_and_setup = pickle.dumps((check, setup))
        self._report = report
        self._times = times or DaskTimes()
        self._client = _connected_client(address, self._times.connect)
        self._clock = SystemClock()
        self._why_unused: dict[str, str | None] = {}
        """The reasons why Dask workers are not used, by address; None for one that may be used."""
        self._slots: list[_Slot] = []
        # Files are futures of Dask, which moves each to a worker once.
        self._file_future = cache(
            lambda digest: self._client.submit(bytes, fetch(digest), pure=False)
        )
        self._events: list[WorkerEvent] = []
        self._callbacks: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._bell = WakePipe()
        self._end_reason: str | None = None
        """The reason why there are no workers and none will come; None while there may be some."""
        self._next_survey_s = self._clock.now_us() / 1_000_000
        self._give_up_s = self._next_survey_s + self._times.connect
        try:
            while not self._slots:
                self._update()
                if self._why_unused and all(self._why_unused.values()):  # none can be used
                    self._give_up_s = 0.0
                self._bell.pause(0.1)
        except BaseException:
            self.close()
            raise

    def free(self) -> Sequence[_Slot]:
        """Return the threads of workers that have no task of this run."""
        self._update()
        return [slot for slot in self._slots if slot.task is None]

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        """Start a task at a worker that `free` has returned, and return the task.

        `needs` has the digests of the files that the task needs. If one of them cannot be read, the
        task fails: `wait` returns that as an event.
        """
        assert isinstance(worker, _Slot)
        task = Task(argument, tuple(needs))
        try:
            files = {digest: self._file_future(digest) for digest in needs}
        except Exception as error:  # noqa: BLE001  (whatever it is, other tasks may go on)
            self._events.append(TaskFailure(task, error))
            return task
        worker.task = task
        worker.future = self._client.submit(
            perform,
            worker.lease.key,  # the name of the agent
            pickle.dumps(argument),
            files,
            pure=False,  # Dask must not take equal calls for one
            workers=[worker.address],
            retries=0,
        )
        self._client.loop.add_callback(self._finish, worker, task, worker.future)
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        """Return the events of tasks since the last call; if there are none, wait for some.

        The wait ends after `seconds`, or when one of `wakers` rings. It may also end earlier, even
        if `seconds` is None, since the scheduler is asked for its workers at regular intervals.
        """
        self._update()
        if not self._events:
            timeout_s = inf if seconds is None else seconds
            pause(min(timeout_s, self._times.survey), self._bell, *wakers)
            self._update()
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        """Ask all tasks to end early. No others can be started after it."""
        for slot in self._slots:
            slot.lease.release()

    def kill(self, task: Task) -> None:
        """Kill the process of a task. The next task at its thread waits until that has ended."""
        for slot in self._slots:
            if slot.task is task:
                slot.task = None
                slot.future.cancel()

    def dismiss(self, address: str, why: str) -> bool:
        """Stop using the Dask worker at this address until it is started again; its tasks die.

        Return False if it was not in use.
        """
        if address not in self._why_unused:
            return False
        is_in_use = self._why_unused[address] is None
        if is_in_use:
            self._forget(address, "is used no more")
            self._why_unused[address] = why
        return is_in_use

    def close(self) -> None:
        """Leave the cluster, which ends the tasks and worker processes of this run."""
        with suppress(OSError):
            self._client.close(self._times.connect)
        self._bell.close()

    def _post(self, callback: Callable[[], object]) -> None:
        """Have a function called in the thread of this pool. Any thread may call this."""
        self._callbacks.put(callback)
        self._bell.ring()

    def _update(self) -> None:
        """Call what Dask's thread has posted, and ask the scheduler for its workers if it is time.

        Raises WorkerError if there are no workers, none will come, and all events were returned.
        """
        self._call_posted()
        now_s = self._clock.now_us() / 1_000_000
        if now_s >= self._next_survey_s and self._end_reason is None:
            self._next_survey_s = now_s + self._times.survey
            self._survey()
        reasons = list(self._why_unused.values())  # None for a worker that may be used
        if None in reasons:
            self._give_up_s = now_s + self._times.alone
        elif now_s >= self._give_up_s and self._end_reason is None:
            hint = f"start some with `dask worker {self._address}`"
            self._end_reason = f"has no worker that can play: {reasons[0] if reasons else hint}"
        if self._end_reason is not None and not self._events:
            raise WorkerError(f"the scheduler at {self._address} {self._end_reason}")

    def _call_posted(self) -> None:
        """Call the functions that were posted for this thread."""
        # Cleared before the queue is emptied, so that a later post rings again.
        self._bell.clear()
        while not self._callbacks.empty():
            callback = self._callbacks.get()
            callback()

    def _survey(self) -> None:
        """Ask the scheduler for its workers: set up the new ones, remove those that have left."""
        try:
            threads: dict[str, int] = self._client.nthreads()
        except Exception as error:  # noqa: BLE001  (a run must not wait for a lost scheduler)
            self._end_reason = one_line(f"is gone: {type(error).__name__}: {error}")
            return
        for address in self._why_unused.keys() - threads.keys():
            self._forget(address, "has left")
        for address in threads.keys() - self._why_unused.keys():
            self._why_unused[address] = None
            self._client.loop.add_callback(self._set_up, address, threads[address])

    async def _set_up(self, address: str, threads: int) -> None:
        """Check that a Dask worker can play, and give it an agent for each of its threads.

        This runs in Dask's thread, and posts the outcome to the thread of the pool.
        """
        agent_names = [f"deepsea-{fresh_seed().hex()}" for _ in range(threads)]
        slots: list[_Slot] = []
        reason = None
        try:
            async with asyncio.timeout(self._times.set_up):
                versions = await self._client.run(programs, workers=[address])
                mismatch = difference(versions[address])
                if mismatch is not None:
                    raise WorkerError(mismatch)
                # A lease is data that was not computed: Dask cannot make it on another worker.
                leases = await self._client.scatter(dict.fromkeys(agent_names), workers=[address])
                await self._client.run(
                    add_agents, agent_names, self._check_and_setup, workers=[address]
                )
            slots = [_Slot(address, lease) for lease in leases.values()]
        except Exception as error:  # noqa: BLE001  (whatever it is, other workers may play)
            reason = one_line(str(error)) or f"no answer within {self._times.set_up:g} seconds"
        self._post(partial(self._on_set_up, address, slots, reason))

    def _on_set_up(self, address: str, slots: Sequence[_Slot], reason: str | None) -> None:
        """Add the threads of a Dask worker that was set up, or report why it cannot be used.

        `reason` is None if it can be used.
        """
        if address in self._why_unused:  # it has not left meanwhile
            self._why_unused[address] = reason
            self._slots += slots
        if reason is not None:
            self._report(f"the worker {address} is not used: {reason}")

    def _forget(self, address: str, why: str) -> None:
        """Remove a Dask worker and its threads; `why` says how their tasks died."""
        del self._why_unused[address]
        slots = [slot for slot in self._slots if slot.address == address]
        for slot in slots:
            if slot.task is not None:
                self._events.append(WorkerDeath(slot.task, f"{address} {why}"))
                self.kill(slot.task)
            self._slots.remove(slot)

    async def _finish(self, slot: _Slot, task: Task, future: Any) -> None:
        """Wait in Dask's thread for a task, and post its events to the thread of the pool.

        A callback of Dask's future is no substitute: Dask calls all of them in one thread, which
        hangs for ever if a future ends just as its client is closed.
        """
        try:
            events = await future.result()
        except Exception as error:  # noqa: BLE001  (it is the task's end)
            events = None if future.cancelled() else [TaskFailure(task, error)]
        self._post(partial(self._on_finished, slot, task, events))

    def _on_finished(self, slot: _Slot, task: Task, events: list[WorkerEvent] | None) -> None:
        """Take in the events of a task that has ended, and free its thread.

        `events` is None if Dask cancelled the task, because the scheduler is gone. It is empty if
        the Dask worker was started again, and lost its agents.
        """
        if slot.task is not task:  # it was killed, or its worker has left
            return
        if events is None:
            self._end_reason = "is gone: what was being played will be played again"
        elif not events:
            self._forget(slot.address, "was started again")
        else:
            slot.task = None
            self._events += [event._replace(task=task) for event in events]


def _connected_client(address: str, seconds: float) -> Any:
    """Return a client of the Dask scheduler at that address; wait at most `seconds` for an answer.

    Raises WorkerError if the scheduler does not answer in time, or runs another version of Dask,
    and UserError for an address that makes no sense.
    """
    # Dask's own messages about lost connections are silenced: this module reports them in one line.
    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with _connection_errors(address, seconds):
        scheduler_version = asyncio.run(_scheduler_version(address, seconds))
    # Only Dask is compared: the scheduler runs no other program of a run. Of the others, the
    # versions of this machine are passed, which never differ.
    mismatch = difference(programs() | {"distributed": scheduler_version})
    if mismatch is not None:
        raise WorkerError(f"the scheduler at {address} cannot be used: {mismatch}")
    with _connection_errors(address, seconds), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask compares versions, too, in more words
        return distributed.Client(address, timeout=seconds, set_as_default=False)


async def _scheduler_version(address: str, seconds: float) -> str:
    """Return the version of Dask that a scheduler runs; wait at most `seconds` for its answer.

    The client's own timeout would not hold for a server that accepts a connection and is silent.
    """
    async with asyncio.timeout(seconds), distributed.rpc(address) as scheduler:
        versions = await scheduler.versions()
    version: str = versions["packages"]["distributed"]
    return version


@contextmanager
def _connection_errors(address: str, seconds: float) -> Iterator[None]:
    """Raise errors of a connection to a scheduler in the body as errors with a message of ours.

    A scheduler that cannot be reached becomes a WorkerError, a wrong address a UserError.
    """
    try:
        yield
    except (OSError, ImportError) as error:  # TimeoutError is an OSError
        reason = str(error) or f"no answer within {seconds:g} seconds"
        raise WorkerError(f"no scheduler can be reached at {address}: {reason}") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(f"--cluster {address}: {error}") from None


def difference(their_versions: dict[str, str]) -> str | None:
    """Return a phrase about the first program that has another version on another machine.

    `their_versions` has the versions there, by program. Return None if all are the same.
    """
    for name, version in programs().items():
        if their_versions.get(name) != version:
            return f"it has {name} {their_versions.get(name)}, this run has {version}"
    return None
