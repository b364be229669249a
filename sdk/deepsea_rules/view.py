"""The view of a position for one seat; the only way in which facts of a game leave the referee.

Invariants: a view is built field by field from what is public, never from a state with things taken
out; values come from `known_values` alone; two states that differ only in what the viewer does not
know give equal views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .actions import LEVEL_OF, LEVELS, TAKE, Kind, Unit, drop, values_of_level
from .cleanup import is_order, items_of
from .events import new_tuple
from .position import Phase, position_text
from .randomness import NumberSource
from .ruleset import HOME, RuleSet
from .state import GameState


class Diver(NamedTuple):
    """One diver, as everybody sees it."""

    seat: int
    place: int
    """The space it is on; 0 = in the submarine."""
    homeward: bool
    """It has turned back."""
    home: bool
    """It got home in this dive."""
    barred: bool
    """It has to stay out of the submarine in this dive."""
    cargo: tuple[Unit, ...]
    """The units it carries, in pick-up order."""
    bank: tuple[int, ...]
    """The ids of the chips that it brought home in this game."""

    @property
    def load(self) -> int:
        """How many units it carries: its cost in air each turn, and what its dice lose."""
        return len(self.cargo)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class View:
    """A position as one seat may know it; `seat` is None for a watcher.

    The fields are those of `GameState`, as tuples, less the secret values and with
    known    the values that this viewer knows, by chip id
    legal    what the seat to move may do, the default action first
    """

    seat: int | None
    players: int
    rules: RuleSet
    dive: int
    air: int
    phase: Phase
    to_move: int
    quiet: int
    trail: tuple[Unit, ...]
    laid: frozenset[Unit]
    place: tuple[int, ...]
    homeward: tuple[bool, ...]
    barred: tuple[bool, ...]
    cargo: tuple[tuple[Unit, ...], ...]
    bank: tuple[tuple[int, ...], ...]
    banked_earlier: tuple[int, ...]
    home_order: tuple[int, ...]
    known: Mapping[int, int]
    legal: tuple[str, ...]

    # The divers

    @property
    def divers(self) -> tuple[Diver, ...]:
        """All divers, seat A first."""
        return tuple(self._diver(seat) for seat in range(self.players))

    @property
    def me(self) -> Diver:
        """This seat's own diver."""
        return self._diver(self._own_seat())

    @property
    def others(self) -> tuple[Diver, ...]:
        """The other divers, in turn order after this seat."""
        own = self._own_seat()
        return tuple(self._diver((own + i) % self.players) for i in range(1, self.players))

    def _diver(self, seat: int) -> Diver:
        place = self.place[seat]
        diver = (
            seat,
            0 if place == HOME else place,
            self.homeward[seat],
            place == HOME,
            self.barred[seat],
            self.cargo[seat],
            self.bank[seat],
        )
        return new_tuple(Diver, diver)

    def _own_seat(self) -> int:
        if self.seat is None:
            raise ValueError("a watcher's view has no diver of its own")
        return self.seat

    @property
    def distance_home(self) -> int:
        """How many spaces lie between this seat's diver and safety; 0 when aboard or home."""
        return max(self.place[self._own_seat()], 0)

    @property
    def unit_here(self) -> Unit:
        """The unit on this diver's space; `BLANK` on a blank or in the submarine."""
        return self.trail[self.distance_home]

    # The decision

    @property
    def kind(self) -> Kind | None:
        """Which kind of decision this is; None where nothing is asked, or nothing that we know."""
        phase = self.phase
        return phase if phase == "declare" or phase == "search" or phase == "order" else None

    def is_legal(self, action: str) -> bool:
        """Whether the seat to move may do this; an order may be legal without being listed."""
        if action in self.legal:
            return True
        return self.phase == "order" and is_order(action, self.items)

    @property
    def can_take(self) -> bool:
        """Whether this seat may take the unit that it has reached."""
        return TAKE in self.legal

    @property
    def droppable(self) -> tuple[Unit, ...]:
        """The units that may be dropped here, in pick-up order; of units with one name the first.

        Empty where dropping is not legal. The action is `drop(unit)`.
        """
        if self.phase != "search":
            return ()
        first = {drop(unit): unit for unit in reversed(self.cargo[self.to_move])}
        return tuple([first[action] for action in self.legal if action in first])

    @property
    def items(self) -> tuple[Unit, ...]:
        """What this seat lays one by one when it is stranded, in pick-up order."""
        return items_of(self.rules, self.cargo[self._own_seat()])

    # Hidden values

    def unseen(self, level: int) -> list[int]:
        """The values of a level that this viewer has not seen, ascending.

        Any unseen chip of the level is as likely as any other to have any of them.
        """
        return unseen_values(level, self.known)

    def expected_value(self, unit: Sequence[int]) -> float:
        """What the chips of a unit are worth on average, for all that this viewer knows."""
        total = 0.0
        for chip in unit:
            if chip in self.known:
                total += self.known[chip]
            else:
                unseen = self.unseen(LEVEL_OF[chip])
                total += sum(unseen) / len(unseen)
        return total

    def sample(self, rng: NumberSource) -> GameState:
        """A full position that this view allows, with all unseen values dealt at random.

        Every deal is as likely as it is in the real game; look ahead on it as you like. `rng` is
        a `random.Random`, or whatever has its `random()`.
        """
        random, known = rng.random, self.known
        values = [0]
        for level in LEVELS:
            unseen = unseen_values(level, known)
            # As `shuffled` does it, written out for roll-outs.
            for last in range(len(unseen) - 1, 0, -1):
                chosen = int(random() * (last + 1))
                unseen[last], unseen[chosen] = unseen[chosen], unseen[last]
            values += unseen
        for chip in sorted(known):
            values.insert(chip, known[chip])
        state = GameState(self.rules, tuple(values), self.players)
        state.dive = self.dive
        state.air = self.air
        state.phase = self.phase
        state.to_move = self.to_move
        state.quiet = self.quiet
        state.trail = list(self.trail)
        state.laid = self.laid
        state.place = list(self.place)
        state.homeward = list(self.homeward)
        state.barred = list(self.barred)
        state.cargo = list(self.cargo)
        state.bank = list(self.bank)
        state.banked_earlier = self.banked_earlier
        state.home_order = self.home_order
        state.legal = self.legal
        return state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in View.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        """The position in notation, with the values that this viewer knows."""
        return position_text(self, self.known)

    def __repr__(self) -> str:
        return f"<View {'watcher' if self.seat is None else self.seat}: {self}>"


def unseen_values(level: int, known: Mapping[int, int]) -> list[int]:
    """The values of a level that are not in `known`, ascending."""
    values = list(values_of_level(level))
    for chip, value in known.items():
        if LEVEL_OF[chip] == level:
            values.remove(value)
    return values


def known_values(state: GameState, viewer: int | None) -> dict[int, int]:
    """The values that a viewer knows, by chip id. None is a watcher, who knows what all know.

    Nobody knows a chip that has not been banked. At the game's end all banks are shown; before
    that, `reveal` says what all know, and `owner_peek` what an owner knows besides.
    """
    known = state.revealed().copy()
    if viewer is not None and state.rules.owner_peek == "on_return":
        for chip in state.bank[viewer]:
            known[chip] = state.values[chip]
    return known


def view_for(state: GameState, seat: int | None) -> View:
    """What `seat` may know of the position; None is a watcher."""
    # A constructor with nineteen keywords would take three times as long.
    view = View.__new__(View)
    view.seat = seat
    view.players = state.players
    view.rules = state.rules
    view.dive = state.dive
    view.air = state.air
    view.phase = state.phase
    view.to_move = state.to_move
    view.quiet = state.quiet
    view.trail = tuple(state.trail)
    view.laid = state.laid
    view.place = tuple(state.place)
    view.homeward = tuple(state.homeward)
    view.barred = tuple(state.barred)
    view.cargo = tuple(state.cargo)
    view.bank = tuple(state.bank)
    view.banked_earlier = state.banked_earlier
    view.home_order = state.home_order
    view.known = known_values(state, seat)
    view.legal = state.legal
    return view
