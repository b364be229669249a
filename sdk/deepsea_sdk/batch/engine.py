"""Many games of one rule set and one number of seats at once, in numpy arrays.

    batch = Batch(preset("manual"), players=4, games=4096)
    open_random(batch, np.arange(4096), rng)
    while True:
        over = batch.play_turn(policy, dice)       # the games that are over
        points, halves = batch.results(over)
        open_random(batch, over, rng)              # they begin anew

Or stage by stage, for all games or for some of them:

    turn = batch.turn(games)                # who is to move, where, with how much
    batch.declare(turn, policy)             # breathe, and turn back or go on
    batch.move(turn, dice(batch, turn))
    ended = batch.search(turn, policy)      # leave, take, drop; the games whose dive is over
    over = batch.clean_up(ended, policy)    # and the next dive begins

The reference is `deepsea_rules.state`: the same choices and dice lead to the same positions.

Invariants: between turns every game stands at the start of one (phase "declare"); a stage asks the
policy, and checks what it answers, before it changes anything; where a seat has one legal action it
is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from deepsea_rules.errors import IllegalAction, InvalidRules
from deepsea_rules.ruleset import (
    ABOARD,
    DIVES,
    FACES,
    FULL_AIR,
    HOME,
    MAX_PLAYERS,
    MIN_PLAYERS,
    SEAT_LETTERS,
    RuleSet,
)

from . import units as clean_up
from .units import (
    CHIP_BITS,
    LAID,
    SLOTS,
    SUMMED,
    U64,
    WIDTH,
    Array,
    Orders,
    Runs,
    StrandedCargo,
    check_orders,
    checked_answers,
    in_order,
    levels,
    name_bits,
    runs_of,
    runs_to_ask_at_once,
    runs_to_ask_in_turn,
    singles,
)

# Tables of how divers move, so that many of them move by one look-up

AHEAD = 11
"""Spaces that a diver may have to look at: six free ones and five that other divers hold."""
MOST_STEPS = 2 * max(FACES)
"""The highest sum of two dice."""
BELOW_TRAIL = 15
"""Offset of `taken`: space n is bit n + 15.

So the spaces ahead are inside for every diver, on both sides. All bits beyond the trail's end are
set.
"""
TRAIL_BITS = U64(2**64 - 2 ** (BELOW_TRAIL + 1))
"""The bits of `taken` that stand for spaces, without the submarine."""
BEYOND = np.array([2**64 - 2 ** (BELOW_TRAIL + 1 + last) for last in range(WIDTH)], U64)
"""[last space] the bits of all spaces beyond it."""


def is_idle(dive: Array) -> Array:
    """Return which games are over or were never begun, by the `dive` of each."""
    # Before its first dive a game has dive 0, and after its last one DIVES + 1.
    idle: Array = dive % (DIVES + 1) == 0
    return idle


def taken_bits(last: int, places: Iterable[int]) -> int:
    """Return `taken` for a game with this last space and divers in these places."""
    divers = sum(1 << (place + BELOW_TRAIL) for place in places if place > ABOARD)
    return divers + int(BEYOND[last])


def _move_table() -> Array:
    """Return how many spaces a diver moves, for each set of spaces ahead that other divers hold.

    The index is [direction, steps, pattern], flattened. Direction 0 is down and 1 is up; moves up
    are negative. A pattern has a bit for each of the next AHEAD spaces, set if a diver is there.
    Divers skip such spaces, and stop on the last free one that they reach.
    """
    patterns = np.arange(2**AHEAD)
    table = np.zeros((2, MOST_STEPS + 1, 2**AHEAD), np.int8)
    for homeward in (0, 1):
        free_count = np.zeros(2**AHEAD, np.int8)  # free spaces so far, for each pattern
        for distance in range(1, AHEAD + 1):
            # Deeper spaces have higher bits. So the nearest space is the lowest bit for a diver
            # that goes down, and the highest one for a diver that goes up.
            bit = AHEAD - distance if homeward else distance - 1
            is_free = (patterns >> bit) & 1 == 0
            free_count += is_free
            move = -distance if homeward else distance
            for steps in range(1, MOST_STEPS + 1):
                # A free space farther away, still within the steps, replaces a nearer one.
                table[homeward, steps, is_free & (free_count <= steps)] = move
    return table.ravel()


@cache
def next_seats(players: int) -> Array:
    """Return a table of the seat that moves next, by the seat that has moved and those at home.

    The index is 8 × the bits of the seats at home + the seat that has moved: there are fewer than 8
    seats.
    """
    table = np.zeros(8 << players, np.int64)
    # The last set, with all seats at home, has no next seat.
    for home_bits in range((1 << players) - 1):
        for seat in range(players):
            next_seat = (seat + 1) % players
            while (home_bits >> next_seat) & 1:  # skip seats whose bit says that they are home
                next_seat = (next_seat + 1) % players
            table[8 * home_bits + seat] = next_seat
    return table


MOVES = _move_table()


def _lowest_free_space(taken_spaces: int) -> int:
    """Return the lowest free space, if bit n - 1 of a number is set for each taken space n."""
    space = 1
    while (taken_spaces >> (space - 1)) & 1:
        space += 1
    return space


LOWEST_FREE = np.array([_lowest_free_space(pattern) for pattern in range(2**AHEAD)], np.int8)
"""The lowest free space, by the set of taken spaces (bit n - 1 is set if space n is taken)."""

_NOBODY = np.zeros(0, np.int64)
"""An empty array of rows."""
_VIEWS = {
    *("dive", "air", "quiet_turns", "out", "breath", "last"),
    *("place", "load", "home_rank", "homeward", "barred"),
    *("_flat_trail", "_flat_cargo"),
}
"""Attributes of a batch that are views of its arrays."""


@dataclass(slots=True)
class Turn:
    """The divers to move in some games; arrays have an entry for each game.

    games     their numbers, or None for all games
    diver     game × seats + seat: the index of the diver in a batch's arrays of divers
    place     the space, 0 in the submarine
    load      the number of carried units
    homeward  set for divers that have turned back
    """

    games: Array | None
    diver: Array
    place: Array
    load: Array
    homeward: Array

    def of(self, values: Array) -> Array:
        """Return these games' entries of an array with an entry for each game of the batch."""
        return values if self.games is None else values.take(self.games)

    def part(self, rows: Array) -> Turn:
        """Return the turn of some of these games.

        rows  indices into the arrays of this turn
        """
        return Turn(
            # A turn of all games has them in order, so that a row is the number of its game.
            rows if self.games is None else self.games.take(rows),
            self.diver.take(rows),
            self.place.take(rows),
            self.load.take(rows),
            self.homeward.take(rows),
        )


class Policy:
    """Base class of policies, which decide for many games at once.

    A method is asked only where a diver has a choice. `turn` has the games that are asked and their
    divers to move; `turn.games` is never None.
    """

    def declare(self, batch: Batch, turn: Turn) -> Array:
        """Return which divers turn back, as booleans."""
        raise NotImplementedError

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        """Return which divers take the unit on their space, as booleans.

        units  the units on the divers' spaces as packed numbers, which `levels`, `chips` and
               `worth` of `deepsea_sdk.batch` read
        """
        raise NotImplementedError

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return the unit that each diver drops, by its index in pick-up order; -1 to leave."""
        raise NotImplementedError

    orders = False
    """True if stranded divers are asked for an order.

    Otherwise all lay their items in pick-up order.
    """

    def order(self, batch: Batch, orders: Orders) -> Array:
        """Return the order in which each stranded diver lays its items.

        The answer has the shape of `orders.items`: [divers, most items]. A row has the indices of
        the diver's items, which are in pick-up order; the first index is of the item that is laid
        nearest to the submarine. Entries beyond the number of the diver's items are ignored.
        """
        raise NotImplementedError


Dice: TypeAlias = Callable[["Batch", Turn], Array]
"""Function that returns the sums of two dice for the divers to move, such as `RandomDice`."""


class Batch:
    """Games of one rule set and one number of seats.

    Of each game, [games]:
    dive, air           as in `GameState`; the true air, which may fall below 0
    quiet_turns         as in `GameState`
    to_move             the seat whose turn it is
    out                 divers that are not home
    breath              carried units of all divers: the air that a round takes
    last                the last space of the trail
    homes               8 × the bits of the seats that are home
    taken               spaces with divers, and all beyond the end of the trail, as bits
    banked_earlier      the chips that were brought home in earlier dives, as bits
    trail               [games, 33] units by space, column 0 blank
    drowned             [games, DIVES, seats], see `Results`
    values              [games, 32] of chip 1 to 32, hidden from the seats

    Of each diver, flat [games × seats]:
    place               0 in the submarine, n a space, -1 home
    load                the number of carried units
    homeward            set once it has turned back
    barred              set once it was refused entry for the rest of the dive
    home_rank           1 for the diver that got home first in this dive, ...; 0 if not home
    cargo               [games × seats, SLOTS] units in pick-up order, `load` of them
    carried             chips and worth of the cargo together
    bank                chips brought home, as bits

    Units and `carried` are packed numbers: read them by `levels`, `chips` and `worth`. The first
    two of these read `bank`, too.
    """

    def __init__(self, rules: RuleSet, players: int, games: int) -> None:
        if rules.unknown_options:
            raise InvalidRules(
                f"these rules cannot be simulated: the option {rules.unknown_options[0]!r} is of a "
                "newer version; update deepsea-sdk"
            )
        if not MIN_PLAYERS <= players <= MAX_PLAYERS:
            raise ValueError(f"a game has {MIN_PLAYERS} to {MAX_PLAYERS} players, not {players}")
        if games < 0:
            raise ValueError(f"a batch has 0 or more games, not {games}")
        self.rules, self.players, self.games = rules, players, games
        self.by_chip = rules.relost_stack == "chips"
        self.name_bits = name_bits(self.by_chip)
        self.decisions = 0
        """The number of choices that policies have made."""
        self._singles = singles(self.by_chip)
        self._next_seats = next_seats(players)
        self._base = np.arange(games, dtype=np.int64) * players
        self._row = np.arange(games, dtype=np.int64) * WIDTH
        # Small counters of games and of divers are rows of two blocks, so that one assignment to a
        # block begins a dive. `_name_views` gives the rows their names.
        self._counts = np.zeros((6, games), np.int8)
        self._divers = np.zeros((5, games, players), np.int8)
        # Air, quiet turns, out and breath at the start of a dive
        self._fresh = np.array([[FULL_AIR], [0], [players], [0]], np.int8)
        self.to_move = np.zeros(games, np.int64)
        self.homes = np.zeros(games, np.int64)
        self.taken = np.zeros(games, U64)
        self.banked_earlier = np.zeros(games, U64)
        self.trail = np.zeros((games, WIDTH), U64)
        self.values = np.zeros((games, WIDTH - 1), np.uint8)
        self.drowned = np.zeros((games, DIVES, players), np.int8)
        self.cargo = np.zeros((games * players, SLOTS), U64)
        self.carried = np.zeros(games * players, U64)
        self.bank = np.zeros(games * players, U64)
        self.idle = games
        """The number of games that are over or were never begun."""
        self._name_views()

    def _name_views(self) -> None:
        """Set the attributes that are views: they share their memory with the arrays named here.

        Called again after a copy, which has arrays of its own.
        """
        # Each row of `_counts`, [6, games], is a counter of the games.
        self.dive, self.air, self.quiet_turns, self.out, self.breath, self.last = self._counts
        # Each row of `_divers`, [5, games, seats], is a number of each diver, or 0 or 1 for a bool.
        diver_rows = self._divers.reshape(5, self.games * self.players)
        self.place, self.load, self.home_rank = diver_rows[:3]
        self.homeward, self.barred = diver_rows[3].view(bool), diver_rows[4].view(bool)
        # Flat, for access by one index instead of two
        self._flat_trail, self._flat_cargo = self.trail.reshape(-1), self.cargo.reshape(-1)

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes but the views, which would become arrays of their own in a copy."""
        return {name: value for name, value in vars(self).items() if name not in _VIEWS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._name_views()

    def __copy__(self) -> Batch:
        return deepcopy(self)

    def by_seat(self, diver_array: Array) -> Array:
        """Return a view, as [games, seats, ...], of an array that has an entry for each diver."""
        return diver_array.reshape(self.games, self.players, *diver_array.shape[1:])

    # Beginning games

    def open(self, games: Array, values: Array | int, starter: Array | int) -> None:
        """Begin these games anew, whether they are over, running, or were never begun.

        values   [games, 32] of chip 1 to 32, or one number for all chips
        starter  [games] the seats that begin, or one seat for all
        """
        self._check_numbers(games)
        if np.shape(values) not in ((), (len(games), WIDTH - 1)):
            raise ValueError(f"values are {np.shape(values)}, not ({len(games)}, {WIDTH - 1})")
        is_no_seat = np.less(starter, 0) | np.greater_equal(starter, self.players)
        wrong_seats = np.extract(is_no_seat, starter)
        if len(wrong_seats):
            raise ValueError(f"seat {wrong_seats[0]} cannot begin: there are {self.players} seats")
        # `idle` counts the games that are over or were never begun; now these are neither.
        self.idle -= int(is_idle(self.dive[games]).sum())
        self.trail[games] = self._singles  # a single chip on each space
        self.values[games] = values
        self.drowned[games] = 0
        self.by_seat(self.bank)[games] = 0
        self.banked_earlier[games] = 0
        self.dive[games] = 1
        self.last[games] = WIDTH - 1  # the last space of the trail; space 0 is the submarine
        self._begin_dive(games, starter)

    def _begin_dive(self, games: Array, starter: Array | int) -> None:
        """Begin a dive of these games: all divers are in the submarine, and `starter` is to move.

        The trail, the banks and `dive` have to be set already.
        """
        self._divers[:, games] = 0
        self.by_seat(self.carried)[games] = 0
        self._counts[1:5, games] = self._fresh  # air, quiet_turns, out, breath
        self.homes[games] = 0
        self.to_move[games] = starter
        # No diver is on the trail: only the spaces beyond its end count as taken.
        self.taken[games] = BEYOND[self.last[games]]

    def _check_numbers(self, games: Array) -> None:
        """Raise ValueError unless these are numbers of games in the batch."""
        if games.dtype.kind != "i":
            raise ValueError(f"games are given by their numbers, not as {games.dtype}")
        wrong_games = games[(games < 0) | (games >= self.games)]
        if len(wrong_games):
            raise ValueError(f"there is no game {wrong_games[0]} in a batch of {self.games}")

    # A turn

    def play_turn(
        self,
        policy: Policy,
        dice: Dice,
        on_dive_end: Callable[[Batch, Array], object] = lambda batch, games: None,
    ) -> Array:
        """Play one turn of every game, and return the games that are over.

        Games that are over have to be opened again before the next turn.

        on_dive_end  called with the batch and the games whose dive has ended, before the clean-up:
                     all divers are still where they were, with their cargo
        """
        turn = self.turn()
        self.declare(turn, policy)
        self.move(turn, dice(self, turn))
        ended = self.search(turn, policy)
        if len(ended):
            on_dive_end(self, ended)
        return self.clean_up(ended, policy)

    def turn(self, games: Array | None = None) -> Turn:
        """Return the divers that are to move in these games; in all games for None.

        Raise ValueError for a game that is over or was never begun.
        """
        if games is not None:
            self._check_numbers(games)
        if self.idle:
            numbers = np.arange(self.games) if games is None else games
            idle_games = numbers[is_idle(self.dive[numbers])]
            if len(idle_games):
                raise ValueError(f"game {idle_games[0]} is over, or was never begun: open it first")
        # `_base` has the index of each game's first diver.
        if games is None:
            diver = self._base + self.to_move
        else:
            diver = self._base.take(games) + self.to_move.take(games)
        # In a turn, a diver at home (-1) is in the submarine (0).
        place = np.maximum(self.place.take(diver), 0)
        return Turn(games, diver, place, self.load.take(diver), self.homeward.take(diver))

    def may_declare(self, turn: Turn) -> Array:
        """Return which divers have a choice between going on and turning back, as booleans."""
        has_choice: Array = (turn.place > 0) & ~turn.homeward
        if self.rules.turn_needs_treasure:
            has_choice &= turn.load > 0
        elif self.rules.forced_turn != "never":  # no rules have both options
            has_choice &= ~self.must_turn_back(turn)
        return has_choice

    def must_turn_back(self, turn: Turn) -> Array:
        """Return which divers have to turn back because no space below them is free.

        By rules without forced turns no diver has to.
        """
        if self.rules.forced_turn == "never":
            return np.zeros(len(turn.diver), bool)
        is_forced: Array = (turn.place > 0) & ~turn.homeward
        # Space n is bit n + BELOW_TRAIL of `taken`, so this is the bit of the next space down.
        bit_below = (turn.place + np.int8(BELOW_TRAIL + 1)).astype(U64)
        # The bits beyond the trail's end are set in `taken`, so these are free spaces alone.
        free_spaces = ~turn.of(self.taken)
        is_forced &= (free_spaces >> bit_below) == 0
        return is_forced

    def declare(self, turn: Turn, policy: Policy) -> None:
        """Turn back the divers that want to or have to, and use the air of this turn.

        The policy is asked for the divers that may either go on or turn back.
        """
        rows = np.flatnonzero(self.may_declare(turn))
        if len(rows):
            part = turn.part(rows)
            turns_back = checked_answers(
                policy.declare(self, part), part.diver, "b", "what the policy declares is"
            )
            self.decisions += len(rows)
            self._turn_back(turn, rows[turns_back])
        if self.rules.forced_turn != "never":
            self._turn_back(turn, np.flatnonzero(self.must_turn_back(turn)))
        if turn.games is None:
            self.air -= turn.load
        else:
            self.air[turn.games] -= turn.load

    def _turn_back(self, turn: Turn, rows: Array) -> None:
        """Turn back the divers of these rows of `turn`, in the batch and in `turn` itself."""
        turn.homeward[rows] = True
        self.homeward[turn.diver[rows]] = True

    def move(self, turn: Turn, sums: Array) -> None:
        """Move the divers by these sums of two dice; those that come home bank their cargo.

        `turn` then has the divers' new places. Raise ValueError for sums that two dice cannot show.
        """
        checked_answers(sums, turn.diver, "i", "the dice is")
        wrong = np.flatnonzero((sums < 2 * min(FACES)) | (sums > MOST_STEPS))
        if len(wrong):
            game = turn.of(np.arange(self.games))[wrong[0]]
            raise ValueError(f"game {game}: two dice do not show {sums[wrong[0]]} together")
        place, load, is_up = turn.place, turn.load, turn.homeward.view(np.int8)
        steps = np.maximum(sums - load, 0)
        taken = turn.of(self.taken)
        # The spaces ahead of a diver are the AHEAD bits above its own one, or below it on the way
        # up; `is_up` is 0 or 1.
        lowest_bit = place + np.int8(BELOW_TRAIL + 1) - np.int8(AHEAD + 1) * is_up
        pattern = taken >> lowest_bit.astype(U64)
        pattern &= U64(2**AHEAD - 1)
        # `MOVES` is flat, of [direction, steps, pattern].
        index = (steps + np.int8(MOST_STEPS + 1) * is_up).astype(np.int64)
        index <<= AHEAD
        index += pattern.view(np.int64)
        new_place = place + MOVES.take(index)
        home = np.flatnonzero((new_place <= 0) & turn.homeward)
        if len(home):
            if self.rules.home_empty_handed == "barred":
                home = self._admit(turn, home, new_place, taken)
            new_place[home] = HOME
        is_quiet = (new_place == place) & (load == 0)
        # Leave the old space and hold the new one; the submarine and home are no spaces.
        changed_bits = U64(1) << (place + np.int8(BELOW_TRAIL)).astype(U64)
        changed_bits ^= U64(1) << (new_place + np.int8(BELOW_TRAIL)).astype(U64)
        changed_bits &= TRAIL_BITS
        # `quiet_turns` counts turns in a row in which a diver without cargo stayed where it was.
        if turn.games is None:
            self.quiet_turns += np.int8(1)
            self.quiet_turns *= is_quiet
            self.taken ^= changed_bits
        else:
            self.quiet_turns[turn.games] = (
                self.quiet_turns.take(turn.games) + np.int8(1)
            ) * is_quiet
            self.taken[turn.games] = taken ^ changed_bits
        self.place[turn.diver] = new_place
        if len(home):
            self._come_home(turn.part(home))
            load[home] = 0
        turn.place = np.maximum(new_place, 0)

    def _admit(self, turn: Turn, arrivals: Array, new_place: Array, taken: Array) -> Array:
        """Stop the divers that may not enter the submarine, and return the rows of the others.

        Divers without cargo are refused. They stop on the free space nearest to the submarine, or
        stay where they are if that is nearer. One row of `turn`, `new_place` and `taken` is one
        diver.

        arrivals   [arrivals] rows of the divers that have reached the submarine
        new_place  [divers] the places after the move; changed for refused divers
        taken      [divers] the spaces of the diver's game with divers on them, as bits
        """
        arrived_divers = turn.diver[arrivals]  # [arrivals] indices into the batch's arrays
        is_refused = turn.load[arrivals] == 0  # [arrivals]
        if self.rules.barred_release == "never_this_dive":
            # A diver that was refused once stays out in this dive, even if it has cargo later.
            self.barred[arrived_divers[is_refused]] = True
            is_refused |= self.barred[arrived_divers]
        refused_rows = arrivals[is_refused]
        # [refused]: the first AHEAD spaces as bits. Space 1, which is bit BELOW_TRAIL + 1 of
        # `taken`, is shifted down to be the lowest bit.
        taken_from_space_1 = taken[refused_rows] >> U64(BELOW_TRAIL + 1)
        taken_first_spaces = taken_from_space_1 & U64(2**AHEAD - 1)
        nearest_free_space = LOWEST_FREE[taken_first_spaces]
        new_place[refused_rows] = np.minimum(nearest_free_space, turn.place[refused_rows])
        admitted_rows: Array = arrivals[~is_refused]
        return admitted_rows

    def _come_home(self, turn: Turn) -> None:
        """Bank the cargo of these divers, which have just come home, and count them as home."""
        games, diver = turn.games, turn.diver
        self.bank[diver] |= self.carried[diver] & CHIP_BITS
        self.carried[diver] = 0
        self.load[diver] = 0
        # What a game's divers breathe in a round falls by the units that are home now.
        self.breath[games] -= turn.load
        # `homes` is 8 × the bits of the seats at home, as the index of `next_seats` needs it.
        self.homes[games] += 8 << self.to_move[games]
        self.out[games] -= np.int8(1)
        # The first diver at home has rank 1, the second one 2, and so on.
        self.home_rank[diver] = self.players - self.out[games]

    def units_here(self, turn: Turn) -> Array:
        """Return the units on the divers' spaces; 0 for blanks, the submarine and home."""
        return self._flat_trail.take(turn.of(self._row) + turn.place)

    def may_drop(self, turn: Turn, units: Array) -> Array:
        """Return which divers may drop a unit: those with cargo on a blank.

        units  the units on the divers' spaces, as from `units_here`; 0 is a blank
        """
        may: Array = (turn.load > 0) & (units == 0)
        if not self.rules.drop_last_after_turn:
            # Having turned back, a diver keeps its last unit.
            may &= ~((turn.load == 1) & turn.homeward)
        return may

    def search(self, turn: Turn, policy: Policy) -> Array:
        """Let divers leave, take or drop, end the turn, and return the games whose dive is over."""
        units = self.units_here(turn)
        # Rows of `turn`, each one diver: those on a unit may take it, and those with cargo on a
        # blank may drop a unit. `slots` has the slot in the cargo that each of the droppers drops.
        may_take = np.flatnonzero(units)
        may_drop = np.flatnonzero(self.may_drop(turn, units))
        takers = droppers = slots = _NOBODY
        if len(may_take):
            part = turn.part(may_take)
            takes = policy.take(self, part, units[may_take])
            takers = may_take[checked_answers(takes, part.diver, "b", "what the policy takes is")]
        if len(may_drop):
            part = turn.part(may_drop)
            slots = self._checked_slots(policy.drop(self, part), part)
            drops = np.flatnonzero(slots >= 0)  # -1 is to leave
            droppers, slots = may_drop[drops], slots[drops]
        # Nothing changes before all have answered: a refused answer leaves the batch as it was.
        if len(takers):
            self._take(turn.part(takers), units[takers])
        if len(droppers):
            self._drop(turn.part(droppers), slots)
        self.decisions += len(may_take) + len(may_drop)
        return self._end_turn(turn)

    def _end_turn(self, turn: Turn) -> Array:
        """Pass the turn to the next seats, and return the games whose dive is over.

        A dive is over without air, without divers outside, or after a round in which nothing has
        changed: `quiet_turns` counts such turns in a row, and `out` the divers outside.
        """
        games = turn.games
        # Both branches do the same. The first one, for all games, is faster without their numbers.
        # The index of `_next_seats` is `homes`, 8 × the bits of the seats at home, plus the seat.
        if games is None:
            over = np.flatnonzero((self.air <= 0) | (self.quiet_turns >= self.out))
            self.to_move = self._next_seats.take(self.homes + self.to_move)
        else:
            over = games[(self.air[games] <= 0) | (self.quiet_turns[games] >= self.out[games])]
            self.to_move[games] = self._next_seats.take(self.homes[games] + self.to_move[games])
        return over

    def _take(self, turn: Turn, units: Array) -> None:
        """Move these units from the divers' spaces to the end of their cargo."""
        units = units & ~LAID  # a unit that is carried no longer counts as a laid pile
        # `_row` has the index of each game's submarine in the flat trail.
        self._flat_trail[turn.of(self._row) + turn.place] = 0
        # The first empty slot of a diver is the one after its load.
        self._flat_cargo[turn.diver * SLOTS + turn.load] = units
        self.load[turn.diver] += np.int8(1)
        # `carried` sums up the chips and the worth of all units.
        self.carried[turn.diver] += units & SUMMED
        self.breath[turn.games] += np.int8(1)
        self.quiet_turns[turn.games] = 0

    def _drop(self, turn: Turn, slots: Array) -> None:
        """Lay a unit of each diver's cargo on its space, and close the gap in the cargo.

        One row of `turn` and of the arrays below is one diver.

        slots  [divers] the index of the unit in the cargo. Units with one name are alike: of these
               the first one is dropped, whichever was chosen
        """
        cargo = self.cargo.take(turn.diver, axis=0)  # [divers, SLOTS]
        rows = np.arange(len(slots))
        names = cargo & self.name_bits  # [divers, SLOTS] equal for units with the same name
        has_chosen_name = names == names[rows, slots][:, None]  # [divers, SLOTS]
        dropped: Array = has_chosen_name.argmax(axis=1)  # the first True of each row
        units = cargo[rows, dropped]
        self._flat_trail[turn.of(self._row) + turn.place] = units
        # [divers, SLOTS - 1]: the slot whose unit each slot gets. From the dropped one on, it is
        # the slot after it.
        slot = np.arange(SLOTS - 1)
        source_slot = slot + (slot >= dropped[:, None])
        self.cargo[turn.diver, :-1] = cargo[rows[:, None], source_slot]
        self.load[turn.diver] -= np.int8(1)
        self.carried[turn.diver] -= units & SUMMED
        self.breath[turn.games] -= np.int8(1)
        self.quiet_turns[turn.games] = 0

    def _checked_slots(self, slots: Array, turn: Turn) -> Array:
        """Return the units that a policy drops, if each of these divers has such a unit.

        Otherwise raise IllegalAction, or ValueError for an array of another shape or type.

        slots  [divers] the index of a unit in the cargo, or -1 to leave
        """
        slots = checked_answers(slots, turn.diver, "i", "what the policy drops is")
        wrong_rows = np.flatnonzero((slots < -1) | (slots >= turn.load))
        if len(wrong_rows):
            first_wrong = turn.part(wrong_rows[:1])
            game = first_wrong.of(np.arange(self.games))[0]
            seat = SEAT_LETTERS[int(first_wrong.diver[0]) % self.players]
            raise IllegalAction(
                f"game {game}: seat {seat} cannot drop unit {slots[wrong_rows[0]]} of "
                f"{first_wrong.load[0]}; they count from 0, and -1 is to leave"
            )
        return slots

    # The end of a dive

    def clean_up(self, games: Array, policy: Policy) -> Array:
        """Lay stranded cargo, begin these games' next dives, and return the games that are over.

        The trail, the banks and `last` of a game that is over stay as they are until it is opened
        again.
        """
        if not len(games):
            return games
        place = self.by_seat(self.place).take(games, axis=0)
        load = self.note_drowned(games)
        cargo = self.by_seat(self.cargo).take(games, axis=0)
        home_rank = self.by_seat(self.home_rank).take(games, axis=0)
        laid = clean_up.stranded_cargo(self.rules, place, load, cargo, self.by_chip)
        trail = self.trail.take(games, axis=0)
        if policy.orders and self.rules.drop_order == "owner_choice" and len(laid.items):
            self._order_stranded_items(games, trail, place, laid, policy)
        trail, last = clean_up.lay_and_close_gaps(
            self.rules, trail, laid.items, laid.counts, self.by_chip
        )
        self.trail[games] = trail
        self.last[games] = last
        banks = self.by_seat(self.bank).take(games, axis=0)
        self.banked_earlier[games] = np.bitwise_or.reduce(banks, axis=1)
        starter = clean_up.next_starters(self.rules, place, home_rank)
        self.dive[games] += np.int8(1)
        over: Array = games[(self.dive[games] > DIVES) | (last == 0)]
        self.dive[over] = DIVES + 1
        self.idle += len(over)
        self._begin_dive(games, starter)
        return over

    def note_drowned(self, games: Array) -> Array:
        """Store the loads of all divers as drowned at the end of a dive, and return them."""
        load = self.by_seat(self.load).take(games, axis=0)
        self.drowned[games, self.dive[games] - 1] = load
        return load

    def _order_stranded_items(
        self, games: Array, trail: Array, place: Array, stranded: StrandedCargo, policy: Policy
    ) -> None:
        """Ask the policy for the orders of stranded divers, and put their items into these orders.

        One row of `games`, `trail` and `place` is one game whose dive has ended.

        games     [games] their numbers in the batch
        stranded  the items of all stranded divers in pick-up order; changed in place
        """
        runs = runs_of(stranded, self.players)  # one run for each diver: where its items are
        if self.rules.top_up_tail_piles and not self.by_chip:
            # By these rules an order changes the room for the next diver's items. So the divers
            # that lay first in their games are asked first, then those that lay second, and so on.
            for laying_rank in range(self.players):
                runs_of_rank = runs.part(np.flatnonzero(runs.laying_rank == laying_rank))
                rows = runs_to_ask_in_turn(self.rules, trail, place, stranded, runs_of_rank)
                self._ask_orders(games, stranded, runs_of_rank.part(rows), policy)
        else:
            # Each item takes the same room, so no order changes the piles of another diver, and
            # all divers can be asked at once.
            names = stranded.items & self.name_bits  # [items] equal for items with the same name
            rows = runs_to_ask_at_once(self.rules, trail, stranded, runs, names)
            self._ask_orders(games, stranded, runs.part(rows), policy)

    def _ask_orders(
        self, games: Array, stranded: StrandedCargo, runs: Runs, policy: Policy
    ) -> None:
        """Ask the policy for the orders of some divers, and put their items into these orders.

        One row of `runs`, and of the arrays below, is one diver that is asked.

        stranded  the items of all stranded divers, one diver after another; changed in place
        runs      where the items of each of these divers begin, and how many they are
        """
        if not len(runs.first):
            return
        row_of_game, seat = np.divmod(runs.diver, self.players)
        game = games[row_of_game]  # [divers] the number of the diver's game in the batch
        item_number = np.arange(int(runs.sizes.max()))  # [most items] within a diver's items
        # [divers, most items]: False beyond the diver's own items
        is_item = item_number < runs.sizes[:, None]
        # [divers, most items]: the index of each item in `stranded.items`. Entries that are no item
        # must not lie beyond its end.
        index = np.minimum(runs.first[:, None] + item_number, len(stranded.items) - 1)
        items = np.where(is_item, stranded.items[index], U64(0))
        orders = Orders(game, game * self.players + seat, items, runs.sizes)
        chosen = policy.order(self, orders)
        check_orders(orders, chosen, self.players)
        ordered_items = in_order(orders, chosen, items & self.name_bits)  # [divers, most items]
        # The mask picks the same entries of both arrays, diver by diver.
        stranded.items[index[is_item]] = ordered_items[is_item]
        self.decisions += len(game)

    # What is known, and results

    def known(self, games: Array) -> Array:
        """Return the chips of these games whose values everybody has been shown, as bits."""
        if self.rules.reveal == "dive_end":
            return self.banked_earlier[games]
        return np.zeros(len(games), U64)

    def results(self, games: Array) -> Results:
        """Return the points and placements of these games by their banks as they are now."""
        banks = self.by_seat(self.bank)[games]
        return results_of(banks, self.values[games], self.rules.tiebreak, self.drowned[games])

    def part(self, games: Array) -> Batch:
        """Return a new batch with copies of these games, numbered from 0 in this order."""
        other = Batch(self.rules, self.players, len(games))
        # Arrays with a row for each game
        for name in ("to_move", "homes", "taken", "banked_earlier", "trail", "values", "drowned"):
            getattr(other, name)[:] = getattr(self, name)[games]
        # The blocks of small counters have the games as their second dimension.
        other._counts[:] = self._counts[:, games]
        other._divers[:] = self._divers[:, games]
        # Arrays with a row for each diver, of all games one after another
        for name in ("cargo", "carried", "bank"):
            other.by_seat(getattr(other, name))[:] = self.by_seat(getattr(self, name))[games]
        other.idle = int(is_idle(other.dive).sum())
        return other


# Points and placements: `deepsea_rules.scoring` on arrays


@dataclass(frozen=True, slots=True)
class Results:
    """Points and placements of games, as `points, halves = results`, and who drowned."""

    points: Array
    """[games, seats] points by the banks."""
    halves: Array
    """Halves of the seats [games, seats], as `scoring.halves_ahead` counts them.

    A seat has 2 for each seat that it is ahead of, and 1 for each tie.
    """
    drowned: Array
    """[games, DIVES, seats] how many units a seat lost at the end of a dive.

    It drowned if there are any.
    """

    def __iter__(self) -> Iterator[Array]:
        return iter((self.points, self.halves))


def results_of(banks: Array, values: Array, tiebreak: str, drowned: Array) -> Results:
    """Return the points and placements of games by their banks.

    A placement is given in halves: 2 for each seat that a seat is ahead of, and 1 for each tie.

    banks     [games, seats] the chips that each seat brought home, as bits
    values    [games, 32] of chip 1 to 32
    tiebreak  the option of the rule set
    drowned   [games, DIVES, seats] how many units each seat lost; returned as it is
    """
    points = points_of(banks, values)
    chips_per_level = levels(banks).astype(np.int64)  # [games, seats, 4]
    tie_keys = _tie_keys(points, chips_per_level, tiebreak)
    # A seat with a higher rank key is ahead. Points decide first: they are shifted by 20 bits, and
    # a tie key is less than 2**20, so that it decides only between seats with the same points.
    rank_keys = (points << 20) | tie_keys
    # Comparing these two gives [games, seats, other seats], where each seat also meets itself.
    own_key, other_key = rank_keys[:, :, None], rank_keys[:, None, :]
    wins = (own_key > other_key).sum(axis=2)
    ties = (own_key == other_key).sum(axis=2) - 1  # less the tie of each seat with itself
    return Results(points, 2 * wins + ties, drowned)


def points_of(banks: Array, values: Array) -> Array:
    """Return the points of banks: [games, seats].

    banks   [games, seats] the chips as bits; chip 1 is the lowest bit
    values  [games, 32] of chip 1 to 32
    """
    octets = banks.astype("<u4")[..., None].view(np.uint8)  # [games, seats, 4]
    # [games, seats, chips]: 1 for each chip of the bank, otherwise 0
    has_chip = np.unpackbits(octets, axis=-1, bitorder="little")
    # For each game g and seat s, the sum of the values over the chips c of its bank
    points: Array = np.einsum("gsc,gc->gs", has_chip, values, dtype=np.int64)
    return points


def _tie_keys(points: Array, counts: Array, tiebreak: str) -> Array:
    """Return numbers that break ties of points, [games, seats]: the highest number wins.

    counts  [games, seats, 4] how many chips of levels 1 to 4 a seat has
    """
    if tiebreak == "level4":
        return np.asarray(counts[:, :, 3])
    if tiebreak == "lexicographic":
        # The highest level counts first. Each count is a digit of its own of a number in base 16,
        # because no level has more than 8 chips.
        return np.asarray(counts @ np.array([1, 16, 256, 4096]))
    # "top_level": the count at the highest level of which any of the tied seats has a chip.
    is_tied = points[:, :, None] == points[:, None, :]  # [games, seats, other seats]
    has_level = counts > 0
    # [games, seats, levels]: True for a level of which a seat tied with this one has a chip
    is_held = (is_tied[..., None] & has_level[:, None]).any(axis=2)
    # `argmax` finds the first True, which is the highest level after the levels are reversed.
    top_level = 3 - is_held[:, :, ::-1].argmax(axis=2)
    return np.take_along_axis(counts, top_level[..., None], axis=2)[..., 0]
