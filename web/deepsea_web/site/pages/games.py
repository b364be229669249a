"""The games of a ladder, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deepsea_arena.games import GamesPage, newest_games
from deepsea_arena.wire.json import to_object
from deepsea_ladder.model.games import GameFilter
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_web.site.page import Page, Query

PORTION: Final = 50
MOST: Final = 500
"""Games of one document, for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Games(GamesPage):
    """Some games, and the seasons to choose from."""

    seasons: tuple[str, ...]


def _read(store: Store, query: Query) -> Games:
    wanted = GameFilter(
        bot=query.text("bot"),
        against=query.text("against"),
        faults=query.flag("faults"),
        lost=query.flag("lost"),
    )
    if wanted.bot is None and (wanted.against is not None or wanted.lost):
        raise UserError("against and lost are about a bot: name it with bot")
    limit = query.number("limit", 1, MOST) or PORTION
    page = newest_games(
        store, limit, query.text("season"), wanted, before=query.number("before", 1)
    )
    seasons = tuple(one.name for one in store.seasons.all())
    return Games(games=page.games, older=page.older, seasons=seasons)


def _rows(data: Games) -> Iterator[Mapping[str, Any]]:
    """A row for each seat, as `ladder export --csv` has them."""
    for game in data.games:
        of_game = to_object(game)
        del of_game["seats"]
        for index, seat in enumerate(game.seats):
            yield of_game | {"seat": index} | to_object(seat)


GAMES = Page(
    path="/games",
    template="games.html",
    read=_read,
    title=lambda data: "Games",
    summary=lambda data: "Rated games of Deep Sea Adventure between bots, the newest first.",
    parameters=("season", "bot", "against", "faults", "lost", "before", "limit"),
    rows=_rows,
    nav="Games",
)
