"""The pool of workers on many machines: a worker process for each thread of a Dask cluster.

Invariants: a task runs in a worker process, as on one machine, and nowhere a second time; a Dask
worker is used only if it has the same programs and says that it can play; a file goes to it once.

What a run has on the cluster lives as long as its keys in Dask: a task until its future is
cancelled, a worker process until its lease is released. Dask does both when the run is gone.
Methods of the pool belong to one thread, and get news of the cluster by a queue.
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
    Died,
    Event,
    Failed,
    LocalWorkers,
    Sent,
    Setup,
    Task,
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
    """Interval of requests for the list of workers."""
    alone: float = 60.0
    """The time for which a run waits for another worker when all have left."""
    meet: float = 60.0
    """Timeout for a worker's answer whether it can play."""


# On Dask's workers


class Agent(distributed.WorkerPlugin):
    """A worker process for one thread of a Dask worker. Its name is the key of its lease."""

    def __init__(self, name: str, setup: Setup, cpus: CpuShare, worker: Any) -> None:
        self._name = name
        self._worker = worker
        self._files: dict[str, bytes] = {}
        self._pool = LocalWorkers(setup, 1, fetch=lambda one: self._files[one], cpus=[cpus])
        self._busy = threading.Lock()
        self._wake = WakePipe()
        self._gone: set[str] = set()  # keys: its own too, when it is to leave

    def transition(self, key: Any, start: str, finish: str, **_: object) -> None:
        """Called at each change of a key on the Dask worker."""
        if key == self._name and finish == "released":
            self._worker.loop.add_callback(self._worker.plugin_remove, name=self._name)
        elif (start, finish) == ("executing", "released"):  # which is how a task is cancelled
            self._gone.add(key)
            self._wake.ring()

    async def teardown(self, worker: Any) -> None:
        """Called when the lease was released, and when the Dask worker closes."""
        self._gone.add(self._name)
        self._wake.ring()
        await asyncio.to_thread(self._end)

    def perform(self, argument: bytes, files: dict[str, bytes]) -> list[Event]:
        """Run a task; its events, or none if it was not begun."""
        key = self._worker.get_current_task()
        with self._busy:
            if self._name in self._gone:
                return []
            self._files = files  # which Dask keeps
            task = self._pool.start(pickle.loads(argument), 0, tuple(files))
            events: list[Event] = []
            wakers, grace_s = [self._wake], None
            while key not in self._gone:
                found = self._pool.wait(grace_s, *wakers)
                events += found
                if events and not isinstance(events[-1], Sent):
                    return events
                if not wakers and not found:
                    break
                if wakers and self._name in self._gone:
                    self._pool.stop()
                    wakers, grace_s = [], GRACE_S
            self._pool.close()
            return [*events, Died(task, "it was ended")]

    def _end(self) -> None:
        with self._busy:
            self._pool.close()
            self._wake.close()


def perform(agent: str, argument: bytes, files: dict[str, bytes]) -> list[Event]:
    """Run a task: one of Dask's, which does not look into the argument."""
    # A worker that was started again at the same address has no such agent, and repeats nothing.
    found: Agent | None = distributed.get_worker().plugins.get(agent)
    return [] if found is None else found.perform(argument, files)


async def meet(agents: Sequence[str], packed: bytes, dask_worker: Any = None) -> None:
    """Prepare a Dask worker for a run; raises the reason why it cannot be used."""
    check, setup = pickle.loads(packed)
    await asyncio.to_thread(check)
    for name, cpus in zip(agents, equal_shares(len(agents)), strict=True):
        if name in dask_worker.data:  # else the run has left meanwhile
            await dask_worker.plugin_add(Agent(name, setup, cpus, dask_worker), name=name)


def programs() -> dict[str, str]:
    """The versions that must be the same everywhere; bots run in the worker's Python."""
    return {
        "deepsea-referee": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": distributed.__version__,
    }


# In the process of the run


@dataclass(slots=True, eq=False)
class _Slot:
    """A thread of a Dask worker, and its task; the lease and `future` are Dask's futures."""

    address: str
    lease: Any
    task: Task | None = None
    future: Any = None


class DaskWorkers:
    """The workers of the Dask scheduler at `address`; as many tasks at once as they have threads.

    setup   called in each worker process
    check   called on each of Dask's workers; it is not used if that raises
    fetch   returns a file by its digest
    report  called with what should be known of workers that cannot be used
    Raises WorkerError if the scheduler cannot be reached or none of its workers can play; methods
    raise it once there are none and none will come.
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
        self._address = address
        self._packed = pickle.dumps((check, setup))
        self._report = report
        self._times = times or DaskTimes()
        self._client = _joined(address, self._times.connect)
        self._clock = SystemClock()
        self._known: dict[str, str | None] = {}
        """Dask's workers by address: why one is not used, or None if it is or may be."""
        self._slots: list[_Slot] = []
        # Dask moves files, and they are its futures here.
        self._file = cache(lambda digest: self._client.submit(bytes, fetch(digest), pure=False))
        self._events: list[Event] = []
        self._news: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._bell = WakePipe()
        self._lost: str | None = None  # why there are no workers and none will come
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
        """The threads of workers that have no task of this run."""
        self._update()
        return [slot for slot in self._slots if slot.task is None]

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        """Start a task; it fails if `fetch` does."""
        assert isinstance(worker, _Slot)
        task = Task(argument, tuple(needs))
        try:
            files = {digest: self._file(digest) for digest in needs}
        except Exception as error:  # noqa: BLE001  (whatever it is, other tasks may go on)
            self._events.append(Failed(task, error))
            return task
        words, where = (worker.lease.key, pickle.dumps(argument), files), [worker.address]
        worker.task = task
        worker.future = self._client.submit(perform, *words, pure=False, workers=where, retries=0)
        self._client.loop.add_callback(self._finish, worker, task, worker.future)
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[Event]:
        """Events; returns early, maybe without any, to look after the workers."""
        self._update()
        if not self._events:
            pause(min(self._times.look, inf if seconds is None else seconds), self._bell, *wakers)
            self._update()
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        """Request all tasks to end early; no others can be started."""
        for slot in self._slots:
            slot.lease.release()

    def kill(self, task: Task) -> None:
        """Kill the task's process; the next task at its slot waits for that."""
        for slot in self._slots:
            if slot.task is task:
                slot.task = None
                slot.future.cancel()

    def dismiss(self, address: str, why: str) -> bool:
        """Use a worker no more, until it is started again; whether it was used. Its tasks die."""
        if self._known.get(address, "has left") is not None:
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
        """Let the thread of this pool call `news`."""
        self._news.put(news)
        self._bell.ring()

    def _update(self) -> None:
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
        """Ask the scheduler for its workers."""
        try:
            threads: dict[str, int] = self._client.nthreads()
        except Exception as error:  # noqa: BLE001  (a run must not wait for who is not there)
            self._lost = one_line(f"is gone: {type(error).__name__}: {error}")
            return
        for address in self._known.keys() - threads.keys():
            self._forget(address, "has left")
        for address in threads.keys() - self._known.keys():
            self._known[address] = None
            self._client.loop.add_callback(self._meet, address, threads[address])

    async def _meet(self, address: str, threads: int) -> None:
        """Ask a worker whether it can play; in Dask's thread."""
        agents = [f"deepsea-{fresh_seed().hex()}" for _ in range(threads)]
        slots, reason = [], None
        try:
            async with asyncio.timeout(self._times.meet):
                theirs = await self._client.run(programs, workers=[address])
                if found := difference(theirs[address]):
                    raise WorkerError(found)
                # A lease is data that was not computed: Dask cannot make it on another worker.
                leases = await self._client.scatter(dict.fromkeys(agents), workers=[address])
                await self._client.run(meet, agents, self._packed, workers=[address])
            slots = [_Slot(address, lease) for lease in leases.values()]
        except Exception as error:  # noqa: BLE001  (whatever it is, others may do)
            reason = one_line(str(error)) or f"no answer within {self._times.meet:g} seconds"
        self._post(partial(self._on_met, address, slots, reason))

    def _on_met(self, address: str, slots: Sequence[_Slot], reason: str | None) -> None:
        if address in self._known:
            self._known[address] = reason
            self._slots += slots
        if reason is not None:
            self._report(f"the worker {address} is not used: {reason}")

    def _forget(self, address: str, why: str) -> None:
        """Give up a worker, and what is there."""
        del self._known[address]
        for slot in [slot for slot in self._slots if slot.address == address]:
            if slot.task is not None:
                self._events.append(Died(slot.task, f"{address} {why}"))
                self.kill(slot.task)
            self._slots.remove(slot)

    async def _finish(self, slot: _Slot, task: Task, future: Any) -> None:
        """Wait for a task; in Dask's thread.

        Dask calls a future's callbacks in one thread of the process, which waits for ever for what
        ended just when its client was closed.
        """
        try:
            events = await future.result()
        except Exception as error:  # noqa: BLE001  (it is the task's end)
            events = None if future.cancelled() else [Failed(task, error)]
        self._post(partial(self._on_finished, slot, task, events))

    def _on_finished(self, slot: _Slot, task: Task, events: list[Event] | None) -> None:
        if slot.task is not task:  # it was killed, or its worker has left
            return
        if events is None:
            self._lost = "is gone: what was being played will be played again"
        elif not events:
            self._forget(slot.address, "was started again")
        else:
            slot.task = None
            self._events += [event._replace(task=task) for event in events]


def _joined(address: str, seconds: float) -> Any:
    """A client of the scheduler at that address."""
    # What Dask has to say of lost connections is said here, in one line.
    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    async def version() -> Any:
        # The client's own timeout does not hold for a server that accepts and is silent.
        async with asyncio.timeout(seconds), distributed.rpc(address) as scheduler:
            return (await scheduler.versions())["packages"]["distributed"]

    try:
        if found := difference({**programs(), "distributed": asyncio.run(version())}):
            raise WorkerError(f"the scheduler at {address} cannot be used: {found}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared with better words
            return distributed.Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ImportError) as error:  # TimeoutError is an OSError
        words = str(error) or f"no answer within {seconds:g} seconds"
        raise WorkerError(f"no scheduler can be reached at {address}: {words}") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(f"--cluster {address}: {error}") from None


def difference(theirs: dict[str, str]) -> str | None:
    """The first program that is another one here, in words; None if there is none."""
    for name, version in programs().items():
        if theirs.get(name) != version:
            return f"it has {name} {theirs.get(name)}, this run has {version}"
    return None
