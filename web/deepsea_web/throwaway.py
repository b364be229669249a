"""A throw-away ladder for one person at a seat: the pages of `play --browser`.

Invariants: the page's address has a code in its fragment, which browsers do not send; it gives a
session once, and without the session nothing is shown or done; the ladder plays nothing itself and
keeps no files of bots; the person has left when no page of the seat has been open for GRACE_US;
`close` leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
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
from deepsea_ladder.season import SeasonSettings
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
"""The name of the person's account."""
NO_LIMIT = 1_000_000
"""Maximum games of the person in a day, more than can be played."""
LINGER_S = 60.0
"""Maximum seconds for which the page stays after the games."""
GRACE_US = 3_000_000
"""The time without an open page after which the person has left; loading again takes less."""
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
        """Serve the ladder from now on; `person` is the person's index among the match's bots."""
        self._opened = ExitStack()
        try:
            self._open_ladder(settings, person, clock, hint_effort)
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The address of the page that lets the person in, with the code in its fragment."""
        return f"{self._origin}{LOGIN_PATH}#{self._code}"

    def wait(self) -> None:
        """Wait until the person has closed the page, at most LINGER_S, if anybody opened it."""
        self._person_left.wait(LINGER_S if self.readers.has_entered else 0)

    def close(self) -> None:
        """Stop the server, and remove the ladder and its files."""
        self._opened.close()

    def _open_ladder(
        self, settings: MatchSettings, person: int, clock: Clock, hint_effort: Effort
    ) -> None:
        """Create the ladder in a temporary folder, with the bots of the match, and serve it.

        For the arguments see `__init__`. What is opened here is closed by `close`.
        """
        folder = SYSTEM.private_folder()
        self._opened.callback(SYSTEM.remove_folder, folder)
        store = self._opened.enter_context(Store.create(folder / "ladder.db"))
        store.settings.change("play_games_per_day", NO_LIMIT, MACHINE)
        season = store.seasons.open(_match_season(settings), fresh_seed())
        bots = [bot for index, bot in enumerate(settings.named) if index != person]
        version_ids = _store_bots(store, bots)
        # The account of the person, and the code with which the page opens a session for it.
        self._code, code_digest = new_secret(SecretKind.CODE, fresh_seed())
        store.accounts.make_codes([(code_digest, AUTHOR)], days=1, actor=MACHINE)
        author_id = store.authors.id_of(AUTHOR)
        self.person = StoredPerson(store, season.id, author_id, version_ids, clock, hint_effort)
        first_seat = settings.line_up(0).index(person)
        self.person.store_new(settings.game(0), first_seat)
        self._person_left = threading.Event()
        self._serve(store, clock)

    def _serve(self, store: Store, clock: Clock) -> None:
        """Serve the pages of the seat on this machine, in a thread with its own event loop."""
        service = LadderService(store, entropy=fresh_seed, private=True, host=self.person)
        gateway = Gateway(service, SystemClock())
        self._opened.callback(gateway.close)
        self.loop = asyncio.new_event_loop()
        self._opened.callback(self.loop.close)
        self.readers = Readers(clock, self._end_person)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        site_access = access("127.0.0.1", listening.getsockname()[1])
        self._origin = site_access.origin
        members = Members(
            pages=(ENTER, games.SEAT),
            actions=(self._enter_action(), games.SEAT_FORM),
            endpoints={"/play/{id}/news": self._news},
        )
        endpoints = {
            "/": self._to_seat,
            "/games/{id}/frames.json": games.game_frames,
            "/games/{id}/record.json": games.game_record,
        }
        site = Site(gateway, site_access, (games.PERSON_GAME,), endpoints, members)
        server = uvicorn.Server(_http_config(site.app))
        serving = partial(self.loop.run_until_complete, server.serve(sockets=[listening]))
        thread = threading.Thread(target=serving, name="page", daemon=True)
        thread.start()

        @self._opened.callback
        def stop_server() -> None:
            server.should_exit = True
            self.loop.call_soon_threadsafe(gateway.closing.set)
            thread.join()

    def _end_person(self) -> None:
        """End the games of a person who has closed all pages of the seat."""
        self._person_left.set()
        self.person.drop()

    def _enter_action(self) -> Action:
        """Return the form of the first page, which lets the person in by the code.

        Its action redeems the code, begins a session, and leads to the seat.
        """

        def let_in(visit: Visit, form: Form) -> SessionStart:
            """Begin a session for the person, who sent the code, and lead to the page of the seat.

            The code can be used once: it is exchanged for a token, and the token for the session.
            """
            token = visit.ladder.redeem(code=form.text("code")).token
            login = visit.service.log_in(token, visit.caller.address)
            # `wait` waits for the person to leave only if the person has entered.
            self.readers.has_entered = True
            to_seat = Redirect(path=f"/play/{self.person.game_id}")
            return SessionStart(secret=login.session, caller=login.caller, answer=to_seat)

        return Action(path=ENTER.path, page=ENTER, act=let_in, fields=("code",), secrets=("code",))

    async def _news(self, sessions: SessionAuth, visit: Visit, request: Request) -> ASGIApp:
        """Respond with the stream of the seat's news; while it lasts, the page counts as open."""
        return self.readers.counting(await games.seat_news(sessions, visit, request))

    async def _to_seat(self, site: Site, request: Request) -> Response:
        """Redirect from the root to the seat of the present game."""
        return RedirectResponse(site.access.url(f"/play/{self.person.game_id}"), 303, NO_STORE)


def _match_season(settings: MatchSettings) -> SeasonSettings:
    """Return the season of the person's games, with the rules, seats and clock of the match."""
    return SeasonSettings(
        name="play",
        rules=settings.rules,
        seats=(len(settings.bots),),
        clock=settings.time_control.format(),
        isolation="process",
    )


def _store_bots(store: Store, bots: Sequence[BotSpec]) -> dict[str, int]:
    """Store the bots of a match without their files, and return the ids of their versions by name.

    Bots with the same files share one stored version.
    """
    id_of_digest: dict[str, int] = {}
    bot_of_digest = {bot.digest: bot for bot in bots}
    for digest, bot in bot_of_digest.items():
        bundle = BotBundle(name_from(bot.name), bot.command, digest, Collection())
        id_of_digest[digest] = store.bots.submit(bundle.name, AUTHOR, bundle, MACHINE).id
    return {bot.name: id_of_digest[bot.digest] for bot in bots}


def _http_config(app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's settings for an application that only this machine reaches."""
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
    """The open pages of the seat, counted by their streams.

    on_left  called when no stream has been open for GRACE_US, after the last one has ended
    """

    def __init__(self, clock: Clock, on_left: Callable[[], object]) -> None:
        self.has_entered = False
        """True once the person has entered with the code."""
        self._clock = clock
        self._on_left = on_left
        self._count = 0
        self._alarm: Alarm | None = None
        """Runs while no stream is open."""

    def counting(self, stream: ASGIApp) -> ASGIApp:
        """Return a response that sends a stream, and counts as an open page while it lasts."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            self._change_count(1)
            try:
                await stream(scope, receive, send)
            finally:
                self._change_count(-1)

        return counted

    def _change_count(self, difference: int) -> None:
        """Change the number of open streams by `difference`, and set the alarm if none is left."""
        self._count += difference
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._count:
            self._alarm = self._clock.at(self._clock.now_us() + GRACE_US, self._on_left)
