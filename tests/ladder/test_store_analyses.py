"""Analyses in the store: asked for within limits, one of a game at a time, stored once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import func, select, update

from deepsea_ladder.errors import AnalysisError, LimitReached, NotOnLadder, StoreDamaged
from deepsea_ladder.limits import DAY_MS, RemoteLimits
from deepsea_ladder.model import AnalysisLease, AnalysisPlan, TaskState
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.submissions import an_author

QUEUED, RUNNING = TaskState.QUEUED, TaskState.RUNNING
DONE, FAILED = TaskState.DONE, TaskState.FAILED
PLAN = AnalysisPlan("steady-1", '{"precision":0.03}')
NEWER = AnalysisPlan("steady-2", PLAN.settings)
LIMITS = RemoteLimits()
TEXT = '{"format":"deepsea-analysis/1"}'


def four_games(store: Store) -> None:
    """Games s1-1 to s1-4; Ada and Bob have a bot each."""
    season = ladder.to_play(store)
    ladder.play_all(store, season)
    for name in ("Ada", "Bob"):
        an_author(store, name)


CONTENTS = four_games


def ask(
    store: Store,
    game: int,
    author: int | None = None,
    plan: AnalysisPlan = PLAN,
    limits: RemoteLimits = LIMITS,
) -> int:
    """Ask for the analysis of a game; its id."""
    return store.analyses.request(f"s1-{game}", author, plan, limits).id


def claim(store: Store, owner: str = "runner", seconds: float = 60) -> AnalysisLease:
    """Lease the next analysis, of which there has to be one."""
    lease = store.analyses.claim(owner, seconds)
    assert lease is not None
    return lease


def finish(store: Store, lease: AnalysisLease, text: str = TEXT) -> bool:
    """Store a result."""
    return store.analyses.finish(lease, PLAN.policy, text, LIMITS)


def number_of_rows(store: Store) -> int:
    """How often was asked for something new."""
    with store.database.read() as connection:
        return connection.execute(select(func.count()).select_from(schema.analyses)).scalar_one()


def age(store: Store, number: int, ms: int) -> None:
    """Let an analysis have been asked for so much earlier."""
    rows = schema.analyses
    older = update(rows).where(rows.c.id == number).values(created_at=rows.c.created_at - ms)
    ladder.write(store, older)


@pytest.mark.databases
def test_an_analysis_waits_runs_and_is_kept(
    store: Store, ada: int, another: Callable[[], Store]
) -> None:
    assert store.analyses.of_game("s1-1") == (None, None)
    asked = store.analyses.request("s1-1", ada, PLAN, LIMITS)
    assert (asked.state, asked.game_id, asked.ahead) == (QUEUED, "s1-1", 0)
    assert another().analyses.of_game("s1-1") == (None, asked)
    assert store.analyses.waiting() == 1
    lease = claim(store)
    assert (lease.id, lease.game_id, lease.attempt) == (asked.id, "s1-1", 1)
    assert lease.record == store.games.record("s1-1")
    assert lease.settings == PLAN.settings
    assert store.analyses.get(asked.id).state is RUNNING
    assert store.tasks.owners() == ["runner"]
    assert store.analyses.renew(lease, 60)
    assert store.analyses.waiting() == 0
    assert finish(store, lease)
    done, last = another().analyses.of_game("s1-1")
    assert done == last == store.analyses.get(asked.id)
    assert done is not None
    assert (done.state, done.policy) == (DONE, PLAN.policy)
    assert another().analyses.document("s1-1") == TEXT
    assert store.tasks.owners() == []
    assert store.analyses.queue() == []


def test_asking_again_is_the_same_analysis_in_every_state_and_costs_nothing(
    store: Store, ada: int, bob: int
) -> None:
    once = replace(LIMITS, analyses_per_day=1)
    first = ask(store, 1, ada, limits=once)
    assert ask(store, 1, ada, limits=once) == ask(store, 1, bob, limits=once) == first
    lease = claim(store)
    assert ask(store, 1, ada, limits=once) == first
    assert finish(store, lease)
    assert ask(store, 1, ada, limits=once) == ask(store, 1, None) == first
    assert number_of_rows(store) == 1
    assert ask(store, 2, bob, limits=once) != first


def test_one_that_was_made_by_an_older_policy_may_be_asked_for_anew(store: Store, ada: int) -> None:
    old = ask(store, 1, ada)
    assert finish(store, claim(store))
    new = ask(store, 1, ada, NEWER)
    assert new != old
    done, last = store.analyses.of_game("s1-1")
    assert (done and done.id, last and last.id) == (old, new)
    assert store.analyses.finish(claim(store), NEWER.policy, "{}", LIMITS)
    done, last = store.analyses.of_game("s1-1")
    assert done == last
    assert done is not None
    assert done.policy == NEWER.policy
    assert store.analyses.document("s1-1") == "{}"


def test_a_runner_with_a_newer_policy_says_so(store: Store) -> None:
    ask(store, 1)
    assert store.analyses.finish(claim(store), NEWER.policy, TEXT, LIMITS)
    done, _ = store.analyses.of_game("s1-1")
    assert done is not None
    assert done.policy == NEWER.policy


def test_one_that_failed_may_be_asked_for_again(store: Store, ada: int) -> None:
    first = ask(store, 1, ada)
    assert store.analyses.reject(claim(store), "the record\x1b[2J is bad")
    done, last = store.analyses.of_game("s1-1")
    assert done is None
    assert last is not None
    assert (last.state, last.reason) == (FAILED, r"the record\x1b[2J is bad")
    assert ask(store, 1, ada) != first


def test_only_games_that_have_ended_are_analysed(store: Store, ada: int) -> None:
    with pytest.raises(NotOnLadder, match="no game 's1-9' was played"):
        ask(store, 9, ada)


@pytest.mark.databases
def test_an_author_asks_so_often_in_a_day(store: Store, ada: int, bob: int) -> None:
    few = replace(LIMITS, analyses_per_day=2)
    first = ask(store, 1, ada, limits=few)
    ask(store, 2, ada, limits=few)
    with pytest.raises(LimitReached, match="the analysis of 2 games") as refused:
        ask(store, 3, ada, limits=few)
    assert refused.value.retry_after is not None
    assert 0 < refused.value.retry_after <= DAY_MS // 1000
    ask(store, 3, bob, limits=few)
    ask(store, 4, None, limits=replace(LIMITS, analyses_per_day=0))
    age(store, first, DAY_MS)
    assert number_of_rows(store) == 4
    assert store.analyses.reject(claim(store), "x")
    assert store.analyses.of_game("s1-4")[1] is not None
    ask(store, 4, ada, limits=few)


def test_the_queue_has_an_end(store: Store, ada: int) -> None:
    short = replace(LIMITS, analysis_queue=2)
    ask(store, 1, ada, limits=short)
    ask(store, 2, ada, limits=short)
    with pytest.raises(LimitReached, match="2 analyses wait already") as refused:
        ask(store, 3, None, limits=short)
    assert refused.value.retry_after
    claim(store)
    ask(store, 3, None, limits=short)


@pytest.mark.databases
def test_the_queue_goes_round_by_who_asked(store: Store, ada: int, bob: int) -> None:
    ids = [ask(store, game, author) for game, author in ((1, ada), (2, ada), (3, ada), (4, bob))]
    assert [one.id for one in store.analyses.queue()] == [ids[0], ids[3], ids[1], ids[2]]
    assert [store.analyses.get(one).ahead for one in ids] == [0, 2, 3, 1]
    assert claim(store).id == ids[0]
    assert [one.id for one in store.analyses.queue()] == [ids[0], ids[3], ids[1], ids[2]]
    assert [store.analyses.get(one).ahead for one in ids] == [0, 2, 3, 1]
    assert [claim(store).id for _ in range(3)] == [ids[3], ids[1], ids[2]]
    assert store.analyses.claim("runner", 60) is None


def test_one_can_be_claimed_out_of_turn(store: Store) -> None:
    ask(store, 1)
    second = ask(store, 2)
    lease = store.analyses.claim("here", 60, second)
    assert lease is not None
    assert lease.id == second
    assert store.analyses.claim("here", 60, second) is None


def test_a_result_that_is_too_large_is_not_stored(store: Store) -> None:
    number = ask(store, 1)
    lease = claim(store)
    with pytest.raises(AnalysisError, match=f"has {len(TEXT)} bytes; 9 are the most"):
        store.analyses.finish(lease, PLAN.policy, TEXT, replace(LIMITS, analysis_bytes=9))
    assert store.analyses.get(number).state is RUNNING


@pytest.mark.databases
def test_every_change_changes_its_game(store: Store, ada: int) -> None:
    seen = [store.changes.of_game("s1-1")]

    def changed() -> bool:
        seen.append(store.changes.of_game("s1-1"))
        return seen[-1] > seen[-2]

    ask(store, 1, ada)
    assert changed()
    ask(store, 1, ada)
    assert not changed()
    claim(store)
    assert changed()
    store.analyses.hand_back("runner")
    assert changed()
    store.analyses.fail(claim(store), "x")
    assert changed()
    lease = claim(store)
    assert changed()
    store.analyses.renew(lease, 60)
    assert not changed()
    finish(store, lease)
    assert changed()


def test_a_game_with_a_damaged_record_keeps_no_other_from_being_analysed(store: Store) -> None:
    damaged, sound = ask(store, 1), ask(store, 2)
    ladder.write(store, "UPDATE games SET record = :record WHERE seq = 1", record=b"x\0")
    assert claim(store).id == sound
    set_aside = store.analyses.get(damaged)
    assert set_aside.state is FAILED
    assert set_aside.reason.startswith("it cannot be read: table games, row 1: the record of s1-1")
    assert "a record is damaged" in set_aside.reason


def test_a_damaged_result_is_said_to_be_so(store: Store) -> None:
    ask(store, 1)
    finish(store, claim(store))
    ladder.write(store, update(schema.analyses).values(document=b"junk"))
    with pytest.raises(StoreDamaged, match="analysis 1 is damaged"):
        store.analyses.document("s1-1")
