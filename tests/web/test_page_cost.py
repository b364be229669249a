"""What a page that is made anew costs: statements and transactions of the database, and the modules
of this program through which a request goes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

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


@pytest.mark.parametrize(("url", "most"), [("/", 24), ("/bots/anna", 30)])
def test_a_request_goes_through_few_modules(world: World, url: str, most: int) -> None:
    assert get(a_site(world.service), url).status == 200  # what is kept is made
    modules: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        package = next((part for part in path.parts if part.startswith("deepsea_")), None)
        if event == "call" and package and path.suffix == ".py":
            modules.add(f"{package}/{path.name} in {path.parent.name}")

    site = a_site(world.service)
    threading.setprofile(note)  # of the threads that make pages, too
    sys.setprofile(note)
    try:
        answer = get(site, url)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert answer.status == 200
    assert 15 < len(modules) <= most, sorted(modules)
