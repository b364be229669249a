"""What commands show of a ladder on another machine; the same as of one on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from deepsea_arena.bot_profiles import BotProfile
from deepsea_arena.games import BotLogLine, GamesPage
from deepsea_arena.ladder_analyses import AnalysisFound
from deepsea_arena.standings import Standings
from deepsea_cli.remote.answers import (
    AnalysisStep,
    GameText,
    LadderBot,
    Logs,
    Submissions,
    Withdrawn,
)
from deepsea_cli.remote.client import Client
from deepsea_cli.remote.errors import BadServer
from deepsea_rules.errors import RulesError
from deepsea_rules.record import GameRecord

if TYPE_CHECKING:
    from deepsea_ladder.model.games import GameFilter

PAGE: Final = 500
"""Games that a ladder gives at a time, at most."""


class RemoteSource:
    """Reads a ladder through a client."""

    def __init__(self, client: Client, page: int = PAGE) -> None:
        """`page`: games that are asked for at a time, at most."""
        self._client = client
        self._page = page

    def standings(self, season: str | None, *, everybody: bool, best_of_author: bool) -> Standings:
        """The standings of a season."""
        return self._client.ask(
            "GetStandings",
            Standings,
            season=season or "",
            everybody=everybody,
            best_of_author=best_of_author,
        )

    def bot(self, name: str, version: int | None, season: str | None) -> BotProfile:
        """The profile of a bot; with tracebacks if it is the caller's."""
        return self._client.ask(
            "GetBot", BotProfile, bot=name, version=version or 0, season=season or ""
        )

    def games(self, limit: int, season: str | None, wanted: GameFilter) -> GamesPage:
        """The newest games, asked for page by page."""
        found = GamesPage((), None)
        while len(found.games) < limit:
            asked = min(self._page, limit - len(found.games))
            page = self._client.ask(
                "ListGames",
                GamesPage,
                season=season or "",
                bot=wanted.bot or "",
                against=wanted.against or "",
                faults=wanted.faults,
                lost=wanted.lost,
                limit=asked,
                before=found.older or 0,
            )
            self._check(page, asked, found)
            found = GamesPage((*found.games, *page.games), page.older)
            if page.older is None:
                break
        return found

    def record(self, game_id: str) -> str:
        """The record of a game, written anew, with nothing in it that a terminal would obey."""
        text = self._client.ask("GetRecord", GameText, game_id=game_id).record
        try:
            record = GameRecord.from_json(text)
        except RulesError:
            record = None
        if record is None or record.game_id != game_id:
            raise BadServer(f"{self._client.address.url} gives no record of that game")
        return _escaped(record.to_json())

    def logs(self, game_id: str) -> Sequence[BotLogLine]:
        """What the caller's bots left of a game."""
        return self._client.ask("GetLog", Logs, game_id=game_id).logs

    def analysis(self, game_id: str) -> AnalysisFound:
        """What there is of a game."""
        return self._client.ask("GetAnalysis", AnalysisFound, game_id=game_id)

    def request_analysis(self, game_id: str) -> None:
        """Ask for the analysis of a game."""
        self._client.ask("RequestAnalysis", AnalysisStep, game_id=game_id)

    def await_analysis(self, game_id: str, note: Callable[[str], object]) -> None:
        """Wait until the analysis of a game that was asked for last has ended.

        note  is called with each state
        """
        for step in self._client.follow("WatchAnalysis", AnalysisStep, game_id=game_id):
            ahead = f", {step.analysis.ahead} before it" if step.analysis.ahead else ""
            note(f"analysis of {game_id}: {step.analysis.state}{ahead}")

    def submissions(self, limit: int) -> Submissions:
        """What the caller has submitted, the newest first."""
        return self._client.ask("ListSubmissions", Submissions, limit=limit)

    def withdraw(self, name: str) -> LadderBot:
        """Take a bot of the caller's out."""
        return self._client.ask("Withdraw", Withdrawn, bot=name).bot

    def _check(self, page: GamesPage, asked: int, before: GamesPage) -> None:
        """Refuse pages that would never come to an end."""
        url = self._client.address.url
        if len(page.games) > asked:
            raise BadServer(f"{url} gives {len(page.games)} games where {asked} were asked for")
        older = before.older
        if page.older is not None and (not page.games or (older and page.older >= older)):
            raise BadServer(f"{url} gives the same games again")


def _escaped(line: str) -> str:
    """A line of JSON with escapes for what is not printable, and the same content."""
    kept = line.removesuffix("\n")
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in kept) + "\n"
