"""A bot that knows the proto and nothing else: no SDK, no generated code, not even protobuf.

It reads and writes the wire format by hand, as a bot in any language could. Field numbers are those
of proto/deepsea/play/v1/play.proto. It always chooses the last legal action.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from queue import SimpleQueue

import grpc


def number(value: int) -> bytes:
    """A varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(index: int, value: int | str | bytes) -> bytes:
    """One field of a message: a number, a text or an embedded message."""
    if isinstance(value, int):
        return number(index << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(index << 3 | 2) + number(len(data)) + data


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order; there are only varints and lengths in this proto."""
    at = 0

    def read_number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = read_number()
        if key & 7 == 0:
            yield key >> 3, read_number()
        elif key & 7 == 2:
            length = read_number()
            at += length
            yield key >> 3, data[at - length : at]
        else:
            raise ValueError(f"wire type {key & 7} is not in this proto")


def answer(request: bytes) -> bytes:
    """The Decision (request_id = 1, action = 2) for a DecisionRequest (2 and legal = 5)."""
    request_id, legal = 0, []
    for index, value in fields(request):
        if index == 2 and isinstance(value, int):
            request_id = value
        elif index == 5:
            legal.append(value)
    action = legal[-1]
    assert isinstance(action, bytes)
    return field(1, request_id) + field(2, action)


def main() -> None:
    """Say hello, answer every request, leave at goodbye."""
    outbox: SimpleQueue[bytes | None] = SimpleQueue()
    hello = field(1, os.environ["DEEPSEA_TOKEN"]) + field(2, "raw bot")
    outbox.put(field(1, hello))
    with grpc.insecure_channel(os.environ["DEEPSEA_ADDRESS"]) as channel:
        # Without serializers, messages are bytes.
        play: grpc.StreamStreamMultiCallable[bytes, bytes]
        play = channel.stream_stream("/deepsea.play.v1.PlayService/Play")
        for message in play(iter(outbox.get, None)):
            # PlayResponse: requests = 4, goodbye = 6; the rest may be passed over.
            parts = list(fields(message))
            requests = [value for index, value in parts if index == 4 and isinstance(value, bytes)]
            if requests:
                outbox.put(b"".join(field(2, answer(request)) for request in requests))
            if any(index == 6 for index, _ in parts):
                break
        outbox.put(None)


if __name__ == "__main__":
    main()
