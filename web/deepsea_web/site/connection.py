"""A connection to the site: what the server does before there is a request.

Invariants: a request has to be there within PATIENCE_S of its first byte or of the connection,
so that nobody holds connections by saying nothing or by saying it slowly; what is no HTTP gets 400
with the policy's headers, as everything does.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from deepsea_web.policy import HEADERS

PATIENCE_S: Final = 10
_HEAD: Final = "\r\n".join(
    (
        "HTTP/1.1 400 Bad Request",
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
    )
)


class Connection(H11Protocol):
    """A connection with a time limit for requests."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._limit is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and hang up."""
        if not self._is_answering():
            self.transport.write(f"{_HEAD}\r\n\r\n{msg}\n".encode())
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
