"""The ranks that a tournament's games leave open."""

from __future__ import annotations

from itertools import combinations

from deepsea_arena.tournaments import rank_sets
from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.rating.trueskill_fold import RatingParameters

PARAMETERS = RatingParameters()


def table(*bots: int) -> list[SeatResult]:
    """A game with these placements, the winner first."""
    return [SeatResult(bot, 10, placement, 20, 0, None) for placement, bot in enumerate(bots, 1)]


def round_robin(bots: int, meetings: int) -> list[list[SeatResult]]:
    """Games between every two bots, which the lower number wins."""
    return [table(*pair) for pair in combinations(range(bots), 2) for _ in range(meetings)]


def test_a_few_games_leave_all_ranks_open() -> None:
    assert rank_sets(PARAMETERS, round_robin(3, 1)) == dict.fromkeys(range(3), (1, 3))


def test_many_games_settle_the_order() -> None:
    assert rank_sets(PARAMETERS, round_robin(3, 40)) == {bot: (bot + 1,) * 2 for bot in range(3)}


def test_bots_that_beat_each_other_in_turns_share_their_ranks() -> None:
    games = [table(0, 1), table(1, 0)] * 40 + [table(bot, 2) for bot in (0, 1)] * 40
    assert rank_sets(PARAMETERS, games) == {0: (1, 2), 1: (1, 2), 2: (3, 3)}


def test_no_games_no_ranks() -> None:
    assert rank_sets(PARAMETERS, []) == {}
