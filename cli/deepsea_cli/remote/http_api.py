"""The HTTP API of a ladder, over the standard library alone.

Invariant: one connection for one call, which a timer closes when its time is up, however slowly the
server drips.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from deepsea_cli.remote.address import Address
from deepsea_cli.remote.errors import BadServer, Refused, Unreachable
from deepsea_cli.remote.routes import target
from deepsea_cli.remote.tls import certificate_name, connect
from deepsea_cli.remote.transport import (
    DEADLINE_S,
    LARGEST,
    LARGEST_PART,
    MOST_ITEMS,
    SILENCE_S,
    Answers,
    Document,
    Sent,
    pieces,
    sentence,
)

SHA256: Final = "x-content-sha256"
KEY: Final = "idempotency-key"
_BROKEN: Final = ("UNAVAILABLE", "INTERNAL")
"""Refusals that are no fault of who asks."""


class _Connection(http.client.HTTPConnection):
    """A connection for one call."""

    _answer: http.client.HTTPResponse | None = None

    def getresponse(self) -> http.client.HTTPResponse:
        """The answer; it is closed with the connection."""
        self._answer = super().getresponse()
        return self._answer

    def end(self) -> None:
        """Close both."""
        if self._answer is not None:
            self._answer.close()
        self.close()


class HttpApi:
    """Asks a ladder over HTTP.

    token     sent with every call, if there is one
    pinned    the one certificate that is accepted, as PEM
    deadline  seconds after which an answer has come too late
    """

    def __init__(
        self,
        address: Address,
        token: str | None = None,
        pinned: str | None = None,
        *,
        deadline: float = DEADLINE_S,
    ) -> None:
        self._address = address
        self._token = token
        self._pinned = pinned
        self._deadline = deadline
        self.certificate_name: str | None = None
        """A name that the pinned certificate is for, once there was a connection."""

    def ask(self, name: str, fields: Document) -> Document:
        """The answer of a method that has one."""
        verb, path, body = target(name, fields)
        with self._connected(self._deadline) as connection:
            response = self._sent(connection, verb, path, body)
            return self._document(self._whole(response))

    def follow(self, name: str, fields: Document) -> Answers:
        """The answers of a method as they come, a line each."""
        verb, path, body = target(name, fields)
        with self._connected(None) as connection:
            yield from self._lines(self._sent(connection, verb, path, body))

    def upload(self, header: Document, archive: bytes, sent: Sent) -> Answers:
        """Submit a bot; the answers as they come."""
        verb, path, _ = target("Submit", {"bot": header["bot"]})
        headers = {
            "content-type": "application/zip",
            "content-length": str(len(archive)),
            SHA256: str(header["sha256"]),
            KEY: str(header["key"]),
        }
        with self._connected(None) as connection:
            connection.putrequest(verb, self._address.prefix + path, skip_accept_encoding=True)
            for key, value in {**self._headers(), **headers}.items():
                connection.putheader(key, value)
            connection.endheaders()
            # Who refuses an upload may answer before it is whole.
            with suppress(ConnectionError):
                for piece in pieces(archive, sent):
                    connection.send(piece)
            yield from self._lines(self._checked(connection.getresponse()))

    def close(self) -> None:
        """Nothing is left open."""

    # ---------------------------------------------------------------------------------- within

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "application/json", "connection": "close"}
        return headers if self._token is None else headers | _bearer(self._token)

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        verb: str,
        path: str,
        body: dict[str, Any] | None,
    ) -> http.client.HTTPResponse:
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers()
        if content is not None:
            headers["content-type"] = "application/json"
        connection.request(verb, self._address.prefix + path, content, headers)
        return self._checked(connection.getresponse())

    @contextmanager
    def _connected(self, deadline: float | None) -> Iterator[http.client.HTTPConnection]:
        """A connection that is closed after `deadline` seconds, or if it is silent for too long."""
        address = self._address
        connection = _Connection(address.host, address.port)
        # Kept here, too: the connection forgets it when the answer will end with it.
        connection.sock = line = connect(address, self._pinned)
        if self._pinned is not None:
            self.certificate_name = certificate_name(line)
        line.settimeout(SILENCE_S if deadline is None else deadline)
        late = threading.Event()

        def end() -> None:
            late.set()
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        timer = None if deadline is None else threading.Timer(deadline, end)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield connection
        except (BadServer, http.client.HTTPException, OSError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise Unreachable(f"{address.url} does not answer in time") from None
            if isinstance(error, http.client.IncompleteRead | OSError):
                raise Unreachable(f"the connection to {address.url} broke") from None
            if isinstance(error, BadServer):
                raise
            raise BadServer(f"what answers at {address.url} is no ladder") from None
        finally:
            if timer is not None:
                timer.cancel()
            connection.end()

    def _checked(self, response: http.client.HTTPResponse) -> http.client.HTTPResponse:
        """The response, if it is an answer."""
        status = response.status
        if status < 300:
            return response
        if status < 400:
            raise BadServer(
                f"{self._address.url} sends its callers elsewhere (HTTP {status}): "
                "use the address that it has itself"
            )
        error = self._document(self._whole(response), status).get("error")
        if not isinstance(error, dict):
            raise BadServer(f"what answers at {self._address.url} is no ladder (HTTP {status})")
        raise self._refusal(error)

    def _refusal(self, error: Document) -> Exception:
        code, text = sentence(error.get("code")), sentence(error.get("message"))
        wait = error.get("retry_after")
        if code in _BROKEN:
            return Unreachable(f"{self._address.url}: {text or code}")
        return Refused(code, text, wait if type(wait) is int and 0 <= wait < 10**6 else None)

    def _whole(self, response: http.client.HTTPResponse) -> bytes:
        content = bytearray()
        while part := response.read(1 << 16):
            content += part
            if len(content) > LARGEST:
                raise BadServer(f"{self._address.url} answers with more than {LARGEST >> 20} MiB")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return bytes(content)

    def _lines(self, response: http.client.HTTPResponse) -> Answers:
        while line := response.readline(LARGEST_PART + 1):
            if len(line) > LARGEST_PART:
                raise BadServer(f"{self._address.url} sends a line without end")
            if not line.endswith(b"\n"):
                raise http.client.IncompleteRead(line)
            if not line.strip():
                continue  # nothing new
            document = self._document(line)
            if isinstance(error := document.get("error"), dict):
                raise self._refusal(error)
            yield document

    def _document(self, content: bytes, status: int = 200) -> Document:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or _items(document) > MOST_ITEMS:
            code = "" if status == 200 else f" (HTTP {status})"
            raise BadServer(f"what answers at {self._address.url} is no ladder{code}")
        return document


def _items(document: object) -> int:
    """The number of items in all lists of a document."""
    count, left = 0, [document]
    while left and count <= MOST_ITEMS:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            count += len(value)
            left += value
    return count


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
