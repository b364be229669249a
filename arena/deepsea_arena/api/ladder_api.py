"""The ladder's API: for pages and commands on its machine, and for programs from afar.

Invariants: nothing here needs the store, so that a client imports no database; what is not a
parameter's default is never left out of a call on purpose; a name that is "" stands for the usual
one, a number that is 0 for the usual number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from deepsea_arena.api.declarations import Method, method, methods_of
from deepsea_arena.api.types import (
    AnalysisStep,
    Archive,
    AuditList,
    AuthorList,
    BotList,
    ChangedAuthor,
    ChangedBot,
    CodeList,
    CreatedToken,
    Done,
    ExportLine,
    FeedGame,
    FramesText,
    GameLogs,
    GameText,
    NewCode,
    Quarantine,
    Redeemed,
    SeasonControl,
    SeasonNames,
    Server,
    SessionList,
    SubmissionList,
    SubmissionStep,
    TokenList,
    WhoIs,
    Withdrawn,
)
from deepsea_arena.coach.ladder_analyses import AnalysisFound
from deepsea_arena.reports.bots import BotProfile
from deepsea_arena.reports.games import GameReport, GamesPage
from deepsea_arena.reports.person_games import (
    PersonGameLine,
    PersonGameList,
    PersonGameReport,
    SeatText,
)
from deepsea_arena.reports.seasons import ClosedSeason, SeasonInfo
from deepsea_arena.reports.standings import PairTable, Standings
from deepsea_arena.reports.status import LadderStatus
from deepsea_arena.reports.tournaments import Kind as TournamentKind
from deepsea_arena.reports.tournaments import TournamentList, TournamentReport
from deepsea_ladder.accounts import Role, Scope

ROOT = "/api/v1"
"""The path below which the methods are."""
SHA256 = "x-content-sha256"
KEY = "idempotency-key"
"""The headers of an upload."""


class LadderApi(Protocol):
    """A ladder, here or elsewhere, as somebody with certain rights may use it.

    Every method raises ApiError for what is refused.
    """

    @method("GET", "/server", always=True)
    def server(self) -> Server:
        """Tell a client what it has to know first: the version, the season, the limits."""

    # ---------------------------------------------------------------------- seasons, games, bots

    @method("GET", "/standings")
    def standings(
        self, *, season: str = "", everybody: bool = False, best_of_author: bool = False
    ) -> Standings:
        """List the bots of a season, best first; with `everybody` former versions, withdrawn and
        disabled bots, too; with `best_of_author` one bot of each author."""

    @method("GET", "/seasons")
    def seasons(self) -> SeasonNames:
        """List the names of all seasons, oldest first."""

    @method("GET", "/season")
    def season(self, *, season: str = "") -> SeasonInfo:
        """Describe a season: its rules, clock and isolation, its seed's commitment."""

    @method("GET", "/bots/{bot}")
    def bot(self, *, bot: str, version: int = 0, season: str = "") -> BotProfile:
        """Describe a bot, and the results of one of its versions in a season; with tracebacks for
        its author and for admins."""

    @method("GET", "/pairs")
    def pairs(self, *, season: str = "", start: int = 0, size: int = 20) -> PairTable:
        """Compare bots in pairs: the share of games in which one was placed before the other."""

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
        """List games, newest first; `before` is the `older` of a page."""

    @method("GET", "/games/{game_id}")
    def game(self, *, game_id: str) -> GameReport:
        """Describe a game: its seats, what it did to ratings, its record, its seed."""

    @method("GET", "/games/{game_id}/record")
    def record(self, *, game_id: str) -> GameText:
        """Return a game's record, one line of JSON, to be shown and verified."""

    @method("GET", "/games/{game_id}/frames")
    def frames(self, *, game_id: str, seat: int | None = None) -> FramesText:
        """Return a game as a viewer draws it, with everything or as a seat knew it, and with its
        analysis."""

    @method("GET", "/export")
    def export(self, *, season: str = "") -> Iterator[ExportLine]:
        """Return the chain of a season, line by line."""

    @method("GET", "/feed")
    def feed(self, *, after: int = 0) -> Iterator[FeedGame | None]:
        """Follow games as they end, from a sequence number or from now on, oldest first."""

    @method("GET", "/tournaments")
    def tournaments(self) -> TournamentList:
        """List the tournaments, newest first."""

    @method("GET", "/tournaments/{tournament}")
    def tournament(self, *, tournament: str) -> TournamentReport:
        """Describe a tournament: its bots, scores and rounds."""

    # --------------------------------------------------------------------------------- analyses

    @method("POST", "/games/{game_id}/analysis", role=Role.AUTHOR, scope=Scope.SUBMIT)
    def request_analysis(self, *, game_id: str) -> AnalysisStep:
        """Request the analysis of a game; of one that is there, or waits, nothing changes."""

    @method("GET", "/games/{game_id}/analysis")
    def analysis(self, *, game_id: str) -> AnalysisFound:
        """Return the analysis of a game, and the state of the last request."""

    @method("GET", "/games/{game_id}/analysis/steps")
    def watch_analysis(self, *, game_id: str) -> Iterator[AnalysisStep | None]:
        """Follow the analysis of a game that was requested last, until it has ended."""

    # --------------------------------------------------------------------------- games of people

    @method("POST", "/play")
    def play(
        self,
        *,
        bots: Sequence[str] = (),
        opponents: int = 0,
        rules: str = "",
        seat: str = "",
        season: str = "",
    ) -> PersonGameLine:
        """Begin a game of the caller, unrated, against one to five bots of a season, or without
        names as many of about the caller's strength; an author needs the scope submit."""

    @method("GET", "/play")
    def person_games(self) -> PersonGameList:
        """List the games of the caller as a person, newest first."""

    @method("GET", "/play/{game_id}")
    def watch_seat(self, *, game_id: str) -> Iterator[SeatText | None]:
        """Follow a game of the caller, as its seat sees it, from its present state to its end."""

    @method("POST", "/play/{game_id}/answer")
    def decide(self, *, game_id: str, asked: int = 0, action: str = "") -> Done:
        """Answer the question with the number `asked`, by the key of a choice or a whole action."""

    @method("POST", "/play/{game_id}/leave")
    def leave(self, *, game_id: str, drop: bool = False) -> Done:
        """Leave a game: default actions are played to its end, or with `drop` it is void."""

    @method("GET", "/play/{game_id}/game")
    def person_game(self, *, game_id: str) -> PersonGameReport:
        """Describe a game of a person that is over, for everybody: its record, its analyses."""

    # ------------------------------------------------------------------------------------ account

    @method("POST", "/redeem", always=True)
    def redeem(self, *, code: str = "", author: str = "", label: str = "") -> Redeemed:
        """Redeem a code for a token; a wrong code is counted by address."""

    @method("GET", "/account", role=Role.AUTHOR)
    def who_am_i(self) -> WhoIs:
        """Describe the caller: author, role, scopes."""

    @method("GET", "/account/bots", role=Role.AUTHOR, scope=Scope.READ)
    def bots(self, *, everybody: bool = False) -> BotList:
        """List the bots of the caller's author, or of everybody, for an admin."""

    @method("GET", "/account/tokens", role=Role.AUTHOR, scope=Scope.READ)
    def tokens(self) -> TokenList:
        """List the tokens of the caller's author, without their secrets."""

    @method("POST", "/account/tokens", role=Role.AUTHOR, scope=Scope.SUBMIT)
    def create_token(
        self, *, label: str = "", scopes: Sequence[str] = (), days: int = 0
    ) -> CreatedToken:
        """Create another token of the caller's author, of at most the caller's scopes."""

    @method("DELETE", "/account/tokens/{id}", role=Role.AUTHOR)
    def revoke_token(self, *, id: int) -> Done:  # noqa: A002  (the name in the path)
        """End a token of the caller's author at once, and the sessions that it opened."""

    @method("GET", "/account/sessions", role=Role.AUTHOR, scope=Scope.READ)
    def sessions(self) -> SessionList:
        """List the logins of the caller's author to the pages."""

    @method("DELETE", "/account/sessions/{id}", role=Role.AUTHOR)
    def end_session(self, *, id: int) -> Done:  # noqa: A002
        """End a login of the caller's author at once."""

    @method("GET", "/audit", role=Role.AUTHOR, scope=Scope.READ)
    def audit(self, *, limit: int = 0, everybody: bool = False) -> AuditList:
        """List the audit log of the caller's author, or of everybody, for an admin."""

    # -------------------------------------------------------------------------------- submissions

    @method("PUT", "/bots/{bot}", role=Role.AUTHOR, scope=Scope.SUBMIT)
    def submit(self, archive: Archive) -> Iterator[SubmissionStep | None]:
        """Submit a bot, and follow its check until it has ended."""

    @method("GET", "/submissions/{id}", role=Role.AUTHOR, scope=Scope.READ)
    def watch_submission(self, *, id: int) -> Iterator[SubmissionStep | None]:  # noqa: A002
        """Follow a submission of the caller's author, or for an admin of anybody, from its present
        state on."""

    @method("GET", "/submissions", role=Role.AUTHOR, scope=Scope.READ)
    def submissions(self, *, limit: int = 0, author: str = "") -> SubmissionList:
        """List the submissions of the caller's author, newest first; for an admin of `author`."""

    @method("POST", "/bots/{bot}/withdraw", role=Role.AUTHOR, scope=Scope.SUBMIT)
    def withdraw(self, *, bot: str) -> Withdrawn:
        """Withdraw a bot of the caller's author: it plays no more games."""

    @method("GET", "/bots/{bot}/archive", role=Role.AUTHOR, scope=Scope.READ)
    def download_bot(self, *, bot: str, version: int = 0) -> Iterator[bytes]:
        """Download a version of a bot of the caller's author, as a zip."""

    @method("GET", "/games/{game_id}/log", role=Role.AUTHOR, scope=Scope.READ)
    def log(self, *, game_id: str) -> GameLogs:
        """Return the last output of the caller's bots that were at fault in a game."""

    # ------------------------------------------------------------------------------------- admins

    @method("GET", "/admin/status", role=Role.ADMIN, scope=Scope.ADMIN)
    def status(self) -> LadderStatus:
        """Describe the ladder's queues, leases and problems, season by season."""

    @method("GET", "/admin/queue", role=Role.ADMIN, scope=Scope.ADMIN)
    def queue(self) -> SubmissionList:
        """List the submissions that are checked or wait, in their order."""

    @method("POST", "/admin/codes", role=Role.ADMIN, scope=Scope.ADMIN)
    def create_codes(
        self, *, count: int = 0, authors: Sequence[str] = (), days: int = 0
    ) -> CodeList:
        """Create codes for new authors, and one for each of `authors`, who are added if need be."""

    @method("GET", "/admin/codes", role=Role.ADMIN, scope=Scope.ADMIN)
    def codes(self) -> CodeList:
        """List the codes that may be redeemed, without their secrets."""

    @method("DELETE", "/admin/codes/{id}", role=Role.ADMIN, scope=Scope.ADMIN)
    def revoke_code(self, *, id: int) -> Done:  # noqa: A002
        """End a code."""

    @method("GET", "/admin/authors", role=Role.ADMIN, scope=Scope.ADMIN)
    def authors(self) -> AuthorList:
        """List all authors."""

    @method("POST", "/admin/authors/{author}/reset", role=Role.ADMIN, scope=Scope.ADMIN)
    def reset_author(self, *, author: str) -> NewCode:
        """End all tokens and logins of an author, and create a code for new ones."""

    @method("POST", "/admin/authors/{author}/rename", role=Role.ADMIN, scope=Scope.ADMIN)
    def rename_author(self, *, author: str, to: str = "") -> ChangedAuthor:
        """Give an author another name."""

    @method("POST", "/admin/authors/{author}/anonymise", role=Role.ADMIN, scope=Scope.ADMIN)
    def anonymise_author(self, *, author: str) -> ChangedAuthor:
        """Remove an author's name and rights for good; games stay."""

    @method("POST", "/admin/authors/{author}/blocked", role=Role.ADMIN, scope=Scope.ADMIN)
    def block_author(self, *, author: str, blocked: bool = False) -> ChangedAuthor:
        """Block an author, or lift that."""

    @method("GET", "/admin/season", role=Role.ADMIN, scope=Scope.ADMIN)
    def season_control(self, *, season: str = "") -> SeasonControl:
        """Describe a season with what admins direct: its deadline, and who has more time."""

    @method("POST", "/admin/season/deadline", role=Role.ADMIN, scope=Scope.ADMIN)
    def set_deadline(self, *, season: str = "", until: str = "", author: str = "") -> SeasonControl:
        """Let everybody submit to a season until a time such as 2027-01-31T18:00Z, or `author`
        alone until a later one; `none` is until the season is closed, or no longer than others."""

    @method("POST", "/admin/season/paused", role=Role.ADMIN, scope=Scope.ADMIN)
    def pause_season(self, *, season: str = "", paused: bool = False) -> SeasonControl:
        """Start no more games of a season, or start them again."""

    @method("POST", "/admin/seasons", role=Role.ADMIN, scope=Scope.ADMIN)
    def open_season(
        self, *, settings: Mapping[str, Any] | None = None, deadline: str = ""
    ) -> SeasonInfo:
        """Open a season; `settings` has its name, and what differs from the usual settings, as in a
        settings file."""

    @method("POST", "/admin/season/close", role=Role.ADMIN, scope=Scope.ADMIN)
    def close_season(self, *, season: str = "", at_once: bool = False) -> ClosedSeason:
        """Close a season, unless bots that were submitted are still to be checked and to play, or
        `at_once` in any case; call it again as long as there is no seed."""

    @method("POST", "/admin/tournaments", role=Role.ADMIN, scope=Scope.ADMIN)
    def begin_tournament(
        self,
        *,
        kind: TournamentKind = "round-robin",
        name: str = "",
        bots: Sequence[str] = (),
        seats: int = 2,
        meetings: int = 1,
        season: str = "",
        embargo_until: str = "",
    ) -> TournamentReport:
        """Begin a tournament, which the ladder's runner plays before all else, with the settings of
        `season`; without `bots` it is between all that play."""

    @method("POST", "/admin/bots/{bot}/state", role=Role.ADMIN, scope=Scope.ADMIN)
    def set_bot_state(self, *, bot: str, state: str = "", reason: str = "") -> ChangedBot:
        """Disable a bot with a reason, or enable it again: `state` is disabled or active."""

    @method("GET", "/admin/quarantine", role=Role.ADMIN, scope=Scope.ADMIN)
    def quarantine(self) -> Quarantine:
        """List the games that failed too often, oldest first."""

    @method("POST", "/admin/quarantine/{game_id}", role=Role.ADMIN, scope=Scope.ADMIN)
    def requeue(self, *, game_id: str) -> Done:
        """Give a game in quarantine another try."""


METHODS: Mapping[str, Method] = methods_of(LadderApi)
"""Every method of the API, by name."""
