"""Access to the site: its address, the clients that it answers, and their connections.

Start reading at Access and Gate, which decide on every request; Connection limits what a client may
do before and after a request.

Invariants of requests: every response has the headers of the policy, errors too; a request for
another host's name is refused, so that no foreign page can reach this site by a name of its own
(DNS rebinding), and so is a request with two lengths, which a proxy and this server might cut
differently (request smuggling); without TLS of its own, the site answers only this machine and the
proxies that the operator trusts; a header X-Forwarded-For is believed only from these proxies, and
requests of other proxies are refused; a client whom a proxy does not name is unknown, and never
this machine; the site answers to the names of its public address and of this machine alone.

Invariants of connections: a request has to arrive within PATIENCE_S of its first byte or of the
connection, and a response has to be read within `answer_seconds`, so that nobody holds connections
by silence or slowness; the connections of an address are limited, unless it may be everybody's;
bytes that are no HTTP get 400 with the headers of the policy; a handshake uses the certificate that
is in the files at that time; every cipher has forward secrecy and none has CBC.
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
from urllib.parse import SplitResult, quote, unquote_plus, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from deepsea_ladder.accounts import address_key, is_loopback
from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.errors import UserError

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""The policy for pages: everything from this site alone, and no inline scripts or styles."""
HEADERS = {
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With "no-referrer" browsers would send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of the policy, which every response has."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine."""
_PORT = re.compile(r":[0-9]*\Z")
Address = IPv4Address | IPv6Address
UNKNOWN = "unknown"
"""The address of all clients whom a trusted proxy does not name; they share one set of limits."""
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
    """The path with which its addresses begin, such as `/ladder`, without a slash at its end."""
    hosts: frozenset[str] = frozenset(LOOPBACK)
    """The host names that requests may use for the site."""
    proxies: frozenset[Address] = frozenset()
    """The addresses of the proxies that the operator trusts."""
    everybody: bool = False
    """True if clients on other machines need no proxy, since the site has TLS of its own."""
    logged_proxies: set[str] = field(default_factory=set, compare=False, repr=False)
    """The first untrusted proxy whose refusal was logged; empty until then."""

    @property
    def is_local(self) -> bool:
        """True if the site is for this machine alone, as far as the operator has said."""
        host = urlsplit(self.origin).hostname or ""
        return is_loopback(host) and not (self.proxies or self.everybody)

    def keeps_secrets(self, client: str) -> bool:
        """Return True if only the server can read the data that a client at this address sends."""
        return self.origin.startswith("https:") or is_loopback(client)

    def is_shared(self, peer: str) -> bool:
        """Return True if a peer may stand for many clients: this machine, or a trusted proxy."""
        return is_loopback(peer) or self._trusts(peer)

    def _trusts(self, peer: str) -> bool:
        """Return True if a peer is a proxy that the operator trusts."""
        return _ip_address(peer) in self.proxies

    def url(self, path: str, **query: object) -> str:
        """Return a link within the site; a parameter that is None, False or empty is left out."""
        parameters = {
            name: "1" if value is True else str(value)
            for name, value in query.items()
            if value is not None and value is not False and value != ""
        }
        query_string = f"?{urlencode(parameters)}" if parameters else ""
        return f"{self.prefix}{quote(path, safe=_UNRESERVED)}{query_string}"

    def canonical(self, path: str, **query: object) -> str:
        """Return a link with the site's origin, which works from anywhere."""
        return self.origin + self.url(path, **query)

    def client(self, peer: str, forwarded: Sequence[str], *, direct: bool = True) -> str | None:
        """Return the address of the client that sends a request; None to refuse the request.

        The address is UNKNOWN if a proxy does not say for whom it sends the request.

        peer       the address at the other end of the connection
        forwarded  the values of the X-Forwarded-For headers
        direct     False if the host or the HTTP version of the request is one that clients get from
                   a proxy, so that the peer is probably a proxy
        """
        if self._trusts(peer):  # a proxy, which names its client in the headers
            return _forwarded_address(peer, forwarded)
        address = _ip_address(peer)
        # A peer without an IP address is a socket of this machine.
        is_this_machine = address is None or address.is_loopback
        if is_this_machine:  # a client here, or a proxy here whose headers are not to be believed
            return peer if direct else UNKNOWN
        # A client on another machine that does not come through the proxy
        return peer if self.everybody else None

    def is_untrusted_proxy(self, peer: str, header_names: Iterable[str], *, direct: bool) -> bool:
        """Return True if a request was passed on by a proxy that the operator has not named.

        header_names  the names of the request's headers, in lower case
        direct        False if the host or the HTTP version of the request is one that clients get
                      from a proxy, even if no header names one
        """
        has_proxy_header = any(map(_PASSED_ON.fullmatch, header_names))
        is_passed_on = has_proxy_header or (self.is_local and not direct)
        return is_passed_on and not self._trusts(peer)

    def proxy_refusal(self, peer: str) -> str:
        """Return the sentence with which the requests of an untrusted proxy are refused.

        It tells the operator how to trust the proxy. Only the first refusal of all is logged, so
        that nobody can fill the log.
        """
        sentence = (
            f"requests of a proxy at {peer or UNKNOWN} are refused: start the server with "
            f"--trusted-proxy {peer or 'ADDRESS'}, so that it knows whose requests they are"
        )
        if not self.logged_proxies:
            self.logged_proxies.add(peer)
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
    """Return the access to a site that listens at an address.

    public_url  the address that clients use; None: the one where it listens
    proxies     the addresses of trusted proxies
    tls         True if the server has a certificate of its own
    Raises UserError if others could read the requests of clients, or if a value is wrong.
    """
    trusted = frozenset(map(_proxy_address, proxies))
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
    origin, name, prefix = _split_public_address(public_url)
    return Access(origin, prefix, frozenset({*LOOPBACK, name}), trusted, everybody=tls)


class Gate:
    """An application around another one, which it guards by an access.

    It refuses requests of clients and to hosts that the access does not answer, adds HEADERS to
    every response, and sets `client` in the scope to the address of the client.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it, with HEADERS in both cases."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app, headers = self._app, Headers(scope=scope)
        hosts = headers.getlist("host")
        peer, port = scope.get("client") or ("", 0)
        host = host_name(hosts[0]) if len(hosts) == 1 else ""
        # A proxy is recognised, even if it adds no header, by two signs: without TLS here only a
        # proxy is called by the public name, and nginx speaks HTTP/1.0 unless told otherwise.
        is_called_directly = host in LOOPBACK or self._access.everybody
        direct = is_called_directly and scope["http_version"] != "1.0"
        client = self._access.client(peer, headers.getlist("x-forwarded-for"), direct=direct)
        if "content-length" in headers and "transfer-encoding" in headers:
            closing = {"Connection": "close"}
            app = PlainTextResponse("a request has one length, not two\n", 400, closing)
        elif host not in self._access.hosts:
            app = PlainTextResponse("this host is not served here\n", 421)
        elif self._access.is_untrusted_proxy(peer, headers.keys(), direct=direct):
            app = PlainTextResponse(f"{self._access.proxy_refusal(peer)}\n", 403)
        elif client is None:
            app = PlainTextResponse("this server answers its proxy alone\n", 403)
        else:
            scope = {**scope, "client": (client, port)}
        await app(scope, receive, send_with_headers)


def host_name(host: str) -> str:
    """Return the host of a `Host` header without its port, in lower case.

    An IPv6 address keeps its brackets.
    """
    return _PORT.sub("", host).lower()


def _split_public_address(url: str) -> tuple[str, str, str]:
    """Split a public address into its origin, its host name and its path, the site's prefix.

    Raises UserError unless it is an http or https URL with at most a host, a port and a plain path.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii()
    has_plain_path = path == quote(path, safe=_UNRESERVED) and "//" not in path and ".." not in path
    has_other_parts = bool(parts.query or parts.fragment) or "@" in parts.netloc
    if not is_url or not _has_valid_port(parts) or not has_plain_path or has_other_parts:
        raise UserError(
            f"--public-url {url!r} is no address such as https://host or https://host/prefix"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}", host_name(parts.netloc), path


def _proxy_address(text: str) -> Address:
    """Return the address of a proxy as the operator gives it. Raises UserError for other texts."""
    address = _ip_address(text)
    if address is None:
        raise UserError(f"--trusted-proxy {text!r} is no IP address")
    return address


def _has_valid_port(url: SplitResult) -> bool:
    """Return True unless the port in a URL is empty, no number or too large; none is valid, too."""
    try:
        port = url.port
    except ValueError:
        return False
    has_empty_port = port is None and url.netloc.endswith(":")
    return not has_empty_port


def _ip_address(text: str) -> Address | None:
    """Return the IP address that a text is; None for any other text."""
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        # A socket for both IPv4 and IPv6 has ::ffff:192.0.2.7 as the address of 192.0.2.7.
        return address.ipv4_mapped
    return address


def _forwarded_address(proxy: str, forwarded: Sequence[str]) -> str:
    """Return the address of the client for whom a trusted proxy has passed on a request.

    It is the last one in the X-Forwarded-For headers, which the proxy has added: the client may
    have invented all others.
    """
    addresses = [*map(_ip_address, ",".join(forwarded).split(","))]
    if addresses[-1] is not None:
        return str(addresses[-1])
    if not forwarded:
        return UNKNOWN
    # The header is malformed. It must not make the client one of this machine, which has no
    # limits: take the last address that is not loopback, or the proxy's own.
    candidates = [_ip_address(proxy), *addresses]
    remote = [address for address in candidates if address and not address.is_loopback]
    return str(remote[-1]) if remote else UNKNOWN


# ------------------------------------------------------------- texts and origins of requests

_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_texts(where: str, document: object) -> None:
    """Raise UserError if a text in a document has a character that the store cannot hold.

    Such are control characters and halves of surrogate pairs. Texts are checked at every depth of
    lists and objects, also keys. `where` names the document in the error.
    """
    unchecked = [document]
    while unchecked:
        match unchecked.pop():
            case str() as text if _NO_TEXT.search(text):
                raise UserError(f"{where} has a control character, or half of a surrogate pair")
            case list() | tuple() as items:
                unchecked.extend(items)
            case dict() as table:
                unchecked.extend(table.keys())
                unchecked.extend(table.values())


def check_address(scope: Scope) -> None:
    """Raise UserError if the path or the query of a request has a text that no store can hold."""
    query = unquote_plus(scope["query_string"].decode("latin-1"))
    check_texts("the address", [scope["path"], query])


def is_foreign(request: Request, access: Access) -> bool:
    """Return True if the browser's headers say that a page of another site sends the request.

    Programs other than browsers send neither header, and are not foreign.
    """
    fetch_sites = request.headers.getlist("sec-fetch-site")
    origins = request.headers.getlist("origin")
    # A header that is missing says nothing; one that is there twice is foreign, too.
    is_same_site = fetch_sites in ([], ["same-origin"])
    is_same_origin = origins in ([], [_browser_origin(request, access)])
    return not (is_same_site and is_same_origin)


def _browser_origin(request: Request, access: Access) -> str:
    """Return the origin, such as `https://example.org`, that a browser knows the site by.

    A site on this machine has several names, and through a tunnel another port than its own: for
    it the origin follows from the host that the request names.
    """
    scheme, _, host = access.origin.partition("://")
    requested_host = request.headers.get("host", "").lower()
    if host_name(host) in LOOPBACK and host_name(requested_host) in LOOPBACK:
        host = requested_host
    # Browsers leave out the port if it is the usual one of the scheme.
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS[scheme])}"


# ------------------------------------------------------------------------------------- connections

PATIENCE_S = 10
"""Time within which a request has to arrive."""
_HEAD = "\r\n".join(
    (
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
    )
)
"""The header lines of responses that do not pass through an application."""
BACKLOG = 2048
"""Maximum number of connections that wait to be accepted."""
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2; those of TLS 1.3 are all as good."""
_FileState = tuple[int, int, int] | None
"""The time of the last change, size and inode of a file; None if it cannot be read."""


class Connection(H11Protocol):
    """A connection with time limits for the arrival of requests and for reading responses.

    uvicorn makes one for each client and calls the methods of asyncio.Protocol.
    """

    _request_timer: asyncio.TimerHandle | None = None
    """Runs while the connection waits for a whole request."""
    _reading_timer: asyncio.TimerHandle | None = None
    """Runs while the client does not read a response as fast as it is written."""
    _source: str | None = None
    """The address under which the connection is counted; None if it is not."""

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
        """Count a new connection under its address, and wait for a request on it.

        If the address has too many connections, respond with 429 and hang up.
        """
        super().connection_made(transport)
        # With this limit `pause_writing` is called as soon as the client reads too slowly for the
        # system to take all bytes, and so the time limit for reading begins.
        transport.set_write_buffer_limits(high=1)
        peer = self.client[0] if self.client else ""
        if not self._access.is_shared(peer):
            self._source = address_key(peer)
            self._opened[self._source] += 1
            if self._opened[self._source] > self._limits().connections_of_address:
                self._refuse("429 Too Many Requests", "too many connections from your address")
                return
        self._wait_for_request()

    def pause_writing(self) -> None:
        """Abort the connection unless the client reads on within `answer_seconds`."""
        super().pause_writing()
        timeout_s = self._limits().answer_seconds
        self._reading_timer = self.loop.call_later(timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time limit for reading, since the client has read on."""
        super().resume_writing()
        if self._reading_timer is not None:
            self._reading_timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request: the first one starts the time limit, the last one ends it."""
        super().data_received(data)  # begins the response once the request is whole
        if self._is_answering():
            self._stop_waiting()
        elif self._request_timer is None:  # the first bytes after a former response
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limits, and count the connection no longer."""
        self._stop_waiting()
        self.resume_writing()  # stops the time limit for reading
        if self._source is not None:
            self._opened[self._source] -= 1
            if not self._opened[self._source]:
                del self._opened[self._source]
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Respond to bytes that are no HTTP, and hang up; uvicorn calls it."""
        self._refuse("400 Bad Request", msg)

    def _refuse(self, status: str, sentence: str) -> None:
        """Respond with a status and a sentence, unless a response has begun, and hang up."""
        if not self._is_answering():
            self.transport.write(f"HTTP/1.1 {status}\r\n{_HEAD}\r\n\r\n{sentence}\n".encode())
        self.transport.close()

    def _is_answering(self) -> bool:
        """Return True from the arrival of a request to the end of its response."""
        cycle: Any = self.cycle  # uvicorn's state of the last request
        return cycle is not None and not cycle.response_complete

    def _wait_for_request(self) -> None:
        """Hang up unless a whole request arrives within PATIENCE_S."""
        self._request_timer = self.loop.call_later(PATIENCE_S, self._hang_up)

    def _stop_waiting(self) -> None:
        """Stop the time limit for the arrival of a request."""
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _hang_up(self) -> None:
        """Close the connection at the end of the time limit, if no response has begun."""
        self._request_timer = None
        if not self._is_answering():
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; for port 0 the system chooses one.

    Raises UserError if the address cannot be used.
    """
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
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"--host {host} --port {port}: {reason}") from None

    # Accepted connections inherit this option. Without it the second part of a page would wait 40
    # ms, until the reader has acknowledged the first; asyncio sets the option only on sockets that
    # name their protocol.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Certificate:
    """A server's certificate chain and key in two PEM files, which may be replaced at any time.

    Threads may share one. Raises UserError if the files cannot be used at the beginning.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._lock = Lock()
        self._states = self._file_states()
        self._settings = self._read_settings()

    def context(self) -> ssl.SSLContext:
        """Return TLS settings for a server, whose connections use the files as they are by then.

        So a new certificate is used without a restart.
        """
        server_settings = self._read_settings()

        def use_current_files(
            handshake: ssl.SSLSocket | ssl.SSLObject,
            server_name: str | None,
            former_settings: ssl.SSLContext,
        ) -> None:
            """Give the connection of this handshake settings with the files as they are now."""
            handshake.context = self._current_settings()

        # The module `ssl` calls an `sni_callback` early in every handshake, so that servers with
        # several names can choose a certificate. It does so even if the client sends no name.
        server_settings.sni_callback = use_current_files
        return server_settings

    def _current_settings(self) -> ssl.SSLContext:
        """Return the TLS settings with the files as they are now.

        If the files have changed and cannot be used, the settings with the former files stay, and a
        warning is logged once.
        """
        with self._lock:
            states = self._file_states()
            if states != self._states:
                # Noted even if the files turn out to be wrong, so that they are read only once.
                self._states = states
                try:
                    self._settings = self._read_settings()
                except UserError as error:
                    _log.warning("%s; the pair before stays in use", error)
            return self._settings

    def _read_settings(self) -> ssl.SSLContext:
        """Return TLS settings with the files as they are.

        Raises UserError if a file cannot be read, or if the two are no certificate and its key.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_ciphers(CIPHERS)
        try:
            # An empty password, since without one OpenSSL would ask for it on the terminal.
            context.load_cert_chain(self._chain, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"--tls-cert {self._chain} --tls-key {self._key}: {reason}") from None
        return context

    def _file_states(self) -> tuple[_FileState, _FileState]:
        return _file_state(self._chain), _file_state(self._key)


def _file_state(path: Path) -> _FileState:
    """Return values that change whenever a file does; None if it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
