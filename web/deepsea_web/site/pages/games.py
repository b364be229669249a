"""Pages of games: rated games with their documents, TV and newest results, and people's games.

Invariants: a page of a game reads and replays its record once. The page of a person's seat and its
news are made of the seat's document alone, which has nothing that the seat does not know; the
service decides on the requests of its forms; a form for a question that is over does nothing, since
a page may be old or be sent twice.
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
    PersonalPage,
    Redirect,
    SessionAuth,
    Values,
)
from deepsea_web.site.page import (
    GAME_SUBJECT,
    KINDS,
    SEASON_SUBJECT,
    Csv,
    Page,
    Query,
    ResponseBody,
    Visit,
)
from deepsea_web.site.words import name, result

GAMES_ON_PAGE = 50
"""Number of games in the list, unless the address has another one."""


# ----- The list of games


class Games(GamesPage, frozen=True, kw_only=True):
    """A part of the list of games, and the seasons from which the reader chooses."""

    seasons: tuple[str, ...]


def _read_games(ladder: LadderApi, query: Query) -> Games:
    """Read the newest games that the parameters choose.

    `bot`, `against` and `lost` choose games of a bot, against another one, and those that it has
    lost. `before` is where the list goes on from the page of newer games.
    """
    bot, against, lost = query.text("bot"), query.text("against"), query.flag("lost")
    if bot is None and (against is not None or lost):
        raise UserError("against and lost are about a bot: name it with bot")
    page = ladder.games(
        season=query.text("season") or "",
        bot=bot or "",
        against=against or "",
        faults=query.flag("faults"),
        lost=lost,
        limit=query.number("limit") or GAMES_ON_PAGE,
        before=query.number("before"),
    )
    return Games(games=page.games, older=page.older, seasons=ladder.seasons())


def _game_rows(data: Games) -> Iterator[Mapping[str, Any]]:
    """Yield a row of the CSV for each seat of each game.

    The columns are those of `ladder export --csv`; a row has the fields of the game and the seat.
    """
    for game in data.games:
        game_fields = to_object(game)
        del game_fields["seats"]
        for number, seat in enumerate(game.seats):
            yield game_fields | {"seat": number} | to_object(seat)


def _games_file(data: Games) -> str:
    """Return the name of the CSV file, with the season if all games are of the same one."""
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
    subject=SEASON_SUBJECT,
    nav="Games",
)


# ----- A rated game


def _game_extras(data: GameReport) -> Mapping[str, Any]:
    """Return the game for the viewer, and its seats by placement.

    A seat is a tuple: its letter, its result, and the change of its bot's rating.
    """
    record, file = read_record(data.record), record_file(data.game.game_id)
    shown_game = PageGame.of_record(record, file, packed=False)
    # There are more letters than seats.
    rows = zip(SEAT_LETTERS, data.game.seats, data.changes, strict=False)
    best_first = sorted(rows, key=lambda row: row[1].placement)
    return {"shown": shown_game, "seats": best_first}


def _seat_rows(data: GameReport) -> Iterator[Mapping[str, Any]]:
    """Yield a row of the game's CSV for each seat: its letter, result and change of rating."""
    for letter, seat, change in zip(SEAT_LETTERS, data.game.seats, data.changes, strict=False):
        yield {"seat": letter} | to_object(seat) | to_object(change)


def _bot_names(data: GameReport) -> str:
    return ", ".join(name(seat.bot, 40) for seat in data.game.by_placement())


GAME = Page(
    path="/games/{id}",
    template="game.html",
    read=lambda ladder, query: ladder.game(game_id=query.path["id"]),
    title=lambda data: f"Game {name(data.game.game_id)}: {_bot_names(data)}",
    summary=lambda data: result(data.game),
    csv=Csv(
        columns=("seat", *GameSeat.__struct_fields__, *RatingChange.__struct_fields__),
        rows=_seat_rows,
        name=lambda data: f"game-{data.game.game_id}",
    ),
    extras=_game_extras,
    subject=GAME_SUBJECT,
)


def _read_own_logs(visit: Visit, query: Query) -> Values:
    """Read the logs that the member's bots have left of a game.

    If there are none, or none that the member may read, the page says so. The error for a visitor
    is raised: it leads to the login.
    """
    game_id = query.text("id") or ""
    logs: tuple[SeatLog, ...] = ()
    try:
        logs = visit.ladder.log(game_id=game_id)
    except ApiError as error:
        means_no_logs = error.kind in (RefusalKind.NOT_FOUND, RefusalKind.DENIED)
        if not means_no_logs:
            raise
    notes = script_json([to_json(note) for log in logs for note in log.notes])
    return {"game_id": game_id, "logs": logs, "notes": notes}


OWN_LOGS = PersonalPage(
    path="/games/{id}/own",
    template="game_own.html",
    title=lambda values: f"Game {name(values['game_id'])}: your bots",
    read=_read_own_logs,
)


async def game_frames(site: Site, request: Request) -> Response:
    """Answer with the frames of a game as JSON, as docs/viewer.md describes them.

    The parameter `seat` names the viewer: a seat, whose frames show only what it knew, a watcher,
    or nobody, for frames that show everything.
    """
    game_id = request.path_params["id"]
    viewer = _viewer_of(request.query_params.get("seat"))

    def make() -> ResponseBody:
        """Read the record and the analysis, and write the frames that the viewer may see."""
        record = read_record(site.ladder.record(game_id=game_id))
        if isinstance(viewer, int) and viewer >= len(record.seats):
            last = SEAT_LETTERS[len(record.seats) - 1]
            raise UserError(f"this game has the seats A to {last}, not {SEAT_LETTERS[viewer]}")
        analysis = site.ladder.analysis(game_id=game_id).document
        frames = analysed_frames(record, viewer, analysis)
        return ResponseBody.of_text(json_text(frames), KINDS["json"])

    return await _game_document(site, request, ("frames", viewer), make)


async def game_analysis(site: Site, request: Request) -> Response:
    """Answer with the analysis of a game, as docs/analyse.md describes it; 404 without one."""
    game_id = request.path_params["id"]

    def make() -> ResponseBody:
        analysis = site.ladder.analysis(game_id=game_id)
        if analysis.done is None:
            raise ApiError(RefusalKind.NOT_FOUND, "there is no analysis of that game yet")
        file = f"{game_id}-analysis.json"
        return ResponseBody.of_text(f"{analysis.document}\n", KINDS["json"], file)

    return await _game_document(site, request, ("analysis",), make)


async def game_record(site: Site, request: Request) -> Response:
    """Answer with the record of a game, as a file that can be verified."""
    game_id = request.path_params["id"]

    def make() -> ResponseBody:
        record = site.ladder.record(game_id=game_id)
        return ResponseBody.of_text(record, KINDS["json"], record_file(game_id))

    return await _game_document(site, request, ("record",), make)


async def _game_document(
    site: Site,
    request: Request,
    kind: tuple[object, ...],
    make: Callable[[], ResponseBody],
) -> Response:
    """Answer with a document of a game, which is kept as long as the game's page.

    `kind` tells the documents of a game apart in the cache.
    """
    game_id = request.path_params["id"]
    last_changes = partial(GAME_SUBJECT.last_changes, site.store, game_id)
    return await site.shared_response(request, (*kind, game_id), make, last_changes)


def _viewer_of(text: str | None) -> Viewer:
    """Return the viewer that the parameter `seat` names.

    None, the default, stands for a viewer who knows what all seats know. Raises UserError for a
    text that names no viewer.
    """
    if text in (None, "", "all"):
        return None
    if text == "watcher":
        return "watcher"
    # A tuple: in the string itself, "BC" would be found, too.
    if text not in tuple(SEAT_LETTERS):
        raise UserError(f"seat is a letter from A, watcher or all, not {quoted(text, 40)}")
    return SEAT_LETTERS.index(text)


# ----- The form that asks for an analysis


def _read_analysis(visit: Visit, query: Query) -> Values:
    """Read the state of a game's analysis for the page on which members request one."""
    game_id = query.text("id") or ""
    visit.ladder.who_am_i()  # raises ApiError for visitors, which leads them to the login
    analyses = visit.ladder.analysis(game_id=game_id)
    return {
        "game_id": game_id,
        "address": _game_path(visit, game_id),
        "last": analyses.last,
        "may_ask": analyses.may_be_asked,
    }


def _game_path(visit: Visit, game_id: str) -> str:
    """Return the path of the page of a game, which is a rated one or one of a person.

    An unknown game gets the path of a rated one, where the reader finds that there is none.
    """
    try:
        visit.ladder.person_game(game_id=game_id)  # raises NOT_FOUND for a rated game
    except ApiError as error:
        if error.kind is RefusalKind.NOT_FOUND:
            return f"/games/{game_id}"
        raise
    return f"/play/{game_id}/game"


ANALYSIS = PersonalPage(
    path="/games/{id}/analysis",
    template="analysis.html",
    title=lambda values: f"Analysis of game {values['game_id']}",
    read=_read_analysis,
)


def _request_analysis(visit: Visit, form: Form) -> Redirect:
    game_id = form.text("id")
    visit.ladder.request_analysis(game_id=game_id)
    return Redirect(path=_game_path(visit, game_id))


REQUEST_ANALYSIS = Action(path="/analyse", page=ANALYSIS, act=_request_analysis, fields=("id",))


# ----- TV and newest results


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
    """Answer with new results and the game on TV, as a stream of server-sent events."""
    address = request.client.host if request.client else ""
    caller = request.scope.get(MEMBER) or visitor(address)
    news = site.broadcast.events(whole_number(last_event(request)) or 0, caller)
    return await StreamedResponse.begin(news, site.gateway.clock, EVENT_STREAM)


# ----- Begin a game against bots

NAV = "Play"
_SEAT_FIELDS = ("what", "asked", "action")
"""Names of the fields of the forms at a seat, besides the id of the game."""


def _read_play(visit: Visit, query: Query) -> Values:
    """Read the reader's games against bots, and the choices of the form that begins another one.

    If another game would be refused, the page has the refusal in place of the form.
    """
    person_games = visit.ladder.person_games()
    bots: list[str] = []  # the bots that the reader may choose
    if not person_games.refusal:
        standings = visit.ladder.standings(season=person_games.season)
        bots = [line.bot for line in standings.standings]
    return {
        "current": NAV,
        "games": person_games.games,
        "refusal": person_games.refusal,
        "bots": bots,
        "presets": [*PRESETS],
        "rules": person_games.rules,
        "seats": [RANDOM, *SEAT_LETTERS],
        "most": MAX_PLAYERS - 1,
    }


PLAY = PersonalPage(
    path="/play",
    template="play.html",
    title=lambda values: "Play against the bots",
    read=_read_play,
    open=True,
    names_visitors=True,
)


def _begin_game(visit: Visit, form: Form) -> Redirect:
    """Begin a game against the chosen bots, and show the person's seat."""
    game = visit.ladder.play(
        bots=tuple(form.list("bots")),
        opponents=form.number("opponents"),
        rules=form.text("rules"),
        seat=form.text("seat"),
    )
    return Redirect(path=f"/play/{game.game_id}")


BEGIN_GAME = Action(
    path="/play",
    page=PLAY,
    act=_begin_game,
    fields=("bots", "opponents", "rules", "seat"),
)


# ----- A person's seat


class SeatRequest(NamedTuple):
    """A request by a form of a seat's page."""

    what: str
    """The kind of request, one of SEAT_REQUESTS."""
    asked: int = 0
    """Number of the question that it answers; 0 for "next"."""
    action: str = ""
    """The action of an "answer", or the key that stands for it; else empty."""


SEAT_REQUESTS = ("answer", HINT, "play on", "drop", NEXT)
SeatCursor = tuple[int, int, int]
"""State of a reader of a seat: the number of its news, the game, and the number of its frames."""


def _read_seat(visit: Visit, query: Query) -> Values:
    """Read the present state of a person's seat, for its page with and without scripts."""
    game_id = query.text("id") or ""
    # The stream of states begins with the present one; None in it only says that there is no news.
    states = visit.ladder.watch_seat(game_id=game_id)
    state = next(state for state in states if state is not None)
    document: SeatDocument = json.loads(state.document)
    frames = document["frames"]
    last_frame = frames[-1]
    position = last_frame["p"]
    sentences = [sentence for frame in frames for sentence in frame["say"]]
    judged = document["judged"]
    worst_decisions = judged["worst"] if judged else []
    return {
        "current": NAV,
        "game_id": game_id,
        "seat": document,
        "others": _opponent_names(document),
        "last": last_frame,
        "place": _cursor_text(_end_cursor(document)),
        "lines": sentences[-LAST_TURNS:],
        "board": board_words(position),
        "divers": _diver_rows(position, document["names"]),
        "boards": [board_words(decision["position"]) for decision in worst_decisions],
        "waits": expects_news(document),
    }


def _opponent_names(document: SeatDocument) -> list[str]:
    """Return the names of the bots at a person's table, for another game against the same ones.

    The document names them with their versions, such as `greedy v2`, which are left out here.
    """
    return [
        label.rpartition(" v")[0]
        for letter, label in zip(SEAT_LETTERS, document["names"], strict=False)
        if letter != document["seat"]
    ]


SEAT = PersonalPage(
    path="/play/{id}",
    template="play_seat.html",
    title=lambda values: f"You are {values['seat']['seat']}, {values['seat']['rules']} rules",
    read=_read_seat,
    open=True,
)


def expects_news(document: SeatDocument) -> bool:
    """Return True if the seat's document will change although the person does nothing.

    That is so while decisions are judged, while a hint is looked for, and while bots play.
    """
    is_working = document["judging"] or THINKING in document["note"]
    waits_for_person = document["asked"] or document["table"]
    bots_play = not (waits_for_person or document["ended"])
    return is_working or bots_play


def _read_position(position: str) -> tuple[GameState, dict[int, int]]:
    """Read a position in notation; return its state, and the chips' values that it shows, by chip.

    A position does not tell the rules of its game, so it is read by the default rules. Two marks of
    other rules, which the default rules could refuse, are removed first. No caller needs them.
    """
    position = position.replace("!", "")  # "!" marks a diver who was refused entry for the dive
    if position.endswith(" order"):
        # The last word is the phase: the diver with "*" decides in which order to lay its cargo. By
        # the default rules there may be nothing to decide. So replace the phase by "over", in which
        # no diver has "*"; the board stays as it is.
        board = position.replace("*", "").removesuffix("order")
        position = f"{board}over"
    return read_position(position, PRESETS[DEFAULT])


class BoardWords(NamedTuple):
    """A board for readers without scripts."""

    position: str
    """The position in notation, from which scripts draw the board."""
    dive: int
    air: int
    trail: list[str]
    """The unit on each space in words, and the diver who is there."""


def board_words(position: str) -> BoardWords:
    """Return the board of a position in notation, with each space of the trail in words."""
    state, values = _read_position(position)
    seat_on_space = {space: seat for seat, space in enumerate(state.place)}
    trail: list[str] = []
    for space, unit in enumerate(state.trail[1:], start=1):
        space_words = _unit_words(unit, values)
        if space in seat_on_space:
            space_words += f", diver {SEAT_LETTERS[seat_on_space[space]]}"
        trail.append(space_words)
    return BoardWords(position, state.dive, state.air, trail)


def _unit_words(unit: Unit, values: Mapping[int, int]) -> str:
    """Return a unit in words, as the viewer reads it out: each chip with its level, and its value.

    `values` has the values of the chips that the reader knows.
    """
    if not unit:
        return "blank"
    chips: list[str] = []
    for chip in unit:
        value = f" worth {values[chip]}" if chip in values else ""
        chips.append(f"{LEVEL_OF[chip]}{value}")
    return f"level {chips[0]}" if len(chips) == 1 else f"stack of levels {', '.join(chips)}"


def _place_words(state: GameState, seat: int) -> str:
    """Return in words where the diver of a seat is, and which way it goes."""
    place = state.place[seat]
    if place in (HOME, ABOARD):
        return "home" if place == HOME else "submarine"
    return f"space {place}, going {'home' if state.homeward[seat] else 'down'}"


def _diver_rows(position: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a row for each diver: letter, name, place, cargo, and points of the bank.

    The known values of the bank's chips are added up; chips with an unknown value are counted.
    """
    state, values = _read_position(position)
    rows: list[tuple[str, ...]] = []
    for seat, name_of_diver in enumerate(names):
        known_values = [values[chip] for chip in state.bank[seat] if chip in values]
        points = str(sum(known_values))
        hidden_chips = len(state.bank[seat]) - len(known_values)
        if hidden_chips:
            points += f" + {hidden_chips} hidden"
        cargo = " ".join(unit.name for unit in state.cargo[seat])
        place = _place_words(state, seat)
        rows.append((SEAT_LETTERS[seat], name_of_diver, place, cargo, points))
    return rows


def seat_request_of(fields: Sequence[tuple[str, str]]) -> SeatRequest | None:
    """Return the request that a form at a seat makes, by its names and values of fields.

    None if the fields are not those of a page's form: the number `asked` of the question is no
    number, or the kind `what` of the request is unknown.
    """
    values = dict(fields)
    question_number = whole_number(values.get("asked", "0"))
    kind = values.get("what", "answer")
    if question_number is None or kind not in SEAT_REQUESTS:
        return None
    return SeatRequest(kind, question_number, values.get("action", ""))


def _handle_seat_request(visit: Visit, form: Form) -> Redirect:
    """Do what the person requests by a form at a seat: decide, leave, get a hint or play again.

    Then the seat is shown again, or that of the next game.
    """
    game_id, ladder = form.text("id"), visit.ladder
    fields = [(name, form.text(name)) for name in _SEAT_FIELDS if form.list(name)]
    request = seat_request_of(fields)
    if request is None:
        raise UserError("this form makes no sense")
    if request.what in ("play on", "drop"):  # leave; the game is played to its end, or is void
        ladder.leave(game_id=game_id, drop=request.what == "drop")
    else:
        # The API takes HINT or NEXT in place of an action.
        action = request.action if request.what == "answer" else request.what
        ladder.decide(game_id=game_id, asked=request.asked, action=action)
    if request.what == NEXT:
        game_id = ladder.person_games().games[0].game_id
    return Redirect(path=f"/play/{game_id}")


SEAT_FORM = Action(
    path="/play/{id}/deed",
    page=SEAT,
    act=_handle_seat_request,
    fields=("id", *_SEAT_FIELDS),
)


def seat_cursor_of(text: str) -> SeatCursor:
    """Read the cursor that a reader sends, such as `12.1.40`; it says what the reader has got.

    Missing numbers, and texts that are no numbers, are read as 0. With a cursor of zeros the reader
    gets everything.
    """
    parts = [*text.split("."), "", "", ""]
    news, game, frames = (whole_number(part) or 0 for part in parts[:3])
    return news, game, frames


def _end_cursor(document: SeatDocument) -> SeatCursor:
    """Return the cursor of a reader who has got all of a seat's document."""
    return document["news"], document["game"], len(document["frames"])


def _cursor_text(cursor: SeatCursor) -> str:
    """Return a cursor in the form in which readers send it, such as `12.1.40`."""
    return ".".join(map(str, cursor))


def seat_news_after(document: SeatDocument, cursor: SeatCursor) -> tuple[SeatCursor, str]:
    """Return what a reader lacks of a seat's document, as a server-sent event, and a new cursor.

    The event has the frames that the reader lacks, and the new cursor as its id, which the reader
    sends when it connects again. It is "" if the document has not changed.
    """
    news_number, game_number, frame_count = cursor
    if news_number == document["news"]:
        return cursor, ""
    # A reader who has frames of a former game gets all frames of the present one.
    has_same_game = game_number == document["game"]
    first_missing_frame = frame_count if has_same_game else 0
    data = {
        "names": document["names"],
        "frames": document["frames"][first_missing_frame:],
        "waits": expects_news(document),
    }
    new_cursor = _end_cursor(document)
    return new_cursor, f"id: {_cursor_text(new_cursor)}\ndata: {json.dumps(data)}\n\n"


async def seat_news(sessions: SessionAuth, visit: Visit, request: Request) -> ASGIApp:
    """Answer with the news of a person's seat, as server-sent events, until the game is over."""
    cursor = seat_cursor_of(last_event(request))

    def write_event(state: SeatText) -> str:
        """Return the event with what the reader lacks of a state, and move the cursor on."""
        nonlocal cursor
        cursor, event = seat_news_after(json.loads(state.document), cursor)
        return event

    fields = {"game_id": request.path_params["id"]}
    states = sessions.gateway.stream(visit.caller, METHODS["watch_seat"], fields)
    return await answer_stream(sessions.gateway, states, Flow.EVENTS, write_event)


# ----- A person's game that is over


def _person_game_extras(data: PersonGameReport) -> Mapping[str, Any]:
    """Return the game for the viewer, its seed, and a row for each seat by placement.

    A row has the placement, the seat's letter, its name, its points and the number of its faults.
    """
    record = read_record(data.record)
    fault_counts = [0] * len(record.seats)
    for decision in record.decisions:
        if decision.fault is not None:
            fault_counts[decision.seat] += 1
    names = list(data.game.names)
    names[data.game.seat] = data.game.person or PERSON
    # There are more letters than seats.
    rows = zip(record.placements, SEAT_LETTERS, names, record.points, fault_counts, strict=False)
    shown_game = PageGame.of_record(record, record_file(data.game.game_id), packed=False)
    return {"shown": shown_game, "rows": sorted(rows), "seed": record.seed.hex()}


PERSON_GAME = Page(
    path="/play/{id}/game",
    template="person_game.html",
    read=lambda ladder, query: ladder.person_game(game_id=query.path["id"]),
    title=lambda data: f"A game of {name(data.game.person or 'a visitor')} against bots",
    summary=lambda data: "An unrated game of a person against bots of the ladder.",
    extras=_person_game_extras,
    subject=GAME_SUBJECT,
)
