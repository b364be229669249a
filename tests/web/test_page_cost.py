"""The cost of a page that is made anew: statements, transactions, and modules of a request."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from unittest.mock import Mock

import pytest
from sqlalchemy import insert, select

from deepsea_ladder.model import TaskKind, TaskState
from deepsea_ladder.store import Store, schema
from deepsea_ladder.store import submissions as store_submissions
from helpers import ladder
from helpers.counting import counted
from helpers.site import a_site, get
from helpers.world import ANNA, World


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


def test_the_page_to_submit_reads_the_submissions_that_it_shows_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, person = world.service.store, world.person(ANNA)
    assert person.get("/submit").status == 200
    read = Mock(wraps=store_submissions._submission_of_row)
    monkeypatch.setattr(store_submissions, "_submission_of_row", read)
    add_refused(store, 30)
    with counted(store) as sent:
        assert person.get("/submit").text.count('href="/submissions/') == 20
    assert read.call_count == 20
    lists = [text for text in sent.statements if "submissions.log" in text]
    assert len(lists) == 1, "\n".join(lists)


def add_refused(store: Store, number: int) -> None:
    """Add copies of the first submission, which were refused."""
    with store.database.write() as connection:
        (row,) = connection.execute(select(schema.submissions)).mappings()
        check = schema.tasks.c.kind == TaskKind.CHECK
        (task,) = connection.execute(select(schema.tasks).where(check)).mappings()
        for n in range(2, number + 2):
            copy = {**row, "id": n, "key": str(n)}
            connection.execute(insert(schema.submissions).values(copy))
            state = {"subject": n, "state": TaskState.REFUSED, "change": task["change"] + n}
            connection.execute(insert(schema.tasks).values({**task, **state}))


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
