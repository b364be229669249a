"""The pages of the site: a module for each subject, and the tables of all pages and handlers here.

A new page is a `Page` or a `PersonalPage` in a module, a template in `templates/site` and a line in
a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepsea_web.site.app import Endpoint
from deepsea_web.site.members import Members
from deepsea_web.site.page import Page
from deepsea_web.site.pages import admin, games, members, standings

PAGES: tuple[Page[Any], ...] = (
    *(standings.STANDINGS, standings.BOT),
    *(games.GAMES, games.TV, games.FEED, games.GAME, games.PERSON_GAME),
    *(standings.PAIRS, standings.TOURNAMENTS, standings.TOURNAMENT),
    *(standings.HOW, standings.START, standings.API),
)
"""Every page, in the order of the navigation."""
ENDPOINTS: Mapping[str, Endpoint] = {
    "/games/{id}/frames.json": games.game_frames,
    "/games/{id}/record.json": games.game_record,
    "/games/{id}/analysis.json": games.game_analysis,
    "/start/{bot}.zip": standings.starter_zip,
    "/events": games.events,
}
"""Handlers of requests for files and streams that everybody may get, by path."""
MEMBERS = Members(
    pages=(*members.PAGES, games.OWN_LOGS, games.ANALYSIS, games.PLAY, games.SEAT, *admin.PAGES),
    actions=(
        *members.ACTIONS,
        *(games.REQUEST_ANALYSIS, games.BEGIN_GAME, games.SEAT_FORM),
        *admin.ACTIONS,
    ),
    endpoints={
        "/admin/overview.csv": admin.overview_csv,
        "/account/bots/{bot}/bot.zip": members.bot_zip,
        "/submissions/{id}/events": members.submission_events,
        "/play/{id}/news": games.seat_news,
    },
)
"""The personal pages, their forms, and handlers of a member's files and streams."""
