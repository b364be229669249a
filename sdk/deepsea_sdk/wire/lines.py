"""The protocol "lines": the stream's messages as lines of JSON, for bots without gRPC.

Invariants: a line is one object in UTF-8, written in ASCII without spaces: its `type` first, then
`id` and `legal`, the events last, so that a program can find them without a JSON library. A line
says what its message says, in the words of the proto and of records. A bot's line is not trusted:
`WireError` names the first thing that is wrong with it, and of a line only the answer is used.
docs/protocol.md describes each line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any

from deepsea_rules.printable import quoted
from deepsea_rules.time_control import TimeControl
from deepsea_sdk import __version__
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import Note, note_of
from deepsea_sdk.errors import WireError, cut

from . import OF_REFEREE, RequestAnswer, sendable_action
from .framing import FAULT_NAMES, KINDS, UNKNOWN, name_of
from .games import events_from_wire, result_from_wire, start_from_wire

PROTOCOL = "deepsea-lines/1"
LINE_BYTES = 64 * 1024
"""Bytes of the longest line from a bot, without its end."""
_SHOWN = 80
"""Characters of a line in an error."""
_KIND_NAMES = {number: name for name, number in KINDS.items()}
_LOCATIONS = {
    pb.LOCATION_ABOARD: "aboard",
    pb.LOCATION_TRAIL: "trail",
    pb.LOCATION_HOME: "home",
}
_write = json.JSONEncoder(separators=(",", ":")).encode


def hello_line() -> bytes:
    """Return the referee's first line."""
    referee = f"deepsea-referee/{__version__}"
    hello = {"type": "hello", "protocol": PROTOCOL, "referee": referee, "features": OF_REFEREE}
    return _line(hello)


def ready_from_line(line: bytes) -> frozenset[str]:
    """Return the features in a bot's first line. Raise `WireError` for any other line."""
    message = _parsed_object(line)
    features = message.get("features", [])
    if message.get("type") != "ready":
        raise WireError(f'its first line is {_shown(line)}, and not {{"type":"ready"}}')
    if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
        raise WireError(f"features is a list of texts, not as in {_shown(line)}")
    return frozenset(features)


def answer_from_line(line: bytes) -> RequestAnswer:
    """Return the answer that a bot has written as a line. Raise `WireError` for any other line."""
    message = _parsed_object(line)
    if message.get("type") != "answer":
        raise WireError(f"it wrote {_shown(line)}, which is no answer")
    request_id = message.get("id")
    # `isinstance` would accept True. Ids are 64-bit numbers.
    if type(request_id) is not int or not 0 < request_id < 1 << 63:
        raise WireError(f"it wrote {_shown(line)}, which has no id of a request")
    action = message.get("action", "")
    # `error` replaces the action; `reason` says why an action is not legal.
    error_text = message.get("reason") if action else message.get("error")
    has_only_texts = isinstance(action, str) and isinstance(error_text, str | None)
    is_empty = not action and not error_text
    if not has_only_texts or is_empty:
        raise WireError(f"it wrote {_shown(line)}, which has neither action nor error as a text")
    error = cut(error_text) if error_text else None
    note = _note(message["note"]) if isinstance(message.get("note"), dict) else None
    return RequestAnswer(request_id, sendable_action(action), error, note)


def _note(message: dict[str, Any]) -> Note:
    """Return a note from `{"text": "...", "numbers": {"chance home": 0.7}}`.

    Parts of another form are left out, since a note is never a fault: JavaScript, for example,
    writes null for a number that is not finite.
    """
    text, numbers = message.get("text"), message.get("numbers")
    pairs = numbers.items() if isinstance(numbers, dict) else ()
    return note_of(
        text if isinstance(text, str) else "",
        ((name, _number(value)) for name, value in pairs),
    )


def _number(value: object) -> float:
    """Return the number of a JSON value, or NaN for anything else; a note leaves NaN out."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return nan
    try:
        return float(value)
    except OverflowError:
        return nan


def lines_of(data: bytes) -> tuple[bytes, list[str]]:
    """Return the lines of a `pb.PlayResponse`, and the texts of its faults for the bot's author."""
    message = pb.PlayResponse.FromString(data)
    lines = b"".join([_line(item) for item in _line_objects(message)])
    return lines, [fault.message for fault in message.faults]


def _line_objects(message: pb.PlayResponse) -> Iterator[dict[str, object]]:
    """Yield the JSON objects for a message's parts, each for a line, in the order to write them."""
    for start in message.starts:
        yield _start_object(start)
    for fault in message.faults:
        yield {
            "type": "fault",
            "id": fault.request_id,
            "fault": name_of(FAULT_NAMES, fault.fault),
            "message": fault.message,
            "forfeit": fault.forfeit,
        }
    for request in message.requests:
        yield _request_object(request)
    for result in message.results:
        yield _result_object(result)
    if message.HasField("goodbye"):
        yield {"type": "goodbye", "reason": message.goodbye.reason}


def _start_object(message: pb.GameStart) -> dict[str, object]:
    """Return the JSON object of a game's start."""
    info = start_from_wire(message)
    return {
        "type": "start",
        "game_id": info.game_id,
        "seat": info.seat,
        "seats": info.players,
        "rules": {"name": info.rules.name, "options": info.rules.options()},
        "clock": TimeControl(info.budget_us, info.bank_us).format(),
        "commitment": info.commitment,
    }


def _request_object(message: pb.DecisionRequest) -> dict[str, object]:
    """Return the JSON object of a request.

    `deadline_ms` is all the time that the bot has for it, the whole bank included.
    """
    return {
        "type": "decide",
        "id": message.request_id,
        "kind": _KIND_NAMES.get(message.kind, UNKNOWN),
        "legal": message.legal[:],
        "deadline_ms": (message.budget_us + message.bank_us) // 1000,
        "budget_ms": message.budget_us // 1000,
        "game_id": message.game_id,
        "view": _view_object(message.view),
        "events": events_from_wire(message.events),
    }


def _view_object(view: pb.View) -> dict[str, object]:
    """Return the JSON object of a view.

    Chips, units and spaces are numbers as in the message. `[:]` makes a list, which JSON can write,
    of protobuf's own container.
    """
    return {
        "seat": view.seat,
        "dive": view.dive,
        "air": view.air,
        "quiet_turns": view.quiet_turns,
        "trail": view.trail[:],
        "stacks": [
            {"chips": stack.chips[:], "tail_pile": stack.tail_pile} for stack in view.stacks
        ],
        "divers": [
            {
                "location": _LOCATIONS.get(diver.location, UNKNOWN),
                "space": diver.space,
                "homeward": diver.homeward,
                "barred": diver.barred,
                "cargo": diver.cargo[:],
                "bank": diver.bank[:],
                "banked_earlier": diver.banked_earlier,
            }
            for diver in view.divers
        ],
        "home_order": view.home_order[:],
        "known": {str(pair.chip): pair.value for pair in view.known},
    }


def _result_object(message: pb.GameResult) -> dict[str, object]:
    """Return the JSON object of a game's end."""
    end = result_from_wire(message, seat=0)  # the line does not name the seat
    return {
        "type": "end",
        "game_id": end.game_id,
        "is_void": end.is_void,
        "points": end.points,
        "placements": end.placements,
        "forfeits": [forfeit._asdict() for forfeit in end.forfeits],
        "seed": end.seed.hex(),
        "values": end.values[1:],
        "events": events_from_wire(message.events),
    }


def _line(message: Mapping[str, object]) -> bytes:
    """Return an object as a line of JSON."""
    return _write(message).encode() + b"\n"


def _parsed_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raise `WireError` for any other line."""
    try:
        # json would also decode bytes as UTF-16. Some languages begin with a byte order mark.
        message = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise WireError(f"it wrote {_shown(line)}, which is not JSON") from None
    if not isinstance(message, dict):
        raise WireError(f"it wrote {_shown(line)}, which is no JSON object")
    return message


def _shown(line: bytes) -> str:
    """Return a line as it is quoted in an error."""
    return quoted(line.decode(errors="backslashreplace"), _SHOWN)
