"""The large ladder of the site's benchmark is one that the store agrees with."""

from __future__ import annotations

from pathlib import Path

import web_store
from deepsea_ladder.store import Store
from deepsea_ladder.store.database import find_damage


def test_a_made_ladder_adds_up(tmp_path: Path) -> None:
    web_store.make(tmp_path / "ladder.db", bots=6, games=20, courses=3)
    with Store.open(tmp_path / "ladder.db") as store:
        season = store.seasons.get(web_store.SEASON)
        assert find_damage(store.database) == []
        assert store.ratings.differences(season) == []
        veteran = store.bots.get(web_store.VETERAN).current
        games = [
            game
            for game in store.history.games()
            if veteran.label in [seat.label for seat in game.line.seats]
        ]
        assert len(games) == 2
