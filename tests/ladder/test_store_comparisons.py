"""Comparisons in the store: planned once, played in turns within budgets, each block kept once."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.limits import HOUR_MS
from deepsea_ladder.model import TaskState
from deepsea_ladder.season import VerdictSettings
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.comparisons import add, claim, shown, to_compare

CONTENTS = to_compare
QUEUED, RUNNING, FAILED = TaskState.QUEUED, TaskState.RUNNING, TaskState.FAILED
DECIDED, SPENT, ENDED = TaskState.DECIDED, TaskState.SPENT, TaskState.ENDED


def state(store: Store, number: int = 1) -> TaskState:
    """The state of a comparison."""
    return store.comparisons.get(number).state


def another_season(store: Store, **verdicts: Any) -> None:
    """Open a newer season."""
    settings = VerdictSettings(**verdicts)
    store.seasons.open(replace(ladder.a_season("s2"), verdicts=settings), ladder.SEED)


def test_a_version_is_compared_with_its_former_one_and_with_the_panel(store: Store) -> None:
    lease = claim(store)
    assert lease.label == "anna v2 against anna v1"
    assert shown(store) == [
        "anna v2: anna v1, running, 0 blocks",
        "anna v2: Ben, queued, 0 blocks",
        "anna v2: cleo, queued, 0 blocks",
        "dan v1: Ben, queued, 0 blocks",
        "dan v1: cleo, queued, 0 blocks",
    ]
    found = store.comparisons.of_season(store.seasons.get("s1"))
    assert len({one.seed for one in found}) == 2  # one luck for each version
    with pytest.raises(NotOnLadder, match="there is no comparison 9"):
        store.comparisons.get(9)


def test_what_comes_later_is_planned_when_it_is_there(store: Store) -> None:
    claim(store)
    ladder.submit(store, "nobody")
    store.bots.withdraw("dan")
    ladder.submit(store, "ben", "ben, once more")
    assert store.comparisons.due()
    claim(store)
    assert shown(store)[5:] == [
        "anna v2: nobody, queued, 0 blocks",
        "ben v2: ben v1, running, 0 blocks",
    ]
    found = store.comparisons.of_season(store.seasons.get("s1"))
    assert [one.other.label for one in found if one.panel == "Ben"] == ["ben v1", "ben v1"]


@pytest.mark.parametrize(
    ("change", "planned"),
    [
        (lambda store: store.bots.disable("cleo", "it mines"), "v1 Ben"),
        (lambda store: store.bots.withdraw("anna"), ""),
        (lambda store: store.seasons.close("s1"), ""),
        (lambda store: store.seasons.set_paused("s1", MACHINE, paused=True), ""),
        (lambda store: store.settings.change("verdict_seconds", 0, MACHINE), ""),
        (lambda store: another_season(store, panel=("dan",)), "v1 dan"),
    ],
)
def test_what_is_planned_follows_bots_and_the_newest_season(
    store: Store, change: Callable[[Store], object], planned: str
) -> None:
    change(store)
    store.comparisons.claim("runner", 60)
    found = [
        one.panel or one.other.label.removeprefix("anna ")
        for season in store.seasons.all()
        for one in store.comparisons.of_season(season)
        if one.version.bot == "anna"
    ]
    assert " ".join(found) == planned


def test_without_a_sandbox_only_bots_that_play_are_in_the_panel(store: Store) -> None:
    settings = VerdictSettings(panel=("cleo", "dan"))
    store.seasons.open(
        replace(ladder.a_season("s2"), isolation="process", verdicts=settings), ladder.SEED
    )
    claim(store)
    season = store.seasons.get("s2")
    panel = {one.panel for one in store.comparisons.of_season(season)}
    assert panel == {"", "dan"}


def test_blocks_are_kept_in_order_and_each_once(store: Store) -> None:
    lease = claim(store)
    for number in (0, 1, 1, 3):  # block 2 was void
        assert add(store, lease, number, lead=0.25, faults=2)
    assert store.comparisons.hand_back("runner") == 1
    assert not add(store, lease, 4)
    found = store.comparisons.get(lease.id)
    assert (found.cpu_ms, found.standing.blocks, found.standing.lead) == (3000, 4, 0.25)
    store.bots.withdraw("dan")
    for _ in range(2):
        claim(store)
    again = claim(store)
    assert (again.id, again.attempt) == (lease.id, 2)
    assert again.kept == (b'{"block":0}', b'{"block":1}', b'{"block":3}')
    assert again.cpu_ms == 597_000


def test_authors_take_turns_and_what_has_used_least_comes_first(store: Store) -> None:
    labels: list[str] = []
    for _ in range(4):
        lease = claim(store)
        add(store, lease, len(labels), cpu_ms=3000 if len(labels) < 1 else 1000)
        store.comparisons.hand_back("runner")
        labels.append(lease.label)
        _advance(store, 5)
    assert labels == [
        "anna v2 against anna v1",
        "dan v1 against ben v1",
        "anna v2 against ben v1",
        "dan v1 against cleo v1",
    ]


def _advance(store: Store, ms: int) -> None:
    """Let all that has happened be so much longer ago."""
    blocks, tasks = schema.comparison_blocks.c, schema.tasks.c
    ladder.write(
        store,
        update(schema.comparison_blocks).values(at=blocks.at - ms),
        update(schema.tasks).values(began_at=tasks.began_at - ms),
    )


def test_a_verdict_ends_it_for_good(store: Store) -> None:
    lease = claim(store)
    assert add(store, lease, 0)
    assert add(store, lease, 1, cpu_ms=10**6, verdict="better")
    assert add(store, lease, 1, verdict="better")  # a repetition after the store was away
    assert not add(store, lease, 2, verdict="worse")
    assert not store.comparisons.renew(lease, 60)
    assert store.comparisons.fail(lease, "too late") is None
    found = store.comparisons.get(lease.id)
    assert (found.state, found.standing.verdict, found.standing.blocks) == (DECIDED, "better", 2)


def test_a_newer_version_ends_the_comparisons_of_the_older_one(store: Store) -> None:
    lease = claim(store)
    assert add(store, lease, 0)
    ladder.submit(store, "anna", "anna, a third time")
    assert not add(store, lease, 1)
    assert state(store) is ENDED
    claim(store)
    lines = [line for line in shown(store) if line.startswith("anna")]
    assert lines == [
        "anna v2: anna v1, ended, 1 blocks",
        "anna v2: Ben, ended, 0 blocks",
        "anna v2: cleo, ended, 0 blocks",
        "anna v3: anna v2, queued, 0 blocks",
        "anna v3: Ben, queued, 0 blocks",
        "anna v3: cleo, queued, 0 blocks",
    ]


def test_a_version_has_so_much_cpu_time_for_all_its_comparisons(store: Store) -> None:
    another_season(store, panel=("ben",))
    store.settings.change("verdict_seconds", 3, MACHINE)
    lease = claim(store)
    assert lease.cpu_ms == 3000
    assert add(store, lease, 0, cpu_ms=2900)
    assert state(store) is RUNNING
    assert add(store, lease, 1, cpu_ms=200)
    assert [state(store, number) for number in (1, 2, 3)] == [SPENT, SPENT, QUEUED]
    assert store.comparisons.get(2).reason == "the 3 s that a version gets are used"


def test_a_comparison_has_so_many_blocks(store: Store) -> None:
    another_season(store, blocks=2)
    lease = claim(store)
    assert add(store, lease, 0)
    assert add(store, lease, 1)
    assert state(store) is SPENT
    assert store.comparisons.get(1).reason == "the 2 blocks that the season gives it are played"


def test_an_hour_has_so_much_cpu_time_for_all(store: Store) -> None:
    another_season(store, panel=("ben",))
    store.settings.change("verdict_seconds_per_hour", 3, MACHINE)
    lease = claim(store)
    assert add(store, lease, 0, cpu_ms=2000)
    assert claim(store).cpu_ms == 1000
    assert add(store, lease, 1, cpu_ms=1000)
    store.comparisons.hand_back("runner")
    assert not store.comparisons.due()
    assert store.comparisons.claim("runner", 60) is None
    _advance(store, HOUR_MS)
    assert store.comparisons.due()
    assert claim(store).cpu_ms == 3000


def test_attempts_without_a_block_are_counted_and_blocks_begin_anew(store: Store) -> None:
    another_season(store)
    states: list[StrEnum | None] = []
    for attempt in range(9):
        lease = claim(store)
        if attempt == 4:
            add(store, lease, 0)
        states.append(store.comparisons.fail(lease, "the worker\x1b died"))
    assert states == [QUEUED] * 8 + [FAILED]
    assert store.comparisons.get(1).reason == "the worker\\x1b died"


def test_a_lost_runners_lease_goes_to_another_one(store: Store) -> None:
    another_season(store)
    lease = claim(store, seconds=-1)
    assert store.comparisons.due()
    other = claim(store, "another")
    assert not add(store, lease, 0)
    assert add(store, other, 0)
    assert store.comparisons.get(1).reason == ""


def test_damage_is_named_and_stops_nobody(store: Store) -> None:
    another_season(store)
    add(store, claim(store), 0)
    store.comparisons.hand_back("runner")
    ladder.write(store, update(schema.comparison_blocks).values(content=b"?"))
    lease = store.comparisons.claim("another", 60)
    assert lease is None or lease.id != 1
    set_aside = store.comparisons.get(1)
    assert set_aside.state is FAILED
    assert "it cannot be read: block 0 of comparison 1 is damaged" in set_aside.reason
    ladder.write(store, update(schema.comparisons).values(standing='{"a newer field":1}'))
    assert store.comparisons.get(1).standing.blocks == 0
    ladder.write(store, update(schema.comparisons).values(standing="{"))
    with pytest.raises(StoreDamaged, match="comparison 1 is damaged"):
        store.comparisons.get(1)
