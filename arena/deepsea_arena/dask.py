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
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
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
    Setup,
    Task,
    TaskFailure,
    TaskMessage,
    WorkerDeath,
    WorkerEvent,
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
    look: float = 2.0
    """Interval between two requests for the list of workers."""
    alone: float = 60.0
    """The time that a run waits for another worker when all have left."""
    meet: float = 60.0
    """Timeout for a worker to say whether it can play."""


# ------------------------------------------------------------------------------ on Dask's workers


class Agent(distributed.WorkerPlugin):
    """A worker process for one thread of a Dask worker.

    Its name is the key of its lease in Dask: when the lease is released, it leaves.
    """

    def __init__(self, name: str, setup: Setup, cpus: CpuShare, worker: Any) -> None:
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
        """Note that a task was cancelled, or that the lease was released.

        Dask calls this at each change of the state of a key on its worker.
        """
        if key == self._name and finish == "released":
            self._worker.loop.add_callback(self._worker.plugin_remove, name=self._name)
        elif (start, finish) == ("executing", "released"):  # which is how a task is cancelled
            self._released.add(key)
            self._wake.ring()

    async def teardown(self, worker: Any) -> None:
        """End the worker process.

        Dask calls this when the lease was released, and when its worker closes.
        """
        self._released.add(self._name)
        self._wake.ring()
        await asyncio.to_thread(self._end)

    def perform(self, argument: bytes, files: dict[str, bytes]) -> list[WorkerEvent]:
        """Run a task and return its events; return none if it was cancelled before it began.

        After the release of the lease the task has `GRACE_S` to end by itself. A cancelled task is
        killed at once.
        """
        key = self._worker.get_current_task()
        with self._busy:
            if self._name in self._released:
                return []
            self._files = files  # the same bytes that Dask keeps, no copy
            task = self._pool.start(pickle.loads(argument), 0, tuple(files))
            events: list[WorkerEvent] = []
            timeout_s, has_stopped = None, False
            wakers = [self._wake]
            while key not in self._released:
                new_events = self._pool.wait(timeout_s, *wakers)
                events += new_events
                if events and not isinstance(events[-1], TaskMessage):
                    return events
                if has_stopped and not new_events:
                    break  # the grace period is over
                if self._name in self._released and not has_stopped:
                    self._pool.stop()
                    # The pipe stays readable, and would end each further wait at once.
                    timeout_s, has_stopped, wakers = GRACE_S, True, []
            self._pool.close()
            return [*events, WorkerDeath(task, "it was ended")]

    def _end(self) -> None:
        """End the worker process once its task has ended."""
        with self._busy:
            self._pool.close()
            self._wake.close()


def perform(agent: str, argument: bytes, files: dict[str, bytes]) -> list[WorkerEvent]:
    """Run a task in the worker process of an agent, and return its events.

    Dask calls this as its own task, and does not look into the pickled argument. If its worker was
    started again, there is no such agent, and no event.
    """
    plugin: Agent | None = distributed.get_worker().plugins.get(agent)
    return [] if plugin is None else plugin.perform(argument, files)


async def meet(agents: Sequence[str], packed: bytes, dask_worker: Any = None) -> None:
    """Check a Dask worker, and give it the agents of a run.

    `packed` is the pickled check and setup of the pool. If the worker cannot be used, the exception
    of the check is raised.
    """
    check, setup = pickle.loads(packed)
    await asyncio.to_thread(check)
    for name, cpus in zip(agents, equal_shares(len(agents)), strict=True):
        # If the lease is not there any more, the run has left meanwhile.
        if name in dask_worker.data:
            await dask_worker.plugin_add(Agent(name, setup, cpus, dask_worker), name=name)


def programs() -> dict[str, str]:
    """Return the versions of programs that must be the same on every machine of a run."""
    return {
        "deepsea-referee": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
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
        setup: Setup,
        check: Callable[[], object],
        *,
        fetch: Callable[[str], bytes] = no_files,
        report: Callable[[str], object],
        times: DaskTimes | None = None,
    ) -> None:
        """Connect to the scheduler, and wait until a worker can play; see the class."""
        self._address = address
        self._packed = pickle.dumps((check, setup))
        self._report = report
        self._times = times or DaskTimes()
        self._client = _connected_client(address, self._times.connect)
        self._clock = SystemClock()
        self._known: dict[str, str | None] = {}
        """Dask's workers by address, with why one is not used; None if it is or may be."""
        self._slots: list[_Slot] = []
        # Files are futures of Dask, which moves each to a worker once.
        self._file_future = cache(
            lambda digest: self._client.submit(bytes, fetch(digest), pure=False)
        )
        self._events: list[WorkerEvent] = []
        self._news: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._bell = WakePipe()
        self._lost: str | None = None
        """The reason why there are no workers and none will come; None while there may be some."""
        self._next_look_s = self._clock.now_us() / 1_000_000
        self._give_up_s = self._next_look_s + self._times.connect
        try:
            while not self._slots:
                self._update()
                if self._known and all(self._known.values()):
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
        """Start a task at a free thread. If `fetch` raises, the task has failed."""
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
            worker.lease.key,
            pickle.dumps(argument),
            files,
            pure=False,
            workers=[worker.address],
            retries=0,
        )
        self._client.loop.add_callback(self._finish, worker, task, worker.future)
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        """Wait for events, at most for this time, and return them.

        The wait may end early without any, since the list of workers has to be looked at now and
        then.
        """
        self._update()
        if not self._events:
            pause(min(self._times.look, inf if seconds is None else seconds), self._bell, *wakers)
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
        """Stop using a worker until it is started again; its tasks die.

        Return False if it was not in use.
        """
        is_used = address in self._known and self._known[address] is None
        if not is_used:
            return False
        self._forget(address, "is used no more")
        self._known[address] = why
        return True

    def close(self) -> None:
        """Leave the cluster, which ends the tasks and worker processes of this run."""
        with suppress(OSError):
            self._client.close(self._times.connect)
        self._bell.close()

    def _post(self, news: Callable[[], object]) -> None:
        """Have `news` called in the thread of this pool. Any thread may call this."""
        self._news.put(news)
        self._bell.ring()

    def _update(self) -> None:
        """Take in the news of Dask's thread, and ask for the list of workers if it is time.

        Raises WorkerError if there are no workers, none will come, and all events were returned.
        """
        self._bell.clear()
        while not self._news.empty():
            self._news.get()()
        now_s = self._clock.now_us() / 1_000_000
        if now_s >= self._next_look_s and self._lost is None:
            self._next_look_s = now_s + self._times.look
            self._survey()
        if None in self._known.values():
            self._give_up_s = now_s + self._times.alone
        elif now_s >= self._give_up_s and self._lost is None:
            hint = f"start some with `dask worker {self._address}`"
            self._lost = f"has no worker that can play: {next(iter(self._known.values()), hint)}"
        if self._lost is not None and not self._events:
            raise WorkerError(f"the scheduler at {self._address} {self._lost}")

    def _survey(self) -> None:
        """Ask the scheduler for its workers: meet the new ones, and forget those that have left."""
        try:
            threads: dict[str, int] = self._client.nthreads()
        except Exception as error:  # noqa: BLE001  (a run must not wait for a lost scheduler)
            self._lost = one_line(f"is gone: {type(error).__name__}: {error}")
            return
        for address in self._known.keys() - threads.keys():
            self._forget(address, "has left")
        for address in threads.keys() - self._known.keys():
            self._known[address] = None
            self._client.loop.add_callback(self._meet, address, threads[address])

    async def _meet(self, address: str, threads: int) -> None:
        """Ask a worker whether it can play, and give it an agent for each thread.

        This runs in Dask's thread, and posts the outcome to the thread of the pool.
        """
        agents = [f"deepsea-{fresh_seed().hex()}" for _ in range(threads)]
        slots, reason = [], None
        try:
            async with asyncio.timeout(self._times.meet):
                versions = await self._client.run(programs, workers=[address])
                if mismatch := difference(versions[address]):
                    raise WorkerError(mismatch)
                # A lease is data that was not computed: Dask cannot make it on another worker.
                leases = await self._client.scatter(dict.fromkeys(agents), workers=[address])
                await self._client.run(meet, agents, self._packed, workers=[address])
            slots = [_Slot(address, lease) for lease in leases.values()]
        except Exception as error:  # noqa: BLE001  (whatever it is, other workers may play)
            reason = one_line(str(error)) or f"no answer within {self._times.meet:g} seconds"
        self._post(partial(self._on_met, address, slots, reason))

    def _on_met(self, address: str, slots: Sequence[_Slot], reason: str | None) -> None:
        """Take in a worker that can play, or report the reason why it cannot."""
        if address in self._known:
            self._known[address] = reason
            self._slots += slots
        if reason is not None:
            self._report(f"the worker {address} is not used: {reason}")

    def _forget(self, address: str, why: str) -> None:
        """Remove a worker and its threads. Their tasks die, for the reason `why`."""
        del self._known[address]
        slots = [slot for slot in self._slots if slot.address == address]
        for slot in slots:
            if slot.task is not None:
                self._events.append(WorkerDeath(slot.task, f"{address} {why}"))
                self.kill(slot.task)
            self._slots.remove(slot)

    async def _finish(self, slot: _Slot, task: Task, future: Any) -> None:
        """Wait in Dask's thread for a task, and post its events to the thread of the pool.

        A callback of the future would not do: Dask calls these in one thread of the process, which
        waits for ever for a future that ended just when its client was closed.
        """
        try:
            events = await future.result()
        except Exception as error:  # noqa: BLE001  (it is the task's end)
            events = None if future.cancelled() else [TaskFailure(task, error)]
        self._post(partial(self._on_finished, slot, task, events))

    def _on_finished(self, slot: _Slot, task: Task, events: list[WorkerEvent] | None) -> None:
        """Take in the events of a task.

        `events` is None if Dask cancelled it, since the scheduler has gone, and empty if its worker
        was started again.
        """
        if slot.task is not task:  # it was killed, or its worker has left
            return
        if events is None:
            self._lost = "is gone: what was being played will be played again"
        elif not events:
            self._forget(slot.address, "was started again")
        else:
            slot.task = None
            self._events += [event._replace(task=task) for event in events]


def _connected_client(address: str, seconds: float) -> Any:
    """Return a Dask client of the scheduler at that address.

    Raises WorkerError if the scheduler does not answer in time or has other versions, and UserError
    for an address that makes no sense.
    """
    # Dask's own messages about lost connections are silenced: this module reports them in one line.
    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    async def version() -> Any:
        # The client's own timeout does not hold for a server that accepts and is silent.
        async with asyncio.timeout(seconds), distributed.rpc(address) as scheduler:
            return (await scheduler.versions())["packages"]["distributed"]

    try:
        if mismatch := difference({**programs(), "distributed": asyncio.run(version())}):
            raise WorkerError(f"the scheduler at {address} cannot be used: {mismatch}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared with better words
            return distributed.Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ImportError) as error:  # TimeoutError is an OSError
        reason = str(error) or f"no answer within {seconds:g} seconds"
        raise WorkerError(f"no scheduler can be reached at {address}: {reason}") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(f"--cluster {address}: {error}") from None


def difference(their_versions: dict[str, str]) -> str | None:
    """Return the first program with another version there than here, in words; None if all agree.

    `their_versions` has the versions of the other machine.
    """
    for name, version in programs().items():
        if their_versions.get(name) != version:
            return f"it has {name} {their_versions.get(name)}, this run has {version}"
    return None
