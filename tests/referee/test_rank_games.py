"""The games of a ranking: every bot in every seat, in random company; duels exchange two bots."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.workbench.paired_blocks import PlayedBlock
from deepsea_referee.workbench.rank_games import RankGames, RankSettings, seats_for
from deepsea_referee.workbench.ranking import Pair, Ranking
from deepsea_rules.randomness import seed_from_text
from helpers.commands import played, record_of
from helpers.programs import PATIENT

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


def test_a_duel_is_the_same_game_with_both_bots_exchanged() -> None:
    settings = wanted(7, 4, 30 + 2 * 300, pair=(2, 5), first_block=3, first_game=30)
    both: Counter[bool] = Counter()
    seats: Counter[int] = Counter()
    for block in settings.blocks:
        games = [game for game in settings.numbers() if settings.block_of(game) == block][:2]
        one, other = (settings.line_up(game) for game in games)
        assert settings.game_seed(games[0]) == settings.game_seed(games[1])
        assert 2 in one
        assert 5 in other
        exchange = {2: 5, 5: 2}
        assert other == tuple(exchange.get(bot, bot) for bot in one)
        both[5 in one] += 1
        seats[one.index(2)] += 1
        if block > 60:
            break
    # Of the six others three sit beside the first bot.
    assert both[True] + both[False] == 59
    assert 15 < both[True] < 45
    assert set(seats) == {0, 1, 2, 3}


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


def groups_of(
    most: int, *, until_decided: bool = False, bots: int = 4
) -> tuple[Ranking, list[tuple[int, Pair | None]], Table]:
    ranking = Ranking(bots, margin=0.2)
    playing = RankGames(wanted(bots, 2), ranking, most, until_decided=until_decided)
    table = Table()
    found: list[tuple[int, Pair | None]] = []

    def on_group(number: int, _games: PlayedBlock, pair: Pair | None) -> None:
        found.append((number, pair))

    assert not playing.play(on_group, play=table.play)
    return ranking, found, table


def test_rounds_come_first_and_duels_when_few_pairs_are_open() -> None:
    ranking, found, table = groups_of(5000, until_decided=True)
    assert ranking.decided
    assert ranking.verdict(1, 2) == "level"
    kinds = [pair for _, pair in found]
    assert kinds[:10] == [None] * 10
    assert None not in kinds[kinds.index(next(filter(None, kinds))) :]
    assert [number for number, _ in found] == list(range(len(found)))
    numbers = [game for plan in table.plans for game in plan.numbers()]
    assert ranking.games < 5000
    assert len(table.plans) > 1
    assert len(numbers) > ranking.games  # the rest of a plan is not played


def test_no_more_games_than_asked_for_are_played() -> None:
    ranking, found, _ = groups_of(43)
    assert 40 <= ranking.games <= 43
    assert ranking.rounds == 10
    assert [pair for _, pair in found].count(None) == 10


def test_a_ranking_goes_on_where_it_was() -> None:
    whole, found, _ = groups_of(80)
    ranking = Ranking(4, margin=0.2)
    playing = RankGames(wanted(4, 2), ranking, 30)
    kept: list[tuple[int, list[GameResult], Pair | None]] = []
    table = Table()
    playing.play(
        lambda number, games, pair: kept.append((number, [game for game, _ in games], pair)),
        play=table.play,
    )
    again = Ranking(4, margin=0.2)
    playing = RankGames(wanted(4, 2), again, 80)
    for number, games, pair in kept:
        playing.count(number, games, pair)
    more: list[tuple[int, Pair | None]] = []
    playing.play(lambda number, _, pair: more.append((number, pair)), play=table.play)
    assert [(number, pair) for number, _, pair in kept] + more == found
    assert again.games == whole.games
    assert [again.interval(0, bot) for bot in (1, 2, 3)] == [
        whole.interval(0, bot) for bot in (1, 2, 3)
    ]


def test_ctrl_c_between_two_matches_interrupts_it() -> None:
    """The matches hear it themselves; what was counted before is kept."""
    ranking = Ranking(4, margin=0.2)
    playing = RankGames(wanted(4, 2), ranking, 5000, until_decided=True)
    table = Table()

    def play(plan: RankSettings, *arguments: Any, **options: Any) -> MatchResult:
        if table.plans:
            raise KeyboardInterrupt
        return table.play(plan, *arguments, **options)

    assert playing.play(lambda *_: None, play=play)
    assert ranking.games > 0
