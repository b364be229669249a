"""Between the wire's messages and the objects that bots and the referee use.

Here are decision requests, answers, and the messages of a stream. Invariants: what is written and
read again is equal; a message is built from a view or an event alone, never from a state, so
nothing can reach the wire that the seat may not know; what makes no sense raises `WireError`; what
a newer peer has added is skipped, or read as "unknown"; an action may be any text, which the
referee judges, not the wire.

`THING_from_wire` reads what `THING_to_wire` or `THING_message` writes. Views, events and requests,
the hot path, are written as bytes (framing.py says why), and a game's requests by a
`RequestWriter`; everything else is written as a message, and everything is read as one. The referee
reads and writes bytes alone, so that only this package and the client know the generated code:
`THING_message` and `read_from_bot`; its messages in a row add up to one that says all of them.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from google.protobuf.message import DecodeError

from deepsea_rules.events import Happening, new_tuple
from deepsea_rules.position import Phase
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.view import View
from deepsea_sdk import __version__
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.errors import WireError, cut
from deepsea_sdk.notes import Note, note_of

from .framing import FAULTS, KINDS, NUMBER, UNKNOWN, framed, tag, varint
from .games import EventLog, event_to_wire, rules_to_wire
from .views import ViewWriter, view_from_wire

CONCURRENT_GAMES = "concurrent_games"
"""The bot keeps games apart, so that several may run at once over its stream."""
NO_EVENTS = "no_events"
"""The bot reads no events: its requests and results come without them."""
OF_REFEREE: tuple[str, ...] = ()
"""The features of this version's referee."""

PACKAGE = pb.DESCRIPTOR.package
SERVICE = pb.DESCRIPTOR.services_by_name["PlayService"].full_name
METHOD = "Play"

LONGEST_ACTION = 1000
"""No action is as long as this; the referee's limit for a message is far above it."""

MOST_DECISIONS = 1000
"""Of a message; no message of the referee has room for as many requests."""

_STARTS, _REQUESTS, _RESULTS = (
    tag(pb.PlayResponse.DESCRIPTOR, name) for name in ("starts", "requests", "results")
)
_GAME_ID, _VIEW = (tag(pb.DecisionRequest.DESCRIPTOR, name) for name in ("game_id", "view"))
_REQUEST_ID = tag(pb.DecisionRequest.DESCRIPTOR, "request_id", NUMBER)
_RULES = tag(pb.GameStart.DESCRIPTOR, "rules")
_EVENTS = tag(pb.GameResult.DESCRIPTOR, "events")


class RequestWriter:
    """Writes the requests of one game, with what happened in between.

    happenings  the game's own list, which grows
    """

    def __init__(self, game_id: str, happenings: Sequence[Happening]) -> None:
        self._name = framed(_GAME_ID, game_id.encode())
        self._views = ViewWriter()
        self._log = EventLog(happenings)

    def write(self, view: View, since: int | None, time_left: TimeLeft) -> bytes:
        """Ask the view's seat for its decision: the bytes of a `pb.DecisionRequest` without its id.

        since  how many happenings the seat has been sent; None for a bot that reads none
        """
        rest = _rest_of_request(view.phase, view.legal, time_left)
        request = self._name + rest + framed(_VIEW, self._views.write(view))
        return request if since is None else request + self._log.since(since, view.known)


@lru_cache(maxsize=4096)
def _rest_of_request(phase: Phase, legal: tuple[str, ...], time_left: TimeLeft) -> bytes:
    budget_us, bank_us = time_left
    rest = pb.DecisionRequest(kind=KINDS[phase], legal=legal, budget_us=budget_us, bank_us=bank_us)
    return rest.SerializeToString()


def numbered(request: bytes, request_id: int) -> bytes:
    """The bytes of a `pb.PlayResponse` that asks this with an id; such bytes in a row ask all."""
    return framed(_REQUESTS, request + _REQUEST_ID + varint(request_id))


def request_from_wire(message: pb.DecisionRequest, rules: RuleSet) -> tuple[View, TimeLeft]:
    """The view of a request, and the time for it; the rules are those of the game's start.

    The view's kind is None if this version does not know what is asked.
    """
    view = view_from_wire(message.view, rules, message.legal)
    if KINDS.get(view.phase) != message.kind:
        view.phase = cast(Phase, UNKNOWN)
    return view, new_tuple(TimeLeft, (message.budget_us, message.bank_us))


class Answer(NamedTuple):
    """A decision that was made, as the referee reads it."""

    request_id: int
    action: str
    error: str | None = None
    """For the author: the error that prevented a decision; with an action, why it is not legal."""
    note: Note | None = None


def decision_to_wire(
    answer: tuple[int, str, str | None, Note | None], decision: pb.Decision
) -> None:
    """Write the answer to a request into an empty message."""
    decision.request_id, action, error, note = answer
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
    """The text of an action, cut, as UTF-8: no action is changed, and no text breaks the stream."""
    if action.isascii() and len(action) <= LONGEST_ACTION:
        return action
    return action[:LONGEST_ACTION].encode(errors="replace").decode()


def decision_from_wire(message: pb.Decision) -> Answer:
    action = message.action
    if not action and message.HasField("error"):
        error: str | None = cut(message.error)
    else:
        error = cut(message.reason) if message.reason else None
    note = None
    if message.HasField("note"):
        said = message.note
        note = note_of(said.text, ((number.name, number.value) for number in said.numbers))
    return new_tuple(Answer, (message.request_id, action, error, note))


# Streams


def hello_to_wire(token: str, features: Iterable[str] = ()) -> pb.PlayRequest:
    """The first message of a bot; `features` are some of the features above."""
    sdk = f"deepsea-sdk/{__version__} python/{platform.python_version()}"
    return pb.PlayRequest(hello=pb.Hello(token=token, sdk=sdk, features=features))


class Hello(NamedTuple):
    """The first message of a bot."""

    token: str
    features: frozenset[str]


class FromBot(NamedTuple):
    """One message of a bot; one that says nothing we know has neither."""

    hello: Hello | None
    answers: list[Answer]


def read_from_bot(data: bytes) -> FromBot:
    """Read one message; raises `WireError` if the bytes are none, or say too much."""
    try:
        message = pb.PlayRequest.FromString(data)
    except DecodeError:
        raise WireError(f"it sent bytes that are no PlayRequest of {PACKAGE}") from None
    if (count := len(message.decisions)) > MOST_DECISIONS:
        raise WireError(
            f"it sent {count:,} decisions in a message, and {MOST_DECISIONS:,} are the most"
        )
    hello = None
    if message.HasField("hello"):
        said = message.hello
        hello = Hello(said.token, frozenset(said.features))
    return FromBot(hello, [decision_from_wire(decision) for decision in message.decisions])


def welcome_message() -> bytes:
    """The answer to Hello."""
    welcome = pb.Welcome(referee=f"deepsea-referee/{__version__}", features=OF_REFEREE)
    return pb.PlayResponse(welcome=welcome).SerializeToString()


def start_message(info: GameInfo) -> bytes:
    """A game begins."""
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
    """The same in all games of a match."""
    return framed(_RULES, rules_to_wire(rules).SerializeToString())


def fault_message(notice: FaultNotice) -> bytes:
    """A fault was counted; the notice's request names the game."""
    fault = pb.FaultNotice(
        request_id=notice.request_id,
        fault=FAULTS[notice.fault],
        message=notice.message,
        forfeit=notice.forfeit,
    )
    return pb.PlayResponse(faults=[fault]).SerializeToString()


def result_message(end: GameEnd, happenings: Sequence[Happening]) -> bytes:
    """A game is over; `happenings` are those since the seat's last request."""
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
    return framed(_RESULTS, result.SerializeToString() + b"".join(events))


def void_message(game_id: str) -> bytes:
    """A game is over and does not count."""
    result = pb.GameResult(game_id=game_id, is_void=True)
    return pb.PlayResponse(results=[result]).SerializeToString()


def goodbye_message(reason: str) -> bytes:
    """No more games."""
    return pb.PlayResponse(goodbye=pb.Goodbye(reason=reason)).SerializeToString()
