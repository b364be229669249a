"""Views on the wire: the hot path.

What has not changed since a game's last view is not written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from deepsea_rules.constants import ABOARD, HOME
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.units import Unit
from deepsea_rules.view import View
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import framed, small_fields, small_tags, tag, zigzag
from .numbers import PHASE_NAMES, PHASES, name_of
from .units import (
    FIRST_STACK,
    known_value,
    stacks_from_wire,
    trail_from_wire,
    units_from_wire,
    units_to_wire,
)

_Diver: TypeAlias = tuple[int, bool, bool, tuple[Unit, ...], tuple[int, ...], int]
"""What `View` has of a diver: place, homeward, barred, cargo, bank, banked_earlier."""

_DIVERS, _HOME_ORDER, _KNOWN, _TRAIL, _STACKS = (
    tag(pb.View.DESCRIPTOR, name) for name in ("divers", "home_order", "known", "trail", "stacks")
)
_SEAT, _DIVE, _AIR, _PHASE, _TO_MOVE, _QUIET = small_tags(
    pb.View.DESCRIPTOR, "seat", "dive", "air", "phase", "to_move", "quiet"
)
_CARGO, _BANK = (tag(pb.Diver.DESCRIPTOR, name) for name in ("cargo", "bank"))
_LOCATION, _SPACE, _HOMEWARD, _BARRED, _BANKED_EARLIER = small_tags(
    pb.Diver.DESCRIPTOR, "location", "space", "homeward", "barred", "banked_earlier"
)
_AT_HOME: Final = pb.LOCATION_HOME
_NOTHING_LAID: Final[frozenset[Unit]] = frozenset()


class _Written(NamedTuple):
    """A diver as it was written last."""

    diver: _Diver
    first_stack: int
    field: bytes
    stacks: list[bytes]


class ViewWriter:
    """Writes the views of one game; what has not changed since the last one is not written anew."""

    __slots__ = ("_divers", "_known", "_known_fields", "_laid", "_stacks", "_trail", "_trail_field")

    def __init__(self) -> None:
        self._trail: tuple[Unit, ...] = ()
        self._laid = _NOTHING_LAID
        self._trail_field = b""
        self._stacks: list[bytes] = []
        self._known: Mapping[int, int] = {}
        self._known_fields = b""
        self._divers: list[_Written | None] = []

    def write(self, view: View) -> bytes:
        """The bytes of a `pb.View`. Rules and legal actions travel elsewhere: see `questions`."""
        seat = view.seat
        if seat is None:
            raise ValueError("a watcher's view is not sent to bots")
        if view.trail != self._trail or view.laid != self._laid:
            self._trail, self._laid = view.trail, view.laid
            numbers, self._stacks = units_to_wire(view.trail[1:], view.laid)
            self._trail_field = framed(_TRAIL, numbers)
        parts = [
            small_fields(_SEAT, seat, _DIVE, view.dive, _AIR, zigzag(view.air)),
            small_fields(_PHASE, PHASES[view.phase], _TO_MOVE, view.to_move, _QUIET, view.quiet),
            self._trail_field,
        ]
        stacks = self._stacks
        divers = self._divers or [None] * view.players
        for index, diver in enumerate(
            zip(
                view.place,
                view.homeward,
                view.barred,
                view.cargo,
                view.bank,
                view.banked_earlier,
                strict=True,
            )
        ):
            written = divers[index]
            first_stack = FIRST_STACK + len(stacks)
            if written is None or written.diver != diver or written.first_stack != first_stack:
                divers[index] = written = _write_diver(diver, first_stack)
            parts.append(written.field)
            if written.stacks:
                stacks = stacks + written.stacks
        self._divers = divers
        parts += [framed(_STACKS, stack) for stack in stacks]
        if view.home_order:
            parts.append(framed(_HOME_ORDER, bytes(view.home_order)))
        if view.known:
            if view.known != self._known:
                self._known = view.known
                self._known_fields = b"".join(
                    [framed(_KNOWN, known_value(*pair)) for pair in view.known.items()]
                )
            parts.append(self._known_fields)
        return b"".join(parts)


def _write_diver(diver: _Diver, first_stack: int) -> _Written:
    place, homeward, barred, cargo, bank, banked_earlier = diver
    if place == HOME:
        data = small_fields(_LOCATION, pb.LOCATION_HOME)
    elif place == ABOARD:
        data = small_fields(_LOCATION, pb.LOCATION_ABOARD)
    else:
        data = small_fields(_LOCATION, pb.LOCATION_TRAIL, _SPACE, place)
    if homeward:
        data += small_fields(_HOMEWARD, True)
    if barred:
        data += small_fields(_BARRED, True)
    if banked_earlier:
        data += small_fields(_BANKED_EARLIER, banked_earlier)
    stacks: list[bytes] = []
    if cargo:
        numbers, stacks = units_to_wire(cargo, first=first_stack)
        data += framed(_CARGO, numbers)
    if bank:
        data += framed(_BANK, bytes(bank))
    return _Written(diver, first_stack, framed(_DIVERS, data), stacks)


def view_to_wire(view: View) -> bytes:
    """The bytes of a `pb.View`."""
    return ViewWriter().write(view)


def view_from_wire(message: pb.View, rules: RuleSet, legal: Iterable[str]) -> View:
    """The view; the rules are those of the game's start, `legal` comes with the request."""
    stacks, laid = stacks_from_wire(message.stacks)
    divers = [_diver_of(diver, stacks) for diver in message.divers]
    if not divers:
        raise WireError("a view without divers")
    columns = zip(*divers, strict=True)
    # As in `view_for`: keywords would take three times as long.
    view = View.__new__(View)
    view.seat = message.seat
    view.players = len(divers)
    view.rules = rules
    view.dive = message.dive
    view.air = message.air
    view.phase = name_of(PHASE_NAMES, message.phase)
    view.to_move = message.to_move
    view.quiet = message.quiet
    view.trail = trail_from_wire(message.trail, stacks)
    view.laid = laid
    view.place, view.homeward, view.barred, view.cargo, view.bank, view.banked_earlier = columns
    view.home_order = tuple(message.home_order[:])
    known = message.known
    view.known = {pair.chip: pair.value for pair in known} if known else {}
    view.legal = tuple(legal)
    return view


def _diver_of(diver: pb.Diver, stacks: tuple[Unit, ...]) -> _Diver:
    return (
        diver.space or (HOME if diver.location == _AT_HOME else ABOARD),
        diver.homeward,
        diver.barred,
        units_from_wire(diver.cargo, stacks),
        tuple(diver.bank[:]),
        diver.banked_earlier,
    )
