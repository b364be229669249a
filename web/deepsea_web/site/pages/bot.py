"""A bot: its rating course, opponents, seats, newest games, faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.bot_profiles import BotProfile
from deepsea_web.charts.course import WIDE, area, course, moments
from deepsea_web.charts.files import inline
from deepsea_web.charts.svg import WIDTH
from deepsea_web.site.page import Page, Query, season_of

OPPONENTS: Final = 30
"""Opponents that the page lists; JSON has them all."""
VERSIONS: Final = 20
"""Versions that the page lists, the newest."""


def _read(ladder: LadderApi, query: Query) -> BotProfile:
    return ladder.bot(
        bot=query.path["name"],
        version=query.number("version", 1, 10**6) or 0,
        season=season_of(ladder, query),
    )


def _rows(data: BotProfile) -> Iterator[Mapping[str, Any]]:
    """The points of the course."""
    return (moment._asdict() for moment in moments(data.course))


def _look(data: BotProfile) -> Mapping[str, Any]:
    courses = {one.version: one for one in data.course}
    listed = data.versions[::-1][:VERSIONS]
    return {
        "opponents": OPPONENTS,
        "versions": [(one, courses.get(one.version)) for one in listed],
        **_pictures(data),
    }


def _pictures(data: BotProfile) -> Mapping[str, Any]:
    if not data.course:
        return {"plots": [], "course": None, "points": None}
    narrow, wide = (course(data.bot, data.course, width) for width in (WIDTH, WIDE))
    points = [
        (one.game, one.version, round(one.rating, 3), round(one.mu, 3), round(2 * one.sigma, 3))
        for one in moments(data.course)
    ]
    return {
        "course": narrow,
        "plots": [
            ("narrow", inline(narrow), json.dumps(area(data.course, WIDTH))),
            ("broad", inline(wide), json.dumps(area(data.course, WIDE))),
        ],
        "points": json.dumps(points, separators=(",", ":")),
    }


def _summary(data: BotProfile) -> str:
    standing = data.standing
    if standing is None or standing.rank is None:
        return f"{data.bot} by {data.author} in season {data.season.name}."
    return (
        f"{data.bot} by {data.author}: rank {standing.rank} of season {data.season.name} with a "
        f"rating of {standing.rating:.1f} after {standing.games:,} games."
    )


BOT = Page(
    path="/bots/{name}",
    template="bot.html",
    read=_read,
    look=_look,
    title=lambda data: f"{data.bot} v{data.version}",
    summary=_summary,
    parameters=("season", "version"),
    rows=_rows,
)
