"""What pages cost the database: statements and transactions of a page that is made anew."""

from __future__ import annotations

import pytest

from helpers import ladder
from helpers.counting import counted
from helpers.site import a_site, get
from helpers.world import World


@pytest.mark.parametrize(
    ("url", "statements"), [("/", 4), ("/?best_of_author=1", 4), ("/bots/ben", 14), ("/pairs", 5)]
)
def test_a_page_reads_one_state_of_the_ladder_by_few_statements(
    world: World, url: str, statements: int
) -> None:
    store = world.service.store
    ladder.submit(store, "ben", "better", "ben-senior")
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4))
    ladder.play_all(store, season, {"s1-10": ["ben"]})
    site = a_site(world.service)
    assert get(site, url).status == 200
    with counted(store) as sent:
        assert get(site, url).status == 200
    assert len(sent.statements) <= statements, "\n".join(sent.statements)
    assert sent.transactions == 1
