"""A connection to the site: what the server does before there is a request, and until it is read.

Invariants: a request has to be there within PATIENCE_S of its first byte or of the connection, and
what is sent has to be read within `answer_seconds`, so that nobody holds connections by silence or
slowness; an address has so many of them, but not one that may be everybody's; what is no HTTP gets
400 with the policy's headers, as everything does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from deepsea_ladder.accounts import source
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_web.http import HEADERS
from deepsea_web.server.access import Access

PATIENCE_S: Final = 10
_HEAD: Final = "\r\n".join(
    (
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
    )
)


class Connection(H11Protocol):
    """A connection with time limits for requests and for reading answers."""

    _limit: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _source: str | None = None

    def __init__(
        self, *given: Any, access: Access, limits: RemoteLimits, opened: Counter[str], **named: Any
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
            if self._opened[self._source] > self._limits.connections_of_address:
                self._refuse("429 Too Many Requests", "too many connections from your address")
                return
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(self._limits.answer_seconds, self.transport.abort)

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
