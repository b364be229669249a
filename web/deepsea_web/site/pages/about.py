"""How it works: the game, the ladder, ratings in plain words, and how to check a game."""

from __future__ import annotations

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.reports.seasons import SeasonInfo
from deepsea_web.site.page import Page, Query, season_of


def _read(ladder: LadderApi, query: Query) -> SeasonInfo:
    return ladder.season(season=season_of(ladder, query))


HOW = Page(
    path="/how",
    template="how.html",
    read=_read,
    title=lambda data: "How it works",
    summary=lambda data: (
        "The game, what a rating means, who plays whom, and how everybody can check a game."
    ),
    parameters=("season",),
    nav="How it works",
)
