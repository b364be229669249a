"""Between the wire's messages and the objects that bots and the referee use.

Invariants: what is written and read again is equal; a message is built from a view or an event
alone, never from a state, so nothing can reach the wire that the seat may not know; what makes no
sense raises `WireError`; what a newer peer has added is skipped, or read as "unknown".

For each thing there is a pair, `THING_to_wire` and `THING_from_wire`. Views, events and requests,
the hot path, are written as bytes (framing.py says why), and a game's requests by a
`RequestWriter`; everything else is written as a message, and everything is read as one. The
referee uses the bytes of whole messages: `THING_message` and `read_from_bot`.
"""

from .games import (
    events_from_wire,
    fault_from_wire,
    last_events_from_wire,
    result_from_wire,
    start_from_wire,
)
from .messages import (
    CONCURRENT_GAMES,
    METHOD,
    NO_EVENTS,
    SERVICE,
    Answer,
    RequestWriter,
    decision_to_wire,
    fault_message,
    goodbye_message,
    hello_to_wire,
    numbered,
    read_from_bot,
    request_from_wire,
    result_message,
    start_message,
    void_message,
    welcome_message,
)

__all__ = [
    "CONCURRENT_GAMES",
    "METHOD",
    "NO_EVENTS",
    "SERVICE",
    "Answer",
    "RequestWriter",
    "decision_to_wire",
    "events_from_wire",
    "fault_from_wire",
    "fault_message",
    "goodbye_message",
    "hello_to_wire",
    "last_events_from_wire",
    "numbered",
    "read_from_bot",
    "request_from_wire",
    "result_from_wire",
    "result_message",
    "start_from_wire",
    "start_message",
    "void_message",
    "welcome_message",
]
