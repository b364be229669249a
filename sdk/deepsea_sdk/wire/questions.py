"""Decision requests and answers on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, cast

from deepsea_rules.events import Happening, new_tuple
from deepsea_rules.position import Phase
from deepsea_rules.ruleset import RuleSet
from deepsea_rules.view import View
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.author_error import cut
from deepsea_sdk.clock import TimeLeft

from .events import EventLog
from .framing import framed, tag, varint
from .numbers import KINDS, UNKNOWN
from .views import ViewWriter, view_from_wire

LONGEST_ACTION: Final = 1000
"""No action is as long as this; the referee's limit for a message is far above it."""

_VARINT: Final = 0
_GAME_ID: Final = tag(pb.DecisionRequest.DESCRIPTOR, "game_id")
_REQUESTS: Final = tag(pb.PlayResponse.DESCRIPTOR, "requests")
_REQUEST_ID: Final = tag(pb.DecisionRequest.DESCRIPTOR, "request_id", _VARINT)
_VIEW: Final = tag(pb.DecisionRequest.DESCRIPTOR, "view")


class Request(NamedTuple):
    """A decision to make, as a bot reads it. Its events are read by `events_from_wire`."""

    game_id: str
    request_id: int
    view: View
    time_left: TimeLeft


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


def request_from_wire(message: pb.DecisionRequest, rules: RuleSet) -> Request:
    """The request; the rules are those of the game's start.

    The view's kind is None if this version does not know what is asked.
    """
    view = view_from_wire(message.view, rules, message.legal)
    if KINDS.get(view.phase) != message.kind:
        view.phase = cast(Phase, UNKNOWN)
    time_left = new_tuple(TimeLeft, (message.budget_us, message.bank_us))
    return new_tuple(Request, (message.game_id, message.request_id, view, time_left))


class Answer(NamedTuple):
    """A decision that was made, as the referee reads it."""

    request_id: int
    action: str
    error: str | None = None
    """For the author: the error that prevented a decision; with an action, why it is not legal."""


def decision_to_wire(answer: tuple[int, str, str | None], decision: pb.Decision) -> None:
    """Write the answer to a request into an empty message.

    An action may be any text: the referee judges it, not the wire.
    """
    decision.request_id, action, error = answer
    if error is not None:
        if not action:
            decision.error = cut(error)
            return
        decision.reason = cut(error)
    if not action.isascii() or len(action) > LONGEST_ACTION:
        # No action looks like this, but its text must not break the stream.
        action = action[:LONGEST_ACTION].encode(errors="replace").decode()
    decision.action = action


def decision_from_wire(message: pb.Decision) -> Answer:
    """The answer to a request."""
    action = message.action
    if not action and message.HasField("error"):
        error: str | None = cut(message.error)
    else:
        error = cut(message.reason) if message.reason else None
    return new_tuple(Answer, (message.request_id, action, error))
