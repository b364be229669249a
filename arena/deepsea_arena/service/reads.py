"""What everybody may read: standings, bots, games, records, and games as they end.

Invariants: everything is read from the public store, which shows nothing of a season under embargo;
tracebacks are for the bot's author and for admins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from deepsea_arena.bot_profiles import BotProfile, bot_profile
from deepsea_arena.game_reports import games_since
from deepsea_arena.games import GameLine, GamesPage, json_lines, newest_games
from deepsea_arena.ladder_analyses import analysed_frames, document_of
from deepsea_arena.seasons import find_season
from deepsea_arena.service.caller import Caller
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Flow, Method
from deepsea_arena.standings import Standings, show_standings
from deepsea_arena.wire.json import json_text
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.model.games import GameFilter
from deepsea_referee.errors import UserError
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS

GAMES: Final = 20
MOST_GAMES: Final = 500
FEED: Final = 50
"""Games of the feed at a time."""


@dataclass(frozen=True, slots=True)
class GameText:
    """The record of a game."""

    record: str


@dataclass(frozen=True, slots=True)
class FramesText:
    """The frames of a game."""

    frames: str


@dataclass(frozen=True, slots=True)
class ExportLine:
    """A line of a season's chain."""

    line: str


@dataclass(frozen=True, slots=True)
class FeedGame:
    """A game that has ended."""

    game: GameLine


def get_standings(
    service: LadderService,
    caller: Caller,
    *,
    season: str = "",
    everybody: bool = False,
    best_of_author: bool = False,
) -> Standings:
    """The standings of a season."""
    return show_standings(
        service.public, season or None, everybody=everybody, best_of_author=best_of_author
    )


def get_bot(
    service: LadderService, caller: Caller, *, bot: str, version: int = 0, season: str = ""
) -> BotProfile:
    """A bot, and the results of one of its versions in a season."""
    return bot_profile(
        service.public,
        bot,
        version=version or None,
        season_name=season or None,
        errors=caller.may(Role.ADMIN, Scope.ADMIN) or _is_own(service, caller, bot),
    )


def _is_own(service: LadderService, caller: Caller, bot: str) -> bool:
    return bool(caller.author) and service.public.bots.get(bot).author == caller.author


def list_games(
    service: LadderService,
    caller: Caller,
    *,
    season: str = "",
    bot: str = "",
    against: str = "",
    lost: bool = False,
    limit: int = 0,
    before: int = 0,
    faults: bool = False,
) -> GamesPage:
    """Games, the newest first."""
    if not 0 <= limit <= MOST_GAMES:
        raise UserError(f"limit is a number from 1 to {MOST_GAMES}")
    wanted = GameFilter(bot=bot or None, against=against or None, faults=faults, lost=lost)
    return newest_games(
        service.public, limit or GAMES, season or None, wanted, before=before or None
    )


def get_record(service: LadderService, caller: Caller, *, game_id: str) -> GameText:
    """A game's record."""
    return GameText(service.public.games.record(game_id))


def get_frames(
    service: LadderService, caller: Caller, *, game_id: str, seat: int | None = None
) -> FramesText:
    """A game as a viewer draws it, with everything or as a seat knew it, and with its analysis."""
    record = GameRecord.from_json(service.public.games.record(game_id))
    if seat is not None and not 0 <= seat < len(record.seats):
        last = len(record.seats) - 1
        raise UserError(f"seat is a number from 0 to {last} ({SEAT_LETTERS[last]})")
    text = document_of(service.public, game_id)
    return FramesText(json_text(analysed_frames(record, seat, text)))


def export(service: LadderService, caller: Caller, *, season: str = "") -> Iterator[ExportLine]:
    """The chain of a season, line by line."""
    name = find_season(service.public, season or None).season.name
    return map(ExportLine, json_lines(service.public, name))


def watch_feed(
    service: LadderService, caller: Caller, *, after: int = 0
) -> Iterator[FeedGame | None]:
    """Games as they end, from a sequence number or from now on."""
    if not after:
        newest = newest_games(service.public, 1).games
        after = newest[0].seq if newest else 0
    while True:
        games = games_since(service.public, after, FEED)
        for game in games:
            after = game.seq
            yield FeedGame(game)
        yield None


READS: Final = (
    Method(name="GetStandings", handler=get_standings, path="/standings"),
    Method(name="GetBot", handler=get_bot, path="/bots/{bot}"),
    Method(name="ListGames", handler=list_games, path="/games"),
    Method(name="GetRecord", handler=get_record, path="/games/{game_id}/record"),
    Method(name="GetFrames", handler=get_frames, path="/games/{game_id}/frames"),
    Method(name="Export", handler=export, flow=Flow.MANY, path="/export"),
    Method(name="WatchFeed", handler=watch_feed, flow=Flow.WATCH, path="/feed"),
)
