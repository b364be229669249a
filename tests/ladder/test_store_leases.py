"""Leases of all kinds of tasks: who may renew, finish, fail or give back, and who not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from sqlalchemy import select

from deepsea_arena.status import ladder_status
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.model import KINDS as RULES
from deepsea_ladder.model import AnalysisPlan, Job, TaskKind
from deepsea_ladder.store import Store, schema
from deepsea_ladder.store.database import find_damage
from deepsea_ladder.store.tasks import TaskLine
from helpers import comparisons, ladder
from helpers.damage import damage
from helpers.people import new_game
from helpers.submissions import LIMITS, add, an_author
from helpers.tiers import daily

PLAN = AnalysisPlan("steady-1", "{}")


class Queue(NamedTuple):
    """What runners lease one by one. Longer renewals differ from the first lease."""

    kind: TaskKind
    claim: Callable[[str, float], Any]
    deeds: Mapping[str, Callable[[Any], object]]


def games(store: Store) -> Queue:
    """The jobs of a season."""
    season, jobs = store.seasons.get("s1"), store.jobs
    return Queue(
        TaskKind.GAME,
        lambda owner, seconds: ladder.claim(store, season, owner, seconds),
        {
            "renew": lambda job: jobs.renew([job], 1000),
            "finish": lambda job: store.games.report(job, ladder.play(job)),
            "fail": lambda job: jobs.fail(job, "void"),
            "give back": lambda job: jobs.hand_back(job.owner, job),
        },
    )


def checks(store: Store) -> Queue:
    """What authors submitted."""
    submissions, bundle = store.submissions, replace(ladder.a_bundle("one"), name="mine")
    deeds = {
        "renew": lambda lease: submissions.progress(lease, 1000, 1, 3),
        "finish": lambda lease: submissions.accept(lease, bundle, LIMITS, 5, has_played=True),
        "fail": lambda lease: submissions.fail(lease, "void", 5),
    }
    return _line(TaskKind.CHECK, submissions, deeds)


def analyses(store: Store) -> Queue:
    """What was asked for."""
    finish = partial(store.analyses.finish, policy=PLAN.policy, text="{}", limits=LIMITS)
    return _line(TaskKind.ANALYSIS, store.analyses, {"finish": finish})


def verdicts(store: Store) -> Queue:
    """New versions that are compared."""
    finish = partial(comparisons.add, store, verdict="better")
    return _line(TaskKind.COMPARISON, store.comparisons, {"finish": finish})


def steps(store: Store) -> Queue:
    """Games of people."""
    finish = partial(store.person_games.finish, record="{}")
    return _line(TaskKind.STEP, store.person_games, {"finish": finish})


def _line(
    kind: TaskKind, line: TaskLine[Any], deeds: Mapping[str, Callable[[Any], object]]
) -> Queue:
    usual: dict[str, Callable[[Any], object]] = {
        "renew": lambda lease: line.renew(lease, 1000),
        "fail": lambda lease: line.fail(lease, "void"),
        "give back": lambda lease: line.hand_back(lease.owner),
    }
    return Queue(kind, line.claim, {**usual, **deeds})


def _again(queue: Queue, owner: str) -> object:
    """A lease that expired before `owner` leased the same."""
    late = queue.claim("ann", -1)
    queue.claim(owner, 60)
    return late


def _after(queue: Queue, deed: str) -> object:
    """A lease that its owner has ended."""
    lease = queue.claim("ann", 60)
    queue.deeds[deed](lease)
    return lease


LEASES: Mapping[str, Callable[[Queue], object]] = {
    "present": lambda queue: queue.claim("ann", 60),
    "expired": lambda queue: queue.claim("ann", -1),
    "former of the same owner": lambda queue: _again(queue, "ann"),
    "taken over by another": lambda queue: _again(queue, "bob"),
    "of another owner": lambda queue: structs.replace(queue.claim("ann", 60), owner="bob"),
    "given back": lambda queue: _after(queue, "give back"),
    "failed": lambda queue: _after(queue, "fail"),
    "finished": lambda queue: _after(queue, "finish"),
}
EVERYTHING = {"renew", "finish", "fail", "give back"}
# The first valid result of a game counts, whoever plays it now.
OF_GAMES = {
    "present": EVERYTHING,
    "expired": EVERYTHING,
    "former of the same owner": {"finish"},
    "taken over by another": {"finish"},
    "given back": {"finish"},
    "failed": {"finish"},
}
# An owner gives back all leases at once, the present one of the same row too.
BESIDE_GAMES = {
    "present": EVERYTHING,
    "expired": EVERYTHING,
    "former of the same owner": {"give back"},
}


def _contents(store: Store) -> None:
    """A played game and three to be played, and one task of each other kind."""
    season = ladder.to_play(store)
    job = ladder.claim(store, season)
    store.games.report(job, ladder.play(job))
    add(store, an_author(store, "Ada"), "one")
    store.analyses.request("s1-1", None, PLAN, LIMITS)
    ladder.submit(store, "anna", "anna, once more")
    new_game(store)


CONTENTS = _contents


QUEUES = (games, checks, analyses, verdicts, steps)
# A lost lease in every queue, the others in that of the games: all are the rows of one table.
EVERY_TIME = {
    *product(QUEUES, ("present", "taken over by another"), EVERYTHING),
    *product([games], LEASES, EVERYTHING),
}


@pytest.mark.parametrize(
    ("queue", "lease", "deed"), daily(product(QUEUES, LEASES, sorted(EVERYTHING)), EVERY_TIME)
)
def test_a_lease_is_changed_by_who_has_it_and_by_no_former_or_foreign_one(
    store: Store, queue: Callable[[Store], Queue], lease: str, deed: str
) -> None:
    ours = queue(store)
    held: Any = LEASES[lease](ours)
    tasks = schema.tasks.c
    row = select(schema.tasks).where(tasks.kind == ours.kind, tasks.subject == held.id)
    seen = []
    for turn in range(2):
        if turn:
            ours.deeds[deed](held)
        with store.database.read() as connection:
            seen.append(connection.execute(row).one())
    allowed = OF_GAMES if queue is games else BESIDE_GAMES
    assert (seen[0] != seen[1]) == (deed in allowed.get(lease, ()))


NOT_UTF8 = "CAST(x'ff' AS TEXT)"
DAMAGE: Mapping[Callable[[Store], Queue], str] = {
    games: "DELETE FROM job_seats WHERE job_id",
    checks: f"UPDATE submissions SET bot = {NOT_UTF8} WHERE id",
    analyses: f"UPDATE analyses SET settings = {NOT_UTF8} WHERE id",
    verdicts: f"UPDATE comparisons SET seed = {NOT_UTF8} WHERE id",
    steps: "UPDATE person_games SET seed = 'no hex' WHERE id",
}


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)  # in a file that was damaged
@pytest.mark.parametrize("queue", QUEUES)
def test_a_task_that_cannot_be_read_is_set_aside_and_stops_nobody(
    store: Store, queue: Callable[[Store], Queue]
) -> None:
    ours = queue(store)
    held = ours.claim("ann", 60)
    ours.deeds["give back"](held)
    assert store.database.path is not None
    damage(store.database.path, f"{DAMAGE[queue]} = {held.id}")
    for _ in range(2):
        next_one = ours.claim("ann", 60) if ours.kind is not TaskKind.GAME else _claimed(store)
        assert next_one is None or next_one.id != held.id
        store.tasks.hand_back("ann")
        tasks = schema.tasks.c
        row = select(schema.tasks).where(tasks.kind == ours.kind, tasks.subject == held.id)
        with store.database.read() as connection:
            task = connection.execute(row).one()
        assert task.state is RULES[ours.kind].failed
        assert task.words.startswith("it cannot be read: ")
        # Who looks at the ladder or tries again is not stopped, either.
        assert ladder_status(store).counts.waiting
        assert store.jobs.requeue_all() == (1 if ours.kind is TaskKind.GAME else 0)


LISTS: Mapping[str, tuple[Callable[[Store], Sequence[object]], tuple[str, ...]]] = {
    "submissions": (lambda store: store.submissions.of_author(_ada(store), 9), ("bot", "log")),
    "submissions in line": (lambda store: store.submissions.queue(), ("bot", "log")),
    "comparisons": (
        lambda store: store.comparisons.of_season(store.seasons.get("s1")),
        ("seed", "standing"),
    ),
    "person_games": (
        lambda store: store.person_games.of_person(_ada(store), None, 9),
        ("seed", "decisions"),
    ),
}
"""Lists of an author or a season, and columns that they select."""


def _ada(store: Store) -> int:
    return store.authors.id_of("Ada")


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)  # in a file that was damaged
@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_the_rows_that_can_be_read(store: Store, name: str) -> None:
    listed, columns = LISTS[name]
    ada = an_author(store, "Ada")
    comparisons.claim(store)  # which plans all of the season
    store.settings.change("play_tables_of_person", 9, MACHINE)
    for number in range(2):
        add(store, ada, f"text {number}")
        new_game(store, author_id=ada, game_id=f"person-{number}")
    whole = listed(store)
    assert whole
    assert store.database.path is not None
    table = name.split()[0]
    for column in columns:
        newest = (
            f"UPDATE {table} SET {column} = {NOT_UTF8} WHERE id = (SELECT max(id) FROM {table})"
        )
        damage(store.database.path, newest)
        assert len(listed(store)) == len(whole) - 1
        assert re.search(f"table {table}, row [0-9]+: {column} is ", find_damage(store.database)[0])
        damage(store.database.path, newest.replace(NOT_UTF8, "'[]'"))


def _claimed(store: Store) -> Job | None:
    jobs = store.jobs.claim(store.seasons.get("s1"), "ann", 60)
    return jobs[0] if jobs else None
