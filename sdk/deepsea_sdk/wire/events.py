"""Events on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from deepsea_rules.constants import SEAT_LETTERS
from deepsea_rules.events import (
    EndReason,
    Event,
    Happening,
    TurnPlayed,
    banked_chips,
    event_for,
)
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import framed, small_fields, small_tags, tag, zigzag
from .numbers import PROTOCOL_VERSION

_EVENTS: Final = tag(pb.DecisionRequest.DESCRIPTOR, "events")
_TURN: Final = tag(pb.Event.DESCRIPTOR, "turn")
_DECLARE, _DICE, _SEARCH = (
    tag(pb.TurnEvent.DESCRIPTOR, name) for name in ("declare", "dice", "search")
)
_DIVE, _SEAT, _FROM, _TO, _HOME, _AIR = small_tags(
    pb.TurnEvent.DESCRIPTOR, "dive", "seat", "from", "to", "home", "air"
)


class EventLog:
    """The events of one game as the bytes of requests; what seats see alike is made once.

    happenings  the game's own list, which grows
    """

    def __init__(self, happenings: Sequence[Happening]) -> None:
        self._happenings = happenings
        self._alike: list[bytes | None] = []
        """None where seats that know different values see it differently."""
        self._told: dict[tuple[int | None, ...], bytes] = {}

    def since(self, mark: int, known: Mapping[int, int]) -> bytes:
        """The field `events` of a request, without the first `mark`; `known` as in its view."""
        alike = self._alike
        for happening in self._happenings[len(alike) :]:
            alike.append(None if banked_chips(happening) else _field(happening, known))
        new = alike[mark:]
        if None in new:
            return b"".join(
                [
                    self._as_known(number, known) if data is None else data
                    for number, data in enumerate(new, mark)
                ]
            )
        return b"".join(cast(list[bytes], new))

    def _as_known(self, number: int, known: Mapping[int, int]) -> bytes:
        happening = self._happenings[number]
        key = (number, *map(known.get, banked_chips(happening)))
        data = self._told.get(key)
        if data is None:
            data = self._told[key] = _field(happening, known)
        return data


def _field(happening: Happening, known: Mapping[int, int]) -> bytes:
    if isinstance(happening, TurnPlayed):
        return framed(_EVENTS, framed(_TURN, _turn(happening)))
    return framed(_EVENTS, event_to_wire(event_for(happening, known)).SerializeToString())


def _turn(turn: TurnPlayed) -> bytes:
    """The bytes of a `pb.TurnEvent`: most events are turns, and all their numbers are small."""
    dive, seat, declare, dice, origin, to, home, search, air = turn
    data = small_fields(_DIVE, dive, _SEAT, seat, _TO, to, _HOME, home, _AIR, zigzag(air))
    if dice is not None:
        data += small_fields(_FROM, origin or 0) + framed(_DICE, bytes(dice))
    if declare is not None:
        data += framed(_DECLARE, declare.encode())
    if search is not None:
        data += framed(_SEARCH, search.encode())
    return data


def event_to_wire(event: Event) -> pb.Event:
    """An event as the seat may know it."""
    if event["event"] == "turn":
        dice = event["dice"]
        turn = TurnPlayed(
            dive=event["dive"],
            seat=event["seat"],
            declare=event["declare"],
            dice=None if dice is None else (dice[0], dice[1]),
            from_space=event["from_space"],
            to_space=event["to_space"],
            home=event["home"],
            search=event["search"],
            air=event["air"],
        )
        return pb.Event(turn=pb.TurnEvent.FromString(_turn(turn)))
    if event["event"] == "dive":
        dive = pb.DiveEvent(
            dive=event["dive"], starter=event["starter"], air=event["air"], trail=event["trail"]
        )
        return pb.Event(dive=dive)
    if event["event"] == "cleanup":
        cleanup = pb.CleanupEvent(
            dive=event["dive"],
            reason=event["reason"],
            trail=event["trail"],
            banked=[pb.Haul(chips=chips) for chips in event["banked"].values()],
            starter=event["starter"],
        )
        return pb.Event(cleanup=cleanup)
    end = pb.EndEvent(scores=event["scores"], placements=event["placements"], seed=event["seed"])
    return pb.Event(end=end)


def events_from_wire(messages: Iterable[pb.Event]) -> list[Event]:
    """The events of a request, or of a game's end."""
    return [event_from_wire(message) for message in messages]


def event_from_wire(message: pb.Event) -> Event:
    """The event, as in records' event logs."""
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
            "from_space": getattr(turn, "from") if dice else None,
            "to_space": turn.to,
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
            "trail": dive.trail,
        }
    if what == "cleanup":
        cleanup = message.cleanup
        return {
            "event": "cleanup",
            "dive": cleanup.dive,
            "reason": cast(EndReason, cleanup.reason),
            "trail": cleanup.trail,
            "banked": {
                letter: list(haul.chips)
                for letter, haul in zip(SEAT_LETTERS, cleanup.banked, strict=False)
            },
            "starter": cleanup.starter if cleanup.HasField("starter") else None,
        }
    if what == "end":
        end = message.end
        return {
            "event": "end",
            "scores": list(end.scores),
            "placements": list(end.placements),
            "seed": end.seed,
        }
    raise WireError(f"an event is not in protocol version {PROTOCOL_VERSION}")
