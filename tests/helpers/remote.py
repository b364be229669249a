"""A ladder on a port of this machine, and a client that sends what no client should, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import quote, urlencode

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.errors import STATUS
from deepsea_arena.api.ladder_api import METHODS, ROOT
from deepsea_arena.api.service import LadderService
from deepsea_referee.clock import Clock, SystemClock
from deepsea_web.access import Access
from deepsea_web.gateway import Gateway
from deepsea_web.http_api import http_api
from deepsea_web.serve import with_api

from . import members
from .listening import listening
from .manual_clock import ManualClock

PATIENCE_S: Final = 300
OK: Final = "OK"
_CODE_OF: Final = {status: kind.value for kind, status in STATUS.items()}


@dataclass
class Answer:
    """What came back."""

    code: str
    """OK, or the word of a refusal."""
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

    gateway: Gateway
    port: int
    loop: asyncio.AbstractEventLoop

    def jump(self, us: int) -> None:
        """Move its ManualClock, where its alarms belong."""
        clock = self.gateway.clock
        assert isinstance(clock, ManualClock)

        async def jump() -> None:
            clock.jump(us)

        asyncio.run_coroutine_threadsafe(jump(), self.loop).result(PATIENCE_S)


class Remote:
    """A client of a server that listens."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = server.port

    def token(self, author: str) -> str:
        """A token of the ladder, of an author who is added unless there is one."""
        return members.a_token(self.server.gateway.service, author)

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
        method, left = METHODS[name], dict(fields)
        path = method.path
        for key in fields:
            if f"{{{key}}}" in path:
                path = path.replace(f"{{{key}}}", quote(str(left.pop(key)), safe=""))
        body = b""
        if method.verb == "POST":
            body = json.dumps(left).encode()
            given.append(("content-length", str(len(body))))
        elif left:
            texts = {key: _text(value) for key, value in left.items()}
            path += f"?{urlencode(texts, doseq=True)}"
        return self._send(method.verb, path, [*given, *headers], [body], most, method.flow)

    def submit(
        self,
        token: str | None,
        header: Mapping[str, object],
        chunks: Iterable[bytes],
        most: int | None = None,
    ) -> Answer:
        """The answers to an upload, at most so many."""
        given = [] if token is None else [("authorization", f"Bearer {token}")]
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
            Flow.EVENTS,
        )

    def _send(
        self,
        verb: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: Iterable[bytes],
        most: int | None,
        flow: Flow,
    ) -> Answer:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
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
            if flow is Flow.FILE:
                return Answer(OK, [], answer.read())
            if flow is Flow.EVENTS:
                return _events(answer, most)
            return Answer(OK, [json.loads(line) for line in answer.read().splitlines()])


def _events(answer: Any, most: int | None) -> Answer:
    documents: list[dict[str, Any]] = []
    kind = b""
    while len(documents) != most and (line := answer.readline()):
        name, _, value = line.partition(b": ")
        if name == b"event":
            kind = value.strip()
        elif name == b"data" and kind == b"error":
            error = json.loads(value)["error"]
            return Answer(error["code"], documents, b"", error["message"], error.get("retry_after"))
        elif name == b"data":
            documents.append(json.loads(value))
    return Answer(OK, documents)


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return list(value) if isinstance(value, tuple | list) else str(value)


def a_token(service: LadderService, author: str, *, admin: bool = False) -> str:
    """A token of an author, who is added unless there is one."""
    return (members.an_admin_token if admin else members.a_token)(service, author)


@contextmanager
def served_by(service: LadderService, port: int) -> Iterator[Remote]:
    """A client of a server that is another process; `service` is of the same ladder."""
    gateway, loop = Gateway(service, SystemClock()), asyncio.new_event_loop()
    try:
        yield Remote(Server(gateway, port, loop))
    finally:
        gateway.close()
        loop.close()


@contextmanager
def served(
    service: LadderService,
    *,
    access: Access | None = None,
    clock: Clock | None = None,
) -> Iterator[Server]:
    """Serve the API of a ladder."""
    gateway = Gateway(service, clock or SystemClock())

    def app(port: int) -> Any:
        found = access or Access(f"http://127.0.0.1:{port}")
        return with_api(no_page, http_api(gateway, found), found)

    with closing(gateway), listening(app, gateway.closing.set) as found:
        yield Server(gateway, found.port, found.loop)


async def no_page(scope: Any, receive: Any, send: Any) -> None:
    """A site without pages."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})
