"""Views on the wire: the hot path. What parts of a view look like is remembered, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from deepsea_rules.constants import HOME
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.state import Phase
from deepsea_rules.units import BLANK, CHIPS, Unit
from deepsea_rules.view import View
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import framed, tag
from .numbers import PHASE_NAMES, PHASES, known

_DIVERS: Final = tag(pb.View.DESCRIPTOR, "divers")
_KNOWN: Final = tag(pb.View.DESCRIPTOR, "known")
_TRAIL: Final = tag(pb.View.DESCRIPTOR, "trail")

_CHIP: Final = 0x3F
_MORE: Final = 0x80
"""The next byte belongs to the same unit."""
_LAID: Final = 0x40
_SINGLES: Final = (BLANK, *(Unit((chip,)) for chip in CHIPS))
"""What bytes without a mark stand for."""
_BYTE_OF: Final = {unit: byte for byte, unit in enumerate(_SINGLES)}
_NOTHING_LAID: Final[frozenset[Unit]] = frozenset()


class ViewWriter:
    """Writes the views of one game; what has not changed since the last one is not written anew."""

    __slots__ = ("_diver_fields", "_divers", "_laid", "_trail", "_trail_field")

    def __init__(self) -> None:
        self._trail: tuple[Unit, ...] | None = None
        self._laid = _NOTHING_LAID
        self._trail_field = b""
        self._divers: list[object] = []
        self._diver_fields: list[bytes] = []

    def write(self, view: View) -> bytes:
        """The bytes of a `pb.View`. Rules and legal actions travel elsewhere: see `questions`."""
        if view.seat is None:
            raise ValueError("a watcher's view is not sent to bots")
        if view.trail != self._trail or view.laid != self._laid:
            self._trail, self._laid = view.trail, view.laid
            self._trail_field = framed(_TRAIL, _units_to_wire(view.trail[1:], view.laid))
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
        if len(divers) != len(self._divers):
            self._divers, self._diver_fields = [None] * len(divers), [b""] * len(divers)
        for seat, diver in enumerate(divers):
            if diver != self._divers[seat]:
                self._divers[seat] = diver
                self._diver_fields[seat] = _diver_field(*diver)
        rest = _rest_of_view(
            view.seat, view.dive, view.air, view.phase, view.to_move, view.quiet, view.home_order
        )
        data = b"".join((rest, self._trail_field, *self._diver_fields))
        if view.known:
            pairs = bytes([byte for pair in view.known.items() for byte in pair])
            data += framed(_KNOWN, pairs)
        return data


def view_to_wire(view: View) -> bytes:
    """The bytes of a `pb.View`."""
    return ViewWriter().write(view)


def view_from_wire(message: pb.View, rules: RuleSet, legal: Iterable[str]) -> View:
    """The view; the rules are those of the game's start, `legal` comes with the request."""
    divers = [_diver_of(diver.SerializeToString()) for diver in message.divers]
    if not divers:
        raise WireError("a view without divers")
    place, homeward, barred, cargo, bank, hauled = zip(*divers, strict=True)
    trail, laid = _trail_of(message.trail)
    pairs = message.known
    if len(pairs) % 2:
        raise WireError("a known chip without its value")
    return View(
        seat=message.seat,
        players=len(divers),
        rules=rules,
        dive=message.dive,
        air=message.air,
        phase=known(PHASE_NAMES, message.phase, "phase"),
        to_move=message.to_move,
        quiet=message.quiet,
        trail=trail,
        laid=laid,
        place=place,
        homeward=homeward,
        barred=barred,
        cargo=cargo,
        bank=bank,
        hauled=hauled,
        home_order=tuple(message.home_order),
        known=dict(zip(pairs[::2], pairs[1::2], strict=True)),
        legal=tuple(legal),
    )


@lru_cache(maxsize=4096)
def _rest_of_view(
    seat: int,
    dive: int,
    air: int,
    phase: Phase,
    to_move: int,
    quiet: int,
    home_order: tuple[int, ...],
) -> bytes:
    rest = pb.View(
        seat=seat,
        dive=dive,
        air=air,
        phase=PHASES[phase],
        to_move=to_move,
        quiet=quiet,
        home_order=home_order,
    )
    return rest.SerializeToString()


@lru_cache(maxsize=4096)
def _trail_of(data: bytes) -> tuple[tuple[Unit, ...], frozenset[Unit]]:
    """The trail with the submarine in front, and what on it is laid."""
    units, laid = _units_from_wire(data)
    return (BLANK, *units), laid


@lru_cache(maxsize=4096)
def _diver_field(
    place: int,
    homeward: bool,
    barred: bool,
    cargo: tuple[Unit, ...],
    bank: tuple[int, ...],
    hauled: int,
) -> bytes:
    diver = pb.Diver(
        place=max(place, 0),
        homeward=homeward,
        home=place == HOME,
        cargo=_units_to_wire(cargo, _NOTHING_LAID),
        bank=bytes(bank),
        barred=barred,
        hauled=hauled,
    )
    return framed(_DIVERS, diver.SerializeToString())


@lru_cache(maxsize=4096)
def _diver_of(
    data: bytes,
) -> tuple[int, bool, bool, tuple[Unit, ...], tuple[int, ...], int]:
    """What `View` has of a diver, in the order of `_diver_field`."""
    diver = pb.Diver.FromString(data)
    return (
        HOME if diver.home else diver.place,
        diver.homeward,
        diver.barred,
        _units_from_wire(diver.cargo)[0],
        tuple(diver.bank),
        diver.hauled,
    )


def _units_to_wire(units: Sequence[Unit], laid: frozenset[Unit]) -> bytes:
    if not laid:
        try:
            return bytes([_BYTE_OF[unit] for unit in units])
        except KeyError:  # a stack
            pass
    data = bytearray()
    for unit in units:
        data += bytes([chip | _MORE for chip in unit[:-1]])
        last = unit[-1] if unit else 0
        data.append(last | _LAID if unit in laid else last)
    return bytes(data)


def _units_from_wire(data: bytes) -> tuple[tuple[Unit, ...], frozenset[Unit]]:
    """The units, and which of them are laid piles."""
    if max(data, default=0) < len(_SINGLES):
        return tuple([_SINGLES[byte] for byte in data]), _NOTHING_LAID
    units: list[Unit] = []
    laid: list[Unit] = []
    chips: list[int] = []
    for byte in data:
        chips.append(byte & _CHIP)
        if byte & _MORE:
            continue
        unit = Unit(chips) if any(chips) else BLANK
        if any(chip not in CHIPS for chip in unit):
            raise WireError(f"a unit of the chips {chips}, which are not all from 1 to 32")
        units.append(unit)
        if byte & _LAID:
            laid.append(unit)
        chips = []
    if chips:
        raise WireError("a unit without its last chip")
    return tuple(units), frozenset(laid)
