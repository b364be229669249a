"""A ladder on another machine, over its HTTP API.

Invariants: requests and answers follow from the declarations; nothing is sent before the
certificate is accepted, a redirection is not followed, and a ladder on this machine is asked
without the environment's proxies, so that those carry TLS alone; an answer has at most LARGEST
bytes, a line of a stream has at most LARGEST_LINE, and each of its parts has a timeout; an answer
that makes no sense is BadServer, with the path to the value.

Certificates that a client accepts: those that the system trusts, or the one that is pinned.

Invariants: nothing is sent before the certificate is accepted; a pinned ladder accepts that one
certificate and no other, under whatever name it is reached.
"""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, Self
from urllib.parse import quote

import httpx

from deepsea_arena.api.declarations import Flow, Method
from deepsea_arena.api.errors import (
    ApiError,
    BadServer,
    RefusalKind,
    UnknownCertificate,
    Unreachable,
)
from deepsea_arena.api.ladder_api import KEY, METHODS, ROOT, SHA256, LadderApi
from deepsea_arena.api.submissions import Archive
from deepsea_arena.documents import read_json, to_json
from deepsea_arena.games import GAMES, GamesPage
from deepsea_ladder.accounts import is_loopback
from deepsea_referee.errors import UserError
from deepsea_rules.errors import RulesError
from deepsea_rules.game import GameRecord
from deepsea_rules.printable import one_line

LARGEST = 8 << 20
LARGEST_LINE = 1 << 20
MOST_EVENTS = 10_000
"""Events of a stream that has an end, such as those of a check."""
CONNECT_S = 10.0
TIMEOUT_S = 30.0
"""Timeout of the next part of an answer."""
SILENCE_S = 120.0
"""Timeout of the next part of a stream, an export or a file."""
_LONGEST_SENTENCE = 300


class RemoteLadder(LadderApi):
    """A ladder at a URL.

    Methods raise ApiError for what the ladder refuses, RemoteError if it cannot be used, and
    UserError for a certificate that is not the pinned one.

    token    sent with every call; None: as a visitor
    pinned   the one certificate that is accepted, as PEM
    timeout  seconds that the next part of an answer may take
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        pinned: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self.url = url
        self._pinned = pinned
        self._timeout = timeout
        # A bare one takes no time, and trusts nobody.
        secure = url.startswith("https:")
        self._settings = self._context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        headers = {"accept-encoding": "identity", "connection": "close"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        try:
            self._client = httpx.Client(
                headers=headers,
                verify=self._settings,
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=not is_loopback(httpx.URL(url).host),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            why = one_line(str(error))
            raise UserError(f"the environment's proxy cannot be used: {why}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def games(self, **fields: Any) -> GamesPage:
        page: GamesPage = self._call(METHODS["games"], fields)
        asked, before = fields.get("limit", 0) or GAMES, fields.get("before", 0)
        # Pages that would never come to an end are refused.
        if len(page.games) > asked:
            raise BadServer(
                f"{self.url} gives {len(page.games)} games where {asked} were asked for"
            )
        if page.older is not None and (not page.games or (before and page.older >= before)):
            raise BadServer(f"{self.url} gives the same games again")
        return page

    def record(self, *, game_id: str) -> str:
        """A game's record, written anew: with escapes for what a terminal would obey."""
        try:
            record = GameRecord.from_json(self._call(METHODS["record"], {"game_id": game_id}))
        except RulesError:
            record = None
        if record is None or record.game_id != game_id:
            raise BadServer(f"{self.url} gives no record of that game")
        line = record.to_json().removesuffix("\n")
        return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line) + "\n"

    def submit(self, archive: Archive) -> Iterator[Any]:
        declared = METHODS["submit"]
        headers = {
            "content-type": "application/zip",
            "content-length": str(archive.size),
            SHA256: archive.sha256,
            KEY: archive.key,
        }
        fields = {"bot": archive.bot}
        return self._events(
            declared, self._built(declared, fields, content=archive.parts(), headers=headers)
        )

    # ------------------------------------------------------------------------------------ calls

    def _call(self, declared: Method, fields: Mapping[str, Any]) -> Any:
        request = self._request(declared, fields)
        match declared.flow:
            case Flow.ONE:
                return self._document(declared, self._whole(request))
            case Flow.EVENTS:
                return self._events(declared, request)
            case Flow.LINES:
                return self._lines(declared, request)
            case Flow.FILE:
                return self._parts(request)

    def _request(self, declared: Method, fields: Mapping[str, Any]) -> httpx.Request:
        rest = {
            name: value
            for name, value in fields.items()
            if f"{{{name}}}" not in declared.path and value != declared.parameters[name].default
        }
        if declared.verb == "POST":
            return self._built(declared, fields, json=rest)
        return self._built(declared, fields, params=rest)

    def _built(self, declared: Method, fields: Mapping[str, Any], **more: Any) -> httpx.Request:
        path = declared.path
        try:
            for name, value in fields.items():
                # Dots, too: ".." would be a step in a path.
                text = quote(str(value), safe="").replace(".", "%2E")
                path = path.replace(f"{{{name}}}", text)
            seconds = self._timeout if declared.flow is Flow.ONE else SILENCE_S
            timeout = httpx.Timeout(seconds, connect=CONNECT_S)
            url = f"{self.url}{ROOT}{path}"
            return self._client.build_request(declared.verb, url, timeout=timeout, **more)
        except (UnicodeError, httpx.InvalidURL):
            raise ApiError(RefusalKind.INVALID, "a name is too long, or no text") from None

    def _document(self, declared: Method, content: bytes | bytearray) -> Any:
        try:
            found = read_json(declared.document, content)
            to_json(found)  # such as a number that is too large to be written again
        except ValueError as error:
            raise BadServer(
                f"the answer of {self.url} to {declared.name} makes no sense: "
                f"{one_line(str(error), _LONGEST_SENTENCE)}"
            ) from None
        return declared.response_of(found)

    def _whole(self, request: httpx.Request) -> bytearray:
        with self._answered(request) as response:
            return self._content(response)

    def _content(self, response: httpx.Response) -> bytearray:
        content = bytearray()
        for part in response.iter_raw():
            content += part
            if len(content) > LARGEST:
                raise BadServer(f"{self.url} answers with more than {LARGEST >> 20} MiB")
        return content

    def _lines(self, declared: Method, request: httpx.Request) -> Iterator[Any]:
        with self._answered(request) as response:
            for line in self._split(response):
                yield self._document(declared, line)

    def _parts(self, request: httpx.Request) -> Iterator[bytes]:
        with self._answered(request) as response:
            yield from response.iter_raw()

    def _events(self, declared: Method, request: httpx.Request) -> Iterator[Any]:
        """Server-sent events: fields of lines, an empty line after each event."""
        with self._answered(request) as response:
            kind, data, count = "", bytearray(), 0
            for line in self._split(response):
                name, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if name == b"event":
                    kind = value.decode(errors="replace")
                elif name == b"data":
                    data += value
                    self._check_end(data)
                elif not line and data:
                    if kind == "error":
                        raise self._refusal(data, response.status_code)
                    count += 1
                    if count > MOST_EVENTS and not declared.is_endless:
                        raise BadServer(f"{self.url} does not come to an end with {declared.name}")
                    yield self._document(declared, data)
                    kind, data = "", bytearray()

    def _split(self, response: httpx.Response) -> Iterator[bytes]:
        """The lines of a response, without their ends."""
        rest = b""
        for part in response.iter_raw():
            *lines, rest = (rest + part).split(b"\n")
            yield from lines
            self._check_end(rest)
        if rest:
            raise Unreachable(f"the connection to {self.url} broke")

    def _check_end(self, line: bytes | bytearray) -> None:
        if len(line) > LARGEST_LINE:
            raise BadServer(f"{self.url} sends a line without end")

    # -------------------------------------------------------------------------------- responses

    @contextmanager
    def _answered(self, request: httpx.Request) -> Generator[httpx.Response]:
        """A response that is no refusal."""
        connection = _Connection(self._settings, self._accept)
        request.extensions["trace"] = connection.trace
        with self._named_errors(connection):
            response = self._client.send(request, stream=True)
            try:
                self._check(response)
                yield response
            finally:
                response.close()

    @contextmanager
    def _named_errors(self, connection: _Connection) -> Generator[None]:
        """Errors of the connection as those of this API."""
        try:
            yield
        except httpx.TransportError as error:
            raise self._trouble(error, connection) from None

    def _trouble(self, error: httpx.TransportError, connection: _Connection) -> Exception:
        if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
            return Unreachable(f"{self.url} does not answer in time")
        if isinstance(error, httpx.ProxyError):
            return Unreachable(f"the proxy does not reach {self.url}: {_reason(error)}")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            if (why := _verification_failure(error)) is not None:
                if self._pinned is None:
                    return UnknownCertificate(self.url, why)
                return self._changed(self._pinned, why)
            if connection.is_open:
                return Unreachable(f"{self.url} does not speak TLS: {_reason(error)}")
            return Unreachable(f"nobody answers at {self.url}: {_reason(error)}")
        cut_off = isinstance(error, httpx.NetworkError) or "without sending" in str(error)
        if cut_off or "incomplete" in str(error):
            return Unreachable(f"the connection to {self.url} broke")
        return BadServer(f"what answers at {self.url} is no ladder")

    def _changed(self, pinned: str, why: str) -> UserError:
        """The error of a certificate that is not accepted."""
        offered = offered_certificate(self.url)
        if fingerprint(offered) == fingerprint(pinned):
            return UserError(f"the certificate of {self.url} is not valid any more: {why}")
        return UserError(
            f"{self.url} has another certificate than the one that was pinned: it is not sent your "
            f"token. Ask who runs it whether the fingerprint is now {fingerprint(offered)}; if so, "
            f"`ladder login {self.url}`"
        )

    def _context(self) -> ssl.SSLContext:
        """The settings of connections to the ladder."""
        return context(self._pinned)

    def _accept(self, certificate: str) -> None:
        """Raise UserError for another one than the pinned one, such as one that it has signed."""
        if self._pinned is not None and fingerprint(certificate) != fingerprint(self._pinned):
            raise self._changed(self._pinned, "another one of the same issuer")

    def _check(self, response: httpx.Response) -> None:
        """Raise what a response stands for that is no answer."""
        status = response.status_code
        if status < 300:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise BadServer(f"{self.url} answers in an encoding that was not asked for")
            return
        if status < 400:
            raise BadServer(
                f"{self.url} sends its callers elsewhere (HTTP {status}): use the address that it "
                "has itself"
            )
        raise self._refusal(self._content(response), status)

    def _refusal(self, content: bytes | bytearray, status: int) -> Exception:
        try:
            error = json.loads(content)["error"]
            code, text, wait = error["code"], error["message"], error.get("retry_after")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return BadServer(f"what answers at {self.url} is no ladder (HTTP {status})")
        seconds = wait if type(wait) is int and 0 <= wait < 10**6 else None
        text = one_line(text, _LONGEST_SENTENCE) if isinstance(text, str) else ""
        unknown = RefusalKind.INTERNAL if status >= 500 else RefusalKind.INVALID
        kind = RefusalKind(code) if code in tuple(RefusalKind) else unknown
        if kind in (RefusalKind.UNAVAILABLE, RefusalKind.INTERNAL):
            return Unreachable(f"{self.url}: {text or 'it has a problem'}", seconds)
        text = text or "the ladder refuses this"
        if seconds is not None and "try again" not in text:
            text += f"; try again in {_duration(seconds)}"
        return ApiError(kind, text, seconds)


class _Connection:
    """The connection of one call, as httpx reports it.

    settings  those of connections to the ladder; a proxy may have TLS of its own
    accept    called with the ladder's certificate as PEM; what it raises ends the call
    """

    def __init__(self, settings: ssl.SSLContext, accept: Callable[[str], object]) -> None:
        self._settings = settings
        self._accept = accept
        self.is_open = False

    def trace(self, name: str, info: Mapping[str, Any]) -> None:
        """Called by httpx for each step; what it raises ends the call before anything is sent."""
        if not name.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        stream = info["return_value"]
        self.is_open = True
        secured = stream.get_extra_info("ssl_object")
        if secured is not None and secured.context is self._settings:
            try:
                self._accept(ssl.DER_cert_to_PEM_cert(secured.getpeercert(True)))
            except BaseException:
                stream.close()
                raise


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{-(-seconds // 60)} minutes"


def _verification_failure(error: BaseException | None) -> str | None:
    """The reason why a certificate was refused; None if that was not the cause."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return None if error is None else error.verify_message


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {CONNECT_S:g} s"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return one_line(str(error)) or type(error).__name__


def _method(declared: Method) -> Callable[..., Any]:
    def call(ladder: RemoteLadder, **fields: Any) -> Any:
        return ladder._call(declared, fields)  # noqa: SLF001  (a method of that class)

    return call


for _name, _declared in METHODS.items():
    if _name not in vars(RemoteLadder):
        setattr(RemoteLadder, _name, _method(_declared))


class _Shown(RemoteLadder):
    """A ladder that is to show its certificate, whoever it is, and gets nothing."""

    def _context(self) -> ssl.SSLContext:
        settings = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        settings.check_hostname = False
        settings.verify_mode = ssl.CERT_NONE
        return settings

    def _accept(self, certificate: str) -> NoReturn:
        raise _Certificate(certificate)


class _Certificate(Exception):
    """A certificate that was shown, as PEM."""


def offered_certificate(url: str) -> str:
    """The certificate that a ladder shows, as PEM, whoever it is; nothing is sent to it."""
    try:
        with _Shown(url) as ladder:
            ladder.server()
    except _Certificate as shown:
        return str(shown)
    raise Unreachable(f"{url} shows no certificate")


def context(pinned: str | None) -> ssl.SSLContext:
    """The settings of connections; `pinned` is a certificate as PEM."""
    if pinned is None:
        return ssl.create_default_context()
    try:
        settings = ssl.create_default_context(cadata=pinned)
    except (ssl.SSLError, ValueError):
        raise UserError("the pinned certificate is damaged: log in again") from None
    settings.check_hostname = False  # it is that one certificate, whatever it is called
    # A certificate that makes itself need not have all that those of an authority have.
    settings.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    settings.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return settings


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate, in groups of four hex digits, for people to compare."""
    digits = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def same_fingerprint(one: str, other: str) -> bool:
    """True if two fingerprints are equal; spaces, colons and dashes do not count."""
    return _digits(one) == _digits(other)


def _digits(text: str) -> str:
    text = text.lower().removeprefix("sha256").removeprefix("sha-256")
    return "".join(c for c in text if c not in ": \t-")
