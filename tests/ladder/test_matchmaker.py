"""What the pairing is given: the same for everybody who looks at the same store."""

from __future__ import annotations

import pytest

from deepsea_ladder.errors import PairingError
from deepsea_ladder.scheduling.pairing import Matchmaker
from deepsea_ladder.store import Store
from helpers import ladder


def test_the_same_store_gives_the_same_games_to_old_and_new_runners(store: Store) -> None:
    season = ladder.stocked(store, bots=6, seats=(2, 3, 4))
    old = Matchmaker(store, season)
    for _ in range(5):
        number = store.queue.last_number(season)
        rotations = old(number, 1)
        assert rotations == Matchmaker(store, season)(number, 1) == old(number, 1)
        store.jobs.add(season, rotations, after=number)
        ladder.play_all(store, season)


def test_every_bot_sits_everywhere_in_a_rotation(store: Store) -> None:
    season = ladder.stocked(store, bots=6)
    for rotation in Matchmaker(store, season)(0, 8):
        for seat in range(4):
            assert len({lineup[seat] for lineup in rotation}) == 4


def test_it_gives_as_many_games_as_are_wanted(store: Store) -> None:
    season = ladder.stocked(store, bots=6, seats=(2, 4))
    for wanted in (1, 2, 3, 9):
        assert sum(map(len, Matchmaker(store, season)(0, wanted))) >= wanted


def test_only_active_bots_in_their_newest_version_play(store: Store) -> None:
    season = ladder.stocked(store, bots=6)
    former = ladder.ids(store)
    ladder.submit(store, "anna", "better")
    store.bots.withdraw("ben")
    store.bots.disable("cleo", "it snores")
    rotations = Matchmaker(store, season)(0, 40)
    playing = {version for rotation in rotations for lineup in rotation for version in lineup}
    names = {
        bot.current.id for bot in store.bots.all() if bot.name in ("anna", "dan", "eve", "finn")
    }
    assert playing == names
    assert former[0] not in playing
    store.bots.withdraw("dan")
    with pytest.raises(PairingError):
        Matchmaker(store, season)(0, 1)


def test_bots_of_one_author_do_not_meet(store: Store) -> None:
    season = ladder.stocked(store, bots=3, seats=(2,))
    ladder.submit(store, "anton", author="anna-senior")
    anna, anton = (store.bots.get(name).current.id for name in ("anna", "anton"))
    for rotation in Matchmaker(store, season)(0, 60):
        for lineup in rotation:
            assert set(lineup) != {anna, anton}


def test_who_came_late_and_who_waits_are_told_apart(store: Store) -> None:
    season = ladder.stocked(store, bots=4)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 3)
    ladder.submit(store, "eve")
    eve = store.bots.get("eve").current.id
    matchmaker = Matchmaker(store, season)
    matchmaker(store.queue.last_number(season), 1)
    waited = {candidate.bot: candidate.waited for candidate in matchmaker.candidates()}
    assert waited == dict.fromkeys(ladder.ids(store), 0)
    others = [version for version in ladder.ids(store) if version != eve]
    store.jobs.add(season, ladder.rotations(others, 4) * 2)
    matchmaker(store.queue.last_number(season), 1)
    candidates = {candidate.bot: candidate for candidate in matchmaker.candidates()}
    assert candidates[eve].waited == 2
    assert {candidates[version].waited for version in others} == {0}
    assert {candidates[version].pending for version in others} == {20}
