"""Sums over games are those that one gets by walking through them."""

from __future__ import annotations

import shutil
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.backup import differences
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.standings import OpponentLine, PairCell, SeatLine
from deepsea_ladder.store import Store
from helpers import ladder

pytestmark = pytest.mark.databases


def _contents(store: Store) -> None:
    """Games at tables of many sizes, with a crash, and some of another season."""
    ladder.many_sizes(store, {"s1-2": {"ben"}})
    other = store.seasons.open(ladder.a_season("s2", seats=(2,)), ladder.SEED)
    store.jobs.add(other, ladder.rotations(ladder.ids(store)[:2], 2))
    ladder.play_all(store, other)


CONTENTS = _contents


def _meetings(store: Store, season: StoredSeason) -> dict[tuple[int, int], list[float]]:
    """What each game was for a version against another: 1 better, 0.5 level, 0 worse."""
    games: dict[tuple[int, int], list[float]] = {}
    for seats in store.history.results_by_game(season).values():
        for own, other in permutations(seats, 2):
            ahead, level = own.placement < other.placement, own.placement == other.placement
            pair = games.setdefault((own.version_id, other.version_id), [])
            pair.append(ahead + 0.5 * level)
    return games


def test_opponents_are_those_at_its_tables(store: Store, season: StoredSeason) -> None:
    names = {bot.current.id: bot.name for bot in store.bots.all()}
    meetings = _meetings(store, season)
    for version in ladder.ids(store):
        lines, count = store.sums.opponents(season, version, 100)
        assert count == len(lines)
        assert {line.bot: line for line in lines} == {
            names[other]: OpponentLine(
                bot=names[other],
                version=1,
                games=len(games),
                better=games.count(1),
                level=games.count(0.5),
                worse=games.count(0),
                share=sum(games) / len(games),
            )
            for (own, other), games in meetings.items()
            if own == version
        }
        assert lines == sorted(lines, key=lambda line: (-line.games, line.bot))
        most_often, of_all = store.sums.opponents(season, version, 2)
        assert [line.games for line in most_often] == [line.games for line in lines[:2]]
        assert of_all == count
    assert store.sums.opponents(season, 99, 100) == ([], 0)


def test_pairs_are_seen_from_both_sides(store: Store, season: StoredSeason) -> None:
    meetings = _meetings(store, season)
    for versions in (ladder.ids(store), ladder.ids(store)[:3]):
        assert store.sums.pairs(season, versions) == {
            pair: PairCell(games=len(games), share=sum(games) / len(games))
            for pair, games in meetings.items()
            if {*pair} <= {*versions}
        }


def test_seats_tell_table_sizes_apart_and_add_up(store: Store, season: StoredSeason) -> None:
    anna, *_, eve = ladder.ids(store)
    lines, _ = store.sums.seats(season, anna)
    assert [(line.players, line.seat, line.games) for line in lines] == [
        (2, None, 4), (2, 0, 2), (2, 1, 2),
        (4, None, 4), (4, 0, 1), (4, 1, 1), (4, 2, 1), (4, 3, 1),
    ]  # fmt: skip
    for total in (line for line in lines if line.seat is None):
        parts = [line for line in lines if line.players == total.players and line.seat is not None]
        assert sum(line.wins for line in parts) == total.wins
        assert sum(line.faults for line in parts) == total.faults
    own = [
        seat
        for seats in store.history.results_by_game(season).values()
        for seat in seats
        if seat.version_id == eve and len(seats) == 3
    ]
    of_eve, _ = store.sums.seats(season, eve)
    whole = next(line for line in of_eve if line.players == 3)
    assert whole == SeatLine(
        3,
        None,
        len(own),
        sum(seat.placement == 1 for seat in own),
        sum(seat.placement for seat in own) / len(own),
        sum(seat.points for seat in own) / len(own),
        sum(seat.faults for seat in own),
    )
    assert store.sums.seats(season, 99) == ([], 0)


STEPS = st.tuples(
    st.sampled_from(["play", "play", "play", "fail", "new", "out", "rewrite"]),
    st.permutations(range(5)),
    st.integers(2, 4),
)


@given(steps=st.lists(STEPS, min_size=3, max_size=9))
@settings(max_examples=3)
def test_sums_are_those_of_the_games_after_any_history(
    steps: list[tuple[str, list[int], int]], pattern: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = shutil.copy(pattern, tmp_path_factory.mktemp("history") / "ladder.db")
    with Store.open(file) as store:
        seasons = [ladder.stocked(store, bots=5, seats=(2, 3, 4))]
        seasons.append(store.seasons.open(ladder.a_season("s2", seats=(2, 3, 4)), ladder.SEED))
        for number, (what, order, size) in enumerate(steps):
            season, bot = seasons[order[0] % 2], ladder.NAMES[order[1]]
            if what == "rewrite":
                store.ratings.rewrite(season)
            elif what == "new":
                ladder.submit(store, bot, f"version {number}")
            elif what == "out":
                store.bots.withdraw(bot)
                store.bots.enable(bot)
            else:
                chosen = [ladder.ids(store)[place] for place in order[:size]]
                store.jobs.add(season, ladder.rotations(chosen, size))
                if what == "fail":
                    store.jobs.fail(ladder.claim(store, season), "the host was too busy")
                ladder.play_all(store, season, {f"s1-{order[2]}": [bot]})
        assert differences(store) == []
        played = [season.games for season in store.seasons.all()]
        assert sum(played) == store.ratings.last_seq()
