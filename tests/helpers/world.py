"""A ladder with people who have accounts, for tests of their pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE, LadderService
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.task_workers import Analysed, AnalyseGame, analyse
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import AnalysisPlan, SeatLog
from deepsea_ladder.store import Store
from deepsea_sdk.coach.decisions import Effort
from deepsea_web.access import Access
from deepsea_web.site.app import Site
from deepsea_web.site.forms import Cookie

from . import ladder, submissions
from .manual_clock import ManualClock
from .members import Person, a_service, a_token, an_admin_token
from .people import Runner, new_game
from .site import LOCAL, a_site

ANNA, BEN = "anna-senior", "ben-senior"
HERS = "person-hers"
"""A game of anna's as a person, which waits for her."""
TRACE = "Traceback: <script>document.title='owned'</script>"
_ACCOUNTS = "secrets", "audit", "authors"
TABLES = (*_ACCOUNTS, "submissions", "analyses", "bots", "jobs", "person_games", "tasks")
QUICK = AnalysisSettings(effort=Effort.of(4), luck=2)
SHORT = AnalysisSettings(effort=Effort.of(4), bot="anna v1")
Stock = tuple[Path, dict[str, str]]
"""A ladder's file, and the tokens of people by name."""


@dataclass
class World:
    """A ladder with people who have tokens."""

    service: LadderService
    site: Site
    tokens: dict[str, str]

    def person(self, name: str = "") -> Person:
        """Somebody, logged in if it is one with a token."""
        person = Person(self.site, self.site.access)
        if name:
            login = self.service.log_in(self.tokens[name], person.client)
            person.cookies[Cookie(person.access, "session").name] = login.session
        return person

    def ladder(self, name: str = "") -> LocalLadder:
        """The ladder for one with a token, or for its operator."""
        caller = self.service.caller_of(self.tokens[name], "") if name else MACHINE
        return LocalLadder(self.service, caller)

    def state(self) -> tuple[object, ...]:
        """What changes with everything that is done."""
        with self.service.store.database.read() as connection:
            return tuple(
                tuple(connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2").all())
                for table in TABLES
            )


def stock_of(folder: Path) -> Stock:
    """Make the ladder: games, a log of anna's, a submission and a game of hers, three people."""
    path = folder / "ladder.db"
    with ladder.created(path) as store:
        for name in ("play_tables", "play_tables_of_person", "play_games_per_day"):
            store.settings.change(name, 100, MACHINE.by)
        season = ladder.stocked(store)
        ladder.play_all(store, season, {"s1-2": ["anna"]}, games=4)
        game = store.history.get("s1-2").line
        seat = next(n for n, one in enumerate(game.seats) if one.bot == "anna")
        store.logs.add(game.seq, [SeatLog(seat, "anna v1", TRACE, "printed\n<b>")])
        anna = submissions.an_author(store, ANNA)
        submissions.add(store, anna, "hers", bot="second")
        new_game(store, author_id=anna, game_id=HERS)
        Runner(store).play_on()
        service = a_service(store)
        tokens = {name: a_token(service, name) for name in (ANNA, BEN)}
        tokens["admin"] = an_admin_token(service)
    return path, tokens


@contextmanager
def opened(
    stock: Stock,
    folder: Path,
    access: Access = LOCAL,
    clock: ManualClock | None = None,
    **more: Any,
) -> Iterator[World]:
    """A copy of the ladder, and its site; `clock` is that of streams and uploads."""
    path = folder / "ladder.db"
    shutil.copy(stock[0], path)
    with Store.open(path) as store:
        service = a_service(store, **more)
        site = a_site(service, access, clock)
        try:
            yield World(service, site, stock[1])
        finally:
            site.gateway.close()


@cache
def _analysed(record: str, settings: AnalysisSettings) -> Analysed:
    return analyse(AnalyseGame(record, settings), int)


def analysed(
    store: Store,
    game_id: str = "s1-1",
    asked: AnalysisPlan | None = None,
    settings: AnalysisSettings = QUICK,
) -> str:
    """Let a game be analysed, quickly; what was found."""
    number = store.analyses.request(game_id, None, asked or plan(), USUAL_LIMITS).id
    lease = store.analyses.claim("runner", 60, number)
    assert lease is not None
    found = _analysed(lease.record, settings)
    policy = found.policy if asked is None else asked.policy
    assert store.analyses.finish(lease, policy, found.document, USUAL_LIMITS)
    return found.document
