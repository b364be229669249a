"""A position of a game: trail, divers, air, phase; and its text in one line.

Invariants: a position has everything that the rest of the game depends on, except choices and dice.
All of it except `values` is public, and `view.py` decides who may see a value. A clone and its
original share no mutable state. The text has only the values that its writer hands over; `notation`
describes its form and reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from .actions import BLANK, DOWN, Unit
from .errors import InvalidRules
from .events import EngineEvent, chip_text, trail_text, unit_text
from .ruleset import ABOARD, FULL_AIR, HOME, SEAT_LETTERS, RuleSet

if TYPE_CHECKING:
    from .view import View

Phase = Literal["declare", "roll", "search", "order", "over"]


@dataclass(slots=True, init=False, eq=False, repr=False)
class Position:
    """One position. Seats count from 0; lists have one entry per seat.

    rules       the rule set
    players     the number of seats
    dive, air   1 to 3; the true air, which may fall below 0
    phase       "declare" before the declaration (this turn's air is not used yet), "roll" before
                the dice, "search" after the move, "order" while stranded divers order their
                items, "over" at the end
    to_move     the seat whose declaration, roll, search or order is next
    legal       its legal actions, see `GameState.legal_actions`; they follow from the rest, so call
                `refresh` after setting a field by hand
    quiet_turns consecutive turns in which air, positions and cargo stayed as they were
    trail       `trail[n]` is the unit on space n, `BLANK` if there is none; index 0 stands for the
                submarine
    laid        the piles that stranded divers laid and nobody has carried since
    place       `ABOARD`, the number of a space, or `HOME`
    homeward    True for a diver that has turned back
    barred      True for a diver that was stopped outside the submarine and stays out in this dive
    cargo       units in pick-up order
    bank        chips brought home, in order of return
    banked_earlier      number of the chips of `bank` that are from earlier dives
    home_order  seats that got home in this dive, first one first
    values      the secret value of each chip, indexed by chip id
    drowned     for each finished dive, how many units each seat lost; it drowned if there are any
    log         list to which the events of finished turns and dives are added, or None
    """

    rules: RuleSet
    values: tuple[int, ...]
    players: int
    dive: int
    air: int
    phase: Phase
    to_move: int
    legal: tuple[str, ...]
    quiet_turns: int
    trail: list[Unit]
    laid: frozenset[Unit]
    place: list[int]
    homeward: list[bool]
    barred: list[bool]
    cargo: list[tuple[Unit, ...]]
    bank: list[tuple[int, ...]]
    banked_earlier: tuple[int, ...]
    home_order: tuple[int, ...]
    drowned: tuple[tuple[int, ...], ...]
    log: list[EngineEvent] | None
    # The beginning of the current turn, for the log.
    _declared: str | None
    _dice: tuple[int, int] | None
    _origin: int | None
    # Cached result of `revealed`; None when it has to be computed again.
    _revealed: dict[int, int] | None

    def __init__(self, rules: RuleSet, values: tuple[int, ...], players: int) -> None:
        """Make an empty sea with all divers in the submarine; `GameState.opening` starts a game.

        Raise `InvalidRules` for rules with options that this version does not know.
        """
        if rules.unknown_options:
            raise InvalidRules(
                f"these rules cannot be simulated: the option {rules.unknown_options[0]!r} is of a "
                "newer version; update deepsea-sdk, or decide by the view alone"
            )
        self.rules = rules
        self.values = values
        self.players = players
        self.dive = 1
        self.air = FULL_AIR
        self.phase = "declare"
        self.to_move = 0
        self.legal = (DOWN,)
        self.trail = [BLANK]
        self.laid = frozenset()
        self.bank = [()] * players
        self.drowned = ()
        self.log = None
        self._revealed = None
        self._declared = None
        self._dice = None
        self._origin = None
        self._everybody_boards()

    def _everybody_boards(self) -> None:
        """Put all divers without cargo into the submarine, as at the beginning of a dive."""
        players = self.players
        self.place = [ABOARD] * players
        self.homeward = [False] * players
        self.barred = [False] * players
        self.cargo = [()] * players
        self.home_order = ()
        self.banked_earlier = tuple(map(len, self.bank))
        self.quiet_turns = 0

    def revealed(self) -> dict[int, int]:
        """Return the values that everybody has been shown, by chip id.

        The rules show the banks at the end of each dive, or only at the end of the game. The
        dictionary must not be changed: it is cached.
        """
        if self._revealed is None:
            shows_each_dive = self.rules.reveal == "dive_end"
            # In phase "order" a dive has ended, although stranded cargo is not laid yet.
            if self.phase == "over" or (self.phase == "order" and shows_each_dive):
                shown_banks: Iterable[tuple[int, ...]] = self.bank
            elif shows_each_dive:
                banks = zip(self.bank, self.banked_earlier, strict=True)
                shown_banks = [bank[:earlier] for bank, earlier in banks]
            else:
                shown_banks = ()
            self._revealed = {chip: self.values[chip] for bank in shown_banks for chip in bank}
        return self._revealed

    def clone(self) -> Self:
        """Return an independent copy without a log."""
        new = object.__new__(type(self))
        new.rules = self.rules
        new.values = self.values
        new.players = self.players
        new.dive = self.dive
        new.air = self.air
        new.phase = self.phase
        new.to_move = self.to_move
        new.legal = self.legal
        new.quiet_turns = self.quiet_turns
        new.trail = self.trail.copy()
        new.laid = self.laid
        new.place = self.place.copy()
        new.homeward = self.homeward.copy()
        new.barred = self.barred.copy()
        new.cargo = self.cargo.copy()
        new.bank = self.bank.copy()
        new.banked_earlier = self.banked_earlier
        new.home_order = self.home_order
        new.drowned = self.drowned
        new.log = None
        new._revealed = self._revealed
        new._declared = self._declared
        new._dice = self._dice
        new._origin = self._origin
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]


_HISTORY = ("drowned", "log")
"""Fields of the past, which the rest of the game does not depend on."""
_COMPARED = tuple(
    name for name in Position.__slots__ if not name.startswith("_") and name not in _HISTORY
)


def position_text(position: Position | View, known: Mapping[int, int]) -> str:
    """Return a position in one line of notation: trail | divers | dive, air and phase.

    known  the chip values to write, by chip id
    """
    trail = trail_text(tuple(position.trail), position.laid, known)
    divers = " ".join(_diver_text(position, seat, known) for seat in range(position.players))
    # Left out if they are as in the first turn of a game
    quiet = f" s{position.quiet_turns}" if position.quiet_turns else ""
    phase = "" if position.phase == "declare" else f" {position.phase}"
    clock = f"d{position.dive} a{position.air}{quiet}{phase}"
    return f"{trail} | {divers} | {clock}".strip()


def _diver_text(position: Position | View, seat: int, known: Mapping[int, int]) -> str:
    """Return a diver in notation: "*A5v:1,[23]/4=12" is seat A, to move, on space 5.

    It is on its way down (v), carries 1 and [23], and has banked a chip of level 4 with value 12.

    known  the chip values to write, by chip id
    """
    place = position.place[seat]
    text = "*" if seat == position.to_move and position.phase != "over" else ""
    text += SEAT_LETTERS[seat]
    if place == HOME:
        text += f"h{position.home_order.index(seat) + 1}"
    else:
        text += f"{place}{'^' if position.homeward[seat] else 'v'}"
    if position.barred[seat]:
        text += "!"
    if position.cargo[seat]:
        text += ":" + ",".join(unit_text(unit, known) for unit in position.cargo[seat])
    if position.bank[seat]:
        text += "/" + ",".join(chip_text(chip, known) for chip in position.bank[seat])
    return text
