"""Writing a position in one line; `notation` describes the form and reads it.

Invariants: a value is written only if it is handed over; nothing is read that a view does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .constants import HOME, SEAT_LETTERS
from .events import chip_text, trail_text, unit_text
from .position import Phase
from .units import Unit


class Public(Protocol):
    """What `GameState` and `View` have in common, as far as writing needs it."""

    @property
    def players(self) -> int: ...
    @property
    def dive(self) -> int: ...
    @property
    def air(self) -> int: ...
    @property
    def phase(self) -> Phase: ...
    @property
    def to_move(self) -> int: ...
    @property
    def quiet(self) -> int: ...
    @property
    def trail(self) -> Sequence[Unit]: ...
    @property
    def laid(self) -> frozenset[Unit]: ...
    @property
    def place(self) -> Sequence[int]: ...
    @property
    def homeward(self) -> Sequence[bool]: ...
    @property
    def barred(self) -> Sequence[bool]: ...
    @property
    def cargo(self) -> Sequence[tuple[Unit, ...]]: ...
    @property
    def bank(self) -> Sequence[tuple[int, ...]]: ...
    @property
    def home_order(self) -> tuple[int, ...]: ...


def position_text(position: Public, known: Mapping[int, int]) -> str:
    """The position in one line, with the values in `known`, by chip id."""
    divers = " ".join(_diver_text(position, seat, known) for seat in range(position.players))
    quiet = f" s{position.quiet}" if position.quiet else ""
    phase = "" if position.phase == "declare" else f" {position.phase}"
    clock = f"d{position.dive} a{position.air}{quiet}{phase}"
    return f"{trail_text(tuple(position.trail), position.laid, known)} | {divers} | {clock}".strip()


def _diver_text(position: Public, seat: int, known: Mapping[int, int]) -> str:
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
