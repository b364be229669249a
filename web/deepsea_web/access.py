"""Access: the address of the site, the clients that it answers, the headers and hosts of every
response, and requests from other sites.

Invariants: every status has the policy, errors too; a request for another host's name is refused,
so that no foreign page can reach this one by a name of its own (DNS rebinding), and one with two
lengths, which a proxy and this server may cut differently (request smuggling); without TLS of its
own, nobody beyond this machine is answered but the proxies that the operator trusts; a header
X-Forwarded-For is believed if it comes from these proxies, and what others pass on is refused; a
client whom a proxy does not name is unknown, and never this machine; the site answers to the names
of its public address and of this machine, and to no other.

Connections to the site: the socket, its certificate, and limits before and after a request.

Invariants: a request has to be there within PATIENCE_S of its first byte or of the connection, and
an answer has to be read within `answer_seconds`, so that nobody holds connections by silence or
slowness; an address has so many of them, but not one that may be everybody's; bytes that are no
HTTP get 400 with the policy's headers, as everything does; a handshake has the certificate that is
in the files then; no cipher has CBC, nor a secret that comes out with the key.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from deepsea_ladder.accounts import is_loopback, source
from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.errors import UserError

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With "no-referrer" browsers would send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_PORT = re.compile(r":[0-9]*\Z")
Address = IPv4Address | IPv6Address
UNKNOWN = "unknown"
"""The address of every client whom no header of a trusted proxy names; they share its limits."""
_PASSED_ON = re.compile("x-forwarded-.+|forwarded|x-real-ip|via")
"""The headers that a proxy adds to a request, in lower case."""
_USUAL_PORTS = {"http": ":80", "https": ":443"}
_UNRESERVED = "-._~!$'()*,;:@/"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """The address of the site, and the clients that it answers."""

    origin: str
    """Scheme, host and port of its addresses, such as `https://example.org`."""
    prefix: str = ""
    """The path that all of its addresses begin with, such as `/ladder`; none ends with a slash."""
    hosts: frozenset[str] = frozenset(LOOPBACK)
    """The names that requests may call it by."""
    proxies: frozenset[Address] = frozenset()
    everybody: bool = False
    """True if clients beyond this machine need no proxy."""
    refused: set[str] = field(default_factory=set, compare=False, repr=False)
    """The first proxy that was refused."""

    @property
    def is_local(self) -> bool:
        """True if the site is for this machine alone, as far as the operator has said."""
        host = urlsplit(self.origin).hostname or ""
        return is_loopback(host) and not (self.proxies or self.everybody)

    def keeps_secrets(self, client: str) -> bool:
        """True if nobody but the server reads what a client at this address sends."""
        return self.origin.startswith("https:") or is_loopback(client)

    def is_shared(self, peer: str) -> bool:
        """True if a peer may be everybody: this machine, or a trusted proxy."""
        return is_loopback(peer) or self._trusts(peer)

    def _trusts(self, peer: str) -> bool:
        return _address(peer) in self.proxies

    def url(self, path: str, **query: object) -> str:
        """A link within the site; a parameter that is None, False or empty is left out."""
        words = {
            name: "1" if value is True else str(value)
            for name, value in query.items()
            if value is not None and value is not False and value != ""
        }
        return (
            f"{self.prefix}{quote(path, safe=_UNRESERVED)}{f'?{urlencode(words)}' if words else ''}"
        )

    def canonical(self, path: str, **query: object) -> str:
        """The same with the origin: a link that works from anywhere."""
        return self.origin + self.url(path, **query)

    def client(self, peer: str, forwarded: Sequence[str], *, direct: bool = True) -> str | None:
        """The address of who asks; None if it is nobody that is answered.

        forwarded  the X-Forwarded-For headers
        direct     False for a request as a program on this machine does not send it by itself
        """
        address = _address(peer)
        if self._trusts(peer):
            # The last one is the proxy's word; those before are the client's.
            known = [*map(_address, ",".join(forwarded).split(","))]
            if known[-1] is None:
                # Nonsense never makes a client one of this machine, who is not counted.
                words = [address, *known] if forwarded else []
                known = [one for one in words if one and not one.is_loopback]
            return str(known[-1]) if known else UNKNOWN
        if address is None or address.is_loopback:
            return peer if direct else UNKNOWN
        return peer if self.everybody else None

    def lacks_proxy(self, peer: str, names: Iterable[str], *, direct: bool) -> bool:
        """True if a request comes from a proxy that the operator has not named.

        names  those of its headers, in lower case
        """
        is_passed_on = any(map(_PASSED_ON.fullmatch, names)) or (self.is_local and not direct)
        return is_passed_on and not self._trusts(peer)

    def refuse_proxy(self, peer: str) -> str:
        """The sentence for requests of a proxy that the operator has not named; once in the log."""
        sentence = (
            f"requests of a proxy at {peer or UNKNOWN} are refused: start the server with "
            f"--trusted-proxy {peer or 'ADDRESS'}, so that it knows whose requests they are"
        )
        if not self.refused:
            self.refused.add(peer)
            _log.warning("%s", sentence)
        return sentence


def access(
    host: str,
    port: int,
    *,
    public_url: str | None = None,
    proxies: Sequence[str] = (),
    tls: bool = False,
) -> Access:
    """The access to a site at this address. Raises UserError if that would not be safe."""
    trusted = frozenset(map(_proxy, proxies))
    if not is_loopback(host):
        if not (tls or trusted):
            raise UserError(
                f"--host {host} is reached from other machines: give --tls-cert and --tls-key, or "
                "--trusted-proxy with the address of the proxy in front of it"
            )
        if public_url is None:
            raise UserError(
                f"--host {host} is reached from other machines: give --public-url, the address "
                "that they use"
            )
    if public_url is None:
        name = f"[{host}]" if ":" in host else host
        return Access(f"{'https' if tls else 'http'}://{name}:{port}", proxies=trusted)
    origin, name, prefix = _public(public_url)
    return Access(origin, prefix, frozenset({*LOOPBACK, name}), trusted, everybody=tls)


class Gate:
    """An application with the headers above, for requests to the hosts of an access by those whom
    it lets in; `client` in its scope is who asks."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app, given = self._app, Headers(scope=scope)
        hosts = given.getlist("host")
        peer, port = scope.get("client") or ("", 0)
        called = host_name(hosts[0]) if len(hosts) == 1 else ""
        # Without TLS here the public name leads to a proxy, and HTTP/1.0 is spoken by nginx without
        # settings of its own, which names no client either.
        near = called in LOOPBACK or self._access.everybody
        direct = near and scope["http_version"] != "1.0"
        client = self._access.client(peer, given.getlist("x-forwarded-for"), direct=direct)
        if "content-length" in given and "transfer-encoding" in given:
            closing = {"Connection": "close"}
            app = PlainTextResponse("a request has one length, not two\n", 400, closing)
        elif called not in self._access.hosts:
            app = PlainTextResponse("this host is not served here\n", 421)
        elif self._access.lacks_proxy(peer, given.keys(), direct=direct):
            app = PlainTextResponse(f"{self._access.refuse_proxy(peer)}\n", 403)
        elif client is None:
            app = PlainTextResponse("this server answers its proxy alone\n", 403)
        else:
            scope = {**scope, "client": (client, port)}
        await app(scope, receive, guarded)


def host_name(host: str) -> str:
    """The host of a `Host` header without its port, in lower case; an IPv6 address in brackets."""
    return _PORT.sub("", host).lower()


def _public(url: str) -> tuple[str, str, str]:
    """Origin, host and prefix of a public address."""
    parts = urlsplit(url)
    try:
        said = parts.port is not None or not parts.netloc.endswith(":")
    except ValueError:
        said = False
    path = parts.path.rstrip("/")
    plain = path == quote(path, safe=_UNRESERVED) and "//" not in path and ".." not in path
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not (said and plain)
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or not url.isascii()
    ):
        raise UserError(
            f"--public-url {url!r} is no address such as https://host or https://host/prefix"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}", host_name(parts.netloc), path


def _proxy(text: str) -> Address:
    address = _address(text)
    if address is None:
        raise UserError(f"--trusted-proxy {text!r} is no IP address")
    return address


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    # A socket for both families names IPv4 clients so.
    return getattr(address, "ipv4_mapped", None) or address


_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_texts(where: str, document: object) -> None:
    """Raise UserError for a text at any depth, a key too, that no store and no page can have."""
    values = [document]
    while values:
        match values.pop():
            case str() as text if _NO_TEXT.search(text):
                raise UserError(f"{where} has a control character, or half of a surrogate pair")
            case list() | tuple() as items:
                values.extend(items)
            case dict() as table:
                values.extend((*table, *table.values()))


def check_address(scope: Scope) -> None:
    """The same for the path and the parameters of a request."""
    check_texts(
        "the address", [scope["path"], unquote_plus(scope["query_string"].decode("latin-1"))]
    )


def is_foreign(request: Request, access: Access) -> bool:
    """True if a browser says that a page of another site sends this."""
    fetched = request.headers.getlist("sec-fetch-site")
    origins = request.headers.getlist("origin")
    return fetched not in ([], ["same-origin"]) or origins not in ([], [_origin(request, access)])


def _origin(request: Request, access: Access) -> str:
    """The origin of the site as the browser knows it."""
    scheme, _, host = access.origin.partition("://")
    called = request.headers.get("host", "").lower()
    if host_name(host) in LOOPBACK and host_name(called) in LOOPBACK:
        # This machine has several names, and its port may be another one through a tunnel.
        host = called
    # Browsers leave the usual port out.
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS[scheme])}"


PATIENCE_S = 10
_HEAD = "\r\n".join(
    (
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
    )
)
BACKLOG = 2048
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; 1.3 has no others."""
_Seen = tuple[tuple[int, int, int] | None, ...]


class Connection(H11Protocol):
    """A connection with time limits for requests and for reading answers."""

    _limit: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _source: str | None = None

    def __init__(
        self,
        *given: Any,
        access: Access,
        limits: Callable[[], RemoteLimits],
        opened: Counter[str],
        **named: Any,
    ) -> None:
        """`opened` counts the connections of each address, and is shared by all of them."""
        super().__init__(*given, **named)
        self._access = access
        self._limits = limits
        self._opened = opened

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # what the system does not take at once, waits
        peer = self.client[0] if self.client else ""
        if not self._access.is_shared(peer):
            self._source = source(peer)
            self._opened[self._source] += 1
            if self._opened[self._source] > self._limits().connections_of_address:
                self._refuse("429 Too Many Requests", "too many connections from your address")
                return
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(self._limits().answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._limit is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        if self._source is not None:
            self._opened[self._source] -= 1
            if not self._opened[self._source]:
                del self._opened[self._source]
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and hang up."""
        self._refuse("400 Bad Request", msg)

    def _refuse(self, status: str, sentence: str) -> None:
        if not self._is_answering():
            self.transport.write(f"HTTP/1.1 {status}\r\n{_HEAD}\r\n\r\n{sentence}\n".encode())
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


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is one of the system's choice. Raises UserError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            raise UserError(
                f"port {port} of {host} is in use: choose another one with --port"
            ) from None
        if code == errno.EACCES:
            raise UserError(f"port {port} needs more rights: choose one above 1023") from None
        words = getattr(error, "strerror", None) or error
        raise UserError(f"--host {host} --port {port}: {words}") from None

    # For all that connect: asyncio does it by itself only for sockets that name their protocol, and
    # else a page of two parts waits 40 ms for the reader's word on the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Certificate:
    """A pair of PEM files; threads may share one. Raises UserError if there is none at first."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._lock = Lock()
        self._seen = self._look()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The settings of a server: each handshake has the pair as it is then."""
        outer = self._read()

        def choose(
            handshake: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
        ) -> None:
            handshake.context = self._now()

        outer.sni_callback = choose
        return outer

    def _now(self) -> ssl.SSLContext:
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self._context = self._read()
                except UserError as error:
                    _log.warning("%s; the pair before stays in use", error)
            return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_ciphers(CIPHERS)
        try:
            # Without a password: else it would be asked for on the terminal.
            context.load_cert_chain(self._chain, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or error
            raise UserError(f"--tls-cert {self._chain} --tls-key {self._key}: {words}") from None
        return context

    def _look(self) -> _Seen:
        return tuple(map(_state, (self._chain, self._key)))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
