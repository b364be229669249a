"""A real scheduler and real workers play real bots; whatever is killed, games are whole.

For a release: to start a cluster of processes costs more than what is looked at. In every run
test_dask.py kills workers' processes and loses workers and a scheduler, and
tests/cli/test_ladder_run.py kills a run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from deepsea_bundle.reader import read_bot
from deepsea_cli.ladder import options
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from deepsea_rules.game import GameRecord
from helpers import ladder
from helpers.commands import Run, environment, start
from helpers.programs import children, has_ended, nothing_stays_behind

pytestmark = pytest.mark.release

BOT = """
import os, signal
from deepsea_sdk import Bot, run

class Mine(Bot):
    def decide(self, view):
        try:
            os.unlink({hang!r})
        except FileNotFoundError:
            return view.legal[0]
        with open({pipe!r}, "w") as pipe:
            pipe.write(str(os.getpid()))
        signal.pause()

run(Mine)
"""


@dataclass(frozen=True)
class Cluster:
    """A scheduler with two workers of a thread each, and a ladder that they play."""

    scheduler: subprocess.Popen[str]
    nannies: subprocess.Popen[str]
    address: str
    hang: Path
    """While it is there, the next bot to decide hangs."""
    pipe: Path

    def run(self, *arguments: object, command: tuple[str, ...] = ("run",)) -> subprocess.Popen[str]:
        """Start a run, or a tournament, in which a game hangs."""
        self.hang.touch()
        return start("ladder", *command, "--cluster", self.address, *arguments)

    def hanging(self) -> int:
        """Wait for the bot that hangs; its process."""
        return int(self.pipe.read_text())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """One that leaves nothing behind."""
    monkeypatch.setenv(options.VARIABLE, str(tmp_path / "ladder.db"))
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(tmp_path / "dask"))
    hang, pipe = tmp_path / "hang", tmp_path / "pipe"
    os.mkfifo(pipe)
    with Store.create(tmp_path / "ladder.db") as store:
        season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
        store.seasons.open(season, ladder.SEED)
        for name in ("anna", "ben"):
            file = tmp_path / f"{name}.py"
            file.write_text(BOT.format(hang=str(hang), pipe=str(pipe)) + f"# {name}\n")
            store.bots.submit(name, f"{name}-senior", read_bot(file))
            file.unlink()
    with nothing_stays_behind(monkeypatch), ExitStack() as stack:
        scheduler = stack.enter_context(dask("scheduler", "--host", "127.0.0.1", "--port", "0"))
        stack.callback(scheduler.terminate)
        address = address_of(scheduler)
        nannies = stack.enter_context(dask("worker", address, "--nworkers", "2", "--nthreads", "1"))
        stack.callback(nannies.terminate)
        yield Cluster(scheduler, nannies, address, hang, pipe)


def dask(*arguments: str) -> subprocess.Popen[str]:
    """One of Dask's programs. It logs less than a pipe holds."""
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())


def address_of(scheduler: subprocess.Popen[str]) -> str:
    """Wait until the scheduler says where it is."""
    assert scheduler.stderr is not None
    for line in scheduler.stderr:
        if found := re.search(r"Scheduler at: +(tcp:\S+)", line):
            return found[1]
    raise AssertionError("the scheduler has ended")


def ancestors(pid: int) -> Iterator[int]:
    """A process, its parent, and so on."""
    while pid:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def check_whole(run: Run, games: int, season: str = "s1") -> None:
    """Every game that was played has one result, and nothing is leased."""
    with Store.open(os.environ[options.VARIABLE]) as store:
        counts = store.queue.counts(store.seasons.get(season))
        records = [GameRecord.from_json(game.record) for game in store.history.games()]
    assert (counts.done, counts.leased, counts.quarantined) == (games, 0, 0)
    assert len({record.game_id for record in records}) == len(records) == games
    assert run("ladder", "refold", "--check", "--records").status == 0


def games_of_all_runs() -> int:
    """How many games have a result."""
    with Store.open(os.environ[options.VARIABLE]) as store:
        return store.ratings.last_seq()


def kill_worker(cluster: Cluster) -> None:
    """Kill the Dask worker in which a game hangs, and wait for the end of the bot there."""
    bot = cluster.hanging()
    family = list(ancestors(bot))
    worker = family[family.index(cluster.nannies.pid) - 1]
    orphan = os.pidfd_open(bot)
    os.kill(worker, signal.SIGKILL)
    assert has_ended(orphan)


def out_of(runner: subprocess.Popen[str], season: str = "s1") -> str:
    """The output of a run that succeeds although a worker leaves during a game."""
    out, err = runner.communicate()
    assert runner.returncode == 0, err
    assert re.search(rf"game {season}-\d+ is void: the worker ended \(tcp:\S+ has left\)", err)
    return out


def test_a_worker_and_then_the_scheduler_are_killed_and_nothing_is_lost(
    run: Run, cluster: Cluster
) -> None:
    """One after the other: to start a cluster costs more than what is looked at."""
    runner = cluster.run("--games", 4)
    kill_worker(cluster)
    out = out_of(runner)
    assert "4 games of season s1 played, 1 void" in out
    check_whole(run, 4)

    runner = cluster.run("--forever")
    bot = os.pidfd_open(cluster.hanging())
    cluster.scheduler.kill()
    _, err = runner.communicate()
    assert runner.returncode == 1
    # On a busy machine the other worker is perhaps still being asked whether it can play.
    unused = r"deepsea-referee: the worker tcp:\S+ is not used: .*\n"
    assert re.fullmatch(rf"({unused})?deepsea-referee: the scheduler at tcp:\S+ is gone: .*\n", err)
    assert has_ended(bot)
    check_whole(run, games_of_all_runs())


def test_workers_are_killed_with_their_nannies_and_another_comes(
    run: Run, cluster: Cluster
) -> None:
    """All leave in the middle of a game, and within the time that a run waits one is there."""
    runner = cluster.run("--games", 6)
    bot = os.pidfd_open(cluster.hanging())
    workers = children(cluster.nannies.pid)
    cluster.nannies.kill()
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    assert has_ended(bot)
    with dask("worker", cluster.address, "--nworkers", "1", "--nthreads", "2") as other:
        out = out_of(runner)
        other.terminate()
    assert re.search("6 games of season s1 played, [12] void", out)
    check_whole(run, 6)


# Its games go the way of those above; who pairs them is tested in tests/arena/test_runs.py.
def test_a_tournament_on_a_cluster_goes_on_after_a_worker_is_killed(
    run: Run, cluster: Cluster
) -> None:
    command = ("tournament", "round-robin", "cup")
    runner = cluster.run("--meetings", 3, "--json", command=command)
    kill_worker(cluster)
    assert json.loads(out_of(runner, "cup"))["games"] == 6
    check_whole(run, 6, "cup")


# Without a cluster in every run: tests/cli/test_ladder_run.py; tasks that are stopped
# on one: tests/arena/test_dask.py.
def test_ctrl_c_finishes_what_is_played_and_a_second_one_hands_it_back(
    run: Run, cluster: Cluster
) -> None:
    runner = cluster.run("--forever")
    bot = os.pidfd_open(cluster.hanging())
    runner.send_signal(signal.SIGINT)
    assert runner.stderr is not None
    assert "finishing" in runner.stderr.readline()
    runner.send_signal(signal.SIGINT)
    _, err = runner.communicate()
    assert runner.returncode == 130
    assert re.search("[12] handed back; nothing is lost", err)
    assert has_ended(bot)
    check_whole(run, games_of_all_runs())
