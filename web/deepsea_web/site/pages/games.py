"""Pages of games: the list, one game with its frames and analysis, TV and newest results.

Invariant: a page of a game reads and replays its record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.api.service import visitor
from deepsea_arena.coach.ladder_analyses import record_file
from deepsea_arena.documents import json_text, to_json, to_object
from deepsea_arena.reports.analysis_frames import analysed_frames
from deepsea_arena.reports.frames import Viewer
from deepsea_arena.reports.games import (
    CSV_COLUMNS,
    GameReport,
    GamesPage,
    RatingChange,
    read_record,
)
from deepsea_ladder.model import GameSeat, SeatLog
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_web.http import EVENT_STREAM, StreamedResponse, last_event, whole_number
from deepsea_web.site.app import Site
from deepsea_web.site.broadcast import KEPT
from deepsea_web.site.forms import Action, Form, OwnPage, Redirect, Values
from deepsea_web.site.page import GAME_OVER, KINDS, SEASON_OVER, Csv, Page, Query, Rendered, Visit
from deepsea_web.site.sessions import MEMBER
from deepsea_web.site.words import name, result
from deepsea_web.viewer.game_page import PageGame, script_json

PORTION = 50


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
        limit=query.number("limit") or PORTION,
        before=query.number("before"),
    )
    return Games(games=page.games, older=page.older, seasons=ladder.seasons())


def _game_rows(data: Games) -> Iterator[Mapping[str, Any]]:
    """A row for each seat, as `ladder export --csv` has them."""
    for game in data.games:
        of_game = to_object(game)
        del of_game["seats"]
        for index, seat in enumerate(game.seats):
            yield of_game | {"seat": index} | to_object(seat)


def _games_file(data: Games) -> str:
    seasons = {game.season for game in data.games}
    return "-".join(["games", *(seasons if len(seasons) == 1 else ())])


GAMES = Page(
    path="/games",
    template="games.html",
    read=_read_games,
    title=lambda data: "Games",
    summary=lambda data: "Rated games of Deep Sea Adventure between bots, the newest first.",
    parameters=("season", "bot", "against", "faults", "lost", "before", "limit"),
    csv=Csv(columns=CSV_COLUMNS, rows=_game_rows, name=_games_file),
    over=SEASON_OVER,
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


GAME = Page(
    path="/games/{id}",
    template="game.html",
    read=lambda ladder, query: ladder.game(game_id=query.path["id"]),
    title=lambda data: f"Game {name(data.game.game_id)}: {_names(data)}",
    summary=lambda data: result(data.game),
    csv=Csv(
        columns=("seat", *GameSeat.__struct_fields__, *RatingChange.__struct_fields__),
        rows=_seat_rows,
        name=lambda data: f"game-{data.game.game_id}",
    ),
    extras=_game_extras,
    over=GAME_OVER,
)


def _read_own(visit: Visit, query: Query) -> Values:
    game_id = query.text("id") or ""
    logs: tuple[SeatLog, ...] = ()
    try:
        logs = visit.ladder.log(game_id=game_id)
    except ApiError as error:  # of visitors it is another one: they log in first
        if error.kind not in (Kind.NOT_FOUND, Kind.DENIED):
            raise
    notes = script_json([to_json(note) for log in logs for note in log.notes])
    return {"game_id": game_id, "logs": logs, "notes": notes}


OWN = OwnPage(
    path="/games/{id}/own",
    template="game_own.html",
    title=lambda values: f"Game {name(values['game_id'])}: your bots",
    read=_read_own,
)


async def game_frames(site: Site, request: Request) -> Response:
    """The frames of a game as a seat knew it, as docs/viewer.md describes them."""
    game_id = request.path_params["id"]
    viewer = _viewer(request.query_params.get("seat"))

    def make() -> Rendered:
        record = read_record(site.ladder.record(game_id=game_id))
        if isinstance(viewer, int) and viewer >= len(record.seats):
            last = SEAT_LETTERS[len(record.seats) - 1]
            raise UserError(f"this game has the seats A to {last}, not {SEAT_LETTERS[viewer]}")
        found = site.ladder.analysis(game_id=game_id).document
        return Rendered.of(json_text(analysed_frames(record, viewer, found)), KINDS["json"])

    return await _kept(site, request, ("frames", viewer), make)


async def game_analysis(site: Site, request: Request) -> Response:
    """The analysis of a game, as docs/analyse.md describes it."""
    game_id = request.path_params["id"]

    def make() -> Rendered:
        found = site.ladder.analysis(game_id=game_id)
        if found.done is None:
            raise ApiError(Kind.NOT_FOUND, "there is no analysis of that game yet")
        file = f"{game_id}-analysis.json"
        return Rendered.of(f"{found.document}\n", KINDS["json"], file)

    return await _kept(site, request, ("analysis",), make)


async def game_record(site: Site, request: Request) -> Response:
    """The record of a game, to be kept and verified."""
    game_id = request.path_params["id"]

    def make() -> Rendered:
        record = site.ladder.record(game_id=game_id)
        return Rendered.of(record, KINDS["json"], record_file(game_id))

    return await _kept(site, request, ("record",), make)


async def _kept(
    site: Site,
    request: Request,
    kind: tuple[object, ...],
    make: Callable[[], Rendered],
) -> Response:
    """A document of a game, kept as its page is."""
    game_id = request.path_params["id"]
    changes = partial(GAME_OVER.changes, site.store, game_id)
    return await site.kept(request, (*kind, game_id), make, changes)


def _viewer(given: str | None) -> Viewer:
    """Whose knowledge is asked for. Raises UserError for nobody's."""
    if given in (None, "", "all"):
        return None
    if given == "watcher":
        return "watcher"
    if given not in tuple(SEAT_LETTERS):
        raise UserError(f"seat is a letter from A, watcher or all, not {quoted(given, 40)}")
    return SEAT_LETTERS.index(given)


# The form that asks for an analysis


def _read_analysis(visit: Visit, query: Query) -> Values:
    game_id = query.text("id") or ""
    visit.ladder.who_am_i()  # visitors log in first
    found = visit.ladder.analysis(game_id=game_id)
    return {
        "game_id": game_id,
        "address": _address(visit, game_id),
        "last": found.last,
        "may_ask": found.may_be_asked,
    }


def _address(visit: Visit, game_id: str) -> str:
    """The address of a game's page."""
    try:
        visit.ladder.person_game(game_id=game_id)
    except ApiError as error:
        if error.kind is not Kind.NOT_FOUND:
            raise
        return f"/games/{game_id}"
    return f"/play/{game_id}/game"


ANALYSIS = OwnPage(
    path="/games/{id}/analysis",
    template="analysis.html",
    title=lambda values: f"Analysis of game {values['game_id']}",
    read=_read_analysis,
)


def _ask(visit: Visit, form: Form) -> Redirect:
    game_id = form.text("id")
    visit.ladder.request_analysis(game_id=game_id)
    return Redirect(path=_address(visit, game_id))


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


async def events(site: Site, request: Request) -> StreamedResponse:
    """New results, and the game on TV, as server-sent events."""
    address = request.client.host if request.client else ""
    caller = request.scope.get(MEMBER) or visitor(address)
    news = site.broadcast.events(whole_number(last_event(request)) or 0, caller)
    return await StreamedResponse.begun(news, site.gateway.clock, EVENT_STREAM)
