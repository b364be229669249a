"""Pages of games of people: begin one, sit at it, and for everybody the one that is over.

Invariant: the page of a seat and its news are made of the seat's state alone, which has nothing
that the seat does not know; what its forms ask for, the service decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp

from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.person_games import RANDOM
from deepsea_arena.coach.ladder_analyses import record_file
from deepsea_arena.reports.games import PersonGameReport, SeatText, read_record
from deepsea_ladder.model.games import PERSON, PersonGameState
from deepsea_referee.errors import UserError
from deepsea_rules.ruleset import MAX_PLAYERS, PRESETS, SEAT_LETTERS
from deepsea_web.http import last_event
from deepsea_web.play.page import deed_of, place_of, values
from deepsea_web.play.seat import news_of
from deepsea_web.server.http_api import AnswerStream
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


def _read_seat(visit: Visit, query: Query) -> Values:
    game_id = query.text("id") or ""
    state = next(filter(None, visit.ladder.watch_seat(game_id=game_id)))
    return {
        **values(json.loads(state.document)),
        "current": NAV,
        "game_id": game_id,
        "address": f"/play/{game_id}/",
        "hidden": {"id": game_id},
        "is_over": state.person_game.state is PersonGameState.DONE,
    }


SEAT = OwnPage(
    path="/play/{id}",
    template="play_seat.html",
    title=lambda values: f"You are {values['seat']['seat']}, {values['seat']['rules']} rules",
    read=_read_seat,
    open=True,
)


def _do(visit: Visit, form: Form) -> Redirect:
    game_id = form.text("id")
    deed = deed_of([(one, form.text(one)) for one in _DEED if form.list(one)])
    if deed is None:
        raise UserError("this form makes no sense")
    if deed.what in ("play on", "drop"):
        visit.ladder.leave(game_id=game_id, drop=deed.what == "drop")
    else:
        visit.ladder.decide(game_id=game_id, asked=deed.asked, action=deed.action)
    return Redirect(path=f"/play/{game_id}")


DEED = Action(path="/play/{id}/deed", page=SEAT, act=_do, fields=("id", *_DEED))


async def seat_news(sessions: SessionAuth, seen: Seen, request: Request) -> ASGIApp:
    """What the page of a seat lacks, as server-sent events, until the game is over."""
    has = place_of(last_event(request))

    def write(state: SeatText) -> str:
        nonlocal has
        has, text = news_of(json.loads(state.document), has)
        return text

    wanted = {"game_id": request.path_params["id"]}
    steps = sessions.gateway.stream(seen.visit.caller, METHODS["watch_seat"], wanted)
    return await AnswerStream.begun(sessions.gateway, steps, write=write)


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
