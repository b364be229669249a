"""Statistics of a ranking: verdicts on pairs, rank sets, and when to play duels."""

from __future__ import annotations

from itertools import combinations

import pytest

from deepsea_referee.results.summary import GameResult
from deepsea_referee.workbench.ranking import FEWEST_ROUNDS, Ranking
from deepsea_rules.faults import Fault, FaultReport
from helpers.games import rng


def result(seats: tuple[int, ...], strengths: list[float], number: int = 1) -> GameResult:
    """A game that the stronger bot wins."""
    order = sorted(seats, key=lambda bot: -strengths[bot])
    placements = tuple(1 + order.index(bot) for bot in seats)
    return GameResult(number, "g", seats, (7,) * len(seats), placements, (), ())


def a_round(strengths: list[float]) -> list[GameResult]:
    """A round of games with two seats: everybody against everybody."""
    return [result(pair, strengths) for pair in combinations(range(len(strengths)), 2)]


def rounds(ranking: Ranking, strengths: list[float], count: int, noise: float = 0.0) -> None:
    chance = rng("rounds")
    for _ in range(count):
        ranking.add_round(a_round([own + noise * chance.gauss(0, 1) for own in strengths]))


def test_nothing_is_known_at_first() -> None:
    ranking = Ranking(4)
    assert [ranking.ranks(bot) for bot in range(4)] == [(1, 4)] * 4
    assert ranking.counts == (0, 6)
    assert ranking.score(0) == 0.5
    assert list(ranking.missing()) == [(pair, None) for pair in combinations(range(4), 2)]
    assert not ranking.decided


def test_the_best_is_first_once_it_is_sure() -> None:
    ranking = Ranking(3)
    rounds(ranking, [0.0, 2.0, 1.0], 60)
    assert ranking.order == [1, 2, 0]
    assert [ranking.score(bot) for bot in range(3)] == [0.0, 1.0, 0.5]
    assert [ranking.ranks(bot) for bot in range(3)] == [(3, 3), (1, 1), (2, 2)]
    assert (ranking.verdict(1, 0), ranking.verdict(0, 1)) == ("better", "worse")
    low, high = ranking.interval(1, 0)
    assert ranking.interval(0, 1) == (-high, -low)
    assert ranking.decided
    assert (ranking.games, ranking.rounds, ranking.duels) == (180, 60, 0)


def test_bots_that_always_tie_are_level_and_share_their_ranks() -> None:
    ranking = Ranking(3, margin=0.1)
    games = [GameResult(1, "g", (0, 1), (5, 5), (1, 1), (), ())]
    games += [GameResult(1, "g", (bot, 2), (5, 1), (1, 2), (), ()) for bot in (0, 1)]
    for _ in range(150):
        ranking.add_round(games)
    assert ranking.verdict(0, 1) == "level"
    assert [ranking.ranks(bot) for bot in range(3)] == [(1, 2), (1, 2), (3, 3)]
    assert ranking.decided


def test_only_those_who_may_be_at_the_top_are_wanted() -> None:
    whole, top = Ranking(5), Ranking(5, top=2)
    strengths = [9.0, 8.0, 3.0, 0.5, 0.4]
    for ranking in (whole, top):
        rounds(ranking, strengths, 100, noise=0.8)
    assert (3, 4) in [tuple(sorted(pair)) for pair in whole.open_pairs]
    assert top.decided
    assert not whole.decided
    assert whole.counts == top.counts


def test_a_duel_counts_for_its_pair_alone() -> None:
    ranking = Ranking(4)
    for _ in range(30):
        # 0 sits without 1, and 1 in its place.
        ranking.add_duel((0, 1), [result((2, 0), [5, 1, 3, 0]), result((2, 1), [5, 1, 3, 0])])
    assert ranking.verdict(0, 1) == "better"
    assert ranking.counts == (1, 6)
    assert (ranking.duels, ranking.games) == (30, 60)


def test_a_duel_at_one_table_counts_both_of_its_games() -> None:
    ranking = Ranking(2)
    win, loss = result((0, 1), [1, 0]), result((0, 1), [0, 1])
    exchanged = GameResult(1, "g", (1, 0), (7, 7), (1, 2), (), ())
    for _ in range(60):
        ranking.add_duel((0, 1), [win, exchanged])  # who sits first wins
    assert ranking.interval(0, 1).within(0.3)
    for _ in range(60):
        ranking.add_duel((0, 1), [loss, exchanged])
    assert ranking.verdict(1, 0) == "better"


def test_the_widest_open_neighbours_play_duels_when_few_pairs_are_open() -> None:
    ranking = Ranking(5, few=2)
    strengths = [9.0, 1.02, 1.0, -5.0, -5.02]
    rounds(ranking, strengths, FEWEST_ROUNDS - 1, noise=0.3)
    assert ranking.next_duel() is None
    rounds(ranking, strengths, 60, noise=0.3)
    assert sorted(map(sorted, ranking.open_pairs)) == [[1, 2], [3, 4]]
    first = ranking.next_duel()
    assert first in [(1, 2), (3, 4)]
    assert first is not None
    games = [result((0, bot), strengths) for bot in first]
    while (pair := ranking.next_duel()) == first:
        ranking.add_duel(first, games)
    assert pair in [(1, 2), (3, 4)]


def test_duels_begin_when_the_open_pairs_are_a_quarter_of_the_bots() -> None:
    ranking = Ranking(8)
    strengths = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]
    seen: list[tuple[int, bool]] = []
    chance = rng("quarter")
    for _ in range(300):
        ranking.add_round(a_round([own + 0.6 * chance.gauss(0, 1) for own in strengths]))
        seen.append((len(ranking.open_pairs), ranking.next_duel() is not None))
    assert all(duel == (0 < pairs <= 2) for pairs, duel in seen)
    assert (True, True) in {(pairs > 0, duel) for pairs, duel in seen}


def test_the_games_that_a_pair_still_takes_are_guessed() -> None:
    ranking = Ranking(2, alpha=0.05)
    strengths = [0.3, 0.0]
    chance = rng("missing games")
    guesses: list[tuple[int, int]] = []
    while not ranking.decided:
        noisy = [own + chance.gauss(0, 1) for own in strengths]
        ranking.add_round([result((0, 1), noisy)] * 2)
        for _, games in ranking.missing():
            if games is not None:
                guesses.append((ranking.games, games))
    total = ranking.games
    late = [done + games for done, games in guesses[len(guesses) // 2 :]]
    assert total / 3 < sorted(late)[len(late) // 2] < total * 3


def test_faults_are_counted_by_bot() -> None:
    fault = FaultReport(1, 0, Fault.CRASH, "search", ("leave", "take"), "gone", 5, "leave", True)
    ranking = Ranking(3)
    games = a_round([1, 2, 3])
    first = games[0]
    games[0] = GameResult(1, "g", first.seats, first.points, first.placements, (), (fault,))
    ranking.add_round(games)
    assert ranking.faults == [0, 1, 0]


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_equal_bots_are_seldom_put_in_order(alpha: float) -> None:
    # All verdicts on all pairs of a run have to be right together.
    wrong = 0
    for run in range(20):
        chance = rng(f"equal {run}")
        ranking = Ranking(4, alpha=alpha)
        for _ in range(60):
            ranking.add_round(a_round([chance.random() for _ in range(4)]))
        wrong += any(ranking.verdict(*pair) == "better" for pair in ranking.open_pairs) or any(
            ranking.verdict(a, b) in ("better", "worse") for a, b in combinations(range(4), 2)
        )
    assert wrong <= alpha * 20
