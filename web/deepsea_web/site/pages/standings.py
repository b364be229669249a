"""Pages of results: standings, bots, pairs, tournaments.

Pages about the ladder: how it works, the way to a first bot, and its API.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.api.ladder_api import ROOT, LadderApi
from deepsea_arena.api.openapi import openapi
from deepsea_arena.bots import BotProfile
from deepsea_arena.documents import to_object
from deepsea_arena.seasons import SeasonInfo, preset_of, seat_a_begins
from deepsea_arena.standings import COLUMNS, CSV_COLUMNS, PairTable, Standings, csv_rows
from deepsea_arena.tournaments import ScoreLine, TournamentLine, TournamentReport
from deepsea_bundle.archive import pack
from deepsea_bundle.errors import BundleError
from deepsea_ladder.limits import Limit
from deepsea_ladder.standings import StandingLine
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.scaffold import check_name, starter
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.ruleset import OPTIONS
from deepsea_sdk.coach.decisions import MARKS
from deepsea_web.http import attachment
from deepsea_web.plots import WIDE, Moment, area, course, moments
from deepsea_web.site.app import Site
from deepsea_web.site.page import SEASON_OVER, Csv, Over, Page, Query, season_of
from deepsea_web.site.words import count, name
from deepsea_web.svg import NARROW, WIDTH, Scale, axis, bar, inline, span_of, sparkline

VERSIONS = 20
"""Versions that the page lists, the newest."""
SIZE = 20
"""Bots on one page."""


def _read_standings(ladder: LadderApi, query: Query) -> Standings:
    data = ladder.standings(
        season=season_of(ladder, query),
        everybody=query.flag("all"),
        best_of_author=query.flag("best_of_author"),
    )
    wanted = (query.text("find") or "").lower()
    lines = [line for line in data.standings if _is_meant(line, wanted)]
    return structs.replace(data, standings=tuple(lines))


def _is_meant(line: StandingLine, wanted: str) -> bool:
    return wanted in line.bot.lower() or wanted in line.author.lower()


def _standings_extras(data: Standings) -> Mapping[str, Any]:
    lines = data.standings
    # Newcomers could be anywhere: where others have played enough, these set the scale.
    known = [line for line in lines if not line.provisional] or lines
    scale = Scale.of([(line.low, line.high) for line in known])
    span = span_of([line.recent for line in known])
    return {
        "columns": COLUMNS,
        "axes": axis(scale) + axis(scale, NARROW),
        "bars": [bar(scale, line.low, line.mu, line.high) for line in lines],
        "sparks": [sparkline(line.recent, span) for line in lines],
        "several": len({line.bot for line in lines}) < len(lines),
    }


STANDINGS = Page(
    path="/",
    template="standings.html",
    read=_read_standings,
    extras=_standings_extras,
    title=lambda data: f"Standings of {data.season.name}",
    summary=lambda data: (
        f"{count(len(data.standings), 'bot')} after {count(data.games, 'rated game')} of Deep Sea "
        f"Adventure, rules “{data.season.rules}”."
    ),
    parameters=("season", "find", "all", "best_of_author"),
    csv=Csv(columns=CSV_COLUMNS, rows=csv_rows, name=lambda data: f"standings-{data.season.name}"),
    over=SEASON_OVER,
    nav="Standings",
    shows_deadline=True,
)


def _read_bot(ladder: LadderApi, query: Query) -> BotProfile:
    return ladder.bot(
        bot=query.path["name"],
        version=query.number("version"),
        season=season_of(ladder, query),
    )


def _bot_extras(data: BotProfile) -> Mapping[str, Any]:
    courses = {one.version: one for one in data.course}
    listed = data.versions[::-1][:VERSIONS]
    return {
        "columns": COLUMNS,
        "versions": [(one, courses.get(one.version)) for one in listed],
        **_pictures(data),
    }


def _pictures(data: BotProfile) -> Mapping[str, Any]:
    if not data.course:
        return {"plots": [], "course": None, "points": None}
    narrow, wide = (course(data.bot, data.course, width) for width in (WIDTH, WIDE))
    points = [
        (one.game, one.version, round(one.rating, 3), round(one.mu, 3), round(one.skill.margin, 3))
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


def _bot_summary(data: BotProfile) -> str:
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
    read=_read_bot,
    extras=_bot_extras,
    title=lambda data: f"{data.bot} v{data.version}",
    summary=_bot_summary,
    parameters=("season", "version"),
    csv=Csv(
        columns=Moment._fields,
        rows=lambda data: (moment._asdict() for moment in moments(data.course)),
        name=lambda data: f"course-{data.bot}-{data.season.name}",
    ),
    # Of verdicts, and of weaknesses by the analyses of its games.
    over=Over("season", lambda store, name: store.changes.of_season(name, analyses=True)),
)


def _read_pairs(ladder: LadderApi, query: Query) -> PairTable:
    start = query.number("start")
    return ladder.pairs(season=season_of(ladder, query), start=start, size=SIZE)


def _pair_rows(data: PairTable) -> Iterator[Mapping[str, Any]]:
    for row, cells in zip(data.bots, data.cells, strict=True):
        for column, cell in zip(data.bots, cells, strict=True):
            if cell is not None:
                yield {
                    "bot": row.bot,
                    "version": row.version,
                    "other": column.bot,
                    "other_version": column.version,
                    "games": cell.games,
                    "share": cell.share,
                }


def _pairs_extras(data: PairTable) -> Mapping[str, Any]:
    last = data.start + len(data.bots)
    return {
        "last": last,
        "earlier": None if data.start == 0 else max(0, data.start - SIZE),
        "later": last if last < data.total else None,
        "shade": lambda share: round(10 * share),
    }


PAIRS = Page(
    path="/pairs",
    template="pairs.html",
    read=_read_pairs,
    title=lambda data: f"Pairs of {name(data.season.name)}",
    summary=lambda data: (
        "The share of games at one table in which one bot was placed before another, with others "
        "at the table: no table of duels."
    ),
    parameters=("season", "start"),
    csv=Csv(
        columns=("bot", "version", "other", "other_version", "games", "share"),
        rows=_pair_rows,
        name=lambda data: f"pairs-{data.season.name}",
    ),
    over=SEASON_OVER,
    extras=_pairs_extras,
    nav="Pairs",
)


def _tournament_summary(data: TournamentReport) -> str:
    bots = count(len(data.entrants), "bot")
    winners = data.tournament.winners
    if len(winners) == 1:
        return f"{name(winners[0], 40)} wins among {bots}."
    if winners and data.final is None:
        return f"{len(winners)} of {bots} share the win."
    return f"{bots}, {data.tournament.kind}."


TOURNAMENTS = Page(
    path="/tournaments",
    template="tournaments.html",
    read=lambda ladder, query: ladder.tournaments(),
    title=lambda data: "Tournaments",
    summary=lambda data: f"{count(len(data), 'tournament')} of the ladder's bots.",
    csv=Csv(
        columns=TournamentLine.__struct_fields__,
        rows=lambda data: map(to_object, data),
        name=lambda data: "tournaments",
    ),
    nav="Tournaments",
)
TOURNAMENT = Page(
    path="/tournaments/{name}",
    template="tournament.html",
    read=lambda ladder, query: ladder.tournament(tournament=query.path["name"]),
    title=lambda data: f"Tournament {name(data.tournament.name)}",
    summary=_tournament_summary,
    over=Over("name", SEASON_OVER.changes),
    csv=Csv(
        columns=ScoreLine.__struct_fields__,
        rows=lambda data: map(to_object, data.scores),
        name=lambda data: f"tournament-{data.tournament.name}",
    ),
)


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
