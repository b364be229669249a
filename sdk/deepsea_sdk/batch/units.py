"""Units as numbers, and the clean-up on arrays of them, for trails, cargos and banks of many games.

A unit is one 64-bit number and a blank is 0. No chip is in a game twice, so the chips and the worth
of several units can be added up. The number has these fields, from the lowest bit on:

    32 bits  the chips, chip 1 first
    22 bits  the chips' order in a stack: their levels, or the chips where lost stacks fall apart
     1 bit   set if a stranded diver laid the unit and nobody has carried it since
     9 bits  twice the mean worth

The clean-up between two dives is that of `deepsea_rules.cleanup`.

Invariants: arrays have a row for each game. Stranded cargo is a flat array of items in the order in
which they are laid, those of one game before those of the next. A diver is asked for an order if
orders lead to different piles, as in `cleanup.has_choice`. Of items with one name, the first in
pick-up order is laid first.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import compress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deepsea_rules.actions import CHIPS, CHIPS_PER_LEVEL, LEVEL_OF, LEVELS, Unit
from deepsea_rules.cleanup import has_choice
from deepsea_rules.errors import IllegalAction
from deepsea_rules.ruleset import PILE_ITEMS, SEAT_LETTERS, RuleSet
from deepsea_rules.state import GameState

Array: TypeAlias = NDArray[Any]
"""A numpy array; its shape and contents are documented where it is made."""

U64 = np.uint64
CHIP_BITS = U64(2**32 - 1)
ORDER_AT = U64(32)
ORDER_BITS = U64((2**22 - 1) << 32)
LAID = U64(1 << 54)
WORTH_AT = U64(55)
WORTH_BITS = U64(511 << 55)
SUMMED = CHIP_BITS | WORTH_BITS
"""Mask of the parts of a unit that can be added up."""

_LEVEL_BITS = 2
_CHIP_BITS = 6
LONGEST = 9
"""Most chips of a stack that may be carried: three stacks of three in one pile."""
LONGEST_APART = 3
"""Most chips of a stack under rules by which lost stacks fall apart into chips."""


def checked_answers(answers: Array, requested: Array, kinds: str, subject: str) -> Array:
    """Return `answers` if they have the shape of `requested` and one of the dtype kinds in `kinds`.

    Otherwise raise ValueError with a message that begins with `subject`. The kinds are numpy's: "b"
    for booleans, "i" and "u" for whole numbers.
    """
    if answers.shape != requested.shape or answers.dtype.kind not in kinds:
        expected_type = "bool" if kinds == "b" else "int"
        raise ValueError(
            f"{subject} an array of {answers.dtype} {answers.shape}, "
            f"not of {expected_type} {requested.shape}"
        )
    return answers


def chip_bits(ids: Iterable[int]) -> int:
    """Return a set of chips as bits; chip 1 is the lowest bit."""
    return sum(1 << chip - 1 for chip in ids)


@lru_cache(maxsize=4096)
def pack(unit: tuple[int, ...], by_chip: bool, laid: bool = False) -> int:
    """Return a unit as a number. Raise ValueError for a stack with too many chips for its fields.

    With `by_chip`, the order field holds the chips themselves instead of their levels. `laid` sets
    the bit of units that a stranded diver laid.
    """
    longest = LONGEST_APART if by_chip else LONGEST
    if len(unit) > longest:
        raise ValueError(f"a stack of {len(unit)} chips; up to {longest} are possible")
    order = 0
    for i, chip in enumerate(unit):
        if by_chip:
            # The highest bit of each six says that there is one.
            order |= (32 + chip - 1) << _CHIP_BITS * i
        else:
            order = order << _LEVEL_BITS | LEVEL_OF[chip] - 1
    # Twice the mean value of a chip: level 1 has the values 0 to 3, each level 4 points more.
    twice_worth = sum(8 * LEVEL_OF[chip] - 5 for chip in unit)
    # The four fields of the module's header.
    return chip_bits(unit) | order << 32 | laid << 54 | twice_worth << 55


def unpack(number: int, by_chip: bool) -> Unit:
    """Return the unit of a number.

    Without `by_chip`, the number knows only the order of the levels, so chips of one level come by
    their ids.
    """
    ids = [chip for chip in CHIPS if number >> chip - 1 & 1]
    order = number >> 32 & 2**22 - 1
    if by_chip:
        return Unit([(order >> _CHIP_BITS * i & 31) + 1 for i in range(len(ids))])
    # The last chip of the stack has the lowest bits.
    levels_from_last = [(order >> _LEVEL_BITS * i & 3) + 1 for i in range(len(ids))]
    unused = {level: [chip for chip in ids if LEVEL_OF[chip] == level] for level in LEVELS}
    return Unit([unused[level].pop(0) for level in reversed(levels_from_last)])


def unpack_trail(numbers: Array, by_chip: bool) -> tuple[list[Unit], frozenset[Unit]]:
    """Return the units of a trail, and the set of those that stranded divers laid."""
    trail = [unpack(number, by_chip) for number in numbers.tolist()]
    is_laid = (numbers & LAID != 0).tolist()
    return trail, frozenset(compress(trail, is_laid))


@cache
def singles(by_chip: bool) -> Array:
    """Return the opening trail: a blank for the submarine, then each of the 32 chips as a unit."""
    return np.array([0, *(pack((chip,), by_chip) for chip in CHIPS)], U64)


def name_bits(by_chip: bool) -> np.uint64:
    """Return the mask of the bits that tell units with different names apart.

    Units with one name are equal under this mask.
    """
    # A name shows levels alone. There are eight chips of a level, so the upper two of the five
    # bits of a chip are its level; the sixth bit says that there is a chip.
    order = 0b111000111000111000 if by_chip else 2**22 - 1
    return U64(order << 32) | WORTH_BITS


def join_units(below: Array, above: Array, by_chip: bool) -> Array:
    """Return units that lie on other units, each pair as one unit. Both may be blank."""
    lower, upper = (below & ORDER_BITS) >> ORDER_AT, (above & ORDER_BITS) >> ORDER_AT
    if by_chip:
        # The first chip has the lowest bits, so the upper ones come above them.
        order = lower | upper << (np.bitwise_count(below & CHIP_BITS) * U64(_CHIP_BITS))
    else:
        # The last chip has the lowest bits.
        order = lower << (np.bitwise_count(above & CHIP_BITS) * U64(_LEVEL_BITS)) | upper
    units: Array = (below & SUMMED) + (above & SUMMED)
    units |= order << ORDER_AT & ORDER_BITS
    return units


def split_stacks(units: Array) -> tuple[Array, Array]:
    """Take stacks apart: return their chips as units of one, and the number of chips of each stack.

    Only for units that were packed with `by_chip`; the chips come in their order in the stack.
    """
    order = (units & ORDER_BITS) >> ORDER_AT
    shifts = np.arange(LONGEST_APART, dtype=U64) * U64(_CHIP_BITS)
    chip_codes = order[:, None] >> shifts & U64(2**_CHIP_BITS - 1)
    is_chip = chip_codes != 0
    # `pack` writes chip N as 32 + N - 1.
    chip_ids = (chip_codes[is_chip] - U64(31)).astype(np.int64)
    return _SINGLES_BY_CHIP[chip_ids], is_chip.sum(axis=1)


_SINGLES_BY_CHIP = singles(by_chip=True)


def levels(units: Array) -> Array:
    """Return how many chips of levels 1, 2, 3 and 4 each unit has, in a further dimension of 4.

    A blank has none.

    units  the units that `take` gets, or a batch's `trail`, `cargo`, `carried` or `bank`
    """
    # Chips lie by their ids, eight to a level: a byte of the chip bits is a level.
    octets: Array = units.astype("<u4")[..., None].view(np.uint8)
    counts: Array = np.bitwise_count(octets).view(np.int8)
    return counts


def chips(units: Array) -> Array:
    """Return how many chips each unit has: 0 for a blank, more than 1 for a stack.

    The units are those that `levels` reads.
    """
    counts: Array = np.bitwise_count(units & CHIP_BITS).view(np.int8)
    return counts


def worth(units: Array) -> Array:
    """Return the mean worth in points of each unit, by the levels of its chips.

    A `bank` does not hold its worth, so it gives 0 here.
    """
    points: Array = (units >> WORTH_AT) * 0.5
    return points


assert CHIPS_PER_LEVEL == 8  # so a level is a byte of the chips


# ----- Clean-up between two dives

SLOTS = 8
"""Places for carried units. Six units are the most: with them a diver cannot move any more."""
WIDTH = 1 + len(CHIPS)
"""Spaces of a trail with the submarine as number 0."""
BELOW = np.arange(SLOTS) < np.arange(SLOTS + 1)[:, None]
"""[load, SLOTS]: which places for units are filled by a load."""
_SPACES = np.arange(WIDTH)
_UP_TO = (_SPACES > 0) & (_SPACES[:, None] >= _SPACES)
"""[length, WIDTH]: the spaces 1 to length of a trail."""


class StrandedCargo(NamedTuple):
    """Items that stranded divers lay, in the order in which they are laid."""

    items: Array
    """[items] packed units."""
    diver: Array
    """[items] the diver who lays the item: row × seats + seat."""
    counts: Array
    """[games] the number of items of each game."""


def stranded_cargo(
    rules: RuleSet, place: Array, load: Array, cargo: Array, by_chip: bool
) -> StrandedCargo:
    """Return the items of all divers with cargo, in the order in which they are laid.

    With `by_chip`, stacks fall apart and each chip is an item.

    place, load  [games, seats]
    cargo        [games, seats, SLOTS]
    """
    games, players = load.shape
    row, seat = load.nonzero()
    space = place[row, seat].astype(np.int64)
    if rules.drop_sequence == "farthest_first":
        space = -space  # ascending keys lay the farthest cargo first
    # One sort by game and then by space: a game's keys are 2 * WIDTH apart, and spaces, with their
    # sign, are closer together than that.
    turn = (row * 2 * WIDTH + space).argsort()
    row, seat = row[turn], seat[turn]
    loads = load[row, seat]
    items = cargo[row, seat][BELOW[loads]]
    diver = (row * players + seat).repeat(loads)
    if by_chip:
        items, sizes = split_stacks(items)
        diver = diver.repeat(sizes)
    return StrandedCargo(items, diver, np.bincount(diver // players, minlength=games))


def lay_and_close_gaps(
    rules: RuleSet, trail: Array, items: Array, counts: Array, by_chip: bool
) -> tuple[Array, Array]:
    """Return new trails [games, WIDTH], without blanks and with these items, and their last spaces.

    The items form piles of PILE_ITEMS behind the trail, unless the rules let them top up older
    piles.

    items   [items] those of all games
    counts  [games] the number of items of each game
    """
    filled = trail != 0
    length = filled.sum(axis=1)
    new = np.zeros_like(trail)
    old_spaces = _UP_TO[length]
    new[old_spaces] = trail[filled]
    if rules.top_up_tail_piles:
        return _top_up(new, length, items, counts, by_chip)
    piles = (counts + PILE_ITEMS - 1) // PILE_ITEMS
    last = length + piles
    games = np.flatnonzero(counts)
    sizes = np.full(int(piles.sum()), PILE_ITEMS)
    # The last pile of a game has the items that are over.
    sizes[np.cumsum(piles[games]) - 1] += counts[games] - PILE_ITEMS * piles[games]
    groups = np.zeros((len(sizes), PILE_ITEMS), U64)
    groups[BELOW[sizes, :PILE_ITEMS]] = items
    pile = groups[:, 0]
    for i in range(1, PILE_ITEMS):
        pile = join_units(pile, groups[:, i], by_chip)
    # The spaces that the new trail has beyond the old one
    new[_UP_TO[last] ^ old_spaces] = pile | LAID
    return new, last


def _top_up(
    trail: Array, length: Array, items: Array, counts: Array, by_chip: bool
) -> tuple[Array, Array]:
    """Lay the items one by one, each on the first pile with room, as `cleanup` does for one game.

    The trails have no blanks, and `length` spaces each; they are changed and returned with their
    new last spaces. `counts` has the number of items of each game, `items` those of all games.
    """
    room = np.where(length[:, None] < _SPACES, PILE_ITEMS, older_rooms(trail))
    first = counts.cumsum() - counts  # the index of each game's first item
    for turn in range(counts.max(initial=0)):
        game = np.flatnonzero(counts > turn)
        item = items[first[game] + turn]
        space = (room[game] > 0).argmax(axis=1)
        # New piles hold so many items, older ones so many chips.
        chips = np.bitwise_count(item & CHIP_BITS)
        room[game, space] -= np.where(space <= length[game], chips, 1)
        trail[game, space] = join_units(trail[game, space], item, by_chip) | LAID
    return trail, (trail != 0).sum(axis=1)


def older_rooms(trail: Array) -> Array:
    """Return [games, WIDTH]: the room for chips on older piles that may be topped up, else 0.

    These are the piles that stranded divers laid behind the last unit of any other kind.
    """
    laid = (trail & LAID) != 0
    last_fixed = np.where((trail != 0) & ~laid, _SPACES, 0).max(axis=1)
    chips = np.bitwise_count(trail & CHIP_BITS).astype(np.int64)
    room: Array = np.where(laid & (last_fixed[:, None] < _SPACES), PILE_ITEMS - chips, 0)
    return np.maximum(room, 0)


def next_starters(rules: RuleSet, place: Array, home_rank: Array) -> Array:
    """Return the seats that begin the next dives.

    place      [games, seats]
    home_rank  [games, seats], as in `Batch`
    """
    farthest: Array = place.argmax(axis=1)
    last_home: Array = home_rank.argmax(axis=1)  # the highest rank came home last
    is_home = home_rank > 0
    # By some rules the last diver home begins if there is one, by others only if no diver is out.
    prefers_home = rules.starter == "last_home_else_farthest"
    last_home_begins = is_home.any(axis=1) if prefers_home else is_home.all(axis=1)
    return np.where(last_home_begins, last_home, farthest)


# Orders of stranded divers' items


class Orders(NamedTuple):
    """Stranded divers that are asked for an order; arrays have a row for each of them."""

    games: Array
    """[divers] the game of each diver."""
    diver: Array
    """[divers] game × seats + seat."""
    items: Array
    """[divers, most items] the items of each diver in pick-up order, 0 beyond `sizes`."""
    sizes: Array
    """[divers] the number of items of each diver."""

    def inside(self) -> Array:
        """Return which entries of `items` are items, as booleans."""
        return np.arange(self.items.shape[1]) < self.sizes[:, None]


class Runs(NamedTuple):
    """Runs of `StrandedCargo.items`, one for each diver; arrays have a row for each diver."""

    first: Array
    """[divers] the index of the diver's first item."""
    sizes: Array
    """[divers] the number of items of each diver."""
    diver: Array
    """[divers] row × seats + seat, as in `StrandedCargo`."""
    turn: Array
    """[divers] 0 for the diver of a game that lays first, 1 for the second, and so on."""

    def part(self, rows: Array) -> Runs:
        """Return the runs with these indices."""
        return Runs(self.first[rows], self.sizes[rows], self.diver[rows], self.turn[rows])


def runs_of(laid: StrandedCargo, players: int) -> Runs:
    """Return the runs of all divers with items."""
    # A run begins where the diver is another one than before.
    first = np.flatnonzero(np.diff(laid.diver, prepend=-1))
    diver = laid.diver[first]
    games = diver // players
    sizes = np.diff(first, append=len(laid.diver))
    # The divers of one game lie side by side: the turn counts from the first of them.
    turn = np.arange(len(first)) - np.searchsorted(games, games)
    return Runs(first, sizes, diver, turn)


def runs_to_ask_at_once(
    rules: RuleSet, trail: Array, laid: StrandedCargo, runs: Runs, name: Array
) -> Array:
    """Return the indices of the runs whose divers are asked, where each item takes the same room.

    Then the number of items alone decides on which pile an item comes, whatever the orders of the
    divers before. A diver has a choice if its items come on several piles and are not all alike.

    name  [items] the bits of `laid.items` by which units with one name are equal
    """
    row = np.repeat(np.arange(len(laid.counts)), laid.counts)
    # The number of each item in its game, from 0
    number = np.arange(len(row)) - (laid.counts.cumsum() - laid.counts)[row]
    if rules.top_up_tail_piles:
        # The items fill the older piles, then new ones; a pile is named by its space, or beyond
        # WIDTH.
        filled_upto = older_rooms(trail).cumsum(axis=1)[row]
        beyond = number - filled_upto[:, -1]
        older_pile = (filled_upto <= number[:, None]).sum(axis=1)
        pile = np.where(beyond < 0, older_pile, WIDTH + beyond // PILE_ITEMS)
    else:
        pile = number // PILE_ITEMS
    on_several_piles = pile[runs.first] != pile[runs.first + runs.sizes - 1]
    differ = np.minimum.reduceat(name, runs.first) != np.maximum.reduceat(name, runs.first)
    return np.flatnonzero(on_several_piles & differ)


def runs_to_ask_in_turn(
    rules: RuleSet, trail: Array, place: Array, laid: StrandedCargo, runs: Runs
) -> Array:
    """Return the indices of runs whose divers are asked, where stacks take more room than chips.

    Then the piles depend on the orders of the divers before, which `laid` has already, and the
    reference engine is asked about each diver.

    trail  [games, WIDTH]
    place  [games, seats]
    """
    players = place.shape[1]
    asked_runs = []
    for run, diver in enumerate(runs.diver.tolist()):
        game, seat = divmod(diver, players)
        state = GameState(rules, (), players)
        state.trail, state.laid = unpack_trail(trail[game], by_chip=False)
        state.place = place[game].tolist()
        # [seats, items]: the items of each seat of the game
        is_of_seat = laid.diver == game * players + np.arange(players)[:, None]
        state.cargo = [
            tuple(unpack(number, by_chip=False) for number in laid.items[items_of_seat].tolist())
            for items_of_seat in is_of_seat
        ]
        # These fields are all that `has_choice` reads.
        if has_choice(state, seat):
            asked_runs.append(run)
    return np.array(asked_runs, np.int64)


def check_orders(orders: Orders, chosen: Array, players: int) -> None:
    """Raise IllegalAction unless `chosen` has each place of a diver's items once.

    chosen  [divers, most items] places in pick-up order; those beyond a diver's items do not matter
    """
    checked_answers(chosen, orders.items, "i", "what the policy orders is")
    places = np.arange(chosen.shape[1])
    # Sorted, an order that has each place once is 0, 1, 2 ...
    ascending = np.sort(np.where(orders.inside(), chosen, places), axis=1)
    wrong = np.flatnonzero((ascending != places).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        items = chosen[row, : orders.sizes[row]].tolist()
        raise IllegalAction(
            f"game {orders.games[row]}: seat {SEAT_LETTERS[int(orders.diver[row]) % players]} "
            f"cannot lay its {len(items)} items in the order {items}"
        )


def in_order(orders: Orders, chosen: Array, names: Array) -> Array:
    """Return the items [divers, most items] in the orders that were chosen.

    Units with one name are alike: where an order names several of them, they are laid in pick-up
    order.

    names  [divers, most items] the bits of the items by which units with one name are equal
    """
    inside = orders.inside()
    chosen = np.where(inside, chosen, np.arange(inside.shape[1]))
    # Entries beyond the items stay there, because no name is as large.
    names = np.where(inside, names, ~names.dtype.type(0))
    # The k-th item in order of names goes to the k-th place in order of names. Both sorts are
    # stable, so items with one name keep their pick-up order.
    by_name = names.argsort(axis=1, kind="stable")
    places = np.take_along_axis(names, chosen, 1).argsort(axis=1, kind="stable")
    laid = np.empty_like(chosen)
    np.put_along_axis(laid, places, by_name, 1)
    return np.take_along_axis(orders.items, laid, 1)
