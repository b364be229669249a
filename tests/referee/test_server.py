"""The door: who is let in, with which answer for everybody else."""

from __future__ import annotations

import asyncio
import gc
import socket
import stat
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from attacks import raw
from deepsea_referee.errors import RefereeError
from deepsea_referee.server import LOCAL_PINGS, SeatServer
from deepsea_referee.session import Session
from deepsea_sdk._pb import play_pb2 as pb
from helpers.in_loop import run
from helpers.manual_clock import ManualClock
from helpers.peers import PLAY, TOKEN, Call, Peer, ask, seat


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + " ", TOKEN[:-1], TOKEN.upper(), "ü" * 50])
async def test_only_the_token_opens_the_seat(tmp_path: Path, token: str) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        peer = Peer(channel)
        await peer.hello(token)
        refused = (grpc.StatusCode.UNAUTHENTICATED, "the token is not valid for this seat")
        assert await peer.status() == refused
        assert not it.session.connected.done()
        # A wrong token spoils nothing for the right one.
        rightful = Peer(channel)
        await rightful.hello()
        assert (await rightful.next()).HasField("welcome")


async def test_a_token_opens_its_seat_once(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel, it.peer() as first:
        second = Peer(channel)
        await second.hello()
        assert (await second.status())[0] is grpc.StatusCode.ALREADY_EXISTS
        # The first is not touched by it ...
        asked = ask(it.session, pb.DecisionRequest(game_id="g"), 1000)
        await first.answer(await first.request(), "down")
        assert (await asked).action == "down"
        # ... and nobody takes its place when it is gone.
        await first.call.done_writing()
        await it.session.ended
        third = Peer(channel)
        await third.hello()
        assert (await third.status())[0] is grpc.StatusCode.ALREADY_EXISTS


async def test_features_are_kept_also_those_that_nobody_knows(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        peer = Peer(channel)
        await peer.hello(features=["concurrent_games", "telepathy"])
        assert (await peer.next()).HasField("welcome")
        assert it.session.features == {"concurrent_games", "telepathy"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff",
        pb.PlayRequest(decisions=[pb.Decision(request_id=1)]).SerializeToString(),
        pb.PlayRequest(hello=pb.Hello(token=TOKEN), decisions=[pb.Decision()]).SerializeToString(),
    ],
    ids=["empty", "garbage", "decision first", "hello with a decision"],
)
async def test_the_first_message_is_a_hello_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        peer = Peer(channel)
        await peer.raw(data)
        assert (await peer.status())[0] is grpc.StatusCode.INVALID_ARGUMENT
        assert not it.session.connected.done()


async def test_a_stream_without_a_hello_is_closed(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        peer = Peer(channel)
        await peer.call.wait_for_connection()
        await it.alarm_is_set()
        it.clock.jump(10_000_000)
        assert (await peer.status())[0] is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_stream_that_is_closed_before_the_hello_is_nothing(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        peer = Peer(channel)
        await peer.call.done_writing()
        await peer.status()
        async with it.peer():
            assert it.session.usable


async def test_a_gzip_bomb_is_not_even_unpacked(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        call: Call = channel.stream_stream(PLAY)(compression=grpc.Compression.Gzip)
        await call.write(bytes(10_000_000))
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        async with it.peer():
            assert it.session.usable


async def test_huge_metadata_is_refused(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        call: Call = channel.stream_stream(PLAY)(metadata=(("x", "y" * 100_000),))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with it.peer():
            assert it.session.usable


async def test_unknown_methods_are_unimplemented(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        call: Call = channel.stream_stream("/deepsea.play.v1.PlayService/Win")()
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n", b"\0" * 1000])
async def test_garbage_on_the_socket_disturbs_nobody(tmp_path: Path, data: bytes) -> None:
    async with seat(tmp_path) as it:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(tmp_path / "seat"))
            stranger.sendall(data)
            async with it.peer():
                assert it.session.usable


async def test_health_is_served(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        call: Call = channel.stream_stream("/grpc.health.v1.Health/Check")()
        request = health_pb2.HealthCheckRequest(service="deepsea.play.v1.PlayService")
        await call.write(request.SerializeToString())
        data = await call.read()
        assert isinstance(data, bytes)
        response = health_pb2.HealthCheckResponse.FromString(data)
        assert response.status == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_names_the_services_and_gives_the_proto(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.channel() as channel:
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        call: Call = channel.stream_stream(method)()

        async def reflect(
            request: reflection_pb2.ServerReflectionRequest,
        ) -> reflection_pb2.ServerReflectionResponse:
            await call.write(request.SerializeToString())
            data = await call.read()
            assert isinstance(data, bytes)
            return reflection_pb2.ServerReflectionResponse.FromString(data)

        request = reflection_pb2.ServerReflectionRequest
        names = await reflect(request(list_services=""))
        assert {service.name for service in names.list_services_response.service} == {
            "deepsea.play.v1.PlayService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        file = await reflect(request(file_containing_symbol="deepsea.play.v1.PlayService"))
        assert b"DecisionRequest" in file.file_descriptor_response.file_descriptor_proto[0]


async def test_tcp_by_option() -> None:
    clock = ManualClock()
    session = Session(clock)
    server = SeatServer(session, TOKEN, clock)
    address = await server.start("127.0.0.1:0")
    host, _, port = address.rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    async with grpc.aio.insecure_channel(address) as channel:
        peer = Peer(channel)
        await peer.hello()
        assert (await peer.next()).HasField("welcome")
    await server.stop()


def welcomed(address: str) -> raw.Connection:
    """A peer that has read its welcome."""
    connection = raw.Connection(address=address)
    connection.open()
    connection.message(raw.field(1, raw.field(1, TOKEN)))
    next(connection.messages())
    return connection


@asynccontextmanager
async def frozen_peer(folder: Path, *pings: tuple[str, int]) -> AsyncIterator[Session]:
    """The session of a peer that reads nothing after its welcome."""
    folder.mkdir()
    clock = ManualClock()
    session = Session(clock)
    server = SeatServer(session, TOKEN, clock, pings=pings)
    peer = await asyncio.to_thread(welcomed, await server.start(folder / "seat"))
    try:
        yield session
    finally:
        peer.socket.close()
        await server.stop()


async def test_a_frozen_bot_keeps_its_stream_though_it_answers_no_ping(tmp_path: Path) -> None:
    often = ("grpc.keepalive_time_ms", 100)
    soon, later = (("grpc.http2.ping_timeout_ms", limit_ms) for limit_ms in (100, 400))
    async with (
        frozen_peer(tmp_path / "usual", often, *LOCAL_PINGS, soon) as kept,  # the first counts
        frozen_peer(tmp_path / "other", often, later) as lost,
    ):
        await lost.ended
        assert kept.usable


async def test_the_socket_goes_with_the_server(tmp_path: Path) -> None:
    async with seat(tmp_path):
        assert stat.S_ISSOCK((tmp_path / "seat").stat().st_mode)
    assert list(tmp_path.iterdir()) == []


async def test_a_socket_that_cannot_be_made_is_the_referees_trouble(tmp_path: Path) -> None:
    with pytest.raises(RefereeError, match="cannot listen"):
        async with seat(tmp_path / "missing"):
            pass


async def test_two_hundred_streams_do_not_keep_the_bot_out(tmp_path: Path) -> None:
    async with seat(tmp_path) as it, it.peer() as peer, it.channel() as channel:
        idle: list[Call] = [channel.stream_stream(PLAY)() for _ in range(200)]
        asked = ask(it.session, pb.DecisionRequest(game_id="g"), 1000)
        await peer.answer(await peer.request(), "down")
        assert (await asked).action == "down"
        for call in idle:
            call.cancel()
        await asyncio.gather(*(call.code() for call in idle))


class OneTurn:
    """Awaited, it lets the event loop go round once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def test_a_start_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    """As when another bot of the line-up does not start."""
    troubles: list[object] = []

    async def start(steps: int) -> None:
        clock = ManualClock()
        server = SeatServer(Session(clock), TOKEN, clock)
        starting = asyncio.ensure_future(server.start(tmp_path / "seat"))
        for _ in range(steps):
            await OneTurn()
        starting.cancel()
        await asyncio.wait((starting,))
        await server.stop()

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: troubles.append(context)
        )
        for steps in range(5):
            await start(steps)
            assert list(tmp_path.iterdir()) == []
        gc.collect()

    run(test())
    gc.collect()
    assert troubles == []
