"""Pages of games: the list, one game with its frames and analysis, TV and newest results.

Invariant: a page of a game reads and replays its record once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.coach.ladder_analyses import AnalysisFound, record_file
from deepsea_arena.documents import json_text, to_json, to_object
from deepsea_arena.reports.analysis_frames import analysed_frames
from deepsea_arena.reports.frames import Viewer
from deepsea_arena.reports.games import MOST_GAMES, GameReport, GamesPage, read_record
from deepsea_ladder.store.counts import Revision
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_web.http import EventStream, last_event, whole_number
from deepsea_web.site.app import Site
from deepsea_web.site.broadcast import KEPT, ReaderCursor
from deepsea_web.site.forms import Action, Form, OwnPage, Redirect, Values
from deepsea_web.site.page import Page, Query, Visit
from deepsea_web.site.rendering import KINDS, Rendered, same, sent
from deepsea_web.site.words import name, result
from deepsea_web.viewer.game_page import PageGame, script_json

PORTION = 50
_ALWAYS = Revision(0, 0, 0, 0, 0, 0)
_SEEN = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


class Games(GamesPage, frozen=True, kw_only=True):
    """Some games, and the seasons to choose from."""

    seasons: tuple[str, ...]


def _read_games(ladder: LadderApi, query: Query) -> Games:
    bot, against, lost = query.text("bot"), query.text("against"), query.flag("lost")
    if bot is None and (against is not None or lost):
        raise UserError("against and lost are about a bot: name it with bot")
    page = ladder.games(
        season=query.text("season") or "",
        bot=bot or "",
        against=against or "",
        faults=query.flag("faults"),
        lost=lost,
        limit=query.number("limit", 1, MOST_GAMES) or PORTION,
        before=query.number("before", 1) or 0,
    )
    return Games(games=page.games, older=page.older, seasons=ladder.seasons().seasons)


def _game_rows(data: Games) -> Iterator[Mapping[str, Any]]:
    """A row for each seat, as `ladder export --csv` has them."""
    for game in data.games:
        of_game = to_object(game)
        del of_game["seats"]
        for index, seat in enumerate(game.seats):
            yield of_game | {"seat": index} | to_object(seat)


GAMES = Page(
    path="/games",
    template="games.html",
    read=_read_games,
    title=lambda data: "Games",
    summary=lambda data: "Rated games of Deep Sea Adventure between bots, the newest first.",
    parameters=("season", "bot", "against", "faults", "lost", "before", "limit"),
    rows=_game_rows,
    nav="Games",
)


def _game_extras(data: GameReport) -> Mapping[str, Any]:
    shown = PageGame.of(read_record(data.record), record_file(data.game.game_id), packed=False)
    seats = zip(SEAT_LETTERS, data.game.seats, data.changes, strict=False)
    return {"shown": shown, "seats": sorted(seats, key=lambda row: row[1].placement)}


def _seat_rows(data: GameReport) -> Iterator[Mapping[str, Any]]:
    for letter, seat, change in zip(SEAT_LETTERS, data.game.seats, data.changes, strict=False):
        yield {"seat": letter} | to_object(seat) | to_object(change)


def _names(data: GameReport) -> str:
    return ", ".join(name(seat.bot, 40) for seat in data.game.by_placement())


def own_of_game(visit: Visit, query: Query) -> Mapping[str, Any]:
    """The output of the reader's own bots, and the form that asks for the game's analysis."""
    game_id = query.text("id") or ""
    found: dict[str, Any] = {}
    try:
        if logs := visit.ladder.log(game_id=game_id).logs:
            found["logs"] = logs
            found["notes"] = script_json([to_json(note) for log in logs for note in log.notes])
    except ApiError as error:
        if error.kind not in (Kind.NOT_FOUND, Kind.DENIED):
            raise
    if visit.ladder.analysis(game_id=game_id).may_be_asked:
        found["may_ask"] = True
    return found


GAME = Page(
    path="/games/{id}",
    template="game.html",
    read=lambda ladder, query: ladder.game(game_id=query.path["id"]),
    title=lambda data: f"Game {name(data.game.game_id)}: {_names(data)}",
    summary=lambda data: result(data.game),
    rows=_seat_rows,
    extras=_game_extras,
    own=own_of_game,
)


async def game_frames(site: Site, request: Request) -> Response:
    """The frames of a game as a seat knew it, as docs/viewer.md describes them."""
    game_id = request.path_params["id"]
    viewer = _viewer(request.query_params.get("seat"))

    def read() -> tuple[str, AnalysisFound]:
        return site.ladder.record(game_id=game_id).record, site.ladder.analysis(game_id=game_id)

    record, found = await site.gateway.in_thread(read)
    # What was found is never changed, so its id stands for it.
    analysis = 0 if found.done is None else int(found.done.id)
    tag = site.tag(_ALWAYS, "frames", game_id, viewer, analysis)
    return await _kept(site, request, tag, partial(_frames, record, viewer, found.document))


async def game_analysis(site: Site, request: Request) -> Response:
    """The analysis of a game, as docs/analyse.md describes it."""
    game_id = request.path_params["id"]
    found = await site.gateway.in_thread(lambda: site.ladder.analysis(game_id=game_id))
    if found.done is None:
        raise ApiError(Kind.NOT_FOUND, "there is no analysis of that game yet")
    text = f"{found.document}\n"
    tag = site.tag(_ALWAYS, "analysis", game_id, hashlib.sha256(text.encode()).hexdigest())
    make = partial(Rendered.of, text, KINDS["json"])
    return await _kept(site, request, tag, make, f"{game_id}-analysis.json")


async def game_record(site: Site, request: Request) -> Response:
    """The record of a game, to be kept and verified."""
    game_id = request.path_params["id"]
    found = await site.gateway.in_thread(lambda: site.ladder.record(game_id=game_id))
    make = partial(Rendered.of, found.record, KINDS["json"])
    tag = site.tag(_ALWAYS, "record", game_id)
    return await _kept(site, request, tag, make, record_file(game_id))


async def _kept(
    site: Site, request: Request, tag: str, make: Callable[[], Rendered], file: str = ""
) -> Response:
    """What browsers keep and ask for again; saved as a file, if that has a name."""
    headers = {**_SEEN, "ETag": tag}
    if file:  # ids of games are names of seasons with a number: nothing that needs quoting
        headers["Content-Disposition"] = f'attachment; filename="{file}"'
    if same(request, tag):
        return Response(status_code=304, headers=headers)
    return sent(request, await site.gateway.in_thread(make), headers)


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
def _frames(text: str, viewer: Viewer, document: str) -> Rendered:
    record = read_record(text)
    if isinstance(viewer, int) and viewer >= len(record.seats):
        last = SEAT_LETTERS[len(record.seats) - 1]
        raise UserError(f"this game has the seats A to {last}, not {SEAT_LETTERS[viewer]}")
    return Rendered.of(json_text(analysed_frames(record, viewer, document)), KINDS["json"])


# The form that asks for an analysis


def _read_analysis(visit: Visit, query: Query) -> Values:
    game_id = query.text("id") or ""
    visit.ladder.who_am_i()  # visitors log in first
    found = visit.ladder.analysis(game_id=game_id)
    return {"game_id": game_id, "last": found.last, "may_ask": found.may_be_asked}


ANALYSIS = OwnPage(
    path="/games/{id}/analysis",
    template="analysis.html",
    title=lambda values: f"Analysis of game {values['game_id']}",
    read=_read_analysis,
)


def _ask(visit: Visit, form: Form) -> Redirect:
    game_id = form.text("id")
    visit.ladder.request_analysis(game_id=game_id)
    return Redirect(path=f"/games/{game_id}")


ASK = Action(path="/analyse", page=ANALYSIS, act=_ask, fields=("id",))


def _read_newest(ladder: LadderApi, query: Query) -> GamesPage:
    return ladder.games(limit=KEPT)


TV = Page(
    path="/tv",
    template="tv.html",
    read=_read_newest,
    title=lambda data: "TV",
    summary=lambda data: "Finished games at human pace: everybody sees the same turn.",
    nav="TV",
)
FEED = Page(
    path="/feed",
    template="feed.html",
    read=_read_newest,
    title=lambda data: "Newest results",
    summary=lambda data: "The games of the ladder as they end.",
)


async def events(site: Site, request: Request) -> EventStream[ReaderCursor]:
    """New results, and the game on TV, as server-sent events."""
    client = request.client.host if request.client else ""
    place = site.gateway.hold(client)  # refused before the answer begins
    has = ReaderCursor(whole_number(last_event(request)) or 0)
    return EventStream(site.broadcast, has, place)
