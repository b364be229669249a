"""What opens a stream and what begins and ends a game on the wire, and faults."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Final

from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import Event
from deepsea_rules.game import Forfeit
from deepsea_rules.ruleset import OPTIONS, RuleSet
from deepsea_sdk import __version__
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo
from deepsea_sdk.errors import WireError

from .events import event_to_wire
from .numbers import FAULT_NAMES, FAULTS, PROTOCOL_VERSION, known

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
        scores=end.points,
        placements=end.placements,
        seed=end.seed,
        values=end.values[1:],
        forfeits=[
            pb.Forfeit(seat=seat, fault=FAULTS[fault], decision=decision)
            for seat, fault, decision in end.forfeits
        ],
        void=end.void,
    )


def over_from_wire(message: pb.GameOver, seat: int) -> GameEnd:
    """The end of a game for the bot in `seat`. Its events are read by `events_from_wire`."""
    return GameEnd(
        game_id=message.game_id,
        seat=seat,
        points=tuple(message.scores),
        placements=tuple(message.placements),
        seed=message.seed,
        values=(0, *message.values) if message.values else (),
        forfeits=tuple(
            Forfeit(forfeit.seat, known(FAULT_NAMES, forfeit.fault, "fault"), forfeit.decision)
            for forfeit in message.forfeits
        ),
        void=message.void,
    )


# Faults


def fault_to_wire(notice: FaultNotice) -> pb.FaultNotice:
    """A fault was counted."""
    return pb.FaultNotice(
        game_id=notice.game_id,
        request_id=notice.request_id,
        fault=FAULTS[notice.fault],
        message=notice.message,
        forfeit=notice.forfeit,
    )


def fault_from_wire(message: pb.FaultNotice) -> FaultNotice:
    """A fault was counted."""
    return FaultNotice(
        game_id=message.game_id,
        request_id=message.request_id,
        fault=known(FAULT_NAMES, message.fault, "fault"),
        message=message.message,
        forfeit=message.forfeit,
    )
