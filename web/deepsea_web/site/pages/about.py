"""Pages about the ladder: how it works, the way to a first bot, and its API."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.api.ladder_api import ROOT, LadderApi
from deepsea_arena.api.openapi import openapi
from deepsea_arena.seasons import SeasonInfo, preset_of, seat_a_begins
from deepsea_bundle.archive import pack
from deepsea_bundle.errors import BundleError
from deepsea_ladder.limits import Limit
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.scaffold import check_name, starter
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.ruleset import OPTIONS
from deepsea_sdk.coach.decisions import MARKS
from deepsea_web.http import attachment
from deepsea_web.site.app import Site
from deepsea_web.site.page import Page, Query, season_of

STARTER = "my-bot"
"""The name of a first bot, if no other one was chosen."""
_OPPONENTS = ("greedy", "cautious", "heuristic", "steady", "random")


_OF_AUTHORS = (
    *("archive_bytes", "open_submissions", "submissions_per_hour", "submissions_per_day"),
    *("check_seconds_per_hour", "bots", "author_bytes", "analyses_per_day", "tokens"),
    *("calls_per_minute", "pages_per_minute", "heavy", "play_tables", "play_tables_of_person"),
    *("play_games_per_day", "verdict_seconds", "verdict_seconds_per_hour"),
)
"""The settings that concern authors."""


class How(SeasonInfo, frozen=True, kw_only=True):
    """A season, and the limits for authors and for who plays against their bots."""

    limits: tuple[Limit, ...]


def _read_how(ladder: LadderApi, query: Query) -> How:
    season = ladder.season(season=season_of(ladder, query))
    found = ladder.settings()
    limits = tuple(one for one in found if one.name in _OF_AUTHORS)
    return How(**asdict(season), limits=limits)


def _how_extras(data: SeasonInfo) -> Mapping[str, Any]:
    preset = preset_of(data.rules)
    rules = preset and seat_a_begins(preset)
    return {
        "rules": rules
        and [(one.name, one.in_words(getattr(rules, one.name)), one.about) for one in OPTIONS],
        "forfeit": FAULTS_TO_FORFEIT,
        "marks": MARKS,
    }


HOW = Page(
    path="/how",
    template="how.html",
    read=_read_how,
    title=lambda data: "How it works",
    summary=lambda data: (
        "The game, what a rating means, who plays whom, and how everybody can check a game."
    ),
    parameters=("season",),
    extras=_how_extras,
    nav="How it works",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The settings on which the way to a first bot depends."""

    season: SeasonInfo
    bot: str
    refused: str
    """The reason for which no bots are taken in; "" if they are."""


def _read_start(ladder: LadderApi, query: Query) -> Start:
    season = ladder.season(season=season_of(ladder, query))
    bot = _bot_name(query.text("bot") or STARTER)
    return Start(season=season, bot=bot, refused=ladder.submission_window.refusal)


def _bot_name(text: str) -> str:
    try:
        return check_name(text.removesuffix(".py"))  # `new` makes a folder
    except BundleError as error:
        raise UserError(str(error)) from None


def _start_extras(data: Start) -> Mapping[str, Any]:
    season = data.season
    preset = preset_of(season.rules)
    return {
        "own_rules": preset is None,
        "rules": "rules.toml" if preset is None else preset.name,
        "opponents": _OPPONENTS[: max(season.seats) - 1],
        "packages": shlex.join(season.packages),
    }


START = Page(
    path="/start",
    template="start.html",
    read=_read_start,
    title=lambda data: "Your first bot",
    summary=lambda data: "From nothing to a bot on this ladder, each command as it is typed.",
    parameters=("season", "bot"),
    extras=_start_extras,
    shows_deadline=True,
)


async def starter_zip(site: Site, request: Request) -> Response:
    """The folder that `deepsea-referee new` makes, as a zip."""
    name = _bot_name(request.path_params["bot"])
    files = {f"{name}/{file}": text.encode() for file, text in starter(name).items()}
    headers = {"Cache-Control": "no-cache", **attachment(f"{name}.zip")}
    return Response(pack(files), headers=headers, media_type="application/zip")


def _api_extras(data: Mapping[str, Any]) -> Mapping[str, Any]:
    methods = [
        (verb.upper(), path, operation)
        for path, verbs in data["paths"].items()
        for verb, operation in verbs.items()
    ]
    types = data["components"]["schemas"]
    return {"root": ROOT, "methods": methods, "types": types, "body_of": _body_of}


def _body_of(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a request's body, if it is an object."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


API = Page(
    path="/api",
    template="api.html",
    read=lambda ladder, query: openapi(),
    extras=_api_extras,
    title=lambda data: "API",
    summary=lambda data: "Every method of the ladder's API, with what it takes and returns.",
)
