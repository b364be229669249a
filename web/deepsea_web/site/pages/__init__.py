"""The pages of the site, a module for each.

A new page is a module with a `Page` or an `OwnPage`, a template in `templates/site` and a line
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepsea_web.site.app import Endpoint
from deepsea_web.site.members import Members
from deepsea_web.site.page import Page
from deepsea_web.site.pages.about import API, HOW, START, starter_zip
from deepsea_web.site.pages.admin import ADMIN_ACTIONS, ADMIN_PAGES
from deepsea_web.site.pages.games import (
    ANALYSIS,
    ASK,
    FEED,
    GAME,
    GAMES,
    TV,
    events,
    game_analysis,
    game_frames,
    game_record,
)
from deepsea_web.site.pages.members import (
    ACCOUNT,
    CREATE_TOKEN,
    END_SESSION,
    ENTER,
    JOIN,
    LEAVE,
    LOGIN,
    REDEEM,
    REVOKE_TOKEN,
    SEND,
    SUBMISSION,
    SUBMIT,
    WITHDRAW,
    bot_zip,
    submission_events,
)
from deepsea_web.site.pages.play import BEGIN, DEED, PERSON_GAME, PLAY, SEAT, seat_news
from deepsea_web.site.pages.standings import BOT, PAIRS, STANDINGS, TOURNAMENT, TOURNAMENTS

PAGES: tuple[Page[Any], ...] = (
    STANDINGS,
    BOT,
    GAMES,
    TV,
    FEED,
    GAME,
    PERSON_GAME,
    PAIRS,
    TOURNAMENTS,
    TOURNAMENT,
    HOW,
    START,
    API,
)
"""Every page, in the order of the navigation."""
ENDPOINTS: Mapping[str, Endpoint] = {
    "/games/{id}/frames.json": game_frames,
    "/games/{id}/record.json": game_record,
    "/games/{id}/analysis.json": game_analysis,
    "/start/{bot}.zip": starter_zip,
    "/events": events,
}
"""Handlers of requests that no page answers, by path."""
MEMBERS = Members(
    pages=(LOGIN, JOIN, ACCOUNT, SUBMIT, SUBMISSION, ANALYSIS, PLAY, SEAT, *ADMIN_PAGES),
    actions=(
        *(ENTER, LEAVE, REDEEM),
        *(CREATE_TOKEN, REVOKE_TOKEN, END_SESSION, WITHDRAW),
        *(SEND, ASK),
        *(BEGIN, DEED),
        *ADMIN_ACTIONS,
    ),
    endpoints={
        "/account/bots/{bot}/bot.zip": bot_zip,
        "/submissions/{id}/events": submission_events,
        "/play/{id}/news": seat_news,
    },
)
"""The parts of the site for people with an account."""
