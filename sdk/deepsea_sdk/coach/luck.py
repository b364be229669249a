"""Luck: how far dice and hidden values moved each seat's expected placement score, by roll-outs.

Invariants: the mean luck of a roll is 0 over its sums; values are revealed when any bot can see
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import exp
from typing import Final, TypeAlias

from deepsea_rules.actions import LEVELS, values_of_level
from deepsea_rules.ruleset import DIVES
from deepsea_sdk.policies import Policy, play_on

from .common_luck import Stream, halves
from .course import Outlook, Step, rolls
from .racing import Interval, interval

Number: TypeAlias = float | Fraction
Evaluation: TypeAlias = Callable[[Sequence[Outlook]], Sequence[Sequence[Number]]]
"""For each of some outlooks what each seat is expected to score, on common luck."""

SPREAD: Final = {1: 7.0, 2: 5.0}
"""By dive, the points of a lead at its end that wins 73 of 100 games (bench/lead_spread.py)."""
_NINE: Final = 9
_ONE: Final = 1_000_000


def luck_of(step: Step, stream: Stream, policy: Policy, trials: int) -> list[Interval]:
    """The luck of a roll or of a reveal for each seat, by roll-outs: so many for each sum.

    They end with the dive. A lead at its end counts by how often such a lead wins, which says the
    same as playing on to the end of the game, with half the noise.
    """
    players = step.after.state.players
    if step.kind == "reveal":
        weights, outlooks, unit = [-1, 1], [step.before, step.after], 1
    else:
        weights, outlooks = _apart(step)
        unit = _NINE
    if len(outlooks) < 2:
        return [Interval(0.0, 0.0)] * players
    found: list[list[int]] = [[] for _ in range(players)]
    for number in range(trials):
        sums = [0] * players
        for weight, outlook in zip(weights, outlooks, strict=True):
            for seat, score in enumerate(_scores(outlook, stream, policy, number, step.dive)):
                sums[seat] += weight * score
        for seat, total in enumerate(sums):
            found[seat].append(total)
    scale = unit * (players - 1) * _ONE
    return [interval(numbers, scale, doubt=0) for numbers in found]


def _apart(step: Step) -> tuple[list[int], list[Outlook]]:
    """The different positions after a roll; weights in ninths, whose sum is 0."""
    assert step.dice is not None
    rolled = sum(step.dice)
    weights: list[int] = []
    outlooks: list[Outlook] = []
    for total, ways, after in rolls(step.before):
        weight = (_NINE if total == rolled else 0) - ways
        for index, other in enumerate(outlooks):
            if other.state == after.state:
                weights[index] += weight
                break
        else:
            weights.append(weight)
            outlooks.append(after)
    return weights, outlooks


def _scores(
    outlook: Outlook, stream: Stream, policy: Policy, number: int, dive: int
) -> Sequence[int]:
    """One trial of an outlook: for each seat the others that it is ahead of, in parts of `_ONE`."""
    luck = stream.luck(number)
    state = outlook.view().sample(luck)
    play_on(state, luck.dice, policy, dive)
    if dive == DIVES:
        return [half * (_ONE // 2) for half in halves(state)]
    points = state.points()
    share = _shares(dive)
    return [sum([share[own - other] for other in points]) - _ONE // 2 for own in points]


@cache
def _shares(dive: int) -> Mapping[int, int]:
    """How often a lead of so many points at the end of a dive wins, in parts of `_ONE`."""
    most = sum(map(sum, map(values_of_level, LEVELS)))
    return {lead: round(_ONE / (1 + exp(-lead / SPREAD[dive]))) for lead in range(-most, most + 1)}
