"""Pages of results (standings, bots, pairs, tournaments) and about the ladder (how it works, API).

Each page is a constant, behind the functions that read its document and make its pictures and CSV.
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
from deepsea_web.site.page import SEASON_SUBJECT, Csv, Page, Query, Subject, season_of
from deepsea_web.site.words import count, name
from deepsea_web.svg import NARROW, WIDTH, Scale, axis, bar, inline, span_of, sparkline

VERSIONS = 20
"""Number of versions that the page of a bot lists, the newest first."""
PAIRS_SIZE = 20
"""Number of bots whose pairs are on one page."""


# ----- Standings


def _read_standings(ladder: LadderApi, query: Query) -> Standings:
    """Read the standings of a season.

    With the parameter `find` only those lines whose bot or author contains its text.
    """
    data = ladder.standings(
        season=season_of(ladder, query),
        everybody=query.flag("all"),
        best_of_author=query.flag("best_of_author"),
    )
    text = (query.text("find") or "").lower()
    lines = [line for line in data.standings if _has_text(line, text)]
    return structs.replace(data, standings=tuple(lines))


def _has_text(line: StandingLine, text: str) -> bool:
    return text in line.bot.lower() or text in line.author.lower()


def _standings_extras(data: Standings) -> Mapping[str, Any]:
    """Return the columns of the standings, and the two pictures of each line.

    They are a bar of the rating's interval, and a line of recent ratings. The intervals of new bots
    are so wide that they would squeeze all others: they set the scale only if all bots are new.
    """
    lines = data.standings
    settled = [line for line in lines if not line.provisional] or lines
    scale = Scale.of_bars([(line.low, line.high) for line in settled])
    span = span_of([line.recent for line in settled])
    return {
        "columns": COLUMNS,
        "axes": axis(scale) + axis(scale, NARROW),
        "bars": [bar(scale, line.low, line.mu, line.high) for line in lines],
        "sparks": [sparkline(line.recent, span) for line in lines],
        # True if a bot is listed with several versions, which are then shown.
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
    subject=SEASON_SUBJECT,
    nav="Standings",
    shows_deadline=True,
)


# ----- A bot


def _read_bot(ladder: LadderApi, query: Query) -> BotProfile:
    return ladder.bot(
        bot=query.path["name"],
        version=query.number("version"),
        season=season_of(ladder, query),
    )


def _bot_extras(data: BotProfile) -> Mapping[str, Any]:
    """Return the newest versions of a bot, each with its rating history, and the rating plots.

    The history is None for a version without rated games.
    """
    history_of_version = {history.version: history for history in data.course}
    newest_first = data.versions[::-1]
    return {
        "columns": COLUMNS,
        "versions": [
            (line, history_of_version.get(line.version)) for line in newest_first[:VERSIONS]
        ],
        **_rating_plots(data),
    }


def _rating_plots(data: BotProfile) -> Mapping[str, Any]:
    """Return the plot of a bot's rating history in two widths, and its points for a script.

    The plot is drawn for telephones and for wide windows; a style shows the one that fits. The
    script shows the numbers of a point below the pointer: with each plot comes the area in which
    its points lie. A point is the game's number, the version, the rating, mu, and the margin of
    mu, in JSON.
    """
    if not data.course:
        return {"plots": [], "course": None, "points": None}
    narrow = course(data.bot, data.course, WIDTH)
    wide = course(data.bot, data.course, WIDE)
    points = [
        (
            moment.game,
            moment.version,
            round(moment.rating, 3),
            round(moment.mu, 3),
            round(moment.skill.margin, 3),
        )
        for moment in moments(data.course)
    ]
    return {
        "course": narrow,
        # Each with its class in the style sheet.
        "plots": [
            ("narrow", inline(narrow), json.dumps(area(data.course, WIDTH))),
            ("broad", inline(wide), json.dumps(area(data.course, WIDE))),
        ],
        "points": json.dumps(points, separators=(",", ":")),
    }


def _bot_summary(data: BotProfile) -> str:
    """Return a sentence about a bot, with its rank and rating if it has a rank."""
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
    # Analyses change the page of a closed season, too: it shows the bot's weaknesses.
    subject=Subject("season", lambda store, name: store.changes.of_season(name, analyses=True)),
)


# ----- Pairs


def _read_pairs(ladder: LadderApi, query: Query) -> PairTable:
    start = query.number("start")
    return ladder.pairs(season=season_of(ladder, query), start=start, size=PAIRS_SIZE)


def _pair_rows(data: PairTable) -> Iterator[Mapping[str, Any]]:
    """Yield a row of the CSV for every two bots that have met.

    It has the share of their games in which the first bot was placed before the other one.
    """
    for bot, cells in zip(data.bots, data.cells, strict=True):
        for other, cell in zip(data.bots, cells, strict=True):
            if cell is not None:  # they have met
                yield {
                    "bot": bot.bot,
                    "version": bot.version,
                    "other": other.bot,
                    "other_version": other.version,
                    "games": cell.games,
                    "share": cell.share,
                }


def _pairs_extras(data: PairTable) -> Mapping[str, Any]:
    """Return what the page of a part of the table of pairs needs besides the part.

    These are the number of the part's last bot, counted from 1; the starts of the parts before and
    after it, None if there is none; and a function that returns a cell's shade for its share, from
    0 to 10.
    """
    end = data.start + len(data.bots)
    return {
        "last": end,
        "earlier": None if data.start == 0 else max(0, data.start - PAIRS_SIZE),
        "later": end if end < data.total else None,
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
    subject=SEASON_SUBJECT,
    extras=_pairs_extras,
    nav="Pairs",
)


# ----- Tournaments


def _tournament_summary(data: TournamentReport) -> str:
    """Return a sentence about a tournament: its winner, or its kind as long as there is none."""
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
    subject=Subject("name", SEASON_SUBJECT.last_changes),
    csv=Csv(
        columns=ScoreLine.__struct_fields__,
        rows=lambda data: map(to_object, data.scores),
        name=lambda data: f"tournament-{data.tournament.name}",
    ),
)


# ----- About the ladder

STARTER = "my-bot"
"""The name of a first bot, unless the reader chooses another one."""
_OPPONENTS = ("greedy", "cautious", "heuristic", "steady", "random")
"""Policies against which the commands of the page let a first bot play."""
_SETTINGS_FOR_AUTHORS = (
    *("archive_bytes", "open_submissions", "submissions_per_hour", "submissions_per_day"),
    *("check_seconds_per_hour", "bots", "author_bytes", "analyses_per_day", "tokens"),
    *("calls_per_minute", "pages_per_minute", "heavy", "play_tables", "play_tables_of_person"),
    *("play_games_per_day", "verdict_seconds", "verdict_seconds_per_hour"),
)
"""Names of the ladder's settings that authors, and people who play against their bots, notice."""


class How(SeasonInfo, frozen=True, kw_only=True):
    """A season, and the limits for authors and for people who play against their bots."""

    limits: tuple[Limit, ...]


def _read_how(ladder: LadderApi, query: Query) -> How:
    season = ladder.season(season=season_of(ladder, query))
    settings = ladder.settings()
    limits = tuple(setting for setting in settings if setting.name in _SETTINGS_FOR_AUTHORS)
    return How(**asdict(season), limits=limits)


def _how_extras(data: SeasonInfo) -> Mapping[str, Any]:
    """Return the rules of a season as rows, and the constants that the page explains.

    A row has the name of an option, its value and its meaning. The rows are None if the season has
    rules of its own, not one of the presets.
    """
    preset = preset_of(data.rules)
    rows: list[tuple[str, str, str]] | None = None
    if preset is not None:
        rules = seat_a_begins(preset)
        rows = [
            (option.name, option.in_words(getattr(rules, option.name)), option.about)
            for option in OPTIONS
        ]
    return {
        "rules": rows,
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
    """The document of the page that leads to a first bot."""

    season: SeasonInfo
    bot: str
    """Name of the bot in all commands."""
    refused: str
    """The reason for which no bots are taken in; "" if they are."""


def _read_start(ladder: LadderApi, query: Query) -> Start:
    season = ladder.season(season=season_of(ladder, query))
    bot = _bot_name(query.text("bot") or STARTER)
    return Start(season=season, bot=bot, refused=ladder.submission_window.refusal)


def _bot_name(text: str) -> str:
    """Return the name of a bot as the command `new` takes it.

    The ending `.py` is removed, since `new` makes a folder. Raises UserError for a text that is no
    allowed name.
    """
    try:
        return check_name(text.removesuffix(".py"))
    except BundleError as error:
        raise UserError(str(error)) from None


def _start_extras(data: Start) -> Mapping[str, Any]:
    """Return the arguments of the commands that the page shows, so that they fit the season.

    Rules of a season's own are in a file, `rules.toml`; other rules are named by their preset.
    """
    season = data.season
    preset = preset_of(season.rules)
    return {
        "own_rules": preset is None,
        "rules": "rules.toml" if preset is None else preset.name,
        "opponents": _OPPONENTS[: max(season.seats) - 1],  # one for each other seat
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
    """Answer with the folder that `deepsea-referee new` makes, as a zip."""
    name = _bot_name(request.path_params["bot"])
    files = {f"{name}/{file}": text.encode() for file, text in starter(name).items()}
    headers = {"Cache-Control": "no-cache", **attachment(f"{name}.zip")}
    return Response(pack(files), headers=headers, media_type="application/zip")


def _api_extras(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the methods and types in the OpenAPI document `data`, for the page of the API.

    A method is a tuple: its verb, its path, and its operation as OpenAPI describes it. The template
    calls `body_of` with an operation.
    """
    methods = [
        (verb.upper(), path, operation)
        for path, verbs in data["paths"].items()
        for verb, operation in verbs.items()
    ]
    types = data["components"]["schemas"]
    return {"root": ROOT, "methods": methods, "types": types, "body_of": _body_of}


def _body_of(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a method's body by name; none if its body is no JSON object."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    fields: Mapping[str, Any] = schema.get("properties", {})
    return fields


API = Page(
    path="/api",
    template="api.html",
    read=lambda ladder, query: openapi(),
    extras=_api_extras,
    title=lambda data: "API",
    summary=lambda data: "Every method of the ladder's API, with what it takes and returns.",
)
