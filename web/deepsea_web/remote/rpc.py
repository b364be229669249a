"""deepsea.ladder.v1.LadderService over gRPC, with health and reflection.

Invariants: every method of the service's table is served alike, and nothing else; messages are
parsed by our own code, so that what makes no sense gets INVALID_ARGUMENT; what one connection may
hold is capped, and a reader that does not read is given up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.service.table import Flow, Method
from deepsea_arena.wire import messages
from deepsea_ladder.remote_limits import RemoteLimits
from deepsea_referee.errors import UserError
from deepsea_referee.timing.clock import time_limit
from deepsea_web.remote.front import Front, refused
from deepsea_web.remote.uploads import Part, Parts
from deepsea_web.site.access import Access

CODES: Final = {
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Kind.NOT_NOW: grpc.StatusCode.FAILED_PRECONDITION,
    Kind.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.INTERNAL: grpc.StatusCode.INTERNAL,
}
PATIENCE_US: Final = 30_000_000
"""How long a reader may take for one message."""
HANDSHAKE_MS: Final = 10_000
PING_MS: Final = 30_000
AGE_GRACE_S: Final = 300
"""How long calls may go on once their connection is too old."""
STOP_S: Final = 1
Context = grpc.aio.ServicerContext[bytes, bytes]


def options(limits: RemoteLimits) -> Sequence[tuple[str, int]]:
    """The settings of the server."""
    return (
        ("grpc.max_receive_message_length", limits.grpc_message_bytes),
        ("grpc.max_metadata_size", limits.grpc_metadata_bytes),
        # What is above the first is refused at once, not perhaps.
        ("grpc.absolute_max_metadata_size", limits.grpc_metadata_bytes),
        # Else what clients may send ahead grows to megabytes of each upload.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", limits.grpc_message_bytes),
        ("grpc.max_concurrent_streams", limits.grpc_calls),
        ("grpc.max_allowed_incoming_connections", limits.streams),
        ("grpc.max_connection_age_ms", limits.grpc_age_seconds * 1000),
        ("grpc.max_connection_age_grace_ms", AGE_GRACE_S * 1000),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        # Messages are never decompressed: a small one could become a thousand times larger.
        ("grpc.per_message_decompression", 0),
        # An upload waits at its sender: else each could fill 16 MB before any of it is read.
        ("grpc.http2.lookahead_bytes", limits.grpc_message_bytes),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", PING_MS),
        ("grpc.keepalive_timeout_ms", PING_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", PING_MS // 3),
        ("grpc.http2.max_ping_strikes", limits.grpc_early_pings),
    )


class RpcServer:
    """The service on a port of its own."""

    def __init__(self, front: Front, access: Access) -> None:
        self._front = front
        self._handlers = _Handlers(front, access)
        self._server: grpc.aio.Server | None = None

    async def start(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen on HOST:PORT (0: any port); returns the port.

        Raises UserError if it cannot.
        """
        server = grpc.aio.server(options=options(self._front.service.limits))
        server.add_generic_rpc_handlers((self._handlers,))
        checks = health.aio.HealthServicer()
        await checks.set(messages.SERVICE, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        services = (messages.SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(services, server)
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
            await server.start()
        except RuntimeError:
            raise UserError(
                f"gRPC cannot listen on {address}: choose another port with --grpc-port"
            ) from None
        self._server = server
        return port

    async def stop(self) -> None:
        """Stop listening, and end every call."""
        if self._server is not None:
            await self._server.stop(STOP_S)


class _Handlers(grpc.GenericRpcHandler):
    """From a path to the handler of its method."""

    def __init__(self, front: Front, access: Access) -> None:
        self._front = front
        self._access = access
        self._found = {
            messages.path_of(name): self._handler(method)
            for name, method in front.service.methods.items()
        }

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """The handler of a call; None if there is no such method."""
        return self._found.get(handler_call_details.method)

    def _handler(self, method: Method) -> grpc.RpcMethodHandler[bytes, bytes]:
        name = method.name

        async def one(data: bytes, context: Context) -> bytes:
            try:
                who = await self._who(context)
                self._front.allowed(who, name)
                answer = await self._front.one(who, name, messages.request_from_bytes(name, data))
                return messages.response_to_bytes(name, answer)
            except Exception as error:  # noqa: BLE001  (every error has its status)
                await _abort(context, error)

        async def many(data: bytes, context: Context) -> None:
            try:
                who = await self._who(context)
                self._front.allowed(who, name)
                fields = messages.request_from_bytes(name, data)
                await self._answer(context, name, self._front.stream(who, name, fields))
            except Exception as error:  # noqa: BLE001
                await _abort(context, error)

        async def upload(_requests: object, context: Context) -> None:
            try:
                who = await self._who(context)
                answers = self._front.upload(who, name, _parts(context))
                await self._answer(context, name, answers)
            except Exception as error:  # noqa: BLE001
                await _abort(context, error)

        match method.flow:
            case Flow.ONE:
                return grpc.unary_unary_rpc_method_handler(one)
            case Flow.MANY | Flow.WATCH:
                return grpc.unary_stream_rpc_method_handler(many)
            case Flow.UPLOAD:
                return grpc.stream_stream_rpc_method_handler(upload)

    async def _who(self, context: Context) -> Caller:
        found: dict[str, list[str]] = {"authorization": [], "x-forwarded-for": []}
        for name, value in context.invocation_metadata() or ():
            if name in found:
                found[name].append(value if isinstance(value, str) else value.decode("latin-1"))
        address = self._access.client(_host(context.peer()), found["x-forwarded-for"])
        if address is None:
            raise ServiceError(Kind.DENIED, "this server answers its proxy alone")
        return await self._front.who(
            found["authorization"], address, secret=self._access.keeps_secrets(address)
        )

    async def _answer(
        self, context: Context, name: str, answers: AsyncGenerator[list[Any]]
    ) -> None:
        begun = False
        async with aclosing(answers):
            async for batch in answers:
                if not begun:  # so that the caller knows before there is anything new
                    begun = True
                    await context.send_initial_metadata(())
                for answer in batch:
                    await self._write(context, messages.response_to_bytes(name, answer))

    async def _write(self, context: Context, data: bytes) -> None:
        try:
            async with time_limit(self._front.clock, PATIENCE_US):
                await context.write(data)
        except TimeoutError:
            raise ServiceError(Kind.EXHAUSTED, "this is not being read") from None


async def _abort(context: Context, error: Exception) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError | grpc.aio.UsageError):
        raise error
    found = refused(error)
    wait = found.retry_after
    trailing = () if wait is None else (("retry-after", str(wait)),)
    await context.abort(CODES[found.kind], _printable(str(found)), trailing)


def _parts(context: Context) -> Parts:
    async def read() -> Part | None:
        data: object = await context.read()
        return messages.part_from_bytes(data) if isinstance(data, bytes) else None

    return read


def _host(peer: str) -> str:
    """The address in ipv4:HOST:PORT or ipv6:%5BHOST%5D:PORT; others are returned as they are."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return unquote(rest).rpartition(":")[0].strip("[]")


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()
