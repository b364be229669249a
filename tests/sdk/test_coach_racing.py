"""Racing: what is compared with what, when it stops, and that its intervals hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from deepsea_sdk.coach.racing import Effort, Race
from helpers.games import rng

EFFORT = Effort.to(0.03)


def coins(salt: str, *chances: float, shared: float = 0.5) -> Callable[..., list[int]]:
    """Options that win or lose, by chance; they share that share of their luck."""

    def trial(number: int, running: Sequence[int]) -> list[int]:
        draw = rng(f"{salt}/{number}").random
        common, is_shared = draw(), draw() < shared
        own = [draw() for _ in chances]
        return [int((common if is_shared else own[one]) < chances[one]) for one in running]

    return trial


def race(
    trial: Callable[..., list[int]], count: int, effort: Effort = EFFORT, **given: int
) -> Race:
    found = Race(count=count, trial=trial, scale=1, chosen=given.get("chosen", 0))
    found.run(effort)
    return found


def test_an_option_that_is_clearly_behind_is_dropped_early() -> None:
    it = race(coins("early", 0.9, 0.1, 0.85), 3)
    assert it.best in (0, 2)
    assert 1 not in it.running
    assert len(it.found[1]) <= 100 < len(it.found[0])


def test_options_that_are_equal_need_no_more_than_a_few_trials() -> None:
    it = race(lambda number, running: [number % 2] * len(running), 2)
    assert len(it.found[0]) == EFFORT.fewest
    assert it.gap(0, 1).mean == 0


def test_a_race_ends_at_its_precision_or_at_the_most_trials() -> None:
    close = race(coins("close", 0.5, 0.52, shared=0.9), 2)
    assert close.best == 1
    assert close.gap(1, 0).error <= EFFORT.precision
    noisy = race(coins("noisy", 0.5, 0.55, shared=0.0), 2)
    assert len(noisy.found[0]) == EFFORT.most == 600


def test_of_an_option_that_was_not_chosen_it_is_enough_that_it_is_behind() -> None:
    trial = coins("leads", 0.62, 0.5)
    right, wrong = race(trial, 2, chosen=0), race(trial, 2, chosen=1)
    assert right.best == wrong.best == 0
    assert right.gap(0, 1).low > 0
    assert right.gap(0, 1).error > EFFORT.precision
    assert len(right.found[0]) < len(wrong.found[0])


def test_as_many_trials_as_asked_for_whatever_they_show() -> None:
    it = race(coins("fixed", 1.0, 0.0), 2, Effort.of(70))
    assert [len(found) for found in it.found] == [70, 70]
    assert it.score(0).mean == 1


def test_a_threshold_inside_the_interval_keeps_the_chosen_option_in_the_race() -> None:
    trial = coins("threshold", 0.62, 0.5)
    settled = Race(count=2, trial=trial, scale=1, chosen=1, steps=(0.1,))
    settled.run(Effort(0.03, 5000))
    gap = settled.gap(0, 1)
    assert not gap.low < 0.1 < gap.high or gap.error <= 0.03
    assert len(settled.found[1]) > len(race(trial, 2, Effort(0.03, 5000)).found[1])


@pytest.mark.parametrize("lead", [0.0, 0.15])
def test_intervals_cover_the_difference(lead: float) -> None:
    inside = 0
    for number in range(100):
        it = race(coins(f"cover {number}", 0.5 + lead, 0.5), 2, Effort.to(0.06))
        gap = it.gap(0, 1)
        inside += gap.low <= lead <= gap.high
    # 95 of 100 if the race did not stop when it likes what it sees.
    assert inside >= 90


def test_the_loss_has_no_bias_where_options_are_level() -> None:
    losses, regrets = [], []
    for number in range(150):
        it = race(coins(f"level {number}", 0.5, 0.5), 2, Effort.of(60))
        losses.append(it.loss().mean)
        regrets.append(it.gap(it.best, 0).mean)
    assert sum(regrets) / 150 > 0.015
    assert abs(sum(losses) / 150) < 0.012


def test_the_loss_is_what_the_chosen_option_is_behind() -> None:
    it = race(coins("loss", 0.3, 0.6, 0.9), 3, Effort.of(1000), chosen=1)
    loss = it.loss()
    assert loss.low < 0.3 < loss.high
    assert loss.error == pytest.approx(it.gap(2, 1).error, rel=0.1)
    assert race(coins("loss", 0.9, 0.1), 2, Effort.of(200)).loss() == (0, 0)
