"""The runner's side of games of people, beside its rated games.

Invariants: a step at a time, from one decision of a person to the next, in a worker process of its
own, so that rated games lose at most what one more worker takes; while people think nothing is
leased; whatever dies at any moment, the game goes on from its stored decisions, or is void after
some attempts, and its person sees why.
"""

from __future__ import annotations

from typing import cast

from deepsea_arena.play.background_work import LeasedWork, Times
from deepsea_arena.play.person_worker import PlayedOn, person_worker
from deepsea_arena.play.shutdown import StopRequest
from deepsea_arena.play.tasks import game_seconds
from deepsea_ladder.model.games import PersonGame
from deepsea_ladder.store import Store
from deepsea_ladder.store.person_games import PersonGames
from deepsea_referee.workers import LocalWorkers, Workers

_QUICK_S = 0.2
"""The wait for people who are at their tables."""


def local_person_worker(store: Store) -> Workers:
    """The worker process in which games of people are played."""
    return LocalWorkers(person_worker, 1, fetch=store.bots.archive)


class PersonGamePlayer(LeasedWork[PersonGame]):
    """Plays the games of people of a ladder.

    workers  a pool with one worker that `person_worker` has set up; it is closed in the end
    """

    times = Times(idle=1.0)
    cannot = "games of people cannot be played"
    lease_label = "the lease of a person's game"
    failed = "is void"
    gives_back_at = StopRequest.HAND_BACK

    def _queue(self) -> PersonGames:
        return self._store.person_games

    def _idle(self) -> float:
        return (
            min(_QUICK_S, self._times.idle) if self._retry(self._queue().open) else self._times.idle
        )

    def _claim(self) -> PersonGame | None:
        if not self._retry(self._queue().waiting):
            return None
        return self._lease_by(lambda: self._queue().claim(self._owner, self._times.lease))

    def _do(self, lease: PersonGame) -> None:
        answer = self._answer(
            lease,
            lambda: self._queue().renew(lease, self._times.lease),
            needs=tuple({version.digest: None for version in lease.versions}),
            seconds=game_seconds(lease.season, len(lease.names)),
        )
        played = cast(PlayedOn, answer)  # what `person_worker` answers
        # The store may be unavailable after the commit: a repetition finds the lease gone.
        if played.record:
            self._retry(lambda: self._queue().finish(lease, played.record))
        else:
            self._retry(lambda: self._queue().ask(lease, played.decisions))

    def _named(self, lease: PersonGame) -> str:
        return f"the game {lease.game_id}"
