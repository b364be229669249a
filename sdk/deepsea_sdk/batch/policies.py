"""Policies that decide for many games at once.

Invariants: `SteadyPolicy` makes the decisions of `deepsea_sdk.steady`, by the same comparisons of
the same numbers; neither policy looks at `values`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepsea_rules.ruleset import FULL_AIR
from deepsea_sdk.policies import MANY_TURNS, STEADY, Numbers, home_chances

from .clean_up import BELOW, SLOTS, Orders
from .engine import Batch, Policy, Turn
from .units import WORTH_AT, Array

_CHANCES = np.array(home_chances()[: SLOTS + 2])
"""By load, turns and distance."""
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
"""By breath and air, at breath × PER_BREATH + air."""
_ROW = _FARTHEST * TURNS_LEFT
"""The same: where in a load's part of the table the chances in so many turns begin."""


class RandomPolicy(Policy):
    """Each legal action is as likely as any other."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._coins = np.zeros(0, bool)

    def _toss(self, count: int) -> Array:
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
        # With one unit there are two actions.
        slots: Array = self._toss(len(turn.diver)).astype(np.int64) - 1
        several = np.flatnonzero(turn.load > 1)
        upto = first_of_name(batch, turn.part(several)).cumsum(axis=1)
        # 0 is to leave, and n the n-th unit with a name of its own.
        chosen = (self._rng.random(len(several)) * (upto[:, -1] + 1)).astype(np.int64)
        slots[several] = np.where(chosen == 0, -1, (upto < chosen[:, None]).sum(axis=1))
        return slots

    orders = True

    def order(self, batch: Batch, orders: Orders) -> Array:
        keys = self._rng.random(orders.items.shape)
        keys[~orders.inside()] = 1
        chosen: Array = keys.argsort(axis=1)
        return chosen


def first_of_name(batch: Batch, turn: Turn) -> Array:
    """Which carried units may be dropped: of units with one name the first; [games, SLOTS]."""
    # By slot, because numbers that lie side by side are compared at once.
    names = np.ascontiguousarray(batch.cargo.take(turn.diver, axis=0).T & batch.name_bits)
    first = np.ascontiguousarray(BELOW[turn.load].T)
    for slot in range(1, int(turn.load.max(initial=0))):
        for before in names[:slot]:
            first[slot] &= names[slot] != before
    return first.T


class SteadyPolicy(Policy):
    """The SDK's steady policy; `numbers` are those for so many seats where none are given."""

    def __init__(self, players: int, numbers: Numbers | None = None) -> None:
        chosen = numbers or STEADY[players]
        self._turn_back = np.array([0, *chosen.turn_back])
        self._next_move = chosen.next_move
        # "At least" as "more than" the number before, so that it is one comparison; by dive, and
        # from 4 on for divers with a load, for which it is 0.
        self._first_unit = np.array([0, *np.nextafter(chosen.first_unit, -1), 0, 0, 0, 0])
        self._next_unit = chosen.next_unit
        self._drop_unit = chosen.drop_unit

    def declare(self, batch: Batch, turn: Turn) -> Array:
        row = np.multiply(batch.breath[turn.games], PER_BREATH, dtype=np.int64)
        row += batch.air[turn.games]
        index = np.multiply(turn.load, _PER_LOAD, dtype=np.int64)
        index += _ROW.take(row)
        # After one more turn, hence a row less.
        index += turn.place + (np.maximum(self._next_move - turn.load, 1) - _FARTHEST)
        chance = _HOME.take(index, mode="wrap")
        back: Array = chance < self._turn_back.take(batch.dive[turn.games])
        if not batch.rules.turn_needs_treasure:
            back &= turn.load > 0
        return back

    def _later(self, batch: Batch, turn: Turn) -> tuple[Array, Array]:
        """Indices of the chances with the cargo as it is: in `_ROW`, and in a row of `_HOME`."""
        breath = batch.breath[turn.games]
        row = np.multiply(breath, PER_BREATH, dtype=np.int64)
        # The others breathe before this seat does again.
        row += np.maximum(batch.air[turn.games] - breath + turn.load, 0)
        index = np.multiply(turn.load, _PER_LOAD, dtype=np.int64)
        index += turn.place
        return row, index

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        row, index = self._later(batch, turn)
        twice = (batch.carried[turn.diver] >> WORTH_AT).view(np.int64)
        without = _HOME.take(index + _ROW.take(row))
        without *= self._next_unit
        without *= twice * 0.5
        without += self._first_unit.take(batch.dive[turn.games] + np.int8(4) * (turn.load > 0))
        index += _PER_LOAD
        row += PER_BREATH
        with_it = _HOME.take(index + _ROW.take(row))
        twice += (units >> WORTH_AT).view(np.int64)
        with_it *= twice * 0.5
        takes: Array = with_it > without
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        row, index = self._later(batch, turn)
        points = (batch.carried[turn.diver] >> WORTH_AT).view(np.int64) * 0.5
        with_all = _HOME.take(index + _ROW.take(row))
        with_all *= self._drop_unit
        with_all *= points
        index -= _PER_LOAD
        row -= PER_BREATH
        rest = _HOME.take(index + _ROW.take(row))
        slots = np.full(len(turn.diver), -1)
        # No unit is worth less than a chip of level 1: most need not be looked at closely.
        near = np.flatnonzero((rest * (points - 1.5) > with_all) & (turn.load > 1))
        if len(near):
            twice = (batch.cargo.take(turn.diver[near], axis=0) >> WORTH_AT).view(np.int64)
            twice[~BELOW[turn.load[near]]] = 999
            poorest = twice.argmin(axis=1)
            least = twice[np.arange(len(near)), poorest] * 0.5
            drops = rest[near] * (points[near] - least) > with_all[near]
            slots[near] = np.where(drops, poorest, -1)
        return slots


class BySeat(Policy):
    """Asks one of several policies for each seat of each game.

    seats  [games, seats], the index in `policies` of who plays it
    """

    def __init__(self, policies: Sequence[Policy], seats: Array) -> None:
        self._policies, self.seats = policies, seats
        self.orders = any(policy.orders for policy in policies)

    def _parts(self, turn: Turn) -> list[tuple[Policy, Array]]:
        who = self.seats.reshape(-1)[turn.diver]
        rows = [np.flatnonzero(who == i) for i in range(len(self._policies))]
        return [(p, chosen) for p, chosen in zip(self._policies, rows, strict=True) if len(chosen)]

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
        chosen = np.tile(np.arange(orders.items.shape[1]), (len(orders.games), 1))
        who = self.seats.reshape(-1)[orders.diver]
        for i, policy in enumerate(self._policies):
            rows = np.flatnonzero(who == i)
            if policy.orders and len(rows):
                chosen[rows] = policy.order(batch, Orders(*(part[rows] for part in orders)))
        return chosen
