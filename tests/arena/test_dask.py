"""A Dask cluster plays the ladder's games: bots come once, whatever dies is an outcome.

Schedulers and workers are threads of this process here; the last tests have real ones.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import select
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import pytest

from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_arena.worker_protocol import FinishedGame, Outcome, VoidOutcome
from deepsea_arena.workers import dask_agent, dask_client
from deepsea_arena.workers.dask import Cluster
from deepsea_arena.workers.local import start_in
from deepsea_cli.ladder import options
from deepsea_ladder.errors import WorkerError
from deepsea_ladder.model import Job
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.sandbox.errors import SandboxUnavailable
from deepsea_sdk import __version__
from helpers import deeds, ladder
from helpers.commands import Run, one_line
from helpers.killing import context

LONG = 60.0
"""Nothing here takes so long; a test that hangs fails."""


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Nobody has asked for anything yet."""
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ladder with four bots."""
    path = tmp_path / "ladder.db"
    with Store.create(path) as store:
        ladder.stocked(store)
    return path


@pytest.fixture
def jobs(place: Path) -> list[Job]:
    """Two rotations of two games each."""
    with Store.open(place) as store:
        season = store.seasons.get("s1")
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2) * 2)
        return store.jobs.claim(season, "worker", 60, [1, 1, None, 2])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the children of workers find what they are to do."""
    folder = tmp_path / "deeds"
    folder.mkdir()
    for name in ("hangs", "never"):
        os.mkfifo(folder / name)
    monkeypatch.setattr(dask_agent, "HOST", dask_agent.Host(partial(deeds.guest, folder)))
    monkeypatch.setattr(dask_agent, "launch", partial(start_in, context))  # faster
    yield folder
    home = dask_agent.HOST._home()
    dask_agent.HOST.close()
    assert multiprocessing.active_children() == []
    assert not home.exists()


@pytest.fixture
def dask(folder: Path, tmp_path: Path) -> Iterator[distributed.LocalCluster]:
    """A scheduler with one worker of two threads."""
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # tests may run side by side
        local_directory=str(tmp_path / "dask"),
    ) as dask:
        yield dask


class Fetch:
    """Fetches bots and counts that."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.fetched: Counter[str] = Counter()

    def __call__(self, digest: str) -> bytes:
        self.fetched[digest] += 1
        with Store.open(self._place) as store:
            return store.bots.archive(digest)


@pytest.fixture
def pool(dask: distributed.LocalCluster, place: Path) -> Iterator[Cluster]:
    """Its workers."""
    with closing(joined(dask, Fetch(place))) as pool:
        yield pool


def joined(
    dask: Any, fetch: Callable[[str], bytes], tell: Callable[[str], None] = pytest.fail
) -> Cluster:
    """The workers of a cluster."""
    return Cluster(dask.scheduler_address, fetch, "process", tell)


def outcomes(pool: Cluster, stop: Stop, games: int) -> dict[str, Outcome]:
    """What came of so many games."""
    found: dict[str, Outcome] = {}
    while len(found) < games:
        found |= {job.game_id: outcome for job, outcome in pool.wait(LONG, stop)}
    return found


def test_jobs_come_back_as_outcomes(pool: Cluster, jobs: list[Job], stop: Stop) -> None:
    assert pool.free() == [None, None]
    pool.start(jobs[0])
    pool.start(jobs[2])
    assert pool.free() == []
    played = outcomes(pool, stop, 2)
    assert played == {job.game_id: FinishedGame(ladder.play(job)) for job in (jobs[0], jobs[2])}
    assert sorted(pool.free(), key=str) == [1, 2]


def test_a_bot_is_sent_once(
    dask: distributed.LocalCluster, place: Path, jobs: list[Job], stop: Stop
) -> None:
    fetch = Fetch(place)
    once = {version.digest: 1 for version in jobs[0].seats}
    for _ in range(2):  # the second run finds there what the first one has sent
        with closing(joined(dask, fetch)) as pool:
            for pair in (jobs[:2], jobs[2:]):
                for job in pair:
                    pool.start(job)
                outcomes(pool, stop, 2)
        assert fetch.fetched == once


def test_a_bot_with_another_digest_is_refused(
    dask: distributed.LocalCluster, place: Path, jobs: list[Job], stop: Stop
) -> None:
    right = Fetch(place)
    anna, ben, *_ = (version.digest for version in jobs[0].seats)
    with closing(joined(dask, lambda digest: right(anna if digest == ben else digest))) as pool:
        pool.start(jobs[0])
        (outcome,) = outcomes(pool, stop, 1).values()
    assert isinstance(outcome, VoidOutcome)
    assert f"{ben} have another digest" in outcome.reason
    assert not (dask_agent.HOST._home() / ben).exists()


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("raise", "RuntimeError: no luck"),
        ("exit", "the worker ended (exit status 3)"),
        ("die", "the worker ended (signal 9)"),
    ],
)
def test_whatever_happens_to_a_child_is_an_outcome(
    pool: Cluster, jobs: list[Job], stop: Stop, folder: Path, deed: str, reason: str
) -> None:
    (folder / jobs[0].game_id).write_text(deed)
    pool.start(jobs[0])
    assert outcomes(pool, stop, 1) == {"s1-1": VoidOutcome(reason)}
    pool.start(jobs[0])
    assert outcomes(pool, stop, 1) == {"s1-1": FinishedGame(ladder.play(jobs[0]))}


def hanging(pool: Cluster, job: Job, folder: Path) -> int:
    """Start a game that hangs; a descriptor of the process that plays it."""
    (folder / job.game_id).write_text("hang")
    pool.start(job)
    return os.pidfd_open(int((folder / "hangs").read_text()))


def has_ended(process: int) -> bool:
    """Wait until it has; closes the descriptor."""
    try:
        return bool(select.select([process], [], [], LONG)[0])
    finally:
        os.close(process)


def test_an_abandoned_game_is_ended_and_its_thread_is_free(
    pool: Cluster, jobs: list[Job], stop: Stop, folder: Path
) -> None:
    process = hanging(pool, jobs[0], folder)
    pool.abandon(jobs[0])
    assert has_ended(process)
    while len(pool.free()) < 2:
        assert pool.wait(LONG, stop) == []
    pool.start(jobs[0])
    assert outcomes(pool, stop, 1) == {"s1-1": FinishedGame(ladder.play(jobs[0]))}


def test_who_leaves_the_cluster_ends_its_games(
    dask: distributed.LocalCluster, place: Path, jobs: list[Job], stop: Stop, folder: Path
) -> None:
    with closing(joined(dask, Fetch(place))) as pool:
        process = hanging(pool, jobs[0], folder)
        with closing(joined(dask, Fetch(place))) as other:
            other.start(jobs[1])
            outcomes(other, stop, 1)
        assert pool.wait(0, stop) == []
    assert has_ended(process)


def test_workers_come_and_leave(
    dask: distributed.LocalCluster, place: Path, jobs: list[Job], stop: Stop, folder: Path
) -> None:
    with closing(joined(dask, Fetch(place))) as pool:
        process = hanging(pool, jobs[0], folder)
        (worker,) = dask.workers.values()
        dask.sync(worker.close, executor_wait=False)
        assert outcomes(pool, stop, 1) == {
            "s1-1": VoidOutcome(f"the worker {worker.address} ended")
        }
        assert has_ended(process)
        assert pool.free() == []
        dask.scale(2)  # of which one is closed
        while len(pool.free()) < 2:
            assert pool.wait(LONG, stop) == []
        pool.start(jobs[0])
        pool.start(jobs[2])
        assert all(isinstance(o, FinishedGame) for o in outcomes(pool, stop, 2).values())


def test_a_wish_wakes_who_waits(pool: Cluster, stop: Stop) -> None:
    stop.ask(StopRequest.FINISH)
    assert pool.wait(LONG, stop) == []


def test_a_cluster_whose_scheduler_is_gone_is_lost(
    dask: distributed.LocalCluster, place: Path, jobs: list[Job], stop: Stop, folder: Path
) -> None:
    with closing(joined(dask, Fetch(place))) as pool:
        process = hanging(pool, jobs[0], folder)
        dask.close()
        assert "is gone" in loss(pool, stop)
        with pytest.raises(WorkerError):
            pool.free()
    assert has_ended(process)


def loss(pool: Cluster, stop: Stop) -> str:
    """Wait until nobody can play any more; why."""
    with pytest.raises(WorkerError) as error:
        outcomes(pool, stop, 1000)
    return str(error.value)


def test_a_run_waits_for_workers_but_not_for_ever(
    dask: distributed.LocalCluster, place: Path, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_client, "ALONE_SECONDS", 0.0)
    monkeypatch.setattr(dask_client, "LOOK_SECONDS", 0.01)
    with closing(joined(dask, Fetch(place))) as pool:
        dask.scale(0)
        assert "no worker of tcp:" in loss(pool, stop)


def test_children_that_nobody_needs_are_ended(pool: Cluster, jobs: list[Job], stop: Stop) -> None:
    pool.start(jobs[0])
    outcomes(pool, stop, 1)
    (child,) = multiprocessing.active_children()
    assert child.pid is not None
    process = os.pidfd_open(child.pid)
    dask_agent.HOST.idle_seconds = 0.0
    for job in jobs[1:3]:
        pool.start(job)
        assert outcomes(pool, stop, 1) == {job.game_id: FinishedGame(ladder.play(job))}
    assert has_ended(process)


# Who cannot be used


def test_a_cluster_that_is_not_there_is_said(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dask_client, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"tcp://127.0.0.1:{silent.getsockname()[1]}", "tcp://127.0.0.1:1"):
            with pytest.raises(WorkerError, match=f"no scheduler .* {address}"):
                Cluster(address, Fetch(place), "process", pytest.fail)
    for address in ("nonsense", "ftp://127.0.0.1:1", "tls://127.0.0.1:1"):
        with pytest.raises(UserError, match=f"--cluster {address}"):
            Cluster(address, Fetch(place), "process", pytest.fail)


def test_a_cluster_without_workers_is_said(
    dask: distributed.LocalCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask.sync(next(iter(dask.workers.values())).close)
    monkeypatch.setattr(dask_client, "CONNECT_SECONDS", 0.5)
    with pytest.raises(WorkerError, match="has no workers: start some with `dask worker tcp:"):
        joined(dask, Fetch(place))


def test_other_versions_are_not_used(
    dask: distributed.LocalCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asyncio.run(dask_agent.look(dask_agent.programs(), "process")) is None
    older = {**dask_agent.programs(), "deepsea-referee": "0.0.1"}
    found = asyncio.run(dask_agent.look(older, "process"))
    assert found == f"it has deepsea-referee {__version__}, this run has 0.0.1"
    monkeypatch.setattr(dask_agent, "programs", lambda: {**older, "distributed": "1.0"})
    with pytest.raises(WorkerError, match=r"scheduler at .* distributed .*, this run has 1.0"):
        joined(dask, Fetch(place))


def test_a_worker_that_cannot_play_is_not_used(
    dask: distributed.LocalCluster,
    place: Path,
    stop: Stop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(isolation: str) -> None:
        raise SandboxUnavailable("no sandbox here")

    told: list[str] = []
    with closing(joined(dask, Fetch(place), told.append)) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(dask_agent, "hosting", broken)
            dask.scale(2)
            while not told:
                assert pool.wait(LONG, stop) == []
            with pytest.raises(WorkerError, match=r"no worker of .* no sandbox here"):
                joined(dask, Fetch(place), told.append)
        assert "is not used: no sandbox here" in told[0]
        assert len(pool.free()) == 2


def test_a_store_that_is_away_is_an_outcome(
    dask: distributed.LocalCluster, jobs: list[Job], stop: Stop
) -> None:
    def away(digest: str) -> bytes:
        raise OSError("the disk is gone")

    with closing(joined(dask, away)) as pool:
        pool.start(jobs[0])
        assert outcomes(pool, stop, 1) == {"s1-1": VoidOutcome("OSError: the disk is gone")}


# The command


def test_a_run_says_in_one_line_why_it_has_no_cluster(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(options.VARIABLE, str(place))
    done = run("ladder", "run", "--cluster", "tcp://127.0.0.1:1", "--workers", 2)
    assert (done.status, "omit --workers" in one_line(done.err)) == (2, True)
    done = run("ladder", "run", "--cluster", "nonsense")
    assert (done.status, "--cluster nonsense: " in one_line(done.err)) == (2, True)
    monkeypatch.setattr(dask_client, "CONNECT_SECONDS", 0.2)
    done = run("ladder", "run", "--cluster", "tcp://127.0.0.1:1")
    assert (done.status, "no scheduler can be reached" in one_line(done.err)) == (1, True)
    for name in [name for name in sys.modules if name.startswith("deepsea_arena.workers.dask")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = run("ladder", "run", "--cluster", "tcp://127.0.0.1:1")
    assert (done.status, "pip install distributed" in one_line(done.err)) == (2, True)
