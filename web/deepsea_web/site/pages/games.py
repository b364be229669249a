"""Pages of games: the list, one game with its frames and analysis, TV and newest results.

Invariant: a page of a game reads and replays its record once.

Pages of games of people: begin one, sit at it, and for everybody the one that is over.

Invariants: the page of a seat and its news are made of the seat's document alone, which has nothing
that the seat does not know; what its forms ask for, the service decides; a form for a question that
is over does nothing, since a page may be old or be sent twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_arena.api.ladder_api import METHODS, LadderApi
from deepsea_arena.api.person_games import HINT, NEXT, RANDOM
from deepsea_arena.api.service import visitor
from deepsea_arena.documents import json_text, to_json, to_object
from deepsea_arena.frames import Viewer, analysed_frames
from deepsea_arena.games import (
    CSV_COLUMNS,
    GameReport,
    GamesPage,
    PersonGameReport,
    RatingChange,
    SeatText,
    read_record,
)
from deepsea_arena.ladder_analyses import record_file
from deepsea_arena.seat import THINKING, SeatDocument
from deepsea_ladder.model import PERSON, GameSeat, SeatLog
from deepsea_referee.errors import UserError
from deepsea_referee.person import LAST_TURNS
from deepsea_rules.actions import LEVEL_OF, Unit
from deepsea_rules.notation import read_position
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import ABOARD, DEFAULT, HOME, MAX_PLAYERS, PRESETS, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_web.assets import PageGame, script_json
from deepsea_web.http import EVENT_STREAM, StreamedResponse, last_event, whole_number
from deepsea_web.http_api import answer_stream
from deepsea_web.site.app import Site
from deepsea_web.site.broadcast import KEPT
from deepsea_web.site.forms import (
    MEMBER,
    Action,
    Form,
    OwnPage,
    Redirect,
    Seen,
    SessionAuth,
    Values,
)
from deepsea_web.site.page import (
    GAME_OVER,
    KINDS,
    SEASON_OVER,
    Csv,
    Page,
    Query,
    Rendered,
    Visit,
)
from deepsea_web.site.words import name, result

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
        if error.kind not in (RefusalKind.NOT_FOUND, RefusalKind.DENIED):
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
            raise ApiError(RefusalKind.NOT_FOUND, "there is no analysis of that game yet")
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
        if error.kind is not RefusalKind.NOT_FOUND:
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


NAV = "Play"
_DEED = ("what", "asked", "action")
"""The fields of a deed's form."""


def _read_play(visit: Visit, query: Query) -> Values:
    found = visit.ladder.person_games()
    standings = None if found.refusal else visit.ladder.standings(season=found.season)
    return {
        "current": NAV,
        "games": found.games,
        "refusal": found.refusal,
        "bots": [] if standings is None else [line.bot for line in standings.standings],
        "presets": [*PRESETS],
        "rules": found.rules,
        "seats": [RANDOM, *SEAT_LETTERS],
        "most": MAX_PLAYERS - 1,
    }


PLAY = OwnPage(
    path="/play",
    template="play.html",
    title=lambda values: "Play against the bots",
    read=_read_play,
    open=True,
    names_visitors=True,
)


def _begin(visit: Visit, form: Form) -> Redirect:
    begun = visit.ladder.play(
        bots=tuple(form.list("bots")),
        opponents=form.number("opponents"),
        rules=form.text("rules"),
        seat=form.text("seat"),
    )
    return Redirect(path=f"/play/{begun.game_id}")


BEGIN = Action(path="/play", page=PLAY, act=_begin, fields=("bots", "opponents", "rules", "seat"))


# A person's seat


class Deed(NamedTuple):
    """A request by a form of the seat's page."""

    what: str
    asked: int = 0
    """The question that it answers; 0 for "next"."""
    action: str = ""
    """An action or a key, for "answer"."""


DEEDS = ("answer", HINT, "play on", "drop", NEXT)
Cursor = tuple[int, int, int]
"""The state of a reader: the number of its news, the game, and the number of its frames."""


def _read_seat(visit: Visit, query: Query) -> Values:
    game_id = query.text("id") or ""
    state = next(filter(None, visit.ladder.watch_seat(game_id=game_id)))
    document: SeatDocument = json.loads(state.document)
    frames, judged = document["frames"], document["judged"]
    lines = [line for frame in frames for line in frame["say"]]
    position = frames[-1]["p"]
    others = [
        label.rpartition(" v")[0]
        for letter, label in zip(SEAT_LETTERS, document["names"], strict=False)
        if letter != document["seat"]
    ]
    return {
        "current": NAV,
        "game_id": game_id,
        "seat": document,
        "others": others,
        "last": frames[-1],
        "place": f"{document['news']}.{document['game']}.{len(frames)}",
        "lines": lines[-LAST_TURNS:],
        "board": board_words(position),
        "divers": _divers(position, document["names"]),
        "boards": [board_words(one["position"]) for one in judged["worst"]] if judged else [],
        "waits": waits(document),
    }


SEAT = OwnPage(
    path="/play/{id}",
    template="play_seat.html",
    title=lambda values: f"You are {values['seat']['seat']}, {values['seat']['rules']} rules",
    read=_read_seat,
    open=True,
)


def waits(document: SeatDocument) -> bool:
    """True if something comes without a deed of the person."""
    looks = document["judging"] or THINKING in document["note"]
    return looks or not (document["asked"] or document["table"] or document["ended"])


def _read_position(position: str) -> tuple[GameState, dict[int, int]]:
    # By any rules: under the default ones nobody is kept out for a dive (!), and who lays its cargo
    # may have no choice.
    position = position.replace("!", "")
    if position.endswith(" order"):
        position = position.replace("*", "").removesuffix("order") + "over"
    return read_position(position, PRESETS[DEFAULT])


class BoardWords(NamedTuple):
    """A board for readers without scripts."""

    position: str
    """In notation, from which scripts draw it."""
    dive: int
    air: int
    trail: list[str]
    """The unit on each space, and the diver who is there."""


def board_words(position: str) -> BoardWords:
    """The board of a position in notation."""
    state, known = _read_position(position)
    at = {place: f", diver {SEAT_LETTERS[seat]}" for seat, place in enumerate(state.place)}
    trail = [
        f"{_unit_words(unit, known)}{at.get(space, '')}"
        for space, unit in enumerate(state.trail[1:], start=1)
    ]
    return BoardWords(position, state.dive, state.air, trail)


def _unit_words(unit: Unit, known: Mapping[int, int]) -> str:
    """A unit as the viewer reads it out."""
    if not unit:
        return "blank"
    chips = [f"{LEVEL_OF[chip]}{f' worth {known[chip]}' if chip in known else ''}" for chip in unit]
    return f"level {chips[0]}" if len(chips) == 1 else f"stack of levels {', '.join(chips)}"


def _place_words(state: GameState, seat: int) -> str:
    place = state.place[seat]
    if place in (HOME, ABOARD):
        return "home" if place == HOME else "submarine"
    return f"space {place}, going {'home' if state.homeward[seat] else 'down'}"


def _divers(position: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Letter, name, place, cargo and points of each diver."""
    state, known = _read_position(position)
    rows: list[tuple[str, ...]] = []
    for seat, diver in enumerate(names):
        bank = state.bank[seat]
        hidden = sum(chip not in known for chip in bank)
        points = sum(known.get(chip, 0) for chip in bank)
        cargo = " ".join(unit.name for unit in state.cargo[seat])
        more = f" + {hidden} hidden" if hidden else ""
        rows.append(
            (SEAT_LETTERS[seat], diver, _place_words(state, seat), cargo, f"{points}{more}")
        )
    return rows


def deed_of(fields: Sequence[tuple[str, str]]) -> Deed | None:
    """The request of a form; None if it makes no sense."""
    given = dict(fields)
    asked = whole_number(given.get("asked", "0"))
    if asked is None or (what := given.get("what", "answer")) not in DEEDS:
        return None
    return Deed(what, asked, given.get("action", ""))


def _do(visit: Visit, form: Form) -> Redirect:
    game_id, ladder = form.text("id"), visit.ladder
    deed = deed_of([(one, form.text(one)) for one in _DEED if form.list(one)])
    if deed is None:
        raise UserError("this form makes no sense")
    if deed.what in ("play on", "drop"):
        ladder.leave(game_id=game_id, drop=deed.what == "drop")
    else:
        action = deed.action if deed.what == "answer" else deed.what
        ladder.decide(game_id=game_id, asked=deed.asked, action=action)
    if deed.what == NEXT:
        game_id = ladder.person_games().games[0].game_id
    return Redirect(path=f"/play/{game_id}")


DEED = Action(path="/play/{id}/deed", page=SEAT, act=_do, fields=("id", *_DEED))


def place_of(text: str) -> Cursor:
    """The state that a reader reports; that of a reader with nothing, if it makes no sense."""
    numbers = [whole_number(part) or 0 for part in text.split(".")[:3]]
    news, game, known = (*numbers, 0, 0, 0)[:3]
    return news, game, known


def news_of(document: SeatDocument, has: Cursor) -> tuple[Cursor, str]:
    """The news for a reader, as an event with the new place as id; "" if there are none."""
    news, game, known = has
    if news == document["news"]:
        return has, ""
    begin = known if game == document["game"] else 0
    place = (document["news"], document["game"], len(document["frames"]))
    parts = {
        "names": document["names"],
        "frames": document["frames"][begin:],
        "waits": waits(document),
    }
    text = json.dumps(parts)
    return place, f"id: {'.'.join(map(str, place))}\ndata: {text}\n\n"


async def seat_news(sessions: SessionAuth, seen: Seen, request: Request) -> ASGIApp:
    """News for the page of a seat, as server-sent events, until the game is over."""
    has = place_of(last_event(request))

    def write(state: SeatText) -> str:
        nonlocal has
        has, text = news_of(json.loads(state.document), has)
        return text

    wanted = {"game_id": request.path_params["id"]}
    steps = sessions.gateway.stream(seen.visit.caller, METHODS["watch_seat"], wanted)
    return await answer_stream(sessions.gateway, steps, Flow.EVENTS, write)


# A game that is over


def _extras(data: PersonGameReport) -> Mapping[str, Any]:
    record = read_record(data.record)
    who = data.game.person or PERSON
    faults = [
        sum(one.fault is not None for one in record.decisions if one.seat == seat)
        for seat in range(len(record.seats))
    ]
    names = [who if seat == data.game.seat else one for seat, one in enumerate(data.game.names)]
    rows = zip(record.placements, SEAT_LETTERS, names, record.points, faults, strict=False)
    shown = PageGame.of(record, record_file(data.game.game_id), packed=False)
    return {"shown": shown, "rows": sorted(rows), "seed": record.seed.hex()}


PERSON_GAME = Page(
    path="/play/{id}/game",
    template="person_game.html",
    read=lambda ladder, query: ladder.person_game(game_id=query.path["id"]),
    title=lambda data: f"A game of {name(data.game.person or 'a visitor')} against bots",
    summary=lambda data: "An unrated game of a person against bots of the ladder.",
    extras=_extras,
    over=GAME_OVER,
)
