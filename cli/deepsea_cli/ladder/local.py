"""What commands show of a ladder on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepsea_arena.bot_profiles import BotProfile, bot_profile
from deepsea_arena.games import BotLogLine, GamesPage, game_logs, newest_games
from deepsea_arena.standings import Standings, show_standings

if TYPE_CHECKING:
    from deepsea_ladder.model.games import GameFilter
    from deepsea_ladder.store import Store


class LocalSource:
    """Reads a ladder's store, which whoever runs commands there may see all of."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def standings(self, season: str | None, *, everybody: bool, best_of_author: bool) -> Standings:
        """The standings of a season."""
        return show_standings(
            self._store, season, everybody=everybody, best_of_author=best_of_author
        )

    def bot(self, name: str, version: int | None, season: str | None) -> BotProfile:
        """The profile of a bot, with tracebacks."""
        return bot_profile(self._store, name, version=version, season_name=season, errors=True)

    def games(self, limit: int, season: str | None, wanted: GameFilter) -> GamesPage:
        """The newest games."""
        return newest_games(self._store, limit, season, wanted)

    def record(self, game_id: str) -> str:
        """The record of a game."""
        return self._store.games.record(game_id)

    def logs(self, game_id: str) -> Sequence[BotLogLine]:
        """What bots left of a game."""
        return game_logs(self._store, game_id)
