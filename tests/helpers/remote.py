"""A ladder on ports of this machine, over gRPC and HTTP, and a client that speaks either."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, urlencode

import grpc
import uvicorn

from deepsea_arena.service.caller import MACHINE, visitor
from deepsea_arena.service.login import caller_of_token
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Flow, Method
from deepsea_arena.wire import messages
from deepsea_ladder.accounts import MACHINE as MACHINE_ACTOR
from deepsea_ladder.accounts import Scope, new_token, token_digest
from deepsea_ladder.store.account_rows import NewToken
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_web.remote.application import WithApi
from deepsea_web.remote.front import Front
from deepsea_web.remote.http_api import CODES, ROOT, http_api
from deepsea_web.remote.rpc import RpcServer
from deepsea_web.site.access import Access
from deepsea_web.site.errors import STATUS
from helpers.ladder_messages import response_chunk

from .manual_clock import ManualClock

WAYS: Final = ("grpc", "http")
PATIENCE_S: Final = 300
OK: Final = "OK"
_CODE_OF: Final = {status: CODES[kind] for kind, status in STATUS.items()}


@dataclass
class Answer:
    """What came back."""

    code: str
    """OK, or a refusal as gRPC has it."""
    documents: list[dict[str, Any]] = field(default_factory=list)
    data: bytes = b""
    """Of a download."""
    message: str = ""
    retry_after: int | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The one answer."""
        assert self.code == OK, f"{self.code}: {self.message}"
        (found,) = self.documents
        return found


@dataclass
class Server:
    """A server that listens."""

    front: Front
    http: int
    rpc: int
    """The ports."""
    loop: asyncio.AbstractEventLoop
    ending: ExitStack = field(default_factory=ExitStack)
    """What is closed before it ends: connections of its clients."""

    def jump(self, us: int) -> None:
        """Move its ManualClock, where its alarms belong."""
        clock = self.front.clock
        assert isinstance(clock, ManualClock)

        async def jump() -> None:
            clock.jump(us)

        asyncio.run_coroutine_threadsafe(jump(), self.loop).result(PATIENCE_S)


class Remote:
    """A client of a server that listens; `way` is `grpc` or `http`."""

    def __init__(self, server: Server, way: str) -> None:
        self.server = server
        self.way = way
        self.http = server.http
        self.rpc = server.rpc

    @cached_property
    def channel(self) -> grpc.Channel:
        """The one connection of its calls over gRPC."""
        return self.server.ending.enter_context(grpc.insecure_channel(f"127.0.0.1:{self.rpc}"))

    def token(self, author: str, scopes: Sequence[str] = (), *, admin: bool = False) -> str:
        """A token of the ladder."""
        return a_token(self.server.front.service, author, scopes, admin=admin)

    def call(
        self,
        name: str,
        token: str | None = None,
        *,
        headers: Iterable[tuple[str, str]] = (),
        most: int | None = None,
        **fields: object,
    ) -> Answer:
        """The answer of a method; of a stream at most so many."""
        given = [] if token is None else [("authorization", f"Bearer {token}")]
        method = self.server.front.service.methods[name]
        if self.way == "grpc":
            return self._rpc(method, [*given, *headers], most, fields)
        return self._http(method, [*given, *headers], most, fields)

    def submit(
        self,
        token: str | None,
        header: Mapping[str, object],
        chunks: Iterable[bytes],
        most: int | None = None,
    ) -> Answer:
        """The answers to an upload, at most so many."""
        given = [] if token is None else [("authorization", f"Bearer {token}")]
        if self.way == "grpc":
            first = messages.header_to_bytes(header)
            return self.parts(given, chain([first], map(messages.chunk_to_bytes, chunks)), most)
        return self._send(
            "PUT",
            f"/bots/{quote(str(header.get('bot', '')), safe='')}",
            [
                *given,
                ("content-length", str(header["size"])),
                ("x-content-sha256", str(header.get("sha256", ""))),
                ("idempotency-key", str(header.get("key", ""))),
            ],
            chunks,
            most,
            is_file=False,
        )

    def parts(
        self, given: Iterable[tuple[str, str]], parts: Iterable[bytes], most: int | None = None
    ) -> Answer:
        """The answers to messages of an upload, over gRPC."""
        call: Any = self.channel.stream_stream(messages.path_of("Submit"))
        return _taken("Submit", call(iter(parts), metadata=[*given], timeout=PATIENCE_S), most)

    def raw(
        self,
        name: str,
        data: bytes,
        headers: Iterable[tuple[str, str]] = (),
        most: int | None = None,
    ) -> Answer:
        """The answer to bytes that are no request, over gRPC."""
        call: Any = self.channel.unary_stream(messages.path_of(name))
        return _taken(name, call(data, metadata=[*headers], timeout=PATIENCE_S), most)

    def _rpc(
        self,
        method: Method,
        headers: list[tuple[str, str]],
        most: int | None,
        fields: Mapping[str, object],
    ) -> Answer:
        data = messages.request_to_bytes(method.name, fields)
        # A client cannot tell one answer from a stream of one.
        call: Any = self.channel.unary_stream(messages.path_of(method.name))
        stream = call(data, metadata=headers, timeout=PATIENCE_S)
        return _taken(method.name, stream, most)

    def _http(
        self,
        method: Method,
        headers: list[tuple[str, str]],
        most: int | None,
        fields: Mapping[str, object],
    ) -> Answer:
        left = dict(fields)
        path = method.path
        for name in fields:
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(str(left.pop(name)), safe=""))
        body = b""
        if method.verb in ("GET", "DELETE"):
            texts = {name: _text(value) for name, value in left.items()}
            path += f"?{urlencode(texts, doseq=True)}" if texts else ""
        else:
            body = json.dumps(left).encode()
        is_file = messages.answers_by_bytes(method.name)
        most = 1 if method.flow is Flow.ONE else most
        if body:
            headers = [*headers, ("content-length", str(len(body)))]
        return self._send(method.verb, path, headers, [body], most, is_file=is_file)

    def _send(
        self,
        verb: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: Iterable[bytes],
        most: int | None,
        *,
        is_file: bool,
    ) -> Answer:
        with closing(HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE_S)) as connection:
            connection.putrequest(verb, f"{ROOT}{path}")
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was there
                for part in body:
                    connection.send(part)
            answer = connection.getresponse()
            if answer.status != 200:
                error = json.loads(answer.read())["error"]
                assert error["code"] in (_CODE_OF.get(answer.status), "UNIMPLEMENTED")
                after = answer.headers.get("retry-after")
                assert (None if after is None else int(after)) == error.get("retry_after")
                return Answer(error["code"], [], b"", error["message"], error.get("retry_after"))
            if is_file:
                return Answer(OK, [], answer.read())
            return _lines(answer, most)


def _taken(name: str, stream: Any, most: int | None) -> Answer:
    documents: list[dict[str, Any]] = []
    data = b""
    try:
        for answer in stream:
            if messages.answers_by_bytes(name):
                data += response_chunk(answer)
            else:
                documents.append(messages.response_from_bytes(name, answer))
            if len(documents) == most:
                stream.cancel()
                break
    except grpc.RpcError as error:
        trailing: dict[str, Any] = dict(error.trailing_metadata() or ())  # type: ignore[arg-type]
        after = trailing.get("retry-after")
        code = error.code().name
        return Answer(
            code, documents, data, error.details() or "", None if after is None else int(after)
        )
    return Answer(OK, documents, data)


def _lines(answer: Any, most: int | None) -> Answer:
    documents: list[dict[str, Any]] = []
    while len(documents) != most and (line := answer.readline()):
        if line.strip():
            documents.append(json.loads(line))
            if "error" in documents[-1] and set(documents[-1]) == {"error"}:
                error = documents.pop()["error"]
                return Answer(
                    error["code"], documents, b"", error["message"], error.get("retry_after")
                )
    return Answer(OK, documents)


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return list(value) if isinstance(value, tuple | list) else str(value)


def a_token(
    service: LadderService, author: str, scopes: Sequence[str] = (), *, admin: bool = False
) -> str:
    """A token of an author, who is added unless there is one; by default it may read and submit."""
    if admin:
        accounts = service.store.accounts
        secret = new_token(service.entropy())
        digest = token_digest(secret)
        assert digest is not None
        given = tuple(map(Scope, scopes or Scope))
        accounts.admin_token(author, NewToken(digest, secret[:8], "", 9, given), MACHINE_ACTOR)
        return secret
    (made,) = service.call(MACHINE, "CreateCodes", authors=(author,)).codes
    token = service.call(visitor(), "Redeem", code=made.code).token
    if not scopes:
        return str(token)
    caller = caller_of_token(service, token, "")
    return str(service.call(caller, "CreateToken", label="", scopes=tuple(scopes), days=1).secret)


@contextmanager
def served_by(service: LadderService, way: str, http: int, rpc: int) -> Iterator[Remote]:
    """A client of a server that is another process; `service` has the same methods."""
    front, loop = Front(service, SystemClock()), asyncio.new_event_loop()
    server = Server(front, http, rpc, loop)
    try:
        with server.ending:
            yield Remote(server, way)
    finally:
        front.close()
        loop.close()


@contextmanager
def served(
    service: LadderService,
    *,
    access: Access | None = None,
    clock: Clock | None = None,
) -> Iterator[Server]:
    """Serve by a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # As `ladder serve` does: else a connection's second answer waits for 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listening.getsockname()[1]
        found = access or Access(f"http://127.0.0.1:{port}")
        loop = asyncio.new_event_loop()
        ready = threading.Event()
        started: list[Any] = []

        async def main() -> None:
            front = Front(service, clock or SystemClock())
            rpc = RpcServer(front, found)
            rpc_port = await rpc.start("127.0.0.1:0")
            app = WithApi(_nothing, http_api(front, found), found, front.visits)
            config = uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
            )
            server = uvicorn.Server(config)
            started.extend((front, rpc_port, server))
            ready.set()
            await server.serve(sockets=[listening])
            await rpc.stop()
            front.close()

        thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
        thread.start()
        ready.wait()
        front, rpc_port, server = started
        afar = Server(front, port, rpc_port, loop)
        try:
            with afar.ending:
                yield afar
        finally:

            def end() -> None:
                front.closing.set()
                server.should_exit = True

            loop.call_soon_threadsafe(end)
            thread.join()
            loop.close()


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})
