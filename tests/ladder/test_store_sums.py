"""Sums over games are those that one gets by walking through them."""

from __future__ import annotations

from itertools import permutations

import pytest

from deepsea_ladder.model.games import StoredSeason
from deepsea_ladder.standings import HeadToHead, SeatLine
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


def _walked(store: Store, season: StoredSeason) -> dict[tuple[int, int], HeadToHead]:
    found: dict[tuple[int, int], HeadToHead] = {}
    for game in store.history.outcomes(season):
        for own, other in permutations(game.seats, 2):
            one = HeadToHead(
                1,
                own.placement < other.placement,
                own.placement == other.placement,
                own.placement > other.placement,
            )
            key = own.version_id, other.version_id
            found[key] = found.get(key, HeadToHead()).plus(one)
    return found


def test_opponents_are_those_at_its_tables(store: Store, season: StoredSeason) -> None:
    walked = _walked(store, season)
    for version in ladder.ids(store):
        assert store.sums.opponents(season, version) == {
            other: meeting for (one, other), meeting in walked.items() if one == version
        }
    assert store.sums.opponents(season, 99) == {}


def test_pairs_are_counted_once_and_seen_from_both_sides(
    store: Store, season: StoredSeason
) -> None:
    walked = _walked(store, season)
    seq, meetings = store.sums.pairs(season)
    assert seq == 12
    assert meetings == {pair: one for pair, one in walked.items() if pair[0] < pair[1]}
    for (one, other), meeting in meetings.items():
        assert meeting.turned == walked[other, one]
        assert meeting.share + meeting.turned.share == pytest.approx(1.0)


def test_pairs_since_a_game_are_what_was_missing(store: Store, season: StoredSeason) -> None:
    before, _ = store.sums.pairs(season)
    assert store.sums.pairs(season, before) == (before, {})
    first, last = ladder.ids(store)[0], ladder.ids(store)[-1]
    store.jobs.add(season, ladder.rotations([first, last], 2))
    ladder.play_all(store, season)
    seq, meetings = store.sums.pairs(season, before)
    assert (seq, {pair: meeting.games for pair, meeting in meetings.items()}) == (
        before + 4,  # two games of another season came between
        {(first, last): 2},
    )


def test_seats_tell_table_sizes_apart_and_add_up(store: Store, season: StoredSeason) -> None:
    anna, *_, eve = ladder.ids(store)
    lines = store.sums.seats(season, anna)
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
        for game in store.history.outcomes(season)
        for seat in game.seats
        if seat.version_id == eve and len(game.seats) == 3
    ]
    whole = next(line for line in store.sums.seats(season, eve) if line.players == 3)
    assert whole == SeatLine(
        3,
        None,
        len(own),
        sum(seat.placement == 1 for seat in own),
        sum(seat.placement for seat in own) / len(own),
        sum(seat.points for seat in own) / len(own),
        sum(seat.faults for seat in own),
    )
    assert store.sums.seats(season, 99) == []
