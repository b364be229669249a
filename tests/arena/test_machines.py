"""Games on other machines: what they report is derived again, and each job has one result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from deepsea_arena.run_report import RunReport, Stop
from deepsea_arena.runner import RunGoal, RunnerSettings
from deepsea_arena.tasks import FinishedGame, VoidOutcome
from deepsea_arena.workers import JobWorkers
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.model import AttemptEnd, Job, StoredSeason
from deepsea_ladder.store import Store
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.workers import Task, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.randomness import seed_from_text
from helpers import ladder
from helpers.deeds import forged
from helpers.inline import Watcher, run_with


def _contents(store: Store) -> None:
    """A season with twelve games of four bots."""
    season = ladder.stocked(store)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 3)


KINDS = ["sqlite"]  # who plays does not know the database
CONTENTS = _contents
Play = Callable[[Job], object]


@dataclass
class Machines:
    """A pool of a worker on each machine, which plays as it likes, in `wait`, the first first."""

    plays: dict[str, Play]
    tasks: dict[str, Task] = field(default_factory=dict)
    dead: list[WorkerEvent] = field(default_factory=list)

    def free(self) -> Sequence[str]:
        return [machine for machine in self.plays if machine not in self.tasks]

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        assert isinstance(argument, Job)
        task = self.tasks[str(worker)] = Task(argument, tuple(needs))
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        """Let the machine play that was given a game first."""
        dead, self.dead = self.dead, []
        if dead or not self.tasks:
            return dead
        machine, task = next(iter(self.tasks.items()))
        del self.tasks[machine]
        return [TaskResult(task, self.plays[machine](task.argument))]  # type: ignore[arg-type]

    def dismiss(self, machine: str, why: str) -> bool:
        if self.plays.pop(machine, None) is None:
            return False
        if machine in self.tasks:
            self.dead.append(WorkerDeath(self.tasks.pop(machine), f"{machine} is used no more"))
        return True

    def stop(self) -> None:
        """Nothing is played outside of `wait`."""

    def kill(self, task: Task) -> None:
        self.tasks = {machine: one for machine, one in self.tasks.items() if one is not task}

    def close(self) -> None:
        """Nothing is left."""


def honest(job: Job) -> FinishedGame:
    return FinishedGame(ladder.play(job), machine="a lie about the machine")


def wins(job: Job) -> FinishedGame:
    return FinishedGame(forged(ladder.play(job)))


def deals(job: Job) -> FinishedGame:
    """Play the game on a deal of its own choice."""
    chosen = msgspec.structs.replace(job, seed=seed_from_text("a good one"))
    return FinishedGame(ladder.play(chosen))


def junk(job: Job) -> FinishedGame:
    return FinishedGame("no record")


def nothing(job: Job) -> None:
    """Return nothing at all."""


def run(
    store: Store,
    stop: Stop,
    machines: Machines,
    watcher: Watcher,
    games: int = 1,
    failures: int = 50,
) -> RunReport:
    """A run on these machines."""
    return run_with(
        JobWorkers(machines, str, machines.dismiss),
        store,
        stop,
        watcher=watcher,
        goal=RunGoal(games=games),
        settings=RunnerSettings(idle=0, max_failures_in_a_row=failures),
    )


@pytest.mark.parametrize("play", [wins, deals, junk])
def test_a_forged_result_is_refused_and_its_machine_used_no_more(
    store: Store, season: StoredSeason, stop: Stop, play: Play
) -> None:
    machines, watcher = Machines({"a": play, "b": honest}), Watcher()
    report = run(store, stop, machines, watcher, games=4)
    assert (report.accepted, report.refused, [*machines.plays]) == (4, 1, ["b"])
    (lost,) = store.queue.lost(season)
    assert (lost.game_id, lost.ended) == ("s1-1", AttemptEnd.REFUSED)
    assert str(lost.reason).startswith("played by a: ")
    assert watcher.troubles == ["a is used no more: its result of s1-1 was refused"]
    (refused,) = ladder.audited(store, AuditKind.REFUSED)
    assert (refused.subject, "played by a: " in refused.note) == ("s1-1", True)
    assert store.ratings.differences(season, records=True) == []


def test_what_is_no_outcome_is_void(store: Store, stop: Stop) -> None:
    watcher = Watcher()
    run(store, stop, Machines({"a": nothing}), watcher, failures=1)
    assert watcher.failures == [("s1-1", "the worker returned no outcome")]


def test_a_game_whose_machine_leaves_before_it_is_started_waits_for_another(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    class Leaving(Machines):
        """The first machine leaves while a game is leased for it, and another one comes later."""

        looks = 0

        def free(self) -> Sequence[str]:
            self.looks += 1
            if self.looks == 2:
                self.plays = {}
            return super().free()

        def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
            self.plays = self.plays or {"b": honest}
            return super().wait(seconds, *wakers)

    watcher = Watcher()
    report = run(store, stop, Leaving({"a": honest}), watcher)
    assert (report.accepted, report.void, watcher.troubles) == (1, 0, [])
    (lost,) = store.queue.lost(season)
    assert (lost.ended, lost.reason) == (AttemptEnd.HANDED_BACK, "its worker has left")


@pytest.mark.parametrize("machine", ["", "a"])
def test_only_a_worker_of_this_machine_may_say_which_bot_was_asked_in_a_void_game(
    store: Store, season: StoredSeason, stop: Stop, machine: str
) -> None:
    machines = Machines({"a": lambda job: VoidOutcome("too busy", 2)})
    workers = JobWorkers(machines, lambda place: machine)
    workers.start(job := ladder.claim(store, season))
    blamed = None if machine else 2
    assert workers.wait(1, stop) == [(job, VoidOutcome("too busy", blamed))]
