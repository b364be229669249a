"""A bare ping-pong between two Python processes: what a decision cannot cost less than.

Invariants: a bidirectional gRPC stream on a Unix socket, raw bytes both ways, the server in this
process as the referee's are, each client a process of its own as a bot is, and nothing else done.
Run as a program this module is the client: `python ping.py ADDRESS BYTES`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import grpc

METHOD = "/deepsea.bench.Ping/Play"


BotStream: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class PingPong:
    """Streams to ask over, one question at a time; made by `ping_pong`."""

    def __init__(self, question_bytes: int, streams: Sequence[BotStream]) -> None:
        self.streams = streams
        """One for each client."""
        self._question = b"?" * question_bytes

    async def seconds(self, times: int) -> float:
        """How long one question with its answer takes, on average of so many in a row.

        Several clients are asked in turn.
        """
        streams = [self.streams[number % len(self.streams)] for number in range(times)]
        began = time.perf_counter()
        for stream in streams:
            await stream.write(self._question)
            await stream.read()
        return (time.perf_counter() - began) / times


@asynccontextmanager
async def ping_pong(
    question_bytes: int, answer_bytes: int, clients: int = 1
) -> AsyncIterator[PingPong]:
    """Streams to processes that answer each message at once; they end with the context."""

    def client(address: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, __file__, address, str(answer_bytes)])

    async with streams_to(client, clients, METHOD) as streams:
        yield PingPong(question_bytes, streams)


@asynccontextmanager
async def streams_to(
    start: Callable[[str], subprocess.Popen[bytes]], clients: int, method: str
) -> AsyncIterator[list[BotStream]]:
    """Streams that so many processes open to this one; the processes end with the context.

    start   starts a process, given the address of the server here
    method  the full name of what they call
    """
    streams: list[BotStream] = []
    all_there = asyncio.Event()

    async def serve(_requests: object, stream: BotStream) -> None:
        streams.append(stream)
        if len(streams) == clients:
            all_there.set()
        with suppress(asyncio.CancelledError):  # by the server when the client has ended
            await asyncio.Event().wait()

    server = grpc.aio.server()
    play: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(serve)
    service, name = method.strip("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: play}),))
    with tempfile.TemporaryDirectory(prefix="ping-") as folder:
        address = f"unix:{folder}/socket"
        server.add_insecure_port(address)
        await server.start()
        processes = [start(address) for _ in range(clients)]
        try:
            await all_there.wait()
            yield streams
        finally:
            for process in processes:
                process.kill()
                process.wait()
            await server.stop(grace=None)


async def answer(address: str, size: int) -> None:
    """Answer each message with so many bytes."""
    data = b"!" * size
    async with grpc.aio.insecure_channel(address) as channel:
        call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
        stream = call()
        while await stream.read() is not grpc.aio.EOF:
            await stream.write(data)


if __name__ == "__main__":
    asyncio.run(answer(sys.argv[1], int(sys.argv[2])))
