"""Strikes in the store: who is taken out, by which result, with which reason."""

from __future__ import annotations

import pytest

from deepsea_ladder.model import BotState, Receipt, TaskState, VoidReceipt
from deepsea_ladder.store import Store
from helpers import ladder

CONTENTS = ladder.stocked


def test_a_bot_that_is_not_there_again_and_again_is_suspended_with_the_reason(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 8))

    def play(*crashing: str) -> Receipt:
        job = ladder.claim(store, season)
        return store.games.report(job, ladder.play(job, crashing))

    play("dan")
    play("dan")
    play()  # once it was there: the count starts again
    play("dan")
    play("dan")
    (dan,) = [one for one in store.bots.strikes([season])[season.id] if one.bot == "dan"]
    assert (dan.absences, dan.spoiled) == (2, 4)
    assert play("dan", "cleo").suspended == ("dan",)
    out = store.bots.get("dan")
    assert out.state is BotState.SUSPENDED
    assert out.reason == (
        "3 games in a row without it, the last s1-6; fix it and submit it again, or enable it"
    )
    (cleo,) = store.bots.strikes([season])[season.id]
    assert (cleo.bot, cleo.absences) == ("cleo", 1)
    cancelled = store.queue.listed(season, TaskState.CANCELLED)
    assert [job.game_id for job in cancelled] == ["s1-7", "s1-8"]

    store.bots.enable("dan")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
    assert play("dan").suspended == ()
    assert store.ratings.differences(season, records=True) == []
    entry = next(e for e in store.ratings.entries(season) if e.version.bot == "dan")
    assert (entry.tally.forfeits, entry.tally.faults, entry.tally.games) == (6, 6, 7)


def test_crashes_of_a_former_version_do_not_count_against_the_new_one(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    jobs = store.jobs.claim(season, "ann", 60, [None] * 4)
    ladder.submit(store, "dan", "better")
    for job in jobs:
        store.games.report(job, ladder.play(job, {"dan"}))
    assert store.bots.get("dan").state is BotState.ACTIVE
    assert store.bots.strikes([season])[season.id] == []


def test_a_bot_that_forfeits_by_its_faults_is_suspended_though_it_is_there(store: Store) -> None:
    """One that timed out at every decision cost a ladder twelve of thirteen games."""
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 12))
    played: list[Receipt] = []
    while store.bots.get("dan").state is BotState.ACTIVE:
        job = ladder.claim(store, season)
        nonsense = {} if job.game_id == "s1-2" else {"dan": 3}
        played.append(store.games.report(job, ladder.play(job, faulty=nonsense)))
    assert len(played) == 6
    assert played[-1].suspended == ("dan",)
    assert store.bots.get("dan").reason == (
        "5 of its last 10 games it forfeited, or had two faults in, the last s1-6; fix it and "
        "submit it again, or enable it"
    )
    assert store.bots.strikes([season])[season.id] == []


def test_a_bot_with_faults_in_every_game_is_suspended_though_it_forfeits_none(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 5))
    faulty = {"dan": 2, "ben": 1}
    for _ in range(4):
        job = ladder.claim(store, season)
        assert store.games.report(job, ladder.play(job, faulty=faulty)).suspended == ()
    job = ladder.claim(store, season)
    assert store.games.report(job, ladder.play(job, faulty=faulty)).suspended == ("dan",)


@pytest.mark.databases
def test_games_that_become_void_while_one_bot_is_asked_are_its_strikes(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 20))

    def play(voids: str) -> VoidReceipt:
        """The next job is void while the bot is asked, and is then played through."""
        job = ladder.claim(store, season)
        seat = [version.bot for version in job.seats].index(voids)
        receipt = store.jobs.fail(job, "the host was too busy", seat)
        again = ladder.claim(store, season)
        assert (again.game_id, again.void_seats) == (job.game_id, (seat,))
        store.games.report(again, ladder.play(again))
        return receipt

    play("anna")  # the host's troubles meet others, too
    for _ in range(4):
        assert play("dan") == VoidReceipt(TaskState.QUEUED)
    assert [(one.bot, one.voids) for one in store.bots.strikes([season])[season.id]] == [
        ("anna", 1),
        ("dan", 4),
    ]
    job = ladder.claim(store, season)
    seat = [version.bot for version in job.seats].index("dan")
    receipt = store.jobs.fail(job, "the host was too busy", seat)
    assert receipt == VoidReceipt(TaskState.CANCELLED, ("dan",))
    assert store.bots.get("dan").reason == (
        "5 of its last 20 games became void while it was asked, the last s1-6; fix it and submit "
        "it again, or enable it"
    )


def test_void_games_without_anybody_asked_are_nobodys(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 10))
    for job in store.jobs.claim(season, "worker", 60, [None] * 10):
        assert store.jobs.fail(job, "the worker ended").suspended == ()
    assert store.bots.strikes([season])[season.id] == []


DAY_MS = 86_400_000


@pytest.mark.databases
@pytest.mark.parametrize("step", [DAY_MS, -DAY_MS])
def test_strikes_do_not_depend_on_a_clock_that_was_wrong(store: Store, step: int) -> None:
    season = store.seasons.get("s1")

    def play(*crashing: str) -> Receipt:
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
        job = ladder.claim(store, season)
        return store.games.report(job, ladder.play(job, crashing))

    def set_clock() -> None:
        """Let everything that was stored have happened under another clock."""
        bots = "UPDATE bots SET changed_at = changed_at + :step, created_at = created_at + :step"
        ladder.write(store, bots, step=step)
        ladder.write(store, "UPDATE bot_versions SET created_at = created_at + :step", step=step)
        ladder.write(store, "UPDATE games SET played_at = played_at + :step", step=step)
        ladder.write(store, "UPDATE attempts SET ended_at = ended_at + :step", step=step)

    set_clock()
    assert [play("dan").suspended for _ in range(3)] == [(), (), ("dan",)]
    set_clock()
    store.bots.enable("dan")
    assert play("dan").suspended == ()
    set_clock()
    assert [play("dan").suspended for _ in range(2)] == [(), ("dan",)]
