"""How a result comes in: once, checked, with everything that follows from it or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import event, text
from sqlalchemy.engine.default import DefaultDialect

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import StoreDamaged, StoreError
from deepsea_ladder.model import Job, Receipt, ReceiptStatus, StoredSeason
from deepsea_ladder.store import RetryPolicy, Store
from deepsea_ladder.store.columns import START, Record
from helpers import ladder

CONTENTS = ladder.to_play


@pytest.fixture
def job(store: Store, season: StoredSeason) -> Job:
    """The first game, leased."""
    return ladder.claim(store, season, "ann")


def test_a_game_takes_few_statements(store: Store, season: StoredSeason) -> None:
    sent: list[str] = []

    def count(_connection: object, _cursor: object, text: str, *_: object) -> None:
        sent.append(text)

    event.listen(store.database.engine, "before_cursor_execute", count)
    job = ladder.claim(store, season, "ann")
    store.games.report(job, ladder.play(job))
    assert len(sent) <= 29, sent


@pytest.mark.databases
def test_a_result_is_stored_with_what_follows_from_it(
    store: Store, season: StoredSeason, job: Job
) -> None:
    record = ladder.play(job)
    assert store.games.report(job, record) == Receipt(ReceiptStatus.ACCEPTED, seq=1)
    assert store.games.record("s1-1") == record
    counts = store.queue.counts(season)
    assert (counts.done, counts.waiting, counts.leased) == (1, 3, 0)
    said = json.loads(record)["result"]
    (game,) = store.history.latest(10)
    assert [seat.label for seat in game.seats] == [version.label for version in job.seats]
    assert [seat.points for seat in game.seats] == said["points"]
    assert [seat.placement for seat in game.seats] == said["placements"]
    tallies = {entry.version.id: entry.tally for entry in store.ratings.entries(season)}
    for seat, version in zip(game.seats, job.seats, strict=True):
        tally = tallies[version.id]
        assert (tally.games, tally.placements, tally.last_seq) == (1, seat.placement, 1)
        assert tally.rating == seat.rating
        (point,) = store.ratings.courses(season, {version.id: (tally, 9)})[version.id]
        assert (point.games, point.seq) == (1, 1)
        assert (point.mu, point.sigma, point.rating) == (*seat.rating, seat.rating.conservative)
    best = min(game.seats, key=lambda seat: seat.placement)
    assert best.rating.mu > season.settings.rating.mu
    assert store.ratings.differences(season, records=True) == []


@pytest.mark.databases
def test_records_are_packed_and_damaged_ones_are_named(
    store: Store, season: StoredSeason, job: Job
) -> None:
    record = ladder.play(job)
    store.games.report(job, record)
    raw = text("SELECT record FROM games")
    with store.database.write() as connection:
        kept = bytes(connection.execute(raw).scalar_one())
        assert len(kept) * 5 < len(record)
    assert store.games.record("s1-1") == record
    assert store.ratings.differences(season, records=True) == []
    for junk in (kept[:-9], START, b"\xff", record.encode()):
        ladder.write(store, "UPDATE games SET record = :junk", junk=junk)
        with pytest.raises(StoreDamaged, match=r"table games.* record is "):
            store.games.record("s1-1")


def test_a_packed_record_is_read_for_ever() -> None:
    stored = bytes.fromhex("78f97e622662c3dbe3aa0500a1050a47")
    assert (
        Record().process_result_value(stored, DefaultDialect()) == '{"format": "deepsea-record/1"}'
    )


def test_delivering_again_changes_nothing(store: Store, season: StoredSeason, job: Job) -> None:
    record = ladder.play(job)
    store.games.report(job, record)
    before = store.ratings.entries(season)
    for _ in range(3):
        assert store.games.report(job, record) == Receipt(ReceiptStatus.DUPLICATE, seq=1)
    assert store.ratings.entries(season) == before
    assert store.ratings.last_seq() == 1
    assert ladder.audited(store, AuditKind.REFUSED) == []


def test_a_zombies_result_counts_if_it_is_the_first(store: Store, season: StoredSeason) -> None:
    zombie = ladder.claim(store, season, "zombie", seconds=0)
    job = ladder.claim(store, season, "alive")
    assert store.games.report(zombie, ladder.play(zombie, choices="zombie")).seq == 1
    before = store.games.record(job.game_id), store.ratings.entries(season)
    # Another game of the same job, as valid as the first: too late.
    receipt = store.games.report(job, ladder.play(job, choices="alive"))
    assert receipt == Receipt(ReceiptStatus.DUPLICATE, seq=1)
    assert (store.games.record(job.game_id), store.ratings.entries(season)) == before
    assert store.queue.counts(season).done == 1


def test_a_quarantined_job_takes_a_late_result(store: Store, season: StoredSeason) -> None:
    impatient = Store(store.database, RetryPolicy(failures=1))
    late = ladder.claim(store, season, "late", seconds=0)
    ladder.claim(impatient, season, "other")
    assert store.queue.counts(season).quarantined == 1
    assert store.games.report(late, ladder.play(late)).status is ReceiptStatus.ACCEPTED
    assert store.queue.counts(season).quarantined == 0


@pytest.mark.databases
def test_results_at_once_are_stored_once(
    store: Store, season: StoredSeason, job: Job, another: Callable[[], Store]
) -> None:
    record = ladder.play(job)
    start = Barrier(4)

    def deliver(own: Store) -> ReceiptStatus:
        start.wait()
        return own.games.report(job, record).status

    with ThreadPoolExecutor(4) as pool:
        verdicts = sorted(pool.map(deliver, [another() for _ in range(4)]))
    assert verdicts == [ReceiptStatus.ACCEPTED] + [ReceiptStatus.DUPLICATE] * 3
    assert store.ratings.differences(season) == []


def _changed(path: str, value: Any) -> Callable[[str], str]:
    def change(record: str) -> str:
        data = json.loads(record)
        *way, last = path.split(".")
        place = data
        for key in way:
            place = place[int(key)] if key.isdigit() else place[key]
        place[int(last) if last.isdigit() else last] = value
        return json.dumps(data)

    return change


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda record: "{", "not JSON"),
        (lambda record: record[:-40], "not JSON"),
        (lambda record: "x" * 2_000_000, "the record has 2000000 characters"),
        (_changed("game_id", "s1-2"), "the game_id is 's1-2', not 's1-1'"),
        (_changed("seed", "00" * 32), "the seed is"),
        (_changed("clock", "1h+1h"), "the clock is '1h\\+1h'"),
        (_changed("rules.name", "guide"), "the rules are not those of season 's1'"),
        (_changed("rules.options.owner_peek", "on_return"), "the rules are not those"),
        (_changed("seats.0.name", "mallory v1"), "the name of a seat is 'mallory v1'"),
        (_changed("seats.1.digest", "f" * 64), "the digest of ben v1 is 'ffff"),
        (_changed("result.placements", [1, 2, 3, 4]), "result.placements"),
        (_changed("result.points", [99, 0, 0, 0]), "result.points"),
        (_changed("commitment", "00" * 32), "commitment"),
        (_changed("decisions.3.action", "back"), "decision"),
        (_changed("decisions.3.us", 2**53), "us is 9007199254740992"),
        (_changed("decisions", []), "the game is not over"),
        (_changed("decisions.0.came", "\ud800"), "surrogates not allowed"),
    ],
)
def test_what_is_no_result_of_the_job_is_refused_and_noted(
    store: Store, season: StoredSeason, job: Job, forge: Callable[[str], str], words: str
) -> None:
    receipt = store.games.report(job, forge(ladder.play(job)))
    assert receipt.status is ReceiptStatus.REFUSED
    assert receipt.reason is not None
    (entry,) = ladder.audited(store, AuditKind.REFUSED)
    assert entry.subject == "s1-1"
    assert entry.note.startswith("ann, lease 1: ")
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(receipt.reason)
    # Its lease ended as a failure, and the game is played again.
    assert store.queue.counts(season).waiting == 4
    assert store.ratings.last_seq() == 0
    again = ladder.claim(store, season, "bob")
    assert store.games.report(again, ladder.play(again)).status is ReceiptStatus.ACCEPTED


def test_only_who_had_the_lease_may_report(store: Store, season: StoredSeason, job: Job) -> None:
    for thief in (structs.replace(job, owner="thief"), structs.replace(job, attempt=2)):
        receipt = store.games.report(thief, ladder.play(job))
        assert receipt.status is ReceiptStatus.REFUSED
        assert "never had the lease" in (receipt.reason or "")
    # The lease of the one that has it is not touched.
    assert store.queue.counts(season).leased == 1
    assert store.games.report(job, ladder.play(job)).status is ReceiptStatus.ACCEPTED


def test_what_the_reporter_says_of_the_job_is_not_trusted(store: Store, job: Job) -> None:
    forged = structs.replace(job, seed=b"\1" * 32)
    assert store.games.report(forged, ladder.play(forged)).status is ReceiptStatus.REFUSED


@pytest.mark.databases
def test_the_record_is_kept_as_the_store_writes_it(store: Store, job: Job) -> None:
    record = ladder.play(job)
    spread = json.dumps(json.loads(record), indent=4)
    assert store.games.report(job, spread).status is ReceiptStatus.ACCEPTED
    assert store.games.record(job.game_id) == record


def test_unknown_games_are_said(store: Store, job: Job) -> None:
    with pytest.raises(StoreError, match="no game 's1-1' was played"):
        store.games.record("s1-1")
    with pytest.raises(StoreError, match="there is no job 99"):
        store.games.report(structs.replace(job, id=99), ladder.play(job))
