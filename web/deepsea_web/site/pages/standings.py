"""The standings of a season: the first page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.reports.standings import Standings, csv_rows
from deepsea_ladder.standings import StandingLine
from deepsea_web.charts.small import Scale, axis, bar, span_of, sparkline
from deepsea_web.site.page import Page, Query, season_of
from deepsea_web.site.words import count


def _read(ladder: LadderApi, query: Query) -> Standings:
    data = ladder.standings(
        season=season_of(ladder, query),
        everybody=query.flag("all"),
        best_of_author=query.flag("best_of_author"),
    )
    wanted = (query.text("find") or "").lower()
    lines = [line for line in data.standings if _is_meant(line, wanted)]
    return replace(data, standings=tuple(lines))


def _is_meant(line: StandingLine, wanted: str) -> bool:
    return wanted in line.bot.lower() or wanted in line.author.lower()


def _look(data: Standings) -> Mapping[str, Any]:
    lines = data.standings
    # Newcomers could be anywhere: where others have played enough, these set the scale.
    known = [line for line in lines if not line.provisional] or lines
    scale = Scale.of([(line.low, line.high) for line in known])
    span = span_of([line.recent for line in known])
    return {
        "axis": axis(scale),
        "bars": [bar(scale, line.low, line.mu, line.high) for line in lines],
        "sparks": [sparkline(line.recent, span) for line in lines],
        "several": len({line.bot for line in lines}) < len(lines),
    }


STANDINGS = Page(
    path="/",
    template="standings.html",
    read=_read,
    look=_look,
    title=lambda data: f"Standings of {data.season.name}",
    summary=lambda data: (
        f"{count(len(data.standings), 'bot')} after {count(data.games, 'rated game')} of Deep Sea "
        f"Adventure, rules “{data.season.rules}”."
    ),
    parameters=("season", "find", "all", "best_of_author"),
    rows=csv_rows,
    nav="Standings",
    embed="embed_standings.html",
    embed_path="/standings",
)
