"""Tournaments: schedules that cover what they promise, and brackets that end."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_ladder.errors import PairingError
from deepsea_ladder.pairing import LineUp
from deepsea_ladder.rating import SeatResult
from deepsea_ladder.tournament import Score, elimination, gauntlet, round_robin, scores

seat_counts = st.integers(2, 6)


def meetings_of(tables: Sequence[LineUp]) -> Counter[tuple[int, int]]:
    return Counter(pair for table in tables for pair in combinations(sorted(table.version_ids), 2))


def seat(bot: int, placement: int, points: int = 0) -> SeatResult:
    return SeatResult(bot, points, placement, decisions=1, faults=0, forfeit=None)


# Round robin


@pytest.mark.parametrize("bots", range(2, 10))
@pytest.mark.parametrize("meetings", [1, 2])
def test_with_two_seats_every_pair_meets_exactly(bots: int, meetings: int) -> None:
    tables = round_robin(range(bots), 2, b"seed", meetings)
    assert meetings_of(tables) == dict.fromkeys(combinations(range(bots), 2), meetings)


def test_with_two_seats_a_round_has_everybody_once() -> None:
    tables = round_robin(range(8), 2, b"seed")
    for start in range(0, len(tables), 4):
        bots = [bot for table in tables[start : start + 4] for bot in table.version_ids]
        assert sorted(bots) == [*range(8)]


@given(seat_counts, st.integers(0, 9), st.integers(1, 3), st.binary(max_size=4))
def test_every_pair_meets_often_enough(seats: int, more: int, meetings: int, seed: bytes) -> None:
    bots = seats + more
    tables = round_robin(range(bots), seats, seed, meetings)
    assert all(len(set(table.version_ids)) == seats for table in tables)
    met = meetings_of(tables)
    assert all(met[pair] >= meetings for pair in combinations(range(bots), 2))
    # Never as bad as a table for each pair, beyond a few.
    assert len(tables) <= 3 + meetings * bots * (bots - 1) / (1.2 * (seats - 1))


def test_in_a_round_robin_nobody_plays_much_more_than_the_others() -> None:
    counts = Counter(
        bot for table in round_robin(range(20), 4, b"seed") for bot in table.version_ids
    )
    assert max(counts.values()) - min(counts.values()) <= 4


@pytest.mark.parametrize("seats", [2, 4])
def test_the_seed_decides_the_order(seats: int) -> None:
    first = round_robin(range(9), seats, b"a")
    assert first == round_robin(range(9), seats, b"a")
    assert first != round_robin(range(9), seats, b"b")


# Gauntlet


@given(seat_counts, st.integers(0, 12), st.integers(1, 3), st.binary(max_size=4))
def test_the_challenger_meets_everybody(seats: int, more: int, meetings: int, seed: bytes) -> None:
    others = range(1, seats + more)
    tables = gauntlet(0, others, seats, seed, meetings)
    for table in tables:
        assert table.version_ids[0] == 0
        assert len(set(table.version_ids)) == seats
    met = Counter(bot for table in tables for bot in table.version_ids[1:])
    assert all(met[bot] >= meetings for bot in others)
    fewest = -(-len(others) * meetings // (seats - 1))
    assert fewest <= len(tables) <= fewest + meetings


# Elimination


@given(seat_counts, st.integers(2, 40))
def test_a_round_has_everybody_once_and_leaves_fewer(seats: int, entrants: int) -> None:
    bots = [*range(entrants)]
    while len(bots) > 1:
        tables, byes = elimination(bots, seats)
        playing = [bot for table in tables for bot in table.version_ids]
        assert sorted([*playing, *byes]) == bots
        assert all(2 <= len(table.version_ids) <= seats for table in tables)
        lengths = [len(table.version_ids) for table in tables]
        assert max(lengths) - min(lengths) <= 1
        assert max(byes, default=-1) < min(playing)
        bots = sorted([*byes, *(max(table.version_ids) for table in tables)])
    assert bots == [entrants - 1]
    assert elimination(bots, seats) == ([], set())


@pytest.mark.parametrize(
    ("entrants", "seats", "tables"),
    [
        (4, 2, [(0, 3), (1, 2)]),
        (5, 2, [(3, 4)]),
        (6, 2, [(2, 5), (3, 4)]),
        (4, 4, [(0, 1, 2, 3)]),
        (5, 4, [(0, 3, 4), (1, 2)]),
        (8, 4, [(0, 3, 4, 7), (1, 2, 5, 6)]),
        (7, 3, [(0, 5, 6), (1, 4), (2, 3)]),
    ],
)
def test_high_seeds_are_kept_apart(
    entrants: int, seats: int, tables: list[tuple[int, ...]]
) -> None:
    found, _ = elimination(range(entrants), seats)
    assert [table.version_ids for table in found] == tables


@pytest.mark.parametrize(
    ("bots", "seats", "complaint"),
    [
        ((1, 2, 1), 2, "takes part in a tournament once"),
        ((1,), 2, "a table of 2 needs as many bots, and there are 1"),
        ((1, 2, 3), 4, "a table of 4 needs as many bots, and there are 3"),
    ],
)
def test_schedules_that_cannot_be(bots: tuple[int, ...], seats: int, complaint: str) -> None:
    with pytest.raises(PairingError, match=complaint):
        round_robin(bots, seats, b"")
    with pytest.raises(PairingError, match=complaint):
        gauntlet(bots[0], bots[1:], seats, b"")


@pytest.mark.parametrize(
    ("entrants", "seats", "complaint"),
    [((), 2, "there are 0"), ((1, 1), 2, "once"), ((1, 2), 1, "two seats or more")],
)
def test_eliminations_that_cannot_be(entrants: tuple[int, ...], seats: int, complaint: str) -> None:
    with pytest.raises(PairingError, match=complaint):
        elimination(entrants, seats)


# Scores


def test_scores_count_the_share_of_the_others_that_was_beaten() -> None:
    games = [
        [seat(1, 1, 30), seat(2, 2, 20), seat(3, 2, 20), seat(4, 4, 0)],
        [seat(2, 1, 10), seat(1, 2, 5)],
    ]
    assert scores(games) == [
        Score(2, 2, 0.75, 1, 15.0),
        Score(1, 2, 0.5, 1, 17.5),
        Score(3, 1, 0.5, 0, 20.0),
        Score(4, 1, 0.0, 0, 0.0),
    ]


@given(st.lists(st.permutations([1, 2, 3, 4, 5]), min_size=1, max_size=5))
def test_scores_do_not_depend_on_the_order_of_the_games(games: list[list[int]]) -> None:
    played = [[seat(bot, placement) for bot, placement in enumerate(game, 1)] for game in games]
    assert scores(played) == scores(played[::-1])
    assert sum(line.share for line in scores(played)) == pytest.approx(2.5)
