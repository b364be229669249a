"""Hello, rules, the start and end of games, and faults on the wire."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import Event, Happening, end_event
from deepsea_rules.game import Forfeit
from deepsea_rules.ruleset import DEFAULT, OPTIONS, PRESETS, RuleSet
from deepsea_rules.scoring import Result
from deepsea_sdk import __version__
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo
from deepsea_sdk.errors import WireError

from .events import event_to_wire, events_from_wire
from .framing import framed, tag
from .numbers import FAULT_NAMES, FAULTS, name_of


def hello_to_wire(token: str, features: Iterable[str] = ()) -> pb.PlayRequest:
    """The first message of a bot; `features` are some of those in `features.py`."""
    sdk = f"deepsea-sdk/{__version__} python/{platform.python_version()}"
    return pb.PlayRequest(hello=pb.Hello(token=token, sdk=sdk, features=features))


# Rules


_RULES: Final = tag(pb.GameStart.DESCRIPTOR, "rules")
_EVENTS: Final = tag(pb.GameResult.DESCRIPTOR, "events")


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


@lru_cache(maxsize=16)
def _rules_field(rules: RuleSet) -> bytes:
    """The same in all games of a match."""
    return framed(_RULES, rules_to_wire(rules).SerializeToString())


def start_to_wire(info: GameInfo) -> bytes:
    """The bytes of a `pb.GameStart`: a game begins."""
    start = pb.GameStart(
        game_id=info.game_id,
        seat=info.seat,
        seats=info.players,
        clock=pb.ClockSettings(budget_us=info.budget_us, bank_us=info.bank_us),
        commitment=info.commitment,
    )
    return start.SerializeToString() + _rules_field(info.rules)


def start_from_wire(message: pb.GameStart) -> GameInfo:
    """A game begins."""
    return GameInfo(
        game_id=message.game_id,
        seat=message.seat,
        players=message.seats,
        rules=rules_from_wire(message.rules),
        budget_us=message.clock.budget_us,
        bank_us=message.clock.bank_us,
        commitment=message.commitment,
    )


def result_to_wire(end: GameEnd, happenings: Sequence[Happening]) -> bytes:
    """The bytes of a `pb.GameResult`: a game is over.

    happenings  what happened since the seat's last request
    """
    known = dict(enumerate(end.values)) if happenings else {}
    events = [framed(_EVENTS, event_to_wire(one, known)) for one in happenings]
    result = pb.GameResult(
        game_id=end.game_id,
        is_void=end.is_void,
        points=end.points,
        placements=end.placements,
        seed=end.seed,
        values=end.values[1:],
        forfeits=[
            pb.Forfeit(seat=seat, fault=FAULTS[fault], decision=decision)
            for seat, fault, decision in end.forfeits
        ],
    )
    return result.SerializeToString() + b"".join(events)


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


def fault_to_wire(notice: FaultNotice) -> pb.FaultNotice:
    """A fault was counted."""
    return pb.FaultNotice(
        request_id=notice.request_id,
        fault=FAULTS[notice.fault],
        message=notice.message,
        forfeit=notice.forfeit,
    )


def fault_from_wire(message: pb.FaultNotice, game_id: str) -> FaultNotice:
    """A fault was counted in the game of the request."""
    return FaultNotice(
        game_id=game_id,
        request_id=message.request_id,
        fault=name_of(FAULT_NAMES, message.fault),
        message=message.message,
        forfeit=message.forfeit,
    )
