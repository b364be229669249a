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
EMPTY_SLOT_WORTH = 999
"""Entry of an empty slot in an array of twofold worths: more than any unit has in nine bits."""
SUMMED = CHIP_BITS | WORTH_BITS
"""Mask of the parts of a unit that can be added up."""

_BITS_PER_LEVEL = 2
"""Width of a level in the order of a unit's levels."""
_BITS_PER_CHIP = 6
"""Width of a chip in the order of a unit's chips."""
LONGEST = 9
"""Most chips of a stack that may be carried: three stacks of three in one pile."""
LONGEST_APART = 3
"""Most chips of a stack under rules by which lost stacks fall apart into chips."""


def checked_answers(answers: Array, requested: Array, kinds: str, subject: str) -> Array:
    """Return `answers` if they are an array of the right shape and type; else raise ValueError.

    requested  an array with the shape that the answers must have
    kinds      the allowed kinds of numpy's types: "b" for booleans, "i" and "u" for whole numbers
    subject    the beginning of the error's message
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
    return sum(1 << (chip - 1) for chip in ids)


@lru_cache(maxsize=4096)
def pack(unit: tuple[int, ...], by_chip: bool, laid: bool = False) -> int:
    """Return a unit as one number. Raise ValueError for a stack with too many chips for it.

    unit     the ids of its chips
    by_chip  True if the number has to tell the order of the chips themselves, and not only that of
             their levels
    laid     True if a stranded diver laid the unit
    """
    longest = LONGEST_APART if by_chip else LONGEST
    if len(unit) > longest:
        raise ValueError(f"a stack of {len(unit)} chips; up to {longest} are possible")
    order = 0
    for place, chip in enumerate(unit):
        if by_chip:
            # Six bits for each chip, the first one lowest: the highest bit, 32, says that there is
            # a chip at this place, and the others are its id - 1.
            order |= (32 + chip - 1) << (_BITS_PER_CHIP * place)
        else:
            # Two bits for each level, the last one lowest.
            order = (order << _BITS_PER_LEVEL) | (LEVEL_OF[chip] - 1)
    # Twice the mean value of a chip, to be a whole number: level 1 has the values 0 to 3, each
    # further level 4 points more.
    twice_worth = sum(8 * LEVEL_OF[chip] - 5 for chip in unit)
    # From the lowest bit on: 32 bits of chips, 22 of their order, 1 for `laid`, 9 of worth.
    return chip_bits(unit) | (order << 32) | (laid << 54) | (twice_worth << 55)


def unpack(number: int, by_chip: bool) -> Unit:
    """Return the unit that `pack` made this number of.

    A number without `by_chip` tells only the order of the levels. The chips of one level are then
    put in order of their ids.
    """
    # The lowest 32 bits are the set of chips, the next 22 their order in the stack.
    ids = [chip for chip in CHIPS if (number >> (chip - 1)) & 1]
    order = (number >> 32) & (2**22 - 1)
    if by_chip:
        # The lowest five of a chip's six bits are its id - 1.
        codes = [order >> (_BITS_PER_CHIP * place) for place in range(len(ids))]
        return Unit([(code & 31) + 1 for code in codes])
    # The last chip of the stack has the lowest bits; two bits are a level - 1.
    codes = [order >> (_BITS_PER_LEVEL * place) for place in range(len(ids))]
    levels_from_last = [(code & 3) + 1 for code in codes]
    # Each level in the order takes the next chip of that level.
    next_chips = {
        level: iter([chip for chip in ids if LEVEL_OF[chip] == level]) for level in LEVELS
    }
    return Unit([next(next_chips[level]) for level in reversed(levels_from_last)])


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
    """Return a mask of the bits that tell the name of a packed unit.

    A name has the levels of a unit's chips in their order. Two units have the same name if they
    agree in these bits.
    """
    # With `by_chip`, each chip has six bits: one that says that there is a chip, and five of its
    # id - 1. There are eight chips of a level, so the upper two of these five are the level.
    level_bits_of_chips = 0b111000_111000_111000
    all_order_bits = 2**22 - 1  # otherwise all 22 bits are levels
    order = level_bits_of_chips if by_chip else all_order_bits
    # Level 1 is 00, so the order of levels alone does not tell [1] from [11]: their worth does.
    return U64(order << 32) | WORTH_BITS


def join_units(below: Array, above: Array, by_chip: bool) -> Array:
    """Return for each pair of packed units one unit, with the chips of `above` after the others.

    Each of the two may be blank. With `by_chip`, a unit has the order of its chips, the first one
    in the lowest bits; otherwise it has the order of their levels, the last one in the lowest bits.
    """
    below_order = (below & ORDER_BITS) >> ORDER_AT
    above_order = (above & ORDER_BITS) >> ORDER_AT
    # In the joined order the part with the first or with the last chip stays in the lowest bits;
    # the other part is shifted past it.
    if by_chip:
        bits_below = np.bitwise_count(below & CHIP_BITS) * U64(_BITS_PER_CHIP)
        order = below_order | (above_order << bits_below)
    else:
        bits_above = np.bitwise_count(above & CHIP_BITS) * U64(_BITS_PER_LEVEL)
        order = (below_order << bits_above) | above_order
    # No chip is in both units, so the sets of chips can be added like the worths.
    units: Array = (below & SUMMED) + (above & SUMMED)
    units |= (order << ORDER_AT) & ORDER_BITS
    return units


def split_stacks(units: Array) -> tuple[Array, Array]:
    """Return the chips of all units, each as a unit of its own, and how many are of each unit.

    The chips come in their order in the stacks. Only for units that were packed with `by_chip`.
    """
    order = (units & ORDER_BITS) >> ORDER_AT
    # [units, LONGEST_APART]: the six bits of each chip, or 0 if the unit has fewer chips
    shifts = np.arange(LONGEST_APART, dtype=U64) * U64(_BITS_PER_CHIP)
    lowest_six_bits = U64(2**_BITS_PER_CHIP - 1)
    chip_codes = (order[:, None] >> shifts) & lowest_six_bits
    is_chip = chip_codes != 0
    # `pack` writes chip N as 32 + N - 1.
    chip_ids = (chip_codes[is_chip] - U64(31)).astype(np.int64)
    return _SINGLES_BY_CHIP[chip_ids], is_chip.sum(axis=1)


_SINGLES_BY_CHIP = singles(by_chip=True)


def levels(units: Array) -> Array:
    """Return how many chips of levels 1, 2, 3 and 4 each packed unit has: [..., 4].

    A blank has none.

    units  [...] the units that `take` gets, or a batch's `trail`, `cargo`, `carried` or `bank`
    """
    # The lowest 32 bits are the chips by their ids. A level has eight, so each byte is a level.
    octets: Array = units.astype("<u4")[..., None].view(np.uint8)
    counts: Array = np.bitwise_count(octets).view(np.int8)
    return counts


def chips(units: Array) -> Array:
    """Return how many chips each packed unit has: 0 for a blank, more than 1 for a stack.

    units  the units that `take` gets, or a batch's `trail`, `cargo`, `carried` or `bank`
    """
    counts: Array = np.bitwise_count(units & CHIP_BITS).view(np.int8)
    return counts


def worth(units: Array) -> Array:
    """Return the mean worth of each packed unit in points, by the levels of its chips.

    units  the units that `take` gets, or a batch's `trail`, `cargo` or `carried`; a `bank` does not
           hold its worth, so it gives 0
    """
    # Packed units have twice their worth, which is a whole number.
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

    One row of `place`, `load` and `cargo` is one game whose dive has ended.

    place, load  [games, seats]
    cargo        [games, seats, SLOTS]
    by_chip      True if stacks fall apart, so that each chip is an item
    """
    games, players = load.shape
    # [divers]: game and seat of each diver with cargo, game by game
    game, seat = load.nonzero()
    space = place[game, seat].astype(np.int64)
    if rules.drop_sequence == "farthest_first":
        space = -space  # ascending keys lay the farthest cargo first
    # One key sorts by game and then by space: the spaces of one game, with their sign, differ by
    # less than the 2 * WIDTH that lie between two games.
    sequence = (game * 2 * WIDTH + space).argsort()
    game, seat = game[sequence], seat[sequence]
    loads = load[game, seat]
    # [divers, SLOTS] becomes flat: the filled slots of all divers, one diver after another.
    items = cargo[game, seat][BELOW[loads]]
    diver = (game * players + seat).repeat(loads)
    if by_chip:
        items, sizes = split_stacks(items)
        diver = diver.repeat(sizes)
    return StrandedCargo(items, diver, np.bincount(diver // players, minlength=games))


def lay_and_close_gaps(
    rules: RuleSet, trail: Array, items: Array, counts: Array, by_chip: bool
) -> tuple[Array, Array]:
    """Return the trails of the next dive, [games, WIDTH], and the last space of each.

    Blanks are removed. The stranded items form piles of PILE_ITEMS behind the trail, unless the
    rules let them top up older piles first.

    trail   [games, WIDTH] as it was when the dive ended
    items   [items] those of all games
    counts  [games] the number of items of each game
    """
    has_unit = trail != 0  # [games, WIDTH]
    length = has_unit.sum(axis=1)  # [games] the number of units that are still on the trail
    # [games, WIDTH]: True for the spaces that these units fill when there are no blanks
    old_spaces = _UP_TO[length]
    new_trail = np.zeros_like(trail)
    new_trail[old_spaces] = trail[has_unit]
    if rules.top_up_tail_piles:
        return _top_up(new_trail, length, items, counts, by_chip)
    piles = (counts + PILE_ITEMS - 1) // PILE_ITEMS  # [games], rounded up
    last = length + piles  # [games] the last space of the next dive
    new_spaces = _UP_TO[last] ^ old_spaces  # up to the last space, without the old ones
    new_trail[new_spaces] = _full_piles(items, counts, piles, by_chip) | LAID
    return new_trail, last


def _full_piles(items: Array, counts: Array, piles: Array, by_chip: bool) -> Array:
    """Return piles of PILE_ITEMS items as units, those of one game after those of another.

    One row of the result is one pile. The last pile of a game has the items that are left over.

    items   [items] those of all games, one game after another
    counts  [games] the number of items of each game
    piles   [games] the number of piles that they need
    """
    games = np.flatnonzero(counts)  # without those that have no pile
    sizes = np.full(int(piles.sum()), PILE_ITEMS)  # [piles] the number of items of each pile
    last_piles = np.cumsum(piles[games]) - 1
    # The last pile of a game is smaller if its items do not fill all piles.
    sizes[last_piles] -= PILE_ITEMS * piles[games] - counts[games]
    # [piles, PILE_ITEMS]: the items of each pile, then blanks
    items_of_pile = np.zeros((len(sizes), PILE_ITEMS), U64)
    items_of_pile[BELOW[sizes, :PILE_ITEMS]] = items
    units = items_of_pile[:, 0]
    for column in range(1, PILE_ITEMS):
        units = join_units(units, items_of_pile[:, column], by_chip)
    return units


def _top_up(
    trail: Array, length: Array, items: Array, counts: Array, by_chip: bool
) -> tuple[Array, Array]:
    """Lay each item on the first pile with room; return the trails and the last space of each.

    Older piles at the end of the trail are topped up first; then new piles are begun.

    trail   [games, WIDTH] without blanks; changed in place
    length  [games] the number of its spaces before
    items   [items] those of all games, one game after another
    counts  [games] the number of items of each game
    """
    is_new_space = length[:, None] < _SPACES  # [games, WIDTH]
    # [games, WIDTH]: new piles have room for so many items, older ones for so many chips.
    room = np.where(is_new_space, PILE_ITEMS, older_rooms(trail))
    first_item = counts.cumsum() - counts  # [games] the index of the game's first item
    # Lay the first item of all games, then the second one, and so on.
    for number in range(counts.max(initial=0)):
        # One row of the arrays below is one game that has an item with this number.
        game = np.flatnonzero(counts > number)
        item = items[first_item[game] + number]
        space = (room[game] > 0).argmax(axis=1)  # the first space with room
        chip_count = np.bitwise_count(item & CHIP_BITS)
        room[game, space] -= np.where(is_new_space[game, space], 1, chip_count)
        trail[game, space] = join_units(trail[game, space], item, by_chip) | LAID
    return trail, (trail != 0).sum(axis=1)


def older_rooms(trail: Array) -> Array:
    """Return how many more chips fit on each space's pile if it may be topped up: [games, WIDTH].

    These are the piles that stranded divers laid in earlier dives, at the end of the trail: after
    them comes no other unit. All other spaces have 0.
    """
    is_laid = (trail & LAID) != 0  # [games, WIDTH]
    # [games]: the last space with a unit that no stranded diver laid; 0 if there is none
    last_other_unit = np.where((trail != 0) & ~is_laid, _SPACES, 0).max(axis=1)
    is_tail_pile = is_laid & (last_other_unit[:, None] < _SPACES)
    chip_counts = np.bitwise_count(trail & CHIP_BITS).astype(np.int64)
    room: Array = np.where(is_tail_pile, PILE_ITEMS - chip_counts, 0)
    return np.maximum(room, 0)  # a pile of stacks may have more than PILE_ITEMS chips


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
    laying_rank: Array
    """[divers] 0 for the diver of a game that lays first, 1 for the second, and so on."""

    def part(self, rows: Array) -> Runs:
        """Return the runs with these indices."""
        return Runs(self.first[rows], self.sizes[rows], self.diver[rows], self.laying_rank[rows])


def runs_of(laid: StrandedCargo, players: int) -> Runs:
    """Return where each diver's items are in `laid.items`; they lie side by side, as one run.

    One row of the result, and of the arrays below, is one diver with items.
    """
    # The indices of `laid.items` at which another diver's items begin
    first = np.flatnonzero(np.diff(laid.diver, prepend=-1))
    sizes = np.diff(first, append=len(laid.diver))
    diver = laid.diver[first]
    game = diver // players
    # The row of the first diver of the same game: `game` is ascending, so `searchsorted` finds the
    # first row with the same number.
    first_row_of_game = np.searchsorted(game, game)
    laying_rank = np.arange(len(game)) - first_row_of_game
    return Runs(first, sizes, diver, laying_rank)


def runs_to_ask_at_once(
    rules: RuleSet, trail: Array, laid: StrandedCargo, runs: Runs, name: Array
) -> Array:
    """Return the indices of the runs whose divers have a choice of orders.

    Only for rules by which each item takes the same room: then a diver's piles do not depend on the
    orders of the divers before it. A diver has a choice if its items go to several piles and do not
    all have the same name. One row of `runs` is one diver.

    name  [items] the bits of `laid.items` that are equal for units with the same name
    """
    pile = _piles_of_items(rules, trail, laid.counts)  # [items]
    last = runs.first + runs.sizes - 1  # [divers] the index of the diver's last item
    goes_to_several_piles = pile[runs.first] != pile[last]
    # `reduceat` returns the lowest and the highest name of each run.
    lowest_name = np.minimum.reduceat(name, runs.first)
    highest_name = np.maximum.reduceat(name, runs.first)
    return np.flatnonzero(goes_to_several_piles & (lowest_name != highest_name))


def _piles_of_items(rules: RuleSet, trail: Array, counts: Array) -> Array:
    """Return the number of the pile that each item goes to.

    One row of the result is one item; the items of a game follow those of the game before. An older
    pile has the number of its space, a new one a higher number. Only for rules by which each item
    takes the same room.

    trail   [games, WIDTH]
    counts  [games] the number of items of each game
    """
    game = np.repeat(np.arange(len(counts)), counts)  # [items] the row of the item's game
    first_item = counts.cumsum() - counts  # [games] the row of the game's first item
    number_in_game = np.arange(len(game)) - first_item[game]  # [items] from 0
    pile: Array
    if not rules.top_up_tail_piles:
        pile = number_in_game // PILE_ITEMS
        return pile
    # [items, WIDTH]: how many items fit on the older piles of the item's game up to each space
    room_upto = older_rooms(trail).cumsum(axis=1)[game]
    # The first space up to which there is room for the item: all spaces before it, which are
    # counted here, are full by then.
    older_pile = (room_upto <= number_in_game[:, None]).sum(axis=1)
    # Negative if the item still fits on an older pile
    number_on_new_piles = number_in_game - room_upto[:, -1]
    new_pile = WIDTH + number_on_new_piles // PILE_ITEMS
    pile = np.where(number_on_new_piles < 0, older_pile, new_pile)
    return pile


def runs_to_ask_in_turn(
    rules: RuleSet, trail: Array, place: Array, laid: StrandedCargo, runs: Runs
) -> Array:
    """Return the indices of the runs whose divers have a choice of orders.

    For rules by which stacks take more room on an older pile than chips: then a diver's piles
    depend on the orders of the divers before it. `laid` has to have these orders already.

    trail  [games, WIDTH]
    place  [games, seats]
    """
    players = place.shape[1]
    runs_with_choice = []
    for run, diver in enumerate(runs.diver.tolist()):
        # The reference engine decides, for a state with all fields that `has_choice` reads.
        game, seat = divmod(diver, players)
        state = GameState(rules, (), players)
        state.trail, state.laid = unpack_trail(trail[game], by_chip=False)
        state.place = place[game].tolist()
        state.cargo = []
        for diver_of_game in range(game * players, (game + 1) * players):
            items = laid.items[laid.diver == diver_of_game].tolist()
            state.cargo.append(tuple(unpack(item, by_chip=False) for item in items))
        if has_choice(state, seat):
            runs_with_choice.append(run)
    return np.array(runs_with_choice, np.int64)


def check_orders(orders: Orders, chosen: Array, players: int) -> None:
    """Raise IllegalAction unless a policy has chosen each item of each diver once.

    chosen  [divers, most items] a row has the indices of the diver's items in the order in which
            they are laid; entries beyond the number of its items are ignored
    """
    checked_answers(chosen, orders.items, "i", "what the policy orders is")
    indices = np.arange(chosen.shape[1])
    # Sorted, a row that has each index once is 0, 1, 2 ...
    ascending = np.sort(np.where(orders.inside(), chosen, indices), axis=1)
    wrong_rows = np.flatnonzero((ascending != indices).any(axis=1))
    if len(wrong_rows):
        row = int(wrong_rows[0])
        items = chosen[row, : orders.sizes[row]].tolist()
        raise IllegalAction(
            f"game {orders.games[row]}: seat {SEAT_LETTERS[int(orders.diver[row]) % players]} "
            f"cannot lay its {len(items)} items in the order {items}"
        )


def in_order(orders: Orders, chosen: Array, names: Array) -> Array:
    """Return the divers' items in the orders that were chosen: [divers, most items].

    One row is one diver. An order decides only which name is laid where: items with one name are
    alike, and are laid in pick-up order among themselves.

    chosen  [divers, most items] the indices of the items, in pick-up order, that are laid one after
            another; entries beyond the number of a diver's items are ignored
    names   [divers, most items] the bits of the items that are equal for units with the same name
    """
    inside = orders.inside()
    chosen = np.where(inside, chosen, np.arange(inside.shape[1]))
    # Entries beyond the items stay behind them, because no name is as large as this number.
    names = np.where(inside, names, ~names.dtype.type(0))
    # Sort the items by name, and the places in the order by the name that is chosen for each. Both
    # have the same names, so the k-th of these items goes to the k-th of these places. Both sorts
    # are stable, so items with one name keep their pick-up order. All arrays are [divers, most
    # items].
    items_by_name = names.argsort(axis=1, kind="stable")
    chosen_names = np.take_along_axis(names, chosen, 1)
    places_by_name = chosen_names.argsort(axis=1, kind="stable")
    item_at_place = np.empty_like(chosen)
    np.put_along_axis(item_at_place, places_by_name, items_by_name, 1)
    return np.take_along_axis(orders.items, item_at_place, 1)
