"""The site and the HTTP API as one application, with the rate at which an address may ask.

Invariants: the API is below ROOT of the public address and nowhere else, with the gate and the
headers of the site; whoever is on this machine is not counted, since that may be everybody.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.ladder_api import ROOT
from deepsea_web.http import Guarded
from deepsea_web.server.access import Access, Gate
from deepsea_web.server.gateway import Gateway
from deepsea_web.site.errors import Refusal, refusal

_FREE: Final = "/static/"
"""What browsers keep for ever; a page asks for several of them."""


class WithApi:
    """The site's application, which guards itself, and the API's at its address.

    gateway  counts the pages that an address asks for
    """

    def __init__(self, site: ASGIApp, api: ASGIApp, access: Access, gateway: Gateway) -> None:
        self._access = access
        self._root = f"{access.prefix}{ROOT}"
        self._free = f"{access.prefix}{_FREE}"
        self._site = site
        self._api = Guarded(Gate(api, access), access.hosts)
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._site(scope, receive, send)
        elif scope["path"].startswith(f"{self._root}/"):
            await self._api({**scope, "root_path": self._root}, receive, send)
        elif refusal := self._refusal(scope):
            headers = {**refusal.headers, "Cache-Control": "no-store"}
            refused = PlainTextResponse(f"{refusal.sentence}\n", refusal.status, headers)
            await Guarded(refused, self._access.hosts)(scope, receive, send)
        else:
            await self._site(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Why the reader has to wait, if it has asked for too many pages; this one is counted."""
        if scope["path"].startswith(self._free):
            return None
        peer, _ = scope.get("client") or ("", 0)
        client = self._access.client(peer, Headers(scope=scope).getlist("x-forwarded-for"))
        try:
            if client is not None:
                self._gateway.count_visit(client)
        except ApiError as error:
            return refusal(error)
        return None
