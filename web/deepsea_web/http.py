"""What every response of a served page carries, and whom it answers.

Invariants: every status has the policy, errors too; a request for another host's name is refused,
so that no foreign page can reach this one by a name of its own (DNS rebinding), and one with two
lengths, which a proxy and this server may cut differently (request smuggling).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With "no-referrer" browsers would send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_PORT: Final = re.compile(r":[0-9]*\Z")
_IN_FRAMES: Final = {
    "Content-Security-Policy": CSP.replace("frame-ancestors 'none'", "frame-ancestors *"),
    "Cross-Origin-Resource-Policy": "cross-origin",
}
EMBED_HEADERS: Final = {
    name: _IN_FRAMES.get(name, value)
    for name, value in HEADERS.items()
    if name != "X-Frame-Options"
}
"""Those of pages that others may show within their own."""


class Guarded:
    """An application with the headers above, for requests to one of the hosts.

    embeds  the beginning of the paths of pages that others may show within their own
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], embeds: str | None = None) -> None:
        self._app = app
        self._hosts = hosts
        self._embeds = embeds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        embedded = self._embeds is not None and scope["path"].startswith(self._embeds)
        headers = EMBED_HEADERS if embedded else HEADERS

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, headers)
            await send(message)

        app, given = self._app, Headers(scope=scope)
        if "content-length" in given and "transfer-encoding" in given:
            closing = {"Connection": "close"}
            app = PlainTextResponse("a request has one length, not two\n", 400, closing)
        elif not self._is_ours(given.getlist("host")):
            app = PlainTextResponse("this host is not served here\n", 421)
        await app(scope, receive, guarded)

    def _is_ours(self, hosts: list[str]) -> bool:
        return len(hosts) == 1 and host_name(hosts[0]) in self._hosts


def host_name(host: str) -> str:
    """The host of a `Host` header without its port, in lower case; an IPv6 address in brackets."""
    return _PORT.sub("", host).lower()


def _add_headers(message: MutableMapping[str, Any], added: Mapping[str, str]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in added.items():
        headers[name] = value
