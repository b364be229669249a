"""The PostgreSQL server of the tests: reachable from here alone, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from helpers.postgres import Postgres, find_binaries


def test_it_has_no_network_and_no_privileges(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url("postgres")) as connection:
        row = connection.execute("SELECT current_setting('listen_addresses')").fetchone()
        assert row == ("",)
        status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
    uid = next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
    assert uid != "0"


def test_it_comes_back_after_a_kill(postgres: Postgres) -> None:
    postgres.execute("CREATE TABLE kept (id integer)")
    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        postgres.execute("SELECT 1")
    postgres.start()
    postgres.execute("DROP TABLE kept")


def test_nothing_of_it_remains(postgres: Postgres) -> None:
    binaries = find_binaries()
    assert binaries is not None
    with Postgres(binaries) as other:
        folder = other._folder
        assert folder.exists()
    assert not folder.exists()
