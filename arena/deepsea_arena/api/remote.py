"""A ladder on another machine, over its HTTP API, and the certificates that a client accepts.

Start reading at RemoteLadder and its `_call`.

Invariants: requests and responses follow from the declarations; nothing is sent before the
certificate is accepted, which is one that the system trusts or, for a pinned ladder, the pinned one
and no other, whatever the ladder's name is; a redirection is not followed; a ladder on this machine
is asked without the environment's proxies, so that those carry only TLS; a response has at most
LARGEST bytes, a line of a stream at most LARGEST_LINE, and each of its parts has a timeout; an
invalid response raises BadServer, with the path to the value.
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
"""Maximum bytes of a response that is one document."""
LARGEST_LINE = 1 << 20
"""Maximum bytes of a line of a stream."""
MOST_EVENTS = 10_000
"""Maximum events of a stream that has an end, such as those of a check."""
CONNECT_S = 10.0
"""Timeout of connecting, in seconds."""
TIMEOUT_S = 30.0
"""Timeout of the next part of a document, in seconds."""
SILENCE_S = 120.0
"""Timeout of the next part of a stream, an export or a file, in seconds."""
_LONGEST_SENTENCE = 300


class RemoteLadder(LadderApi):
    """A ladder at a URL, whose methods send requests.

    Methods raise ApiError for what the ladder refuses, RemoteError if it cannot be used, and
    UserError for a certificate that is not the pinned one.

    token    sent with every call; None to call as a visitor
    pinned   the only certificate that is accepted, as PEM; None to accept those the system trusts
    timeout  seconds that the next part of a document may take
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        pinned: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
    ) -> None:
        """Prepare the client; nothing is sent until a method is called.

        Raises UserError if a proxy of the environment is malformed.
        """
        self.url = url
        self._pinned = pinned
        self._timeout = timeout
        if url.startswith("https:"):
            self._settings = self._tls_settings()
        else:  # unused; bare settings trust no certificate, and to make them takes no time
            self._settings = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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
        """Return a page of games; raise BadServer for pages that would never come to an end."""
        page: GamesPage = self._call(METHODS["games"], fields)
        limit = fields.get("limit", 0) or GAMES
        if len(page.games) > limit:
            raise BadServer(
                f"{self.url} gives {len(page.games)} games where {limit} were asked for"
            )
        if page.older is not None:
            # A caller reads on with `older` as the next page's `before`, so it has to decrease.
            before = fields.get("before", 0)
            goes_on_for_ever = bool(before) and page.older >= before
            if not page.games or goes_on_for_ever:
                raise BadServer(f"{self.url} gives the same games again")
        return page

    def record(self, *, game_id: str) -> str:
        """Return a game's record, rewritten so that it is safe to print.

        Characters that a terminal could obey are written as JSON escapes.
        """
        try:
            record = GameRecord.from_json(self._call(METHODS["record"], {"game_id": game_id}))
        except RulesError:
            record = None
        if record is None or record.game_id != game_id:
            raise BadServer(f"{self.url} gives no record of that game")
        line = record.to_json().removesuffix("\n")
        # An escape such as \u001b is the character's JSON string without its quotes.
        characters = [
            character if character.isprintable() else json.dumps(character).strip('"')
            for character in line
        ]
        return "".join(characters) + "\n"

    def submit(self, archive: Archive) -> Iterator[Any]:
        """Upload an archive, and return an iterator over the states of its submission.

        The states end with the check of the bot. The upload begins when the first one is taken.
        """
        declared = METHODS["submit"]
        headers = {
            "content-type": "application/zip",
            "content-length": str(archive.size),
            SHA256: archive.sha256,
            KEY: archive.key,
        }
        request = self._build_request(
            declared, {"bot": archive.bot}, content=archive.parts(), headers=headers
        )
        return self._events(declared, request)

    # ------------------------------------------------------------------------------------ calls

    def _call(self, declared: Method, fields: Mapping[str, Any]) -> Any:
        """Call a method of the API: return its document, or an iterator over its stream or file.

        An iterator sends the request when its first item is taken.
        """
        request = self._request_of(declared, fields)
        match declared.flow:
            case Flow.ONE:
                return self._response_of(declared, self._whole_body(request))
            case Flow.EVENTS:
                return self._events(declared, request)
            case Flow.LINES:
                return self._lines(declared, request)
            case Flow.FILE:
                return self._parts(request)

    def _request_of(self, declared: Method, fields: Mapping[str, Any]) -> httpx.Request:
        """Return the request of a call, with its arguments in the path, and the query or body.

        Arguments that equal their default are left out.
        """
        other_arguments = {}
        for name, value in fields.items():
            is_in_path = f"{{{name}}}" in declared.path
            if not is_in_path and value != declared.parameters[name].default:
                other_arguments[name] = value
        if declared.verb == "POST":
            return self._build_request(declared, fields, json=other_arguments)
        return self._build_request(declared, fields, params=other_arguments)

    def _build_request(
        self, declared: Method, fields: Mapping[str, Any], **more: Any
    ) -> httpx.Request:
        """Return a request of a method, with the values of `fields` for the names in its path.

        more  arguments of httpx for the query, the body and the headers
        """
        path = declared.path
        try:
            for name, value in fields.items():
                # Dots are escaped, too: ".." would be a step up in the path.
                text = quote(str(value), safe="").replace(".", "%2E")
                path = path.replace(f"{{{name}}}", text)
            # A stream may be quiet for long, since nothing happens; a document may not.
            seconds = self._timeout if declared.flow is Flow.ONE else SILENCE_S
            timeout = httpx.Timeout(seconds, connect=CONNECT_S)
            url = f"{self.url}{ROOT}{path}"
            return self._client.build_request(declared.verb, url, timeout=timeout, **more)
        except (UnicodeError, httpx.InvalidURL):
            raise ApiError(RefusalKind.INVALID, "a name is too long, or no text") from None

    def _response_of(self, declared: Method, content: bytes | bytearray) -> Any:
        """Return the response of a method, read from the JSON that the ladder has sent.

        Raises BadServer if it is not of the method's declared type.
        """
        try:
            document = read_json(declared.document, content)
            # Raises ValueError for a value that commands could not print, such as a huge number.
            to_json(document)
        except ValueError as error:
            raise BadServer(
                f"the answer of {self.url} to {declared.name} makes no sense: "
                f"{one_line(str(error), _LONGEST_SENTENCE)}"
            ) from None
        return declared.response_of(document)

    def _whole_body(self, request: httpx.Request) -> bytearray:
        """Send a request and return the body of its response."""
        with self._open_response(request) as response:
            return self._body(response)

    def _body(self, response: httpx.Response) -> bytearray:
        """Return the whole body of a response. Raises BadServer beyond LARGEST bytes."""
        content = bytearray()
        for part in response.iter_raw():
            content += part
            if len(content) > LARGEST:
                raise BadServer(f"{self.url} answers with more than {LARGEST >> 20} MiB")
        return content

    def _lines(self, declared: Method, request: httpx.Request) -> Iterator[Any]:
        """Send a request and yield the document in each line of its response."""
        with self._open_response(request) as response:
            for line in self._split_lines(response):
                yield self._response_of(declared, line)

    def _parts(self, request: httpx.Request) -> Iterator[bytes]:
        """Send a request and yield the parts of the file that is its response."""
        with self._open_response(request) as response:
            yield from response.iter_raw()

    def _events(self, declared: Method, request: httpx.Request) -> Iterator[Any]:
        """Send a request and yield the document of each server-sent event of its response.

        An event is a group of lines such as `data: {...}`, with an empty line after it. An event
        named "error" is a refusal, which is raised.
        """
        with self._open_response(request) as response:
            event_name, data, count = "", bytearray(), 0
            for line in self._split_lines(response):
                field, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if field == b"event":
                    event_name = value.decode(errors="replace")
                elif field == b"data":
                    data += value
                    self._check_length(data)
                elif not line and data:  # the end of an event
                    if event_name == "error":
                        raise self._refusal(data, response.status_code)
                    count += 1
                    if count > MOST_EVENTS and not declared.is_endless:
                        raise BadServer(f"{self.url} does not come to an end with {declared.name}")
                    yield self._response_of(declared, data)
                    event_name, data = "", bytearray()

    def _split_lines(self, response: httpx.Response) -> Iterator[bytes]:
        """Yield the lines of a response without their newlines.

        Raises Unreachable if the response ends in the middle of a line.
        """
        unfinished_line = b""
        for part in response.iter_raw():
            *lines, unfinished_line = (unfinished_line + part).split(b"\n")
            yield from lines
            self._check_length(unfinished_line)
        if unfinished_line:
            raise Unreachable(f"the connection to {self.url} broke")

    def _check_length(self, line: bytes | bytearray) -> None:
        """Raise BadServer if a line of a stream is longer than LARGEST_LINE."""
        if len(line) > LARGEST_LINE:
            raise BadServer(f"{self.url} sends a line without end")

    # -------------------------------------------------------------------------------- responses

    @contextmanager
    def _open_response(self, request: httpx.Request) -> Generator[httpx.Response]:
        """Send a request, and yield its response, which is closed at the end of the context.

        Raises ApiError for a refusal, and RemoteError or UserError for errors of the connection,
        also for those that come up within the context.
        """
        connection = _Connection(self._settings, self._check_certificate)
        request.extensions["trace"] = connection.on_step
        with self._translated_errors(connection):
            response = self._client.send(request, stream=True)
            try:
                self._check_status(response)
                yield response
            finally:
                response.close()

    @contextmanager
    def _translated_errors(self, connection: _Connection) -> Generator[None]:
        """Turn httpx's errors of a connection into those of this API."""
        try:
            yield
        except httpx.TransportError as error:
            raise self._error_for(error, connection) from None

    def _error_for(self, error: httpx.TransportError, connection: _Connection) -> Exception:
        """Return the error to raise in place of an error of httpx."""
        if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
            return Unreachable(f"{self.url} does not answer in time")
        if isinstance(error, httpx.ProxyError):
            return Unreachable(f"the proxy does not reach {self.url}: {_failure_reason(error)}")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return self._connect_error(error, connection)
        # httpx has one error for every breach of HTTP; only its words tell that the server hung up.
        hung_up = "without sending" in str(error) or "incomplete" in str(error)
        if hung_up or isinstance(error, httpx.NetworkError):
            return Unreachable(f"the connection to {self.url} broke")
        return BadServer(f"what answers at {self.url} is no ladder")

    def _connect_error(self, error: httpx.TransportError, connection: _Connection) -> Exception:
        """Return the error for a connection to the ladder that could not be made.

        Either nobody has accepted it, or TLS has failed, mostly because of the certificate.
        """
        failure = _verification_failure(error)  # None if the certificate is not the cause
        if failure is not None:
            if self._pinned is None:
                return UnknownCertificate(self.url, failure)
            return self._certificate_error(self._pinned, failure)
        if connection.is_open:
            return Unreachable(f"{self.url} does not speak TLS: {_failure_reason(error)}")
        return Unreachable(f"nobody answers at {self.url}: {_failure_reason(error)}")

    def _certificate_error(self, pinned: str, failure: str) -> UserError:
        """Return the error for a ladder whose certificate was refused, though one is pinned.

        The certificate is fetched again, to see if it is the pinned one, which has become invalid
        for the reason `failure`, or another one.
        """
        offered = offered_certificate(self.url)
        if fingerprint(offered) == fingerprint(pinned):
            return UserError(f"the certificate of {self.url} is not valid any more: {failure}")
        return UserError(
            f"{self.url} has another certificate than the one that was pinned: it is not sent your "
            f"token. Ask who runs it whether the fingerprint is now {fingerprint(offered)}; if so, "
            f"`ladder login {self.url}`"
        )

    def _tls_settings(self) -> ssl.SSLContext:
        """Return the TLS settings of connections to the ladder."""
        return tls_settings(self._pinned)

    def _check_certificate(self, certificate: str) -> None:
        """Raise UserError if one certificate is pinned, and the ladder has another one.

        TLS itself would also accept a certificate that the pinned one has signed.

        certificate  the ladder's, as PEM
        """
        if self._pinned is None:
            return
        if fingerprint(certificate) != fingerprint(self._pinned):
            raise self._certificate_error(self._pinned, "another one of the same issuer")

    def _check_status(self, response: httpx.Response) -> None:
        """Raise the error that a response stands for, unless its status is one of success.

        A redirection is an error: a token must not be sent to another address.
        """
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
        raise self._refusal(self._body(response), status)

    def _refusal(self, body: bytes | bytearray, status: int) -> Exception:
        """Return the error that a refusal's body stands for.

        It is ApiError for what the caller can change, Unreachable for a problem of the ladder, and
        BadServer for a body that no ladder sends. A message or time of a wrong type is ignored.
        """
        try:
            error = json.loads(body)["error"]
            code, message, retry_after = error["code"], error["message"], error.get("retry_after")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return BadServer(f"what answers at {self.url} is no ladder (HTTP {status})")
        # A bool is an int for isinstance. About 11 days are more than any ladder has to ask for.
        is_duration = type(retry_after) is int and 0 <= retry_after < 10**6
        retry_s = retry_after if is_duration else None
        text = one_line(message, _LONGEST_SENTENCE) if isinstance(message, str) else ""
        if code in tuple(RefusalKind):
            kind = RefusalKind(code)
        else:  # a code of a newer ladder
            kind = RefusalKind.INTERNAL if status >= 500 else RefusalKind.INVALID
        if kind in (RefusalKind.UNAVAILABLE, RefusalKind.INTERNAL):
            return Unreachable(f"{self.url}: {text or 'it has a problem'}", retry_s)
        text = text or "the ladder refuses this"
        if retry_s is not None and "try again" not in text:
            text += f"; try again in {_duration(retry_s)}"
        return ApiError(kind, text, retry_s)


class _Connection:
    """The connection of one call, as httpx reports it.

    settings  the TLS settings of connections to the ladder; a proxy may have others
    accept    called with the ladder's certificate as PEM; what it raises ends the call
    """

    def __init__(self, settings: ssl.SSLContext, accept: Callable[[str], object]) -> None:
        self._settings = settings
        self._check_certificate = accept
        self.is_open = False
        """True once the other side has accepted the connection."""

    def on_step(self, step: str, info: Mapping[str, Any]) -> None:
        """Check the ladder's certificate as soon as TLS has begun, before anything is sent.

        httpx calls this function after each step of a request. An exception ends the request.

        step  such as "connection.connect_tcp.complete"
        info  the result of the step; of these two steps, "return_value" is the connection's stream
        """
        if not step.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        self.is_open = True  # an error from now on is not that nobody answers
        stream = info["return_value"]
        tls = stream.get_extra_info("ssl_object")  # None before TLS has begun
        if tls is None or tls.context is not self._settings:
            return  # a proxy's TLS has settings of its own, and its certificate is not the ladder's
        try:
            # True stands for the binary form, DER; the argument has no keyword.
            certificate = tls.getpeercert(True)
            self._check_certificate(ssl.DER_cert_to_PEM_cert(certificate))
        except BaseException:
            stream.close()
            raise


def _duration(seconds: int) -> str:
    """Return a duration in words: in seconds, or from two minutes on in minutes, rounded up."""
    return f"{seconds} s" if seconds < 120 else f"{-(-seconds // 60)} minutes"


def _verification_failure(error: BaseException | None) -> str | None:
    """Return the reason why a certificate was refused; None if that was not the cause."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return None if error is None else error.verify_message


def _failure_reason(error: Exception) -> str:
    """Return the reason why a connection failed: the system's words, if the error has a cause."""
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {CONNECT_S:g} s"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return one_line(str(error)) or type(error).__name__


def _remote_method(declared: Method) -> Callable[..., Any]:
    """Return a method of RemoteLadder that calls the declared method over HTTP."""

    def call(ladder: RemoteLadder, **fields: Any) -> Any:
        return ladder._call(declared, fields)  # noqa: SLF001  (a method of that class)

    return call


for _name, _declared in METHODS.items():
    if _name not in vars(RemoteLadder):
        setattr(RemoteLadder, _name, _remote_method(_declared))


# ------------------------------------------------------------------------------------- certificates


class _UntrustedLadder(RemoteLadder):
    """A ladder that is only asked for its certificate, which may be any."""

    def _tls_settings(self) -> ssl.SSLContext:
        settings = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        settings.check_hostname = False
        settings.verify_mode = ssl.CERT_NONE
        return settings

    def _check_certificate(self, certificate: str) -> NoReturn:
        """Raise the certificate, which ends the call before the request is sent."""
        raise _OfferedCertificate(certificate)


class _OfferedCertificate(Exception):
    """The certificate that a ladder has shown, as PEM."""


def offered_certificate(url: str) -> str:
    """Return the certificate that a ladder shows, as PEM, without sending it anything.

    The certificate is not verified. Raises RemoteError if there is none.
    """
    # The call of any method connects. As soon as TLS has begun, and before the request is sent,
    # `_UntrustedLadder` raises the certificate as an exception.
    try:
        with _UntrustedLadder(url) as ladder:
            ladder.server()
    except _OfferedCertificate as offered:
        return str(offered)
    raise Unreachable(f"{url} shows no certificate")


def tls_settings(pinned: str | None) -> ssl.SSLContext:
    """Return the TLS settings of a client.

    They accept only the certificate `pinned`, in the text form PEM, and those that it has signed.
    With None they accept what the system trusts. Raises UserError for a damaged certificate.
    """
    if pinned is None:
        return ssl.create_default_context()
    try:
        settings = ssl.create_default_context(cadata=pinned)
    except (ssl.SSLError, ValueError):
        raise UserError("the pinned certificate is damaged: log in again") from None
    settings.check_hostname = False  # a pinned certificate is accepted under every name
    # A self-signed certificate lacks fields that certificates of an authority need to have.
    settings.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    settings.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return settings


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of a certificate in groups of four hex digits, for people to compare."""
    digits = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def same_fingerprint(first: str, second: str) -> bool:
    """Return True if two fingerprints are equal, apart from case, spaces, colons and dashes."""
    return _digits(first) == _digits(second)


def _digits(text: str) -> str:
    """Return the hex digits of a fingerprint, with or without the name of its algorithm."""
    text = text.lower().removeprefix("sha256").removeprefix("sha-256")
    return "".join(c for c in text if c not in ": \t-")
