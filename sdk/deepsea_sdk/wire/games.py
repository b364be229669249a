"""Rules, events, views, and the start and end of a game on the wire.

Views are the hot path: parts that are the same as in a game's last view are not written again, and
parts that a bot does not look at are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from deepsea_rules.actions import CHIPS, LEVEL_OF, Unit
from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import (
    CleanedUp,
    EngineEvent,
    Event,
    TurnPlayed,
    banked_chips,
    chip_text,
    end_event,
    new_tuple,
    trail_text,
)
from deepsea_rules.game import Forfeit
from deepsea_rules.position import Phase
from deepsea_rules.ruleset import ABOARD, DEFAULT, HOME, OPTIONS, PRESETS, SEAT_LETTERS, RuleSet
from deepsea_rules.scoring import Result
from deepsea_rules.view import View
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo
from deepsea_sdk.errors import WireError

from .framing import (
    END_REASON_NAMES,
    END_REASONS,
    FAULT_NAMES,
    FIRST_STACK,
    NOTHING_LAID,
    PHASE_NAMES,
    PHASES,
    UNKNOWN,
    framed,
    known_value,
    name_of,
    small_fields,
    small_tags,
    stacks_from_wire,
    tag,
    trail_from_wire,
    units_from_wire,
    units_to_wire,
    zigzag,
)

_EVENTS = tag(pb.DecisionRequest.DESCRIPTOR, "events")
_TURN = tag(pb.Event.DESCRIPTOR, "turn")
_DECLARE, _DICE, _SEARCH = (
    tag(pb.TurnEvent.DESCRIPTOR, name) for name in ("declare", "dice", "search")
)
_EVENT_DIVE, _EVENT_SEAT, _FROM_SPACE, _TO_SPACE, _HOME, _EVENT_AIR = small_tags(
    pb.TurnEvent.DESCRIPTOR, "dive", "seat", "from_space", "to_space", "home", "air"
)


# Rules


def rules_to_wire(rules: RuleSet) -> pb.Rules:
    """Return the message of a rule set, with all options that have a value."""
    options = []
    for option in OPTIONS:
        text = option.to_text(getattr(rules, option.name))
        if text is not None:
            options.append(pb.RuleOption(name=option.name, value=text))
    return pb.Rules(name=rules.name, options=options)


def rules_from_wire(message: pb.Rules) -> RuleSet:
    """Return the rule set; options that this version does not know are in `unknown_options`.

    Raise `WireError` if the options that it knows make no sense together.
    """
    return _rules_of(message.SerializeToString(deterministic=True))


@lru_cache(maxsize=16)
def _rules_of(data: bytes) -> RuleSet:
    """Return the rule set of a serialised `pb.Rules`. Raise `WireError` if it makes no sense.

    Options and values that only a newer referee knows are named in `unknown_options`, and such an
    option has its default value.

    The result is cached: nearly all games of a bot have the same rules, and reading them takes as
    long as some decisions.
    """
    message = pb.Rules.FromString(data)
    defaults = PRESETS[DEFAULT]
    texts = {option.name: option.value for option in message.options}
    values: dict[str, Any] = {}
    unknown = sorted(texts.keys() - {option.name for option in OPTIONS})
    for option in OPTIONS:
        try:
            values[option.name] = option.from_text(texts.get(option.name))
        except InvalidRules:
            values[option.name] = getattr(defaults, option.name)
            unknown.append(option.name)
    try:
        return RuleSet(name=message.name, unknown_options=tuple(unknown), **values)
    except InvalidRules as error:
        if not unknown:
            raise WireError(f"the rules make no sense: {error}") from None
        # Options contradict each other, perhaps only by the defaults for unknown values.
        return replace(defaults, name=message.name, unknown_options=tuple(unknown))


# A game's start and end


def start_from_wire(message: pb.GameStart) -> GameInfo:
    """Return the start of a game, for its bot."""
    return GameInfo(
        game_id=message.game_id,
        seat=message.seat,
        players=message.seats,
        rules=rules_from_wire(message.rules),
        budget_us=message.clock.budget_us,
        bank_us=message.clock.bank_us,
        commitment=message.commitment,
    )


def result_from_wire(message: pb.GameResult, seat: int) -> GameEnd:
    """Return the end of a game for the bot in `seat`, without its events."""
    return GameEnd(
        game_id=message.game_id,
        seat=seat,
        points=tuple(message.points),
        placements=tuple(message.placements),
        seed=message.seed,
        values=(0, *message.values) if message.values else (),  # chips count from 1
        forfeits=tuple(
            Forfeit(forfeit.seat, name_of(FAULT_NAMES, forfeit.fault), forfeit.decision)
            for forfeit in message.forfeits
        ),
        is_void=message.is_void,
    )


def last_events_from_wire(message: pb.GameResult) -> list[Event]:
    """Return the events since the seat's last request, the result as the last one.

    A void game has no result.
    """
    events = events_from_wire(message.events)
    if not message.is_void:
        result = Result(tuple(message.points), tuple(message.placements))
        events.append(end_event(result, message.seed))
    return events


# Faults


def fault_from_wire(message: pb.FaultNotice, game_id: str) -> FaultNotice:
    """Return the notice of a fault in this game."""
    return FaultNotice(
        game_id=game_id,
        request_id=message.request_id,
        fault=name_of(FAULT_NAMES, message.fault),
        message=message.message,
        forfeit=message.forfeit,
    )


# Events


class EventLog:
    """The events of one game as bytes of requests, made once for all seats where possible.

    engine_events  the game's own list of events, which grows
    """

    def __init__(self, engine_events: Sequence[EngineEvent]) -> None:
        self._engine_events = engine_events
        self._fields_for_all: list[bytes | None] = []
        """The field of each event; None if it differs from seat to seat."""
        self._fields_by_values: dict[tuple[int | None, ...], bytes] = {}
        """Fields of these other events, by the event's number and the values that are known."""

    def fields_after(self, events_sent: int, known: Mapping[int, int]) -> bytes:
        """Return a request's fields `events` as bytes: the events that the seat has not got yet.

        events_sent  the number of events of the game that the seat has got already
        known        the chip values that the seat knows
        """
        fields = self._fields_for_all
        for event in self._engine_events[len(fields) :]:
            # Only banked chips are written with values. An event without such chips has the same
            # bytes for all seats, so those made with the values of this seat are good for all.
            fields.append(None if banked_chips(event) else _field(event, known))
        new_fields = fields[events_sent:]
        if None in new_fields:
            new_fields = [
                self._field_by_values(number, known) if field is None else field
                for number, field in enumerate(new_fields, events_sent)
            ]
        return b"".join(cast(list[bytes], new_fields))

    def _field_by_values(self, number: int, known: Mapping[int, int]) -> bytes:
        """Return the field of an event with banked chips, for a seat that knows these values.

        number  the number of the event in the game
        """
        event = self._engine_events[number]
        # Seats that know the same values of the banked chips get the same bytes.
        key = (number, *map(known.get, banked_chips(event)))
        field = self._fields_by_values.get(key)
        if field is None:
            field = self._fields_by_values[key] = _field(event, known)
        return field


def _field(event: EngineEvent, known: Mapping[int, int]) -> bytes:
    """Return an event as a field of a request."""
    return framed(_EVENTS, event_to_wire(event, known))


def event_to_wire(event: EngineEvent, known: Mapping[int, int]) -> bytes:
    """Return the bytes of a `pb.Event` for a viewer with these known values, by chip id."""
    if isinstance(event, TurnPlayed):
        return framed(_TURN, _turn_bytes(event))
    numbers, stacks = units_to_wire(event.trail[1:], event.laid)
    piles = [pb.Stack.FromString(stack) for stack in stacks]
    if isinstance(event, CleanedUp):
        known_pairs = [
            pb.KnownValue.FromString(known_value(chip, known[chip]))
            for chip in banked_chips(event)
            if chip in known
        ]
        cleanup = pb.CleanupEvent(
            dive=event.dive,
            reason=END_REASONS[event.reason],
            trail=numbers,
            stacks=piles,
            banked=[pb.BankedChips(chips=chips) for chips in event.banked],
            known=known_pairs,
            starter=event.starter,
        )
        return pb.Event(cleanup=cleanup).SerializeToString()
    dive = pb.DiveEvent(
        dive=event.dive,
        starter=event.starter,
        air=event.air,
        trail=numbers,
        stacks=piles,
    )
    return pb.Event(dive=dive).SerializeToString()


def _turn_bytes(turn: TurnPlayed) -> bytes:
    """Return the bytes of a `pb.TurnEvent`, in which declaration, dice and search may be missing.

    They are put together here, since most events are turns and protobuf takes longer.
    """
    dive, seat, declare, dice, from_space, to_space, home, search, air = turn
    # The arguments alternate: the tag of a field, then its number. The air may be below 0.
    data = small_fields(
        _EVENT_DIVE,
        dive,
        _EVENT_SEAT,
        seat,
        _TO_SPACE,
        to_space,
        _HOME,
        home,
        _EVENT_AIR,
        zigzag(air),
    )
    if dice is not None:
        data += small_fields(_FROM_SPACE, from_space or 0) + framed(_DICE, bytes(dice))
    if declare is not None:
        data += framed(_DECLARE, declare.encode())
    if search is not None:
        data += framed(_SEARCH, search.encode())
    return data


def events_from_wire(messages: Iterable[pb.Event]) -> list[Event]:
    """Return the events of a request or of a game's end, without those of an unknown kind."""
    events = map(event_from_wire, messages)
    return [event for event in events if event is not None]


def event_from_wire(message: pb.Event) -> Event | None:
    """Return the event as in records' event logs; None if this version does not know its kind."""
    kind = message.WhichOneof("event")
    if kind == "turn":
        turn = message.turn
        dice = list(turn.dice)
        return {
            "event": "turn",
            "dive": turn.dive,
            "seat": turn.seat,
            "declare": turn.declare if turn.HasField("declare") else None,
            "dice": dice or None,
            "from_space": turn.from_space if dice else None,
            "to_space": turn.to_space,
            "home": turn.home,
            "search": turn.search if turn.HasField("search") else None,
            "air": turn.air,
        }
    if kind == "dive":
        dive = message.dive
        return {
            "event": "dive",
            "dive": dive.dive,
            "starter": dive.starter,
            "air": dive.air,
            "trail": _trail_text(dive),
        }
    if kind == "cleanup":
        cleanup = message.cleanup
        known = {pair.chip: pair.value for pair in cleanup.known}
        return {
            "event": "cleanup",
            "dive": cleanup.dive,
            "reason": name_of(END_REASON_NAMES, cleanup.reason),
            "trail": _trail_text(cleanup),
            "banked": {
                letter: [_chip_text(chip, known) for chip in haul.chips]
                for letter, haul in zip(SEAT_LETTERS, cleanup.banked, strict=False)
            },
            "starter": cleanup.starter if cleanup.HasField("starter") else None,
        }
    return None


def _trail_text(message: pb.DiveEvent | pb.CleanupEvent) -> str:
    """Return the trail of an event as text, as event logs have it."""
    stacks, laid = stacks_from_wire(message.stacks)
    return trail_text(trail_from_wire(message.trail, stacks), laid)


def _chip_text(chip: int, known: Mapping[int, int]) -> str:
    """Return a chip as text: "3" by its level, or "3=9" with its value if that is in `known`.

    Raise WireError for a chip that does not exist.
    """
    if not 0 < chip < len(LEVEL_OF):
        raise WireError(f"there is no chip {chip}")
    return chip_text(chip, known)


# ----- Views

_Diver: TypeAlias = tuple[int, bool, bool, tuple[Unit, ...], tuple[int, ...], int]
"""Fields of `View` for one diver: place, homeward, barred, cargo, bank, banked_earlier."""

_DIVERS, _HOME_ORDER, _KNOWN, _TRAIL, _STACKS = (
    tag(pb.View.DESCRIPTOR, name) for name in ("divers", "home_order", "known", "trail", "stacks")
)
_SEAT, _DIVE, _AIR, _PHASE, _TO_MOVE, _QUIET = small_tags(
    pb.View.DESCRIPTOR, "seat", "dive", "air", "phase", "to_move", "quiet_turns"
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
        turn += small_fields(
            _PHASE, PHASES[view.phase], _TO_MOVE, view.to_move, _QUIET, view.quiet_turns
        )
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
    """Return a diver's bytes and stacks, with the arguments from which they were made.

    A later view reuses them if its arguments are the same.

    first_stack  the number in the message of the first stack that the diver carries
    """
    place, homeward, barred, cargo, bank, banked_earlier = diver
    # A field with its default value, such as False, 0 or nothing, is not written.
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
    """Return a seat's view from its message, with the game's rules and the legal actions.

    Only the short fields are read now. The others, such as the trail and the divers, are read from
    the message when the bot first uses them; they raise `WireError` then if they make no sense.
    """
    view = _ViewOfMessage.__new__(_ViewOfMessage)  # faster than a constructor with all fields
    view._message = message  # noqa: SLF001  (a field of the class below)
    view.rules = rules
    view.seat = message.seat
    view.dive = message.dive
    view.air = message.air
    view.phase = PHASE_NAMES.get(message.phase, _UNKNOWN_PHASE)
    view.to_move = message.to_move
    view.quiet_turns = message.quiet_turns
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
    """Read all fields of a view that have an entry for each diver, from its message.

    Raise `WireError` if there are no divers.
    """
    stacks, _ = stacks_from_wire(message.stacks)
    divers = [_diver_of(diver, stacks) for diver in message.divers]
    if not divers:
        raise WireError("a view without divers")
    view.players = len(divers)
    # A view has a tuple of all divers for each field.
    fields = zip(*divers, strict=True)
    view.place, view.homeward, view.barred, view.cargo, view.bank, view.banked_earlier = fields


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
    """Return a diver of a message as the values that a view has for it, in the order of `_Diver`.

    stacks  the stacks of the view's message
    """
    cargo, bank = diver.cargo, diver.bank
    # Spaces on the trail are numbered from 1; off the trail `space` is 0.
    return (
        diver.space or (HOME if diver.location == _AT_HOME else ABOARD),
        diver.homeward,
        diver.barred,
        units_from_wire(cargo, stacks) if cargo else (),
        tuple(bank[:]) if bank else (),
        diver.banked_earlier,
    )
