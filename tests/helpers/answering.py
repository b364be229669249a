"""A server on loopback that answers as a test says, also with what no server should send.

Invariants: one thread for each connection; what the clients asked is kept; leaving `with` ends it.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

Reply = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Asked:
    """A request."""

    verb: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def token(self) -> str | None:
        """The token that came with it."""
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None


class Answering:
    """The server; `reply` is called with each request, in the connection's thread.

    tls   the settings of a server with a certificate; None: plain
    """

    def __init__(self, reply: Callable[[Asked], Reply], tls: ssl.SSLContext | None = None) -> None:
        self._reply = reply
        self.tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.asked: list[Asked] = []
        self.sent = 0
        """Bytes of replies that clients or the system have taken."""
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept)

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError, ValueError):
            connection = plain
            if self.tls is not None:
                connection = self.tls.wrap_socket(plain, server_side=True)
                self._open.append(connection)
            with connection:
                asked = _read(connection)
                if asked is None:
                    return
                self.asked.append(asked)
                reply = self._reply(asked)
                for part in (reply,) if isinstance(reply, bytes) else reply:
                    connection.sendall(part)
                    self.sent += len(part)


class Tunnel(Answering):
    """A proxy that connects everybody to one port of this machine, and keeps what they send."""

    def __init__(self, port: int) -> None:
        super().__init__(lambda _asked: b"")
        self._to = port
        self.seen = bytearray()

    def _serve(self, plain: socket.socket) -> None:
        with plain, socket.create_connection(("127.0.0.1", self._to)) as there:
            self._open.append(there)
            asked = _read(plain)
            if asked is None:
                return
            self.asked.append(asked)
            plain.sendall(begun())
            back = threading.Thread(target=self._carry, args=(there, plain))
            back.start()
            self._carry(plain, there)
            back.join()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                self.seen += part
                to.sendall(part)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)


def _read(connection: socket.socket) -> Asked | None:
    file = connection.makefile("rb")
    first = file.readline().split()
    if len(first) < 2:
        return None
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = file.read(int(headers.get("content-length", 0)))
    return Asked(first[0].decode(), first[1].decode(), headers, body)


def answer(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole response with JSON."""
    return text(_json(document), status, headers)


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def text(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole response with these bytes."""
    given = {"Content-Length": str(len(body)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def begun(headers: Mapping[str, str] | None = None) -> bytes:
    """The head of a response that ends with its connection."""
    lines = ["HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def refusal(code: str, message: str, status: int, retry_after: int | None = None) -> bytes:
    """A refusal as a ladder sends it."""
    error: dict[str, Any] = {"code": code, "message": message}
    if retry_after is not None:
        error["retry_after"] = retry_after
    return answer({"error": error}, status)


def event(document: object, name: str = "") -> bytes:
    """A server-sent event with JSON."""
    return (f"event: {name}\n" if name else "").encode() + b"data: %s\n\n" % _json(document)


def submission(state: str, **changed: object) -> dict[str, Any]:
    """A step of a bot's check."""
    usual: dict[str, Any] = {
        "id": "7",
        "bot": "greedy",
        "author": "anna",
        "state": state,
        "ahead": 0,
        "games": 0,
        "of_games": 3,
        "version": None,
        "digest": "",
        "found": "",
        "remedy": "",
        "error": "",
        "log": [],
        **dict.fromkeys(("created_at", "changed_at"), "2026-11-22T00:17:00.000Z"),
    }
    return {"submission": {**usual, **changed}}


@dataclass
class Scripted:
    """A ladder without anything behind it: documents by path, which may be functions."""

    documents: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(
        default_factory=lambda: {
            "version": "1",
            "url": "",
            "private": False,
            "season": "main",
            "submissions_until": None,
            "limits": [],
        }
    )

    def __call__(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0].removeprefix("/api/v1")
        if path == "/server" and path not in self.documents:
            return answer(self.server)
        found = self.documents.get(path)
        if callable(found):
            found = found(asked)
        if found is None:
            return refusal("NOT_FOUND", "there is no such address", 404)
        return answer(found) if isinstance(found, dict | list) else found
