"""Workers on many machines (Dask): each thread of each worker plays a game at a time.

Invariants: the runner decides about a game whose worker dies, and a game that it gave up has no
outcome; everything here belongs to the runner's thread, and gets news of the cluster by a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from deepsea_arena.shutdown import Stop
from deepsea_arena.worker_protocol import Outcome, VoidOutcome
from deepsea_arena.workers.dask_client import AgentRefusal, Came, Left, Link, Lost, News
from deepsea_arena.workers.local import failure
from deepsea_ladder.errors import WorkerError
from deepsea_ladder.model import Job
from deepsea_referee.interrupts import WakePipe

END_SECONDS: Final = 10.0
"""Timeout for workers to stop their games when a run ends."""


@dataclass(slots=True, eq=False)
class _Slot:
    """A thread of a worker."""

    address: str
    rotation: int | None = None
    job: Job | None = None
    game: Future[Outcome] | None = None
    """What becomes of the job; None if it was given up."""


class _Played(NamedTuple):
    slot: _Slot
    job: Job
    game: Future[Outcome]


class _Free(NamedTuple):
    """A game that was given up has been stopped."""

    slot: _Slot


class Cluster:
    """The workers of a Dask cluster. `fetch` has the packed files of a bot by its digest.

    Raises `WorkerError` if the scheduler cannot be reached or none of its workers can play.
    """

    def __init__(
        self,
        address: str,
        fetch: Callable[[str], bytes],
        isolation: str,
        tell: Callable[[str], None],
    ) -> None:
        self._report = tell
        self._slots: list[_Slot] = []
        self._outcomes: list[tuple[Job, Outcome]] = []
        self._lost: str | None = None
        self._bell = WakePipe()
        self._news: SimpleQueue[News | _Played | _Free] = SimpleQueue()
        try:
            self._link = Link(address, fetch, isolation, self._post)
        except BaseException:
            self._bell.close()
            raise
        self._listen()

    def free(self) -> Sequence[int | None]:
        """For each thread that does not play for this run, its last rotation."""
        self._listen()
        if self._lost is not None:
            return []
        return [slot.rotation for slot in self._slots if slot.job is None]

    def start(self, job: Job) -> None:
        """Send the job to the worker that played its rotation, or to any."""
        idle = [slot for slot in self._slots if slot.job is None]
        same = [slot for slot in idle if slot.rotation == job.rotation]
        slot = (same or idle)[0]
        slot.job, slot.rotation = job, job.rotation
        slot.game = self._link.play(slot.address, job)
        slot.game.add_done_callback(lambda game: self._post(_Played(slot, job, game)))

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, Outcome]]:
        """The outcomes of jobs; returns early, maybe without any, when a worker joins or leaves."""
        self._listen()
        if not self._outcomes:
            if stop.fileno() in wait([stop.fileno(), self._bell.fileno()], seconds):
                stop.clear()
            self._listen()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def abandon(self, job: Job) -> None:
        """Stop the job's process; its thread is free once that is done."""
        for slot in self._slots:
            if slot.job == job and slot.game is not None:
                self._empty(slot, job)

    def close(self) -> None:
        """Stop the games of this run, and leave the cluster."""
        for slot in self._slots:
            _give_up(slot)
        if self._lost is None:
            ending = self._link.end(sorted({slot.address for slot in self._slots}))
            # Whoever cannot be reached notices later that nobody wants its game.
            with suppress(TimeoutError, CancelledError, OSError):
                ending.result(END_SECONDS)
        self._link.close()
        self._bell.close()

    def _empty(self, slot: _Slot, job: Job) -> None:
        _give_up(slot)
        ending = self._link.end([slot.address], job.game_id)
        ending.add_done_callback(lambda _: self._post(_Free(slot)))

    def _post(self, news: News | _Played | _Free) -> None:
        """Tell the runner's thread, from any."""
        self._news.put(news)
        self._bell.ring()

    def _listen(self) -> None:
        self._bell.clear()
        with suppress(Empty):
            while True:
                self._on_news(self._news.get_nowait())
        if self._lost is not None and not self._outcomes:
            raise WorkerError(self._lost)

    def _on_news(self, news: News | _Played | _Free) -> None:
        match news:
            case Came(address, threads):
                self._slots += [_Slot(address) for _ in range(threads)]
            case Left(address):
                left = [slot for slot in self._slots if slot.address == address]
                self._slots = [slot for slot in self._slots if slot not in left]
                for slot in left:
                    if slot.job is not None and slot.game is not None:
                        _give_up(slot)
                        self._outcomes.append(
                            (slot.job, VoidOutcome(f"the worker {address} ended"))
                        )
            case AgentRefusal(address, reason):
                self._report(f"the worker {address} is not used: {reason}")
            case Lost(reason):
                self._lost = reason
            case _Free(slot):
                slot.job = None
            case _Played(slot, job, game):
                # One that was given up is cancelled, or came too late for it.
                if slot.game is game and not game.cancelled():
                    slot.job = slot.game = None
                    self._outcomes.append((job, _outcome(game)))


def _give_up(slot: _Slot) -> None:
    game, slot.game = slot.game, None
    if game is not None:
        game.cancel()


def _outcome(game: Future[Outcome]) -> Outcome:
    error = game.exception()
    return game.result() if error is None else failure(error)
