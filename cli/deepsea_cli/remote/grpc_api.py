"""A ladder over gRPC: deepsea.ladder.v1.LadderService.

Invariant: a token goes over a channel with TLS, or to this machine; gRPC itself would drop it on
others without a word.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import grpc

from deepsea_arena.wire import messages
from deepsea_cli.remote.address import Address
from deepsea_cli.remote.errors import BadServer, Refused, Unreachable
from deepsea_cli.remote.transport import (
    DEADLINE_S,
    LARGEST_MESSAGE,
    MOST_ITEMS,
    Answers,
    Document,
    Sent,
    pieces,
    sentence,
)

PING_MS: Final = 30_000
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_UNREACHABLE: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
)
_REFUSALS: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


class GrpcApi:
    """Asks a ladder over gRPC.

    address   the ladder's; its host is the one that is connected to
    port      that of gRPC
    pinned    the one certificate that is accepted, as PEM
    named     a name that this certificate is for
    """

    def __init__(
        self,
        address: Address,
        port: int,
        token: str | None = None,
        pinned: str | None = None,
        named: str | None = None,
    ) -> None:
        self._url = address.url
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        host = f"[{address.host}]" if ":" in address.host else address.host
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", LARGEST_MESSAGE),
            ("grpc.keepalive_time_ms", PING_MS),
            ("grpc.keepalive_timeout_ms", PING_MS),
            ("grpc.enable_http_proxy", 0),
            ("grpc.per_message_decompression", 0),
        ]
        if named is not None:
            options.append(("grpc.ssl_target_name_override", named))
        if address.secure:
            credentials = grpc.ssl_channel_credentials(_roots(pinned))
            self._channel = grpc.secure_channel(f"{host}:{port}", credentials, options)
        else:
            self._channel = grpc.insecure_channel(f"{host}:{port}", options)

    def is_ready(self, seconds: float) -> bool:
        """Whether it can be reached within that time."""
        # By a call: a channel whose state is watched takes up to 0.2 s to be closed.
        call: Any = self._channel.unary_unary(_HEALTH)
        try:
            call(b"", timeout=seconds, wait_for_ready=True)
        except grpc.RpcError as error:
            return error.code() not in _UNREACHABLE
        return True

    def ask(self, name: str, fields: Document) -> Document:
        """The answer of a method that has one."""
        # As a stream, of which there has to be one: gRPC itself returns None for none.
        call: Any = self._channel.unary_stream(messages.path_of(name))
        request = messages.request_to_bytes(name, fields)
        answers = call(request, timeout=DEADLINE_S, metadata=self._metadata)
        found = list(islice(self._answers(name, answers), 2))
        if len(found) != 1:
            raise self._senseless(name)
        return found[0]

    def follow(self, name: str, fields: Document) -> Answers:
        """The answers of a method as they come."""
        call: Any = self._channel.unary_stream(messages.path_of(name))
        request = messages.request_to_bytes(name, fields)
        yield from self._answers(name, call(request, metadata=self._metadata))

    def upload(self, header: Document, archive: bytes, sent: Sent) -> Answers:
        """Submit a bot; the answers as they come."""

        def parts() -> Iterator[bytes]:
            yield messages.header_to_bytes(header)
            yield from map(messages.chunk_to_bytes, pieces(archive, sent))

        call: Any = self._channel.stream_stream(messages.path_of("Submit"))
        yield from self._answers("Submit", call(parts(), metadata=self._metadata))

    def close(self) -> None:
        """End what is open."""
        self._channel.close()

    # ---------------------------------------------------------------------------------- within

    def _answers(self, name: str, answers: Any) -> Answers:
        try:
            yield from (self._document(name, data) for data in self._each(answers))
        finally:
            answers.cancel()

    def _each(self, answers: Iterable[bytes]) -> Iterator[bytes]:
        with self._told():
            yield from answers

    def _document(self, name: str, data: bytes) -> Document:
        try:
            return messages.response_from_bytes(name, data, MOST_ITEMS)
        except (messages.MessageError, ValueError, RecursionError):
            raise self._senseless(name) from None

    def _senseless(self, name: str) -> BadServer:
        return BadServer(f"the answer of {self._url} to {name} makes no sense")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turns gRPC's errors into those of this package."""
        try:
            yield
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _error(self, error: Any) -> Exception:
        code, text = error.code(), sentence(error.details())
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
            return BadServer(f"{self._url} answers with more than {LARGEST_MESSAGE >> 20} MiB")
        if code in _REFUSALS:
            return Refused(code.name, text, _retry_after(error.trailing_metadata()))
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unreachable(f"{self._url} does not answer in time")
        if code in _UNREACHABLE:
            return Unreachable(f"the connection to {self._url} broke: {text}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return BadServer(f"{self._url} does not know this: its version is another one")
        return Unreachable(f"{self._url}: {text or code.name}")


def _roots(pinned: str | None) -> bytes | None:
    """The certificates to trust: the pinned one, or those that Python trusts, else gRPC's own."""
    if pinned is not None:
        return pinned.encode()
    with suppress(OSError, TypeError):  # none of them is there
        return Path(ssl.get_default_verify_paths().cafile).read_bytes()
    return None


def _retry_after(trailing: Iterable[tuple[str, str | bytes]] | None) -> int | None:
    for name, value in trailing or ():
        if name == "retry-after" and isinstance(value, str) and value.isdecimal():
            return int(value) if len(value) < 7 else None
    return None
