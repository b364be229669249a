"""Strangers see nothing of a season under embargo, whatever they read; the operator sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepsea_ladder.errors import SeasonError, StoreError
from deepsea_ladder.model.games import GameFilter, StoredSeason
from deepsea_ladder.store import Store
from helpers import ladder

pytestmark = pytest.mark.databases

FAR: int = 4_102_444_800_000
"""A time in the year 2100."""


def _contents(store: Store) -> None:
    """Two games of a season that all may see, and two of one under embargo, with a crash."""
    open_ = ladder.stocked(store, bots=2, seats=(2,))
    cup = store.seasons.open(ladder.a_season("cup", seats=(2,)), ladder.SEED, "{}", FAR)
    for season in (open_, cup):
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2))
        ladder.play_all(store, season, {"cup-1": {"ben"}})


CONTENTS = _contents


@pytest.fixture
def public(target: str, store: Store) -> Iterator[Store]:
    """The same ladder, as strangers may see it."""
    with Store.open(target, public=True) as seen:
        yield seen


def _everything(store: Store) -> dict[str, object]:
    """What pages are made of."""
    seasons: list[StoredSeason] = store.seasons.all()
    return {
        "seasons": [season.name for season in seasons],
        "games": [game.game_id for game in store.history.games()],
        "newest": [game.game_id for game in store.history.latest(9)],
        "of ben": [game.game_id for game in store.history.latest(9, wanted=GameFilter(bot="ben"))],
        "since": [game.game_id for game in store.history.since(0, 9)],
        "logs": sorted(seq for seq, _ in store.logs.of_bot("ben")),
    }


def test_a_season_under_embargo_is_not_there(store: Store, public: Store) -> None:
    assert _everything(store)["games"] == ["s1-1", "s1-2", "cup-1", "cup-2"]
    seen = _everything(public)
    assert (seen["seasons"], seen["games"]) == (["s1"], ["s1-1", "s1-2"])
    assert "cup" not in repr(seen)
    for read in (
        lambda: public.seasons.get("cup"),
        lambda: public.history.get("cup-1"),
        lambda: public.games.record("cup-1"),
        lambda: public.logs.of_game("cup-1"),
    ):
        with pytest.raises(StoreError) as refused:
            read()
        # The same words as for what never was, so that nobody can ask for it by its name.
        assert "cup" in str(refused.value)
        assert "s1" in str(refused.value) or "was played" in str(refused.value)


def test_an_embargo_that_is_over_hides_nothing(store: Store, public: Store) -> None:
    assert [season.name for season in public.seasons.embargoed()] == ["cup"]
    ladder.write(store, "UPDATE seasons SET embargo_until = 1 WHERE name = 'cup'")
    assert public.seasons.embargoed() == []
    assert _everything(public) == _everything(store)
    assert public.games.record("cup-1") == store.games.record("cup-1")


def test_an_embargo_ends_in_the_future(store: Store) -> None:
    with pytest.raises(SeasonError, match="ends in the future"):
        store.seasons.open(ladder.a_season("late"), ladder.SEED, "{}", 1)
    assert "late" not in {season.name for season in store.seasons.all()}
