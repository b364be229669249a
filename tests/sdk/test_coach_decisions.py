"""Judging decisions: by what the seat could know, on common luck, with marks that are sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from deepsea_rules.actions import BACK, DOWN
from deepsea_rules.randomness import deal
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk.coach.decisions import (
    Effort,
    Estimate,
    Judgement,
    PlayedDecision,
    Race,
    game_steps,
    judge,
    mark_of,
)
from deepsea_sdk.coach.roll_outs import COACH_VERSION, LuckSource, TrialLuck
from deepsea_sdk.policies import steady
from helpers.commands import played
from helpers.games import opening_state, other_values, rng
from helpers.planted import SEAT, planted
from helpers.positions import at

LATE = (
    "1 1 2 x x x 3 x x 3 4 4 4 4 4 4 4 4 "
    "| A11v:3/2=6,1=1,1=3,2=6,3=8 *B9v:3,3/1=2,2=7,2=5,2=5,1=1 C8v:3,3/2=4,1=0,2=7,1=3 | d3 a22"
)


def judged(state: GameState, action: str, *, trials: int = 50, label: str = "test") -> Judgement:
    view = view_for(state, state.to_move)
    return judge(PlayedDecision(view, action, LuckSource(label, state.players)), Effort.of(trials))


@pytest.mark.parametrize(
    ("mean", "error", "mark"),
    [
        (-0.1, 0.01, ""),
        (0.047, 0.001, ""),
        (0.048, 0.047, "?!"),
        (0.048, 0.049, ""),
        (0.101, 0.1, "?"),
        (0.19, 0.01, "?"),
        (0.201, 0.2, "??"),
        (0.6, 0.61, ""),
    ],
)
def test_a_mark_needs_a_mean_beyond_its_threshold_and_a_sure_loss(
    mean: float, error: float, mark: str
) -> None:
    assert mark_of(Estimate(mean, error)) == mark


def test_to_go_on_with_a_heavy_load_and_no_air_is_a_blunder() -> None:
    found = judged(at(LATE), DOWN, trials=80)
    assert found.best == BACK
    assert found.mark == "??"
    assert judged(at(LATE), BACK).regret == Estimate(0, 0)


def test_values_belong_to_the_version_of_the_policy() -> None:
    found = judged(at(LATE), DOWN, trials=20, label="golden")
    # The same on every machine. Whoever changes them gives the policy another version.
    assert COACH_VERSION == "steady-2-leads-1"
    assert [(one.action, one.score.mean) for one in found.options] == [
        (DOWN, 20 / 80),
        (BACK, 71 / 80),
    ]


def test_a_planted_blunder_is_found() -> None:
    found = {}
    late = []
    for step in game_steps(planted()):
        if step.kind == "decision" and step.seat == SEAT:
            assert step.action is not None
            stream = LuckSource(f"planted/{step.decision}", 3)
            view = view_for(step.before.state, SEAT)
            found[step.decision] = judge(PlayedDecision(view, step.action, stream), Effort.of(60))
            if step.action != steady(step.before.state):
                late.append(step.decision)
    assert len(late) == 1
    assert found[late[0]].mark == "??"
    assert max(found, key=lambda number: found[number].regret.mean) == late[0]


def test_what_the_seat_cannot_know_changes_nothing() -> None:
    game = played("reference", 4, "hidden")
    checked = 0
    for step in game_steps(game):
        if step.kind != "decision" or step.decision is None or step.decision % 9:
            continue
        state = step.before.state.clone()
        state.values = other_values(state.values, view_for(state, step.seat).known)
        assert step.action is not None
        assert judged(state, step.action, trials=4) == judged(
            step.before.state, step.action, trials=4
        )
        checked += state.values != step.before.state.values
    assert checked > 3


def test_an_order_that_is_not_listed_is_an_option_too() -> None:
    state = at("1 2 3 4 | *A3v:1,2,3,4 B2^:1 | d1 a0 order")
    assert "order:2,1,3,4" not in state.legal
    found = judged(state, "order:2,1,3,4", trials=4)
    assert [one.action for one in found.options] == [*state.legal, "order:2,1,3,4"]
    assert found.played == "order:2,1,3,4"


def test_a_deal_never_needs_more_numbers_than_there_are() -> None:
    view = view_for(opening_state(PRESETS["guide"], 6, "deal"), None)
    for number in range(50):
        assert isinstance(luck := LuckSource("deal", 6).luck(number), TrialLuck)
        assert sorted(view.sample(luck).values) == sorted(deal(bytes(32)))


# Racing: what is compared with what, when it stops, and that its intervals hold


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
    return run(Race(count, 1, given.get("chosen", 0)), trial, effort)


def run(found: Race, trial: Callable[..., list[int]], effort: Effort) -> Race:
    while wanted := found.next_trials(effort):
        scores = [trial(number, found.running) for number in wanted]
        found.add(list(zip(*scores, strict=True)), effort)
    return found


def test_an_option_that_is_clearly_behind_is_dropped_early() -> None:
    it = race(coins("early", 0.9, 0.1, 0.85), 3)
    assert it.best in (0, 2)
    assert 1 not in it.running
    assert len(it.scores[1]) <= 100 < len(it.scores[0])


def test_options_that_are_equal_need_no_more_than_a_few_trials() -> None:
    it = race(lambda number, running: [number % 2] * len(running), 2)
    assert len(it.scores[0]) == EFFORT.fewest
    assert it.gap(0, 1).mean == 0


def test_a_race_ends_at_its_precision_or_at_the_most_trials() -> None:
    close = race(coins("close", 0.5, 0.52, shared=0.9), 2)
    assert close.best == 1
    assert close.gap(1, 0).error <= EFFORT.precision
    noisy = race(coins("noisy", 0.5, 0.51, shared=0.0), 2)
    assert len(noisy.scores[0]) == EFFORT.most == 1600


def test_as_many_trials_as_asked_for_whatever_they_show() -> None:
    it = race(coins("fixed", 1.0, 0.0), 2, Effort.of(70))
    assert [len(found) for found in it.scores] == [70, 70]
    assert it.score(0).mean == 1


def test_a_threshold_inside_the_interval_keeps_the_chosen_option_in_the_race() -> None:
    trial = coins("threshold", 0.62, 0.5)
    settled = run(Race(2, 1, 1, (0.1,)), trial, Effort(0.03, 5000))
    gap = settled.gap(0, 1)
    assert not gap.low < 0.1 < gap.high or gap.error <= 0.03
    assert len(settled.scores[1]) > len(race(trial, 2, Effort(0.03, 5000)).scores[1])


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
