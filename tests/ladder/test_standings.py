"""Standings from plain rows."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.rating.totals import RatingTotals, SeatResult
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.standings import (
    HeadToHead,
    SeatLine,
    StandingRow,
    by_seat,
    head_to_head,
    standings,
)


def row(
    bot: str, mu: float = 25.0, sigma: float = 1.0, games: int = 10, **sums: int
) -> StandingRow:
    return StandingRow(bot, "ada", 1, RatingTotals(Rating(mu, sigma), games=games, **sums))


def seat(bot: int, placement: int, points: int = 0, faults: int = 0) -> SeatResult:
    return SeatResult(bot, points, placement, decisions=10, faults=faults, forfeit=None)


GAMES = [
    [seat(1, 1, 30), seat(2, 2, 20), seat(3, 2, 20)],
    [seat(3, 1, 12), seat(1, 3, 0, faults=2), seat(2, 2, 8)],
    [seat(2, 2, 4), seat(1, 1, 9)],
    [seat(2, 1, 4), seat(3, 2, 3)],
]


def test_a_line_says_what_the_row_adds_up_to() -> None:
    tally = RatingTotals(
        Rating(30.0, 2.0),
        games=8,
        wins=3,
        placements=16,
        points=100,
        decisions=400,
        faults=4,
        forfeits=1,
        last_seq=77,
        last_at=1234,
    )
    (line,) = standings([StandingRow("otter", "ada", 2, tally, earlier=Rating(28.5, 3.0))])
    assert line._asdict() == {
        "rank": 1,
        "bot": "otter",
        "author": "ada",
        "version": 2,
        "rating": 24.0,
        "mu": 30.0,
        "low": 26.0,
        "high": 34.0,
        "games": 8,
        "wins": 3,
        "mean_placement": 2.0,
        "mean_points": 12.5,
        "fault_rate": 0.01,
        "forfeits": 1,
        "trend": 1.5,
        "last_played": 1234,
    }


def test_ranks_follow_the_conservative_rating() -> None:
    rows = [row("bold", 30.0, 4.0), row("sure", 26.0, 1.0), row("weak", 20.0, 0.5)]
    assert [(line.rank, line.bot) for line in standings(rows)] == [
        (1, "sure"), (2, "weak"), (3, "bold"),
    ]  # fmt: skip


def test_equal_ratings_share_a_rank_and_go_by_name() -> None:
    rows = [row("b"), row("c", 20.0), row("a"), row("d", 19.0)]
    assert [(line.rank, line.bot) for line in standings(rows)] == [
        (1, "a"), (1, "b"), (3, "c"), (4, "d"),
    ]  # fmt: skip


def test_who_has_not_played_has_no_rank_and_comes_last() -> None:
    rows = [row("new", 25.0, 8.0, games=0), row("bad", 1.0, 3.0)]
    played, waiting = standings(rows)
    assert (played.bot, played.rank) == ("bad", 1)
    assert (waiting.bot, waiting.rank, waiting.mean_placement) == ("new", None, None)
    assert (waiting.mean_points, waiting.fault_rate, waiting.last_played) == (None, None, None)


def test_faults_stand_beside_the_skill() -> None:
    clean, faulty = row("clean", decisions=100), row("faulty", decisions=100, faults=50, forfeits=9)
    lines = standings([clean, faulty])
    assert [line.rank for line in lines] == [1, 1]
    assert [line.fault_rate for line in lines] == [0.0, 0.5]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 9), st.integers(0, 3)), max_size=20))
@settings(deadline=None)
def test_ranks_are_those_of_a_competition(bots: list[tuple[float, float, int]]) -> None:
    lines = standings([row(str(i), *bot) for i, bot in enumerate(bots)])
    ranked = [line for line in lines if line.rank is not None]
    assert len(ranked) == sum(games > 0 for _, _, games in bots)
    for line in ranked:
        assert line.rank == 1 + sum(other.rating > line.rating for other in ranked)


def test_head_to_head() -> None:
    assert head_to_head(1, GAMES) == {2: HeadToHead(3, 2, 0, 1), 3: HeadToHead(2, 1, 0, 1)}
    assert head_to_head(2, GAMES) == {1: HeadToHead(3, 1, 0, 2), 3: HeadToHead(3, 1, 1, 1)}
    assert head_to_head(2, GAMES)[3].share == 0.5
    assert head_to_head(9, GAMES) == {}


@given(
    st.lists(
        st.permutations(range(4)).flatmap(
            lambda bots: st.lists(st.integers(1, 4), min_size=4, max_size=4).map(
                lambda places: [seat(bot, place) for bot, place in zip(bots, places, strict=True)]
            )
        ),
        max_size=6,
    )
)
@settings(deadline=None)
def test_what_one_won_the_other_lost(games: Sequence[Sequence[SeatResult]]) -> None:
    there, back = head_to_head(0, games).get(1), head_to_head(1, games).get(0)
    if there is None or back is None:
        assert there is back is None
    else:
        assert there == HeadToHead(back.games, back.worse, back.level, back.better)


def test_by_seat_tells_table_sizes_and_seats_apart() -> None:
    assert by_seat(1, GAMES) == [
        SeatLine(2, None, 1, 1, 1.0, 9.0, 0),
        SeatLine(2, 1, 1, 1, 1.0, 9.0, 0),
        SeatLine(3, None, 2, 1, 2.0, 15.0, 2),
        SeatLine(3, 0, 1, 1, 1.0, 30.0, 0),
        SeatLine(3, 1, 1, 0, 3.0, 0.0, 2),
    ]
    assert by_seat(9, GAMES) == []


@pytest.mark.parametrize("bot", [1, 2, 3])
def test_seats_add_up_to_all_seats(bot: int) -> None:
    lines = by_seat(bot, GAMES)
    for total in (line for line in lines if line.seat is None):
        parts = [line for line in lines if line.players == total.players and line.seat is not None]
        assert sum(line.games for line in parts) == total.games
        assert sum(line.wins for line in parts) == total.wins
        assert sum(line.faults for line in parts) == total.faults
