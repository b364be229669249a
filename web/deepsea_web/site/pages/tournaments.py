"""Tournaments: the list, and one with its scores and rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.documents import to_object
from deepsea_arena.reports.tournaments import TournamentList, TournamentReport
from deepsea_web.site.page import Page, Query
from deepsea_web.site.words import count, minute, name


def _list(ladder: LadderApi, query: Query) -> TournamentList:
    return ladder.tournaments()


def _one(ladder: LadderApi, query: Query) -> TournamentReport:
    return ladder.tournament(tournament=query.text("name") or "")


def _rows(data: TournamentReport) -> Iterator[Mapping[str, Any]]:
    return map(to_object, data.scores)


def _summary(data: TournamentReport) -> str:
    bots = count(len(data.entrants), "bot")
    if data.tournament.embargo_until is not None:
        return f"{bots}; results are shown from {minute(data.tournament.embargo_until)} UTC."
    if data.champion is not None:
        return f"{name(data.champion, 40)} wins among {bots}."
    return f"{bots}, {data.tournament.kind}."


TOURNAMENTS = Page(
    path="/tournaments",
    template="tournaments.html",
    read=_list,
    title=lambda data: "Tournaments",
    summary=lambda data: f"{count(len(data.tournaments), 'tournament')} of the ladder's bots.",
    rows=lambda data: map(to_object, data.tournaments),
    nav="Tournaments",
)
TOURNAMENT = Page(
    path="/tournaments/{name}",
    template="tournament.html",
    read=_one,
    title=lambda data: f"Tournament {name(data.tournament.name)}",
    summary=_summary,
    rows=_rows,
)
