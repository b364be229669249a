"""Background work of a runner: leases from a queue of the store, one at a time.

Invariants: it is done in a worker process; whatever dies at any moment, a lease is given back, lost
or runs out; trouble of this machine counts against nobody; the thread has ended when the body has
been left, however it was left; an error of the store ends the run as well.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import ClassVar, Generic, TypeVar

from deepsea_arena.lease_owner import is_gone, own_name
from deepsea_arena.play.run_report import RunWatcher
from deepsea_arena.play.shutdown import Stop, StopRequest, retry_until_available
from deepsea_arena.play.tasks import HostTrouble, outcome_of_error
from deepsea_ladder.errors import LadderError, StoreUnavailable
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.store import Store
from deepsea_ladder.store.tasks import Lease, TaskQueue
from deepsea_referee.interrupts import on_signals, pause
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_referee.workers import Died, Done, Event, Failed, Sent, Workers
from deepsea_rules.printable import one_line

_T = TypeVar("_T")
_Lease = TypeVar("_Lease", bound=Lease)
_LONGEST_PAUSE_S = 60.0


class HandedBack(Exception):
    """The lease is to be given back."""


class LeaseLost(Exception):
    """Another runner has the lease."""


class NoResult(Exception):
    """The attempt ended without one."""


class HostCannot(Exception):
    """This machine cannot do it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Timeouts, in seconds."""

    lease: float = 60.0
    """The duration of a lease; it is renewed three times as often."""
    idle: float
    """The wait when nothing waits."""
    host_pause: float = 5.0
    """The first wait when this machine cannot; each further one is twice as long."""


class LeasedWork(ABC, Generic[_Lease]):
    """Does what waits in a queue of a ladder.

    workers  a pool with one worker; it is closed in the end
    stop     its own: nobody else may wait for it
    """

    times: ClassVar[Times]
    cannot: ClassVar[str]
    """The beginning of a message of trouble, such as "games cannot be analysed"."""
    lease_label: ClassVar[str]
    failed: ClassVar[str] = "has failed"
    """What is said of it after too many attempts."""
    gives_back_at: ClassVar[StopRequest]
    """The request at which what is being done is given back."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        *,
        stop: Stop,
        watcher: RunWatcher,
        times: Times | None = None,
        owner: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._workers = workers
        self._stop = stop
        self._watcher = watcher
        self._times = times or self.times
        self._owner = owner or own_name()
        self._clock = clock or SystemClock()
        self._only_what_waits = False
        self._troubles = 0  # in a row, of this machine

    def take_back(self) -> None:
        """End the leases of runners of this machine that were killed; others expire."""
        for owner in filter(is_gone, self._retry(self._queue().owners)):
            self._retry(partial(self._queue().lose, owner))

    def run(self) -> None:
        """Do what waits, and wait for more, until there is a request to stop."""
        with suppress(HandedBack):
            self.take_back()
            while self._stop.requested is StopRequest.GO_ON:
                try:
                    if self.next():
                        continue
                    if self._only_what_waits:
                        return
                    seconds = self._idle()
                except HostCannot as trouble:
                    self._watcher.trouble(f"{self.cannot} now: {trouble}")
                    if self._only_what_waits:
                        return
                    seconds = min(self._times.host_pause * 2**self._troubles, _LONGEST_PAUSE_S)
                    self._troubles += 1
                pause(seconds, self._stop)

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
            self._queue().hand_back(self._owner)
        except StoreUnavailable as error:
            self._watcher.trouble(f"{error}; {self.lease_label} was not given back, and runs out")

    def next(self) -> bool:
        """Do what is next; False if there is nothing for this runner now."""
        lease = self._claim()
        return lease is not None and self._try(lease)

    def _try(self, lease: _Lease) -> bool:
        """Do what was leased; False if it is to be given back."""
        try:
            self._do(lease)
        except HandedBack:
            return False  # `close` gives the lease back
        except HostCannot:
            self._retry(lambda: self._queue().hand_back(self._owner))
            raise
        except LeaseLost:
            self._watcher.trouble(f"another runner has taken over {self._named(lease)}")
        except NoResult as end:
            self._fail(lease, str(end))
        except LadderError:
            raise
        except Exception as error:  # noqa: BLE001  (one of them must not end the others)
            self._fail(lease, f"{type(error).__name__}: {error}")
        self._troubles = 0
        return True

    @abstractmethod
    def _queue(self) -> TaskQueue[_Lease]:
        """The queue."""

    @abstractmethod
    def _claim(self) -> _Lease | None:
        """Lease what is next, if anything is."""

    @abstractmethod
    def _do(self, lease: _Lease) -> None:
        """Do what was leased and store the result.

        Raises HandedBack, HostCannot, LeaseLost or NoResult.
        """

    def _fail(self, lease: _Lease, reason: str) -> None:
        """Store that an attempt ended without a result, and report it."""
        queue = self._queue()
        state = self._retry(lambda: queue.fail(lease, reason))
        if state is not None:
            then = "waits again" if state is TaskState.QUEUED else self.failed
            self._watcher.trouble(f"{self._named(lease)} {then}: {one_line(reason)}")

    @abstractmethod
    def _named(self, lease: _Lease) -> str:
        """The name of a lease in messages."""

    def _idle(self) -> float:
        """The wait when nothing waits, in seconds."""
        return self._times.idle

    def _answer(
        self,
        argument: object,
        renew: Callable[[], bool],
        *,
        needs: Sequence[str] = (),
        seconds: float = inf,
        quiet: float = inf,
        on_message: Callable[[object], bool] = lambda _: False,
    ) -> object:
        """The worker's answer to a task; the lease is renewed meanwhile.

        renew       renews it; False if it is lost
        needs       digests of the files that the task needs
        seconds     timeout of the task
        quiet       timeout of the wait for its next message
        on_message  receives each message; True renews the lease at once
        """
        beat = self._times.lease / 3
        task = self._workers.start(argument, self._workers.free()[0], needs)
        began = heard = renewed = self._now()
        while True:
            due = False
            events = self._workers.wait(beat, self._stop)
            for event in events:
                if not isinstance(event, Sent):
                    return _result(event)
                due = on_message(event.message)
            now = self._now()
            if events:
                heard = now
            try:
                if self._stop.requested >= self.gives_back_at:
                    raise HandedBack
                if now - began >= seconds:
                    raise NoResult(f"no end after {seconds:g} seconds")
                if now - heard >= quiet:
                    raise NoResult(f"no step within {quiet:g} seconds")
                if due or now - renewed >= beat:
                    self._hold(renew)
                    renewed = now
            except BaseException:
                self._workers.kill(task)
                raise

    def _lease_by(self, claim: Callable[[], _Lease | None]) -> _Lease | None:
        """Call the store for a lease, with retries while it is unavailable."""
        tries = count()

        def call() -> _Lease | None:
            if next(tries):  # an earlier try was perhaps stored, and its answer lost
                self._queue().hand_back(self._owner)
            return claim()

        return self._retry(call)

    def _hold(self, renew: Callable[[], bool]) -> None:
        if not self._retry(renew):
            raise LeaseLost

    def _now(self) -> float:
        return self._clock.now_us() / 1_000_000

    def _retry(self, call: Callable[[], _T]) -> _T:
        """Call the store, with retries while it is unavailable; every call may be repeated."""
        try:
            return retry_until_available(call, self._stop, self._watcher.trouble)
        except StoreUnavailable:
            raise HandedBack from None


def _result(event: Event) -> object:
    """The result of a task that has ended. Raises HostCannot or NoResult."""
    match event:
        case Done(_, result):
            return result
        case Failed(_, error):
            outcome = outcome_of_error(error)
            kind = HostCannot if isinstance(outcome, HostTrouble) else NoResult
            raise kind(outcome.reason)
        case Died(_, ending):
            raise NoResult(f"the worker ended ({ending})")
    raise AssertionError("a message does not end a task")


@contextmanager
def in_background(
    kind: type[LeasedWork[_Lease]],
    store: Store,
    make_workers: Callable[[], Workers],
    watcher: RunWatcher,
    stop: Stop,
    *,
    first: bool = False,
    to_end: bool = False,
) -> Iterator[None]:
    """Work in a thread while the body runs; only in the main thread.

    kind    the work; an exception of the body, at Ctrl-C or SIGTERM too, makes it hand back
    stop    is asked to finish if the work raises a LadderError, which is raised here in the end
    first   do what waits before the body begins
    to_end  go on after the body until nothing waits; else the present piece of work is finished, or
            given back at once, if it is at a request to finish
    """
    failed: list[LadderError] = []

    def run() -> None:
        try:
            work.run()
        except LadderError as error:
            failed.append(error)
            stop.ask(StopRequest.FINISH)

    thread = threading.Thread(target=run)
    with closing(Stop()) as own:
        stop.share(own)
        with closing(kind(store, make_workers(), stop=own, watcher=watcher)) as work:
            if first:
                with stop.on_signals():
                    work.drain()
            try:
                # While the body has no handlers, SIGTERM would end this process at once.
                with on_signals(_interrupt):
                    with stop.on_signals():
                        thread.start()
                    yield
            except BaseException:
                own.ask(StopRequest.HAND_BACK)
                raise
            finally:
                with stop.on_signals():
                    if to_end:
                        work.end_with_queue()
                    elif kind.gives_back_at is StopRequest.FINISH:
                        own.ask(StopRequest.HAND_BACK)
                    else:
                        own.ask(StopRequest.FINISH)
                    if thread.ident is not None:
                        thread.join()
            for error in failed:
                raise error


def _interrupt() -> None:
    raise KeyboardInterrupt
