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
from .units import BELOW, EMPTY_SLOT_WORTH, SLOTS, WORTH_AT, Array, Orders

_CHANCES = np.array(home_chances()[: SLOTS + 2])
"""[load, turns, distance] the chance to come home."""
_DISTANCES = _CHANCES.shape[2]
_PER_LOAD = _CHANCES[0].size
_HOME_CHANCES = _CHANCES.ravel()
"""The same table flat: the index is load × _PER_LOAD + turns × _DISTANCES + distance."""
_MOST_BREATH = 49
PER_BREATH = FULL_AIR + 1
"""Entries of `TURNS_LEFT` for one number of carried units."""
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
_TURNS_OFFSET = _DISTANCES * TURNS_LEFT
"""The part turns × _DISTANCES of an index of `_HOME_CHANCES`, by the index of `TURNS_LEFT`."""


class RandomPolicy(Policy):
    """Policy that chooses each legal action with the same probability."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._coins = np.zeros(0, bool)

    def _toss(self, count: int) -> Array:
        """Return so many random booleans.

        Unused ones are kept for later calls, because many are drawn at once in less time.
        """
        if len(self._coins) < count:
            # Each byte gives eight booleans.
            octets = np.frombuffer(self._rng.bytes(max(4096, count)), np.uint8)
            self._coins = np.unpackbits(octets).view(bool)
        coins, self._coins = self._coins[:count], self._coins[count:]
        return coins

    def declare(self, batch: Batch, turn: Turn) -> Array:
        return self._toss(len(turn.diver))

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        return self._toss(len(turn.diver))

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return for each diver a random unit to drop, by its index in the cargo, or -1 to leave.

        Units with one name count as one action.
        """
        # With one unit there are two actions: drop it (0) or leave (-1).
        slots: Array = self._toss(len(turn.diver)).astype(np.int64) - 1
        rows = np.flatnonzero(turn.load > 1)
        # [rows, SLOTS]: how many different names there are up to each unit
        name_counts = first_of_name(batch, turn.part(rows)).cumsum(axis=1)
        action_counts = name_counts[:, -1] + 1  # one for each name, and to leave
        # Choice 0 is to leave, and choice n the n-th name.
        choices = (self._rng.random(len(rows)) * action_counts).astype(np.int64)
        # The units with a count below n lie before the first unit with the n-th name.
        slots_of_choices = (name_counts < choices[:, None]).sum(axis=1)
        slots[rows] = np.where(choices == 0, -1, slots_of_choices)
        return slots

    orders = True

    def order(self, batch: Batch, orders: Orders) -> Array:
        """Return a random order of each diver's items, [divers, most items]."""
        # To sort random keys, which are below 1, gives a random order. The entries beyond a diver's
        # items have the key 1 and so stay behind them.
        keys = self._rng.random(orders.items.shape)
        keys[~orders.inside()] = 1
        chosen: Array = keys.argsort(axis=1)
        return chosen


def first_of_name(batch: Batch, turn: Turn) -> Array:
    """Return which carried units are the first with their name, as booleans [divers, SLOTS].

    These are the units that can be dropped: units with one name are alike, and a drop means the
    first.
    """
    # Both arrays are [SLOTS, divers], because numpy compares numbers that lie side by side faster.
    names = np.ascontiguousarray(batch.cargo.take(turn.diver, axis=0).T & batch.name_bits)
    # True for each slot with a unit; below, slots with the name of an earlier one become False.
    is_first = np.ascontiguousarray(BELOW[turn.load].T)
    for slot in range(1, int(turn.load.max(initial=0))):
        for earlier_names in names[:slot]:
            is_first[slot] &= names[slot] != earlier_names
    return is_first.T


def _chances_to_come_home(breath_and_air: Array, load_and_place: Array) -> Array:
    """Return each diver's chance to come home before the air is used up.

    One row is one diver. The chance depends on its load, its distance from the submarine and the
    turns that are left. The index of the flat table of chances is the sum of a part for each.

    breath_and_air  [divers] breath × PER_BREATH + air, which decide how many turns are left
    load_and_place  [divers] load × _PER_LOAD + distance, the parts for these two
    """
    turns_part = _TURNS_OFFSET.take(breath_and_air)
    chances: Array = _HOME_CHANCES.take(load_and_place + turns_part)
    return chances


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
        """Return which divers turn back.

        They do if the chance to come home would be too small after one more turn downwards.
        """
        # One row of all arrays is one diver. The index of the flat `_HOME_CHANCES` is
        # load × _PER_LOAD + turns × _DISTANCES + distance; it is summed up part by part.
        breath_and_air = np.multiply(batch.breath[turn.games], PER_BREATH, dtype=np.int64)
        breath_and_air += batch.air[turn.games]
        index = np.multiply(turn.load, _PER_LOAD, dtype=np.int64)
        index += _TURNS_OFFSET.take(breath_and_air)
        # After one more turn downwards the diver is farther away by that move, and has one turn
        # less: - _DISTANCES.
        next_move = np.maximum(self._next_move - turn.load, 1)
        index += turn.place + (next_move - _DISTANCES)
        chance = _HOME_CHANCES.take(index)
        turns_back: Array = chance < self._turn_back.take(batch.dive[turn.games])
        if not batch.rules.turn_needs_treasure:
            turns_back &= turn.load > 0  # without cargo there is nothing to bring home
        return turns_back

    def _index_parts(self, batch: Batch, turn: Turn) -> tuple[Array, Array]:
        """Return `breath_and_air` and `load_and_place` of each diver, with its present cargo.

        They are the arguments of `_chances_to_come_home`; one row is one diver.
        """
        breath = batch.breath[turn.games]  # [divers] the air that the game's divers use in a round
        breath_and_air = np.multiply(breath, PER_BREATH, dtype=np.int64)
        # The air at this seat's next turn: all other divers have breathed once by then.
        breath_and_air += np.maximum(batch.air[turn.games] - breath + turn.load, 0)
        load_and_place = np.multiply(turn.load, _PER_LOAD, dtype=np.int64)
        load_and_place += turn.place
        return breath_and_air, load_and_place

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        """Return which divers take the unit on their space.

        Expected points are the chance to come home, times the worth of the cargo. A diver with
        cargo takes the unit if it expects more points with it than without it times a constant. A
        diver without cargo takes it if it expects at least a number of points.
        """
        breath_and_air, load_and_place = self._index_parts(batch, turn)
        # Without the unit. One row of all arrays is one diver. Packed units have twice their mean
        # worth, which is a whole number.
        twice_points = (batch.carried[turn.diver] >> WORTH_AT).view(np.int64)
        # The points that have to be passed to take the unit. Multiplied in place, because these
        # arrays are as long as the batch.
        least_points = _chances_to_come_home(breath_and_air, load_and_place)
        least_points *= self._next_unit
        least_points *= twice_points * 0.5
        # `_first_unit` has a number for each dive, which is just below the one to be reached; and 4
        # entries later a 0 for divers with cargo.
        least_points += self._first_unit.take(batch.dive[turn.games] + np.int8(4) * (turn.load > 0))
        # With the unit: the diver carries one more, and all divers together breathe for one more.
        load_and_place += _PER_LOAD
        breath_and_air += PER_BREATH
        expected_points = _chances_to_come_home(breath_and_air, load_and_place)
        twice_points += (units >> WORTH_AT).view(np.int64)
        expected_points *= twice_points * 0.5
        takes: Array = expected_points > least_points
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return the slot of the poorest unit of each diver that drops it, otherwise -1.

        A diver drops it if the points that it expects to bring home without it are more than a
        constant times those with it: the chance to come home, times the worth of the cargo.
        """
        breath_and_air, load_and_place = self._index_parts(batch, turn)
        # Packed units have twice their mean worth, which is a whole number.
        points = (batch.carried[turn.diver] >> WORTH_AT).view(np.int64) * 0.5
        least_points = _chances_to_come_home(breath_and_air, load_and_place)
        least_points *= self._drop_unit
        least_points *= points
        # Without the unit, the diver carries one unit less, and all together breathe for one less.
        load_and_place -= _PER_LOAD
        breath_and_air -= PER_BREATH
        chance_without = _chances_to_come_home(breath_and_air, load_and_place)
        slots = np.full(len(turn.diver), -1)
        # No unit is worth less than a chip of level 1, 1.5 points. The units are compared only for
        # divers that would drop so cheap a unit.
        would_drop_cheapest = chance_without * (points - 1.5) > least_points
        rows = np.flatnonzero(would_drop_cheapest & (turn.load > 1))
        if len(rows):
            cargo = batch.cargo.take(turn.diver[rows], axis=0)  # [rows, SLOTS]
            # The highest bits of a packed unit are twice its worth, which is a whole number.
            twice_worth = (cargo >> WORTH_AT).view(np.int64)
            is_filled = BELOW[turn.load[rows]]
            twice_worth[~is_filled] = EMPTY_SLOT_WORTH  # so the poorest slot is never empty
            poorest = twice_worth.argmin(axis=1)
            lost_points = twice_worth[np.arange(len(rows)), poorest] * 0.5
            expected_points = chance_without[rows] * (points[rows] - lost_points)
            drops = expected_points > least_points[rows]
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
        # `turn.diver` is game × seats + seat, the index in `seats` as a flat array.
        policy_numbers = self.seats.reshape(-1)[turn.diver]
        parts = []
        for number, policy in enumerate(self._policies):
            rows = np.flatnonzero(policy_numbers == number)
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
        """Return each diver's order by the policy of its seat.

        Divers of a policy without orders lay their items in pick-up order.
        """
        # In pick-up order an item's index is its place: 0, 1, 2 ... in each row.
        chosen = np.tile(np.arange(orders.items.shape[1]), (len(orders.games), 1))
        # `orders.diver` is game × seats + seat, the index in `seats` as a flat array.
        policy_numbers = self.seats.reshape(-1)[orders.diver]
        for number, policy in enumerate(self._policies):
            rows = np.flatnonzero(policy_numbers == number)
            if policy.orders and len(rows):
                orders_of_policy = Orders(*(array[rows] for array in orders))
                chosen[rows] = policy.order(batch, orders_of_policy)
        return chosen
