"""Workers in processes of their own: what they play comes back, and so does what they do not."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from deepsea_arena.runner import RunEnd, RunListener, Runner, RunnerSettings
from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_arena.worker_protocol import Fetch, FinishedGame, Outcome, Play, VoidOutcome
from deepsea_arena.workers.local import LocalWorkers, ready_made, start_in
from deepsea_ladder.errors import StoreUnavailable
from deepsea_ladder.model import Job, StoredSeason
from deepsea_ladder.store import Store
from helpers import ladder
from helpers.deeds import misbehave
from helpers.killing import context

LONG = 60.0
"""Nothing here takes so long; a test that hangs fails."""
LAUNCH = partial(start_in, context)


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Nobody has asked for anything yet."""
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    """Two rotations of two games."""
    with Store.create(tmp_path / "jobs.db") as store:
        season = ladder.stocked(store)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2) * 2)
        return store.jobs.claim(season, "worker", 60, [1, 1, None, 2])


def tell(job: Job) -> Outcome:
    """An outcome that says who played."""
    return FinishedGame(f"{job.game_id} by {os.getpid()}")


@contextmanager
def cleaning(folder: Path, fetch: Fetch) -> Iterator[Play]:
    """A worker that notes when it is set up and cleaned up."""
    (folder / f"{os.getpid()} up").touch()
    try:
        yield tell
    finally:
        (folder / f"{os.getpid()} down").touch()


@contextmanager
def pool(play: Play, workers: int = 2) -> Iterator[LocalWorkers]:
    """A pool that is closed again."""
    found = LocalWorkers(partial(ready_made, play), workers, LAUNCH)
    yield found
    found.close()


def test_jobs_come_back_as_outcomes(jobs: list[Job], stop: Stop) -> None:
    with pool(tell) as workers:
        assert workers.free() == [None, None]
        workers.start(jobs[0])
        workers.start(jobs[2])
        assert workers.free() == []
        outcomes: dict[str, str] = {}
        while len(outcomes) < 2:
            for job, outcome in workers.wait(LONG, stop):
                assert isinstance(outcome, FinishedGame)
                outcomes[job.game_id] = outcome.record
        assert sorted(workers.free(), key=str) == [1, 2]
        # The one that played a rotation goes on with it.
        workers.start(jobs[3])
        ((job, outcome),) = workers.wait(LONG, stop)
        assert job == jobs[3]
        assert isinstance(outcome, FinishedGame)
        assert outcome.record.split()[-1] == outcomes[jobs[2].game_id].split()[-1]
        assert len({record.split()[-1] for record in outcomes.values()}) == 2


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("raise", "RuntimeError: no luck"),
        ("exit", "the worker ended (exit status 3)"),
        ("die", "the worker ended (signal 9)"),
    ],
)
def test_whatever_happens_to_a_worker_is_an_outcome(
    jobs: list[Job], stop: Stop, tmp_path: Path, deed: str, reason: str
) -> None:
    (tmp_path / jobs[0].game_id).write_text(deed)
    with pool(partial(misbehave, tmp_path), 1) as workers:
        workers.start(jobs[0])
        assert workers.wait(LONG, stop) == [(jobs[0], VoidOutcome(reason))]
        workers.start(jobs[0])
        assert workers.wait(LONG, stop) == [(jobs[0], FinishedGame(ladder.play(jobs[0])))]


@contextmanager
def reader(fetch: Fetch) -> Iterator[Play]:
    """A worker that fetches what the first bot of a job is made of."""
    yield lambda job: FinishedGame(fetch(job.seats[0].digest).decode())


def test_what_a_worker_lacks_is_fetched_by_the_runner(jobs: list[Job], stop: Stop) -> None:
    workers = LocalWorkers(reader, 1, LAUNCH, fetch=lambda digest: f"{digest}!".encode())
    with closing(workers):
        workers.start(jobs[0])
        assert finished(workers, stop) == FinishedGame(f"{jobs[0].seats[0].digest}!")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreUnavailable("the disk is full"), "StoreUnavailable: the disk is full"),
        (ZeroDivisionError("oh"), "StoreError: ZeroDivisionError: oh"),
    ],
)
def test_what_cannot_be_fetched_makes_the_game_void(
    jobs: list[Job], stop: Stop, error: Exception, reason: str
) -> None:
    def fetch(_: str) -> bytes:
        raise error

    with closing(LocalWorkers(reader, 1, LAUNCH, fetch=fetch)) as workers:
        for job in jobs[:2]:
            workers.start(job)
            assert finished(workers, stop) == VoidOutcome(reason)


def finished(workers: LocalWorkers, stop: Stop) -> Outcome:
    """The outcome of the only job; what its worker asks in between is answered."""
    while not (outcomes := workers.wait(LONG, stop)):
        pass
    ((_, outcome),) = outcomes
    return outcome


def test_a_worker_that_dies_while_idle_is_replaced(jobs: list[Job], stop: Stop) -> None:
    with pool(tell, 1) as workers:
        workers.start(jobs[0])
        ((_, outcome),) = workers.wait(LONG, stop)
        assert isinstance(outcome, FinishedGame)
        (worker,) = workers._workers
        worker.process.kill()
        worker.process.join()
        workers.start(jobs[1])
        ((_, other),) = workers.wait(LONG, stop)
        assert isinstance(other, FinishedGame)
        assert other.record.split()[-1] != outcome.record.split()[-1]


def test_an_abandoned_worker_is_gone_and_another_takes_its_place(
    jobs: list[Job], stop: Stop, tmp_path: Path
) -> None:
    (tmp_path / jobs[0].game_id).write_text("hang")
    os.mkfifo(tmp_path / "never")
    with pool(partial(misbehave, tmp_path), 1) as workers:
        workers.start(jobs[0])
        workers.abandon(jobs[0])
        assert workers.free() == [None]
        workers.start(jobs[1])
        assert workers.wait(LONG, stop) == [(jobs[1], FinishedGame(ladder.play(jobs[1])))]


def test_workers_clean_up_when_the_pool_is_closed(
    jobs: list[Job], stop: Stop, tmp_path: Path
) -> None:
    workers = LocalWorkers(partial(cleaning, tmp_path), 2, LAUNCH)
    workers.start(jobs[0])
    workers.wait(LONG, stop)
    workers.close()
    up, down = sorted(path.name.split()[1] for path in tmp_path.glob("* *")), ["down", "up"]
    assert up == down


def test_a_wish_wakes_who_waits(jobs: list[Job], stop: Stop) -> None:
    with pool(tell) as workers:
        stop.ask(StopRequest.FINISH)
        assert workers.wait(LONG, stop) == []
        stop.ask(StopRequest.HAND_BACK)
        stop.pause(LONG)
        assert stop.wish is StopRequest.HAND_BACK


def test_workers_of_a_runner_that_was_killed_end_by_themselves(
    jobs: list[Job],
) -> None:
    ours, theirs = context.Pipe()
    runner = context.Process(target=_hire, args=(theirs, jobs))
    runner.start()
    theirs.close()
    workers = [os.pidfd_open(pid) for pid in ours.recv()]
    assert len(workers) == 2
    runner.kill()
    runner.join()
    for worker in workers:
        select.select([worker], [], [])
        os.close(worker)


def _hire(answer: Connection, jobs: list[Job]) -> None:
    stop, workers = Stop(), LocalWorkers(partial(ready_made, tell), 2, LAUNCH)
    workers.start(jobs[0])
    workers.start(jobs[2])
    answer.send([worker.process.pid for worker in workers._workers])
    while True:
        workers.wait(LONG, stop)


def test_a_worker_ends_in_the_middle_of_a_game_if_its_runner_was_killed(
    jobs: list[Job], tmp_path: Path
) -> None:
    (tmp_path / jobs[0].game_id).write_text("hang")
    for name in ("hangs", "never"):
        os.mkfifo(tmp_path / name)
    runner = context.Process(target=_hire_one, args=(tmp_path, jobs[0]))
    runner.start()
    worker = os.pidfd_open(int((tmp_path / "hangs").read_text()))
    runner.kill()
    runner.join()
    select.select([worker], [], [])
    os.close(worker)


def _hire_one(folder: Path, job: Job) -> None:
    stop, workers = Stop(), LocalWorkers(partial(ready_made, partial(misbehave, folder)), 1, LAUNCH)
    workers.start(job)
    workers.wait(LONG, stop)


def test_an_interrupt_reaches_a_worker_and_does_nothing(
    jobs: list[Job], stop: Stop, tmp_path: Path
) -> None:
    # Not forked by a server: that would begin with the server's signals, not with those of ours.
    workers = LocalWorkers(partial(ready_made, partial(misbehave, tmp_path)), 1)
    workers.start(jobs[0])
    (worker,) = workers._workers
    assert worker.process.pid is not None
    os.kill(worker.process.pid, signal.SIGINT)
    assert workers.wait(LONG, stop) == [(jobs[0], FinishedGame(ladder.play(jobs[0])))]
    workers.close()


@pytest.mark.parametrize(
    ("signals", "wish"),
    [
        ([signal.SIGINT], StopRequest.FINISH),
        ([signal.SIGINT, signal.SIGINT], StopRequest.HAND_BACK),
        ([signal.SIGTERM], StopRequest.HAND_BACK),
        ([signal.SIGTERM, signal.SIGINT], StopRequest.HAND_BACK),
    ],
)
def test_signals_are_wishes(stop: Stop, signals: list[signal.Signals], wish: StopRequest) -> None:
    former = signal.getsignal(signal.SIGINT)
    with stop.on_signals():
        for number in signals:
            os.kill(os.getpid(), number)
    assert stop.wish is wish
    assert signal.getsignal(signal.SIGINT) is former


@pytest.fixture
def season(store: Store) -> StoredSeason:
    """A season with four bots and twelve games to play."""
    season = ladder.stocked(store)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 3)
    return season


def _runner(
    store: Store,
    season: StoredSeason,
    workers: LocalWorkers,
    stop: Stop,
    listener: RunListener | None = None,
) -> Runner:
    return Runner(
        store,
        season,
        workers,
        owner="runner",
        clock=lambda: 0.0,
        stop=stop,
        settings=RunnerSettings(idle=0),
        listener=listener,
    )


def test_a_run_survives_its_workers(
    store: Store, season: StoredSeason, stop: Stop, tmp_path: Path
) -> None:
    for game, deed in (("s1-2", "die"), ("s1-5", "exit"), ("s1-6", "raise"), ("s1-11", "die")):
        (tmp_path / game).write_text(deed)
    with pool(partial(misbehave, tmp_path)) as workers:
        summary = _runner(store, season, workers, stop).run()
    assert (summary.accepted, summary.void, summary.ended) == (12, 4, RunEnd.NOTHING_LEFT)
    assert store.ratings.differences(season, records=True) == []


def test_handing_back_ends_the_workers_and_the_leases(
    store: Store, season: StoredSeason, stop: Stop, tmp_path: Path
) -> None:
    (tmp_path / "s1-5").write_text("hang")
    os.mkfifo(tmp_path / "never")
    played: list[str] = []

    class Watcher:
        """Asks for it when the first rotation is played and the second one's worker hangs."""

        def finished(self, job: Job, receipt: object) -> None:
            played.append(job.game_id)
            if len(played) == 4:
                # Opens as soon as the other end is open too.
                self.pipe = (tmp_path / "never").open("w")
                stop.ask(StopRequest.HAND_BACK)

        def failed(self, job: Job, reason: str) -> None:
            raise AssertionError(reason)

        def trouble(self, message: str) -> None:
            raise AssertionError(message)

    watcher = Watcher()
    with pool(partial(misbehave, tmp_path)) as workers:
        summary = _runner(store, season, workers, stop, watcher).run()
    watcher.pipe.close()
    assert (summary.ended, summary.accepted) == (RunEnd.STOPPED, 4)
    assert summary.handed_back >= 1
    counts = store.queue.counts(season)
    assert (counts.done, counts.leased, counts.todo) == (4, 0, 8)
    hanging = int((tmp_path / "hangs").read_text())
    assert not Path(f"/proc/{hanging}").exists()
