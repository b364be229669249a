"""The pages of the site, a module for each.

A new page is a module with a `Page`, a template in `templates/site` and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deepsea_web.site.app import Endpoint
from deepsea_web.site.page import Page
from deepsea_web.site.pages.bot import BOT
from deepsea_web.site.pages.game import GAME, game_frames, game_record
from deepsea_web.site.pages.games import GAMES
from deepsea_web.site.pages.how import HOW
from deepsea_web.site.pages.pairs import PAIRS
from deepsea_web.site.pages.standings import STANDINGS
from deepsea_web.site.pages.tournaments import TOURNAMENT, TOURNAMENTS
from deepsea_web.site.pages.tv import FEED, TV, events

PAGES: Final[tuple[Page[Any], ...]] = (
    STANDINGS,
    BOT,
    GAMES,
    TV,
    FEED,
    GAME,
    PAIRS,
    TOURNAMENTS,
    TOURNAMENT,
    HOW,
)
"""Every page, in the order of the navigation."""
ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "/games/{id}/frames.json": game_frames,
    "/games/{id}/record.json": game_record,
    "/events": events,
}
"""What answers by itself, by its path."""
