"""The games of a ladder, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.documents import to_object
from deepsea_arena.reports.games import MOST_GAMES, GamesPage
from deepsea_referee.errors import UserError
from deepsea_web.site.page import Page, Query

PORTION: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Games(GamesPage):
    """Some games, and the seasons to choose from."""

    seasons: tuple[str, ...]


def _read(ladder: LadderApi, query: Query) -> Games:
    bot, against, lost = query.text("bot"), query.text("against"), query.flag("lost")
    if bot is None and (against is not None or lost):
        raise UserError("against and lost are about a bot: name it with bot")
    page = ladder.games(
        season=query.text("season") or "",
        bot=bot or "",
        against=against or "",
        faults=query.flag("faults"),
        lost=lost,
        limit=query.number("limit", 1, MOST_GAMES) or PORTION,
        before=query.number("before", 1) or 0,
    )
    return Games(games=page.games, older=page.older, seasons=ladder.seasons().seasons)


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
