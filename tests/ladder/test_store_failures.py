"""A store that is busy, full or away: refused in one line, nothing half done, and it goes on."""

from __future__ import annotations

import hashlib
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, func, select, text

from deepsea_ladder.errors import StoreDamaged, StoreError, StoreUnavailable
from deepsea_ladder.model import Job, Receipt, ReceiptStatus, StoredSeason
from deepsea_ladder.store import Database, Store, schema
from deepsea_ladder.store.columns import packed
from helpers import ladder
from helpers.counting import counted
from helpers.damage import damage
from helpers.killing import context
from helpers.postgres import Postgres

pytestmark = pytest.mark.databases

CONTENTS = ladder.to_play


@contextmanager
def _no_room(store: Store) -> Iterator[None]:
    """Let the file of a store grow no more."""

    def limit(connection: object, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]

    store.close()
    event.listen(store.database.engine, "connect", limit)
    try:
        yield
    finally:
        event.remove(store.database.engine, "connect", limit)
        store.close()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_full_disk_leaves_no_half_result_and_it_goes_on_when_there_is_room(
    store: Store, season: StoredSeason
) -> None:
    first, job = ladder.claim(store, season), ladder.claim(store, season)
    kept, record = ladder.play(first), ladder.play(job)
    store.games.report(first, kept)
    first_record = "UPDATE games SET record = :text WHERE seq = 1"
    ladder.write(store, first_record, text=b"x" * 3700)  # a page has no room for another one
    before = store.queue.counts(season)
    with _no_room(store):
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="the disk is full; nothing was changed"):
                store.games.report(job, record)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            ladder.submit(store, "eve", hashlib.shake_256().hexdigest(100_000))
        assert store.queue.counts(season).leased == before.leased
        assert store.ratings.last_seq() == 1
        assert len(store.bots.all()) == 4
    ladder.write(store, first_record, text=packed(kept.encode()))
    assert store.games.report(job, record) == Receipt(ReceiptStatus.ACCEPTED, seq=2)
    assert store.ratings.differences(season, records=True) == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_write_that_the_system_refuses_leaves_no_half_result(
    target: str, store: Store, season: StoredSeason
) -> None:
    job = ladder.claim(store, season)
    record = ladder.play(job)
    # How far the log of the database may still grow; at some length everything fits.
    for room in range(0, 200_000, 4096):
        process = context.Process(target=_report_with_room, args=(target, job, record, room))
        process.start()
        process.join()
        assert process.exitcode in (0, 3)
        if process.exitcode == 0:
            break
        assert store.ratings.last_seq() == 0
        assert store.ratings.differences(season) == []
    else:
        pytest.fail("it never fitted")
    assert room > 0
    assert store.games.report(job, record).status is ReceiptStatus.DUPLICATE
    assert store.ratings.differences(season, records=True) == []


def _report_with_room(target: str, job: Job, record: str, room: int) -> None:
    with Store.open(target) as store:
        log = Path(f"{target}-wal")
        size = log.stat().st_size if log.exists() else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
        try:
            store.games.report(job, record)
        except StoreUnavailable:
            raise SystemExit(3) from None


def test_a_writer_that_finds_it_busy_is_told_so(
    target: str, store: Store, season: StoredSeason
) -> None:
    impatient = Store(Database(target, busy_seconds=0.001))
    with impatient as other, store.database.write():
        with pytest.raises(StoreUnavailable, match=r"another .* keeps it busy; try again"):
            other.jobs.claim(season, "worker", 60)
        # Readers are not kept waiting.
        assert other.queue.counts(season).waiting == 4
    with Store.open(target) as other:
        assert ladder.claim(other, season).game_id == "s1-1"


def test_readers_see_a_snapshot_while_others_write(store: Store, season: StoredSeason) -> None:
    count = text("SELECT count(*) FROM tasks WHERE state = 'queued'")
    with store.database.read() as connection:
        assert connection.execute(count).scalar() == 4
        ladder.claim(store, season)
        assert connection.execute(count).scalar() == 4
    assert store.queue.counts(season).waiting == 3


def test_a_damaged_value_whose_error_is_kept_does_not_stop_the_clock_of_readers(
    tmp_path: Path,
) -> None:
    with Store.create(tmp_path / "ladder.db") as store:
        ladder.submit(store, "anna")
        ladder.submit(store, "ben")
        damage(tmp_path / "ladder.db", "UPDATE bots SET state = 'actve' WHERE name = 'anna'")
        states = select(schema.bots.c.state).order_by(schema.bots.c.id)
        # What logs and traces keep of an error keeps the result, too, of which one row was read.
        with pytest.raises(StoreDamaged) as kept, store.database.read() as connection:
            connection.execute(states).first()
        with Store.open(tmp_path / "ladder.db") as other:
            ladder.submit(other, "carl")
        with store.database.read() as connection:
            found = connection.execute(select(func.count()).select_from(schema.bots)).scalar()
    assert (found, kept.type) == (3, StoreDamaged)


def test_an_exception_undoes_the_whole_transaction(store: Store, season: StoredSeason) -> None:
    def fail() -> None:
        with store.database.write() as connection:
            connection.execute(text("DELETE FROM job_seats"))
            connection.execute(text("DELETE FROM jobs"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.queue.counts(season).waiting == 4


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_server_that_was_killed_is_away_and_then_back(
    store: Store, season: StoredSeason, postgres: Postgres
) -> None:
    job = ladder.claim(store, season)
    record = ladder.play(job)
    postgres.kill()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"^the ladder at postgresql\S+ "):
            store.games.report(job, record)
    postgres.start()
    assert store.games.report(job, record).status is ReceiptStatus.ACCEPTED
    assert store.ratings.differences(season) == []


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_connection_that_breaks_anywhere_in_a_report_can_be_tried_again(
    store: Store, season: StoredSeason, postgres: Postgres
) -> None:
    job = ladder.claim(store, season)
    record = ladder.play(job)
    receipt, number = None, 0
    while receipt is None:
        number += 1
        with _cut_before(store, number, postgres) as cut:
            try:
                receipt = store.games.report(job, record)
            except StoreUnavailable:
                assert cut
    assert number > 12
    assert receipt == Receipt(ReceiptStatus.ACCEPTED, seq=1)
    assert store.ratings.differences(season) == []


@contextmanager
def _cut_before(store: Store, number: int, postgres: Postgres) -> Iterator[list[bool]]:
    """Cut the server's end of a connection before statement `number`; whether it came so far."""
    cut: list[bool] = []
    count = 0

    def before(connection: object, *_: object) -> None:
        nonlocal count
        count += 1
        if count == number:
            cut.append(True)
            driver = connection.connection.driver_connection  # type: ignore[attr-defined]
            postgres.execute(f"SELECT pg_terminate_backend({driver.info.backend_pid}, 10000)")

    for name in ("before_cursor_execute", "commit"):
        event.listen(store.database.engine, name, before)
    try:
        yield cut
    finally:
        for name in ("before_cursor_execute", "commit"):
            event.remove(store.database.engine, name, before)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_commit_whose_answer_is_lost_counts_once(
    store: Store, season: StoredSeason, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ladder.claim(store, season)
    record = ladder.play(job)
    dialect = store.database.engine.dialect
    real, commits = dialect.do_commit, 0

    def lose_the_answer(connection: object) -> None:
        nonlocal commits
        commits += 1
        real(connection)  # type: ignore[arg-type]
        if commits == 2:  # the first ends the reading of the job
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(dialect, "do_commit", lose_the_answer)
        with pytest.raises(StoreUnavailable, match="server closed the connection"):
            store.games.report(job, record)
    assert store.games.report(job, record) == Receipt(ReceiptStatus.DUPLICATE, seq=1)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:hunter2@127.0.0.1:1/ladder",
        "postgres://anna:hunter2@127.0.0.1:1/ladder",
        "postgresql://127.0.0.1:1/ladder?user=anna&password=hunter2",
        "postgresql://?host=127.0.0.1&port=1&dbname=ladder&password=hunter2",
        "postgresql://anna:hunter2@/ladder?host=127.0.0.1:1",
        "postgresql://anna:x/hunter2@127.0.0.1:1/ladder?sslpassword=hunter2",
    ],
)
@pytest.mark.parametrize("act", [Store.open, Store.create])
def test_of_a_url_its_scheme_host_port_and_database_are_shown_alone(
    act: Callable[[str], Store], url: str
) -> None:
    with pytest.raises(
        StoreUnavailable, match=r"at postgresql://127\.0\.0\.1:1/ladder: "
    ) as refusal:
        act(url)
    assert not re.findall("hunter2|anna|\n", str(refusal.value))


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("anna:x@[::1]:1/ladder", "[::1]:1/ladder"),
        ("/ladder?host=/run/a:b&password=x", "[/run/a:b]/ladder"),
        ("/ladder?host=/run/x&port=7", "%2Frun%2Fx:7/ladder"),
        ("/ladder?host=a:1&host=b&password=x", "a:1,b/ladder"),
        ("/ladder?host=a,b&port=1,2", "a:1,b:2/ladder"),
        ("anna:x@host/ladder?dbname=other", "host/other"),
        ("", "/"),
    ],
)
def test_an_address_has_the_hosts_and_the_database_wherever_they_stand(
    options: str, shown: str
) -> None:
    with closing(Database(f"postgresql://{options}")) as database:
        assert str(database) == f"postgresql://{shown}"


@pytest.mark.parametrize(
    "target",
    [
        "postgresql//anna:hunter2@host/ladder",
        "postgresql:/anna:hunter2@host/ladder",
        "anna:hunter2@host/ladder",
        "host=host password=hunter2",
        "host=host password = hunter2",
        "anna:hunter2@host/ladder://",
        "mysql://anna:hunter2@host/ladder",
        "hunter2://host/ladder",
        "sqlite:///ladder?password=hunter2",
        "postgresql://anna:x@hunter2@host/ladder",
        "postgresql://anna:x@hunter2/x@host/ladder",
        "postgresql://anna:x@hunter2?x@host/ladder",
        "postgresql://anna/x:hunter2@host/ladder",
        "postgresql://anna:hunter2/ladder",
        "postgresql://anna:hunter2@host:l/ladder",
        "postgresql://anna@host/ladder?port=hunter2",
        "postgresql://anna:hunter2@host:1,host:2/ladder",
        "postgresql://anna:hunter2@host/ladder?nonsense=1",
        "postgresql://host/ladder?password=x&hunter2=1",
        "postgresql://host/ladder?password=hunter2&password=x",
        "postgresql://host/ladder?user=anna;password=hunter2",
        "postgresql://host/ladder?sslmode=require;password=hunter2",
        "postgresql://host/ladder;password=hunter2",
        "postgresql://host;password=hunter2/ladder",
    ],
)
@pytest.mark.parametrize("act", [Store.open, Store.create])
def test_a_mistyped_url_is_refused_without_a_word_of_it(
    act: Callable[[str], Store], target: str
) -> None:
    with pytest.raises(StoreError) as refusal:
        act(target)
    assert not re.findall("hunter2|nonsense|\n", str(refusal.value))
    assert "URL" in str(refusal.value)


def test_a_database_that_is_not_there_is_said(postgres: Postgres) -> None:
    with pytest.raises(StoreError, match=r"nowhere.*does not exist"):
        Store.open(postgres.url("nowhere"))


@pytest.mark.parametrize("mistake", [ValueError, TypeError, LookupError])
def test_a_mistake_of_this_program_is_no_reason_to_look_for_damage(
    store: Store, mistake: type[Exception]
) -> None:
    for transaction in (store.database.read, store.database.write):
        with counted(store) as nothing, transaction():
            pass
        with counted(store) as sent, pytest.raises(mistake, match="our own"), transaction():
            raise mistake("our own")
        assert sent == nothing
