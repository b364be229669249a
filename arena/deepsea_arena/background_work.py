"""The loop that does tasks beside a runner's games: leases from one queue of the store, in turn.

Invariants: a task is done in a worker process; whatever dies at any moment, a lease is given back,
lost or runs out; trouble of this machine counts against nobody; the thread has ended when the body
has been left, however it was left; an error of the store ends the run as well.

Ends of a task without a result:

exception     raised for                                          the task
HandedBack    a request to stop at which its kind is given up     is given back by `close`
HostCannot    trouble of this machine, whatever the task          is given back; the loop pauses
NoResult      a worker that died, an error, a time limit          has failed once more
LeaseLost     a renewal that came too late                        is another runner's

A rated game ends alike, by a value that a worker may send: see `tasks.Outcome`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf
from typing import Any, Generic, TypeVar

from deepsea_arena.lease_owner import own_name, take_back
from deepsea_arena.run_report import (
    RunWatcher,
    Stop,
    StopRequest,
    nth_pause,
    retry_until_available,
)
from deepsea_arena.tasks import HostTrouble, Times, VoidOutcome, outcome_of_event
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import LadderError, StoreUnavailable
from deepsea_ladder.model import TaskKind, TaskState
from deepsea_ladder.store import Store
from deepsea_ladder.store.tasks import Lease, TaskLine
from deepsea_referee.clock import PULSE, Clock, SystemClock
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import on_signals
from deepsea_referee.workers import Done, Sent, Workers
from deepsea_rules.printable import one_line

_T = TypeVar("_T")
_Lease = TypeVar("_Lease", bound=Lease)
_OTHERS_S = 1.0
"""The wait for the runner that does a task already."""

_WAITING: Mapping[TaskKind, Callable[[Store], object]] = {
    TaskKind.STEP: lambda store: store.person_games.waiting(),
    TaskKind.CHECK: lambda store: store.submissions.waiting(),
    TaskKind.ANALYSIS: lambda store: store.analyses.waiting(),
    TaskKind.COMPARISON: lambda store: store.comparisons.due(),
}
"""Looks for a task of each kind that waits."""
_PRIORITY: Mapping[TaskKind, int] = {
    TaskKind.STEP: 1,
    TaskKind.CHECK: 1,
    TaskKind.ANALYSIS: 2,
    TaskKind.COMPARISON: 2,
}
"""Tasks of a kind are begun while none waits of a kind with a lower number."""
_NOW: Mapping[TaskState, str] = {
    TaskState.QUEUED: "has no result and waits again",
    TaskState.VOID: "is void",
}
"""Words for the state of a task after an attempt without a result."""


class HandedBack(Exception):
    """The lease is to be given back."""


class LeaseLost(Exception):
    """Another runner has the lease."""


class NoResult(Exception):
    """The attempt ended without a result; perhaps because the machine had no memory, or no CPU."""

    def __init__(self, reason: str, shortage: AuditKind | None = None) -> None:
        super().__init__(reason)
        self.shortage = shortage


class HostCannot(Exception):
    """This machine cannot do the task now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[_Lease]):
    """A kind of task, and how a runner does it."""

    kind: TaskKind
    queue: Callable[[Store], TaskLine[_Lease]]
    make_workers: Callable[[Store], Workers]
    """Makes a pool with one worker, for tasks that are done beside others."""
    make_eager_workers: Callable[[Store], Workers] | None = None
    """Makes the pool for a task that somebody waits for, if it is another one."""
    perform: Callable[[TaskLoop[_Lease], _Lease], None]
    """Does a task and stores its result. Raises HandedBack, HostCannot, LeaseLost or NoResult."""
    fail: Callable[[TaskLoop[_Lease], _Lease, str], TaskState | None] | None = None
    """Stores that an attempt ended without a result, as the queue's `fail`, which is the default.

    Returns the new state, None if the lease is lost.
    """
    report_failed: Callable[[TaskLoop[_Lease], _Lease], None] | None = None
    """Reports a task that has failed for good; by default as a trouble of the run."""
    name: Callable[[_Lease], str]
    """The name of a task in messages."""
    cannot: str
    """The beginning of a message of trouble, such as "games cannot be analysed"."""
    idle: Callable[[Store], float]
    """The wait when nothing waits, in seconds."""
    gives_back_at: StopRequest
    """The request at which a task that is being done is given back."""


class TaskLoop(Generic[_Lease]):
    """Does the tasks of a kind that wait on a ladder.

    workers  a pool with one worker; it is closed in the end
    stop     its own: nobody else may wait for it
    times    `idle` is a limit of the handler's
    """

    def __init__(
        self,
        handler: Handler[_Lease],
        store: Store,
        workers: Workers,
        *,
        stop: Stop,
        watcher: RunWatcher,
        times: Times | None = None,
        owner: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self.queue = handler.queue(store)
        self.watcher = watcher
        self.times = times or Times()
        self.owner = owner or own_name()
        self._handler = handler
        self._workers = workers
        self._stop = stop
        self._clock = clock or SystemClock()
        self._only_what_waits = False
        self._troubles = 0  # in a row, of this machine
        self._has_worked = False  # a worker has ended a task, so that they can be started here
        self._began = 0.0

    def run(self) -> None:
        """Do what waits, and wait for more, until there is a request to stop."""
        with suppress(HandedBack):
            while self._stop.requested is StopRequest.GO_ON:
                try:
                    if self.next():
                        continue
                    if self._only_what_waits:
                        return
                    idle = self.retry(lambda: self._handler.idle(self.store))
                    seconds = min(idle, self.times.idle)
                except HostCannot as trouble:
                    self.watcher.trouble(f"{self._handler.cannot} now: {trouble}")
                    if self._only_what_waits:
                        return
                    seconds = nth_pause(self.times.host_pause, self._troubles)
                    self._troubles += 1
                self._stop.pause(seconds)

    def drain(self) -> None:
        """Do what waits, until nothing does, this machine cannot, or there is a request."""
        self._only_what_waits = True
        self.run()
        self._only_what_waits = False

    def end_with_queue(self) -> None:
        """Let `run` end when nothing waits any more; called in any thread."""
        self._only_what_waits = True
        self._stop.ring()

    def close(self) -> None:
        """End the worker, and give the lease back."""
        self._workers.close()
        try:
            self.queue.hand_back(self.owner)
        except StoreUnavailable as error:
            lease = f"the lease of a task ({self._handler.kind})"
            self.watcher.trouble(f"{error}; {lease} was not given back, and runs out")

    def next(self, only: int | None = None) -> bool:
        """Do the next task; False if this runner has none now.

        only  that one, whatever waits before it
        """
        lease = self._claim(only)
        if lease is None:
            return False
        self._began = self._now()
        try:
            self._handler.perform(self, lease)
        except HandedBack:
            return False  # `close` gives the lease back
        except HostCannot:
            self.retry(lambda: self.queue.hand_back(self.owner))
            raise
        except LeaseLost:
            self.watcher.trouble(f"another runner has taken over {self._handler.name(lease)}")
        except NoResult as end:
            name, reason = self._handler.name(lease), str(end)
            if (kind := end.shortage) is not None:
                self.retry(lambda: self.store.audit.note_shortage(kind, name, reason))
            self._fail(lease, reason)
        except LadderError:
            raise
        except Exception as error:  # noqa: BLE001  (one of them must not end the others)
            self._fail(lease, f"{type(error).__name__}: {error}")
        self._troubles = 0
        return True

    def _claim(self, only: int | None) -> _Lease | None:
        kind, tries = self._handler.kind, count()
        if only is None:
            before = [other for other in _PRIORITY if _PRIORITY[other] < _PRIORITY[kind]]
            if not self._waits(kind) or any(map(self._waits, before)):
                return None

        def claim() -> _Lease | None:
            if next(tries):  # an earlier try was perhaps stored, and its answer lost
                self.queue.hand_back(self.owner)
            return self.queue.claim(self.owner, self.times.lease, only)

        return self.retry(claim)

    def _waits(self, kind: TaskKind) -> object:
        return self.retry(lambda: _WAITING[kind](self.store))

    def _fail(self, lease: _Lease, reason: str) -> None:
        """Store that an attempt ended without a result, and report it."""
        handler = self._handler
        fail = partial(handler.fail, self) if handler.fail else self.queue.fail
        state = self.retry(lambda: fail(lease, reason))
        if state is None:
            return
        if state is not TaskState.QUEUED and handler.report_failed is not None:
            handler.report_failed(self, lease)
            return
        now = _NOW.get(state, "has failed")
        self.watcher.trouble(f"{handler.name(lease)} {now}: {one_line(reason)}")

    # For handlers

    @PULSE.beating()
    def answer(
        self,
        lease: _Lease,
        argument: object,
        *,
        renew: Callable[[], bool] | None = None,
        needs: Sequence[str] = (),
        seconds: float = inf,
        quiet: float = inf,
        on_message: Callable[[Any], bool] = lambda _: False,
    ) -> object:
        """The worker's answer to a task; the lease is renewed meanwhile.

        renew       renews it; False if it is lost
        needs       digests of the files that the task needs
        seconds     timeout of the task
        quiet       timeout of the wait for its next message
        on_message  receives each message; True renews the lease at once
        """
        renew = renew or (lambda: self.queue.renew(lease, self.times.lease))
        task = self._workers.start(argument, self._workers.free()[0], needs)
        began = heard = renewed = self._now()
        while True:
            due = False
            events = self._workers.wait(self.times.beat, self._stop)
            for event in events:
                if not isinstance(event, Sent):
                    outcome = outcome_of_event(event, has_worked=self._has_worked)
                    self._has_worked |= isinstance(event, Done)
                    match outcome:
                        case HostTrouble(reason):
                            raise HostCannot(reason)
                        case VoidOutcome(reason, shortage=shortage):
                            raise NoResult(reason, shortage)
                    return outcome
                due = on_message(event.message)
            now = self._now()
            if events:
                heard = now
            try:
                if self._stop.requested >= self._handler.gives_back_at:
                    raise HandedBack
                if now - began >= seconds:
                    raise NoResult(f"no end after {seconds:g} seconds")
                if now - heard >= quiet:
                    raise NoResult(f"no step within {quiet:g} seconds")
                if due or now - renewed >= self.times.beat:
                    self.hold(renew)
                    renewed = now
            except BaseException:
                self._workers.kill(task)
                raise

    def hold(self, renew: Callable[[], bool]) -> None:
        """Renew the lease. Raises LeaseLost."""
        if not self.retry(renew):
            raise LeaseLost

    def took_ms(self) -> int:
        """The time since the present task was begun.

        Not its CPU time: a bot in the sandbox has processes whose CPU time is lost with them. And
        what others wait for is the time.
        """
        return round(1000 * (self._now() - self._began))

    def retry(self, call: Callable[[], _T]) -> _T:
        """Call the store, with retries while it is unavailable; every call may be repeated."""
        try:
            return retry_until_available(call, self._stop, self.watcher.trouble)
        except StoreUnavailable:
            raise HandedBack from None

    def _now(self) -> float:
        return self._clock.now_us() / 1_000_000


def do_now(
    handler: Handler[_Lease], store: Store, number: int, watcher: RunWatcher, stop: Stop
) -> bool:
    """Do one task here, whatever waits before it, or wait for the runner that does it.

    Returns whether it has ended; False at a request to stop, after which it waits again. Raises
    UserError if this machine cannot. Only in the main thread.
    """
    handler = replace(handler, gives_back_at=StopRequest.FINISH)  # somebody waits
    make_workers = handler.make_eager_workers or handler.make_workers
    loop = TaskLoop(handler, store, make_workers(store), stop=stop, watcher=watcher)
    with closing(loop), stop.on_signals():
        try:
            loop.retry(lambda: take_back(store))
            while not loop.queue.state(number).is_final:
                if stop.requested is not StopRequest.GO_ON:
                    return False
                if not loop.next(number):
                    stop.pause(_OTHERS_S)
        except HandedBack:
            return False
        except HostCannot as trouble:
            raise UserError(f"{handler.cannot} here now: {trouble}") from None
    return True


@contextmanager
def in_background(
    handler: Handler[_Lease],
    store: Store,
    watcher: RunWatcher,
    stop: Stop,
    *,
    workers: Workers | None = None,
    first: bool = False,
    to_end: bool = False,
) -> Iterator[None]:
    """Work in a thread while the body runs; only in the main thread.

    An exception of the body, at Ctrl-C or SIGTERM too, makes the loop hand back.

    stop     is asked to finish if the loop raises a LadderError, which is raised here in the end
    workers  a pool with one worker, in place of the handler's
    first    do what waits before the body begins
    to_end   go on after the body until nothing waits; else the present task is finished, or given
             back at once, if its kind is at a request to finish
    """
    failed: list[LadderError] = []

    def run() -> None:
        try:
            loop.run()
        except LadderError as error:
            failed.append(error)
            stop.ask(StopRequest.FINISH)

    thread = threading.Thread(target=run)
    with closing(Stop()) as own:
        stop.share(own)
        pool = workers or handler.make_workers(store)
        with closing(TaskLoop(handler, store, pool, stop=own, watcher=watcher)) as loop:
            if first:
                with stop.on_signals():
                    loop.drain()
            try:
                # While the body has no handlers, SIGTERM would end this process at once.
                with on_signals(_interrupt, partial(_terminate, stop)):
                    with stop.on_signals():
                        thread.start()
                    yield
            except BaseException:
                own.ask(StopRequest.HAND_BACK)
                raise
            finally:
                with stop.on_signals():
                    if to_end:
                        loop.end_with_queue()
                    elif handler.gives_back_at is StopRequest.FINISH:
                        own.ask(StopRequest.HAND_BACK)
                    else:
                        own.ask(StopRequest.FINISH)
                    if thread.ident is not None:
                        thread.join()
            for error in failed:
                raise error


def _interrupt() -> None:
    raise KeyboardInterrupt


def _terminate(stop: Stop) -> None:
    stop.terminate()
    raise KeyboardInterrupt
