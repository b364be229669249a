"""Evaluation of a view in plain Python: values, the net with its weights, the net's inputs.

A value is the placement score that a seat may expect if all play on by the evaluation: the share of
the others that it ends ahead of. Start reading at `values`.

A file of weights is a line of JSON and then numbers as 16-bit floats, lowest byte first. Each layer
has a row for each of its outputs, and then its biases.

Invariants: no numpy is needed. Files are checked when they are read, and an error is one sentence
with the file. The inputs are one list of formulas, for one position and for arrays of many: a
number there is a plain number, or an array with an entry for each of many positions, and the same
lines compute both. Only what a view shows is an input; a chip of unknown value counts as the mean
of its level. Other formulas need another `VERSION`, and weights that are trained anew.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from deepsea_rules.actions import BACK, LEAVE, TAKE, drop
from deepsea_rules.ruleset import ABOARD, DIVES, HOME, MAX_PLAYERS, MIN_PLAYERS
from deepsea_rules.view import View
from deepsea_sdk.policies import MANY_TURNS, MEAN_VALUES, home_chances, mean_worth


def standings(dive: int, points: Sequence[float], weights: Weights | None = None) -> list[float]:
    """Return the placement score that each seat may expect at the end of a dive.

    points   of each seat's bank
    weights  of a trained net, which say how sure a lead is; by default the SDK's
    """
    # For each seat, the sum over all seats of how sure its lead is: 1 if it is sure to end ahead,
    # -1 if it is sure to end behind. Against itself it has 0.
    if dive < DIVES:
        # The chance to end ahead is the logistic function of lead / spread. That is
        # 0.5 + 0.5 * tanh(lead / (2 * spread)).
        spread = (weights or sdk_weights(len(points))).spreads[dive - 1]
        width = 2 * spread
        lead_sums = [sum([math.tanh((own - other) / width) for other in points]) for own in points]
    else:  # after the last dive a lead of any size is sure: 1, 0 or -1
        lead_sums = [sum([(own > other) - (own < other) for other in points]) for own in points]
    # The mean chance over the other seats
    return [0.5 + 0.5 * lead_sum / (len(points) - 1) for lead_sum in lead_sums]


def choices(view: View, weights: Weights | None = None) -> dict[str, float]:
    """Return the value of each legal action for the seat to move.

    All orders of laying stranded cargo have the same value, because the net does not tell them
    apart.

    weights  of a trained net; by default the SDK's
    """
    weights = weights or sdk_weights(view.players)
    seat = view.to_move
    if view.phase == "order":
        return dict.fromkeys(view.legal, _at_end_of_dive(view, weights)[seat])
    if view.phase == "declare":
        facts = _facts(view, seat, first=seat)
        return {
            action: _value(weights, facts.with_own(homeward=action == BACK))
            for action in view.legal
        }
    # Phase "search": an action changes the cargo, and then the next seat breathes.
    facts = _facts(view, seat, first=(seat + 1) % view.players)
    own = facts.divers[facts.own]
    unit_on_space = view.trail[max(view.place[seat], 0)]
    # By action, the changes to the number of carried units and to their worth
    changes = {drop(unit): (-1, -mean_worth(unit)) for unit in view.cargo[seat]}
    changes[LEAVE] = 0, 0.0
    changes[TAKE] = 1, mean_worth(unit_on_space)
    values_by_action = {}
    for action in view.legal:
        units, worth = changes[action]
        after = facts.with_own(load=own.load + units, worth=own.worth + worth)
        values_by_action[action] = _value(weights, after)
    return values_by_action


def values(view: View, weights: Weights | None = None) -> list[float]:
    """Return the value of a position for each seat; for the seat to move, that of its best action.

    weights  of a trained net; by default the SDK's
    """
    weights = weights or sdk_weights(view.players)
    if view.phase in ("order", "over"):
        return _at_end_of_dive(view, weights)
    mover = view.to_move
    # In phase "search" the mover has breathed already.
    next_to_breathe = (mover + 1) % view.players if view.phase == "search" else mover
    by_seat = [_value(weights, _facts(view, seat, next_to_breathe)) for seat in range(view.players)]
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
            DiverFacts(
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
    """Return the operations of `inputs` for plain numbers."""
    chances = home_chances()

    def turns(air: int, breath: int) -> int:
        if not breath:
            return MANY_TURNS
        # -(-a // b) is a / b, rounded up.
        return min(max(0, -(-air // breath)), MANY_TURNS)

    def home_chance(load: int, turns: int, distance: float) -> float:
        return chances[load][turns][int(distance)]

    return Arithmetic(max, math.tanh, turns, home_chance)


# ----- Weights of the net

EVALUATION = "pearl-1"
"""Name and version of the SDK's weights, for results that depend on them."""
_FOLDER = Path(__file__).parent
_LONGEST_HEADER = 65536
"""Most bytes of the line of JSON; a long list of rule sets fits in."""


class WeightsError(ValueError):
    """Raised for a file without usable weights; the message is one sentence."""


class Layer(NamedTuple):
    """A layer of the net: an output is its row times the inputs, plus its bias."""

    rows: tuple[tuple[float, ...], ...]
    biases: tuple[float, ...]


class Weights(NamedTuple):
    """Weights of a trained net, for one number of seats."""

    name: str
    players: int
    spreads: tuple[float, float]
    """The points of a lead that keeps 73 of 100 rivals behind, at the ends of dives 1 and 2."""
    layers: tuple[Layer, ...]
    training: object = None
    """Settings and progress of the training, as `deepsea_sdk.train` stored them.

    None in the SDK's own weights.
    """


def output(weights: Weights, inputs: Sequence[float]) -> float:
    """Return the output of the net for these inputs: each hidden layer is cut off below 0."""
    *hidden, last = weights.layers
    for layer in hidden:
        sums = [sum(map(mul, row, inputs), bias) for row, bias in zip(*layer, strict=True)]
        inputs = [total if total > 0 else 0.0 for total in sums]
    return sum(map(mul, last.rows[0], inputs), last.biases[0])


@cache
def sdk_weights(players: int) -> Weights:
    """Return the weights that come with the SDK for a number of seats."""
    return read_weights(_FOLDER / f"{EVALUATION}.{players}.weights")


def read_weights(path: Path) -> Weights:
    """Return the weights in a file. Raise OSError, or `WeightsError` with the file's path."""
    with path.open("rb") as file:
        header, body = file.readline(_LONGEST_HEADER), file.read()
    try:
        return _parse_weights(header, body)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError, struct.error):
        raise WeightsError(
            f"{path}: this is no whole file of weights, as deepsea_sdk.train writes them"
        ) from None


def _parse_weights(header: bytes, body: bytes) -> Weights:
    """Return the weights in a file's header, a line of JSON, and body, 16-bit floats.

    Raise `WeightsError` for weights that cannot be used, and one of the errors of json and struct
    for a damaged file.
    """
    fields = json.loads(header)
    if fields["inputs"] != VERSION:
        raise WeightsError(
            f"these weights are for inputs of version {fields['inputs']!r}, and this SDK has "
            f"version {VERSION}: train them again with this SDK"
        )
    players, sizes = fields["players"], fields["sizes"]
    if players not in range(MIN_PLAYERS, MAX_PLAYERS + 1):
        raise WeightsError(f"weights for {players!r} seats; there are 2 to 6")
    if (sizes[0], sizes[-1]) != (INPUTS, 1):
        raise WeightsError(f"layers of {sizes!r}; the net has {INPUTS} inputs and 1 output")
    count = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    numbers = struct.unpack(f"<{count}e", body)
    spreads = float(fields["spreads"][0]), float(fields["spreads"][1])
    if not all(map(math.isfinite, (*numbers, *spreads))) or min(spreads) <= 0:
        raise WeightsError("a number in it is not finite, or a spread not above 0: train again")
    layers = _layers_of(numbers, sizes)
    return Weights(str(fields["name"]), players, spreads, layers, fields.get("training"))


def _layers_of(numbers: tuple[float, ...], sizes: Sequence[int]) -> tuple[Layer, ...]:
    """Return the layers of a net whose weights are one list of numbers.

    Each layer has a row of weights for each of its outputs, and then their biases.

    sizes  the number of the net's inputs, and of the outputs of each layer
    """
    layers = []
    position = 0
    for inputs, outputs in pairwise(sizes):
        rows = []
        for _ in range(outputs):
            rows.append(numbers[position : position + inputs])
            position += inputs
        biases = numbers[position : position + outputs]
        position += outputs
        layers.append(Layer(tuple(rows), biases))
    return tuple(layers)


def half_written(path: Path) -> Path:
    """Return a temporary path beside a file, of this process alone, to write new content to."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_weights(path: Path, weights: Weights) -> None:
    """Write weights to a file, as a line of JSON and then 16-bit floats.

    The file is replaced as a whole, so that nobody reads it half written.
    """
    fields = {
        "name": weights.name,
        "players": weights.players,
        "spreads": weights.spreads,
        "inputs": VERSION,
        "sizes": [INPUTS, *(len(layer.biases) for layer in weights.layers)],
        "training": weights.training,
    }
    numbers: list[float] = []
    for rows, biases in weights.layers:
        for row in rows:
            numbers += row
        numbers += biases
    body = struct.pack(f"<{len(numbers)}e", *numbers)
    temporary = half_written(path)
    temporary.write_bytes(json.dumps(fields).encode() + b"\n" + body)
    temporary.replace(path)


# ----- Inputs of the net

Number: TypeAlias = Any
"""An int, a float, or an array of many positions."""

VERSION = 1
"""Version of the inputs; weights for another one are refused."""
INPUTS = 49
"""Number of inputs."""
STEEPNESS = (1 / 18, 1 / 13, 1 / 5)
"""The speed with which a larger lead becomes a sure one in the inputs, for each dive."""
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
class DiverFacts:
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

    divers: list[DiverFacts]
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


def _ahead(
    do: Arithmetic, facts: Facts, points: Number, rival: DiverFacts, chance: Number
) -> Number:
    """Return how sure it is that a seat with these points stays ahead of a rival, from -1 to 1.

    It is a mean over the two cases that the rival drowns and that it comes home, weighted by their
    chances.

    do      operations for plain numbers or for arrays
    chance  the chance that the rival brings its cargo home
    """
    if_rival_drowns = do.tanh((points - rival.points) * facts.steepness)
    if_rival_comes_home = do.tanh((points - rival.points - rival.worth) * facts.steepness)
    return if_rival_drowns + chance * (if_rival_comes_home - if_rival_drowns)
