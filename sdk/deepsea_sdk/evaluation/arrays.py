"""Values of many positions at once, and a policy that goes by them: needs numpy.

Invariants: for a position that is in a batch and in a view the values of `plain` are the same, but
for the accuracy of floats; `values` of a batch count only where the viewer may know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from deepsea_rules.actions import LEVELS
from deepsea_sdk.batch import Batch, Policy, Turn
from deepsea_sdk.batch.clean_up import BELOW
from deepsea_sdk.batch.engine import points_of
from deepsea_sdk.batch.policies import PER_BREATH, TURNS_LEFT
from deepsea_sdk.batch.units import U64, WORTH_AT, Array, levels
from deepsea_sdk.policies import home_chances

from .inputs import INPUTS, REACH, STEEPNESS, Arithmetic, Diver, Facts, inputs
from .net import Weights, sdk_weights

F32 = np.float32
_CHANCES = np.array(home_chances(), F32)
_TURNS, _FARTHEST = _CHANCES.shape[1:]
_HOME = _CHANCES.ravel()
_TURNS_LEFT = TURNS_LEFT.astype(F32)
_MEANS = np.array([4 * level - 2.5 for level in LEVELS], F32)
_STEEPNESS = np.array([0, *STEEPNESS], F32)
_HALF = F32(0.5)


def _turns(air: Array, breath: Array) -> Array:
    index = breath * PER_BREATH + np.maximum(air, 0)
    turns: Array = _TURNS_LEFT.take(index.astype(np.int64))
    return turns


def _home_chance(load: Array, turns: Array, distance: Array) -> Array:
    index = (load * _TURNS + turns) * _FARTHEST + distance
    chances: Array = _HOME.take(index.astype(np.int64))
    return chances


_ARITHMETIC = Arithmetic(np.maximum, np.tanh, _turns, _home_chance)


class Net:
    """The net on arrays; training changes it."""

    def __init__(self, layers: Sequence[tuple[Array, Array]], spreads: tuple[float, float]) -> None:
        """layers: of each the matrix [inputs, outputs], and what is added."""
        self.layers, self.spreads = list(layers), spreads

    @classmethod
    def of(cls, weights: Weights) -> Net:
        layers = [
            (np.array(rows, F32).T.copy(), np.array(added, F32)) for rows, added in weights.layers
        ]
        return cls(layers, weights.spreads)

    def __call__(self, inputs: Array) -> Array:
        """The values of positions: inputs [positions, INPUTS]."""
        *hidden, (matrix, added) = self.layers
        for into, more in hidden:
            inputs = np.maximum(inputs @ into + more, 0)
        result: Array = (inputs @ matrix + added)[:, 0]
        return result


def columns(facts: Facts) -> Array:
    """The inputs of positions, [positions, INPUTS]."""
    found = inputs(_ARITHMETIC, facts)
    array = np.empty((len(facts.air), INPUTS), F32)
    for i, column in enumerate(found):
        array[:, i] = column
    return array


def facts_of(batch: Batch, games: Array, first: Array, own: int) -> Facts:
    """Positions for the seats that are `own` turns after `first`, the seats next to breathe.

    Each is seen by the seat whose value is asked. After a declaration the air is used already: add
    the mover's load to it.
    """
    players = batch.players
    ring = (first[:, None] + np.arange(players)) % players
    diver = games[:, None] * players + ring
    place = batch.place.take(diver)
    points = points_at(batch, games, diver, own)
    worth = (batch.carried.take(diver) >> WORTH_AT).astype(F32) * _HALF
    load, homeward = batch.load.take(diver), batch.homeward.take(diver)
    by_field = (np.maximum(place, 0), place >= 0, load, worth, homeward, points)
    divers = [*map(Diver, *(array.T.astype(F32) for array in by_field))]
    dive = batch.dive[games]
    space = np.maximum(place[:, own], 0).astype(np.int64)
    # Sums of worth up to a space: what lies between two is a difference of sums.
    sums = np.zeros((len(games), batch.trail.shape[1] + 1 + max(REACH)), F32)
    units = (batch.trail.take(games, axis=0) >> WORTH_AT).astype(F32) * _HALF
    width = units.shape[1]
    np.cumsum(units, axis=1, out=sums[:, 1 : width + 1])
    sums[:, width + 1 :] = sums[:, width : width + 1]
    row = np.arange(len(games)) * sums.shape[1]
    upto = sums.ravel()
    before, here = upto.take(row + space), upto.take(row + space + 1)
    return Facts(
        divers=divers,
        own=own,
        rolls=0.0,
        air=batch.air[games].astype(F32),
        first_dive=dive == 1,
        second_dive=dive == 2,
        steepness=_STEEPNESS.take(dive),
        free=not batch.rules.turn_needs_treasure,
        barred=batch.rules.home_empty_handed == "barred",
        below=batch.last[games] - divers[own].place,
        down=[upto.take(row + space + 1 + reach) - here for reach in REACH],
        up=[before - upto.take(row + np.maximum(space - reach, 0)) for reach in REACH[:2]],
    )


def points_at(batch: Batch, games: Array, diver: Array, own: int) -> Array:
    """What is banked, as far as the diver in column `own` knows it; diver [games, seats]."""
    banks = batch.bank.take(diver)
    known = np.zeros(len(games), U64)
    if batch.rules.reveal == "dive_end":
        known |= batch.banked_earlier[games]
    if batch.rules.owner_peek == "on_return":
        known |= banks[:, own]
    seen = banks & known[:, None]
    points = levels(banks ^ seen) @ _MEANS
    row, seat = seen.nonzero()
    if len(row):
        points[row, seat] += points_of(seen[row, seat][:, None], batch.values[games[row]])[:, 0]
    return points


def mover_values(net: Net, batch: Batch, games: Array) -> Array:
    """The values of games between two turns for the seats to move, which declare their best."""
    facts = facts_of(batch, games, batch.to_move[games], 0)
    facts.rolls = 1.0
    values = net(columns(facts))
    may = batch.may_declare(batch.turn(games))
    if may.any():
        back = net(columns(facts.with_own(homeward=np.ones(len(games), F32))))
        values[may] = np.maximum(values, back)[may]
    return values


def standings_of(points: Array, spread: Array) -> Array:
    """As `plain.standings` before the last dive, [games, seats]; spread [games]."""
    gaps = points[:, :, None] - points[:, None, :]
    ahead = np.tanh(gaps / (2 * spread)[:, None, None]).sum(axis=2)
    standing: Array = 0.5 + 0.5 * ahead / (points.shape[1] - 1)
    return standing


class Evaluated(Policy):
    """Chooses what the net values most; of the units to drop it looks at the poorest."""

    def __init__(self, net: Net) -> None:
        self.net = net

    def choose(self, batch: Batch, turn: Turn, options: Sequence[Facts]) -> Array:
        """The index of the option that each takes."""
        inputs = np.concatenate([columns(facts) for facts in options])
        values = self.net(inputs).reshape(len(options), -1)
        return self.chosen(batch, turn, values, inputs)

    def chosen(self, batch: Batch, turn: Turn, values: Array, inputs: Array) -> Array:
        """The best option of each; values [options, games], inputs [options × games, INPUTS]."""
        best: Array = values.argmax(axis=0)
        return best

    def declare(self, batch: Batch, turn: Turn) -> Array:
        facts = facts_of(batch, turn.diver // batch.players, turn.of(batch.to_move), 0)
        facts.rolls = 1.0
        ways = [facts.with_own(homeward=np.full(len(turn.diver), up, F32)) for up in (0, 1)]
        back: Array = self.choose(batch, turn, ways) == 1
        return back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        worth = (units >> WORTH_AT).astype(F32) * _HALF
        return self._with_cargo(batch, turn, 1, worth)

    def drop(self, batch: Batch, turn: Turn) -> Array:
        twice = (batch.cargo.take(turn.diver, axis=0) >> WORTH_AT).astype(np.int64)
        twice[~BELOW[turn.load]] = 999
        poorest = twice.argmin(axis=1)
        least = twice[np.arange(len(poorest)), poorest].astype(F32) * _HALF
        drops = self._with_cargo(batch, turn, -1, -least)
        return np.where(drops, poorest, -1)

    def _with_cargo(self, batch: Batch, turn: Turn, units: int, worth: Array) -> Array:
        """Whether each goes on with this change of its cargo."""
        next_seat = (turn.of(batch.to_move) + 1) % batch.players
        facts = facts_of(batch, turn.diver // batch.players, next_seat, batch.players - 1)
        own = facts.divers[-1]
        other = facts.with_own(load=own.load + F32(units), worth=own.worth + worth)
        changes: Array = self.choose(batch, turn, [facts, other]) == 1
        return changes


@cache
def sdk_policy(players: int) -> Evaluated:
    """The policy by the weights of the SDK."""
    return Evaluated(Net.of(sdk_weights(players)))
