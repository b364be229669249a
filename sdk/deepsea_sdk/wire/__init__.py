"""Between the wire's messages and the objects that bots and the referee use.

Laws: what is written and read again is equal; a message is built from a view or an event alone,
never from a state, so nothing can reach the wire that the seat may not know; what cannot be
understood raises `WireError`.

For each thing there is a pair, `THING_to_wire` and `THING_from_wire`. Views, turns and requests,
the hot path, are written as bytes (framing.py says why), and a game's requests by a
`RequestWriter`; everything else is written as a message, and everything is read as one.
"""

from .events import event_from_wire, event_to_wire, events_from_wire
from .games import (
    fault_from_wire,
    fault_to_wire,
    hello_to_wire,
    over_from_wire,
    over_to_wire,
    rules_from_wire,
    rules_to_wire,
    start_from_wire,
    start_to_wire,
)
from .numbers import PROTOCOL_VERSION
from .questions import (
    Answer,
    Request,
    RequestWriter,
    decision_from_wire,
    decision_to_wire,
    numbered,
    request_from_wire,
)
from .views import view_from_wire, view_to_wire

__all__ = [
    "PROTOCOL_VERSION",
    "Answer",
    "Request",
    "RequestWriter",
    "decision_from_wire",
    "decision_to_wire",
    "event_from_wire",
    "event_to_wire",
    "events_from_wire",
    "fault_from_wire",
    "fault_to_wire",
    "hello_to_wire",
    "numbered",
    "over_from_wire",
    "over_to_wire",
    "request_from_wire",
    "rules_from_wire",
    "rules_to_wire",
    "start_from_wire",
    "start_to_wire",
    "view_from_wire",
    "view_to_wire",
]
