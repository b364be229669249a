"""The site and the HTTP API as one application, with the rate at which an address may ask.

Invariants: the API is below ROOT of the public address and nowhere else, with the gate and the
headers of the site; whoever is on this machine is not counted, since that may be everybody.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_ladder.accounts import source
from deepsea_web.policy import Guarded
from deepsea_web.remote.http_api import ROOT
from deepsea_web.remote.rates import Rate
from deepsea_web.site.access import Access, Gate, is_loopback

_FREE: Final = "/static/"
"""What browsers keep for ever; a page asks for several of them."""


class WithApi:
    """The site's application, which guards itself, and the API's at its address.

    visits  how often an address may ask for a page
    """

    def __init__(self, site: ASGIApp, api: ASGIApp, access: Access, visits: Rate) -> None:
        self._access = access
        self._root = f"{access.prefix}{ROOT}"
        self._free = f"{access.prefix}{_FREE}"
        self._site = site
        self._api = Guarded(Gate(api, access), access.hosts)
        self._visits = visits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._site(scope, receive, send)
        elif scope["path"].startswith(f"{self._root}/"):
            await self._api({**scope, "root_path": self._root}, receive, send)
        elif wait := self._wait_s(scope):
            sentence = f"too many requests from this address; try again in {wait} s\n"
            headers = {"Retry-After": str(wait), "Cache-Control": "no-store"}
            refused = Guarded(PlainTextResponse(sentence, 429, headers), self._access.hosts)
            await refused(scope, receive, send)
        else:
            await self._site(scope, receive, send)

    def _wait_s(self, scope: Scope) -> int:
        """How long the reader has to wait; what is asked for is counted."""
        if scope["path"].startswith(self._free):
            return 0
        peer, _ = scope.get("client") or ("", 0)
        client = self._access.client(peer, Headers(scope=scope).getlist("x-forwarded-for"))
        return 0 if client is None or is_loopback(client) else self._visits.take(source(client))
