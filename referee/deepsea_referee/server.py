"""The two transports of a bot's messages: gRPC on its own socket, or lines of JSON on its pipes.

`SeatServer` is the gRPC server of one bot, `LinesServer` reads and writes the stdin and stdout of a
bot that speaks lines; for the session both are a `Transport`.

Invariants: a socket or a pipe identifies its seat, and one bot's slow or hostile connection cannot
delay another's. gRPC messages are received as bytes and parsed by our own code, so that malformed
ones get a proper status. A token is valid once; there is no second connection and no takeover.
Pipes need no token; the first line that is no answer ends the stream, and then both pipes are
closed; a bot that writes without end waits once some lines are unread. Errors of the lines protocol
are added to the bot's stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from deepsea_referee.clock import Clock, time_limit
from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.session import MESSAGE_BYTES, Session, refusal
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk.errors import WireError
from deepsea_sdk.wire import METHOD, SERVICE
from deepsea_sdk.wire.lines import (
    LINE_BYTES,
    answer_from_line,
    hello_line,
    lines_of,
    ready_from_line,
)

HELLO_LIMIT_US = 5_000_000
"""The timeout for Hello on an open stream."""

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    # A bot needs one connection and one stream; others may still be closing. Each stream may hold
    # up to 16 MB of headers until the bot acknowledges our settings.
    ("grpc.max_allowed_incoming_connections", 3),
    ("grpc.max_concurrent_streams", 3),
    # A connection that does not finish its handshake must not hold a descriptor for two minutes.
    ("grpc.server_handshake_timeout_ms", 3_000),
    # Messages are never decompressed: a small one could become a thousand times larger.
    ("grpc.per_message_decompression", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 2),
)
# A bot that is frozen outside of its turns may acknowledge no ping for minutes, and gRPC sends
# pings to measure the bandwidth: so pings have no timeout. The end of a local process is noticed
# without them.
LOCAL_PINGS = (("grpc.http2.ping_timeout_ms", 2**31 - 1),)
REMOTE_PINGS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
)

BotStream: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class GrpcTransport:
    """The transport of a bot over gRPC, once its Hello was accepted."""

    def __init__(self, stream: BotStream) -> None:
        self.stream = stream

    async def read(self) -> list[wire.RequestAnswer] | None:
        """Read the answers of the next message; None at the end of the stream."""
        data = await receive(self.stream)
        return None if data is None else answers_of(data)

    async def write(self, message: bytes, /) -> None:
        """Write a message; if the stream has ended, do nothing, since `read` reports that."""
        try:  # noqa: SIM105  (on the hot path)
            await self.stream.write(message)
        except grpc.aio.InternalError:
            pass

    async def abort(self, fault: BotFault | None) -> None:
        """End the stream with a status, unless the other side has ended it.

        fault  the bot's fault, or None for an error of the referee
        """
        if fault is None:
            code, detail = grpc.StatusCode.INTERNAL, "the referee failed"
        elif fault.fault is Fault.PROTOCOL_ERROR:
            code, detail = grpc.StatusCode.INVALID_ARGUMENT, fault.detail
        else:
            code, detail = grpc.StatusCode.CANCELLED, fault.detail
        with contextlib.suppress(grpc.aio.InternalError):
            await self.stream.abort(code, detail)


async def receive(stream: BotStream) -> bytes | None:
    """Read the next message; return None at the end of the stream, even in the middle of a message.

    If a message is too long, gRPC ends the stream with an error status, and raises.
    """
    try:
        data: object = await stream.read()
    except grpc.aio.InternalError:
        return None
    return data if isinstance(data, bytes) else None  # at the end gRPC returns a mark, `EOF`


def answers_of(data: bytes) -> list[wire.RequestAnswer]:
    """Return the answers of a message. Raises BotFault if it is no message with answers."""
    try:
        hello, answers = wire.read_from_bot(data)
    except WireError as error:
        raise refusal(str(error)) from None
    if hello is not None:
        raise refusal("it sent hello twice")
    if not answers:
        raise refusal("it sent a message without a decision")
    return answers


class SeatServer:
    """Listens for one bot and hands its stream to the session."""

    def __init__(
        self,
        session: Session,
        token: str,
        clock: Clock,
        *,
        reflects: bool = True,
        pings: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        """Prepare the server of a session.

        token     the token that the bot's Hello must have
        reflects  True to offer gRPC's reflection service; a bot that calls it costs the referee
                  more time than the bot itself
        pings     gRPC options for pings; None chooses them by the address
        """
        self._session = session
        self._token = token.encode()
        self._clock = clock
        self._reflects = reflects
        self._pings = pings
        self._token_used = False
        self._server: grpc.aio.Server | None = None
        self._starting: asyncio.Future[None] | None = None

    async def start(self, where: Path | str) -> str:
        """Start to listen on a Unix socket (a Path) or on HOST:PORT; return the address for bots.

        Port 0 is any free port. Raises RefereeError if the address cannot be used.
        """
        is_socket = isinstance(where, Path)
        is_local = is_socket or str(where).startswith("127.")
        pings = LOCAL_PINGS if is_local else REMOTE_PINGS
        server = grpc.aio.server(
            options=(*OPTIONS, *(pings if self._pings is None else self._pings))
        )
        play: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._play
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: play}),)
        )
        checks = health.aio.HealthServicer()
        await checks.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        if self._reflects:
            services = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(services, server)
        try:
            port = server.add_insecure_port(f"unix:{where}" if is_socket else str(where))
            self._server = server
            # gRPC's start must not be cancelled half-way: its server could not be stopped then.
            self._starting = asyncio.ensure_future(server.start())
            await asyncio.shield(self._starting)
        except RuntimeError as error:
            raise RefereeError(f"cannot listen on {where}: {error}") from error
        if is_socket:
            return f"unix:{where}"
        host = str(where).rpartition(":")[0]
        return f"{host}:{port}"

    async def stop(self) -> None:
        """Stop listening, close every stream, and remove the socket file."""
        if self._server is not None:
            if self._starting is not None:
                await asyncio.wait((self._starting,))
            await self._server.stop(grace=None)

    async def _play(self, _requests: object, stream: BotStream) -> None:
        """Handle a call of the service: check the bot's Hello, then serve the session.

        A wrong first message ends the stream with a status; `abort` raises, so nothing follows it.
        """
        try:
            async with time_limit(self._clock, HELLO_LIMIT_US):
                data = await receive(stream)
        except TimeoutError:
            await stream.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no hello before the timeout")
        if data is None:
            return
        try:
            hello, answers = wire.read_from_bot(data)
        except WireError as error:
            await stream.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if hello is None or answers:
            await stream.abort(
                grpc.StatusCode.INVALID_ARGUMENT, "the first message must have hello only"
            )
        if not hmac.compare_digest(hello.token.encode(), self._token):
            await stream.abort(
                grpc.StatusCode.UNAUTHENTICATED, "the token is not valid for this seat"
            )
        if self._token_used:
            await stream.abort(
                grpc.StatusCode.ALREADY_EXISTS, "the token was used: a seat has one connection"
            )
        self._token_used = True
        self._session.features = hello.features
        self._session.send(wire.welcome_message())
        await self._session.serve(GrpcTransport(stream))


# ----- Lines of JSON

_EMPTY_LINES = 8
"""The largest number of empty lines that are skipped, so that a flood of them ends the stream."""


class LinesServer:
    """The pipes of one bot, which are the transport of its session."""

    def __init__(
        self,
        session: Session,
        note: Callable[[str], object],
        refuse: Callable[[str], object],
    ) -> None:
        """Prepare the pipes of a session.

        note    called with messages for the bot's author
        refuse  called with the reason if the bot's first line is wrong
        """
        self._session = session
        self._note = note
        self._refuse = refuse
        self.stdin = self.stdout = -1
        """The descriptors of the bot's ends, until `close_theirs`; -1 if there are none."""
        self._reader = asyncio.StreamReader(LINE_BYTES)
        self._incoming: asyncio.ReadTransport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create the pipes, write hello, and start a task that waits for the bot's first line.

        The bot's ends of the pipes become `stdin` and `stdout`, for the start of its process.
        """
        loop = asyncio.get_running_loop()
        # Each pipe has an end of the bot's and one of ours: we write to its stdin, and read its
        # stdout.
        self.stdin, our_writing_end = os.pipe()
        our_reading_end, self.stdout = os.pipe()
        self._incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader),
            os.fdopen(our_reading_end, "rb", buffering=0),
        )
        # A StreamWriter needs the protocol of a reader for its flow control; nothing is read by it.
        outgoing, flow_control = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(our_writing_end, "wb", buffering=0),
        )
        outgoing.set_write_buffer_limits(0)  # a message is written when the pipe has all of it
        self._writer = asyncio.StreamWriter(outgoing, flow_control, None, loop)
        self._writer.write(hello_line())
        self._serving = asyncio.create_task(self._serve())
        self._serving.add_done_callback(lambda _: self._hang_up())

    def close_theirs(self) -> None:
        """Close our copies of the bot's ends, once the bot has its own or cannot be started."""
        for descriptor in (self.stdin, self.stdout):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdin = self.stdout = -1

    async def stop(self) -> None:
        """End the stream and close the pipes. May be called again."""
        self.close_theirs()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait((self._serving,))

    # As a transport

    async def read_line(self) -> bytes | None:
        """Read the next line, and return it without its line end; None at the end of the pipe.

        An incomplete last line is ignored. A few empty lines are skipped, since some programs write
        two line ends. Raises BotFault for a line that is too long, and for too many empty lines.
        """
        try:
            for _ in range(_EMPTY_LINES + 1):
                line = (await self._reader.readuntil(b"\n"))[:-1]
                if line.strip():
                    return line
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            raise refusal(f"it wrote a line of more than {LINE_BYTES:,} bytes") from None
        raise refusal(f"it wrote more than {_EMPTY_LINES} empty lines in a row")

    async def read(self) -> list[wire.RequestAnswer] | None:
        """Read the next answer; None at the end of the pipe. Raises BotFault for any other line."""
        line = await self.read_line()
        try:
            return None if line is None else [answer_from_line(line)]
        except WireError as error:
            raise refusal(str(error)) from None

    async def write(self, message: bytes, /) -> None:
        """Write a message as lines of JSON, and wait until the pipe has them.

        If it notifies the bot of faults, these are also passed to the output for its author.
        """
        lines, faults = lines_of(message)
        for fault in faults:
            self._note(fault)
        assert self._writer is not None
        assert self._incoming is not None
        self._writer.write(lines)
        try:
            await self._writer.drain()
        except ConnectionError:  # the bot has closed its stdin: end the stream as if it had exited
            self._incoming.close()

    async def abort(self, fault: BotFault | None) -> None:
        """Note for the author why the stream ends; the task of `start` closes the pipes."""
        self._note("the referee failed" if fault is None else fault.detail)

    async def _serve(self) -> None:
        """Read the bot's first line, then serve the session until its end."""
        try:
            line = await self.read_line()
            if line is None:
                return
            self._session.features = ready_from_line(line)
        except (BotFault, WireError) as error:
            self._refuse(str(error))
            return
        await self._session.serve(self)

    def _hang_up(self) -> None:
        """Close both pipes, without waiting for the bot to read."""
        if self._incoming is not None:
            self._incoming.close()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.transport.abort()
