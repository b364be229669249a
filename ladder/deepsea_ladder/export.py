"""All results of a ladder as text that other programs read.

Laws: every game is there once, in the order in which it was rated; numbers are written so that
reading gives the same bits.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from deepsea_ladder.model import StoredGame, StoredSeason, StoredSeat
from deepsea_ladder.store import Store

COLUMNS = (
    "seq", "game_id", "season", "played_at", "seat", "bot", "version", "author", "digest",
    "score", "placement", "decisions", "faults", "forfeit", "mu", "sigma",
)  # fmt: skip


def json_lines(store: Store, season: StoredSeason | None = None) -> Iterator[str]:
    """A line for each game: the columns, the seats in a list, and the record."""
    for game in store.history.games(season):
        yield (
            json.dumps(
                _game(game)
                | {
                    "seats": [_seat(seat) for seat in game.seats],
                    "record": json.loads(game.record),
                },
                ensure_ascii=False,
            )
            + "\n"
        )


def csv_lines(store: Store, season: StoredSeason | None = None) -> Iterator[str]:
    """The names of the columns, then a line for each seat of each game."""
    yield _csv(COLUMNS)
    for game in store.history.games(season):
        for index, seat in enumerate(game.seats):
            row = _game(game) | {"seat": index} | _seat(seat)
            yield _csv(tuple(row[column] for column in COLUMNS))


def _game(game: StoredGame) -> dict[str, object]:
    return {
        "seq": game.seq,
        "game_id": game.game_id,
        "season": game.season,
        "played_at": game.played_at,
    }


def _seat(seat: StoredSeat) -> dict[str, object]:
    return {
        "bot": seat.version.bot,
        "version": seat.version.number,
        "author": seat.version.author,
        "digest": seat.version.digest,
        "score": seat.result.score,
        "placement": seat.result.placement,
        "decisions": seat.result.decisions,
        "faults": seat.result.faults,
        "forfeit": seat.result.forfeit,
        "mu": seat.rating.mu,
        "sigma": seat.rating.sigma,
    }


def _csv(values: tuple[object, ...]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
