"""Inputs of the net: one list of formulas, for one position and for arrays of many.

Invariants: a number here is a plain number, or an array with an entry for each of many positions,
and the same lines compute both. Only what a view shows goes in; a chip of unknown value counts as
the mean of its level. Other formulas need another `VERSION`, and weights that are trained anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

Number: TypeAlias = Any
"""An int, a float, or an array of many positions."""

VERSION = 1
"""Version of the inputs; weights for another one are refused."""
INPUTS = 49
"""Number of inputs."""
STEEPNESS = (1 / 18, 1 / 13, 1 / 5)
"""For each dive, how fast a larger lead becomes a sure one in the inputs."""
REACH = (3, 8, 16)
"""Distances in spaces up to which the worth of units is summed up, for one input each."""


class Arithmetic(NamedTuple):
    """Operations that differ between numbers and arrays."""

    maximum: Callable[[Number, Number], Number]
    tanh: Callable[[Number], Number]
    turns: Callable[[Number, Number], Number]
    """Turns that are left, by air and breath."""
    home_chance: Callable[[Number, Number, Number], Number]
    """Chance to come home, by load, turns and distance."""


@dataclass(slots=True)
class Diver:
    """A diver in a position."""

    place: Number
    """Distance from home; 0 in the submarine and at home."""
    out: Number
    """1, or 0 if it is home."""
    load: Number
    """Number of carried units."""
    worth: Number
    """Mean worth of its cargo in points."""
    homeward: Number
    """1 if it has turned back."""
    points: Number
    """Points that it has banked."""


@dataclass(slots=True)
class Facts:
    """A position as one diver sees it."""

    divers: list[Diver]
    """The divers in the order of their turns, from the next one on."""
    own: int
    """The diver whose value is computed, as an index of `divers`."""
    rolls: float
    """1 if the own diver has declared and rolls now."""
    air: Number
    """The air before the first of `divers` breathes."""
    first_dive: Number
    """1 in dive 1."""
    second_dive: Number
    """1 in dive 2."""
    steepness: Number
    """The entry of `STEEPNESS` for the dive."""
    free: bool
    """Set if a diver may turn back without treasure."""
    barred: bool
    """Set if a diver without treasure has to wait outside the submarine."""
    below: Number
    """Number of spaces below the own diver."""
    down: Sequence[Number]
    """Mean worth of the units below the own diver, up to each distance of `REACH`."""
    up: Sequence[Number]
    """Mean worth of the units above the own diver, up to the first two distances of `REACH`."""

    def with_own(self, **changes: Number) -> Facts:
        """Return the same position with changes to the own diver."""
        divers = self.divers.copy()
        divers[self.own] = replace(divers[self.own], **changes)
        return replace(self, divers=divers)


def inputs(do: Arithmetic, facts: Facts) -> list[Number]:
    """Return the `INPUTS` inputs of the net; most of them are between -1 and 1."""
    own = facts.divers[facts.own]
    breath = sum([diver.load for diver in facts.divers])
    with_cargo = own.points + own.worth
    air = own_air = facts.air
    on_the_way = wait = going_down = empty = carried = rising = between = 0.0
    lost = saved = hopes = saving = places = chances = 0.0
    best = second = -99.0
    for index, diver in enumerate(facts.divers):
        if index == facts.own:
            own_air, wait = air, on_the_way
        else:
            chance = do.home_chance(diver.load, do.turns(air, breath), diver.place)
            lost = lost + _ahead(do, facts, own.points, diver, chance)
            saved = saved + _ahead(do, facts, with_cargo, diver, chance)
            hope = diver.points + chance * diver.worth
            hopes = hopes + hope
            saving = saving + chance * diver.worth
            places = places + diver.place
            chances = chances + diver.out * chance
            # -maximum(-a, -b) is the minimum: the second best hope is the lower of the best two.
            second = do.maximum(second, -do.maximum(-hope, -best))
            best = do.maximum(best, hope)
            going_down = going_down + diver.out * (1 - diver.homeward)
            empty = empty + diver.out * (diver.load == 0)
            between = between + diver.out * ((diver.place > 0) & (diver.place < own.place))
            carried = carried + diver.worth
            rising = rising + diver.load * diver.homeward
        air = air - diver.load
        on_the_way = on_the_way + diver.out
    rivals = len(facts.divers) - 1
    if rivals == 1:
        second = best
    lost, saved = lost / rivals, saved / rivals
    turns = do.turns(own_air, breath)
    # Spaces of other divers are skipped on the way home. `deeper` is the distance after one more
    # move downwards.
    way = own.place - between
    chance = do.home_chance(own.load, turns, way)
    deeper = way + do.maximum(5 - own.load, 1)
    chance_deeper = do.home_chance(own.load, do.maximum(turns - 1, 0), deeper)
    share = lost + chance * (saved - lost)
    heavier = do.turns(own_air, breath + 1)
    chance_deeper_with_more = do.home_chance(own.load + 1, do.maximum(heavier - 1, 0), deeper)
    down, further, far = facts.down
    up, higher = facts.up
    return [
        facts.first_dive,
        facts.second_dive,
        facts.free,
        facts.barred,
        own_air * 0.04,
        turns * 0.05,
        breath * 0.1,
        (breath - own.load) * 0.1,
        (on_the_way - own.out) * 0.2,
        going_down * 0.2,
        empty * 0.2,
        carried * 0.025,
        rising * 0.1,
        saving * 0.025,
        places * 0.02,
        chances * 0.2,
        own.place * 0.05,
        facts.below * 0.05,
        between * 0.2,
        (own.place - places / rivals) * 0.05,
        own.load * 0.2,
        own.load == 0,
        own.worth * 0.04,
        own.homeward,
        facts.rolls,
        wait * 0.2,
        own.out,
        chance,
        chance_deeper,
        chance_deeper_with_more,
        chance * own.worth * 0.05,
        chance_deeper * own.worth * 0.05,
        lost,
        saved,
        share,
        lost + chance_deeper * (saved - lost),
        (own.points - best) * 0.05,
        (own.points - second) * 0.05,
        (own.points - hopes / rivals) * 0.05,
        own.homeward * chance,
        own.homeward * share,
        own.homeward * own.place * 0.05,
        own.homeward * turns * 0.05,
        own.load * own.place * 0.02,
        down * 0.05,
        (further - down) * 0.05,
        (far - further) * 0.05,
        up * 0.05,
        (higher - up) * 0.05,
    ]


def _ahead(do: Arithmetic, facts: Facts, points: Number, rival: Diver, chance: Number) -> Number:
    """Return how sure a lead these points are over a rival, from -1 to 1.

    The rival brings its cargo home with probability `chance`.
    """
    lost = do.tanh((points - rival.points) * facts.steepness)
    saved = do.tanh((points - rival.points - rival.worth) * facts.steepness)
    return lost + chance * (saved - lost)
