"""Values of a view, in plain Python.

A value is the placement score that a seat may expect if all play on as the evaluation does: the
share of the others that it ends ahead of.
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
    """The value for each seat of what it has banked, when this dive has ended."""
    if dive < DIVES:
        spread = 2 * (weights or sdk_weights(len(points))).spreads[dive - 1]
        ahead = [sum([math.tanh((own - other) / spread) for other in points]) for own in points]
    else:  # who is ahead has won
        ahead = [sum([(own > other) - (own < other) for other in points]) for own in points]
    return [0.5 + 0.5 * lead / (len(points) - 1) for lead in ahead]


def choices(view: View, weights: Weights | None = None) -> dict[str, float]:
    """The value of each legal action for the seat to move.

    How stranded divers lay their cargo is not valued: all orders are worth the same.
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
    here = view.trail[max(view.place[seat], 0)]
    load, worth = facts.divers[facts.own].load, facts.divers[facts.own].worth
    cargo = {drop(unit): (load - 1, worth - mean_worth(unit)) for unit in view.cargo[seat]}
    cargo |= {LEAVE: (load, worth), TAKE: (load + 1, worth + mean_worth(here))}
    return {
        action: _value(weights, facts.with_own(load=cargo[action][0], worth=cargo[action][1]))
        for action in view.legal
    }


def values(view: View, weights: Weights | None = None) -> list[float]:
    """The value of a position for each seat; the seat to move chooses its best action."""
    weights = weights or sdk_weights(view.players)
    if view.phase in ("order", "over"):
        return _at_end_of_dive(view, weights)
    mover = view.to_move
    first = (mover + 1) % view.players if view.phase == "search" else mover
    found = [_value(weights, _facts(view, seat, first)) for seat in range(view.players)]
    if view.phase == "search" or len(view.legal) > 1:
        found[mover] = max(choices(view, weights).values())
    return found


def _at_end_of_dive(view: View, weights: Weights) -> list[float]:
    return standings(DIVES if view.phase == "over" else view.dive, points_of_view(view), weights)


def points_of_view(view: View) -> list[float]:
    """What each seat has banked, as far as the view shows it."""
    known = view.known
    return [sum([known.get(chip, MEAN_VALUES[chip]) for chip in bank]) for bank in view.bank]


def _facts(view: View, seat: int, first: int) -> Facts:
    """A position for a seat, where the seat `first` is the next one to breathe."""
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
        # Who has declared has breathed already.
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
    return output(weights, inputs(_arithmetic(), facts))


@cache
def _arithmetic() -> Arithmetic:
    chances = home_chances()

    def turns(air: int, breath: int) -> int:
        return min(max(0, -(-air // breath)), MANY_TURNS) if breath else MANY_TURNS

    def home_chance(load: int, turns: int, distance: float) -> float:
        return chances[load][turns][int(distance)]

    return Arithmetic(max, math.tanh, turns, home_chance)
