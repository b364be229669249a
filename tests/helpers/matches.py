"""What a match hands on, put together again: its games one by one, in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_rules.game import GameRecord


class Played(NamedTuple):
    """A match that is over."""

    result: MatchResult
    games: list[GameResult]
    records: list[GameRecord]


class Listener:
    """Notes all that a match hands on."""

    def __init__(self) -> None:
        self._played: dict[int, tuple[GameResult, GameRecord]] = {}
        self.voids: list[VoidGame] = []

    def on_game(self, result: GameResult, record: GameRecord) -> None:
        """Note a game that counts."""
        assert result.game not in self._played
        self._played[result.game] = result, record

    def on_void(self, void: VoidGame) -> None:
        """Note a game that does not count."""
        self.voids.append(void)

    def played(self, result: MatchResult) -> Played:
        """The whole match; it has counted what it handed on."""
        assert result.games == len(self._played)
        assert result.voids.count == len(self.voids)
        pairs = [self._played[number] for number in sorted(self._played)]
        return Played(result, [game for game, _ in pairs], [record for _, record in pairs])


def without_times(record: GameRecord) -> str:
    """The record's text with every time set to zero."""
    decisions = tuple(decision._replace(us=0) for decision in record.decisions)
    return replace(record, decisions=decisions).to_json()
