"""The queue answers what a run asks without reading the jobs that are done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deepsea_arena.lease_owner import take_back
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.model import AttemptEnd, Job, StoredSeason, TaskState
from deepsea_ladder.store import Store
from helpers import ladder
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
    few, many = _work(veterans, tmp_path, lambda store, season: store.queue.arranged(season))
    assert many > 3 * few
