"""The runner's side of comparisons of new versions, beside its games.

Invariants: a portion at a time, in a worker process with the lowest priority, and none is begun
while a submission or a person waits; each block is stored as it comes, so that whatever dies at any
moment, the comparison goes on from there; at a request to stop the present block is given up.
"""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from deepsea_arena.play.background_work import LeasedWork, LeaseLost, Times
from deepsea_arena.play.comparison_worker import BlockPlayed, comparison_worker
from deepsea_arena.play.shutdown import StopRequest
from deepsea_arena.play.tasks import game_seconds
from deepsea_ladder.model.verdicts import ComparisonLease
from deepsea_ladder.store import Store
from deepsea_ladder.store.comparisons import Comparisons
from deepsea_referee.workers import LocalWorkers, Workers

_GAMES = 2
"""Games of a block."""
_PORTION_MS = 20_000
"""CPU time of a lease: then it is another author's turn."""


def local_comparer(store: Store) -> Workers:
    """The worker process in which versions are compared."""
    return LocalWorkers(comparison_worker, 1, fetch=store.bots.archive)


class Comparer(LeasedWork[ComparisonLease]):
    """Compares new versions of a ladder's bots with former ones and with the panel.

    workers  a pool with one worker that `comparison_worker` has set up; it is closed in the end
    """

    times = Times(idle=5.0)
    cannot = "bots cannot be compared"
    lease_label = "a comparison's lease"
    gives_back_at = StopRequest.FINISH

    def _queue(self) -> Comparisons:
        return self._store.comparisons

    def _claim(self) -> ComparisonLease | None:
        store = self._store
        others = (store.submissions.waiting, store.person_games.waiting)
        if any(self._retry(waiting) for waiting in others) or not self._retry(self._queue().due):
            return None
        return self._lease_by(lambda: self._queue().claim(self._owner, self._times.lease))

    def _do(self, lease: ComparisonLease) -> None:
        def on_message(message: object) -> bool:
            block = cast(BlockPlayed, message)  # what `comparison_worker` sends
            add = self._queue().add
            return not self._retry(lambda: add(lease, *block, self._times.lease))

        try:
            self._answer(
                replace(lease, cpu_ms=min(lease.cpu_ms, _PORTION_MS)),
                lambda: self._queue().renew(lease, self._times.lease),
                needs=tuple({version.digest: None for version in lease.versions}),
                quiet=_GAMES * game_seconds(lease.season, max(lease.season.seats)),
                on_message=on_message,
            )
            lost = None
        except LeaseLost as error:
            lost = error
        found = self._retry(lambda: self._queue().get(lease.id))
        if found.state.is_final:  # with its last block, or by a newer version
            self._watcher.compared(found)
        elif lost is not None:
            raise lost
        self._retry(lambda: self._queue().hand_back(self._owner))

    def _named(self, lease: ComparisonLease) -> str:
        return f"the comparison of {lease.label}"
