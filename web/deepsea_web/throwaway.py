"""A throw-away ladder for one person at a seat: the pages of `play --browser`.

Invariants: who has the code of the address, which no request carries in its own address, gets a
session, once; without the session nothing is shown and nothing is done; the ladder plays nothing
itself and keeps no files of bots; when the last reader of the seat has left for longer than it
takes to load the page again, the person has left; `close` leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Self

import uvicorn
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from deepsea_arena.api.service import LadderService
from deepsea_arena.seat import StoredPerson
from deepsea_bundle.archive import Collection
from deepsea_bundle.names import name_from
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.accounts import MACHINE, SecretKind, new_secret
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.clock import Alarm, Clock, SystemClock
from deepsea_referee.match import MatchSettings
from deepsea_referee.person import HINT_EFFORT
from deepsea_referee.system import SYSTEM
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.access import access
from deepsea_web.gateway import Gateway
from deepsea_web.http import NO_STORE
from deepsea_web.site.app import Site
from deepsea_web.site.forms import (
    LOGIN_PATH,
    Action,
    Form,
    PersonalPage,
    Redirect,
    SessionAuth,
    SessionStart,
)
from deepsea_web.site.members import Members
from deepsea_web.site.page import Visit
from deepsea_web.site.pages import games

AUTHOR = "you"
NO_LIMIT = 1_000_000
"""Games of the person in a day."""
LINGER_S = 60.0
"""The time for which the page stays after the games, at most."""
GRACE_US = 3_000_000
"""The time for which nobody may read the page: while it is loaded again, or the machine is busy."""
ENTER = PersonalPage(
    path=LOGIN_PATH,
    template="play_enter.html",
    title=lambda values: "Play",
    parameters=("next",),
    open=True,
)


class ThrowawayLadder:
    """The ladder of a match in which a person plays, served on this machine; `close` ends it."""

    def __init__(
        self,
        settings: MatchSettings,
        person: int,
        clock: Clock,
        hint_effort: Effort = HINT_EFFORT,
    ) -> None:
        """`person` is the number of the person among the bots of the match."""
        self._opened = ExitStack()
        try:
            self._open(settings, person, clock, hint_effort)
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """With the code in its fragment, which browsers do not send."""
        return f"{self._origin}{LOGIN_PATH}#{self._code}"

    def wait(self) -> None:
        """Wait until the page is closed, a minute at most."""
        self._left.wait(LINGER_S if self.readers.entered else 0)

    def close(self) -> None:
        self._opened.close()

    def _open(
        self, settings: MatchSettings, person: int, clock: Clock, hint_effort: Effort
    ) -> None:
        folder = SYSTEM.private_folder()
        self._opened.callback(SYSTEM.remove_folder, folder)
        store = self._opened.enter_context(Store.create(folder / "ladder.db"))
        store.settings.change("play_games_per_day", NO_LIMIT, MACHINE)
        season = store.seasons.open(_season(settings), fresh_seed())
        bots = [bot for number, bot in enumerate(settings.named) if number != person]
        ids = {digest: _take_in(store, bot) for digest, bot in {b.digest: b for b in bots}.items()}
        versions = {bot.name: ids[bot.digest] for bot in bots}
        self._code, digest = new_secret(SecretKind.CODE, fresh_seed())
        store.accounts.make_codes([(digest, AUTHOR)], days=1, actor=MACHINE)
        author = store.authors.id_of(AUTHOR)
        self.person = StoredPerson(store, season.id, author, versions, clock, hint_effort)
        self.person.store_new(settings.game(0), settings.line_up(0).index(person))
        self._left = threading.Event()
        self._serve(store, clock)

    def _serve(self, store: Store, clock: Clock) -> None:
        service = LadderService(store, entropy=fresh_seed, private=True, host=self.person)
        gateway = Gateway(service, SystemClock())
        self._opened.callback(gateway.close)
        self.loop = asyncio.new_event_loop()
        self._opened.callback(self.loop.close)
        self.readers = Readers(clock, self._leave)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reach = access("127.0.0.1", listening.getsockname()[1])
        self._origin = reach.origin
        members = Members(
            pages=(ENTER, games.SEAT),
            actions=(self._entering(), games.SEAT_FORM),
            endpoints={"/play/{id}/news": self._news},
        )
        endpoints = {
            "/": self._to_seat,
            "/games/{id}/frames.json": games.game_frames,
            "/games/{id}/record.json": games.game_record,
        }
        site = Site(gateway, reach, (games.PERSON_GAME,), endpoints, members)
        server = uvicorn.Server(_http_config(site.app))
        serving = partial(self.loop.run_until_complete, server.serve(sockets=[listening]))
        thread = threading.Thread(target=serving, name="page", daemon=True)
        thread.start()

        @self._opened.callback
        def end() -> None:
            server.should_exit = True
            self.loop.call_soon_threadsafe(gateway.closing.set)
            thread.join()

    def _leave(self) -> None:
        self._left.set()
        self.person.drop()

    def _entering(self) -> Action:
        def enter(visit: Visit, form: Form) -> SessionStart:
            made = visit.ladder.redeem(code=form.text("code"))
            login = visit.service.log_in(made.token, visit.caller.address)
            self.readers.entered = True
            seat = Redirect(path=f"/play/{self.person.game_id}")
            return SessionStart(secret=login.session, caller=login.caller, answer=seat)

        return Action(path=ENTER.path, page=ENTER, act=enter, fields=("code",), secrets=("code",))

    async def _news(self, sessions: SessionAuth, visit: Visit, request: Request) -> ASGIApp:
        return self.readers.counting(await games.seat_news(sessions, visit, request))

    async def _to_seat(self, site: Site, request: Request) -> Response:
        return RedirectResponse(site.access.url(f"/play/{self.person.game_id}"), 303, NO_STORE)


def _season(settings: MatchSettings) -> Season:
    """The season of the person's games; a person takes the time that the match gives."""
    return Season(
        name="play",
        rules=settings.rules,
        seats=(len(settings.bots),),
        clock=settings.time_control.format(),
        isolation="process",
    )


def _take_in(store: Store, bot: BotSpec) -> int:
    """Store a bot of the match by its name and digest; the id of its version."""
    bundle = BotBundle(name_from(bot.name), bot.command, bot.digest, Collection())
    return store.bots.submit(bundle.name, AUTHOR, bundle, MACHINE).id


def _http_config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )


class Readers:
    """The streams of the seat's pages; acts when the last one has ended for GRACE_US."""

    def __init__(self, clock: Clock, leave: Callable[[], object]) -> None:
        self.entered = False
        """True once a reader has entered."""
        self._clock = clock
        self._leave = leave
        self._count = 0
        self._alarm: Alarm | None = None

    def counting(self, stream: ASGIApp) -> ASGIApp:
        """The stream, which counts as a reader while it lasts."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            self._change(1)
            try:
                await stream(scope, receive, send)
            finally:
                self._change(-1)

        return counted

    def _change(self, by: int) -> None:
        self._count += by
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._count:
            self._alarm = self._clock.at(self._clock.now_us() + GRACE_US, self._leave)
