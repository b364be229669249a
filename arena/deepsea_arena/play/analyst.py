"""The analyst: the runner's side of analyses that were asked for, beside its games.

Invariants: one analysis at a time, in a separate worker process with the lowest priority, and none
is begun while a submission waits; whatever dies at any moment, a result is stored once and whole; a
record that brings down its worker three times has failed, and the run goes on; at a request to stop
the present analysis is given back at once.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from deepsea_arena.coach.ladder_analyses import settings_from
from deepsea_arena.documents import DocumentError
from deepsea_arena.play.analysis_worker import Analysed, AnalyseGame, analysis_worker
from deepsea_arena.play.background_work import (
    HandedBack,
    HostCannot,
    LeasedWork,
    Times,
)
from deepsea_arena.play.run_report import RunWatcher
from deepsea_arena.play.shutdown import Stop, StopRequest
from deepsea_ladder.errors import AnalysisError
from deepsea_ladder.model.games import AnalysisLease
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.store import Store
from deepsea_ladder.store.analyses import Analyses
from deepsea_referee.errors import UserError
from deepsea_referee.workers import LocalWorkers, Workers
from deepsea_rules.printable import one_line

_QUIET_S = 900.0
"""Timeout of one step of an analysis: long, because its worker gives way to all others."""
_OTHERS_S = 1.0
"""The wait for another runner."""


def local_analyst() -> Workers:
    """The worker process in which games are analysed beside others."""
    return LocalWorkers(analysis_worker, 1)


def eager_analyst() -> Workers:
    """The worker process in which a game is analysed that somebody waits for."""
    return LocalWorkers(partial(analysis_worker, gives_way=False), 1)


class Analyst(LeasedWork[AnalysisLease]):
    """Does the analyses that were asked for on a ladder.

    workers  a pool with one worker that `analysis_worker` has set up; it is closed in the end
    """

    times = Times(idle=2.0)
    cannot = "games cannot be analysed"
    lease_label = "an analysis' lease"
    gives_back_at = StopRequest.FINISH

    def _queue(self) -> Analyses:
        return self._store.analyses

    def do(self, number: int) -> bool:
        """Do one analysis, whatever waits before it; False if this runner cannot have it now."""
        lease = self._lease(number)
        return lease is not None and self._try(lease)

    def _claim(self) -> AnalysisLease | None:
        submissions = self._store.submissions
        if not self._retry(self._queue().waiting) or self._retry(submissions.waiting):
            return None
        return self._lease()

    def _lease(self, only: int | None = None) -> AnalysisLease | None:
        claim = self._queue().claim
        return self._lease_by(lambda: claim(self._owner, self._times.lease, only))

    def _do(self, lease: AnalysisLease) -> None:
        analyses, limits = self._store.analyses, self._store.settings.limits
        try:
            task = AnalyseGame(lease.record, settings_from(lease.settings))
            answer = self._answer(
                task, lambda: analyses.renew(lease, self._times.lease), quiet=_QUIET_S
            )
            found = cast(Analysed, answer)  # what `analysis_worker` answers
            if found.problem:
                raise AnalysisError(found.problem)
            # The store may be unavailable after the commit: a repetition finds the lease gone.
            self._retry(lambda: analyses.finish(lease, found.policy, found.document, limits()))
        except (DocumentError, AnalysisError) as error:
            reason = str(error)
            self._retry(lambda: analyses.reject(lease, reason))
        self._report(lease)

    def _named(self, lease: AnalysisLease) -> str:
        return f"the analysis of {lease.game_id}"

    def _fail(self, lease: AnalysisLease, reason: str) -> None:
        state = self._retry(lambda: self._store.analyses.fail(lease, reason))
        if state is TaskState.QUEUED:
            self._watcher.trouble(
                f"{self._named(lease)} has no result and waits again: {one_line(reason)}"
            )
        elif state is not None:
            self._report(lease)

    def _report(self, lease: AnalysisLease) -> None:
        done = self._retry(lambda: self._store.analyses.get(lease.id))
        note = done.plan.policy if done.state is TaskState.DONE else done.reason
        self._watcher.analysed(done.game_id, done.state, note)


def analyse_now(store: Store, number: int, watcher: RunWatcher, stop: Stop) -> bool:
    """Do one analysis here, whatever waits before it, or wait for the runner that does it.

    Returns whether it has ended; False at a request to stop, after which it waits again. Raises
    UserError if this machine cannot.
    """
    analyst = Analyst(store, eager_analyst(), stop=stop, watcher=watcher)
    try:
        with stop.on_signals():
            analyst.take_back()
            while not store.analyses.get(number).state.is_final:
                if stop.requested is not StopRequest.GO_ON:
                    return False
                if not analyst.do(number):
                    stop.pause(_OTHERS_S)
            return True
    except HandedBack:
        return False
    except HostCannot as trouble:
        raise UserError(f"the game cannot be analysed here now: {trouble}") from None
    finally:
        analyst.close()
