"""What blocks say about two bots: scores, verdicts, faults apart, and how seldom they are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.summary import GameResult
from deepsea_referee.workbench.blocks import BlockLuck, BlockSettings, PlayedBlock, seated
from deepsea_referee.workbench.comparison import LARGEST_LEAD, MOST_POINTS, Comparison, largest_lead
from deepsea_referee.workbench.confidence import AdjustedSequence
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Forfeit, GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.view import View
from deepsea_sdk import Bot
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.coach.formula import LuckSums
from deepsea_sdk.table import play_by_calls
from helpers.games import rng
from helpers.programs import PATIENT
from helpers.tiers import daily

PAIR = ((0, 1), (1, 0))


def result(
    seats: tuple[int, ...],
    placements: tuple[int, ...],
    scores: tuple[int, ...] = (),
    faulty: int | None = None,
) -> GameResult:
    """A game; the bot in seat `faulty` crashed in it."""
    faults = () if faulty is None else (fault(faulty),)
    forfeits = () if faulty is None else (Forfeit(faulty, Fault.CRASH, 0),)
    scores = scores or tuple(10 - placement for placement in placements)
    return GameResult(1, "g", seats, scores, placements, forfeits, faults)


def fault(seat: int) -> FaultReport:
    return FaultReport(seat, 0, Fault.CRASH, "search", ("leave", "take"), "gone", 5, "leave", True)


def test_a_block_is_one_observation() -> None:
    comparison = Comparison(PAIR, (0,), (1,))
    comparison.add([result((0, 1), (1, 2), (12, 7)), result((1, 0), (1, 2), (9, 8))])
    assert (comparison.blocks, comparison.games) == (1, 2)
    assert comparison.placement.mean == 0
    assert comparison.points.mean == pytest.approx(2)
    assert comparison.means == [[0.5, 10.0], [0.5, 8.0]]


def test_copies_of_a_bot_count_together() -> None:
    line_ups = ((0, 2, 1, 3), (2, 0, 3, 1))
    comparison = Comparison(line_ups, (0, 1), (2, 3))
    comparison.add([result(line_up, (1, 2, 3, 4)) for line_up in line_ups])
    assert comparison.placement.mean == pytest.approx(0)
    comparison.add([result(line_ups[0], (1, 3, 2, 4)), result(line_ups[1], (3, 1, 4, 2))])
    # The largest lead that there can be: both copies before both others, in both games.
    assert comparison.placement.mean == pytest.approx((0 + 2 / 3) / 2)
    assert comparison.placement.interval == pytest.approx((-2 / 3, 2 / 3))


def test_bots_of_the_field_do_not_count() -> None:
    line_ups = ((0, 1, 2), (2, 0, 1), (1, 2, 0), (1, 0, 2), (2, 1, 0), (0, 2, 1))
    comparison = Comparison(line_ups, (0,), (1,))
    games = []
    for line_up in line_ups:
        place = {2: 1, 0: 2, 1: 3}
        games.append(result(line_up, tuple(place[bot] for bot in line_up)))
    comparison.add(games)
    assert comparison.placement.mean == pytest.approx(0.5)


def test_faults_are_told_apart_and_games_count_as_they_were_ranked() -> None:
    comparison = Comparison(PAIR, (0,), (1,))
    comparison.add([result((0, 1), (2, 1), faulty=0), result((1, 0), (2, 1), faulty=0)])
    comparison.add([result((0, 1), (1, 2)), result((1, 0), (2, 1))])
    assert [dict(side) for side in comparison.faults] == [{"crash": 1}, {"crash": 1}]
    assert comparison.forfeits == [1, 1]
    (group,) = comparison.fault_groups[0]
    assert "gone" in group.line("a")
    assert (comparison.clean_blocks, comparison.clean_mean) == (1, 1.0)
    assert comparison.placement.mean == 0.5


def test_a_huge_lead_in_points_counts_as_a_large_one() -> None:
    comparison = Comparison(PAIR, (0,), (1,))
    comparison.add([result((0, 1), (1, 2), (200, 0)), result((1, 0), (2, 1), (0, 200))])
    assert comparison.points.mean == LARGEST_LEAD
    assert comparison.means[0][1] == 200


def verdict_on(lead: int, blocks: int = 400) -> tuple[str | None, int]:
    comparison = Comparison(PAIR, (0,), (1,))
    win, loss = (
        [result((0, 1), (1, 2)), result((1, 0), (2, 1))],
        [result((0, 1), (2, 1)), result((1, 0), (1, 2))],
    )
    even = [result((0, 1), (1, 2)), result((1, 0), (1, 2))]
    for _ in range(blocks):
        comparison.add({1: win, -1: loss, 0: even}[lead])
        if comparison.verdict:
            break
    return comparison.verdict, comparison.blocks


def test_verdicts() -> None:
    assert Comparison(PAIR, (0,), (1,)).verdict is None
    assert verdict_on(1)[0] == "A"
    assert verdict_on(-1)[0] == "B"
    assert verdict_on(0)[0] == "same"
    assert verdict_on(1, blocks=2) == (None, 2)
    assert verdict_on(0, blocks=20) == (None, 20)


# Identical bots


class Careless(Bot):
    """Takes and turns back by its own lots, which no seed of the game decides."""

    chance = rng("careless")

    def search(self, view: View) -> str:
        return self.chance.choice(view.legal)

    def turn_back(self, view: View) -> bool:
        return view.me.load > 1 or self.chance.random() < 0.2


def played(players: Sequence[AnyBot], seats: int, blocks: int) -> list[PlayedBlock]:
    """Blocks between the first bots and the others, which are as many."""
    spec = resolve("random")
    settings = BlockSettings.of(
        spec, spec, seats=seats, blocks=blocks, hosting=PATIENT, seed=seed_from_text("identical")
    )
    size = settings.size
    games = [play_number(settings, number, players) for number in settings.numbers()]
    return [games[i : i + size] for i in range(0, len(games), size)]


def play_number(
    settings: BlockSettings, number: int, players: Sequence[AnyBot]
) -> tuple[GameResult, GameRecord]:
    game, line_up = settings.game(number), settings.line_up(number)
    play_by_calls(game, [players[bot] for bot in line_up])
    played = game.played()
    return GameResult.of(number, line_up, played), played.record


def results(block: PlayedBlock) -> list[GameResult]:
    return [result for result, _ in block]


def share_called_different(seats: int, pool: int, runs: int, blocks: int, alpha: float) -> float:
    """Runs of an impatient user, who looks after every block, over blocks drawn from a pool."""
    Careless.chance = rng(f"careless {seats}")
    found = [results(block) for block in played([Careless] * (seats + 1), seats, pool)]
    spec = resolve("random")
    _, line_ups, ours, theirs = seated(spec, spec, [], seats)
    wrong = 0
    for run in range(runs):
        chance = rng(f"{seats}/{run}")
        comparison = Comparison(line_ups, ours, theirs, alpha=alpha)
        for _ in range(blocks):
            # Either name may stand first: the pool as a whole favours neither.
            if chance.random() < 0.5:
                comparison.add(chance.choice(found))
            else:
                comparison.add([_swapped(game, len(ours)) for game in chance.choice(found)])
            if comparison.verdict:
                wrong += comparison.verdict != "same"
                break
    return wrong / runs


def _swapped(game: GameResult, copies: int) -> GameResult:
    seats = tuple((bot + copies) % (2 * copies) for bot in game.seats)
    return GameResult(1, "g", seats, game.points, game.placements, (), ())


@pytest.mark.parametrize(
    ("seats", "alpha", "pool", "runs", "blocks"),
    [
        (3, 0.2, 30, 25, 60),
        *(
            pytest.param(*case, 150, 300, 300, marks=pytest.mark.release)
            for case in product((2, 3, 4), (0.05, 0.2))
        ),
    ],
)
def test_identical_bots_are_called_different_in_no_more_than_the_stated_share_of_runs(
    seats: int, alpha: float, pool: int, runs: int, blocks: int
) -> None:
    assert share_called_different(seats, pool, runs, blocks, alpha) <= alpha


@pytest.mark.parametrize("seats", [2, 3, 4, 5, 6])
def test_the_same_deterministic_bot_twice_differs_by_nothing(seats: int) -> None:
    spec = resolve("greedy")
    bots, line_ups, ours, theirs = seated(spec, spec, [], seats)
    (block,) = played([load(bot) for bot in bots], seats, 1)
    comparison = Comparison(line_ups, ours, theirs)
    comparison.add(results(block))
    assert comparison.placement.mean == pytest.approx(0)
    assert comparison.points.mean == pytest.approx(0)


@pytest.mark.parametrize(("mean", "spread"), [(0.25, 0.4), (0.1, 0.35), (0.0, 0.25)])
def test_the_blocks_that_a_verdict_takes_are_guessed_to_a_factor_of_three(
    mean: float, spread: float
) -> None:
    random = rng(f"forecast {mean}")
    comparison = Comparison(PAIR, (0,), (1,))
    guesses: list[int] = []
    while not comparison.verdict:
        # Only the placement score is looked at; a block of any two games would do.
        comparison.placement.add(max(-1.0, min(1.0, random.gauss(mean, spread))))
        if guess := comparison.blocks_needed:
            assert guess > comparison.blocks
            guesses.append(guess)
    needed = comparison.blocks
    half = guesses[len(guesses) // 2 :]
    assert needed / 3 < sorted(half)[len(half) // 2] < needed * 3


# The course of a lead: thinned out evenly, its newest point always there


@pytest.mark.parametrize("blocks", [0, 1, 400, 401, 1_000])
def test_a_lead_of_any_length_is_thinned_out_and_ends_with_the_newest_point(blocks: int) -> None:
    comparison = Comparison(PAIR, (0,), (1,))
    for _ in range(blocks):
        comparison.add([result((0, 1), (1, 2)), result((1, 0), (1, 2))])
    numbers = [point.blocks for point in comparison.history]
    assert min(blocks, MOST_POINTS / 2) <= len(numbers) <= MOST_POINTS
    assert numbers[-1:] == [blocks][:blocks]
    assert len({b - a for a, b in pairwise(numbers)}) <= 1


# The luck of a block: mirrored for bots that play alike, and no way to a wrong verdict


def luck_of(seats: int) -> BlockLuck:
    spec = resolve("random")
    _, line_ups, ours, theirs = seated(spec, spec, [], seats)
    return BlockLuck(line_ups, ours, theirs)


@pytest.mark.parametrize("seats", daily([2, 3, 4, 5, 6], [2, 3, 6]))
def test_bots_that_play_alike_have_no_luck_in_a_block(seats: int) -> None:
    greedy = load(resolve("greedy"))
    blocks, luck = played([greedy] * (seats + 1), seats, 2), luck_of(seats)
    assert [luck.measure(block) for block in blocks] == [pytest.approx((0, 0))] * 2
    assert all(any(luck.measure([game])) for game in blocks[0])


def test_bots_of_the_field_have_no_part_in_it() -> None:
    spec = resolve("greedy")
    _, line_ups, ours, theirs = seated(spec, spec, [spec], 3)
    luck = BlockLuck(line_ups, ours, theirs)
    (result, record), *_ = played([load(spec)] * 4, 3, 1)[0]

    def of(seats: tuple[int, ...]) -> LuckSums:
        return luck.measure([(replace(result, seats=seats), record)])

    assert of((2, 2, 2)) == (0, 0)
    at_most, at_least = of((1, 0, 2))
    assert of((0, 1, 2)) == (-at_least, -at_most) != (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seats", "pool", "runs"),
    [(2, 50, 60), *(pytest.param(seats, 150, 200, marks=pytest.mark.release) for seats in (2, 4))],
)
def test_with_luck_taken_off_identical_bots_are_called_different_as_seldom(
    seats: int, pool: int, runs: int
) -> None:
    Careless.chance = rng(f"careless {seats}")
    blocks, luck = played([Careless] * (seats + 1), seats, pool), luck_of(seats)
    spec = resolve("random")
    _, line_ups, ours, theirs = seated(spec, spec, [], seats)
    found = []
    for block in blocks:
        comparison = Comparison(line_ups, ours, theirs)
        comparison.add(results(block))
        found.append((comparison.placement.mean, luck.measure(block)))
    wrong = 0
    for run in range(runs):
        chance = rng(f"{seats}/{run}")
        sequence = AdjustedSequence(largest_lead(line_ups, ours, theirs), luck.bound)
        for _ in range(100):
            lead, moved = chance.choice(found)
            # Either name may stand first: the pool as a whole favours neither.
            sign = chance.choice((1, -1))
            at_most, at_least = moved
            sequence.add(sign * lead, moved if sign > 0 else (-at_least, -at_most))
            if sequence.interval.excludes_zero:
                wrong += 1
                break
    assert wrong <= 0.08 * runs
