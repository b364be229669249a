"""Jobs and leases: nobody's job is lost, nobody's death is waited for longer than its lease."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import AttemptEnd, Job, ReceiptStatus, StoredSeason, TaskState
from deepsea_ladder.store import RetryPolicy, Store
from deepsea_rules.randomness import game_seed
from helpers import ladder
from helpers.counting import counted

CONTENTS = ladder.to_play


def test_a_job_has_its_game_from_the_start(store: Store, season: StoredSeason) -> None:
    job = ladder.claim(store, season, "ann")
    assert (job.game_id, job.attempt, job.owner, job.rotation) == ("s1-1", 1, "ann", 1)
    assert [version.label for version in job.seats] == ["anna v1", "ben v1", "cleo v1", "dan v1"]
    store.jobs.hand_back("ann")
    again = ladder.claim(store, season, "bob")
    assert (again.game_id, again.seats) == (job.game_id, job.seats)
    assert again.attempt == 2


def test_every_attempt_has_a_seed_of_its_own(store: Store, season: StoredSeason) -> None:
    """Who watched a game that became void, or was given up, does not play it again."""
    seeds = []
    for _ in range(2):
        job = ladder.claim(store, season)
        seeds.append(job.seed)
        store.jobs.fail(job, "the host was too busy", 2)
    job = ladder.claim(store, season)
    seeds.append(job.seed)
    assert seeds == [game_seed(ladder.SEED, 1, attempt) for attempt in (0, 1, 2)]
    assert job.void_seats == (2,)
    receipt = store.games.report(job, ladder.play(job))
    assert receipt.status is ReceiptStatus.ACCEPTED
    assert store.ratings.differences(season, records=True) == []


@pytest.mark.databases
def test_a_job_names_the_seats_whose_version_made_a_game_of_the_season_void(store: Store) -> None:
    season = store.seasons.get("s1")
    void = ladder.claim(store, season)
    assert void.suspects == ()
    store.jobs.fail(void, "the host was too busy", 2)
    again, other = store.jobs.claim(season, "ann", 60, [None] * 2)
    assert (again.game_id, again.void_seats, again.suspects) == (void.game_id, (2,), (2,))
    assert other.void_seats == ()
    assert [other.seats[seat].bot for seat in other.suspects] == [void.seats[2].bot] == ["cleo"]
    store.jobs.fail(other, "the worker ended")  # nobody's

    later = store.seasons.open(ladder.a_season("s2"), ladder.SEED)
    store.jobs.add(later, ladder.rotations(ladder.ids(store), 1))
    assert ladder.claim(store, later).suspects == ()
    ladder.submit(store, "cleo", "better")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
    jobs = store.jobs.claim(season, "ann", 60, [None] * 9)
    assert sorted(len(job.suspects) for job in jobs) == [0, 1, 1, 1]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)  # whose plan it reads
def test_suspects_are_found_without_a_look_at_all_attempts(store: Store) -> None:
    season = store.seasons.get("s1")
    with counted(store) as sent:
        ladder.claim(store, season)
    (statement,) = (text for text in sent.statements if "JOIN attempts" in text)
    with store.database.read() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", (0, 1, 1)).all()
    searches = [row.detail for row in plan if "SEARCH" in row.detail or "SCAN" in row.detail]
    assert len(searches) == 3
    assert all("ix_attempts_void" in line or "job_id=?" in line for line in searches), searches


@pytest.mark.databases
def test_attempts_without_a_result_are_kept_in_their_order(
    store: Store, season: StoredSeason
) -> None:
    void = ladder.claim(store, season)
    store.jobs.fail(void, "the host was too busy", 1)
    ladder.claim(store, season, "dead", seconds=0)
    late = ladder.claim(store, season)
    store.games.report(late, ladder.play(late))
    ladder.claim(store, season, "stopped")
    store.jobs.hand_back("stopped")
    lost = list(store.queue.lost(season))
    assert [(one.place, one.game_id, one.attempt, one.ended, one.seat) for one in lost] == [
        (1, "s1-1", 0, AttemptEnd.VOID, 1),
        (2, "s1-1", 1, AttemptEnd.EXPIRED, None),
        (4, "s1-2", 0, AttemptEnd.HANDED_BACK, None),
    ]
    assert [bot.bot for bot in lost[0].lineup] == ["anna", "ben", "cleo", "dan"]
    assert lost[0].reason == "the host was too busy"


def test_a_result_after_its_lease_ran_out_has_the_seed_of_its_own_attempt(
    store: Store, season: StoredSeason
) -> None:
    slow = ladder.claim(store, season, "slow", seconds=0)
    quick = ladder.claim(store, season, "quick")
    assert slow.game_id == quick.game_id
    assert store.games.report(slow, ladder.play(slow)).status is ReceiptStatus.ACCEPTED
    assert store.games.report(quick, ladder.play(quick)).status is ReceiptStatus.DUPLICATE
    ends = [one.ended for one in store.queue.lost(season)]
    assert ends == [AttemptEnd.EXPIRED, AttemptEnd.DUPLICATE]
    assert store.ratings.differences(season, records=True) == []


def test_a_leased_job_is_nobody_elses(store: Store, season: StoredSeason) -> None:
    claimed = [ladder.claim(store, season, owner).game_id for owner in ("ann", "bob")]
    claimed += [job.game_id for job in store.jobs.claim(season, "cid", 60, [None] * 5)]
    assert claimed == ["s1-1", "s1-2", "s1-3", "s1-4"]
    assert store.jobs.claim(season, "dan", 60) == []


@pytest.mark.databases
def test_claiming_at_once_gives_everybody_other_jobs(
    store: Store, season: StoredSeason, another: Callable[[], Store]
) -> None:
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 20))
    claimed: list[Job] = []

    def work(owner: str, own: Store) -> None:
        while jobs := own.jobs.claim(season, owner, 60):
            claimed.extend(jobs)

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(work, ("ann", "bob", "cid"), [another() for _ in range(3)])] == [None] * 3
    assert sorted(int(job.game_id[3:]) for job in claimed) == list(range(1, 25))


@pytest.mark.parametrize("contents", [ladder.nothing])
def test_a_worker_stays_with_its_rotation_and_another_begins_the_next(store: Store) -> None:
    season = ladder.stocked(store)
    rotation = ladder.rotations(ladder.ids(store), 3)
    store.jobs.add(season, [*rotation, *rotation])
    ann, bob = store.jobs.claim(season, "both", 60, [None, None])
    assert (ann.game_id, bob.game_id) == ("s1-1", "s1-4")
    (bob,) = store.jobs.claim(season, "bob", 60, [bob.rotation])
    assert bob.game_id == "s1-5"
    (ann,) = store.jobs.claim(season, "ann", 60, [ann.rotation])
    assert ann.game_id == "s1-2"
    # Where no rotation is untouched, somebody helps.
    (cid,) = store.jobs.claim(season, "cid", 60, [None])
    assert cid.game_id == "s1-3"


def test_a_lease_that_ran_out_is_taken_over(store: Store, season: StoredSeason) -> None:
    dead = ladder.claim(store, season, "dead", seconds=0)
    assert store.queue.counts(season).expired == 1
    job = ladder.claim(store, season, "alive")
    assert (job.game_id, job.attempt) == (dead.game_id, 2)
    assert store.queue.counts(season).leased == 1


@pytest.mark.databases
def test_a_renewed_lease_does_not_run_out(store: Store, season: StoredSeason) -> None:
    job = ladder.claim(store, season, "slow", seconds=0)
    assert store.jobs.renew([job], 60) == 1
    assert ladder.claim(store, season, "other").game_id == "s1-2"


def test_handing_back_counts_as_no_failure(store: Store, season: StoredSeason) -> None:
    for _ in range(10):
        store.jobs.claim(season, "ann", 60, [None] * 4)
        assert store.jobs.hand_back("ann") == 4
    counts = store.queue.counts(season)
    assert (counts.waiting, counts.leased, counts.quarantined) == (4, 0, 0)


@pytest.mark.databases
def test_a_job_that_fails_too_often_is_set_aside_and_the_others_go_on(
    another: Callable[[], Store], store: Store, season: StoredSeason
) -> None:
    patient = Store(store.database, RetryPolicy(failures=3))
    for _ in range(2):
        assert (
            patient.jobs.fail(ladder.claim(patient, season), "no sandbox").status
            is TaskState.QUEUED
        )
    ladder.claim(patient, season, "dead", seconds=0)
    assert ladder.claim(patient, season).game_id == "s1-2"
    (job,) = store.queue.listed(season, TaskState.QUARANTINED)
    assert job.game_id == "s1-1"
    assert job.note == "failed 3 times, last: the lease of dead expired"
    (entry,) = ladder.audited(store, AuditKind.QUARANTINED)
    assert (entry.subject, entry.note) == ("s1-1", job.note)

    assert store.jobs.requeue("s1-1") is TaskState.QUEUED
    assert patient.jobs.fail(ladder.claim(patient, season), "again").status is TaskState.QUEUED
    with pytest.raises(StoreError, match="game 's1-1' is queued; only quarantined ones"):
        store.jobs.requeue("s1-1")
    with pytest.raises(StoreError, match="game 'x' is not known"):
        store.jobs.requeue("x")


@pytest.mark.databases
def test_all_that_was_set_aside_can_be_tried_again_at_once(
    store: Store, season: StoredSeason
) -> None:
    impatient = Store(store.database, RetryPolicy(failures=1))
    for job in store.jobs.claim(season, "worker", 60, [None] * 3):
        impatient.jobs.fail(job, "no luck")
    assert store.jobs.requeue_all() == 3
    assert store.jobs.requeue_all() == 0
    assert store.queue.counts(season).waiting == 4


@pytest.mark.databases
def test_reports_of_a_failure_count_once(store: Store, season: StoredSeason) -> None:
    job = ladder.claim(store, season)
    for _ in range(10):
        assert store.jobs.fail(job, "void").status is TaskState.QUEUED
    (info, *_) = store.queue.listed(season, TaskState.QUEUED)
    assert (info.failures, info.note) == (1, "void")


def test_what_failed_with_a_bot_that_is_out_is_not_tried_again(
    store: Store, season: StoredSeason
) -> None:
    job = ladder.claim(store, season)
    store.bots.withdraw("anna")
    assert store.jobs.fail(job, "void").status is TaskState.CANCELLED
    assert store.queue.counts(season).cancelled == 4


def test_rotations_that_were_chosen_for_another_state_are_not_added(
    store: Store, season: StoredSeason
) -> None:
    rotation = ladder.rotations(ladder.ids(store), 1)
    assert store.queue.last_number(season) == 4
    assert store.jobs.add(season, rotation, after=4) == ["s1-5"]
    assert store.jobs.add(season, rotation, after=4) == []
    assert store.queue.counts(season).waiting == 5


@pytest.mark.databases
def test_line_ups_that_cannot_be_played_are_refused_whole(
    store: Store, season: StoredSeason
) -> None:
    a, b, c, d = ladder.ids(store)
    for bad, words in (
        ([a, b, c], "a line-up of 3: season 's1' has games of 4"),
        ([a, b, c, c], "one version in two seats"),
        ([a, b, c, 99], "there is no version with the id 99"),
    ):
        with pytest.raises(StoreError, match=words):
            store.jobs.add(season, [[[a, b, c, d]], [bad]])
    assert store.queue.counts(season).waiting == 4


def test_rotations_with_a_bot_that_is_out_are_left_out(store: Store, season: StoredSeason) -> None:
    ladder.submit(store, "eve")
    a, b, c, d, e = ladder.ids(store)
    store.bots.withdraw("anna")
    assert store.jobs.add(season, [[[a, b, c, d]], [[b, c, d, e]]]) == ["s1-5"]


@pytest.mark.databases
def test_words_of_others_do_no_harm(store: Store, season: StoredSeason) -> None:
    store.jobs.fail(ladder.claim(store, season), "\0\x1b[31m\ud800" + "x" * 5000)
    (info, *_) = store.queue.listed(season, TaskState.QUEUED)
    assert info.note is not None
    assert info.note.startswith("\\x00\\x1b[31m\\ud800xxx")
    assert len(info.note) == 2000
