"""Rules and events on the wire; the start and end of games and faults, as a bot reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from deepsea_rules.actions import LEVEL_OF
from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import (
    CleanedUp,
    Event,
    Happening,
    TurnPlayed,
    banked_chips,
    chip_text,
    end_event,
    trail_text,
)
from deepsea_rules.game import Forfeit
from deepsea_rules.ruleset import DEFAULT, OPTIONS, PRESETS, SEAT_LETTERS, RuleSet
from deepsea_rules.scoring import Result
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo
from deepsea_sdk.errors import WireError

from .framing import (
    END_REASON_NAMES,
    END_REASONS,
    FAULT_NAMES,
    framed,
    known_value,
    name_of,
    small_fields,
    small_tags,
    stacks_from_wire,
    tag,
    trail_from_wire,
    units_to_wire,
    zigzag,
)

_EVENTS = tag(pb.DecisionRequest.DESCRIPTOR, "events")
_TURN = tag(pb.Event.DESCRIPTOR, "turn")
_DECLARE, _DICE, _SEARCH = (
    tag(pb.TurnEvent.DESCRIPTOR, name) for name in ("declare", "dice", "search")
)
_DIVE, _SEAT, _FROM_SPACE, _TO_SPACE, _HOME, _AIR = small_tags(
    pb.TurnEvent.DESCRIPTOR, "dive", "seat", "from_space", "to_space", "home", "air"
)


# Rules


def rules_to_wire(rules: RuleSet) -> pb.Rules:
    """All options that have a value."""
    options = [
        pb.RuleOption(name=option.name, value=text)
        for option in OPTIONS
        if (text := option.to_text(getattr(rules, option.name))) is not None
    ]
    return pb.Rules(name=rules.name, options=options)


def rules_from_wire(message: pb.Rules) -> RuleSet:
    """The rule set, with the options that this version does not know in `unknown_options`.

    Raises `WireError` if what it knows makes no sense.
    """
    return _rules_of(message.SerializeToString(deterministic=True))


@lru_cache(maxsize=16)
def _rules_of(data: bytes) -> RuleSet:
    """The same in nearly all games of a bot, and reading it takes as long as some decisions."""
    message = pb.Rules.FromString(data)
    texts = {option.name: option.value for option in message.options}
    known: dict[str, Any] = {}
    unknown = sorted(texts.keys() - {option.name for option in OPTIONS})
    for option in OPTIONS:
        try:
            known[option.name] = option.from_text(texts.get(option.name))
        except InvalidRules:
            known[option.name] = getattr(PRESETS[DEFAULT], option.name)
            unknown.append(option.name)
    try:
        return RuleSet(name=message.name, unknown_options=tuple(unknown), **known)
    except InvalidRules as error:
        if unknown:  # what stands in for them may not go with the rest
            preset = PRESETS[DEFAULT]
            return replace(preset, name=message.name, unknown_options=tuple(unknown))
        raise WireError(f"the rules make no sense: {error}") from None


# A game's start and end


def start_from_wire(message: pb.GameStart) -> GameInfo:
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
    """The end of a game for the bot in `seat`; `last_events_from_wire` reads its events."""
    return GameEnd(
        game_id=message.game_id,
        seat=seat,
        points=tuple(message.points),
        placements=tuple(message.placements),
        seed=message.seed,
        values=(0, *message.values) if message.values else (),
        forfeits=tuple(
            Forfeit(forfeit.seat, name_of(FAULT_NAMES, forfeit.fault), forfeit.decision)
            for forfeit in message.forfeits
        ),
        is_void=message.is_void,
    )


def last_events_from_wire(message: pb.GameResult) -> list[Event]:
    """The events of a game's end; the last one is made of the result, as in event logs."""
    events = events_from_wire(message.events)
    if not message.is_void:
        result = Result(tuple(message.points), tuple(message.placements))
        events.append(end_event(result, message.seed))
    return events


# Faults


def fault_from_wire(message: pb.FaultNotice, game_id: str) -> FaultNotice:
    """A fault was counted in the game of the request."""
    return FaultNotice(
        game_id=game_id,
        request_id=message.request_id,
        fault=name_of(FAULT_NAMES, message.fault),
        message=message.message,
        forfeit=message.forfeit,
    )


# Events


class EventLog:
    """The events of one game as the bytes of requests; what seats see alike is made once.

    happenings  the game's own list, which grows
    """

    def __init__(self, happenings: Sequence[Happening]) -> None:
        self._happenings = happenings
        self._alike: list[bytes | None] = []
        """None where seats that know different values see it differently."""
        self._seen: dict[tuple[int | None, ...], bytes] = {}

    def since(self, mark: int, known: Mapping[int, int]) -> bytes:
        """The field `events` of a request, without the first `mark`; `known` as in its view."""
        alike = self._alike
        for happening in self._happenings[len(alike) :]:
            alike.append(None if banked_chips(happening) else _field(happening, known))
        new = alike[mark:]
        if None in new:
            new = [
                self._as_known(number, known) if data is None else data
                for number, data in enumerate(new, mark)
            ]
        return b"".join(cast(list[bytes], new))

    def _as_known(self, number: int, known: Mapping[int, int]) -> bytes:
        happening = self._happenings[number]
        key = (number, *map(known.get, banked_chips(happening)))
        data = self._seen.get(key)
        if data is None:
            data = self._seen[key] = _field(happening, known)
        return data


def _field(happening: Happening, known: Mapping[int, int]) -> bytes:
    return framed(_EVENTS, event_to_wire(happening, known))


def event_to_wire(happening: Happening, known: Mapping[int, int]) -> bytes:
    """The bytes of a `pb.Event` for a viewer who knows the values `known`, by chip id."""
    if isinstance(happening, TurnPlayed):
        return framed(_TURN, _turn(happening))
    numbers, stacks = units_to_wire(happening.trail[1:], happening.laid)
    piles = [pb.Stack.FromString(stack) for stack in stacks]
    if isinstance(happening, CleanedUp):
        seen = [
            pb.KnownValue.FromString(known_value(chip, known[chip]))
            for chip in banked_chips(happening)
            if chip in known
        ]
        cleanup = pb.CleanupEvent(
            dive=happening.dive,
            reason=END_REASONS[happening.reason],
            trail=numbers,
            stacks=piles,
            banked=[pb.BankedChips(chips=chips) for chips in happening.banked],
            known=seen,
            starter=happening.starter,
        )
        return pb.Event(cleanup=cleanup).SerializeToString()
    dive = pb.DiveEvent(
        dive=happening.dive,
        starter=happening.starter,
        air=happening.air,
        trail=numbers,
        stacks=piles,
    )
    return pb.Event(dive=dive).SerializeToString()


def _turn(turn: TurnPlayed) -> bytes:
    """The bytes of a `pb.TurnEvent`: most events are turns, and all their numbers are small."""
    dive, seat, declare, dice, from_space, to_space, home, search, air = turn
    data = small_fields(
        _DIVE, dive, _SEAT, seat, _TO_SPACE, to_space, _HOME, home, _AIR, zigzag(air)
    )
    if dice is not None:
        data += small_fields(_FROM_SPACE, from_space or 0) + framed(_DICE, bytes(dice))
    if declare is not None:
        data += framed(_DECLARE, declare.encode())
    if search is not None:
        data += framed(_SEARCH, search.encode())
    return data


def events_from_wire(messages: Iterable[pb.Event]) -> list[Event]:
    """The events of a request, or of a game's end, without those of a kind added since."""
    events = map(event_from_wire, messages)
    return [event for event in events if event is not None]


def event_from_wire(message: pb.Event) -> Event | None:
    """The event, as in records' event logs; None if this version does not know its kind."""
    what = message.WhichOneof("event")
    if what == "turn":
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
    if what == "dive":
        dive = message.dive
        return {
            "event": "dive",
            "dive": dive.dive,
            "starter": dive.starter,
            "air": dive.air,
            "trail": _trail_text(dive),
        }
    if what == "cleanup":
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
    stacks, laid = stacks_from_wire(message.stacks)
    return trail_text(trail_from_wire(message.trail, stacks), laid)


def _chip_text(chip: int, known: Mapping[int, int]) -> str:
    if not 0 < chip < len(LEVEL_OF):
        raise WireError(f"there is no chip {chip}")
    return chip_text(chip, known)
