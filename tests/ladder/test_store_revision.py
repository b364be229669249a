"""The revision of a store, and stores that are opened to be read only."""

from __future__ import annotations

import pytest

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import StoreError
from deepsea_ladder.store import Store
from helpers import ladder

pytestmark = pytest.mark.databases

CONTENTS = ladder.stocked


def test_whatever_changes_pages_changes_the_revision(store: Store) -> None:
    season = store.seasons.get("s1")
    seen = [store.revision()]
    assert store.revision() == seen[0]

    def changed() -> bool:
        seen.append(store.revision())
        return seen[-1] not in seen[:-1]

    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    job = ladder.claim(store, season)
    store.games.report(job, ladder.play(job))
    assert changed()
    store.jobs.fail(ladder.claim(store, season), "the host was too busy")
    assert changed()
    ladder.submit(store, "eve")
    assert changed()
    store.bots.withdraw("eve")
    assert changed()
    store.bots.enable("eve")
    assert changed()
    store.ratings.rewrite(season)
    assert changed()
    store.seasons.open(ladder.a_season("s2"), ladder.SEED)
    assert changed()
    store.seasons.close("s2")
    assert changed()
    store.settings.change("bots", 6, MACHINE)
    assert changed()


def test_a_store_that_is_opened_to_be_read_refuses_to_be_written(store: Store, target: str) -> None:
    with Store.open(target, read_only=True) as reader:
        assert reader.revision() == store.revision()
        before = reader.revision()
        for write in (
            lambda: ladder.submit(reader, "mallory"),
            lambda: reader.bots.withdraw("anna"),
            lambda: reader.seasons.close("s1"),
        ):
            with pytest.raises(StoreError, match="was opened to be read only"):
                write()
        assert reader.revision() == before
        if store.database.path is not None:  # and the database itself refuses
            with pytest.raises(StoreError), reader.database.read() as connection:
                connection.exec_driver_sql("DELETE FROM audit")
        ladder.submit(store, "eve")
        assert reader.revision() != before
