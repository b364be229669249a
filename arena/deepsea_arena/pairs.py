"""The table of pairs: how often a bot was placed before another in the games that both played.

Invariants: it counts games at one table, with others at it, so it is no table of duels; sums are
kept from one look to the next, and only games since then are added to them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from deepsea_arena.reports.seasons import SeasonInfo, find_season, season_info
from deepsea_arena.reports.standings import listed, standing_lines
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.standings import HeadToHead, StandingLine

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCell:
    """The games at one table of the row's bot and the column's."""

    games: int
    share: float
    """The share in which the row's bot was placed before the column's, level counting half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTable:
    """Some bots of a season against each other, in the order of the standings."""

    season: SeasonInfo
    bots: tuple[StandingLine, ...]
    cells: tuple[tuple[PairCell | None, ...], ...]
    """By row and column; None where two were never at one table."""
    start: int
    """How many of the standings come before the first."""
    total: int
    """How many stand in the standings."""


class _PairSums:
    """The sums of every season of a store that was asked for; threads share it."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._sums: dict[int, dict[tuple[int, int], HeadToHead]] = {}

    def of(self, store: Store, season: StoredSeason) -> dict[tuple[int, int], HeadToHead]:
        """The sums of a season up to its last game, by the ids of two versions."""
        with _lock:
            known, sums = self._last.get(season.id, 0), dict(self._sums.get(season.id, {}))
        last, more = store.sums.pairs(season, known)
        for (one, other), meeting in more.items():
            for key, seen in (((one, other), meeting), ((other, one), meeting.turned)):
                sums[key] = sums.get(key, HeadToHead()).plus(seen)
        with _lock:
            if self._last.get(season.id, 0) <= last:
                self._last[season.id], self._sums[season.id] = last, sums
        return sums


_lock: Final = threading.Lock()
_kept: Final[WeakKeyDictionary[Store, _PairSums]] = WeakKeyDictionary()


def pair_table(store: Store, season_name: str | None, *, start: int, size: int) -> PairTable:
    """The table of `size` bots of the standings that follow on the first `start`."""
    season = find_season(store, season_name)
    entries = listed(store, season, store.ratings.entries(season))
    ids = {(entry.version.bot, entry.version.number): entry.version.id for entry in entries}
    lines = standing_lines(store, season, entries)
    bots = tuple(lines[start : start + size])
    with _lock:
        sums = _kept.setdefault(store, _PairSums())
    found = sums.of(store, season)
    versions = [ids[line.bot, line.version] for line in bots]
    return PairTable(
        season=season_info(season),
        bots=bots,
        cells=tuple(
            tuple(_cell(found.get((row, column))) for column in versions) for row in versions
        ),
        start=start,
        total=len(lines),
    )


def _cell(meeting: HeadToHead | None) -> PairCell | None:
    return None if meeting is None else PairCell(games=meeting.games, share=meeting.share)
