"""Events on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from deepsea_rules.constants import SEAT_LETTERS
from deepsea_rules.events import EndReason, Event, Happening, event_for, is_alike_for_all
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.errors import WireError

from .framing import framed, tag
from .numbers import PROTOCOL_VERSION

_EVENTS: Final = tag(pb.DecisionRequest.DESCRIPTOR, "events")


class EventLog:
    """The events of one game as the bytes of requests; what all see alike is made once.

    happenings  the game's own list, which grows
    """

    def __init__(self, happenings: Sequence[Happening]) -> None:
        self._happenings = happenings
        self._alike: list[bytes | None] = []

    def since(self, mark: int, known: Mapping[int, int]) -> bytes:
        """The field `events` of a request, without the first `mark`; `known` as in its view."""
        alike = self._alike
        for happening in self._happenings[len(alike) :]:
            alike.append(_field(happening, {}) if is_alike_for_all(happening) else None)
        return b"".join(
            [
                _field(self._happenings[number], known) if data is None else data
                for number, data in enumerate(alike[mark:], mark)
            ]
        )


def _field(happening: Happening, known: Mapping[int, int]) -> bytes:
    return framed(_EVENTS, event_to_wire(event_for(happening, known)).SerializeToString())


def event_to_wire(event: Event) -> pb.Event:
    """An event as the seat may know it."""
    if event["event"] == "turn":
        turn = pb.TurnEvent(
            dive=event["dive"],
            seat=event["seat"],
            declare=event["declare"],
            dice=event["dice"],
            to=event["to"],
            home=event["home"],
            search=event["search"],
            air=event["air"],
        )
        if event["from"]:
            setattr(turn, "from", event["from"])  # a keyword of Python
        return pb.Event(turn=turn)
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
            "from": getattr(turn, "from") if dice else None,
            "to": turn.to,
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
