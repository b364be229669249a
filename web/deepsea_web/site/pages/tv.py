"""TV and the feed of results: games as they end, and one of them at human pace."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from deepsea_arena.games import GamesPage, newest_games
from deepsea_ladder.store import Store
from deepsea_web.event_stream import EventStream
from deepsea_web.numbers import whole_number
from deepsea_web.site.access import is_loopback
from deepsea_web.site.app import Site
from deepsea_web.site.broadcast import KEPT, Broadcast, Has
from deepsea_web.site.page import Page, Query


def _read(store: Store, query: Query) -> GamesPage:
    return newest_games(store, KEPT)


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


class _Own:
    """The broadcast as one client's streams see it."""

    def __init__(self, broadcast: Broadcast, client: str) -> None:
        self._broadcast = broadcast
        self.watching = partial(broadcast.watching, client=client)
        self.since = broadcast.since

    @property
    def closed(self) -> bool:
        return self._broadcast.closed


async def events(site: Site, request: Request) -> EventStream[Has]:
    """New results, and the game on TV, as server-sent events."""
    client = request.client.host if request.client else ""
    site.broadcast.check_room(client, near=is_loopback(client))
    given = request.headers.get("last-event-id", request.query_params.get("after", ""))
    return EventStream(_Own(site.broadcast, client), Has(whole_number(given) or 0))
