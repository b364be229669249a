"""The pool on a Dask cluster: files come once, whatever dies is an event.

Schedulers and workers are threads of this process here; `test_dask_killed` has real ones.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import pytest

from deepsea_arena import dask as dask_module
from deepsea_arena.dask import DaskTimes, DaskWorkers
from deepsea_arena.run_report import Stop
from deepsea_arena.runner import RunnerSettings
from deepsea_arena.workers import JobWorkers, match_on_cluster
from deepsea_cli.ladder import options
from deepsea_ladder.errors import WorkerError
from deepsea_referee import in_process
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.match import MatchSettings
from deepsea_referee.sandbox.interface import SandboxUnavailable
from deepsea_referee.summary import GameResult
from deepsea_referee.system import equal_shares
from deepsea_referee.system.linux import core_of, cpus_of
from deepsea_referee.workers import TaskFailure, TaskMessage, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl
from deepsea_sdk import __version__
from helpers import deeds, ladder
from helpers.commands import Run
from helpers.inline import Watcher, run_with
from helpers.matches import Listener, without_times
from helpers.programs import PATIENT, has_ended, open_descriptors, soon, workers

LONG = 60.0
"""Nothing here takes so long; a test that hangs fails."""
QUICK = DaskTimes(survey=0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where worker processes write; none of them is left."""
    folder = tmp_path / "deeds"
    folder.mkdir()
    os.mkfifo(folder / "hangs")
    yield folder
    assert soon(lambda: workers() == [])


@pytest.fixture
def threads() -> int:
    """How many a worker has: each starts a process."""
    return 1


@pytest.fixture
def dask(folder: Path, tmp_path: Path, threads: int) -> Iterator[distributed.LocalCluster]:
    """A scheduler with one worker."""
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=threads,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # tests may run side by side
        local_directory=str(tmp_path / "dask"),
    ) as dask:
        yield dask


class Fetch:
    """Fetches files and counts that."""

    def __init__(self) -> None:
        self.fetched: Counter[str] = Counter()

    def __call__(self, digest: str) -> bytes:
        self.fetched[digest] += 1
        if digest == "bad":
            raise OSError("the disk is gone")
        return digest.encode()


Join = Callable[..., DaskWorkers]


@pytest.fixture
def join(dask: distributed.LocalCluster, folder: Path) -> Join:
    """Makes the pool of a run on that cluster."""

    def joined(
        fetch: Callable[[str], bytes] = bytes.fromhex,
        report: Callable[[str], object] = pytest.fail,
        times: DaskTimes = QUICK,
        check: Callable[[], object] = int,
    ) -> DaskWorkers:
        setup = partial(deeds.doing, folder)
        address = dask.scheduler_address
        return DaskWorkers(address, setup, check, fetch=fetch, report=report, times=times)

    return joined


@pytest.fixture
def pool(join: Join) -> Iterator[DaskWorkers]:
    """Its workers."""
    with closing(join(Fetch())) as pool:
        yield pool


def events(pool: DaskWorkers, count: int = 1) -> list[WorkerEvent]:
    """So many events."""
    found: list[WorkerEvent] = []
    while len(found) < count:
        found += pool.wait(LONG)
    return found


def start(pool: DaskWorkers, *deeds: str, needs: Sequence[str] = ()) -> list[Any]:
    """Start tasks on free workers."""
    return [pool.start(deed, place, needs) for deed, place in zip(deeds, pool.free(), strict=False)]


def comes(pool: DaskWorkers) -> None:
    """Wait for a worker that is free."""
    while not pool.free():
        assert pool.wait(LONG) == []


def plays(pool: DaskWorkers) -> None:
    """Check that a free worker does what it is asked for."""
    start(pool, "who")
    (event,) = events(pool)
    assert isinstance(event, TaskResult)


# That they stay saves time alone; what tasks tell comes back below, too.
@pytest.mark.release
@pytest.mark.parametrize("threads", [2])
def test_tasks_run_in_processes_of_their_own_that_stay(pool: DaskWorkers) -> None:
    assert len(pool.free()) == 2
    tasks = start(pool, "who", "tell a b")
    assert len(pool.free()) == 0
    found = events(pool, 4)
    assert [event for event in found if event.task is tasks[1]] == [
        TaskMessage(tasks[1], "a"),
        TaskMessage(tasks[1], "b"),
        TaskResult(tasks[1], None),
    ]
    (pid,) = [event.result for event in found if isinstance(event, TaskResult) and event.result]
    assert pid in workers()
    start(pool, "who")
    (again,) = events(pool)
    assert isinstance(again, TaskResult)
    assert again.result == pid


# How CPUs are shared out: tests/referee/test_workers.py.
@pytest.mark.release
@pytest.mark.parametrize("threads", [2])
def test_the_threads_of_a_worker_share_out_its_cpus(pool: DaskWorkers) -> None:
    start(pool, "where", "where")
    found = [sorted(event.result) for event in events(pool, 2) if isinstance(event, TaskResult)]
    own = os.sched_getaffinity(0)
    assert sorted(found) == sorted(sorted(cpus_of(one, own, core_of)) for one in equal_shares(2))


def test_a_file_is_fetched_once_and_one_that_cannot_be_fails_the_task(join: Join) -> None:
    fetch = Fetch()
    with closing(join(fetch)) as pool:
        for deed in ("read a", "read b", "who"):
            start(pool, deed, needs=("a", "b"))
            (event,) = events(pool)
            assert isinstance(event, TaskResult)
        assert fetch.fetched == {"a": 1, "b": 1}
        (task,) = start(pool, "who", needs=("bad",))
        (event,) = events(pool)
        assert isinstance(event, TaskFailure)
        assert (event.task, str(event.error)) == (task, "the disk is gone")
        assert len(pool.free()) == 1


def test_whatever_happens_to_a_child_is_an_event(pool: DaskWorkers) -> None:
    for deed, ending in (("raise", "no luck"), ("die", "signal 9")):
        start(pool, deed)
        (event,) = events(pool)
        assert ending in (str(event.error) if isinstance(event, TaskFailure) else str(event[1]))
        plays(pool)


def hanging(pool: DaskWorkers, folder: Path) -> tuple[Any, int]:
    """Start a task that hangs; a descriptor of the process that runs it."""
    (task,) = start(pool, "hang")
    return task, os.pidfd_open(int((folder / "hangs").read_text()))


def test_a_task_that_is_killed_is_ended_and_its_place_is_free(
    pool: DaskWorkers, folder: Path
) -> None:
    task, process = hanging(pool, folder)
    pool.kill(task)
    assert has_ended(process)
    comes(pool)
    plays(pool)


def test_a_request_to_stop_ends_tasks_early_with_a_result(pool: DaskWorkers) -> None:
    (task,) = start(pool, "until-stopped")
    assert soon(lambda: bool(workers()))
    pool.stop()
    found = events(pool)
    # Stopped before it was begun, or in the midst.
    assert found in (
        [TaskMessage(task, "here"), TaskResult(task, "stopped")],
        [WorkerDeath(task, "exit status 0")],
    )


# Each test here ends its tasks: the fixture `folder` looks for what is left.
@pytest.mark.release
@pytest.mark.parametrize("threads", [2])
def test_who_leaves_the_cluster_ends_its_tasks_and_nothing_else(
    join: Join, folder: Path, dask: distributed.LocalCluster
) -> None:
    with closing(join()) as pool:
        _, process = hanging(pool, folder)
        with closing(join()) as other:
            plays(other)
        assert pool.wait(0) == []
    assert has_ended(process)
    (worker,) = dask.workers.values()
    assert soon(lambda: not worker.data)
    assert soon(lambda: not [name for name in worker.plugins if name.startswith("deepsea")])


def test_workers_come_and_leave(join: Join, dask: distributed.LocalCluster, folder: Path) -> None:
    with closing(join()) as pool:
        task, process = hanging(pool, folder)
        (worker,) = dask.workers.values()
        dask.sync(worker.close, executor_wait=False)
        (event,) = events(pool)
        assert event.task is task
        assert isinstance(event, WorkerDeath)
        assert has_ended(process)
        assert pool.free() == []
        dask.scale(2)  # of which one is closed
        comes(pool)
        plays(pool)


def test_a_worker_that_is_dismissed_is_used_no_more_and_others_are(
    join: Join, dask: distributed.LocalCluster, folder: Path
) -> None:
    (worker,) = dask.workers.values()
    with closing(join(times=DaskTimes(survey=0.05, alone=1000.0))) as pool:
        task, process = hanging(pool, folder)
        assert pool.dismiss(worker.address, "it lies")
        assert not pool.dismiss(worker.address, "it lies")
        assert events(pool) == [WorkerDeath(task, f"{worker.address} is used no more")]
        assert has_ended(process)
        assert pool.free() == []
        dask.scale(2)
        comes(pool)
        assert worker.address not in {place.address for place in pool.free()}
        plays(pool)


# What a run does then is in test_machines.py, and a worker is dismissed above, in every run.
@pytest.mark.release
def test_a_worker_that_forges_results_is_used_no_more_on_a_cluster(
    dask: distributed.LocalCluster, folder: Path, tmp_path: Path, stop: Stop
) -> None:
    dask.scale(3)
    setup = partial(deeds.one_forges, folder)
    with ladder.created(tmp_path / "forger.db") as store:
        season = ladder.stocked(store)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 5)
        fetch, address = store.bots.archive, dask.scheduler_address
        pool = DaskWorkers(address, setup, int, fetch=fetch, report=pytest.fail, times=QUICK)
        while len(pool.free()) < 3:
            assert pool.wait(LONG) == []
        workers, listener = JobWorkers(pool, lambda place: place.address, pool.dismiss), Watcher()
        settings = RunnerSettings(idle=0)
        report = run_with(workers, store, stop, watcher=listener, settings=settings)
        assert (report.accepted, report.duplicates) == (20, 0)
        assert store.queue.counts(season).done == 20
        (forger,) = [one for one in listener.troubles if one.startswith("tcp://")]
        assert "is used no more: its result of s1-" in forger
        assert store.ratings.differences(season, records=True) == []


# A task whose worker is gone is an event in `test_workers_come_and_leave`, too.
@pytest.mark.release
def test_a_worker_that_was_started_again_repeats_nothing_and_is_asked_again(
    pool: DaskWorkers, dask: distributed.LocalCluster
) -> None:
    (worker,) = dask.workers.values()
    for name in [name for name in worker.plugins if name.startswith("deepsea")]:
        dask.sync(worker.plugin_remove, name=name)
    (task,) = start(pool, "who")
    assert events(pool) == [WorkerDeath(task, f"{worker.address} was started again")]
    comes(pool)
    plays(pool)


def test_a_ring_wakes_who_waits(pool: DaskWorkers) -> None:
    with closing(WakePipe()) as waker:
        waker.ring()
        assert pool.wait(LONG, waker) == []


def test_a_cluster_whose_scheduler_is_gone_is_lost(
    join: Join, dask: distributed.LocalCluster, folder: Path
) -> None:
    with closing(join()) as pool:
        _, process = hanging(pool, folder)
        dask.close()
        assert "is gone" in loss(pool)
        with pytest.raises(WorkerError):
            pool.free()
    assert has_ended(process)


def loss(pool: DaskWorkers) -> str:
    """Wait until there are no workers and none will come; why."""
    with pytest.raises(WorkerError) as error:
        events(pool, 1000)
    return str(error.value)


def test_a_run_waits_for_workers_but_not_for_ever(
    join: Join, dask: distributed.LocalCluster
) -> None:
    with closing(join(times=DaskTimes(survey=0.01, alone=0.0))) as pool:
        dask.scale(0)
        assert "has no worker that can play: start" in loss(pool)


@pytest.mark.parametrize("threads", [2])
def test_children_end_with_a_run_that_does_not_say_so(
    join: Join, dask: distributed.LocalCluster, folder: Path
) -> None:
    with closing(join()) as pool:
        _, process = hanging(pool, folder)
        plays(pool)
        assert len(workers()) == 2
        for client in [*dask.scheduler.clients]:  # as when the connection to a client is lost
            dask.loop.add_callback(dask.scheduler.remove_client, client)
        assert has_ended(process)
        assert soon(lambda: workers() == [])


def test_a_run_needs_no_callback_of_another_one(
    dask: distributed.LocalCluster, pool: DaskWorkers
) -> None:
    """Dask has one thread for callbacks; a run that ended may have left it stuck."""
    waiting, go_on = threading.Event(), threading.Event()

    def callback(_: object) -> None:
        waiting.set()
        go_on.wait()

    with distributed.Client(dask.scheduler_address, set_as_default=False) as another:
        future = another.submit(int)
        future.add_done_callback(callback)
        try:
            assert waiting.wait(LONG)
            start(pool, "who")
            assert soon(lambda: bool(pool.wait(1)))
        finally:
            go_on.set()


def test_a_match_is_the_same_on_a_cluster_and_a_worker_that_is_killed_voids_one_game(
    dask: distributed.LocalCluster, folder: Path
) -> None:
    settings = MatchSettings(
        bots=[resolve("greedy"), resolve("random")],
        hosting=PATIENT,
        games=4,
        time_control=TimeControl.parse("60s"),
        seed=seed_from_text("cluster"),
    )
    here, there = Listener(), Listener()
    alone = here.played(in_process.run_match_in_process(settings, here.on_game))
    killed: list[int] = []

    def on_game(result: GameResult, record: GameRecord) -> None:
        there.on_game(result, record)
        if not killed:
            killed.extend(workers())
            os.kill(killed[0], signal.SIGKILL)

    address = dask.scheduler_address
    result = match_on_cluster(settings, address, on_game, there.on_void, report=pytest.fail)
    shared = there.played(result)
    assert len(there.voids) <= 1
    void = {game.game for game in there.voids}
    assert [*map(without_times, shared.records)] == [
        without_times(record)
        for game, record in zip(alone.games, alone.records, strict=True)
        if game.game not in void
    ]


# Who cannot be used


def test_a_cluster_that_is_not_there_is_said() -> None:
    before = open_descriptors()
    times = DaskTimes(connect=0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"tcp://127.0.0.1:{silent.getsockname()[1]}", "tcp://127.0.0.1:1"):
            with pytest.raises(WorkerError, match=f"no scheduler .* {address}"):
                DaskWorkers(address, deeds.broken, int, report=pytest.fail, times=times)
    for address in ("nonsense", "ftp://127.0.0.1:1", "tls://127.0.0.1:1"):
        with pytest.raises(UserError, match=f"--cluster {address}"):
            DaskWorkers(address, deeds.broken, int, report=pytest.fail, times=times)
    assert soon(lambda: open_descriptors() <= before)


def test_a_cluster_without_workers_is_said(join: Join, dask: distributed.LocalCluster) -> None:
    dask.sync(next(iter(dask.workers.values())).close)
    with pytest.raises(WorkerError, match="that can play: start some with `dask worker tcp:"):
        join(times=DaskTimes(connect=0.5))


def test_other_versions_are_not_used(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = dask_module.programs()
    assert dask_module.difference(programs) is None
    older = {**programs, "deepsea-referee": "0.0.1"}
    words = f"it has deepsea-referee 0.0.1, this run has {__version__}"
    assert dask_module.difference(older) == words
    monkeypatch.setattr(dask_module, "programs", lambda: {**older, "distributed": "1.0"})
    with pytest.raises(WorkerError, match=r"scheduler at .* distributed .*, this run has 1.0"):
        join()


def refuse(folder: Path) -> None:
    """A check that fails while a file is there."""
    if (folder / "refuse").exists():
        raise SandboxUnavailable("no sandbox here")


def test_a_worker_that_cannot_play_is_not_used(
    join: Join, dask: distributed.LocalCluster, tmp_path: Path
) -> None:
    told: list[str] = []
    with closing(join(report=told.append, check=partial(refuse, tmp_path))) as pool:
        (tmp_path / "refuse").touch()
        dask.scale(2)
        while not told:
            assert pool.wait(LONG) == []
        with pytest.raises(WorkerError, match=r"has no worker that can play: no sandbox"):
            join(report=told.append, check=partial(refuse, tmp_path))
        assert "is not used: no sandbox here" in told[0]
        assert len(pool.free()) == 1


# The command


def test_a_run_says_in_one_line_why_it_has_no_cluster(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ladder.created(tmp_path / "ladder.db") as store:
        ladder.stocked(store)
    monkeypatch.setenv(options.VARIABLE, str(tmp_path / "ladder.db"))
    nobody = ("--cluster", "tcp://127.0.0.1:1")
    for words in (["ladder", "run"], ["match", "greedy", "random"]):
        assert "omit --workers" in run(*words, *nobody, "--workers", 2).refusal
    assert "a cluster plays files" in run("match", "cmd:true", "greedy", *nobody).refusal
    refusal = run("ladder", "run", "--cluster", "nonsense").refusal
    assert "'--cluster': 'nonsense' is no address" in refusal
    for name in [name for name in sys.modules if name.startswith("deepsea_arena.dask")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for command in (("run",), ("tournament", "round-robin", "cup")):
        assert "pip install distributed" in run("ladder", *command, *nobody).refusal
