"""Connections to the site: the socket, its certificate, and limits before and after a request.

Invariants: a request has to be there within PATIENCE_S of its first byte or of the connection, and
an answer has to be read within `answer_seconds`, so that nobody holds connections by silence or
slowness; an address has so many of them, but not one that may be everybody's; bytes that are no
HTTP get 400 with the policy's headers, as everything does; a handshake has the certificate that is
in the files then; no cipher has CBC, nor a secret that comes out with the key.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from deepsea_ladder.accounts import source
from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.errors import UserError
from deepsea_web.server.access import HEADERS, Access

PATIENCE_S = 10
_HEAD = "\r\n".join(
    (
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
    )
)
BACKLOG = 2048
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; 1.3 has no others."""
_log = logging.getLogger(__name__)
_Seen = tuple[tuple[int, int, int] | None, ...]


class Connection(H11Protocol):
    """A connection with time limits for requests and for reading answers."""

    _limit: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _source: str | None = None

    def __init__(
        self,
        *given: Any,
        access: Access,
        limits: Callable[[], RemoteLimits],
        opened: Counter[str],
        **named: Any,
    ) -> None:
        """`opened` counts the connections of each address, and is shared by all of them."""
        super().__init__(*given, **named)
        self._access = access
        self._limits = limits
        self._opened = opened

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # what the system does not take at once, waits
        peer = self.client[0] if self.client else ""
        if not self._access.is_shared(peer):
            self._source = source(peer)
            self._opened[self._source] += 1
            if self._opened[self._source] > self._limits().connections_of_address:
                self._refuse("429 Too Many Requests", "too many connections from your address")
                return
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(self._limits().answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._limit is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        if self._source is not None:
            self._opened[self._source] -= 1
            if not self._opened[self._source]:
                del self._opened[self._source]
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and hang up."""
        self._refuse("400 Bad Request", msg)

    def _refuse(self, status: str, sentence: str) -> None:
        if not self._is_answering():
            self.transport.write(f"HTTP/1.1 {status}\r\n{_HEAD}\r\n\r\n{sentence}\n".encode())
        self.transport.close()

    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._limit = self.loop.call_later(PATIENCE_S, self._hang_up)

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _hang_up(self) -> None:
        self._limit = None
        if not self._is_answering():
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is one of the system's choice. Raises UserError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            raise UserError(
                f"port {port} of {host} is in use: choose another one with --port"
            ) from None
        if code == errno.EACCES:
            raise UserError(f"port {port} needs more rights: choose one above 1023") from None
        words = getattr(error, "strerror", None) or error
        raise UserError(f"--host {host} --port {port}: {words}") from None

    # For all that connect: asyncio does it by itself only for sockets that name their protocol, and
    # else a page of two parts waits 40 ms for the reader's word on the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Certificate:
    """A pair of PEM files; threads may share one. Raises UserError if there is none at first."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._lock = Lock()
        self._seen = self._look()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The settings of a server: each handshake has the pair as it is then."""
        outer = self._read()

        def choose(
            handshake: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
        ) -> None:
            handshake.context = self._now()

        outer.sni_callback = choose
        return outer

    def _now(self) -> ssl.SSLContext:
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self._context = self._read()
                except UserError as error:
                    _log.warning("%s; the pair before stays in use", error)
            return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_ciphers(CIPHERS)
        try:
            # Without a password: else it would be asked for on the terminal.
            context.load_cert_chain(self._chain, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or error
            raise UserError(f"--tls-cert {self._chain} --tls-key {self._key}: {words}") from None
        return context

    def _look(self) -> _Seen:
        return tuple(map(_state, (self._chain, self._key)))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
