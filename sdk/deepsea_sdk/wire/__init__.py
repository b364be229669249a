"""Conversion between the wire's messages and the objects that bots and the referee use.

This module has decision requests, answers, and the messages of a stream; games.py has rules, events
and views, framing.py the bytes of which all messages are made, and lines.py the protocol in lines
of JSON.

Invariants: an object that is written and read again is equal. A message is built from a view or an
event alone, never from a state, so that nothing reaches the wire that the seat may not know.
Nonsense raises `WireError`. Additions of a newer peer are skipped, or read as "unknown". An action
may be any text: the referee judges it, not the wire.

`THING_from_wire` reads what `THING_to_wire` or `THING_message` writes. Views, events and requests,
the hot path, are written as bytes (framing.py says why), and a game's requests by a
`RequestWriter`; everything else is written as a message, and everything is read as one. The referee
reads and writes bytes alone, by `THING_message` and `read_from_bot`, so that only this package and
the client know the generated code. Bytes of several messages in a row are one message with the
contents of all.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from google.protobuf.message import DecodeError

from deepsea_rules.events import EngineEvent, new_tuple
from deepsea_rules.position import Phase
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.view import View
from deepsea_sdk import __version__
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo, Note, TimeLeft, note_of
from deepsea_sdk.errors import WireError, cut

from .framing import FAULTS, KINDS, NUMBER, UNKNOWN, framed, tag, varint
from .games import EventLog, ViewWriter, event_to_wire, rules_to_wire, view_from_wire

CONCURRENT_GAMES = "concurrent_games"
"""Feature of a bot that keeps games apart, so that several may run at once over its stream."""
NO_EVENTS = "no_events"
"""Feature of a bot that reads no events: its requests and results come without them."""
OF_REFEREE: tuple[str, ...] = ()
"""Features of this version's referee."""

PACKAGE = pb.DESCRIPTOR.package
SERVICE = pb.DESCRIPTOR.services_by_name["PlayService"].full_name
METHOD = "Play"

LONGEST_ACTION = 1000
"""Characters of an action; longer ones are cut.

No legal action is as long, and the referee's limit for a message is far above it.
"""

MOST_DECISIONS = 1000
"""Decisions of a message; no message of the referee has room for as many requests."""

_STARTS, _REQUESTS, _RESULTS = (
    tag(pb.PlayResponse.DESCRIPTOR, name) for name in ("starts", "requests", "results")
)
_GAME_ID, _VIEW = (tag(pb.DecisionRequest.DESCRIPTOR, name) for name in ("game_id", "view"))
_REQUEST_ID = tag(pb.DecisionRequest.DESCRIPTOR, "request_id", NUMBER)
_RULES = tag(pb.GameStart.DESCRIPTOR, "rules")
_EVENTS = tag(pb.GameResult.DESCRIPTOR, "events")


class RequestWriter:
    """Writer of the requests of one game, with the events since each seat's last request.

    engine_events  the game's own list of events, which grows
    """

    def __init__(self, game_id: str, engine_events: Sequence[EngineEvent]) -> None:
        self._game_id_field = framed(_GAME_ID, game_id.encode())
        self._views = ViewWriter()
        self._log = EventLog(engine_events)

    def write(self, view: View, events_sent: int | None, time_left: TimeLeft) -> bytes:
        """Return the bytes of a `pb.DecisionRequest` to the view's seat, all but the request's id.

        events_sent  the number of events that the seat has got already: the later ones are added;
                     None for a bot that reads no events
        """
        # In protobuf the bytes of the fields in a row, in any order, are the message.
        choice_fields = _choice_fields(view.phase, view.legal, time_left)
        request = self._game_id_field + choice_fields + framed(_VIEW, self._views.write(view))
        if events_sent is None:
            return request
        return request + self._log.fields_after(events_sent, view.known)


@lru_cache(maxsize=4096)
def _choice_fields(phase: Phase, legal: tuple[str, ...], time_left: TimeLeft) -> bytes:
    """Return the bytes of a request's fields for the kind of decision, legal actions and time.

    They are cached, since the same ones occur in many requests.
    """
    budget_us, bank_us = time_left
    message = pb.DecisionRequest(
        kind=KINDS[phase], legal=legal, budget_us=budget_us, bank_us=bank_us
    )
    return message.SerializeToString()


def with_request_id(request: bytes, request_id: int) -> bytes:
    """Return the bytes of a `pb.PlayResponse` with one request, which gets this id.

    request  the bytes of the request without an id, from `RequestWriter.write`
    """
    # A protobuf message is its fields in any order, so the id may simply be appended. For the same
    # reason the results for several requests can be joined to one message with all of them.
    return framed(_REQUESTS, request + _REQUEST_ID + varint(request_id))


def request_from_wire(message: pb.DecisionRequest, rules: RuleSet) -> tuple[View, TimeLeft]:
    """Return the view and the time left of a request. Raise `WireError` for an invalid view.

    The view's `kind` is None if this version of the SDK does not know the kind of decision.

    rules  rules of the game, which came with its start
    """
    view = view_from_wire(message.view, rules, message.legal)
    # If the kind does not fit the phase, a newer referee asks for another kind of decision.
    if KINDS.get(view.phase) != message.kind:
        view.phase = cast(Phase, UNKNOWN)
    return view, new_tuple(TimeLeft, (message.budget_us, message.bank_us))


class RequestAnswer(NamedTuple):
    """The answer to a request, as the referee reads it from a `pb.Decision` or a line.

    docs/dev/processes.md lists the types that an answer has on its way into the record.
    """

    request_id: int
    action: str
    error: str | None = None
    """Text for the author.

    It is the error that prevented a decision or, with an action, why it is not legal.
    """
    note: Note | None = None


def decision_to_wire(
    answer: tuple[int, str, str | None, Note | None], decision: pb.Decision
) -> None:
    """Write the answer to a request into an empty message.

    answer  request id, action, error and note, as the fields of `RequestAnswer` describe them
    """
    decision.request_id, action, error, note = answer
    # An error without an action is an exception of the bot; beside an action that is not legal it
    # is the reason why not.
    if note is not None:
        numbers = [pb.NamedNumber(name=name, value=value) for name, value in note.numbers.items()]
        decision.note.MergeFrom(pb.Note(text=note.text, numbers=numbers))
    if error is not None:
        if not action:
            decision.error = cut(error)
            return
        decision.reason = cut(error)
    decision.action = sendable_action(action)


def sendable_action(action: str) -> str:
    """Return an action as a text that a message can hold, whatever text a bot has answered.

    Legal actions stay as they are. Any other text is cut to LONGEST_ACTION characters, and
    characters that UTF-8 does not have become question marks.
    """
    if action.isascii() and len(action) <= LONGEST_ACTION:
        return action
    return action[:LONGEST_ACTION].encode(errors="replace").decode()


def decision_from_wire(message: pb.Decision) -> RequestAnswer:
    """Return the answer to a request that a bot has sent, with texts cut to their longest."""
    action = message.action
    # `error` replaces the action; `reason` says why an action is not legal.
    error: str | None = None
    if not action and message.HasField("error"):
        error = cut(message.error)
    elif message.reason:
        error = cut(message.reason)
    note = None
    if message.HasField("note"):
        numbers = ((number.name, number.value) for number in message.note.numbers)
        note = note_of(message.note.text, numbers)
    # `new_tuple` makes a NamedTuple faster than its constructor.
    return new_tuple(RequestAnswer, (message.request_id, action, error, note))


# Streams


def hello_to_wire(token: str, features: Iterable[str] = ()) -> pb.PlayRequest:
    """Return the first message of a bot. Its features are some of the constants above."""
    sdk = f"deepsea-sdk/{__version__} python/{platform.python_version()}"
    return pb.PlayRequest(hello=pb.Hello(token=token, sdk=sdk, features=features))


class Hello(NamedTuple):
    """The first message of a bot."""

    token: str
    features: frozenset[str]


class BotMessage(NamedTuple):
    """A message of a bot; both fields are empty if nothing in it is known to this version."""

    hello: Hello | None
    answers: list[RequestAnswer]


def read_from_bot(data: bytes) -> BotMessage:
    """Return the Hello and the answers of a message that a bot has sent.

    Raise `WireError` for bytes that are not a message, and for a message with too many decisions.
    """
    try:
        message = pb.PlayRequest.FromString(data)
    except DecodeError:
        raise WireError(f"it sent bytes that are no PlayRequest of {PACKAGE}") from None
    count = len(message.decisions)
    if count > MOST_DECISIONS:
        raise WireError(
            f"it sent {count:,} decisions in a message, and {MOST_DECISIONS:,} are the most"
        )
    hello = None
    if message.HasField("hello"):
        hello = Hello(message.hello.token, frozenset(message.hello.features))
    return BotMessage(hello, [decision_from_wire(decision) for decision in message.decisions])


def welcome_message() -> bytes:
    """Return the answer to Hello."""
    welcome = pb.Welcome(referee=f"deepsea-referee/{__version__}", features=OF_REFEREE)
    return pb.PlayResponse(welcome=welcome).SerializeToString()


def start_message(info: GameInfo) -> bytes:
    """Return the bytes of the message that tells a bot of the start of a game, with its rules."""
    start = pb.GameStart(
        game_id=info.game_id,
        seat=info.seat,
        seats=info.players,
        clock=pb.ClockSettings(budget_us=info.budget_us, bank_us=info.bank_us),
        commitment=info.commitment,
    )
    return framed(_STARTS, start.SerializeToString() + _rules_field(info.rules))


@lru_cache(maxsize=16)
def _rules_field(rules: RuleSet) -> bytes:
    """Return the field `rules` of a start, which is the same in all games of a match."""
    return framed(_RULES, rules_to_wire(rules).SerializeToString())


def fault_message(notice: FaultNotice) -> bytes:
    """Return the bytes of the message that tells a bot of a fault.

    It names no game: the bot knows by the request's id to which game the fault belongs.
    """
    fault = pb.FaultNotice(
        request_id=notice.request_id,
        fault=FAULTS[notice.fault],
        message=notice.message,
        forfeit=notice.forfeit,
    )
    return pb.PlayResponse(faults=[fault]).SerializeToString()


def result_message(end: GameEnd, engine_events: Sequence[EngineEvent]) -> bytes:
    """Return the bytes of the message that tells a bot of the end of a game.

    engine_events  events since the seat's last request; none for a bot that reads no events
    """
    # At the end of a game all values are known.
    known_values = dict(enumerate(end.values)) if engine_events else {}
    events = [framed(_EVENTS, event_to_wire(event, known_values)) for event in engine_events]
    result = pb.GameResult(
        game_id=end.game_id,
        is_void=end.is_void,
        points=end.points,
        placements=end.placements,
        seed=end.seed,
        values=end.values[1:],  # chips count from 1
        forfeits=[
            pb.Forfeit(seat=seat, fault=FAULTS[fault], decision=decision)
            for seat, fault, decision in end.forfeits
        ],
    )
    return framed(_RESULTS, result.SerializeToString() + b"".join(events))


def void_message(game_id: str) -> bytes:
    """Return the message that a game is over and does not count."""
    result = pb.GameResult(game_id=game_id, is_void=True)
    return pb.PlayResponse(results=[result]).SerializeToString()


def goodbye_message(reason: str) -> bytes:
    """Return the message that there are no more games."""
    return pb.PlayResponse(goodbye=pb.Goodbye(reason=reason)).SerializeToString()
