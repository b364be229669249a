"""Whether stored games are what their records prove.

Invariants: pure, so that games may be looked at in any process; a difference is one line that names
the game; differences come in the order of the games.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from deepsea_ladder.rating.totals import SeatResult, seat_results
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.record import GameRecord, verify


class RecordedGame(NamedTuple):
    """A stored game with what its record must agree with."""

    game_id: str
    record: str
    """JSON."""
    seed: bytes
    """The seed that follows from the season's."""
    lineup: tuple[int, ...]
    """Version ids by seat."""
    results: tuple[SeatResult, ...]
    """The stored results by seat."""


Prove: TypeAlias = Callable[[Iterable[RecordedGame]], Iterator[str]]
"""Gives the differences of games, each a line, in the order of the games."""


def difference(game: RecordedGame) -> str | None:
    """What is wrong with a game, found by a re-run of its record; None if nothing is."""
    try:
        record = GameRecord.from_json(game.record)
        verify(record)
    except InvalidRecord as error:
        return f"game {game.game_id}: the record is wrong: {error}"
    if record.game_id != game.game_id:
        return f"game {game.game_id}: the record is another game's"
    if record.seed != game.seed:
        return f"game {game.game_id}: its seed does not follow from the season's"
    if len(game.lineup) != len(record.seats) or game.results != tuple(
        seat_results(record, game.lineup)
    ):
        return f"game {game.game_id}: the stored results are not those of its record"
    return None


def prove(games: Iterable[RecordedGame]) -> Iterator[str]:
    """Look at one game after another in this process."""
    return filter(None, map(difference, games))
