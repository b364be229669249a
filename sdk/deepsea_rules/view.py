"""The view of a position for one seat; the only way in which facts of a game leave the referee.

Invariants: a view is built field by field from public facts, never from a state with things taken
out. Values come from `known_values` alone. Two states that differ only in what the viewer does not
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
    """A diver, as everybody sees it."""

    seat: int
    place: int
    """The space of the diver; 0 in the submarine."""
    homeward: bool
    """True once it has turned back."""
    home: bool
    """True once it has come home in this dive."""
    barred: bool
    """True if it has to stay out of the submarine in this dive."""
    cargo: tuple[Unit, ...]
    """Carried units, in pick-up order."""
    bank: tuple[int, ...]
    """Ids of the chips that it has brought home in this game."""

    @property
    def load(self) -> int:
        """Number of carried units: its cost in air each turn, and what is taken off its dice."""
        return len(self.cargo)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class View:
    """A position as one seat may know it; `seat` is None for a watcher.

    The fields are those of `GameState`, as tuples, without the secret values and with
    known  the values that this viewer knows, by chip id
    legal  the legal actions of the seat to move, the default action first
    """

    seat: int | None
    players: int
    rules: RuleSet
    dive: int
    air: int
    phase: Phase
    to_move: int
    quiet_turns: int
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
        """The diver of the seat whose view it is."""
        return self._diver(self._own_seat())

    @property
    def others(self) -> tuple[Diver, ...]:
        """The other divers, in turn order after this seat."""
        own = self._own_seat()
        return tuple(self._diver((own + i) % self.players) for i in range(1, self.players))

    def _diver(self, seat: int) -> Diver:
        """Return what everybody sees of a seat's diver; at home its place counts as 0."""
        place = self.place[seat]
        is_home = place == HOME
        # The fields of `Diver` in their order; `new_tuple` makes one without a slow constructor.
        fields = (
            seat,
            0 if is_home else place,
            self.homeward[seat],
            is_home,
            self.barred[seat],
            self.cargo[seat],
            self.bank[seat],
        )
        return new_tuple(Diver, fields)

    def _own_seat(self) -> int:
        """Return the viewer's seat. Raise ValueError for a watcher."""
        if self.seat is None:
            raise ValueError("a watcher's view has no diver of its own")
        return self.seat

    @property
    def distance_home(self) -> int:
        """Number of spaces from the submarine to this seat's diver; 0 aboard and at home."""
        return max(self.place[self._own_seat()], 0)

    @property
    def unit_here(self) -> Unit:
        """The unit on this diver's space; `BLANK` for a blank or the submarine."""
        return self.trail[self.distance_home]

    # The decision

    @property
    def kind(self) -> Kind | None:
        """The kind of decision; None for no decision, or a kind that this version does not know."""
        phase = self.phase
        return phase if phase == "declare" or phase == "search" or phase == "order" else None

    def is_legal(self, action: str) -> bool:
        """Return True if the seat to move may do this; orders may be legal without being listed."""
        if action in self.legal:
            return True
        return self.phase == "order" and is_order(action, self.items)

    @property
    def can_take(self) -> bool:
        """True if this seat may take the unit on its space."""
        return TAKE in self.legal

    @property
    def droppable(self) -> tuple[Unit, ...]:
        """The units that may be dropped here, in pick-up order. The action is `drop(unit)`.

        Units with the same name have the same action, which drops the first of them: the others are
        not listed. There are none where dropping is not legal.
        """
        if self.phase != "search":
            return ()
        unit_of_action: dict[str, Unit] = {}
        for unit in self.cargo[self.to_move]:
            action = drop(unit)
            if action not in unit_of_action:
                unit_of_action[action] = unit
        return tuple([unit_of_action[action] for action in self.legal if action in unit_of_action])

    @property
    def items(self) -> tuple[Unit, ...]:
        """The items that this seat lays one by one when it is stranded, in pick-up order."""
        return items_of(self.rules, self.cargo[self._own_seat()])

    # Hidden values

    def unseen(self, level: int) -> list[int]:
        """Return the values of a level that this viewer has not seen, ascending.

        Each unseen chip of the level is equally likely to have any of them.
        """
        return unseen_values(level, self.known)

    def expected_value(self, unit: Sequence[int]) -> float:
        """Return the mean worth of a unit in points, by the values that this viewer knows."""
        total = 0.0
        for chip in unit:
            if chip in self.known:
                total += self.known[chip]
            else:
                unseen = self.unseen(LEVEL_OF[chip])
                total += sum(unseen) / len(unseen)
        return total

    def sample(self, rng: NumberSource) -> GameState:
        """Return a full position that this view allows, with all unseen values dealt at random.

        Every deal is as likely as it is in the real game. The position may be played on freely.
        `rng` is a `random.Random`, or any object with its method `random()`.
        """
        random, known = rng.random, self.known
        values = [0]
        for level in LEVELS:
            unseen = unseen_values(level, known)
            # As `shuffled`, but without a call, because roll-outs sample often.
            for last in range(len(unseen) - 1, 0, -1):
                chosen = int(random() * (last + 1))
                unseen[last], unseen[chosen] = unseen[chosen], unseen[last]
            values += unseen
        # The unseen values lie in order of the chips; known ones take their places between them.
        for chip in sorted(known):
            values.insert(chip, known[chip])
        state = GameState(self.rules, tuple(values), self.players)
        state.dive = self.dive
        state.air = self.air
        state.phase = self.phase
        state.to_move = self.to_move
        state.quiet_turns = self.quiet_turns
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
        """Return the position in notation, with the values that this viewer knows."""
        return position_text(self, self.known)

    def __repr__(self) -> str:
        return f"<View {'watcher' if self.seat is None else self.seat}: {self}>"


def unseen_values(level: int, known: Mapping[int, int]) -> list[int]:
    """Return the values of a level that are not in `known`, ascending."""
    values = list(values_of_level(level))
    for chip, value in known.items():
        if LEVEL_OF[chip] == level:
            values.remove(value)
    return values


def known_values(state: GameState, viewer: int | None) -> dict[int, int]:
    """Return the chip values that a seat knows, by chip id; for None, those that all seats know.

    Only chips that have been banked are known. At the end of the game all banks are shown; before
    that, the rule `reveal` says what everybody is shown, and the rule `owner_peek` if a seat may
    look at its own chips.
    """
    known = state.revealed().copy()
    if viewer is not None and state.rules.owner_peek == "on_return":
        for chip in state.bank[viewer]:
            known[chip] = state.values[chip]
    return known


def view_for(state: GameState, seat: int | None) -> View:
    """Return a position as a seat may know it; for None, as a watcher may know it."""
    # Without the constructor, which would take three times as long with its nineteen keywords.
    view = View.__new__(View)
    view.seat = seat
    view.players = state.players
    view.rules = state.rules
    view.dive = state.dive
    view.air = state.air
    view.phase = state.phase
    view.to_move = state.to_move
    view.quiet_turns = state.quiet_turns
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
