"""Pages of games of people: begin one, sit at it, and for everybody the one that is over.

Invariants: the page of a seat and its news are made of the seat's document alone, which has nothing
that the seat does not know; what its forms ask for, the service decides; a form for a question that
is over does nothing, since a page may be old or be sent twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.person_games import HINT, NEXT, RANDOM
from deepsea_arena.coach.ladder_analyses import record_file
from deepsea_arena.reports.games import PersonGameReport, SeatText, read_record
from deepsea_arena.reports.seat import THINKING, SeatDocument
from deepsea_ladder.model import PERSON
from deepsea_referee.choices import LAST_TURNS
from deepsea_referee.errors import UserError
from deepsea_rules.actions import LEVEL_OF, Unit
from deepsea_rules.notation import read_position
from deepsea_rules.ruleset import ABOARD, DEFAULT, HOME, MAX_PLAYERS, PRESETS, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_web.http import last_event, whole_number
from deepsea_web.server.http_api import answer_stream
from deepsea_web.site.forms import Action, Form, OwnPage, Redirect, Values
from deepsea_web.site.page import GAME_OVER, Page, Query, Visit
from deepsea_web.site.sessions import Seen, SessionAuth
from deepsea_web.site.words import name
from deepsea_web.viewer.game_page import PageGame

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
