"""Between the wire's messages and the objects that bots and the referee use.

Laws: what is written and read again is equal; a message is built from a view or an event alone,
never from a state, so nothing can reach the wire that the seat may not know; what cannot be
understood raises `WireError`.

For each thing there is a pair, `THING_to_wire` and `THING_from_wire`. Views are the hot path: the
few ways in which a space or a diver can look are remembered, as bytes and as what they mean.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar, cast

from deepsea_rules.actions import Kind
from deepsea_rules.constants import HOME, SEAT_LETTERS
from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import EndReason, Event
from deepsea_rules.faults import Fault
from deepsea_rules.game import Forfeit
from deepsea_rules.ruleset import OPTIONS, RuleSet
from deepsea_rules.state import Phase
from deepsea_rules.units import BLANK, Unit
from deepsea_rules.view import View

from . import __version__
from ._pb import deepsea_pb2 as pb
from .bot import FaultNotice, GameEnd, GameInfo, TimeLeft
from .errors import WireError

PROTOCOL_VERSION: Final = 1
LONGEST_ACTION: Final = 1000
"""No action is as long as this; the referee's limit for a message is far above it."""

_PHASES: Final[dict[Phase, pb.Phase.ValueType]] = {
    "turn": pb.PHASE_TURN,
    "roll": pb.PHASE_ROLL,
    "search": pb.PHASE_SEARCH,
    "order": pb.PHASE_ORDER,
    "over": pb.PHASE_OVER,
}
_PHASE_NAMES: Final = {number: name for name, number in _PHASES.items()}
_KINDS: Final[dict[Kind | None, pb.DecisionKind.ValueType]] = {
    "declare": pb.DECISION_KIND_DECLARE,
    "search": pb.DECISION_KIND_SEARCH,
    "order": pb.DECISION_KIND_ORDER,
}
_FAULTS: Final = {fault: pb.Fault.Value(f"FAULT_{fault.name}") for fault in Fault}
_FAULT_NAMES: Final = {number: fault for fault, number in _FAULTS.items()}

_Number = TypeVar("_Number", bound=int)
_T = TypeVar("_T")


def _known(names: Mapping[_Number, _T], number: _Number, what: str) -> _T:
    try:
        return names[number]
    except KeyError:
        raise WireError(f"{what} {number} is not in protocol version {PROTOCOL_VERSION}") from None


# The door


def hello_to_wire(token: str) -> pb.BotMessage:
    """The first word of a bot."""
    sdk = f"deepsea-sdk/{__version__} python/{platform.python_version()}"
    hello = pb.Hello(token=token, protocol_version=PROTOCOL_VERSION, sdk=sdk)
    return pb.BotMessage(hello=hello)


# Rules

_MAY_BE_ABSENT: Final = {field.name for field in pb.Rules.DESCRIPTOR.fields if field.has_presence}


def rules_to_wire(rules: RuleSet) -> pb.Rules:
    """All options of a rule set."""
    message = pb.Rules(name=rules.name)
    for option, value in rules.options().items():
        if value is not None:
            setattr(message, option, value)
    return message


def rules_from_wire(message: pb.Rules) -> RuleSet:
    """The rule set; raises `WireError` if it makes no sense."""
    options = {
        option.name: None
        if option.name in _MAY_BE_ABSENT and not message.HasField(option.name)  # type: ignore[arg-type]
        else getattr(message, option.name)
        for option in OPTIONS
    }
    try:
        return RuleSet.from_options(message.name, options)
    except InvalidRules as error:
        raise WireError(f"the rules make no sense: {error}") from None


# Views


@lru_cache(maxsize=4096)
def _space_bytes(unit: Unit, laid: bool) -> bytes:
    """A view with this space alone; such bytes in a row are a view with all the spaces."""
    space = pb.TrailSpace(chips=unit, laid=laid)
    return pb.View(trail=(space,)).SerializeToString()


@lru_cache(maxsize=4096)
def _diver_bytes(
    place: int,
    homeward: bool,
    barred: bool,
    cargo: tuple[Unit, ...],
    bank: tuple[int, ...],
    hauled: int,
) -> bytes:
    """A view with this diver alone."""
    diver = pb.Diver(
        place=max(place, 0),
        homeward=homeward,
        home=place == HOME,
        cargo=[pb.Unit(chips=unit) for unit in cargo],
        bank=bank,
        barred=barred,
        hauled=hauled,
    )
    return pb.View(divers=(diver,)).SerializeToString()


def view_to_wire(view: View) -> pb.View:
    """A seat's view. Its rules and legal actions travel elsewhere: see `request_to_wire`."""
    if view.seat is None:
        raise ValueError("a watcher's view is not sent to bots")
    laid = view.laid
    parts = [_space_bytes(unit, unit in laid) for unit in view.trail[1:]]
    parts += map(
        _diver_bytes,
        view.place,
        view.homeward,
        view.barred,
        view.cargo,
        view.bank,
        view.hauled,
    )
    message = pb.View.FromString(b"".join(parts))
    message.seat = view.seat
    message.dive = view.dive
    message.air = view.air
    message.phase = _PHASES[view.phase]
    message.to_move = view.to_move
    message.quiet = view.quiet
    message.home_order.extend(view.home_order)
    message.known.update(view.known)
    return message


@lru_cache(maxsize=4096)
def _space_of(data: bytes) -> tuple[Unit, bool]:
    """The unit on a space, and whether it is a laid pile."""
    space = pb.TrailSpace.FromString(data)
    return Unit(space.chips), space.laid


@lru_cache(maxsize=4096)
def _diver_of(
    data: bytes,
) -> tuple[int, bool, bool, tuple[Unit, ...], tuple[int, ...], int]:
    """What `View` has of a diver, in the order of `_diver_bytes`."""
    diver = pb.Diver.FromString(data)
    return (
        HOME if diver.home else diver.place,
        diver.homeward,
        diver.barred,
        tuple(Unit(unit.chips) for unit in diver.cargo),
        tuple(diver.bank),
        diver.hauled,
    )


def view_from_wire(message: pb.View, rules: RuleSet, legal: Iterable[str]) -> View:
    """The view; the rules are those of the game's start, `legal` comes with the request."""
    spaces = [_space_of(space.SerializeToString()) for space in message.trail]
    divers = [_diver_of(diver.SerializeToString()) for diver in message.divers]
    if not divers:
        raise WireError("a view without divers")
    place, homeward, barred, cargo, bank, hauled = zip(*divers, strict=True)
    return View(
        seat=message.seat,
        players=len(divers),
        rules=rules,
        dive=message.dive,
        air=message.air,
        phase=_known(_PHASE_NAMES, message.phase, "phase"),
        to_move=message.to_move,
        quiet=message.quiet,
        trail=(BLANK, *[unit for unit, _ in spaces]),
        laid=frozenset([unit for unit, laid in spaces if laid]),
        place=place,
        homeward=homeward,
        barred=barred,
        cargo=cargo,
        bank=bank,
        hauled=hauled,
        home_order=tuple(message.home_order),
        known=dict(message.known),
        legal=tuple(legal),
    )


# Events


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


# A game's start and end


def start_to_wire(info: GameInfo) -> pb.GameStart:
    """A game begins."""
    return pb.GameStart(
        game_id=info.game_id,
        seat=info.seat,
        players=info.players,
        rules=rules_to_wire(info.rules),
        clock=pb.ClockSettings(budget_us=info.budget_us, bank_us=info.bank_us),
        commitment=info.commitment,
    )


def start_from_wire(message: pb.GameStart) -> GameInfo:
    """A game begins."""
    return GameInfo(
        game_id=message.game_id,
        seat=message.seat,
        players=message.players,
        rules=rules_from_wire(message.rules),
        budget_us=message.clock.budget_us,
        bank_us=message.clock.bank_us,
        commitment=message.commitment,
    )


def over_to_wire(end: GameEnd, events: Iterable[Event]) -> pb.GameOver:
    """A game is over, with what happened since the seat's last request."""
    return pb.GameOver(
        game_id=end.game_id,
        events=map(event_to_wire, events),
        scores=end.scores,
        placements=end.placements,
        seed=end.seed,
        values=end.values[1:],
        forfeits=[
            pb.Forfeit(seat=seat, fault=_FAULTS[fault], decision=decision)
            for seat, fault, decision in end.forfeits
        ],
        void=end.void,
    )


def over_from_wire(message: pb.GameOver, seat: int) -> GameEnd:
    """The end of a game for the bot in `seat`. Its events are read by `events_from_wire`."""
    return GameEnd(
        game_id=message.game_id,
        seat=seat,
        scores=tuple(message.scores),
        placements=tuple(message.placements),
        seed=message.seed,
        values=(0, *message.values) if message.values else (),
        forfeits=tuple(
            Forfeit(forfeit.seat, _known(_FAULT_NAMES, forfeit.fault, "fault"), forfeit.decision)
            for forfeit in message.forfeits
        ),
        void=message.void,
    )


# Questions and answers


class Request(NamedTuple):
    """A decision to make, as a bot reads it. Its events are read by `events_from_wire`."""

    game_id: str
    request_id: int
    view: View
    time_left: TimeLeft


def request_to_wire(
    game_id: str,
    view: View,
    events: Iterable[Event],
    time_left: TimeLeft,
    request_id: int = 0,
) -> pb.DecisionRequest:
    """Ask the view's seat for its decision. A session may fill in the request id later."""
    return pb.DecisionRequest(
        game_id=game_id,
        request_id=request_id,
        kind=_KINDS[view.kind],
        view=view_to_wire(view),
        legal=view.legal,
        events=map(event_to_wire, events),
        budget_us=time_left.budget_us,
        bank_us=time_left.bank_us,
    )


def request_from_wire(message: pb.DecisionRequest, rules: RuleSet) -> Request:
    """The request; the rules are those of the game's start."""
    return Request(
        message.game_id,
        message.request_id,
        view_from_wire(message.view, rules, message.legal),
        TimeLeft(message.budget_us, message.bank_us),
    )


class Answer(NamedTuple):
    """A decision that was made, as the referee reads it."""

    game_id: str
    request_id: int
    action: str


def decision_to_wire(answer: Answer) -> pb.Decision:
    """The answer to a request. An action may be any text: the referee judges it, not the wire."""
    action = answer.action
    if not action.isascii() or len(action) > LONGEST_ACTION:
        # No action looks like this, but its text must not break the stream.
        action = action[:LONGEST_ACTION].encode(errors="replace").decode()
    return pb.Decision(game_id=answer.game_id, request_id=answer.request_id, action=action)


def decision_from_wire(message: pb.Decision) -> Answer:
    """The answer to a request."""
    return Answer(message.game_id, message.request_id, message.action)


# Faults


def fault_to_wire(notice: FaultNotice) -> pb.FaultNotice:
    """A fault was counted."""
    return pb.FaultNotice(
        game_id=notice.game_id,
        request_id=notice.request_id,
        fault=_FAULTS[notice.fault],
        message=notice.message,
        forfeit=notice.forfeit,
    )


def fault_from_wire(message: pb.FaultNotice) -> FaultNotice:
    """A fault was counted."""
    return FaultNotice(
        game_id=message.game_id,
        request_id=message.request_id,
        fault=_known(_FAULT_NAMES, message.fault, "fault"),
        message=message.message,
        forfeit=message.forfeit,
    )
