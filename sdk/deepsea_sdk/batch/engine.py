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


def taken_bits(last: int, places: Iterable[int]) -> int:
    """Return `taken` for a game with this last space and divers in these places."""
    divers = sum(1 << place + BELOW_TRAIL for place in places if place > ABOARD)
    return divers + int(BEYOND[last])


def _moves() -> Array:
    """Return how far a diver moves, by direction, steps and the spaces ahead that are taken.

    The table is flat, of [2, MOST_STEPS + 1, 2 ** AHEAD]: 0 is down and 1 is up; a set bit is a
    space that another diver holds. Divers skip such spaces, and stop on the last free one that they
    reach.
    """
    windows = np.arange(2**AHEAD)
    table = np.zeros((2, MOST_STEPS + 1, 2**AHEAD), np.int8)
    for homeward in (0, 1):
        free_count = np.zeros(2**AHEAD, np.int8)
        for ahead in range(1, AHEAD + 1):
            # The nearest space is the lowest bit of what lies below a diver, and the highest bit
            # of what lies above it.
            bit = AHEAD - ahead if homeward else ahead - 1
            is_free = windows >> bit & 1 == 0
            free_count += is_free
            for steps in range(1, MOST_STEPS + 1):
                table[homeward, steps, is_free & (free_count <= steps)] = (
                    -ahead if homeward else ahead
                )
    return table.ravel()


@cache
def next_seats(players: int) -> Array:
    """Return a table of the seat that moves next, after this seat and with these seats at home.

    The index is 8 × the bits of the seats at home + the seat that has moved.
    """
    table = np.zeros(8 << players, np.int64)
    for home_bits in range((1 << players) - 1):
        for seat in range(players):
            next_seat = (seat + 1) % players
            while home_bits >> next_seat & 1:
                next_seat = (next_seat + 1) % players
            table[8 * home_bits + seat] = next_seat
    return table


MOVES = _moves()
LOWEST_FREE = np.array(
    [next(n for n in range(1, AHEAD + 2) if not w >> n - 1 & 1) for w in range(2**AHEAD)], np.int8
)
"""The lowest free space, by the set of taken spaces (bit n - 1 is set if space n is taken)."""

_NOBODY = np.zeros(0, np.int64)
"""An empty array of rows."""
_VIEWS = {
    *("dive", "air", "quiet", "out", "breath", "last"),
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
        """Return the entries with these indices."""
        return Turn(
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

        units  packed units on the divers' spaces; `levels`, `chips` and `worth` of
               `deepsea_sdk.batch` read them
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
        """Return the order in which each diver lays its items, as indices in pick-up order.

        The array is [divers, most items] as `orders.items`, the item for the nearest space first.
        Entries beyond a diver's items do not matter.
        """
        raise NotImplementedError


Dice: TypeAlias = Callable[["Batch", Turn], Array]
"""Function that returns the sums of two dice for the divers to move, such as `RandomDice`."""


class Batch:
    """Games of one rule set and one number of seats.

    Of each game, [games]:
    dive, air, quiet    as in `GameState`; the true air, which may fall below 0
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
        # Air, quiet, out and breath at the start of a dive
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
        """Name the rows of the blocks, and flat trail and cargo; all are views."""
        self.dive, self.air, self.quiet, self.out, self.breath, self.last = self._counts
        rows = self._divers.reshape(5, self.games * self.players)
        self.place, self.load, self.home_rank = rows[:3]
        self.homeward, self.barred = rows[3].view(bool), rows[4].view(bool)
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
        """Begin games anew.

        values   [games, 32] of chip 1 to 32, or one number for all chips
        starter  [games] the seats that begin, or one seat for all
        """
        self._check_numbers(games)
        if np.shape(values) not in ((), (len(games), WIDTH - 1)):
            raise ValueError(f"values are {np.shape(values)}, not ({len(games)}, {WIDTH - 1})")
        wrong = np.extract(
            (np.less(starter, 0)) | (np.greater_equal(starter, self.players)), starter
        )
        if len(wrong):
            raise ValueError(f"seat {wrong[0]} cannot begin: there are {self.players} seats")
        # A game is idle before its first dive (0) and after its last one (DIVES + 1).
        self.idle -= int((self.dive[games] % (DIVES + 1) == 0).sum())
        self.trail[games] = self._singles
        self.values[games] = values
        self.drowned[games] = 0
        self.by_seat(self.bank)[games] = 0
        self.banked_earlier[games] = 0
        self.dive[games] = 1
        self.last[games] = WIDTH - 1
        self._board(games, starter)

    def _board(self, games: Array, starter: Array | int) -> None:
        """Begin a dive of these games with all divers in the submarine, by seat `starter`."""
        self._divers[:, games] = 0
        self.by_seat(self.carried)[games] = 0
        self._counts[1:5, games] = self._fresh  # air, quiet, out, breath
        self.homes[games] = 0
        self.to_move[games] = starter
        self.taken[games] = BEYOND[self.last[games]]

    def _check_numbers(self, games: Array) -> None:
        """Raise ValueError unless these are numbers of games in the batch."""
        if games.dtype.kind != "i":
            raise ValueError(f"games are given by their numbers, not as {games.dtype}")
        wrong = games[(games < 0) | (games >= self.games)]
        if len(wrong):
            raise ValueError(f"there is no game {wrong[0]} in a batch of {self.games}")

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
        """Return the divers to move in these games, or in all.

        Raise ValueError if a game is idle.
        """
        if games is not None:
            self._check_numbers(games)
        if self.idle:
            numbers = np.arange(self.games) if games is None else games
            idle = numbers[self.dive[numbers] % (DIVES + 1) == 0]
            if len(idle):
                raise ValueError(f"game {idle[0]} is over, or was never begun: open it first")
        if games is None:
            diver = self._base + self.to_move
        else:
            diver = self._base.take(games) + self.to_move.take(games)
        place = np.maximum(self.place.take(diver), 0)
        return Turn(games, diver, place, self.load.take(diver), self.homeward.take(diver))

    def may_declare(self, turn: Turn) -> Array:
        """Return which divers have a choice between going on and turning back."""
        has_choice: Array = (turn.place > 0) & ~turn.homeward
        if self.rules.turn_needs_treasure:
            has_choice &= turn.load > 0
        elif self.rules.forced_turn != "never":
            has_choice &= ~self.must_turn_back(turn)
        return has_choice

    def must_turn_back(self, turn: Turn) -> Array:
        """Return which divers have to turn back because no space below them is free.

        Rules without forced turns have no such divers.
        """
        if self.rules.forced_turn == "never":
            return np.zeros(len(turn.diver), bool)
        shift = (turn.place + np.int8(BELOW_TRAIL + 1)).astype(U64)
        is_forced: Array = (turn.place > 0) & ~turn.homeward
        # In `taken` all spaces beyond the trail count as taken, so that 0 is left only if none of
        # the spaces below is free.
        is_forced &= ~turn.of(self.taken) >> shift == 0
        return is_forced

    def declare(self, turn: Turn, policy: Policy) -> None:
        """Use the air of this turn, and ask the policy where a diver may turn back or go on."""
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
        """Turn the divers of these rows back, in the batch and in `turn`."""
        turn.homeward[rows] = True
        self.homeward[turn.diver[rows]] = True

    def move(self, turn: Turn, sums: Array) -> None:
        """Move by these sums of two dice; divers that come home bank their cargo.

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
        # The spaces ahead of a diver are the bits above its own one, or below it on the way up.
        window = taken >> (place + np.int8(BELOW_TRAIL + 1) - np.int8(AHEAD + 1) * is_up).astype(
            U64
        )
        window &= U64(2**AHEAD - 1)
        # `MOVES` is flat: direction and steps, then the window.
        index = (steps + np.int8(MOST_STEPS + 1) * is_up).astype(np.int64)
        index <<= AHEAD
        index += window.view(np.int64)
        new_place = place + MOVES.take(index)
        home = np.flatnonzero((new_place <= 0) & turn.homeward)
        if len(home):
            if self.rules.home_empty_handed == "barred":
                home = self._admitted(turn, home, new_place, taken)
            new_place[home] = HOME
        stays = (new_place == place) & (load == 0)
        # Leave the old space and hold the new one; the submarine and home are no spaces.
        bits = U64(1) << (place + np.int8(BELOW_TRAIL)).astype(U64)
        bits ^= U64(1) << (new_place + np.int8(BELOW_TRAIL)).astype(U64)
        bits &= TRAIL_BITS
        # `quiet` counts the turns in a row in which a diver without cargo stayed where it was.
        if turn.games is None:
            self.quiet += np.int8(1)
            self.quiet *= stays
            self.taken ^= bits
        else:
            self.quiet[turn.games] = (self.quiet.take(turn.games) + np.int8(1)) * stays
            self.taken[turn.games] = taken ^ bits
        self.place[turn.diver] = new_place
        if len(home):
            self._come_home(turn.part(home))
            load[home] = 0
        turn.place = np.maximum(new_place, 0)

    def _admitted(self, turn: Turn, home: Array, new_place: Array, taken: Array) -> Array:
        """Return the rows of `home` that may enter the submarine; the other divers stop before it.

        Divers without cargo are refused. Their places in `new_place` become the nearest free space,
        but not one farther away than where they are.
        """
        diver = turn.diver[home]
        refused = turn.load[home] == 0
        if self.rules.barred_release == "never_this_dive":
            self.barred[diver[refused]] = True
            refused |= self.barred[diver]
        rows = home[refused]
        nearest = LOWEST_FREE[taken[rows] >> U64(BELOW_TRAIL + 1) & U64(2**AHEAD - 1)]
        new_place[rows] = np.minimum(nearest, turn.place[rows])
        admitted: Array = home[~refused]
        return admitted

    def _come_home(self, turn: Turn) -> None:
        """Bank the cargo of these divers, which have just come home."""
        games, diver = turn.games, turn.diver
        self.bank[diver] |= self.carried[diver] & CHIP_BITS
        self.carried[diver] = 0
        self.load[diver] = 0
        self.breath[games] -= turn.load
        # See `next_seats`: the bits of the seats at home count 8 each.
        self.homes[games] += 8 << self.to_move[games]
        self.out[games] -= np.int8(1)
        self.home_rank[diver] = self.players - self.out[games]

    def units_here(self, turn: Turn) -> Array:
        """Return the units on the divers' spaces: blank in the submarine and for divers at home."""
        return self._flat_trail.take(turn.of(self._row) + turn.place)

    def may_drop(self, turn: Turn, units: Array) -> Array:
        """Return which divers may drop something. Divers on a unit may take it instead.

        units  as from `units_here`
        """
        may: Array = (turn.load > 0) & (units == 0)
        if not self.rules.drop_last_after_turn:
            may &= ~((turn.load == 1) & turn.homeward)
        return may

    def search(self, turn: Turn, policy: Policy) -> Array:
        """Let divers leave, take or drop, end the turn, and return the games whose dive is over."""
        units = self.units_here(turn)
        on_unit = np.flatnonzero(units)
        may_drop = np.flatnonzero(self.may_drop(turn, units))
        # Row numbers of `turn`: divers on a unit may take it, and others may drop one.
        taking = dropping = slots = _NOBODY
        if len(on_unit):
            part = turn.part(on_unit)
            takes = policy.take(self, part, units[on_unit])
            taking = on_unit[checked_answers(takes, part.diver, "b", "what the policy takes is")]
        if len(may_drop):
            part = turn.part(may_drop)
            slots = self._checked_slots(policy.drop(self, part), part)
            dropping = np.flatnonzero(slots >= 0)  # -1 is to leave
        # All have answered before anything changes.
        if len(taking):
            self._take(turn.part(taking), units[taking])
        if len(dropping):
            self._drop(turn.part(may_drop[dropping]), slots[dropping])
        self.decisions += len(on_unit) + len(may_drop)
        return self._end_turn(turn)

    def _end_turn(self, turn: Turn) -> Array:
        """Pass the turn to the next seats, and return the games whose dive is over.

        A dive is over without air, or when all divers that are out have had a turn without any
        change.
        """
        # The branch without game numbers does the same for all games, and is faster.
        games = turn.games
        if games is None:
            over = np.flatnonzero((self.air <= 0) | (self.quiet >= self.out))
            self.to_move = self._next_seats.take(self.homes + self.to_move)
        else:
            over = games[(self.air[games] <= 0) | (self.quiet[games] >= self.out[games])]
            self.to_move[games] = self._next_seats.take(self.homes[games] + self.to_move[games])
        return over

    def _take(self, turn: Turn, units: Array) -> None:
        """Move these units from the divers' spaces to the end of their cargo."""
        units = units & ~LAID
        self._flat_trail[turn.of(self._row) + turn.place] = 0
        self._flat_cargo[turn.diver * SLOTS + turn.load] = units
        self.load[turn.diver] += np.int8(1)
        self.carried[turn.diver] += units & SUMMED
        self.breath[turn.games] += np.int8(1)
        self.quiet[turn.games] = 0

    def _drop(self, turn: Turn, slots: Array) -> None:
        """Lay the unit in each diver's slot on its space, and close the gap in its cargo."""
        cargo = self.cargo.take(turn.diver, axis=0)
        rows = np.arange(len(slots))
        # Units with one name are alike; the first one with the name of the chosen one is dropped.
        names = cargo & self.name_bits
        first: Array = (names == names[rows, slots][:, None]).argmax(axis=1)
        units = cargo[rows, first]
        self._flat_trail[turn.of(self._row) + turn.place] = units
        # Slots from the dropped one on get the unit of the slot after them.
        source = np.arange(SLOTS - 1)
        source = source + (source >= first[:, None])
        self.cargo[turn.diver, :-1] = cargo[rows[:, None], source]
        self.load[turn.diver] -= np.int8(1)
        self.carried[turn.diver] -= units & SUMMED
        self.breath[turn.games] -= np.int8(1)
        self.quiet[turn.games] = 0

    def _checked_slots(self, slots: Array, turn: Turn) -> Array:
        """Return the policy's slots; raise IllegalAction for one that a diver has not filled."""
        slots = checked_answers(slots, turn.diver, "i", "what the policy drops is")
        wrong = np.flatnonzero((slots < -1) | (slots >= turn.load))
        if len(wrong):
            first_wrong = turn.part(wrong[:1])
            seat = SEAT_LETTERS[int(first_wrong.diver[0]) % self.players]
            raise IllegalAction(
                f"game {first_wrong.of(np.arange(self.games))[0]}: seat {seat} cannot drop unit "
                f"{slots[wrong[0]]} of {first_wrong.load[0]}; they count from 0, and -1 is to leave"
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
            self._settle_orders(games, trail, place, laid, policy)
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
        self._board(games, starter)
        return over

    def note_drowned(self, games: Array) -> Array:
        """Store the loads of all divers as drowned at the end of a dive, and return them."""
        load = self.by_seat(self.load).take(games, axis=0)
        self.drowned[games, self.dive[games] - 1] = load
        return load

    def _settle_orders(
        self, games: Array, trail: Array, place: Array, laid: StrandedCargo, policy: Policy
    ) -> None:
        """Ask the policy for orders, and put the items of `laid` into them."""
        runs = runs_of(laid, self.players)
        if self.rules.top_up_tail_piles and not self.by_chip:
            for turn in range(self.players):
                laying = runs.part(np.flatnonzero(runs.turn == turn))
                rows = runs_to_ask_in_turn(self.rules, trail, place, laid, laying)
                self._ask_orders(games, laid, laying.part(rows), policy)
        else:
            rows = runs_to_ask_at_once(self.rules, trail, laid, runs, laid.items & self.name_bits)
            self._ask_orders(games, laid, runs.part(rows), policy)

    def _ask_orders(self, games: Array, laid: StrandedCargo, runs: Runs, policy: Policy) -> None:
        """Ask the policy for the orders of these runs, and put their items in `laid` into them."""
        if not len(runs.first):
            return
        rows, seats = np.divmod(runs.diver, self.players)
        most_items = int(runs.sizes.max())
        # [runs, most items] where the items of a run are; entries beyond a run do not count.
        index = np.minimum(runs.first[:, None] + np.arange(most_items), len(laid.items) - 1)
        is_item = np.arange(most_items) < runs.sizes[:, None]
        items = np.where(is_item, laid.items[index], U64(0))
        game_of_run = games[rows]
        orders = Orders(game_of_run, game_of_run * self.players + seats, items, runs.sizes)
        chosen = policy.order(self, orders)
        check_orders(orders, chosen, self.players)
        laid.items[index[is_item]] = in_order(orders, chosen, items & self.name_bits)[is_item]
        self.decisions += len(game_of_run)

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
        """Return a new batch with copies of these games."""
        other = Batch(self.rules, self.players, len(games))
        for name in ("to_move", "homes", "taken", "banked_earlier", "trail", "values", "drowned"):
            getattr(other, name)[:] = getattr(self, name)[games]
        other._counts[:] = self._counts[:, games]
        other._divers[:] = self._divers[:, games]
        for name in ("cargo", "carried", "bank"):
            other.by_seat(getattr(other, name))[:] = self.by_seat(getattr(self, name))[games]
        # A game is idle before its first dive (0) and after its last one (DIVES + 1).
        other.idle = int((other.dive % (DIVES + 1) == 0).sum())
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
    """Return the results for banks [games, seats], as bits, and values [games, 32]."""
    points = points_of(banks, values)
    counts = levels(banks).astype(np.int64)
    # Points come first; a tie key is below 2 ** 20. The comparison of a seat with itself gives 1.
    keys = points << 20 | _tie_keys(points, counts, tiebreak)
    own, other = keys[:, :, None], keys[:, None, :]
    halves = (own > other).sum(axis=2) + (own >= other).sum(axis=2) - 1
    return Results(points, halves, drowned)


def points_of(banks: Array, values: Array) -> Array:
    """Return the points [games, seats] of banks as bits, for values [games, 32]."""
    octets = banks.astype("<u4")[..., None].view(np.uint8)
    chips = np.unpackbits(octets, axis=-1, bitorder="little")
    # For each game and seat the sum, over the chips of its bank, of their values.
    points: Array = np.einsum("gsc,gc->gs", chips, values, dtype=np.int64)
    return points


def _tie_keys(points: Array, counts: Array, tiebreak: str) -> Array:
    """Return [games, seats] the numbers that break ties of points: more is better.

    counts  [games, seats, levels] how many chips of each level a seat has
    """
    if tiebreak == "level4":
        return np.asarray(counts[:, :, 3])
    if tiebreak == "lexicographic":
        # A level has 8 chips: higher levels count first if each has a digit of its own, below 16.
        return np.asarray(counts @ np.array([1, 16, 256, 4096]))
    # top_level: the count at the highest level that any of the tied holds.
    tied = points[:, :, None] == points[:, None, :]
    is_held = (tied[..., None] & (counts[:, None] > 0)).any(axis=2)
    # The index of the highest level: the first one from the end
    top = 3 - is_held[:, :, ::-1].argmax(axis=2)
    return np.take_along_axis(counts, top[..., None], 2)[..., 0]
