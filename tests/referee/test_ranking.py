"""Statistics of a ranking: verdicts on pairs and rank sets; its games, in rounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.summary import GameResult, MatchResult
from deepsea_referee.workbench.blocks import ComparisonFolder
from deepsea_referee.workbench.ranking import (
    RankGames,
    Ranking,
    RankSettings,
    seats_for,
)
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.randomness import seed_from_text
from helpers.commands import played, record_of
from helpers.games import rng
from helpers.programs import PATIENT
from helpers.tiers import daily


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
    assert (ranking.games, ranking.rounds) == (180, 60)


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


def test_the_games_that_a_pair_still_takes_are_guessed() -> None:
    ranking = Ranking(2, alpha=0.05)
    strengths = [0.5, 0.0]
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


@pytest.mark.parametrize("runs", daily([5, 40], [5]))
def test_equal_bots_are_seldom_put_in_order(runs: int) -> None:
    # All verdicts on all pairs of a run have to be right together.
    wrong, alpha = 0, 0.1
    for run in range(runs):
        chance = rng(f"equal {run}")
        ranking = Ranking(4, alpha=alpha)
        for _ in range(60):
            ranking.add_round(a_round([chance.random() for _ in range(4)]))
        wrong += any(ranking.verdict(*pair) == "better" for pair in ranking.open_pairs) or any(
            ranking.verdict(a, b) in ("better", "worse") for a, b in combinations(range(4), 2)
        )
    assert wrong <= alpha * runs


# The games of a ranking: every bot in every seat, in random company


RECORD = record_of(played())


def wanted(bots: int, players: int, games: int = 0, **others: object) -> RankSettings:
    settings = RankSettings(
        bots=[BotSpec(f"bot {number}", (), None, "") for number in range(bots)],
        hosting=PATIENT,
        players=players,
        games=games or bots,
        seed=seed_from_text("rank"),
    )
    return replace(settings, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bots", "players"), [(2, 2), (5, 4), (7, 3), (6, 6), (64, 6)])
def test_in_a_round_every_bot_has_every_seat_once(bots: int, players: int) -> None:
    settings = wanted(bots, players, 2 * bots)
    for number in (0, 1):
        games = range(number * bots, (number + 1) * bots)
        line_ups = [settings.line_up(game) for game in games]
        assert all(len(set(line_up)) == players for line_up in line_ups)
        for seat in range(players):
            assert sorted(line_up[seat] for line_up in line_ups) == list(range(bots))
        assert len({settings.game_seed(game) for game in games}) == 1
    assert settings.game_seed(0) != settings.game_seed(bots)
    assert list(settings.numbers()) == list(range(2 * bots))


def test_company_is_random() -> None:
    bots, players, count = 6, 3, 400
    settings = wanted(bots, players, count * bots)
    met: Counter[tuple[int, int]] = Counter()
    for game in range(count * bots):
        line_up = settings.line_up(game)
        met.update((line_up[0], other) for other in line_up[1:])
    # Each bot has the first seat 400 times, with two others out of five: 160 times each.
    assert len(met) == bots * (bots - 1)
    assert all(110 < number < 210 for number in met.values())


@pytest.mark.parametrize(
    ("bots", "players", "problem"), [(3, 4, "name more"), (5, 7, "2 to 6"), (65, 4, "64")]
)
def test_what_cannot_be_ranked_is_refused(bots: int, players: int, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        wanted(bots, players)


def test_seats_are_as_many_as_bots_up_to_four() -> None:
    assert [seats_for(bots, None) for bots in (2, 3, 4, 9)] == [2, 3, 4, 4]
    assert seats_for(9, 6) == 6


# The course of a ranking


def bold(line_up: tuple[int, ...]) -> tuple[int, ...]:
    """Placements: the lower number wins, but 1 and 2 are the same."""
    keys = [max(bot, 2) if bot else 0 for bot in line_up]
    return tuple(1 + sum(other < key for other in keys) for key in keys)


class Table:
    """Plays matches without games."""

    def __init__(self) -> None:
        self.plans: list[RankSettings] = []

    def play(self, plan: RankSettings, _workers: int, on_game, *_, **__) -> MatchResult:  # type: ignore[no-untyped-def]
        self.plans.append(plan)
        for number in plan.numbers():
            line_up = plan.line_up(number)
            points = (7,) * len(line_up)
            on_game(GameResult(number + 1, "g", line_up, points, bold(line_up), (), ()), RECORD)
        return plan.result("in-process")


def rounds_of(most: int, *, until_decided: bool = False) -> tuple[RankGames, Table, list[int]]:
    """A ranking of at most so many games, and the games of each round as they were handed over."""
    playing = RankGames(wanted(4, 2, most, margin=0.2, until_decided=until_decided))
    table = Table()
    found: list[int] = []
    assert not playing.play(lambda games: found.append(len(games)), play=table.play)
    return playing, table, found


def test_rounds_are_played_until_all_is_decided() -> None:
    playing, table, found = rounds_of(5000, until_decided=True)
    assert playing.ranking.decided
    assert playing.ranking.verdict(1, 2) == "level"
    assert found == [4] * playing.ranking.rounds
    assert (playing.ranking.games, playing.left) == (sum(found), 0)
    # The rest is not played.
    assert playing.ranking.games < 5000
    assert len(table.plans) == 1


def test_no_more_games_than_asked_for_are_played() -> None:
    playing, _, found = rounds_of(43)
    assert (playing.ranking.games, playing.ranking.rounds, found) == (40, 10, [4] * 10)


def test_a_ranking_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = rounds_of(80)[0].ranking

    def part(most: int) -> tuple[int, Ranking]:
        settings = wanted(4, 2, most, margin=0.2)
        with ComparisonFolder(tmp_path, settings.fields_to_match(), settings.kind) as folder:
            playing = RankGames(settings, folder)
            left = playing.left
            playing.play(lambda games: None, play=Table().play)
        return left, playing.ranking

    assert part(32)[0] == 32
    left, ranking = part(80)
    assert (left, ranking.games) == (48, 80)
    assert all(ranking.interval(0, bot) == whole.interval(0, bot) for bot in (1, 2, 3))
