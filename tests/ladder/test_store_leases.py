"""Leases of games, checks and analyses: who may renew, finish, fail or give back, and who not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from sqlalchemy import Table, select

from deepsea_ladder.model.games import AnalysisPlan
from deepsea_ladder.model.tasks import TaskKind
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.submissions import LIMITS, add, an_author
from helpers.tiers import daily

PLAN = AnalysisPlan("steady-1", "{}")


class Queue(NamedTuple):
    """What runners lease one by one. Longer renewals differ from the first lease."""

    kind: TaskKind
    rows: Table
    claim: Callable[[str, float], Any]
    deeds: Mapping[str, Callable[[Any], object]]


def games(store: Store) -> Queue:
    """The jobs of a season."""
    season, jobs = store.seasons.get("s1"), store.jobs
    return Queue(
        TaskKind.GAME,
        schema.jobs,
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
    return Queue(
        TaskKind.CHECK,
        schema.tasks,
        submissions.claim,
        {
            "renew": lambda lease: submissions.progress(lease, 1000, 1, 3),
            "finish": lambda lease: submissions.accept(lease, bundle, LIMITS, 5),
            "fail": lambda lease: submissions.fail(lease, "void", 5),
            "give back": lambda lease: submissions.hand_back(lease.owner),
        },
    )


def analyses(store: Store) -> Queue:
    """What was asked for."""
    return Queue(
        TaskKind.ANALYSIS,
        schema.tasks,
        store.analyses.claim,
        {
            "renew": lambda lease: store.analyses.renew(lease, 1000),
            "finish": lambda lease: store.analyses.finish(lease, PLAN.policy, "{}", LIMITS),
            "fail": lambda lease: store.analyses.fail(lease, "void"),
            "give back": lambda lease: store.analyses.hand_back(lease.owner),
        },
    )


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
    """A played game and three to be played, a submission, and an analysis that was asked for."""
    season = ladder.to_play(store)
    job = ladder.claim(store, season)
    store.games.report(job, ladder.play(job))
    add(store, an_author(store, "Ada"), "one")
    store.analyses.request("s1-1", None, PLAN, LIMITS)


CONTENTS = _contents


QUEUES = (games, checks, analyses)
# A lost lease in every queue, the others in that of the games: all are the rows of `leases.py`.
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
    is_held = schema.jobs.c.id == held.id
    if ours.rows is schema.tasks:
        is_held = (schema.tasks.c.kind == ours.kind) & (schema.tasks.c.subject == held.id)
    row = select(ours.rows).where(is_held)
    seen = []
    for turn in range(2):
        if turn:
            ours.deeds[deed](held)
        with store.database.read() as connection:
            seen.append(connection.execute(row).one())
    allowed = OF_GAMES if queue is games else BESIDE_GAMES
    assert (seen[0] != seen[1]) == (deed in allowed.get(lease, ()))
