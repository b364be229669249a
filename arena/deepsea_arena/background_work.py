"""The loop that does tasks beside a runner's games: it leases them one by one from a queue.

Start reading at `Handler`, which describes a kind of task, and `TaskLoop.do_next`.

Invariants: a task is done in a worker process; whatever dies at any moment, a lease is given back,
lost or runs out; trouble of this machine counts against nobody; the thread of `in_background` has
ended when its body has been left, however it was left; an error of the store ends the run as well.

Exceptions that end an attempt without a result:

exception     raised by            means                              the task
HandedBack    `answer`, `retry`    a stop was requested               waits again
HostCannot    `answer`             this machine lacks something       waits again
NoResult      `answer`             a worker died, or took too long    has failed once more
LeaseLost     `hold`               a renewal of the lease was late    is another runner's

After `HandedBack` `close` gives the lease back. After `HostCannot` the loop gives it back itself,
and pauses. Rated games end by values instead, which a worker can send: see `tasks.JobOutcome`.
`runner.RunStopped` ends a whole tournament.
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

from deepsea_arena.lease_owner import own_run_name, take_back
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
from deepsea_referee.workers import TaskMessage, TaskResult, Workers
from deepsea_rules.printable import one_line

_T = TypeVar("_T")
_Lease = TypeVar("_Lease", bound=Lease)
_OTHERS_S = 1.0
"""Pause of `do_now` before it looks again whether another runner has done its task."""

_WAITING: Mapping[TaskKind, Callable[[Store], object]] = {
    TaskKind.STEP: lambda store: store.person_games.waiting(),
    TaskKind.CHECK: lambda store: store.submissions.waiting(),
    TaskKind.ANALYSIS: lambda store: store.analyses.waiting(),
    TaskKind.COMPARISON: lambda store: store.comparisons.due(),
}
"""Functions that look for a waiting task of each kind; a true value means that there is one."""
_PRIORITY: Mapping[TaskKind, int] = {
    TaskKind.STEP: 1,
    TaskKind.CHECK: 1,
    TaskKind.ANALYSIS: 2,
    TaskKind.COMPARISON: 2,
}
"""The rank of each kind: its tasks are begun while none waits of a kind with a lower number."""
_STATE_WORDS: Mapping[TaskState, str] = {
    TaskState.QUEUED: "has no result and waits again",
    TaskState.VOID: "is void",
}
"""Words for the state of a task after an attempt without a result; else it "has failed"."""


class HandedBack(Exception):
    """A stop was requested: the attempt ends, and `TaskLoop.close` gives the lease back."""


class LeaseLost(Exception):
    """The lease ran out before it was renewed; another runner may have it."""


class NoResult(Exception):
    """The attempt ended without a result, and counts as failed.

    `shortage` is the kind of note for the operator if the machine lacked memory, or a CPU.
    """

    def __init__(self, reason: str, shortage: AuditKind | None = None) -> None:
        super().__init__(reason)
        self.shortage = shortage


class HostCannot(Exception):
    """Trouble of this machine, which cannot do any such task now. It counts as no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[_Lease]):
    """A kind of task, and how a runner does it."""

    kind: TaskKind
    queue: Callable[[Store], TaskLine[_Lease]]
    """Returns the store's queue of these tasks."""
    make_workers: Callable[[Store], Workers]
    """Makes a pool with one worker, for tasks that are done beside others."""
    make_eager_workers: Callable[[Store], Workers] | None = None
    """Makes the pool for `do_now`, whose caller waits; None: as `make_workers`."""
    perform: Callable[[TaskLoop[_Lease], _Lease], None]
    """Does a task and stores its result. Raises HandedBack, HostCannot, LeaseLost or NoResult."""
    fail: Callable[[TaskLoop[_Lease], _Lease, str], TaskState | None] | None = None
    """Stores that an attempt ended without a result; None: the queue's own `fail`.

    Returns the new state, or None if the lease is lost.
    """
    report_failed: Callable[[TaskLoop[_Lease], _Lease], None] | None = None
    """Reports a task that has failed for good; None: as a trouble of the run."""
    name: Callable[[_Lease], str]
    """The name of a task in messages."""
    cannot: str
    """The beginning of a message of trouble, such as "games cannot be analysed"."""
    idle: Callable[[Store], float]
    """Returns the pause, in seconds, before the next look at an empty queue."""
    gives_back_at: StopRequest
    """The request to stop at which a task under way is given back instead of finished."""


class TaskLoop(Generic[_Lease]):
    """The loop that does the waiting tasks of one kind.

    workers  a pool with one worker; `close` closes it
    stop     the requests to this loop alone: nobody else may wait for it
    times    its `idle` is the longest pause when nothing waits
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
        """Make a loop that leases nothing yet; see the class for the arguments."""
        self.store = store
        self.queue = handler.queue(store)
        self.watcher = watcher
        self.times = times or Times()
        self.owner = owner or own_run_name()
        self._handler = handler
        self._workers = workers
        self._stop = stop
        self._clock = clock or SystemClock()
        self._ends_with_queue = False
        self._troubles_in_a_row = 0  # of this machine
        self._has_worked = False  # a worker has done a task, so that workers can be started here
        self._task_started_s = 0.0

    def run(self) -> None:
        """Do the waiting tasks one after another, and wait for more, until a stop is requested.

        If `_ends_with_queue` is set, return as soon as no task waits, or this machine cannot do
        any.
        """
        with suppress(HandedBack):  # raised at a request to stop
            while self._stop.requested is StopRequest.GO_ON:
                has_done_task = has_trouble = False
                try:
                    has_done_task = self.do_next()
                except HostCannot as trouble:
                    self.watcher.trouble(f"{self._handler.cannot} now: {trouble}")
                    has_trouble = True
                if has_done_task:
                    continue
                if self._ends_with_queue:
                    return
                pause_s = self._trouble_pause_s() if has_trouble else self._idle_pause_s()
                self._stop.pause(pause_s)

    def _idle_pause_s(self) -> float:
        """Return the pause, in seconds, before the next look at an empty queue."""
        pause_s = self.retry(lambda: self._handler.idle(self.store))
        return min(pause_s, self.times.idle)

    def _trouble_pause_s(self) -> float:
        """Return the pause, in seconds, after trouble of this machine: longer with each one."""
        pause_s = nth_pause(self.times.host_pause, self._troubles_in_a_row)
        self._troubles_in_a_row += 1
        return pause_s

    def drain(self) -> None:
        """Do tasks until none waits, this machine cannot do any, or a stop is requested."""
        self._ends_with_queue = True
        self.run()
        self._ends_with_queue = False

    def end_with_queue(self) -> None:
        """Make `run` end as soon as nothing waits. Any thread may call this."""
        self._ends_with_queue = True
        self._stop.ring()

    def close(self) -> None:
        """End the worker process, and give the lease of its task back.

        If the store is unavailable, report that; the lease then runs out by itself.
        """
        self._workers.close()
        try:
            self.queue.hand_back(self.owner)
        except StoreUnavailable as error:
            lease = f"the lease of a task ({self._handler.kind})"
            self.watcher.trouble(f"{error}; {lease} was not given back, and runs out")

    def do_next(self, task_number: int | None = None) -> bool:
        """Lease the next task of the queue and do it, or the task with this number if one is given.

        Return False if there is no task to do now, or if a stop was requested meanwhile. Raises
        HostCannot if this machine cannot do the task, which then waits again. Any other failure is
        stored, and reported to the watcher.
        """
        lease = self._claim(task_number)
        if lease is None:
            return False
        self._task_started_s = self._now_s()
        try:
            self._handler.perform(self, lease)
        except HandedBack:
            return False  # `close` gives the lease back
        except HostCannot:
            self.retry(lambda: self.queue.hand_back(self.owner))
            raise
        except LeaseLost:
            self.watcher.trouble(f"another runner has taken over {self._handler.name(lease)}")
        except NoResult as failure:
            self._note_shortage(lease, failure)
            self._store_failure(lease, str(failure))
        except LadderError:
            raise  # trouble of the store, which ends the run
        except Exception as error:  # noqa: BLE001  (one task must not end the others)
            self._store_failure(lease, f"{type(error).__name__}: {error}")
        self._troubles_in_a_row = 0
        return True

    def _claim(self, task_number: int | None) -> _Lease | None:
        """Lease the task with this number, or without a number the next one of the queue.

        Return None if there is none. Without a number, also return None while a task of a kind
        with a higher priority waits.
        """
        if task_number is None and not self._may_begin_next():
            return None
        try_numbers = count()

        def claim() -> _Lease | None:
            is_retry = next(try_numbers) > 0
            if is_retry:
                # The store may have leased a task to an earlier call whose answer was lost.
                self.queue.hand_back(self.owner)
            return self.queue.claim(self.owner, self.times.lease, task_number)

        return self.retry(claim)

    def _may_begin_next(self) -> bool:
        """Return True if a task of this loop's kind waits, and none of a higher priority."""
        kind = self._handler.kind
        if not self._has_waiting(kind):
            return False
        # The lower the number, the higher is the priority.
        urgent_kinds = [other for other in _PRIORITY if _PRIORITY[other] < _PRIORITY[kind]]
        return not any(self._has_waiting(urgent_kind) for urgent_kind in urgent_kinds)

    def _has_waiting(self, kind: TaskKind) -> bool:
        """Return True if a task of this kind waits."""
        return bool(self.retry(lambda: _WAITING[kind](self.store)))

    def _note_shortage(self, lease: _Lease, failure: NoResult) -> None:
        """Store a note for the operator if a task failed since the machine lacked something."""
        kind = failure.shortage
        if kind is None:
            return
        name, reason = self._handler.name(lease), str(failure)
        self.retry(lambda: self.store.audit.note_shortage(kind, name, reason))

    def _store_failure(self, lease: _Lease, reason: str) -> None:
        """Store that an attempt at a task has failed, and report the new state of the task.

        If the lease has been lost, the task is another runner's: store and report nothing.
        """
        handler = self._handler
        store_failure = self.queue.fail if handler.fail is None else partial(handler.fail, self)
        state = self.retry(lambda: store_failure(lease, reason))
        if state is None:  # the lease was lost
            return
        waits_again = state is TaskState.QUEUED
        if handler.report_failed is not None and not waits_again:
            handler.report_failed(self, lease)
            return
        state_words = _STATE_WORDS.get(state, "has failed")
        self.watcher.trouble(f"{handler.name(lease)} {state_words}: {one_line(reason)}")

    # ------------------------------------------------------------------------------- for handlers

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
        """Give a task to the worker and return its result, while the lease is renewed.

        renew       renews the lease and returns False if it is lost; by default the queue's
        needs       digests of the files that the task needs
        seconds     timeout of the task
        quiet       timeout of the wait for its next message
        on_message  called with each message; True renews the lease at once

        Raises HandedBack, HostCannot, LeaseLost or NoResult; the worker is killed then if it still
        works.
        """
        renew = renew or (lambda: self.queue.renew(lease, self.times.lease))
        task = self._workers.start(argument, self._workers.free()[0], needs)
        started_s = last_event_s = renewed_s = self._now_s()
        while True:
            is_renewal_due = False
            events = self._workers.wait(self.times.beat, self._stop)
            for event in events:
                if not isinstance(event, TaskMessage):
                    outcome = outcome_of_event(event, has_worked=self._has_worked)
                    self._has_worked |= isinstance(event, TaskResult)
                    match outcome:
                        case HostTrouble(reason):
                            raise HostCannot(reason)
                        case VoidOutcome(reason, shortage=shortage):
                            raise NoResult(reason, shortage)
                    return outcome
                is_renewal_due = on_message(event.message)
            now_s = self._now_s()
            if events:
                last_event_s = now_s
            try:
                if self._stop.requested >= self._handler.gives_back_at:
                    raise HandedBack
                if now_s - started_s >= seconds:
                    raise NoResult(f"no end after {seconds:g} seconds")
                if now_s - last_event_s >= quiet:
                    raise NoResult(f"no step within {quiet:g} seconds")
                if is_renewal_due or now_s - renewed_s >= self.times.beat:
                    self.hold(renew)
                    renewed_s = now_s
            except BaseException:
                self._workers.kill(task)
                raise

    def hold(self, renew: Callable[[], bool]) -> None:
        """Renew the lease. Raises LeaseLost if that fails."""
        if not self.retry(renew):
            raise LeaseLost

    def took_ms(self) -> int:
        """Return how long the present task has taken so far, in milliseconds.

        This is elapsed time. The CPU time would miss processes of bots in the sandbox, and elapsed
        time is what the next tasks have to wait.
        """
        return round(1000 * (self._now_s() - self._task_started_s))

    def retry(self, call: Callable[[], _T]) -> _T:
        """Return the result of `call`, which is repeated until the store is available.

        `call` must do no harm if it is repeated, since the answer to an earlier try may have been
        lost. Raises HandedBack if a stop is requested meanwhile.
        """
        try:
            return retry_until_available(call, self._stop, self.watcher.trouble)
        except StoreUnavailable:  # raised only after a request to stop
            raise HandedBack from None

    def _now_s(self) -> float:
        return self._clock.now_us() / 1_000_000


def do_now(
    handler: Handler[_Lease], store: Store, number: int, watcher: RunWatcher, stop: Stop
) -> bool:
    """Do the task with this number in this process, and return True once it has ended.

    If another runner has begun it, wait until that runner has ended it. Return False if a stop is
    requested meanwhile: the task then waits in its queue again. Raises UserError if this machine
    cannot do the task. Only the main thread may call this, since it handles Ctrl-C.
    """
    # The first Ctrl-C gives the task back, so that the caller need not wait for its end.
    handler = replace(handler, gives_back_at=StopRequest.FINISH)
    make_workers = handler.make_eager_workers or handler.make_workers
    loop = TaskLoop(handler, store, make_workers(store), stop=stop, watcher=watcher)
    with closing(loop), stop.on_signals():
        try:
            # The lease of a killed run on this machine must not keep the task.
            loop.retry(lambda: take_back(store))
            while not loop.queue.state(number).is_final:
                if stop.requested is not StopRequest.GO_ON:
                    return False
                has_done_task = loop.do_next(number)
                if not has_done_task:  # another runner has it
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
    """Do tasks in a thread while the body runs. Only the main thread may use this.

    An exception of the body, also of Ctrl-C or SIGTERM, makes the loop give its lease back. A
    LadderError of the loop asks `stop` to finish, and is raised when the body has ended.

    workers  a pool with one worker, in place of the handler's
    first    do the waiting tasks before the body begins
    to_end   go on after the body until nothing waits; otherwise the present task is finished, or
             given back if its kind is at a request to finish
    """
    errors: list[LadderError] = []

    def run() -> None:
        try:
            loop.run()
        except LadderError as error:
            errors.append(error)
            stop.ask(StopRequest.FINISH)

    thread = threading.Thread(target=run)
    with closing(Stop()) as loop_stop:
        stop.share(loop_stop)
        pool = workers or handler.make_workers(store)
        with closing(TaskLoop(handler, store, pool, stop=loop_stop, watcher=watcher)) as loop:
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
                loop_stop.ask(StopRequest.HAND_BACK)
                raise
            finally:
                with stop.on_signals():
                    if to_end:
                        loop.end_with_queue()
                    elif handler.gives_back_at is StopRequest.FINISH:
                        loop_stop.ask(StopRequest.HAND_BACK)
                    else:
                        loop_stop.ask(StopRequest.FINISH)
                    if thread.ident is not None:
                        thread.join()
            for error in errors:
                raise error


def _interrupt() -> None:
    """Raise KeyboardInterrupt, as Ctrl-C does without a handler."""
    raise KeyboardInterrupt


def _terminate(stop: Stop) -> None:
    """Ask `stop` to end at once, and raise KeyboardInterrupt: the handler of SIGTERM."""
    stop.terminate()
    raise KeyboardInterrupt
