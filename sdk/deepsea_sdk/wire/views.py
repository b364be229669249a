"""Views on the wire: the hot path.

What has not changed since a game's last view is not written anew; of what is read, units, cargoes
and trails are remembered, which come again and again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Final, TypeAlias

from deepsea_rules.constants import HOME
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.units import BLANK, CHIPS, Unit
from deepsea_rules.view import View
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import framed, small_fields, small_tags, tag, zigzag
from .numbers import PHASE_NAMES, PHASES, known

_Diver: TypeAlias = tuple[int, bool, bool, tuple[Unit, ...], tuple[int, ...], int]
"""What `View` has of a diver: place, homeward, barred, cargo, bank, hauled."""

_DIVERS, _HOME_ORDER, _KNOWN, _TRAIL = (
    tag(pb.View.DESCRIPTOR, name) for name in ("divers", "home_order", "known", "trail")
)
_SEAT, _DIVE, _AIR, _PHASE, _TO_MOVE, _QUIET = small_tags(
    pb.View.DESCRIPTOR, "seat", "dive", "air", "phase", "to_move", "quiet"
)
_CARGO, _BANK = (tag(pb.Diver.DESCRIPTOR, name) for name in ("cargo", "bank"))
_PLACE, _HOMEWARD, _HOME, _BARRED, _HAULED = small_tags(
    pb.Diver.DESCRIPTOR, "place", "homeward", "home", "barred", "hauled"
)

_CHIP: Final = 0x3F
_MORE: Final = 0x80
"""The next byte belongs to the same unit."""
_LAID: Final = 0x40
_SINGLES: Final = (BLANK, *(Unit((chip,)) for chip in CHIPS))
"""What bytes without a mark stand for."""
_UNIT: Final = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")
"""The bytes of one unit."""
_NOTHING_LAID: Final[frozenset[Unit]] = frozenset()


class ViewWriter:
    """Writes the views of one game; what has not changed since the last one is not written anew."""

    __slots__ = ("_diver_fields", "_divers", "_laid", "_spaces", "_trail", "_trail_field")

    def __init__(self) -> None:
        self._trail: tuple[Unit, ...] = ()
        self._laid = _NOTHING_LAID
        self._spaces: list[bytes] = []
        self._trail_field = b""
        self._divers: list[_Diver] = []
        self._diver_fields: list[bytes] = []

    def write(self, view: View) -> bytes:
        """The bytes of a `pb.View`. Rules and legal actions travel elsewhere: see `questions`."""
        seat = view.seat
        if seat is None:
            raise ValueError("a watcher's view is not sent to bots")
        if view.trail != self._trail or view.laid != self._laid:
            self._write_trail(view.trail, view.laid)
        divers = list(
            zip(
                view.place,
                view.homeward,
                view.barred,
                view.cargo,
                view.bank,
                view.hauled,
                strict=True,
            )
        )
        if not self._divers:
            self._diver_fields = [_diver_field(diver) for diver in divers]
        else:
            for index, last in enumerate(self._divers):
                if last != (diver := divers[index]):
                    self._diver_fields[index] = _diver_field(diver)
        self._divers = divers
        parts = [
            small_fields(_SEAT, seat, _DIVE, view.dive, _AIR, zigzag(view.air)),
            small_fields(_PHASE, PHASES[view.phase], _TO_MOVE, view.to_move, _QUIET, view.quiet),
            self._trail_field,
            *self._diver_fields,
        ]
        if view.home_order:
            parts.append(framed(_HOME_ORDER, bytes(view.home_order)))
        if view.known:
            parts.append(framed(_KNOWN, bytes(chain.from_iterable(view.known.items()))))
        return b"".join(parts)

    def _write_trail(self, trail: tuple[Unit, ...], laid: frozenset[Unit]) -> None:
        last, spaces = self._trail, self._spaces
        if len(trail) == len(last) and laid == self._laid:
            for space, unit in enumerate(trail):
                if unit is not last[space]:
                    spaces[space] = _bytes_of_pile(unit) if unit in laid else _bytes_of(unit)
        else:
            spaces = self._spaces = [
                _bytes_of_pile(unit) if unit in laid else _bytes_of(unit) for unit in trail
            ]
        self._trail, self._laid = trail, laid
        self._trail_field = framed(_TRAIL, b"".join(spaces[1:]))


def view_to_wire(view: View) -> bytes:
    """The bytes of a `pb.View`."""
    return ViewWriter().write(view)


def view_from_wire(message: pb.View, rules: RuleSet, legal: Iterable[str]) -> View:
    """The view; the rules are those of the game's start, `legal` comes with the request."""
    divers = [_diver_of(diver) for diver in message.divers]
    if not divers:
        raise WireError("a view without divers")
    columns = zip(*divers, strict=True)
    pairs = message.known
    if len(pairs) % 2:
        raise WireError("a known chip without its value")
    # As in `view_for`: keywords would take three times as long.
    view = View.__new__(View)
    view.seat = message.seat
    view.players = len(divers)
    view.rules = rules
    view.dive = message.dive
    view.air = message.air
    view.phase = known(PHASE_NAMES, message.phase, "phase")
    view.to_move = message.to_move
    view.quiet = message.quiet
    view.trail, view.laid = _trail_of(message.trail)
    view.place, view.homeward, view.barred, view.cargo, view.bank, view.hauled = columns
    view.home_order = tuple(message.home_order)
    view.known = dict(zip(pairs[::2], pairs[1::2], strict=True)) if pairs else {}
    view.legal = tuple(legal)
    return view


@lru_cache(maxsize=4096)
def _trail_of(data: bytes) -> tuple[tuple[Unit, ...], frozenset[Unit]]:
    """The trail with the submarine in front, and what on it is laid."""
    units, laid = _units_from_wire(data)
    return (BLANK, *units), laid


def _diver_field(diver: _Diver) -> bytes:
    place, homeward, barred, cargo, bank, hauled = diver
    data = small_fields(_HOMEWARD, homeward, _BARRED, barred, _HAULED, hauled)
    data += small_fields(_HOME, True) if place == HOME else small_fields(_PLACE, place)
    if cargo:
        data += framed(_CARGO, b"".join(map(_bytes_of, cargo)))
    if bank:
        data += framed(_BANK, bytes(bank))
    return framed(_DIVERS, data)


def _diver_of(diver: pb.Diver) -> _Diver:
    return (
        HOME if diver.home else diver.place,
        diver.homeward,
        diver.barred,
        _cargo_of(diver.cargo),
        tuple(diver.bank),
        diver.hauled,
    )


@lru_cache(maxsize=4096)
def _cargo_of(data: bytes) -> tuple[Unit, ...]:
    """What a diver carries; the same in many views in a row."""
    return _units_from_wire(data)[0]


@lru_cache(maxsize=4096)
def _bytes_of(unit: Unit) -> bytes:
    return bytes([*[chip | _MORE for chip in unit[:-1]], unit[-1] if unit else 0])


@lru_cache(maxsize=4096)
def _bytes_of_pile(unit: Unit) -> bytes:
    """The bytes of a pile that stranded divers laid."""
    *data, last = _bytes_of(unit)
    return bytes([*data, last | _LAID])


def _units_from_wire(data: bytes) -> tuple[tuple[Unit, ...], frozenset[Unit]]:
    """The units, and which of them are laid piles."""
    if max(data, default=0) < len(_SINGLES):
        return tuple([_SINGLES[byte] for byte in data]), _NOTHING_LAID
    if data[-1] & _MORE:
        raise WireError("a unit without its last chip")
    parts = _UNIT.findall(data)
    laid = [_unit_of(part) for part in parts if part[-1] & _LAID]
    return tuple(map(_unit_of, parts)), frozenset(laid)


@lru_cache(maxsize=4096)
def _unit_of(data: bytes) -> Unit:
    chips = [byte & _CHIP for byte in data]
    if chips == [0]:
        return BLANK
    if any(chip not in CHIPS for chip in chips):
        raise WireError(f"a unit of the chips {chips}, which are not all from 1 to 32")
    return Unit(chips)
