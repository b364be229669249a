"""A worker without a process, for work beside games, and who listens to such work."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from deepsea_arena.background_work import Handler, TaskLoop
from deepsea_arena.lease_owner import own_run_name
from deepsea_arena.run_report import RunWatcher, Stop
from deepsea_arena.tasks import Times
from deepsea_ladder.model import StoredComparison
from deepsea_ladder.store import Store
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.workers import Task, WorkerEvent

from .manual_clock import ManualClock


class OneWorker:
    """What it does comes in steps, one at each wait."""

    def __init__(self) -> None:
        self.killed = 0
        self.closed = False
        self._steps: Iterator[WorkerEvent] = iter(())

    def steps(self, task: Task) -> Iterator[WorkerEvent]:
        """What a task brings."""
        raise NotImplementedError

    def free(self) -> Sequence[Hashable]:
        return [0]

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        task = Task(argument)
        self._steps = self.steps(task)
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        event = next(self._steps, None)
        return [] if event is None else [event]

    def stop(self) -> None:
        """Nothing asks for it."""

    def kill(self, task: Task) -> None:
        self.killed += 1

    def close(self) -> None:
        self.closed = True


class Watcher(RunWatcher):
    """Notes what is said of checks and analyses."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.troubles: list[str] = []
        self.verdict = threading.Event()

    def checked(self, bot: str, author: str, state: str, note: str) -> None:
        self.seen.append(f"{bot} of {author}: {state}, {note}")
        self.verdict.set()

    def analysed(self, game_id: str, state: str, note: str) -> None:
        self.seen.append(f"{game_id}: {state}, {note}")

    def compared(self, found: StoredComparison) -> None:
        self.seen.append(f"{found.version.label}: {found.state}, {found.standing.verdict}")

    def trouble(self, message: str) -> None:
        self.troubles.append(message)


W = TypeVar("W", bound=OneWorker)


class Site(Generic[W]):
    """A runner's side of a ladder: the tasks of a handler, done by one worker."""

    def __init__(self, handler: Handler[Any], store: Store, stop: Stop, worker: W) -> None:
        self.store = store
        self.stop = stop
        self.worker = worker
        self.clock = ManualClock()
        self.watcher = Watcher()
        self.work = TaskLoop(
            handler,
            store,
            worker,
            owner="runner",
            clock=self.clock,
            stop=stop,
            watcher=self.watcher,
            times=Times(idle=0.0, host_pause=0.0),
        )

    def run_out(self) -> None:
        """Do what waits."""
        self.work.end_with_queue()
        self.work.run()


def gone_owner() -> str:
    """The name of a runner of this machine that has ended."""
    return f"{own_run_name().rsplit('/', 2)[0]}/{2**22 + 1}/1"
