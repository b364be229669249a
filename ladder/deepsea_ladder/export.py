"""Everything that outsiders may see of a season: its games and its attempts without a result.

Invariants: an export is of the moment at which it began; every line is there, in the order of the
chain, and has the chain's head.
"""

from __future__ import annotations

import gzip
import heapq
import json
import zlib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from deepsea_ladder.chain import Line, game_line, lost_line, opening
from deepsea_ladder.errors import NotAChain
from deepsea_ladder.model import LostAttempt, StoredGame, StoredSeason

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)
"""Exceptions of reading a file that is no export."""
LONGEST_LINE = 8 * 1024 * 1024
"""Characters of a line; a record has at most half of that."""
_Entry = StoredGame | LostAttempt


def export_lines(store: Store, season: StoredSeason) -> Iterator[str]:
    """The season as JSON Lines: its opening, then a line for each place."""
    season = store.seasons.get(season.name)  # as it is now: what comes later is left out
    yield _text(opening(season, store.seasons.revealed_seed(season)))
    games: Iterator[_Entry] = store.history.games(season)
    lost: Iterator[_Entry] = store.queue.lost(season)
    entries = heapq.merge(games, lost, key=lambda entry: entry.place)
    for entry in takewhile(lambda entry: entry.place <= season.place, entries):
        yield _text(_line(season, entry))


def _line(season: StoredSeason, entry: _Entry) -> Line:
    if isinstance(entry, LostAttempt):
        authors = [version.author for version in entry.lineup]
        return {**lost_line(season.name, entry), "authors": authors, "head": entry.head}
    authors = [seat.author for seat in entry.line.seats]
    ratings = [{"mu": seat.mu, "sigma": seat.sigma} for seat in entry.line.seats]
    return {**game_line(entry), "authors": authors, "ratings": ratings, "head": entry.head}


def _text(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def read_export(path: Path) -> Iterator[str]:
    """Read the lines of an export's file, packed by gzip if its name says so.

    Raises NotAChain for a line that is longer than any of an export, and what UNREADABLE has.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with cast(IO[str], opened(path, "rt", encoding="utf-8")) as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise NotAChain(f"a line has more than {LONGEST_LINE:,} characters")
            yield line
