"""A bot's side of the wire by hand: HTTP/2 frames and protobuf bytes, right or wrong as wished.

Copied into the sandbox beside the hostile programs, so: standard library only, and nothing here
runs by itself. Only as much of HTTP/2 and HPACK is understood as gRPC's own servers send.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PLAY = "/deepsea.play.v1.PlayService/Play"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
END_STREAM, END_HEADERS, ACK, PADDED = 1, 4, 1, 8
WIDE = (1 << 31) - 1
STATIC_STATUS = 8  # index of ":status: 200" in HPACK's table


# ---------------------------------------------------------------------------------- protobuf


def number(value: int) -> bytes:
    """A varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(index: int, value: int | str | bytes) -> bytes:
    """One field: a number, a text or an embedded message."""
    if isinstance(value, int):
        return number(index << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(index << 3 | 2) + number(len(data)) + data


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message from the referee."""
    at = 0

    def read() -> int:
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
        key = read()
        if key & 7 == 0:
            yield key >> 3, read()
        else:
            length = read()
            at += length
            yield key >> 3, data[at - length : at]


def hello(token: str | None = None, more: bytes = b"") -> bytes:
    """A PlayRequest with a Hello; with the right token if none is given.

    more  further fields of the Hello
    """
    right = os.environ["DEEPSEA_TOKEN"]
    return field(1, field(1, right if token is None else token) + more)


def decision(request_id: int, action: str | bytes) -> bytes:
    """A decision as a field of a PlayRequest."""
    return field(2, field(1, request_id) + field(2, action))


def failure(request_id: int, error: str | bytes) -> bytes:
    """A decision that failed, as a field of a PlayRequest."""
    return field(2, field(1, request_id) + field(3, error))


class Request(NamedTuple):
    """A question of the referee."""

    game_id: bytes
    request_id: int
    legal: list[bytes]

    def answered(self, action: str | bytes | None = None) -> bytes:
        """The PlayRequest that answers it, by default with the default action."""
        return decision(self.request_id, self.legal[0] if action is None else action)


def request_of(data: bytes) -> Request:
    """Read a DecisionRequest."""
    game_id, request_id, legal = b"", 0, []
    for index, value in fields(data):
        if index == 1 and isinstance(value, bytes):
            game_id = value
        elif index == 2 and isinstance(value, int):
            request_id = value
        elif index == 5 and isinstance(value, bytes):
            legal.append(value)
    return Request(game_id, request_id, legal)


# ------------------------------------------------------------------------------------ HTTP/2


def header(name: str, value: str) -> bytes:
    """A header field as an HPACK literal that no table remembers."""
    return b"\0" + b"".join(_length(len(text), 7) + text.encode() for text in (name, value))


def _length(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    return bytes([most]) + number(value - most)


def headers(path: str = PLAY, **more: str) -> bytes:
    """The header block of a gRPC call."""
    block = header(":method", "POST") + header(":scheme", "http") + header(":path", path)
    block += header(":authority", "localhost") + header("te", "trailers")
    block += header("content-type", "application/grpc")
    return block + b"".join(header(name.replace("_", "-"), text) for name, text in more.items())


class _Table:
    """What HPACK remembers of one connection; names of the fixed table are not needed."""

    def __init__(self) -> None:
        self._newest: list[tuple[str, str]] = []

    def read(self, block: bytes) -> dict[str, str]:
        found, at = {}, 0

        def whole(bits: int) -> int:
            nonlocal at
            most = (1 << bits) - 1
            value = block[at] & most
            at += 1
            if value == most:
                shift = 0
                while True:
                    byte = block[at]
                    at += 1
                    value += (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80:
                        break
            return value

        def text() -> str:
            nonlocal at
            packed = block[at] & 0x80
            length = whole(7)
            at += length
            return "(packed)" if packed else block[at - length : at].decode("latin-1")

        def named(index: int) -> tuple[str, str]:
            return self._newest[index - 62] if index > 61 else (f"#{index}", "")

        while at < len(block):
            byte = block[at]
            if byte & 0x80:
                name, value = named(whole(7))
            elif byte & 0xE0 == 0x20:  # a new size of the table
                whole(5)
                continue
            else:
                remembered = bool(byte & 0x40)
                index = whole(6 if remembered else 4)
                name = named(index)[0] if index else text()
                value = text()
                if remembered:
                    self._newest.insert(0, (name, value))
            found[name] = value
        return found


class Frame(NamedTuple):
    """One frame as it came."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class Connection:
    """A connection to the referee over which anything can be sent."""

    def __init__(self, window: int = WIDE, address: str | None = None) -> None:
        self.socket = connect(address)
        self._table = _Table()
        self._unread = b""
        self._pieces: dict[int, bytes] = {}
        self.status: dict[int, str] = {}
        """How each stream ended: the name of gRPC's status, "reset N" or "gone"."""
        self.details: dict[int, str] = {}
        self.goaway: int | None = None
        """The error code with which the referee ended the connection."""
        self.socket.sendall(PREFACE)
        self.frame(SETTINGS, payload=b"\0\4" + window.to_bytes(4, "big"))
        if window == WIDE:
            self.frame(WINDOW_UPDATE, payload=(WIDE - 65535).to_bytes(4, "big"))

    def frame(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        """Send one frame."""
        self.socket.sendall(frame(kind, flags, stream, payload))

    def open(self, stream: int = 1, path: str = PLAY, **more: str) -> None:
        """Begin a call."""
        self.frame(HEADERS, END_HEADERS, stream, headers(path, **more))

    def message(self, data: bytes, stream: int = 1, *, flags: int = 0, packed: int = 0) -> None:
        """Send one message, in as many frames as it needs."""
        data = bytes([packed]) + len(data).to_bytes(4, "big") + data
        for at in range(0, len(data), 16384):
            last = at + 16384 >= len(data)
            self.frame(DATA, flags if last else 0, stream, data[at : at + 16384])

    def receive(self) -> Frame | None:
        """The next frame, None at the end; acknowledges what has to be."""
        while len(self._unread) < (end := 9 + int.from_bytes(self._unread[:3], "big")):
            try:
                piece = self.socket.recv(1 << 16)
            except OSError:
                piece = b""
            if not piece:
                return None
            self._unread += piece
        kind, flags = self._unread[3], self._unread[4]
        one = Frame(
            kind, flags, int.from_bytes(self._unread[5:9], "big") & WIDE, self._unread[9:end]
        )
        self._unread = self._unread[end:]
        self._attend(one)
        return one

    def messages(self, stream: int = 1) -> Iterator[bytes]:
        """The messages of a stream until it ends."""
        while stream not in self.status:
            one = self.receive()
            if one is None:
                self.status.setdefault(stream, "gone")
                return
            if one.kind == DATA and one.stream == stream:
                data = self._pieces.get(stream, b"") + one.payload
                while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
                    length = 5 + int.from_bytes(data[1:5], "big")
                    yield data[5:length]
                    data = data[length:]
                self._pieces[stream] = data

    def end_of(self, stream: int = 1) -> str:
        """Wait for the end of a stream; its status."""
        for _ in self.messages(stream):
            pass
        return self.status[stream]

    def _attend(self, one: Frame) -> None:
        if one.kind == SETTINGS and not one.flags & ACK:
            self._reply(SETTINGS, ACK)
        elif one.kind == PING and not one.flags & ACK:
            self._reply(PING, ACK, one.payload)
        elif one.kind == GOAWAY:
            self.goaway = int.from_bytes(one.payload[4:8], "big")
        elif one.kind == RST_STREAM:
            code = int.from_bytes(one.payload, "big")
            self.status.setdefault(one.stream, f"reset {code}")
        elif one.kind == HEADERS:
            found = self._table.read(one.payload)
            if one.flags & END_STREAM:
                self.status.setdefault(one.stream, found.get("grpc-status", "none"))
                self.details.setdefault(one.stream, found.get("grpc-message", ""))

    def _reply(self, kind: int, flags: int, payload: bytes = b"") -> None:
        try:
            self.frame(kind, flags, 0, payload)
        except OSError:
            return  # it has hung up; what it said before can still be read


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def connect(address: str | None = None) -> socket.socket:
    """A bare connection to the referee."""
    address = os.environ["DEEPSEA_ADDRESS"] if address is None else address
    if address.startswith("unix:"):
        bare = socket.socket(socket.AF_UNIX)
        bare.connect(address.removeprefix("unix:"))
        return bare
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


class Bot(Connection):
    """A bot that connects on stream 1; it plays default actions unless a test says otherwise."""

    def __init__(self, window: int = WIDE, said: bytes | None = None, **more: str) -> None:
        """`said` is its first message, a plain hello by default."""
        super().__init__(window)
        self.open(1, PLAY, **more)
        self.message(hello() if said is None else said)

    def requests(self) -> Iterator[Request]:
        """The questions, one by one, until goodbye or the end of the stream."""
        for message in self.messages():
            for index, value in fields(message):
                if index == 4 and isinstance(value, bytes):
                    yield request_of(value)
                elif index == 6:
                    return

    def play(self) -> str:
        """Answer everything with the default action; how the stream ended, "" if by goodbye."""
        for request in self.requests():
            self.answer(request)
        return self.status.get(1, "")

    def answer(self, request: Request, action: str | bytes | None = None) -> None:
        """Answer a question; nothing if nobody listens any more."""
        try:
            self.message(request.answered(action))
        except OSError:
            return
