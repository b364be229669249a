"""The last changes of games and closed seasons."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import AnalysisPlan
from deepsea_ladder.store import Store
from deepsea_ladder.store.counts import LastChanges
from helpers import ladder

pytestmark = pytest.mark.databases

CONTENTS = ladder.stocked


def play_one(store: Store, season_name: str = "s1") -> None:
    """Play a game."""
    season = store.seasons.get(season_name)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    job = ladder.claim(store, season)
    store.games.report(job, ladder.play(job))


def ask(store: Store, game_id: str) -> None:
    """Ask for an analysis of a game."""
    store.analyses.request(game_id, None, AnalysisPlan("steady", "{}"), USUAL_LIMITS)


def run_analysis(store: Store) -> None:
    """Make the analysis that is next."""
    lease = store.analyses.claim("a runner", 60)
    assert lease is not None
    assert store.analyses.finish(lease, "steady", "{}", USUAL_LIMITS)


SHOWN: dict[str, Callable[[Store], object]] = {
    "a version": lambda store: ladder.submit(store, "anna", "better"),
    "a bot that goes": lambda store: store.bots.withdraw("ben"),
    "a name": lambda store: store.authors.rename("anna-senior", "zoe", MACHINE),
    "a name that is forgotten": lambda store: store.authors.anonymise("ben-senior", MACHINE),
    "ratings made anew": lambda store: store.ratings.rewrite(store.seasons.get("s1")),
    "a season": lambda store: store.seasons.open(ladder.a_season("s3"), ladder.SEED),
    "a setting": lambda store: store.settings.change("bots", 6, MACHINE),
}
"""What pages of the past show, too."""


@pytest.mark.parametrize("change", SHOWN)
def test_what_everybody_sees_changes_games_and_closed_seasons(store: Store, change: str) -> None:
    play_one(store)
    store.seasons.close("s1")
    store.seasons.open(ladder.a_season("s2"), ladder.SEED)  # or no bots are taken in
    before = store.changes.of_game("s1-1"), store.changes.of_season("s1")
    SHOWN[change](store)
    after = store.changes.of_game("s1-1"), store.changes.of_season("s1")
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_a_game_that_is_played_changes_nothing_that_is_over(store: Store) -> None:
    play_one(store)
    store.seasons.close("s1")
    store.seasons.open(ladder.a_season("s2"), ladder.SEED)
    before = (
        store.changes.of_game("s1-1"),
        store.changes.of_season("s1"),
        store.changes.of_season("s1", analyses=True),
    )
    play_one(store, "s2")
    store.jobs.fail(ladder.claim(store, store.seasons.get("s2")), "the host was too busy")
    assert (
        store.changes.of_game("s1-1"),
        store.changes.of_season("s1"),
        store.changes.of_season("s1", analyses=True),
    ) == before


def test_a_season_that_is_open_or_not_there_is_not_over(store: Store) -> None:
    assert store.changes.of_season("s1") is None
    assert store.changes.of_season("nothing") is None
    store.seasons.close("s1")
    assert store.changes.of_season("s1") is not None


def test_an_analysis_changes_its_game_and_as_long_as_it_waits_what_is_before_it(
    store: Store,
) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    ladder.play_all(store, season)

    def changes() -> tuple[LastChanges, LastChanges]:
        return store.changes.of_game("s1-1"), store.changes.of_game("s1-2")

    seen = [changes()]
    for game_id in ("s1-2", "s1-1"):
        ask(store, game_id)
        seen.append(changes())
    for _ in range(2):
        run_analysis(store)
        seen.append(changes())
    first, second = (
        [one == other for one, other in pairwise(of)] for of in zip(*seen, strict=True)
    )
    assert first == [True, False, False, False]
    assert second == [False, False, False, True]


def test_a_closed_season_is_told_of_analyses_only_if_it_is_asked_for_them(store: Store) -> None:
    play_one(store)
    store.seasons.close("s1")
    before = store.changes.of_season("s1"), store.changes.of_season("s1", analyses=True)
    ask(store, "s1-1")
    assert store.changes.of_season("s1") == before[0]
    assert store.changes.of_season("s1", analyses=True) != before[1]
