"""Policies that decide for many games at once.

Invariants: `SteadyPolicy` decides as `deepsea_sdk.steady` does, by the same comparisons of the same
numbers; no policy here looks at `values`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepsea_rules.ruleset import FULL_AIR
from deepsea_sdk.policies import MANY_TURNS, STEADY, Numbers, home_chances

from .engine import Batch, Policy, Turn
from .units import BELOW, SLOTS, WORTH_AT, Array, Orders

_CHANCES = np.array(home_chances()[: SLOTS + 2])
"""[load, turns, distance] the chance to come home."""
_FARTHEST = _CHANCES.shape[2]
_PER_LOAD = _CHANCES[0].size
_HOME = _CHANCES.ravel()
_MOST_BREATH = 49
PER_BREATH = FULL_AIR + 1
TURNS_LEFT = np.array(
    [
        min(-(-air // breath), MANY_TURNS) if breath else MANY_TURNS
        for breath in range(_MOST_BREATH)
        for air in range(PER_BREATH)
    ]
)
"""Turns that a seat still has, at index breath × PER_BREATH + air, for the units carried by all.

In each round the air falls by the breath, so a seat has air / breath turns, rounded up.
"""
_ROW = _FARTHEST * TURNS_LEFT
"""The index of a row in a load's part of `_HOME`, by the index of `TURNS_LEFT`.

The row has the chances for a number of turns, by distance.
"""


class RandomPolicy(Policy):
    """Policy that chooses each legal action with the same probability."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._coins = np.zeros(0, bool)

    def _toss(self, count: int) -> Array:
        """Return so many random booleans, from a stock that is drawn in large blocks."""
        if len(self._coins) < count:
            octets = np.frombuffer(self._rng.bytes(max(4096, count)), np.uint8)
            self._coins = np.unpackbits(octets).view(bool)
        coins, self._coins = self._coins[:count], self._coins[count:]
        return coins

    def declare(self, batch: Batch, turn: Turn) -> Array:
        return self._toss(len(turn.diver))

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        return self._toss(len(turn.diver))

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return a random slot to drop for each diver, or -1 to leave."""
        # With one unit there are two actions: drop it (0) or leave (-1).
        slots: Array = self._toss(len(turn.diver)).astype(np.int64) - 1
        rows = np.flatnonzero(turn.load > 1)
        names_upto = first_of_name(batch, turn.part(rows)).cumsum(axis=1)
        # 0 is to leave, and n the n-th unit with a name of its own.
        chosen = (self._rng.random(len(rows)) * (names_upto[:, -1] + 1)).astype(np.int64)
        slots[rows] = np.where(chosen == 0, -1, (names_upto < chosen[:, None]).sum(axis=1))
        return slots

    orders = True

    def order(self, batch: Batch, orders: Orders) -> Array:
        """Return a random order for each diver."""
        # Sorting random keys gives a random order; 1 is above all of them.
        keys = self._rng.random(orders.items.shape)
        keys[~orders.inside()] = 1
        chosen: Array = keys.argsort(axis=1)
        return chosen


def first_of_name(batch: Batch, turn: Turn) -> Array:
    """Return [divers, SLOTS]: which carried units are the first with their name.

    These are the units that can be dropped: units with one name are alike, and a drop means the
    first.
    """
    # The slot is the first dimension: numpy compares numbers faster that lie side by side.
    names = np.ascontiguousarray(batch.cargo.take(turn.diver, axis=0).T & batch.name_bits)
    first = np.ascontiguousarray(BELOW[turn.load].T)
    for slot in range(1, int(turn.load.max(initial=0))):
        for earlier_name in names[:slot]:
            first[slot] &= names[slot] != earlier_name
    return first.T


class SteadyPolicy(Policy):
    """The SDK's steady policy for a batch.

    numbers  constants of the policy; by default those for so many seats
    """

    def __init__(self, players: int, numbers: Numbers | None = None) -> None:
        constants = numbers or STEADY[players]
        self._turn_back = np.array([0, *constants.turn_back])
        self._next_move = constants.next_move
        # "At least x" is "more than the number before x", so that `take` needs one comparison.
        # The index is the dive, plus 4 for divers with a load, whose threshold is 0.
        self._first_unit = np.array([0, *np.nextafter(constants.first_unit, -1), 0, 0, 0, 0])
        self._next_unit = constants.next_unit
        self._drop_unit = constants.drop_unit

    def declare(self, batch: Batch, turn: Turn) -> Array:
        """Return which divers turn back: those with too small a chance to come home later."""
        # `_HOME` is a flat table by load, turns and distance; `_ROW`, by breath and air, has the
        # start of the row for the turns that are left.
        row = np.multiply(batch.breath[turn.games], PER_BREATH, dtype=np.int64)
        row += batch.air[turn.games]
        index = np.multiply(turn.load, _PER_LOAD, dtype=np.int64)
        index += _ROW.take(row)
        # The chance after one more turn downwards: farther away by the mean move, and with one
        # turn less, hence one row of `_FARTHEST` distances less.
        index += turn.place + (np.maximum(self._next_move - turn.load, 1) - _FARTHEST)
        chance = _HOME.take(index, mode="wrap")
        back: Array = chance < self._turn_back.take(batch.dive[turn.games])
        if not batch.rules.turn_needs_treasure:
            back &= turn.load > 0
        return back

    def _later(self, batch: Batch, turn: Turn) -> tuple[Array, Array]:
        """Return where to look up the chances to come home, with the cargo as it is.

        The first array has indices of `_ROW`, the second has offsets in `_HOME`; a chance is at
        `_HOME[offset + _ROW[index]]`.
        """
        breath = batch.breath[turn.games]
        row = np.multiply(breath, PER_BREATH, dtype=np.int64)
        # All others breathe before this seat's next turn.
        row += np.maximum(batch.air[turn.games] - breath + turn.load, 0)
        index = np.multiply(turn.load, _PER_LOAD, dtype=np.int64)
        index += turn.place
        return row, index

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        """Return which divers take the unit on their space: those that expect more from it."""
        row, index = self._later(batch, turn)
        # Packed worths are twice the mean, so that they are whole numbers.
        twice_points = (batch.carried[turn.diver] >> WORTH_AT).view(np.int64)
        without = _HOME.take(index + _ROW.take(row))
        without *= self._next_unit
        without *= twice_points * 0.5
        # The threshold of the first unit, by dive; plus 4 for a diver with a load, where it is 0.
        without += self._first_unit.take(batch.dive[turn.games] + np.int8(4) * (turn.load > 0))
        # The same with one unit more on the diver, and one more that all breathe for.
        index += _PER_LOAD
        row += PER_BREATH
        with_it = _HOME.take(index + _ROW.take(row))
        twice_points += (units >> WORTH_AT).view(np.int64)
        with_it *= twice_points * 0.5
        takes: Array = with_it > without
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return the slot of each diver's poorest unit, or -1 to leave.

        A diver drops it if it expects more points without it.
        """
        row, index = self._later(batch, turn)
        points = (batch.carried[turn.diver] >> WORTH_AT).view(np.int64) * 0.5
        with_all = _HOME.take(index + _ROW.take(row))
        with_all *= self._drop_unit
        with_all *= points
        index -= _PER_LOAD
        row -= PER_BREATH
        chance_without = _HOME.take(index + _ROW.take(row))
        slots = np.full(len(turn.diver), -1)
        # No unit is worth less than the 1.5 points of a chip of level 1. Only divers that would
        # gain by dropping so little have their units compared.
        rows = np.flatnonzero((chance_without * (points - 1.5) > with_all) & (turn.load > 1))
        if len(rows):
            twice_points = (batch.cargo.take(turn.diver[rows], axis=0) >> WORTH_AT).view(np.int64)
            twice_points[~BELOW[turn.load[rows]]] = 999  # above any unit's
            poorest = twice_points.argmin(axis=1)
            lost_points = twice_points[np.arange(len(rows)), poorest] * 0.5
            drops = chance_without[rows] * (points[rows] - lost_points) > with_all[rows]
            slots[rows] = np.where(drops, poorest, -1)
        return slots


class BySeat(Policy):
    """Policy that asks another policy for each seat of each game.

    seats  [games, seats] the index in `policies` of the policy of each seat
    """

    def __init__(self, policies: Sequence[Policy], seats: Array) -> None:
        self._policies, self.seats = policies, seats
        self.orders = any(policy.orders for policy in policies)

    def _parts(self, turn: Turn) -> list[tuple[Policy, Array]]:
        """Return each policy that has divers to move, with the rows of those divers in `turn`."""
        numbers = self.seats.reshape(-1)[turn.diver]
        parts = []
        for number, policy in enumerate(self._policies):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                parts.append((policy, rows))
        return parts

    def declare(self, batch: Batch, turn: Turn) -> Array:
        back = np.zeros(len(turn.diver), bool)
        for policy, rows in self._parts(turn):
            back[rows] = policy.declare(batch, turn.part(rows))
        return back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        takes = np.zeros(len(turn.diver), bool)
        for policy, rows in self._parts(turn):
            takes[rows] = policy.take(batch, turn.part(rows), units[rows])
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        slots = np.full(len(turn.diver), -1)
        for policy, rows in self._parts(turn):
            slots[rows] = policy.drop(batch, turn.part(rows))
        return slots

    def order(self, batch: Batch, orders: Orders) -> Array:
        """Return each diver's order by its seat's policy; pick-up order if that has none."""
        chosen = np.tile(np.arange(orders.items.shape[1]), (len(orders.games), 1))
        numbers = self.seats.reshape(-1)[orders.diver]
        for number, policy in enumerate(self._policies):
            rows = np.flatnonzero(numbers == number)
            if policy.orders and len(rows):
                chosen[rows] = policy.order(batch, Orders(*(part[rows] for part in orders)))
        return chosen
