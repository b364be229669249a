"""The table of pairs of a season."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.pairs import PairTable
from deepsea_web.site.page import Page, Query, season_of
from deepsea_web.site.words import name

SIZE: Final = 20
"""Bots on one page."""


def _read(ladder: LadderApi, query: Query) -> PairTable:
    start = query.number("start", most=1_000_000) or 0
    return ladder.pairs(season=season_of(ladder, query), start=start, size=SIZE)


def _rows(data: PairTable) -> Iterator[Mapping[str, Any]]:
    for row, cells in zip(data.bots, data.cells, strict=True):
        for column, cell in zip(data.bots, cells, strict=True):
            if cell is not None:
                yield {
                    "bot": row.bot,
                    "version": row.version,
                    "other": column.bot,
                    "other_version": column.version,
                    "games": cell.games,
                    "share": cell.share,
                }


def _look(data: PairTable) -> Mapping[str, Any]:
    last = data.start + len(data.bots)
    return {
        "last": last,
        "earlier": None if data.start == 0 else max(0, data.start - SIZE),
        "later": last if last < data.total else None,
        "shade": lambda share: round(10 * share),
    }


PAIRS = Page(
    path="/pairs",
    template="pairs.html",
    read=_read,
    title=lambda data: f"Pairs of {name(data.season.name)}",
    summary=lambda data: (
        "The share of games at one table in which one bot was placed before another, with others "
        "at the table: no table of duels."
    ),
    parameters=("season", "start"),
    rows=_rows,
    look=_look,
    nav="Pairs",
)
