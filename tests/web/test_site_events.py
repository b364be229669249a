"""The streams of the site: what watchers get at once, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from deepsea_ladder.errors import StoreUnavailable
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import GameLine
from deepsea_ladder.store import Store
from deepsea_web.access import listen
from deepsea_web.site.app import Site
from deepsea_web.site.broadcast import BEAT, END_MS, KEPT, POLL_US, REST_US
from helpers import ladder
from helpers.listening import site_at
from helpers.manual_clock import ManualClock
from helpers.site import a_site, ask, scope_of

Event = tuple[str, Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder with four games, and four that wait."""
    path = tmp_path_factory.mktemp("played") / "ladder.db"
    with ladder.created(path) as store:
        season = ladder.stocked(store)
        ladder.play_all(store, season, games=4)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    return path


@pytest.fixture
def store(played: Path, tmp_path: Path) -> Iterator[Store]:
    """That ladder, for one test."""
    with Store.open(shutil.copy(played, tmp_path / "ladder.db")) as store:
        yield store


async def turns() -> None:
    """Let everybody go on who is ready, and whom that makes ready."""
    for _ in range(5):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


class Watched:
    """A site that is watched in this loop."""

    def __init__(self, store: Store) -> None:
        self.clock = ManualClock()
        self.site = a_site(store, clock=self.clock)

    async def poll(self, times: int = 1) -> None:
        """Let the store be asked again."""
        for _ in range(times):
            self.clock.jump(POLL_US)
            await self.settled()

    async def settled(self) -> None:
        """Wait until the store was asked and readers have what is new."""
        await turns()
        polling = self.site.broadcast._polling
        if polling is not None:
            await asyncio.wait((polling,))
        await turns()


class Reader:
    """One stream."""

    def __init__(self, site: Site, after: object, client: str) -> None:
        query = "" if after is None else f"after={after}"
        self.scope = scope_of(f"/events?{query}", client=client)
        self.left = asyncio.Event()
        self.free = asyncio.Event()
        """Whether it takes what is sent."""
        self.free.set()
        self.status = 0
        self.text = ""
        self.sends = 0
        self.task = asyncio.create_task(self._run(site))

    async def _run(self, site: Site) -> None:
        await site.app(self.scope, self._receive, self._send)

    async def _receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.free.wait()
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self.sends += 1

    @property
    def events(self) -> list[Event]:
        """What came."""
        found = []
        for block in self.text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
            if "data" in lines:
                found.append((lines["event"], json.loads(lines["data"])))
        return found

    @property
    def games(self) -> list[str]:
        """The ids of the games that came."""
        return [game["id"] for kind, data in self.events if kind == "games" for game in data]

    @property
    def shows(self) -> list[Any]:
        """The games on TV that came."""
        return [data for kind, data in self.events if kind == "tv"]


Watch = Callable[..., Reader]


@asynccontextmanager
async def watching(store: Store) -> AsyncIterator[tuple[Watched, Watch]]:
    """A site, and what opens a stream of it."""
    watched = Watched(store)
    readers: list[Reader] = []

    def watch(after: object = None, client: str = "127.0.0.1") -> Reader:
        readers.append(Reader(watched.site, after, client))
        return readers[-1]

    try:
        yield watched, watch
    finally:
        for reader in readers:
            reader.free.set()
            reader.left.set()
        await asyncio.gather(*(reader.task for reader in readers))
        watched.site.gateway.close()


def play(store: Store, games: int = 1) -> None:
    """Play some of the games that wait."""
    season = store.seasons.get("s1")
    for _ in range(games):
        job = ladder.claim(store, season)
        store.games.report(job, ladder.play(job))


async def test_results_come_to_everybody_who_lacks_them(store: Store) -> None:
    async with watching(store) as (site, watch):
        new, knowing = watch(after=4), watch(after=2)
        await site.settled()
        assert (new.games, knowing.games) == ([], ["s1-3", "s1-4"])
        play(store, 2)
        await site.poll()
        assert (new.games, knowing.games[2:]) == (["s1-5", "s1-6"], ["s1-5", "s1-6"])
        (line,) = [data[0] for kind, data in new.events if kind == "games"]
        assert line["url"] == "/games/s1-5"
        assert line["words"].startswith("1. ")
        assert new.text.count("id: 6\n") == 1


async def test_everybody_sees_the_same_turn(store: Store) -> None:
    async with watching(store) as (site, watch):
        first = watch()
        await site.settled()
        (show,) = first.shows
        assert (show["elapsed"], show["starts"][0]) == (0, 0)
        assert show["starts"] == sorted(show["starts"])
        assert "1. " not in show["words"]  # who wins is seen at the end
        await site.poll(5)
        second = watch()
        await site.settled()
        (later,) = second.shows
        assert (later["id"], later["elapsed"]) == (show["id"], 5 * POLL_US // 1000)
        assert len(first.shows) == 1


async def test_another_game_follows_and_those_that_were_shown_come_last(store: Store) -> None:
    async with watching(store) as (site, watch):
        reader = watch()
        await site.settled()
        for _ in range(4):
            show = reader.shows[-1]
            site.clock.jump(1000 * (show["starts"][-1] + END_MS))
            await site.settled()
        shown = [show["id"] for show in reader.shows]
        assert sorted(shown[:4]) == ["s1-1", "s1-2", "s1-3", "s1-4"]
        assert len(shown) == 5


async def test_nobody_watches_and_nothing_is_asked(store: Store) -> None:
    async with watching(store) as (site, watch):
        assert site.clock.alarms == 0
        reader = watch()
        await site.settled()
        assert (site.site.broadcast.readers, site.clock.alarms) == (1, 1)
        reader.left.set()
        await reader.task
        assert (site.site.broadcast.readers, site.clock.alarms) == (0, 0)
        again = watch(after=4)
        await site.settled()
        assert len(again.shows) == 1


async def test_a_slow_reader_delays_nobody_and_gets_the_newest_state(store: Store) -> None:
    async with watching(store) as (site, watch):
        slow, other = watch(after=4), watch(after=4)
        await site.settled()
        slow.free.clear()
        sends = slow.sends
        for _ in range(3):
            play(store)
            await site.poll()
        assert other.games == ["s1-5", "s1-6", "s1-7"]
        assert slow.sends == sends
        slow.free.set()
        await site.settled()
        # One event that waited, and one with everything since then.
        assert slow.games == other.games
        assert slow.sends == sends + 2


async def test_a_reader_who_lacks_more_than_is_kept_reloads(store: Store) -> None:
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * (KEPT // 4 + 1))
    ladder.play_all(store, season)
    async with watching(store) as (site, watch):
        lacks, knows = watch(after=3), watch(after=10)
        await site.settled()
        assert [kind for kind, _ in lacks.events] == ["reload", "tv"]
        assert lacks.games == []
        assert len(knows.games) == KEPT


async def test_quiet_streams_are_kept_alive(store: Store) -> None:
    async with watching(store) as (site, watch):
        reader = watch(after=4)
        await site.settled()
        sends = reader.sends
        await site.poll(BEAT - 1)
        assert reader.sends == sends
        await site.poll(1)
        assert reader.text.endswith(": still here\n\n")


async def test_streams_are_bounded_and_the_store_is_asked_once_for_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(store) as (site, watch):
        asked: list[int] = []
        since = store.history.games_after

        def counted(seq: int, limit: int) -> list[GameLine]:
            asked.append(1)
            return since(seq, limit)

        monkeypatch.setattr(store.history, "games_after", counted)
        readers = [watch(after=4) for _ in range(20)]
        with ExitStack() as crowd:
            for _ in range(USUAL_LIMITS.streams - len(readers)):
                crowd.enter_context(site.site.gateway.stream_slot("127.0.0.1"))
                crowd.enter_context(site.site.broadcast.watching())
            await site.settled()
            assert site.site.broadcast.readers == USUAL_LIMITS.streams
            refused = await ask(site.site, "/events")
            assert (refused.status, refused.headers["retry-after"]) == (429, "30")
            asked.clear()
            play(store)
            await site.poll()
            assert asked == []  # a crowd that just got news waits a little for more
            site.clock.jump(REST_US * USUAL_LIMITS.streams)
            await site.settled()
            assert len(asked) == 1
            assert all(reader.games == ["s1-5"] for reader in readers)


def test_a_server_ends_at_once_whoever_watches(store: Store) -> None:
    with ExitStack() as readers, site_at(a_site(store)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        connections = []
        for _ in range(20):
            connection = readers.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            connections.append(readers.enter_context(connection.makefile("rb")))
        # Some read what came, and others never do.
        for lines in connections[:10]:
            assert any(line.startswith(b"event: tv") for line in lines)
    # Only when every stream had ended did the server.


@pytest.mark.parametrize("error", [StoreUnavailable("busy"), ValueError("busy")])
async def test_a_ladder_that_cannot_be_read_ends_no_stream(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    """Whatever it is that fails."""
    async with watching(store) as (site, watch):
        reader = watch(after=4)
        await site.settled()

        def busy(seq: int, limit: int) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(store.history, "games_after", busy)
            await site.poll(3)
        play(store)
        await site.poll()
        assert reader.games == ["s1-5"]
    assert [record.message for record in caplog.records] == ["live results have to wait: busy"]


@pytest.mark.parametrize("after", ["", "x", "-1", "1e9", "9" * 5000, "\u0664"])
async def test_what_a_reader_says_it_has_is_a_number_or_nothing(store: Store, after: str) -> None:
    async with watching(store) as (site, watch):
        reader = watch(after)
        await site.settled()
        assert reader.status == 200
        assert reader.games == ["s1-1", "s1-2", "s1-3", "s1-4"]


def test_nothing_waits_for_the_reader_s_word_on_what_came_before() -> None:
    with closing(listen("127.0.0.1", 0)) as listening, socket.socket() as reader:
        reader.connect(listening.getsockname())
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
