"""A game: the viewer, what it did to ratings, and what it takes to check it.

Invariants: frames and records are made of the stored record alone, and never change; what a seat
knew is made here, field by field, so a browser has nothing to hide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.frame_types import Viewer
from deepsea_arena.frames import frames
from deepsea_arena.game_reports import GameReport, game_report
from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.wire.json import json_text, to_object
from deepsea_ladder.store import Store
from deepsea_ladder.store.revision import Revision
from deepsea_referee.errors import UserError
from deepsea_rules.constants import SEAT_LETTERS
from deepsea_rules.printable import quoted
from deepsea_rules.record import GameRecord
from deepsea_web.game_page import PageGame
from deepsea_web.site.app import Site
from deepsea_web.site.cache import Rendered
from deepsea_web.site.formats import KINDS
from deepsea_web.site.page import Page, Query
from deepsea_web.site.sending import same, sent
from deepsea_web.site.visit import Visit
from deepsea_web.site.words import name, result

_ALWAYS: Final = Revision(0, 0, 0, 0)
_SEEN: Final = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


def _read(store: Store, query: Query) -> GameReport:
    return game_report(store, query.text("id") or "")


def _look(data: GameReport) -> Mapping[str, Any]:
    shown = PageGame.of(GameRecord.from_json(data.record), _file(data.game.game_id), packed=False)
    seats = zip(SEAT_LETTERS, data.game.seats, data.changes, strict=False)
    return {"shown": shown, "seats": sorted(seats, key=lambda row: row[1].placement)}


def _rows(data: GameReport) -> Iterator[Mapping[str, Any]]:
    for letter, seat, change in zip(SEAT_LETTERS, data.game.seats, data.changes, strict=False):
        yield {"seat": letter} | to_object(seat) | to_object(change)


def _file(game_id: str) -> str:
    return f"{game_id}.json"


def _names(data: GameReport) -> str:
    return ", ".join(name(seat.bot, 40) for seat in data.game.by_placement())


def _own(visit: Visit, query: Query) -> Mapping[str, Any]:
    """What one's own bots left of the game."""
    try:
        logs = visit.call("GetLog", game_id=query.text("id") or "").logs
    except ServiceError as error:
        if error.kind in (Kind.NOT_FOUND, Kind.DENIED):
            return {}
        raise
    return {"logs": logs} if logs else {}


GAME = Page(
    path="/games/{id}",
    template="game.html",
    read=_read,
    title=lambda data: f"Game {name(data.game.game_id)}: {_names(data)}",
    summary=lambda data: result(data.game),
    rows=_rows,
    look=_look,
    own=_own,
    embed="embed_game.html",
)


async def game_frames(site: Site, request: Request) -> Response:
    """The frames of a game as a seat knew it, as docs/viewer.md describes them."""
    game_id = request.path_params["id"]
    viewer = _viewer(request.query_params.get("seat"))
    record = await site.in_thread(lambda: site.store.games.record(game_id))
    headers = {**_SEEN, "ETag": site.tag(_ALWAYS, "frames", game_id, viewer)}
    if same(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return sent(request, await site.in_thread(lambda: _frames(record, viewer)), headers)


async def game_record(site: Site, request: Request) -> Response:
    """The record of a game, to be kept and verified."""
    game_id = request.path_params["id"]
    record = await site.in_thread(lambda: site.store.games.record(game_id))
    headers = {
        **_SEEN,
        "ETag": site.tag(_ALWAYS, "record", game_id),
        # Ids of games are names of seasons with a number: nothing that needs quoting.
        "Content-Disposition": f'attachment; filename="{_file(game_id)}"',
    }
    if same(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return sent(request, Rendered.of(record, KINDS["json"]), headers)


def _viewer(given: str | None) -> Viewer:
    """Whose knowledge is asked for. Raises UserError for nobody's."""
    if given in (None, "", "all"):
        return None
    if given == "watcher":
        return "watcher"
    if given not in tuple(SEAT_LETTERS):
        raise UserError(f"seat is a letter from A, watcher or all, not {quoted(given, 40)}")
    return SEAT_LETTERS.index(given)


@lru_cache(maxsize=64)
def _frames(text: str, viewer: Viewer) -> Rendered:
    record = GameRecord.from_json(text)
    if isinstance(viewer, int) and viewer >= len(record.seats):
        last = SEAT_LETTERS[len(record.seats) - 1]
        raise UserError(f"this game has the seats A to {last}, not {SEAT_LETTERS[viewer]}")
    return Rendered.of(json_text(frames(record, viewer)), KINDS["json"])
