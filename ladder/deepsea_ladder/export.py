"""The export of a season: all of its games and its attempts without a result, as JSON Lines.

Invariants: an export shows the season at the moment at which it began; it has every line of the
season's chain, in order, each with the chain's head; it has nothing that only members may see.
"""

from __future__ import annotations

import gzip
import heapq
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from deepsea_ladder.chain import Line, game_line, lost_line, opening
from deepsea_ladder.errors import NotAChain
from deepsea_ladder.model import LostAttempt, StoredGame, StoredSeason

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)
"""Exceptions of reading the lines of a file that is no export."""
LONGEST_LINE = 8 * 1024 * 1024
"""The largest number of characters of a line; a record has at most half of that."""
_Entry = StoredGame | LostAttempt


def export_lines(store: Store, season: StoredSeason) -> Iterator[str]:
    """Yield a season as JSON Lines: an opening line, then one for each game, in order.

    Attempts at games that ended without a result have lines, too. All that is stored while this
    runs is left out.
    """
    season = store.seasons.get(season.name)  # as it is now, with the last place of its chain
    yield _text(opening(season, store.seasons.revealed_seed(season)))
    games: Iterator[_Entry] = store.history.games(season)
    attempts_without_result: Iterator[_Entry] = store.queue.lost(season)
    # Both are in the order of their places.
    for entry in heapq.merge(games, attempts_without_result, key=lambda entry: entry.place):
        if entry.place > season.place:
            return
        yield _text(_line(season, entry))


def _line(season: StoredSeason, entry: _Entry) -> Line:
    """Return the exported line of a game, or of an attempt at a game that had no result.

    It has the values that are hashed for the chain, and three others: the names of authors and the
    ratings, which may change later, and the hash itself, the head.
    """
    if isinstance(entry, LostAttempt):
        authors = [version.author for version in entry.lineup]
        return {**lost_line(season.name, entry), "authors": authors, "head": entry.head}
    authors = [seat.author for seat in entry.line.seats]
    ratings = [{"mu": seat.mu, "sigma": seat.sigma} for seat in entry.line.seats]
    return {**game_line(entry), "authors": authors, "ratings": ratings, "head": entry.head}


def _text(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def read_export(path: Path) -> Iterator[str]:
    """Yield the lines of an exported file; a file whose name ends with `.gz` is unpacked.

    Raises `NotAChain` for a line that is longer than any line of an export, so that a hostile file
    does not fill the memory. Raises one of the exceptions in `UNREADABLE` for a file that is no
    text.
    """
    open_file = gzip.open if path.suffix == ".gz" else open
    with cast(IO[str], open_file(path, "rt", encoding="utf-8")) as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise NotAChain(f"a line has more than {LONGEST_LINE:,} characters")
            yield line
