"""The analyst: the runner's side of analyses that were asked for, beside its games.

Invariants: one analysis at a time, in a separate worker process with the lowest priority, and none
is begun while a submission waits; whatever dies at any moment, a result is stored once and whole; a
record that brings down its worker three times has failed, and the run goes on; at a request to stop
the present analysis is given back at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar, cast

from deepsea_arena.analysis_worker import Analysed, AnalyseGame, analysis_worker
from deepsea_arena.beside import beside
from deepsea_arena.ladder_analyses import settings_from
from deepsea_arena.lease_owner import is_gone, own_name
from deepsea_arena.outcomes import outcome_of
from deepsea_arena.retry import insist
from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_arena.wire.reading import DocumentError
from deepsea_arena.worker_protocol import HostTrouble
from deepsea_ladder.errors import AnalysisError, LadderError, StoreUnavailable
from deepsea_ladder.model import AnalysisLease, AnalysisState
from deepsea_ladder.remote_limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import pause
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_referee.workers import Died, Done, Failed, LocalWorkers, Workers
from deepsea_rules.printable import one_line

_T = TypeVar("_T")
_LONGEST_PAUSE_S: Final = 60.0
_OTHERS_S: Final = 1.0
"""The wait for another runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalystSettings:
    """Timeouts of the analyst, in seconds."""

    lease: float = 60.0
    """The duration of a lease; it is renewed three times as often."""
    idle: float = 2.0
    """The wait when nothing waits to be analysed."""
    quiet: float = 900.0
    """Timeout of one step of an analysis: long, because its worker gives way to all others."""
    host_pause: float = 5.0
    """The first wait when this machine cannot analyse; each further one is twice as long."""


class AnalystListener(Protocol):
    """Callbacks of analyses; they may come in another thread."""

    def analysed(self, game_id: str, state: AnalysisState, note: str) -> None:
        """An analysis is done or has failed; `note` is the policy, or the reason."""

    def trouble(self, message: str) -> None:
        """The store or this machine cannot analyse now."""


class _HandedBack(Exception):
    """The lease is to be given back."""


class _LeaseLost(Exception):
    """Another runner has the analysis."""


class _NoResult(Exception):
    """The attempt ended without one."""


class _HostCannot(Exception):
    """This machine cannot analyse now."""


def local_analyst() -> Workers:
    """The worker process in which games are analysed beside others."""
    return LocalWorkers(analysis_worker, 1)


def eager_analyst() -> Workers:
    """The worker process in which a game is analysed that somebody waits for."""
    return LocalWorkers(partial(analysis_worker, gives_way=False), 1)


class Analyst:
    """Does the analyses that were asked for on a ladder.

    workers  a pool with one worker that `analysis_worker` has set up; it is closed in the end
    stop     its own: nobody else may wait for it
    """

    def __init__(
        self,
        store: Store,
        workers: Workers,
        *,
        owner: str,
        clock: Clock,
        stop: Stop,
        listener: AnalystListener,
        limits: RemoteLimits = USUAL_LIMITS,
        settings: AnalystSettings | None = None,
    ) -> None:
        self._store = store
        self._workers = workers
        self._owner = owner
        self._clock = clock
        self._stop = stop
        self._listener = listener
        self._limits = limits
        self._settings = settings or AnalystSettings()
        self._only_what_waits = False
        self._troubles = 0  # in a row, of this machine

    def take_back(self) -> None:
        """End the leases of runners of this machine that were killed; others expire."""
        for owner in filter(is_gone, self._insist(self._store.analyses.owners)):
            self._insist(partial(self._store.analyses.lose, owner))

    def run(self) -> None:
        """Do what waits, and wait for more, until there is a request to stop."""
        while self._stop.wish is StopRequest.GO_ON:
            try:
                if self.next():
                    continue
                if self._only_what_waits:
                    return
                pause(self._settings.idle, self._stop)
            except _HostCannot as trouble:
                seconds = min(self._settings.host_pause * 2**self._troubles, _LONGEST_PAUSE_S)
                self._troubles += 1
                self._listener.trouble(f"games cannot be analysed now: {trouble}")
                if self._only_what_waits:
                    return
                pause(seconds, self._stop)

    def end_with_queue(self) -> None:
        """Let `run` end when nothing waits any more; called in any thread."""
        self._only_what_waits = True
        self._stop.ring()

    def close(self) -> None:
        """End the worker, and give the lease back."""
        self._workers.close()
        try:
            self._store.analyses.hand_back(self._owner)
        except StoreUnavailable as error:
            self._listener.trouble(f"{error}; an analysis' lease was not given back, and runs out")

    def next(self, only: int | None = None) -> bool:
        """Do the next analysis, or that one alone; False if there is none for this runner now."""
        analyses = self._store.analyses
        if only is None and not (
            self._insist(analyses.waiting) and not self._insist(self._store.submissions.waiting)
        ):
            return False
        lease = self._insist(lambda: analyses.claim(self._owner, self._settings.lease, only))
        if lease is None:
            return False
        try:
            self._do(lease)
        except _HandedBack:
            return False  # `close` gives the lease back
        except _HostCannot:
            self._insist(lambda: analyses.hand_back(self._owner))
            raise
        except _LeaseLost:
            self._listener.trouble(f"another runner has taken over the analysis of {lease.game_id}")
        except _NoResult as end:
            self._fail(lease, str(end))
        except LadderError:
            raise
        except Exception as error:  # noqa: BLE001  (one analysis must not end the others)
            self._fail(lease, f"{type(error).__name__}: {error}")
        self._troubles = 0
        return True

    def _do(self, lease: AnalysisLease) -> None:
        try:
            task = AnalyseGame(lease.record, settings_from(lease.settings))
        except DocumentError as error:
            self._reject(lease, str(error))
            return
        found = self._result(lease, task)
        if found.problem:
            self._reject(lease, found.problem)
            return
        finish = self._store.analyses.finish
        try:
            # The store may be unavailable after the commit: a repetition finds the lease gone.
            self._insist(lambda: finish(lease, found.policy, found.document, self._limits))
        except AnalysisError as error:
            self._reject(lease, str(error))
            return
        self._report(lease)

    def _result(self, lease: AnalysisLease, argument: AnalyseGame) -> Analysed:
        """The worker's answer; the lease is renewed meanwhile."""
        beat = self._settings.lease / 3
        task = self._workers.start(argument, self._workers.free()[0])
        heard = renewed = self._now()
        while True:
            events = self._workers.wait(beat, self._stop)
            for event in events:
                match event:
                    case Done(_, answer):
                        return cast(Analysed, answer)  # what `analysis_worker` answers
                    case Failed(_, error):
                        outcome = outcome_of(error)
                        kind = _HostCannot if isinstance(outcome, HostTrouble) else _NoResult
                        raise kind(outcome.reason)
                    case Died(_, ending):
                        raise _NoResult(f"the worker ended ({ending})")
            now = self._now()
            if events:
                heard = now
            try:
                if self._stop.wish is not StopRequest.GO_ON:
                    raise _HandedBack
                if now - heard >= self._settings.quiet:
                    raise _NoResult(f"no step within {self._settings.quiet:g} seconds")
                if now - renewed >= beat:
                    self._renew(lease)
                    renewed = now
            except BaseException:
                self._workers.kill(task)
                raise

    def _renew(self, lease: AnalysisLease) -> None:
        seconds, renew = self._settings.lease, self._store.analyses.renew
        if not self._insist(lambda: renew(lease, seconds)):
            raise _LeaseLost

    def _reject(self, lease: AnalysisLease, reason: str) -> None:
        self._insist(lambda: self._store.analyses.reject(lease, reason))
        self._report(lease)

    def _fail(self, lease: AnalysisLease, reason: str) -> None:
        state = self._insist(lambda: self._store.analyses.fail(lease, reason))
        if state is AnalysisState.QUEUED:
            self._listener.trouble(
                f"the analysis of {lease.game_id} has no result and waits again: {one_line(reason)}"
            )
        elif state is not None:
            self._report(lease)

    def _report(self, lease: AnalysisLease) -> None:
        done = self._insist(lambda: self._store.analyses.get(lease.id))
        note = done.plan.policy if done.state is AnalysisState.DONE else done.reason
        self._listener.analysed(done.game_id, done.state, note)

    def _now(self) -> float:
        return self._clock.now_us() / 1_000_000

    def _insist(self, call: Callable[[], _T]) -> _T:
        """Call the store, with retries while it is unavailable; every call may be repeated."""
        try:
            return insist(call, self._stop, self._listener.trouble)
        except StoreUnavailable:
            raise _HandedBack from None


def analyse_now(
    store: Store,
    number: int,
    listener: AnalystListener,
    stop: Stop,
    make_workers: Callable[[], Workers] = eager_analyst,
) -> bool:
    """Do one analysis here, whatever waits before it, or wait for the runner that does it.

    Returns whether it has ended; False at a request to stop, after which it waits again. Raises
    UserError if this machine cannot.
    """
    analyst = Analyst(
        store,
        make_workers(),
        owner=own_name(),
        clock=SystemClock(),
        stop=stop,
        listener=listener,
    )
    try:
        with stop.on_signals():
            analyst.take_back()
            while not store.analyses.get(number).state.is_final:
                if stop.wish is not StopRequest.GO_ON:
                    return False
                if not analyst.next(number):
                    stop.pause(_OTHERS_S)
            return True
    except _HandedBack:
        return False
    except _HostCannot as trouble:
        raise UserError(f"the game cannot be analysed here now: {trouble}") from None
    finally:
        analyst.close()


@contextmanager
def analysing(
    store: Store,
    make_workers: Callable[[], Workers],
    listener: AnalystListener,
    stop: Stop,
    *,
    to_end: bool,
) -> Iterator[None]:
    """Analyse games in a thread while the body runs.

    to_end  go on after the body until nothing waits; else the present analysis is given back
    Ctrl-C and SIGTERM request a stop meanwhile, so call this in the main thread.
    """
    own = Stop()
    stop.share(own)
    analyst = Analyst(
        store, make_workers(), owner=own_name(), clock=SystemClock(), stop=own, listener=listener
    )

    def work() -> None:
        with suppress(_HandedBack):
            analyst.take_back()
            analyst.run()

    def end() -> None:
        if not to_end:
            own.ask(StopRequest.HAND_BACK)
        analyst.end_with_queue()

    try:
        with beside(work, end, stop, own):
            yield
    finally:
        try:
            analyst.close()
        finally:
            own.close()
