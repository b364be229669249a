"""The API's methods that read what is public: standings, bots, games, records, the feed.

Invariant: tracebacks are for the bot's author and for admins.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.api.declarations import LadderPart, method
from deepsea_arena.bots import BotProfile, Verdicts, bot_profile, show_verdicts
from deepsea_arena.documents import json_text
from deepsea_arena.games import (
    GAMES,
    MOST_GAMES,
    GameReport,
    GamesPage,
    game_report,
    newest_games,
    read_record,
)
from deepsea_arena.ladder_analyses import document_of
from deepsea_arena.seasons import SeasonInfo, find_season, open_seasons, season_info
from deepsea_arena.standings import PairTable, Standings, pair_table, show_standings
from deepsea_arena.tournaments import (
    TournamentLine,
    TournamentReport,
    tournament_report,
    tournaments,
)
from deepsea_ladder.accounts import Role
from deepsea_ladder.export import export_lines
from deepsea_ladder.limits import Limit, check_setting, limits_in_force
from deepsea_ladder.model import (
    GameFilter,
    GameLine,
    StoredSeason,
    SubmissionWindow,
    Time,
    utc_time,
)
from deepsea_referee.errors import UserError
from deepsea_rules.ruleset import SEAT_LETTERS

MOST_PAIRS = 100
"""Maximum of `size` in a call of `pairs`."""
MOST_START = 1_000_000
"""Maximum of `start` in a call of `pairs`."""
FEED = 50
"""Number of games that the feed reads from the store at a time."""


class Server(Struct, frozen=True, kw_only=True):
    """The version, the season and the limits of a ladder, which a client reads first."""

    version: str
    url: str
    private: bool
    season: str
    """The name of the newest open season; "" if there is none or the caller may not see it."""
    submissions_until: Time | None
    """The time until which the caller may submit; None: until the season is closed."""
    submissions_refused: str = ""
    """The reason why the caller may not submit now; "" if the caller may."""
    limits: tuple[Limit, ...]


class ReadMethods(LadderPart):
    """The methods with which everybody may read."""

    @method("GET", "/server", always=True)
    def server(self) -> Server:
        """Tell a client what it has to know first: the version, the season, the limits."""
        from deepsea_sdk import __version__  # here, since it loads the whole SDK

        window = self.submission_window
        return Server(
            version=__version__,
            url=self.service.url,
            private=self.service.private,
            season=self.season_name,
            submissions_until=None if window.until is None else utc_time(window.until),
            submissions_refused=window.refusal,
            limits=self.limits.table(),
        )

    @property
    def submission_window(self) -> SubmissionWindow:
        """The time until which the caller may submit, and the reason if that is not allowed now.

        Both are empty for a visitor of a private ladder, who may not learn about its seasons.
        """
        if self._sees_nothing:
            return SubmissionWindow(None, "")
        return self.store.seasons.submission_window(self.caller.author_id)

    @property
    def _sees_nothing(self) -> bool:
        """True if the caller is a visitor of a private ladder."""
        return self.service.private and self.caller.role is Role.VISITOR

    def _for_caller(self, season: SeasonInfo) -> SeasonInfo:
        """Return the season with the caller's own deadline, which an extension may have moved."""
        if season.submissions_until is None or not self.caller.author_id:
            return season
        until = self.store.seasons.deadline_of(season.name, self.caller.author_id)
        return replace(season, submissions_until=None if until is None else utc_time(until))

    def _newest_season(self) -> StoredSeason | None:
        """Return the newest open season; None if there is none or the caller may not see it."""
        if self._sees_nothing:
            return None
        opened = open_seasons(self.store.seasons.all())
        return opened[-1] if opened else None

    @property
    def season_name(self) -> str:
        """The name of the newest open season; "" if there is none or the caller may not see it."""
        season = self._newest_season()
        return "" if season is None else season.name

    @method("GET", "/settings", key="settings")
    def settings(self, *, name: str = "") -> tuple[Limit, ...]:
        """List the settings of the ladder, or only the one with this name."""
        if name:
            check_setting(name, None)
        settings = limits_in_force(self.store.settings.changed()).table()
        return tuple(setting for setting in settings if name in ("", setting.name))

    @method("GET", "/seasons", key="seasons")
    def seasons(self) -> tuple[str, ...]:
        """List the names of all seasons, oldest first."""
        return tuple(season.name for season in self.store.seasons.all())

    @method("GET", "/season")
    def season(self, *, season: str = "") -> SeasonInfo:
        """Describe a season: its rules, clock, isolation and seed commitment, and its deadline.

        The deadline is that of the caller.
        """
        return self._for_caller(season_info(find_season(self.store, season or None)))

    @method("GET", "/pairs")
    def pairs(self, *, season: str = "", start: int = 0, size: int = 20) -> PairTable:
        """Compare bots in pairs: the share of games in which one was placed before the other."""
        if not (0 <= start <= MOST_START and 1 <= size <= MOST_PAIRS):
            raise UserError(
                f"start is a number from 0 to {MOST_START}, size one from 1 to {MOST_PAIRS}"
            )
        return pair_table(self.store, season or None, start=start, size=size)

    @method("GET", "/games/{game_id}")
    def game(self, *, game_id: str) -> GameReport:
        """Describe a game: its seats, what it did to ratings, its record, its seed."""
        return game_report(self.store, game_id)

    @method("GET", "/tournaments", key="tournaments")
    def tournaments(self) -> tuple[TournamentLine, ...]:
        """List the tournaments, newest first."""
        return tournaments(self.store)

    @method("GET", "/tournaments/{tournament}")
    def tournament(self, *, tournament: str) -> TournamentReport:
        """Describe a tournament: its bots, scores and rounds."""
        return tournament_report(self.store, tournament)

    @method("GET", "/standings")
    def standings(
        self, *, season: str = "", everybody: bool = False, best_of_author: bool = False
    ) -> Standings:
        """List the bots of a season, best first.

        With `everybody` also former versions and bots that were taken out; with `best_of_author`
        only the best bot of each author.
        """
        table = show_standings(
            self.store, season or None, everybody=everybody, best_of_author=best_of_author
        )
        return replace(table, season=self._for_caller(table.season))

    @method("GET", "/bots/{bot}")
    def bot(self, *, bot: str, version: int = 0, season: str = "") -> BotProfile:
        """Describe a bot, and the results of one of its versions in a season.

        Tracebacks are shown to the bot's author and to admins.
        """
        return bot_profile(
            self.store,
            bot,
            version=version or None,
            season_name=season or None,
            reader=self.caller,
        )

    @method("GET", "/verdicts")
    def verdicts(self, *, bot: str = "", version: int = 0, season: str = "") -> Verdicts:
        """List the comparisons of versions with their former versions and with the panel.

        They are those of all bots of a season, of one bot, or of one of its versions.
        """
        return show_verdicts(self.store, season or None, bot, version)

    @method("GET", "/games")
    def games(
        self,
        *,
        season: str = "",
        bot: str = "",
        against: str = "",
        lost: bool = False,
        limit: int = 0,
        before: int = 0,
        faults: bool = False,
    ) -> GamesPage:
        """List games, newest first; to read on, give `older` of the last page as `before`."""
        if not 0 <= limit <= MOST_GAMES:
            raise UserError(f"limit is a number from 1 to {MOST_GAMES}")
        game_filter = GameFilter(bot=bot or None, against=against or None, faults=faults, lost=lost)
        return newest_games(
            self.store, limit or GAMES, season or None, game_filter, before=before or None
        )

    @method("GET", "/games/{game_id}/record", key="record")
    def record(self, *, game_id: str) -> str:
        """Return a game's record: one line of JSON, which can be shown and verified."""
        return self.store.games.record(game_id)

    @method("GET", "/games/{game_id}/frames", key="frames")
    def frames(self, *, game_id: str, seat: int | None = None) -> str:
        """Return a game as the viewer draws it, with its analysis if there is one.

        With `seat` it shows only what that seat knew.
        """
        record = read_record(self.store.games.record(game_id))
        if seat is not None and not 0 <= seat < len(record.seats):
            last = len(record.seats) - 1
            raise UserError(f"seat is a number from 0 to {last} ({SEAT_LETTERS[last]})")
        analysis = document_of(self.store, game_id)
        from deepsea_arena.frames import analysed_frames  # here, since it loads the whole SDK

        return json_text(analysed_frames(record, seat, analysis))

    @method("GET", "/export", key="line")
    def export(self, *, season: str = "") -> Iterator[str]:
        """Return the chain of a season, line by line."""
        # Begun at once, however long it is; damage ends it as a refusal behind the last line.
        return export_lines(self.store, find_season(self.store, season or None))

    @method("GET", "/feed", key="game")
    def feed(self, *, after: int = 0) -> Iterator[GameLine | None]:
        """Follow games as they end, oldest first, after a sequence number or from now on."""
        if not after:  # from now on, after the last game that has been played
            newest_numbers = self.store.history.newest_numbers(1)
            after = newest_numbers[0] if newest_numbers else 0
        while True:
            games = self.store.history.games_after(after, FEED)
            for game in games:
                after = game.seq
                yield game
            if len(games) < FEED:
                yield None  # nothing new at the moment
