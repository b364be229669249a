"""Views on the wire: the hot path.

Parts that are the same as in a game's last view are not written again, and parts that a bot does
not look at are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from deepsea_rules.actions import CHIPS, Unit
from deepsea_rules.events import new_tuple
from deepsea_rules.position import Phase
from deepsea_rules.ruleset import ABOARD, HOME, RuleSet
from deepsea_rules.view import View
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import (
    FIRST_STACK,
    NOTHING_LAID,
    PHASE_NAMES,
    PHASES,
    UNKNOWN,
    framed,
    known_value,
    small_fields,
    small_tags,
    stacks_from_wire,
    tag,
    trail_from_wire,
    units_from_wire,
    units_to_wire,
    zigzag,
)

_Diver: TypeAlias = tuple[int, bool, bool, tuple[Unit, ...], tuple[int, ...], int]
"""Fields of `View` for one diver: place, homeward, barred, cargo, bank, banked_earlier."""

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
_AT_HOME = pb.LOCATION_HOME
_PLACES = {
    HOME: small_fields(_LOCATION, pb.LOCATION_HOME),
    ABOARD: small_fields(_LOCATION, pb.LOCATION_ABOARD),
    **{
        space: small_fields(_LOCATION, pb.LOCATION_TRAIL, _SPACE, space)
        for space in range(1, len(CHIPS) + 1)
    },
}
_IS_HOMEWARD = small_fields(_HOMEWARD, True)
_IS_BARRED = small_fields(_BARRED, True)
_UNKNOWN_PHASE = cast(Phase, UNKNOWN)


class _WrittenDiver(NamedTuple):
    """A diver as it was written last: its bytes, its stacks, and the number of the first."""

    diver: _Diver
    field: bytes
    first_stack: int
    stacks: list[bytes]


_NOT_WRITTEN = _WrittenDiver((ABOARD, False, False, (), (), -1), b"", 0, [])


class ViewWriter:
    """Writer of the views of one game; it keeps the bytes of parts that did not change."""

    __slots__ = ("_divers", "_known", "_known_fields", "_laid", "_stacks", "_trail", "_trail_field")

    def __init__(self) -> None:
        self._trail: tuple[Unit, ...] = ()
        self._laid = NOTHING_LAID
        self._trail_field = b""
        self._stacks: list[bytes] = []
        self._known: Mapping[int, int] = {}
        self._known_fields = b""
        self._divers: list[_WrittenDiver] = []

    def write(self, view: View) -> bytes:
        """Return the bytes of a `pb.View`.

        Rules are not in it, since they come with the start, nor legal actions, which come with a
        request.
        """
        seat = view.seat
        if seat is None:
            raise ValueError("a watcher's view is not sent to bots")
        turn = small_fields(_SEAT, seat, _DIVE, view.dive, _AIR, zigzag(view.air))
        turn += small_fields(_PHASE, PHASES[view.phase], _TO_MOVE, view.to_move, _QUIET, view.quiet)
        if view.trail != self._trail or view.laid != self._laid:
            self._trail, self._laid = view.trail, view.laid
            units, self._stacks = units_to_wire(view.trail[1:], view.laid)
            self._trail_field = framed(_TRAIL, units)
        parts = [turn, self._trail_field]
        stacks = self._stacks
        divers = self._divers or [_NOT_WRITTEN] * view.players
        movement = view.place, view.homeward, view.barred
        possessions = view.cargo, view.bank, view.banked_earlier
        # A diver's bytes refer to its stacks by numbers that count from the trail's stacks on, so
        # they change with the number of stacks before them.
        for index, diver in enumerate(zip(*movement, *possessions, strict=True)):
            written, field, first_stack, own_stacks = divers[index]
            if written != diver or (own_stacks and first_stack != FIRST_STACK + len(stacks)):
                rewritten = divers[index] = _write_diver(diver, FIRST_STACK + len(stacks))
                _, field, _, own_stacks = rewritten
            parts.append(field)
            if own_stacks:
                stacks = stacks + own_stacks
        self._divers = divers
        if stacks:
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


def _write_diver(diver: _Diver, first_stack: int) -> _WrittenDiver:
    """Return a diver as it is written now; its stacks count from `first_stack` on."""
    place, homeward, barred, cargo, bank, banked_earlier = diver
    data = _PLACES[place]
    if homeward:
        data += _IS_HOMEWARD
    if barred:
        data += _IS_BARRED
    if banked_earlier:
        data += small_fields(_BANKED_EARLIER, banked_earlier)
    stacks: list[bytes] = []
    if cargo:
        numbers, stacks = units_to_wire(cargo, first=first_stack)
        data += framed(_CARGO, numbers)
    if bank:
        data += framed(_BANK, bytes(bank))
    return new_tuple(_WrittenDiver, (diver, framed(_DIVERS, data), first_stack, stacks))


def view_from_wire(message: pb.View, rules: RuleSet, legal: Iterable[str]) -> View:
    """Return the view of a message, with the game's rules and the request's legal actions.

    The view keeps the message: fields that take long to read are read when a bot looks at them
    first, and raise `WireError` then if they make no sense.
    """
    view = _ViewOfMessage.__new__(_ViewOfMessage)
    view._message = message  # noqa: SLF001  (as in `view_for`, no constructor)
    view.rules = rules
    view.seat = message.seat
    view.dive = message.dive
    view.air = message.air
    view.phase = PHASE_NAMES.get(message.phase, _UNKNOWN_PHASE)
    view.to_move = message.to_move
    view.quiet = message.quiet
    view.legal = tuple(legal)
    return view


class _ViewOfMessage(View):
    """A view whose longer fields are read from the message when they are looked at first."""

    __slots__ = ("_message",)
    _message: pb.View

    if not TYPE_CHECKING:  # for mypy, a view has its fields and no others

        def __getattr__(self, name: str) -> object:
            """Called for a field that is not set: read it, and those that belong to it."""
            read = _READERS.get(name)
            if read is None:
                problem = f"'View' object has no attribute {name!r}"
                raise AttributeError(problem, name=name, obj=self)
            read(self, self._message)
            return getattr(self, name)

    def __reduce__(self) -> tuple[partial[View], tuple[()]]:
        """Return how to copy it: as a plain view with all fields, without the message."""
        return partial(View, **{name: getattr(self, name) for name in View.__slots__}), ()


def _read_trail(view: View, message: pb.View) -> None:
    """Set the trail and the laid units of a view."""
    stacks, view.laid = stacks_from_wire(message.stacks)
    view.trail = trail_from_wire(message.trail, stacks)


def _read_divers(view: View, message: pb.View) -> None:
    """Set the fields of a view that have an entry for each diver."""
    stacks, _ = stacks_from_wire(message.stacks)
    divers = [_diver_of(diver, stacks) for diver in message.divers]
    if not divers:
        raise WireError("a view without divers")
    view.players = len(divers)
    columns = zip(*divers, strict=True)
    view.place, view.homeward, view.barred, view.cargo, view.bank, view.banked_earlier = columns


def _read_home_order(view: View, message: pb.View) -> None:
    view.home_order = tuple(message.home_order[:])


def _read_known(view: View, message: pb.View) -> None:
    view.known = {pair.chip: pair.value for pair in message.known}


_READERS: dict[str, Callable[[View, pb.View], None]] = {
    **dict.fromkeys(("trail", "laid"), _read_trail),
    **dict.fromkeys(
        ("players", "place", "homeward", "barred", "cargo", "bank", "banked_earlier"), _read_divers
    ),
    "home_order": _read_home_order,
    "known": _read_known,
}


def _diver_of(diver: pb.Diver, stacks: tuple[Unit, ...]) -> _Diver:
    """Return a diver's fields of `View`, in the order of `_Diver`."""
    cargo, bank = diver.cargo, diver.bank
    return (
        diver.space or (HOME if diver.location == _AT_HOME else ABOARD),
        diver.homeward,
        diver.barred,
        units_from_wire(cargo, stacks) if cargo else (),
        tuple(bank[:]) if bank else (),
        diver.banked_earlier,
    )
