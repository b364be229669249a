"""Evaluation of a view, in plain Python.

A value is the placement score that a seat may expect if all play on by the evaluation: the share of
the others that it ends ahead of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from deepsea_rules.actions import BACK, LEAVE, TAKE, drop
from deepsea_rules.ruleset import ABOARD, DIVES, HOME
from deepsea_rules.view import View
from deepsea_sdk.policies import MANY_TURNS, MEAN_VALUES, home_chances, mean_worth

from .inputs import REACH, STEEPNESS, Arithmetic, Diver, Facts, inputs
from .net import Weights, output, sdk_weights


def standings(dive: int, points: Sequence[float], weights: Weights | None = None) -> list[float]:
    """Return the value for each seat of its banked points at the end of a dive."""
    if dive < DIVES:
        spread = 2 * (weights or sdk_weights(len(points))).spreads[dive - 1]
        ahead = [sum([math.tanh((own - other) / spread) for other in points]) for own in points]
    else:  # after the last dive, a lead of any size has won
        ahead = [sum([(own > other) - (own < other) for other in points]) for own in points]
    return [0.5 + 0.5 * lead / (len(points) - 1) for lead in ahead]


def choices(view: View, weights: Weights | None = None) -> dict[str, float]:
    """Return the value of each legal action for the seat to move.

    The order in which stranded divers lay their cargo is not valued: all orders have the same
    value.
    """
    weights = weights or sdk_weights(view.players)
    seat = view.to_move
    if view.phase == "order":
        return dict.fromkeys(view.legal, _at_end_of_dive(view, weights)[seat])
    if view.phase == "declare":
        facts = _facts(view, seat, seat)
        return {
            action: _value(weights, facts.with_own(homeward=action == BACK))
            for action in view.legal
        }
    facts = _facts(view, seat, (seat + 1) % view.players)
    unit_on_space = view.trail[max(view.place[seat], 0)]
    load, worth = facts.divers[facts.own].load, facts.divers[facts.own].worth
    # By action, the load and the worth of the cargo after it
    cargo = {drop(unit): (load - 1, worth - mean_worth(unit)) for unit in view.cargo[seat]}
    cargo |= {LEAVE: (load, worth), TAKE: (load + 1, worth + mean_worth(unit_on_space))}
    return {
        action: _value(weights, facts.with_own(load=cargo[action][0], worth=cargo[action][1]))
        for action in view.legal
    }


def values(view: View, weights: Weights | None = None) -> list[float]:
    """Return the value of a position for each seat; the seat to move chooses its best action."""
    weights = weights or sdk_weights(view.players)
    if view.phase in ("order", "over"):
        return _at_end_of_dive(view, weights)
    mover = view.to_move
    first = (mover + 1) % view.players if view.phase == "search" else mover
    by_seat = [_value(weights, _facts(view, seat, first)) for seat in range(view.players)]
    if view.phase == "search" or len(view.legal) > 1:
        by_seat[mover] = max(choices(view, weights).values())
    return by_seat


def _at_end_of_dive(view: View, weights: Weights) -> list[float]:
    """Return the value for each seat if the dive ends with the banks as they are."""
    return standings(DIVES if view.phase == "over" else view.dive, points_of_view(view), weights)


def points_of_view(view: View) -> list[float]:
    """Return the banked points of each seat; chips of unknown value count as their level's mean."""
    known = view.known
    return [sum([known.get(chip, MEAN_VALUES[chip]) for chip in bank]) for bank in view.bank]


def _facts(view: View, seat: int, first: int) -> Facts:
    """Return a position as a seat sees it, where the seat `first` is the next one to breathe."""
    points = points_of_view(view)
    ring = [(first + i) % view.players for i in range(view.players)]
    place = max(view.place[seat], ABOARD)
    worths = [mean_worth(unit) for unit in view.trail]
    rules = view.rules
    rolled = view.phase == "roll"
    return Facts(
        divers=[
            Diver(
                max(view.place[other], ABOARD),
                view.place[other] != HOME,
                len(view.cargo[other]),
                sum(map(mean_worth, view.cargo[other])),
                view.homeward[other],
                points[other],
            )
            for other in ring
        ],
        own=ring.index(seat),
        rolls=seat == first and view.phase != "search",
        # In phase "roll" the seat to move has breathed already; its air is added again.
        air=view.air + (len(view.cargo[view.to_move]) if rolled else 0),
        first_dive=view.dive == 1,
        second_dive=view.dive == 2,
        steepness=STEEPNESS[view.dive - 1],
        free=not rules.turn_needs_treasure,
        barred=rules.home_empty_handed == "barred",
        below=len(view.trail) - 1 - place,
        down=[sum(worths[place + 1 : place + 1 + reach]) for reach in REACH],
        up=[sum(worths[max(place - reach, 0) : place]) for reach in REACH[:2]],
    )


def _value(weights: Weights, facts: Facts) -> float:
    """Return the net's value of a position."""
    return output(weights, inputs(_arithmetic(), facts))


@cache
def _arithmetic() -> Arithmetic:
    """Return the operations for plain numbers."""
    chances = home_chances()

    def turns(air: int, breath: int) -> int:
        if not breath:
            return MANY_TURNS
        # -(-a // b) is a / b, rounded up.
        return min(max(0, -(-air // breath)), MANY_TURNS)

    def home_chance(load: int, turns: int, distance: float) -> float:
        return chances[load][turns][int(distance)]

    return Arithmetic(max, math.tanh, turns, home_chance)
