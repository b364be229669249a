"""Finals: who leaves when, and that the best bot is among the winners."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from deepsea_arena.tournament_state import Leaver, Race
from deepsea_ladder.rating import SeatResult
from finals import race
from helpers.tiers import daily


def rotation(order: tuple[int, ...]) -> list[list[SeatResult]]:
    """Games that end in this order, one from every seat."""
    return [[SeatResult(bot, 0, 1 + place, 1, 0, None) for place, bot in enumerate(order)]] * len(
        order
    )


# How many games it saves; who leaves a final, and when, is looked at in test_runs.py.
@pytest.mark.release
@pytest.mark.parametrize("seed", daily(range(3), [0]))
def test_the_best_wins_in_less_than_half_the_games_of_a_round_robin(seed: int) -> None:
    """20 bots, each of which is a little better than the next one."""
    strengths = [-0.4 * place for place in range(20)]
    final = race(strengths, 4, 20_000, seed, leave=True)
    whole = race(strengths, 4, 20_000, seed, leave=False)
    assert final.left == whole.left == [0]
    assert 2 * final.games < whole.games
    games = [leaver.after_games for leaver in final.leavers]
    assert games == sorted(games)
    assert len(games) == 19


def test_equal_bots_stay_until_the_budget_is_spent() -> None:
    assert len(race([0.0] * 6, 3, 600, 1, leave=True).left) >= 5


def test_a_bot_leaves_behind_the_one_that_is_surely_better() -> None:
    found = Race([7, 8, 9], 1)
    while not found.decided:
        found.add(rotation((8, 9, 7)))
    assert (found.left, found.champion, found.order()) == ([8], 8, [8, 9, 7])
    first, second = found.leavers
    assert (first.bot, first.behind, first.lead) == (7, 8, 1.0)
    assert (second.bot, second.behind, second.lead) == (9, 8, 0.5)
    assert first.after_games < second.after_games == found.games


def test_with_two_winners_two_have_to_be_better() -> None:
    found = Race([7, 8, 9], 2)
    while not found.decided:
        found.add(rotation((8, 9, 7)))
    assert (found.left, found.champion) == ([8, 9], None)
    assert [leaver.bot for leaver in found.leavers] == [7]


def test_who_is_taken_out_leaves_behind_nobody() -> None:
    found = Race([7, 8], 1)
    found.add(rotation((7, 8)))
    found.take_out({7, 5})
    assert (found.champion, found.leavers) == (8, [Leaver(7, 2)])


@pytest.mark.parametrize(("bots", "seats"), [(20, 4), (19, 4), (5, 4), (3, 4), (7, 2)])
def test_tables_are_drawn_from_all_that_are_left(bots: int, seats: int) -> None:
    found = Race(range(bots), 1)
    tables = found.tables(seats, b"seed")
    assert all(len(set(table.version_ids)) == min(bots, seats) for table in tables)
    counts = Counter(bot for table in tables for bot in table.version_ids)
    assert set(counts) == set(range(bots))
    met = {pair for table in tables for pair in combinations(sorted(table.version_ids), 2)}
    assert len(met) >= min(bots * (bots - 1) // 2, 2 * bots)  # not always the same company
    assert tables == found.tables(seats, b"seed") != found.tables(seats, b"other")
    assert found.tables(seats, b"seed", most_games=2 * min(bots, seats)) == tables[:2]
