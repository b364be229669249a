"""The queue answers what a run asks without reading the jobs that are done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from deepsea_arena.lease_owner import take_back
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.model import AttemptEnd, Job, StoredSeason, TaskState
from deepsea_ladder.store import Store, schema
from helpers import ladder, submissions
from helpers.counting import counted
from helpers.full_ladder import StoreClock
from helpers.steps import Work

Call = Callable[[Store, StoredSeason], object]

FEW, MANY = 600, 2400
"""Rotations that were played before; the pairing looks back on 500."""


@pytest.mark.databases
def test_who_holds_leases_is_listed_once(store: Store) -> None:
    season = ladder.to_play(store)
    assert store.tasks.owners() == []
    store.jobs.claim(season, "bob", 60, [None, None])
    ladder.claim(store, season, "ann")
    assert store.tasks.owners() == ["ann", "bob"]


@pytest.mark.databases
def test_a_season_has_no_two_games_of_one_place_in_a_rotation(store: Store) -> None:
    ladder.to_play(store, 2)
    with pytest.raises(Exception, match="rotation"):
        ladder.write(store, "UPDATE jobs SET shift = 0")


@pytest.mark.databases
def test_a_ladder_is_counted_over_its_seasons_and_queues(store: Store) -> None:
    season = ladder.stocked(store)
    empty = store.counts.read()
    assert (empty.games, empty.is_stalled, empty.backup_age_seconds) == (0, False, None)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    assert store.counts.read().is_stalled
    job = ladder.claim(store, season)
    store.games.report(job, ladder.play(job))
    store.jobs.fail(ladder.claim(store, season), "no luck", 0)
    ladder.claim(store, season, "somebody")
    ladder.claim(store, season, "gone", seconds=0)
    found = store.counts.read()
    assert (found.games, found.lost_attempts, found.runners) == (1, {AttemptEnd.VOID: 1}, 1)
    queue = found.waiting["games"], found.leased["games"], found.expired["games"]
    assert (queue, found.recent_games, found.is_stalled) == ((1, 1, 1), 1, False)
    assert found.recent_decision_seconds == {"0.5": 0.0001, "0.9": 0.0001, "0.99": 0.0001}
    assert found.store_bytes > 0


def runners(store: Store) -> tuple[int, tuple[str, ...], bool]:
    """The number of runners, those that rest, and whether one is missed."""
    counts = store.counts.read()
    assert counts.is_stalled == store.counts.is_stalled()
    return counts.runners, counts.resting_runners, counts.is_stalled


@pytest.mark.databases
def test_a_runner_that_rests_is_not_missed_until_it_has_ended_or_was_lost(store: Store) -> None:
    season = ladder.to_play(store)
    assert runners(store) == (0, (), True)
    store.tasks.note_rest("ann", "season s1 is\npaused", 60)
    store.tasks.note_rest("ann", "its order is settled", 60)
    ann = "the runner ann rests: its order is settled"
    assert runners(store) == (1, (ann,), False)
    store.tasks.note_rest("bob", "no worker is free", 60)
    bob = "the runner bob rests: no worker is free"
    assert runners(store) == (2, (ann, bob), False)
    job = ladder.claim(store, season, "bob")
    assert runners(store) == (2, (ann,), False)  # whatever it had noted
    store.tasks.end_rest("ann")
    assert runners(store) == (1, (), False)
    store.jobs.hand_back("bob", job)
    store.tasks.note_rest("bob", "its order is settled", 0)  # a lease ago, and then it was killed
    assert runners(store) == (0, (), True)


@pytest.mark.databases
def test_a_runner_of_a_paused_season_is_not_missed_by_other_tasks(store: Store) -> None:
    season = ladder.to_play(store)
    submissions.add(store, store.authors.id_of("anna-senior"), "mine")
    assert runners(store) == (0, (), True)
    ladder.claim(store, season, "ann")
    store.seasons.set_paused("s1", MACHINE, paused=True)
    assert runners(store) == (1, (), False)


def test_a_rest_is_written_once_in_a_third_of_a_lease(pattern: Path, tmp_path: Path) -> None:
    shutil.copy(pattern, tmp_path / "ladder.db")
    clock = StoreClock()
    with clock.installed(), Store.open(tmp_path / "ladder.db") as store:

        def written(owner: str, words: str) -> bool:
            with counted(store) as sent:
                store.tasks.note_rest(owner, words, 60)
            return any(statement.startswith("INSERT") for statement in sent.statements)

        assert written("ann", "paused")
        clock.tick(seconds=19)
        assert not written("ann", "paused")
        assert written("bob", "paused")
        assert written("ann", "settled")
        clock.tick(seconds=21)
        assert written("ann", "settled")
        clock.tick(seconds=50)
        assert runners(store) == (1, ("the runner ann rests: settled",), False)
        clock.tick(seconds=10)
        assert runners(store) == (0, (), False)
        assert written("cleo", "paused")
        with store.database.read() as connection:
            assert connection.execute(select(schema.rests.c.owner)).scalars().all() == ["cleo"]


@pytest.fixture(scope="module")
def veterans(pattern: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two ladders of six bots, which have played few rotations and many."""
    folder = tmp_path_factory.mktemp("veterans")
    return [_veteran(folder / f"{rotations}.db", pattern, rotations) for rotations in (FEW, MANY)]


def _veteran(path: Path, pattern: Path, rotations: int) -> Path:
    shutil.copy(pattern, path)
    with Store.open(path) as store:
        season = ladder.stocked(store, bots=6)
        a, b, *others = ladder.ids(store)
        lineups = [[a, b, *others[:2]], [a, b, *others[2:]]]
        store.jobs.add(season, [ladder.rotations(lineups[i % 2], 4)[0] for i in range(rotations)])
        ladder.write(store, "UPDATE tasks SET state = 'done'")
        store.jobs.add(season, ladder.rotations(lineups[0], 4) * 3)
        ladder.submit(store, "newcomer")
        _claim(store, season)
    return path


def _work(veterans: list[Path], scratch: Path, call: Call) -> list[int]:
    """The steps that a call takes in each of the ladders."""
    found = []
    for veteran in veterans:
        with Store.open(shutil.copy(veteran, scratch)) as store:
            season = store.seasons.get("s1")
            work = Work(store)
            call(store, season)
            found.append(work.steps)
    return found


def _claim(store: Store, season: StoredSeason) -> Job:
    (job,) = store.jobs.claim(season, "gone", 60, [1])  # its former rotation is played
    return job


def _pair(store: Store, season: StoredSeason) -> None:
    Matchmaker(store, season)(store.queue.last_number(season), 1)


CALLS: dict[str, Call] = {
    "claim": _claim,
    "pair": _pair,
    "take back": lambda store, _: take_back(store),
    "hand back": lambda store, _: store.jobs.hand_back("gone"),
    "leased": lambda store, season: store.queue.leased(season),
    "counts of a season": lambda store, season: store.queue.counts(season),
    "counts of a ladder": lambda store, _: store.counts.read(),
    "listed": lambda store, season: store.queue.listed(season, TaskState.RUNNING),
    "out": lambda store, _: store.bots.withdraw("anna"),
    "add": lambda store, season: store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_work_does_not_grow_with_the_games_that_were_played(
    call: Call, veterans: list[Path], tmp_path: Path
) -> None:
    few, many = _work(veterans, tmp_path, call)
    # Deeper trees and the counting itself, which goes by tens, make a small difference.
    assert 0 < many <= 1.2 * few + 100


def test_looking_at_every_job_would_be_noticed(veterans: list[Path], tmp_path: Path) -> None:
    few, many = _work(veterans, tmp_path, lambda store, season: store.queue.all_jobs(season))
    assert many > 3 * few
