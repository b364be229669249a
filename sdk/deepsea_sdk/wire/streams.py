"""The referee's messages as bytes, and a bot's bytes as answers.

The referee reads and writes bytes alone, so that only this package and the client know the
generated code. Messages in a row add up to one that says all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from deepsea_rules.events import Happening
from deepsea_sdk import __version__
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import FaultNotice, GameEnd, GameInfo
from deepsea_sdk.errors import WireError

from .features import OF_REFEREE
from .framing import framed, tag
from .games import fault_to_wire, result_to_wire, start_to_wire
from .questions import Answer, decision_from_wire

PACKAGE: Final = pb.DESCRIPTOR.package
SERVICE: Final = pb.DESCRIPTOR.services_by_name["PlayService"].full_name
METHOD: Final = "Play"

_STARTS, _RESULTS = (tag(pb.PlayResponse.DESCRIPTOR, name) for name in ("starts", "results"))


class Hello(NamedTuple):
    """The first message of a bot."""

    token: str
    features: frozenset[str]


class FromBot(NamedTuple):
    """One message of a bot; one that says nothing we know has neither."""

    hello: Hello | None
    answers: list[Answer]


def read_from_bot(data: bytes) -> FromBot:
    """Read one message; raises `WireError` if the bytes are none."""
    try:
        message = pb.PlayRequest.FromString(data)
    except DecodeError:
        raise WireError(f"it sent bytes that are no PlayRequest of {PACKAGE}") from None
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
    return framed(_STARTS, start_to_wire(info))


def fault_message(notice: FaultNotice) -> bytes:
    """A fault was counted; the notice's request names the game."""
    return pb.PlayResponse(faults=[fault_to_wire(notice)]).SerializeToString()


def result_message(end: GameEnd, happenings: Sequence[Happening]) -> bytes:
    """A game is over; `happenings` are those since the seat's last request."""
    return framed(_RESULTS, result_to_wire(end, happenings))


def void_message(game_id: str) -> bytes:
    """A game is over and does not count."""
    result = pb.GameResult(game_id=game_id, is_void=True)
    return pb.PlayResponse(results=[result]).SerializeToString()


def goodbye_message(reason: str) -> bytes:
    """No more games."""
    return pb.PlayResponse(goodbye=pb.Goodbye(reason=reason)).SerializeToString()
