"""A ladder that is asked from afar: gRPC where that can be reached, else its HTTP API.

Invariant: gRPC is used on the host that the user has named, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, TypeVar

from deepsea_arena.wire.reading import DocumentError, from_json
from deepsea_cli.remote.address import Address
from deepsea_cli.remote.answers import Server
from deepsea_cli.remote.errors import BadServer
from deepsea_cli.remote.http_api import HttpApi
from deepsea_cli.remote.transport import Answers, Document, Sent, Transport
from deepsea_rules.printable import quoted

READY_S: Final = 2.0
"""How long gRPC may take to be there before the HTTP API is used."""
MOST_ANSWERS: Final = 10_000
"""Answers of a stream; one that goes on is no check of a bot."""
Note = Callable[[str], object]
T = TypeVar("T")


class Client:
    """Asks one ladder.

    token   None: as a visitor
    pinned  the one certificate that is accepted, as PEM
    note    is called with what only those want to know who ask for it
    """

    def __init__(
        self,
        address: Address,
        token: str | None = None,
        pinned: str | None = None,
        note: Note = lambda _line: None,
    ) -> None:
        self.address = address
        self._token = token
        self._pinned = pinned
        self._note = note
        self._http = HttpApi(address, token, pinned)
        self._server: Server | None = None
        self._transport: Transport | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is open."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def server(self) -> Server:
        """What the ladder says of itself."""
        if self._server is None:
            self._server = self._read(Server, "GetServer", self._http.ask("GetServer", {}))
        return self._server

    def ask(self, name: str, kind: type[T], **fields: object) -> T:
        """The answer of a method that has one."""
        return self._read(kind, name, self._chosen().ask(name, fields))

    def follow(self, name: str, kind: type[T], **fields: object) -> Iterator[T]:
        """The answers of a method as they come."""
        return self._each(name, kind, self._chosen().follow(name, fields))

    def upload(self, kind: type[T], header: Document, archive: bytes, sent: Sent) -> Iterator[T]:
        """Submit a bot; the answers as they come."""
        return self._each("Submit", kind, self._chosen().upload(header, archive, sent))

    # ---------------------------------------------------------------------------------- within

    def _each(self, name: str, kind: type[T], answers: Answers) -> Iterator[T]:
        with closing(answers):
            for count, answer in enumerate(answers):
                if count == MOST_ANSWERS:
                    raise BadServer(f"{self.address.url} does not come to an end with {name}")
                yield self._read(kind, name, answer)

    def _read(self, kind: type[T], name: str, document: Document) -> T:
        try:
            return from_json(kind, document)
        except DocumentError as error:
            raise BadServer(
                f"the answer of {self.address.url} to {name} makes no sense: {error}"
            ) from None

    def _chosen(self) -> Transport:
        if self._transport is None:
            self._transport = self._over_grpc() or self._http
        return self._transport

    def _over_grpc(self) -> Transport | None:
        port = grpc_port(self.address, self.server().grpc_address)
        if isinstance(port, str):
            self._note(f"HTTP API at {self.address.url}: {port}")
            return None
        # Imported here: it takes as long as the rest of a short command.
        from deepsea_cli.remote.grpc_api import GrpcApi

        named = self._http.certificate_name
        found = GrpcApi(self.address, port, self._token, self._pinned, named)
        if not found.is_ready(READY_S):
            found.close()
            self._note(
                f"HTTP API at {self.address.url}: gRPC does not answer at port {port} within "
                f"{READY_S:g} s"
            )
            return None
        self._note(f"gRPC at port {port} of {self.address.host}")
        return found


def grpc_port(address: Address, where: str) -> int | str:
    """The port of gRPC on the ladder's own host, or why it is not used; `where` is HOST:PORT."""
    if not where:
        return "it has no gRPC"
    host, _, port = where.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
        return f"its address of gRPC, {quoted(where)}, is none"
    if not address.serves(host):
        return f"its gRPC is said to be on another host, {quoted(host)}"
    return int(port)
