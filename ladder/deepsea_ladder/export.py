"""Everything that outsiders may see of a season: its games and its attempts without a result.

Invariants: an export is of the moment at which it began; every line is there, in the order of the
chain, and has the chain's head; the records of a season are forgotten only when a published site
has the same chain, whose heads prove the same records.
"""

from __future__ import annotations

import gzip
import heapq
import json
import zlib
from collections.abc import Iterator
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from deepsea_ladder.chain import Line, follow, game_line, lost_line, opening
from deepsea_ladder.errors import NotAChain, RecordForgotten, SeasonError, StoreError
from deepsea_ladder.model.games import LostAttempt, StoredGame, StoredSeason

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

CHAIN = "chain.jsonl.gz"
"""The exports of its seasons, in the folder of a published site."""
UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)
"""What reading an export raises that is none."""
_Entry = StoredGame | LostAttempt


def export_lines(store: Store, season: StoredSeason) -> Iterator[str]:
    """The season as JSON Lines: its opening, then a line for each place.

    Raises RecordForgotten before the first of them.
    """
    season = store.seasons.get(season.name)  # as it is now: what comes later is left out
    if store.history.is_forgotten(season):
        raise RecordForgotten(f"season {season.name}")
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
    authors = [seat.version.author for seat in entry.seats]
    ratings = [{"mu": seat.rating.mu, "sigma": seat.rating.sigma} for seat in entry.seats]
    return {**game_line(entry), "authors": authors, "ratings": ratings, "head": entry.head}


def _text(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def open_export(path: Path) -> IO[str]:
    """Open an export: a file, packed by gzip if its name says so, or a published site's folder."""
    path = path / CHAIN if path.is_dir() else path
    if not path.exists():
        raise NotAChain("there is no export: name a folder of `ladder publish`, or its file")
    opened = gzip.open if path.suffix == ".gz" else open
    return cast(IO[str], opened(path, "rt", encoding="utf-8"))


def ended(store: Store, name: str) -> StoredSeason:
    """The season, if it is closed and its last game has ended. Raises SeasonError."""
    season = store.seasons.get(name)
    if season.closed_at is None or store.queue.leased(season):
        raise SeasonError(f"season {name} is not over: `ladder close {name}`, until it is closed")
    return season


def forget_records(store: Store, name: str, site: Path) -> int:
    """Forget the records of an ended season that a published site has; returns how many.

    Raises StoreError if the site's chain is not that of the store, game by game.
    """
    season = ended(store, name)
    if any(one.game_id.rpartition("-")[0] == name for one in store.analyses.queue()):
        raise StoreError(f"an analysis of a game of season {name} is to be made first: let a run")
    try:
        with open_export(site) as lines:
            theirs = (link for link in follow(lines) if link.season == name)
            for ours, link in zip_longest(follow(export_lines(store, season)), theirs):
                if ours != link:
                    raise StoreError(f"{site} has not what the ladder has at {ours or link}")
    except (NotAChain, *UNREADABLE) as error:
        raise NotAChain(f"{site}: {error}") from None
    return store.games.forget_records(season, str(site))
