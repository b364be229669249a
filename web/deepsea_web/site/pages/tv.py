"""TV and the feed of results: games as they end, and one of them at human pace."""

from __future__ import annotations

from starlette.requests import Request

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.reports.games import GamesPage
from deepsea_web.event_stream import EventStream
from deepsea_web.numbers import whole_number
from deepsea_web.site.app import Site
from deepsea_web.site.broadcast import KEPT, ReaderCursor
from deepsea_web.site.page import Page, Query


def _read(ladder: LadderApi, query: Query) -> GamesPage:
    return ladder.games(limit=KEPT)


TV = Page(
    path="/tv",
    template="tv.html",
    read=_read,
    title=lambda data: "TV",
    summary=lambda data: "Finished games at human pace: everybody sees the same turn.",
    nav="TV",
)
FEED = Page(
    path="/feed",
    template="feed.html",
    read=_read,
    title=lambda data: "Newest results",
    summary=lambda data: "The games of the ladder as they end.",
)


async def events(site: Site, request: Request) -> EventStream[ReaderCursor]:
    """New results, and the game on TV, as server-sent events."""
    client = request.client.host if request.client else ""
    given = request.headers.get("last-event-id", request.query_params.get("after", ""))
    place = site.gateway.hold(client)  # refused before the answer begins
    return EventStream(site.broadcast, ReaderCursor(whole_number(given) or 0), place)
