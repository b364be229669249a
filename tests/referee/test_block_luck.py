"""The luck of a block: mirrored for bots that play alike, and no way to a wrong verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.in_process import HangWatch, play_number
from deepsea_referee.workbench.blocks import BlockLuck, BlockSettings, PlayedBlock, seated
from deepsea_referee.workbench.comparison import Comparison, largest_lead
from deepsea_referee.workbench.confidence import AdjustedSequence
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.view import View
from deepsea_sdk import Bot
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.coach.chance_sum import Luck
from helpers.games import rng
from helpers.manual_clock import ManualClock
from helpers.programs import PATIENT


class Careless(Bot):
    """Takes and turns back by its own lots, which no seed of the game decides."""

    chance = rng("careless")

    def search(self, view: View) -> str:
        return self.chance.choice(view.legal)

    def turn_back(self, view: View) -> bool:
        return view.me.load > 1 or self.chance.random() < 0.2


def played(
    players: Sequence[AnyBot], seats: int, blocks: int
) -> tuple[list[PlayedBlock], BlockLuck]:
    """Blocks between the first bots and the others, which are as many; and their luck."""
    spec = resolve("random")
    bots, line_ups, ours, theirs = seated(spec, spec, [], seats)
    size = len(line_ups)
    settings = BlockSettings(
        bots=bots,
        hosting=PATIENT,
        games=blocks * size,
        seed=seed_from_text("luck of blocks"),
        line_ups=line_ups,
    )
    now_us, watch = ManualClock().now_us, HangWatch(60)
    games = [play_number(settings, n, players, now_us, watch) for n in settings.numbers()]
    grouped: list[PlayedBlock] = [games[i : i + size] for i in range(0, len(games), size)]
    return grouped, BlockLuck(line_ups, ours, theirs)


@pytest.mark.parametrize("seats", [2, 3, 4, 5, 6])
def test_bots_that_play_alike_have_no_luck_in_a_block(seats: int) -> None:
    greedy = load(resolve("greedy"))
    blocks, luck = played([greedy] * (seats + 1), seats, 2)
    assert [luck.of(block) for block in blocks] == [pytest.approx((0, 0))] * 2
    assert all(any(luck.of([game])) for game in blocks[0])


def test_bots_of_the_field_have_no_part_in_it() -> None:
    spec = resolve("greedy")
    _, line_ups, ours, theirs = seated(spec, spec, [spec], 3)
    luck = BlockLuck(line_ups, ours, theirs)
    blocks, _ = played([load(spec)] * 4, 3, 1)
    (result, record), *_ = blocks[0]

    def of(seats: tuple[int, ...]) -> Luck:
        return luck.of([(replace(result, seats=seats), record)])

    assert of((2, 2, 2)) == (0, 0)
    at_most, at_least = of((1, 0, 2))
    assert of((0, 1, 2)) == (-at_least, -at_most) != (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seats", [2, pytest.param(4, marks=pytest.mark.release)])
def test_identical_bots_are_called_different_in_no_more_than_the_stated_share_of_runs(
    seats: int,
) -> None:
    Careless.chance = rng(f"careless {seats}")
    blocks, luck = played([Careless] * (seats + 1), seats, 150)
    spec = resolve("random")
    _, line_ups, ours, theirs = seated(spec, spec, [], seats)
    found = []
    for block in blocks:
        comparison = Comparison(line_ups, ours, theirs)
        comparison.add([result for result, _ in block])
        found.append((comparison.placement.mean, luck.of(block)))
    wrong = 0
    for run in range(200):
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
    assert wrong <= 16
