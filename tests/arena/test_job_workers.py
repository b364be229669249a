"""Jobs as tasks of worker processes: what they play comes back, and so does what they do not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from deepsea_arena.run_report import RunEnd, Stop, StopRequest
from deepsea_arena.tasks import FinishedGame, HostTrouble, JobOutcome, VoidOutcome
from deepsea_arena.workers import JobWorkers
from deepsea_ladder.errors import StoreUnavailable
from deepsea_ladder.model import Job, Receipt, StoredSeason
from deepsea_ladder.store import Store
from deepsea_referee.workers import LocalWorkers
from helpers import deeds, ladder
from helpers.inline import Watcher, run_with
from helpers.programs import workers as running

LONG = 60.0
"""Nothing here takes so long; a test that hangs fails."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """Two rotations of two games."""
    with ladder.created(tmp_path_factory.mktemp("jobs") / "jobs.db") as store:
        season = ladder.stocked(store)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2) * 2)
        return store.jobs.claim(season, "worker", 60, [1, 1, None, 2])


def fetched(digest: str) -> bytes:
    """The files of a bot, which nobody reads here."""
    return digest.encode()


@contextmanager
def pool(folder: Path, workers: int = 2) -> Iterator[JobWorkers]:
    """Workers that do what files in the folder say."""
    local = LocalWorkers(partial(deeds.misbehaving, folder), workers, fetch=fetched)
    with closing(JobWorkers(local)) as found:
        yield found


# Jobs come back in the next tests, too.
@pytest.mark.release
def test_jobs_come_back_as_outcomes(jobs: list[Job], stop: Stop, tmp_path: Path) -> None:
    with pool(tmp_path) as workers:
        assert workers.free() == [None, None]
        workers.start(jobs[0])
        workers.start(jobs[2])
        assert workers.free() == []
        outcomes: dict[str, JobOutcome] = {}
        while len(outcomes) < 2:
            outcomes |= {job.game_id: outcome for job, outcome in workers.wait(LONG, stop)}
        assert outcomes == {
            job.game_id: FinishedGame(ladder.play(job)) for job in (jobs[0], jobs[2])
        }
        assert sorted(workers.free(), key=str) == [1, 2]


def test_a_job_behind_a_worker_that_dies_is_played_all_the_same(
    jobs: list[Job], stop: Stop, tmp_path: Path
) -> None:
    (tmp_path / jobs[0].game_id).write_text("die")
    local = LocalWorkers(partial(deeds.misbehaving, tmp_path), 1, fetch=fetched, ahead=1)
    with closing(JobWorkers(local)) as workers:
        assert len(workers.free()) == 2
        workers.start(jobs[0])
        assert not workers.has_not_begun(jobs[0])
        workers.start(jobs[1])
        assert workers.has_not_begun(jobs[1])
        assert workers.free() == []
        ended = VoidOutcome("the worker ended (signal 9)")
        assert workers.wait(LONG, stop) == [(jobs[0], ended)]
        assert not workers.has_not_begun(jobs[1])
        assert workers.wait(LONG, stop) == [(jobs[1], FinishedGame(ladder.play(jobs[1])))]


def test_whatever_happens_to_a_worker_is_an_outcome(
    jobs: list[Job], stop: Stop, tmp_path: Path
) -> None:
    with pool(tmp_path, 1) as workers:
        for deed, reason in (
            ("raise", "in a worker: Traceback (most recent call last):"),
            ("exit", "the worker ended (exit status 3)"),
            ("die", "the worker ended (signal 9)"),
        ):
            (tmp_path / jobs[0].game_id).write_text(deed)
            workers.start(jobs[0])
            ((job, outcome),) = workers.wait(LONG, stop)
            assert job == jobs[0]
            assert isinstance(outcome, VoidOutcome)
            assert reason in outcome.reason
            assert "\n" not in outcome.reason
        workers.start(jobs[0])
        assert workers.wait(LONG, stop) == [(jobs[0], FinishedGame(ladder.play(jobs[0])))]


def test_what_cannot_be_fetched_is_the_stores_trouble(jobs: list[Job], stop: Stop) -> None:
    def fetch(_: str) -> bytes:
        raise StoreUnavailable("the disk is full")

    with closing(JobWorkers(LocalWorkers(deeds.broken, 1, fetch=fetch))) as workers:
        for job in jobs[:2]:
            workers.start(job)
            ((_, outcome),) = workers.wait(LONG, stop)
            assert outcome == HostTrouble("StoreUnavailable: the disk is full")


def test_an_abandoned_job_has_no_outcome(jobs: list[Job], stop: Stop, tmp_path: Path) -> None:
    (tmp_path / jobs[0].game_id).write_text("hang")
    with pool(tmp_path, 1) as workers:
        workers.start(jobs[0])
        workers.abandon(jobs[0])
        workers.start(jobs[1])
        assert workers.wait(LONG, stop) == [(jobs[1], FinishedGame(ladder.play(jobs[1])))]


def test_a_wish_wakes_who_waits(stop: Stop, tmp_path: Path) -> None:
    with pool(tmp_path) as workers:
        stop.ask(StopRequest.FINISH)
        assert workers.wait(LONG, stop) == []
        stop.ask(StopRequest.HAND_BACK)
        stop.pause(LONG)
        assert stop.requested is StopRequest.HAND_BACK


@pytest.mark.parametrize(
    ("signals", "requested"),
    [
        ([signal.SIGINT], StopRequest.FINISH),
        ([signal.SIGINT, signal.SIGINT], StopRequest.HAND_BACK),
        ([signal.SIGTERM], StopRequest.HAND_BACK),
        ([signal.SIGTERM, signal.SIGINT], StopRequest.HAND_BACK),
    ],
)
def test_signals_are_requests(
    stop: Stop, signals: list[signal.Signals], requested: StopRequest
) -> None:
    former = signal.getsignal(signal.SIGINT)
    with stop.on_signals():
        for number in signals:
            os.kill(os.getpid(), number)
    assert stop.requested is requested
    assert signal.getsignal(signal.SIGINT) is former


def _contents(store: Store) -> None:
    """A season with four bots and twelve games to play."""
    season = ladder.stocked(store)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 3)


KINDS = ["sqlite"]  # who plays does not know the database
CONTENTS = _contents


def test_a_run_survives_its_workers(
    store: Store, season: StoredSeason, stop: Stop, tmp_path: Path
) -> None:
    (tmp_path / "s1-2").write_text("die")
    with pool(tmp_path) as workers:
        summary = run_with(workers, store, stop)
    assert (summary.accepted, summary.void, summary.ended) == (12, 1, RunEnd.NOTHING_LEFT)
    assert store.ratings.differences(season, records=True) == []


def test_handing_back_ends_the_workers_and_the_leases(
    store: Store, season: StoredSeason, stop: Stop, tmp_path: Path
) -> None:
    (tmp_path / "s1-5").write_text("hang")
    os.mkfifo(tmp_path / "hangs")

    class Asking(Watcher):
        """Asks for it when the first rotation is played and the second one's worker hangs."""

        def finished(self, job: Job, receipt: Receipt) -> None:
            super().finished(job, receipt)
            if len(self.receipts) == 4:
                assert int((tmp_path / "hangs").read_text()) in running()
                stop.ask(StopRequest.HAND_BACK)

    watcher = Asking()
    with pool(tmp_path) as workers:
        summary = run_with(workers, store, stop, watcher=watcher)
    assert (watcher.failures, watcher.troubles) == ([], [])
    assert (summary.ended, summary.accepted) == (RunEnd.STOPPED, 4)
    assert summary.handed_back >= 1
    counts = store.queue.counts(season)
    assert (counts.done, counts.leased, counts.waiting) == (4, 0, 8)
    assert running() == []
