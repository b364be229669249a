"""Games that are played again elsewhere: who differs is found, and each job has one result."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest

from deepsea_arena.play.rechecks import is_drawn
from deepsea_arena.play.run_report import RunReport
from deepsea_arena.play.runner import RunGoal, RunnerSettings
from deepsea_arena.play.shutdown import Stop, StopRequest
from deepsea_arena.play.tasks import FinishedGame, VoidOutcome
from deepsea_arena.play.workers import JobWorkers
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.model.games import AttemptEnd, Job, StoredSeason
from deepsea_ladder.store import Store
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.workers import Died, Done, Event, Task
from deepsea_rules.randomness import seed_from_text
from helpers import ladder
from helpers.inline import Watcher, run_with


def _contents(store: Store) -> None:
    """A season with twelve games of four bots that declare to be deterministic."""
    for name in ladder.NAMES[:4]:
        store.bots.submit(name, f"{name}-senior", ladder.a_bundle(name, "deterministic = true"))
    season = store.seasons.open(ladder.a_season(), ladder.SEED)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 3)


KINDS = ["sqlite"]  # who plays does not know the database
CONTENTS = _contents
Play = Callable[[Job], object]


@dataclass
class Machines:
    """A pool of a worker on each machine, which plays as it likes, in `wait`, the first first."""

    plays: dict[str, Play]
    on_wait: Callable[[float], object] = lambda seconds: None
    tasks: dict[str, Task] = field(default_factory=dict)
    played: list[tuple[Job, str]] = field(default_factory=list)
    """Games, and on which machines."""
    dead: list[Event] = field(default_factory=list)

    def free(self) -> Sequence[str]:
        return [machine for machine in self.plays if machine not in self.tasks]

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        assert isinstance(argument, Job)
        task = self.tasks[str(worker)] = Task(argument, tuple(needs))
        self.played.append((argument, str(worker)))
        return task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[Event]:
        """Play the game that was started first, unless its machine hangs."""
        dead, self.dead = self.dead, []
        if dead:
            return dead
        for machine, task in self.tasks.items():
            try:
                done: Event = Done(task, self.plays[machine](task.argument))  # type: ignore[arg-type]
            except TimeoutError:
                continue
            except EOFError:
                done = Died(task, f"{machine} has left")
            del self.tasks[machine]
            return [done]
        self.on_wait(seconds or 0)
        return []

    def dismiss(self, machine: str, why: str) -> bool:
        if self.plays.pop(machine, None) is None:
            return False
        if machine in self.tasks:
            self.dead.append(Died(self.tasks.pop(machine), f"{machine} is used no more"))
        return True

    def stop(self) -> None:
        """Nothing is played outside of `wait`."""

    def kill(self, task: Task) -> None:
        self.tasks = {machine: one for machine, one in self.tasks.items() if one is not task}

    def close(self) -> None:
        """Nothing is left."""


def honest(job: Job) -> FinishedGame:
    return FinishedGame(ladder.play(job), machine="a lie about the machine")


def lies(job: Job, choices: str = "otherwise") -> FinishedGame:
    return FinishedGame(ladder.play(job, choices=choices))


def fails(job: Job, times: int = 1) -> FinishedGame:
    """Let anna play nonsense so many times."""
    return FinishedGame(ladder.play(job, faulty={"anna": times}))


def wins(job: Job) -> FinishedGame:
    record = ladder.play(job)
    return FinishedGame(record.replace('"placements": [', '"placements": [1, '))


def junk(job: Job) -> FinishedGame:
    return FinishedGame("no record")


def nothing(job: Job) -> None:
    """Return nothing at all."""


def leaves(job: Job) -> object:
    """Leave in the middle of the game."""
    raise EOFError


def hangs(job: Job) -> object:
    raise TimeoutError


def run(
    store: Store, stop: Stop, machines: Machines, watcher: Watcher | None = None, **settings: Any
) -> RunReport:
    """A run on these machines, of which every game is drawn unless the settings say otherwise."""
    return run_with(
        JobWorkers(machines, str, machines.dismiss),
        store,
        stop,
        clock=settings.pop("clock", lambda: 0.0),
        watcher=watcher or Watcher(),
        goal=RunGoal(games=settings.pop("games", 1)),
        settings=RunnerSettings(idle=0, **({"recheck": 1} | settings)),
    )


def suspects(store: Store) -> dict[str, str]:
    """Who is suspected in the audit log, and why."""
    return {one.subject: one.note for one in ladder.audited(store, AuditKind.SUSPECTED)}


@pytest.mark.parametrize(
    ("plays", "played_on", "counts", "gone"),
    [
        ([honest, honest, honest], "ab", honest, ""),
        ([lies, honest, honest], "abc", honest, "a"),
        ([honest, lies, honest], "abc", honest, "b"),
        ([lies, honest, lies], "abc", lies, "b"),
        ([honest, junk, honest], "abc", honest, "b"),
        ([junk, honest, honest], "abc", honest, "a"),
        ([honest], "a", honest, ""),
        ([honest, leaves, honest], "ab", honest, ""),
        ([lies, honest, leaves, honest], "abc", None, ""),
        ([lies, honest], "ab", None, ""),
    ],
)
def test_what_two_machines_played_alike_counts(
    store: Store,
    season: StoredSeason,
    stop: Stop,
    plays: Sequence[Play],
    played_on: str,
    counts: Callable[[Job], FinishedGame] | None,
    gone: str,
) -> None:
    machines = Machines(dict(zip("abcd", plays, strict=False)))
    report = run(store, stop, machines, max_failures_in_a_row=1)
    ((job, *again), on) = zip(*machines.played, strict=True)
    assert ("".join(on), {*again} <= {job}) == (played_on, True)
    assert [one for one in suspects(store) if len(one) == 1] == [*gone]
    assert [*gone] == [one for one in "abcd"[: len(plays)] if one not in machines.plays]
    if counts is None:
        (lost,) = [one for one in store.queue.lost(season) if one.ended is AttemptEnd.VOID]
        assert lost.reason == "it went otherwise on a and b, and no third machine has decided"
        assert (report.void, store.ratings.last_seq()) == (1, 0)
    else:
        assert report.accepted == store.ratings.last_seq() == 1
        assert store.games.record(job.game_id) == counts(job).record


def test_a_bot_that_differs_from_itself_is_named_and_not_played_again(
    store: Store, stop: Stop
) -> None:
    machines = Machines({one: partial(lies, choices=one) for one in "abc"})
    watcher = Watcher()
    report = run(store, stop, machines, watcher, games=12)
    assert (report.accepted, report.void, len(machines.plays)) == (12, 0, 3)
    (job, _) = machines.played[0]
    assert store.games.record(job.game_id) == lies(job, "a").record
    labels = {version.label for version in job.seats}
    assert suspects(store).keys() <= labels
    words = r"decided otherwise when game s1-\d was played again, from decision \d+ on"
    assert all(re.fullmatch(words, note) for note in suspects(store).values())
    assert watcher.troubles == [f"{who} {why}" for who, why in reversed(suspects(store).items())]
    on = [machine for job, machine in machines.played if job.game_id == "s1-12"]
    assert len(on) == 1  # which was drawn, as all are
    assert store.bots.get("anna").state == "active"
    assert store.counts.read().recent_suspects == len(suspects(store))


def test_a_bot_that_differs_now_and_then_costs_one_machine(store: Store, stop: Stop) -> None:
    plays: dict[str, Play] = dict.fromkeys("abcde", honest)
    machines = Machines(plays | {"a": fails, "d": partial(fails, times=2)})
    assert run(store, stop, machines, games=12).accepted == 12
    assert len(machines.plays) == 4
    assert [one for one in suspects(store) if len(one) > 1] == ["anna v1"]


def test_a_liar_is_found_and_every_job_has_one_result(store: Store, stop: Stop) -> None:
    machines = Machines({"a": honest, "liar": lies, "b": honest, "c": honest})
    report = run(store, stop, machines, games=12, recheck=3)
    assert (report.accepted, report.duplicates, report.refused) == (12, 0, 0)
    assert [*machines.plays] == ["a", "b", "c"]
    games = [game.game_id for game in store.history.games()]
    assert sorted(games) == sorted({job.game_id for job, _ in machines.played})
    assert len(games) == 12
    note = suspects(store)["liar"]
    assert re.fullmatch(r"is used no more: game s1-\d+ went otherwise on two others", note)


@pytest.mark.parametrize("play", [junk, wins], ids=["junk", "placements"])
def test_a_wrong_result_is_refused_and_its_machine_used_no_more(
    store: Store, season: StoredSeason, stop: Stop, play: Play
) -> None:
    machines, watcher = Machines({"a": play, "b": honest}), Watcher()
    report = run(store, stop, machines, watcher, games=4, recheck=50)
    assert (report.accepted, report.refused, [*machines.plays]) == (4, 1, ["b"])
    (lost,) = store.queue.lost(season)
    assert (lost.game_id, lost.ended) == ("s1-1", AttemptEnd.REFUSED)
    assert str(lost.reason).startswith("played by a: ")
    assert suspects(store) == {"a": "is used no more: its result of s1-1 was refused"}


def test_what_is_no_outcome_is_void(store: Store, stop: Stop) -> None:
    watcher = Watcher()
    run(store, stop, Machines({"a": nothing}), watcher, max_failures_in_a_row=1)
    assert watcher.failures == [("s1-1", "the worker returned no outcome")]


def test_a_game_that_hangs_when_it_is_played_again_counts_as_it_was_played(
    store: Store, stop: Stop
) -> None:
    time = 0.0

    def passes(seconds: float) -> None:
        nonlocal time
        assert seconds > 0
        time += seconds

    machines = Machines({"a": honest, "b": hangs}, passes)
    report = run(store, stop, machines, clock=lambda: time, game=100)
    assert (report.accepted, report.void, machines.tasks, time >= 100) == (1, 0, {}, True)


def test_a_run_that_is_stopped_hands_back_what_is_played_again(store: Store, stop: Stop) -> None:
    def stops(seconds: float) -> None:
        stop.ask(StopRequest.HAND_BACK)

    report = run(store, stop, Machines({"a": honest, "b": hangs}, stops))
    assert (report.accepted, report.handed_back, store.ratings.last_seq()) == (0, 1, 0)


def test_a_game_waits_for_another_machine_and_comes_first(store: Store, stop: Stop) -> None:
    machines = Machines({"a": honest, "b": honest})
    assert run(store, stop, machines, games=12).accepted == 12
    on: dict[str, list[str]] = {}
    for job, machine in machines.played:
        on.setdefault(job.game_id, []).append(machine)
    assert all(sorted(theirs) == ["a", "b"] for theirs in on.values())


def test_a_game_whose_machine_leaves_before_it_is_started_waits_for_another(
    store: Store, season: StoredSeason, stop: Stop
) -> None:
    machines = Machines({"a": honest})
    workers = JobWorkers(machines, str, machines.dismiss)
    assert len(workers.free()) == 1
    machines.plays.clear()
    job = ladder.claim(store, season)
    workers.start(job)
    assert workers.wait(1, stop) == []
    machines.plays["b"] = honest
    assert [one for one, _ in workers.wait(1, stop)] == [job]
    machines.plays.clear()
    workers.start(job)
    workers.abandon(job)
    machines.plays["c"] = honest
    assert workers.wait(1, stop) == []


def test_one_game_in_fifty_is_drawn_by_the_seasons_secret_alone(
    store: Store, season: StoredSeason
) -> None:
    job = ladder.claim(store, season)
    other = store.seasons.open(ladder.a_season("s2"), seed_from_text("another secret"))
    jobs = [msgspec.structs.replace(job, game_id=f"s1-{number}") for number in range(500)]
    drawn = [
        {one.game_id for one in jobs if is_drawn(store, of, one, 50)} for of in (season, other)
    ]
    assert all(2 <= len(those) <= 21 for those in drawn)  # by chance, once in 1,000 secrets
    assert len(drawn[0] & drawn[1]) < 4


@pytest.mark.parametrize("which", ["undeclared", "suspected"])
def test_games_of_other_bots_are_not_drawn(store: Store, season: StoredSeason, which: str) -> None:
    job = ladder.claim(store, season)
    assert is_drawn(store, season, job, 1)
    if which == "suspected":
        store.audit.suspect(job.seats[2].label, "decided otherwise")
    else:
        ladder.submit(store, "eve")
        seats = (*job.seats[:3], store.bots.versions("eve")[0])
        job = msgspec.structs.replace(job, seats=seats)
    assert not is_drawn(store, season, job, 1)


@pytest.mark.parametrize("machine", ["", "a"])
def test_only_a_worker_of_this_machine_may_say_which_bot_was_asked_in_a_void_game(
    store: Store, season: StoredSeason, stop: Stop, machine: str
) -> None:
    machines = Machines({"a": lambda job: VoidOutcome("too busy", 2)})
    workers = JobWorkers(machines, lambda place: machine)
    workers.start(job := ladder.claim(store, season))
    blamed = None if machine else 2
    assert workers.wait(1, stop) == [(job, VoidOutcome("too busy", blamed))]
