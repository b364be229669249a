"""Whatever ends at whatever moment: of no kind is a task lost, doubled or stuck.

The table: each kind of task, at each moment of it, with a runner that is killed, a worker that
dies, and a connection to the store that is cut, also when the answer to a commit is lost with it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deepsea_ladder.store import Store
from helpers.killing import CutAt, cut_after_commit, cut_before, killed_at
from helpers.kinds import TASKS, InlineWorker, contents, do_what_waits
from helpers.postgres import Postgres
from helpers.tiers import daily

pytestmark = pytest.mark.parametrize("task", TASKS)
CONTENTS = contents
CUTS = [(cut_before, 5), (cut_after_commit, 1)]


@pytest.mark.slow
@pytest.mark.databases
@pytest.mark.parametrize("step", daily([1, 5], [5]))
def test_a_runner_may_be_killed_before_any_statement(
    target: str, store: Store, task: str, step: int
) -> None:
    kind, number, killed = TASKS[task], 0, True
    while killed:
        kind.ask(store, number)
        killed = killed_at(1 + number * step, do_what_waits, target, task) is None
        do_what_waits(store, task)
        kind.check(store, number)
        number += 1
    assert number * step > 12
    kind.whole(store)


def test_a_worker_may_die_at_any_event(store: Store, task: str) -> None:
    kind, number, died = TASKS[task], 0, True
    while died:
        kind.ask(store, number)
        worker = InlineWorker(kind.steps, dies_at=number)
        do_what_waits(store, task, worker)
        died = worker.events > number
        kind.check(store, number)
        number += 1
    kind.whole(store)


@pytest.fixture
def end(kind: str, request: pytest.FixtureRequest) -> Callable[[int], object] | None:
    """End a process of the database's server; None if there is no server."""
    if kind == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("postgres")
    return lambda pid: server.execute(f"SELECT pg_terminate_backend({pid}, 60000)")


@pytest.mark.parametrize(
    ("cut_at", "step"),
    daily(
        [(cut_before, 1), (cut_before, 5), (cut_after_commit, 1)],
        [(cut_before, 5), (cut_after_commit, 1)],
    ),
)
def test_a_connection_may_be_cut_at_any_statement_and_after_any_commit(
    store: Store, task: str, cut_at: CutAt, step: int, end: Callable[[int], object] | None
) -> None:
    kind, number, happened = TASKS[task], 0, True
    while happened:
        kind.ask(store, number)
        with cut_at(store.database.engine, 1 + number * step, end) as cut:
            do_what_waits(store, task)
        happened = cut.happened
        store.close()  # the first use of a connection that is gone says so
        kind.check(store, number)
        number += 1
    assert number * step > 5
    kind.whole(store)
