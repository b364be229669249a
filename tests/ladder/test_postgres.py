"""The PostgreSQL server of the tests: reachable from here alone, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from helpers.postgres import Postgres


def test_it_has_no_network_and_no_privileges(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url("postgres")) as connection:
        row = connection.execute("SELECT current_setting('listen_addresses')").fetchone()
        assert row == ("",)
        status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
    uid = next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
    assert uid != "0"


def test_a_database_has_again_what_was_kept(postgres: Postgres) -> None:
    name = postgres.new_database()
    postgres.execute(
        "CREATE TABLE a (id serial PRIMARY KEY); CREATE TABLE b (a integer REFERENCES a);"
        "INSERT INTO a DEFAULT VALUES; INSERT INTO b VALUES (1)",
        name,
    )
    postgres.keep(name)
    with psycopg.connect(postgres.url(name)) as open_still:
        open_still.execute("DELETE FROM b")
        postgres.execute("INSERT INTO a DEFAULT VALUES; INSERT INTO b VALUES (2)", name)
        postgres.restore(name)
        with pytest.raises(psycopg.OperationalError):
            open_still.execute("SELECT 1")
    with psycopg.connect(postgres.url(name)) as connection:
        rows = connection.execute("SELECT a.id, b.a, nextval('a_id_seq') FROM a, b").fetchall()
    assert rows == [(1, 1, 2)]


# Each run ends like this; another server only to see it takes as long as ten tests.
@pytest.mark.release
@pytest.mark.needs("postgresql")
def test_nothing_of_it_remains(postgres: Postgres) -> None:
    with Postgres() as other:
        folder = other._folder
        assert folder.exists()
    assert not folder.exists()
