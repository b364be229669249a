"""The pool of worker processes: every task ends in one event, whatever happens to its worker."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import pytest

from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.system import equal_shares
from deepsea_referee.system.linux import core_of, cpus_of
from deepsea_referee.workers import (
    Link,
    LocalWorkers,
    Task,
    TaskFailure,
    TaskMessage,
    TaskResult,
    WorkerDeath,
    WorkerEvent,
)
from helpers import deeds
from helpers.programs import has_ended, open_descriptors, soon, workers

LONG = 60.0
"""Nothing here takes so long; a test that hangs fails."""


@pytest.fixture(autouse=True, scope="module")
def _no_garbage() -> None:
    """Of other tests, which may hold descriptors."""
    gc.collect()


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert workers() == []
    assert open_descriptors() == before


@contextmanager
def pool(folder: Path, workers: int = 1, ahead: int = 0) -> Iterator[LocalWorkers]:
    """A pool that is closed again."""
    with closing(LocalWorkers(partial(deeds.doing, folder), workers, ahead=ahead)) as found:
        yield found


def event_of(pool: LocalWorkers, task: Task) -> WorkerEvent:
    """Wait for the next event, which is of this task."""
    while not (events := pool.wait(LONG)):
        pass
    (event,) = events
    assert event.task is task
    return event


def result_of(pool: LocalWorkers, task: Task) -> object:
    """Wait for the end of a task."""
    event = event_of(pool, task)
    assert isinstance(event, TaskResult), event
    return event.result


def test_each_worker_is_a_process_that_runs_one_task_after_another(tmp_path: Path) -> None:
    with pool(tmp_path, 2) as team:
        assert team.free() == [0, 1]
        tasks = [team.start("who", 0), team.start("who", 1)]
        assert team.free() == []
        found: dict[Task, object] = {}
        while len(found) < 2:
            found |= {event.task: event.result for event in team.wait(LONG)}  # type: ignore[union-attr]
        assert team.free() == [0, 1]
        assert result_of(team, team.start("who", 1)) == found[tasks[1]]
        assert len({os.getpid(), *found.values()}) == 3
    assert len([*tmp_path.glob("* up")]) == len([*tmp_path.glob("* down")]) == 2


# In every run tests/referee/test_shared_match.py has the share of each worker's bots.
@pytest.mark.release
def test_each_worker_keeps_to_its_share_of_the_cpus(tmp_path: Path) -> None:
    own, shares = os.sched_getaffinity(0), equal_shares(2)
    with closing(LocalWorkers(partial(deeds.doing, tmp_path), 2, cpus=shares)) as team:
        found = [result_of(team, team.start("where", number)) for number in range(2)]
        assert isinstance(event_of(team, team.start("die", 1)), WorkerDeath)
        found.append(result_of(team, team.start("where", 1)))  # who takes its place
    first, second = (set(cpus_of(share, own, core_of)) for share in shares)
    assert found == [first, second, second]
    assert os.sched_getaffinity(0) == own


def test_whatever_happens_to_a_task_is_an_event(tmp_path: Path) -> None:
    with pool(tmp_path) as team:
        task = team.start("tell one two", 0)
        events = [event_of(team, task) for _ in range(3)]
        assert events == [
            TaskMessage(task, "one"),
            TaskMessage(task, "two"),
            TaskResult(task, None),
        ]
        for deed, ending in (("exit", "exit status 3"), ("die", "signal 9")):
            event = event_of(team, team.start(deed, 0))
            assert isinstance(event, WorkerDeath)
            assert event.ending == ending
        event = event_of(team, team.start("raise", 0))
        assert isinstance(event, TaskFailure)
        assert "no luck" in str(event.error)
        # Bad input is still bad input here.
        event = event_of(team, team.start("refuse", 0))
        assert isinstance(event, TaskFailure)
        assert isinstance(event.error, UserError)
        assert (str(event.error), event.error.detail) == ("bad input", "where")
        assert isinstance(result_of(team, team.start("who", 0)), int)


def test_a_worker_that_cannot_be_set_up_fails_its_task() -> None:
    with closing(LocalWorkers(deeds.broken, 1)) as team:
        event = event_of(team, team.start("who", 0))
    assert isinstance(event, TaskFailure)
    assert str(event.error) == "nothing works here"


def test_a_worker_that_died_while_it_was_idle_is_replaced(tmp_path: Path) -> None:
    with pool(tmp_path) as team:
        first = result_of(team, team.start("who", 0))
        assert isinstance(first, int)
        process = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        assert has_ended(process)
        assert result_of(team, team.start("who", 0)) not in (first, os.getpid())


def test_a_worker_that_leaves_leaves_its_tasks_to_another(tmp_path: Path) -> None:
    with closing(LocalWorkers(partial(deeds.leaving, tmp_path), 1, ahead=1)) as team:
        first = result_of(team, team.start("who", 0))
        tasks = [team.start("who", 0), team.start("who", 0)]
        others = [result_of(team, task) for task in tasks]
        assert others[0] == others[1] not in (first, os.getpid())
    assert len([*tmp_path.glob("* up")]) == len([*tmp_path.glob("* down")]) == 2


def test_a_worker_that_leaves_cleans_up_even_if_the_pool_is_quicker() -> None:
    class QuickPool:
        def send_bytes(self, _: bytes) -> None:
            link.stop()  # as `_listen` does when the pool has closed the connection

    link = Link(cast(Connection, QuickPool()))
    ends: list[str] = []
    link.on_stop(lambda: ends.append("in the middle of its cleanup"))
    with pytest.raises(SystemExit):
        link.leave()
    assert ends == []


def test_a_worker_gets_a_file_once(tmp_path: Path) -> None:
    fetched: list[str] = []

    def fetch(digest: str) -> bytes:
        if digest == "bad":
            raise ZeroDivisionError
        fetched.append(digest)
        return digest.encode()

    with closing(LocalWorkers(partial(deeds.doing, tmp_path), 1, fetch=fetch)) as team:
        assert result_of(team, team.start("read a", 0, ("a", "b"))) == b"a"
        assert result_of(team, team.start("read b", 0, ("b",))) == b"b"
        event = event_of(team, team.start("read bad", 0, ("bad",)))
        assert isinstance(event, TaskFailure)
        assert isinstance(event.error, ZeroDivisionError)
        assert fetched == ["a", "b"]
        assert isinstance(event_of(team, team.start("die", 0)), WorkerDeath)
        assert result_of(team, team.start("read a", 0, ("a",))) == b"a"
        assert fetched == ["a", "b", "a"]


def test_tasks_that_wait_behind_one_that_ends_its_worker_lose_nothing(tmp_path: Path) -> None:
    with pool(tmp_path, ahead=1) as team:
        first = team.start("die", 0)
        assert team.free() == [0]
        second = team.start("who", 0)
        assert team.free() == []
        assert isinstance(event_of(team, first), WorkerDeath)
        assert isinstance(result_of(team, second), int)


def test_a_worker_that_is_killed_is_gone_and_another_takes_its_place(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs")
    with pool(tmp_path, ahead=1) as team:
        task, behind = team.start("hang", 0), team.start("who", 0)
        process = os.pidfd_open(int((tmp_path / "hangs").read_text()))
        team.kill(task)
        assert has_ended(process)
        assert isinstance(result_of(team, behind), int)


def test_closing_the_pool_ends_tasks_too(tmp_path: Path) -> None:
    with pool(tmp_path, 2) as team:
        task = team.start("until-stopped", 0)
        assert event_of(team, task) == TaskMessage(task, "here")
        os.mkfifo(tmp_path / "hangs")
        team.start("hang", 1)
        process = os.pidfd_open(int((tmp_path / "hangs").read_text()))
    assert has_ended(process)


def test_interrupts_and_rings_wake_who_waits_and_no_worker(tmp_path: Path) -> None:
    with pool(tmp_path) as team, closing(WakePipe()) as waker:
        task = team.start("until-stopped", 0)
        assert soon(lambda: len(workers()) == 1)
        os.kill(workers()[0], signal.SIGINT)  # even before it is ready to hear of it
        assert event_of(team, task) == TaskMessage(task, "here")
        os.kill(workers()[0], signal.SIGINT)
        waker.ring()
        assert team.wait(LONG, waker) == []
        assert team.wait(0, waker) == []
        team.stop()
        assert result_of(team, task) == "stopped"


OWNER = """
import sys
from functools import partial
from pathlib import Path
from deepsea_referee.workers import LocalWorkers
from helpers import deeds

folder = Path(sys.argv[1])
team = LocalWorkers(partial(deeds.doing, folder), 2)
team.start("who", 0)
(done,) = team.wait(60)
team.start("hang", 1)
print(done.result, flush=True)
team.wait(60)
"""


def test_no_worker_outlives_the_process_that_has_the_pool(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(deeds.__file__).parents[1])},
    ) as owner:
        assert owner.stdout is not None
        idle = os.pidfd_open(int(owner.stdout.readline()))
        busy = os.pidfd_open(int((tmp_path / "hangs").read_text()))
        owner.kill()
    assert has_ended(idle)
    assert has_ended(busy)


OWNER_OF_LATE = """
import sys
from functools import partial
from pathlib import Path
from deepsea_referee.workers import LocalWorkers
from helpers import deeds

team = LocalWorkers(partial(deeds.late, Path(sys.argv[1])), 1)
team.start("hang", 0)
team.wait(60)
"""


def test_no_task_is_begun_for_a_pool_that_went_while_the_worker_was_set_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER_OF_LATE, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(deeds.__file__).parents[1])},
    ) as owner:
        worker = os.pidfd_open(int((tmp_path / "hangs").read_text()))
        owner.kill()
    assert has_ended(worker)
    assert len([*tmp_path.glob("* down")]) == 1, "it was ended in the middle of a task"
