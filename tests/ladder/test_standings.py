"""Standings of rated versions."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from deepsea_ladder.gaussian import quantile
from deepsea_ladder.model import BotState, BotVersion, RatedVersion, utc_time
from deepsea_ladder.rating import Rating, RatingTotals
from deepsea_ladder.standings import CONFIDENCE, certainty, ranges_of, standings


def row(
    bot: str, mu: float = 25.0, sigma: float = 1.0, games: int = 10, **sums: int
) -> RatedVersion:
    return rated(bot, RatingTotals(Rating(mu, sigma), games=games, **sums))


def rated(bot: str, tally: RatingTotals, version: int = 1) -> RatedVersion:
    return RatedVersion(BotVersion(7, bot, "ada", version, "", 0), tally, BotState.ACTIVE, True)


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
    recent = [25.0, 28.5, *[29.0] * 19, 30.0]
    (line,) = standings([rated("otter", tally, 2)], {7: recent})
    assert asdict(line) == {
        "rank": 1,
        "best_rank": 1,
        "worst_rank": 1,
        "bot": "otter",
        "author": "ada",
        "version": 2,
        "state": "active",
        "is_current": True,
        "provisional": False,
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
        "recent": tuple(recent),
        "last_played_at": utc_time(1234),
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
    assert (waiting.mean_points, waiting.fault_rate, waiting.last_played_at) == (None, None, None)


def test_faults_stand_beside_the_skill() -> None:
    clean, faulty = row("clean", decisions=100), row("faulty", decisions=100, faults=50, forfeits=9)
    lines = standings([clean, faulty])
    assert [line.rank for line in lines] == [1, 1]
    assert [line.fault_rate for line in lines] == [0.0, 0.5]


def test_neighbours_who_are_not_apart_share_a_range_of_ranks() -> None:
    rows = [row("a", 40.0), row("b", 30.0), row("c", 29.0), row("d", 10.0), row("e", 9.9)]
    assert [(line.best_rank, line.worst_rank) for line in standings(rows)] == [
        (1, 1), (2, 3), (2, 3), (4, 5), (4, 5),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 9)), max_size=12))
def test_a_range_counts_who_is_certainly_ahead_and_behind(bots: list[tuple[float, float]]) -> None:
    ratings = [Rating(*bot) for bot in bots]
    ranges = ranges_of(ratings)
    for one, (best, worst) in zip(ratings, ranges, strict=True):
        ahead = sum(certainty(other, one) >= 0.951 for other in ratings)
        behind = sum(certainty(one, other) >= 0.951 for other in ratings)
        assert 1 + ahead <= best <= worst <= len(ratings) - behind
        assert best <= 1 + sum(certainty(other, one) >= 0.949 for other in ratings)


# So many that they make more than one group.
MANY = st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 9)), min_size=35, max_size=60)


@given(MANY, st.booleans())
def test_ranges_of_ratings_are_those_of_all_pairs(
    bots: list[tuple[float, float]], alike: bool
) -> None:
    ratings = [Rating(mu, 2.0 if alike else sigma) for mu, sigma in bots]
    needed = quantile(CONFIDENCE) * quantile(CONFIDENCE)

    def is_surely_above(one: Rating, other: Rating) -> bool:
        distance = one.mu - other.mu
        variance = one.sigma * one.sigma + other.sigma * other.sigma
        return distance > 0 and distance * distance >= needed * variance

    for one, (best, worst) in zip(ratings, ranges_of(ratings), strict=True):
        assert best == 1 + sum(is_surely_above(other, one) for other in ratings)
        assert worst == len(ratings) - sum(is_surely_above(one, other) for other in ratings)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 9), st.integers(0, 3)), max_size=20))
def test_ranks_are_those_of_a_competition(bots: list[tuple[float, float, int]]) -> None:
    lines = standings([row(str(i), *bot) for i, bot in enumerate(bots)])
    ranked = [line for line in lines if line.rank is not None]
    assert len(ranked) == sum(games > 0 for _, _, games in bots)
    for line in ranked:
        assert line.rank == 1 + sum(other.rating > line.rating for other in ranked)
