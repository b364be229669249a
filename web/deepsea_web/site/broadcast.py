"""News for all who watch the ladder: the newest results, and the game on TV.

Invariants: the store is asked once for all who watch, and not at all while nobody does; the games
that it announces are stored and finished, and at most KEPT are kept: a reader who lacks older ones
has to reload; a poll that fails in any way is logged, and the next one comes; everybody sees the
same frame of the game on TV at the same moment, since its start is the server's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.ladder_api import LadderApi
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import READER
from deepsea_arena.frames import frames
from deepsea_arena.games import read_record
from deepsea_ladder.accounts import Caller
from deepsea_ladder.errors import LadderError
from deepsea_ladder.model import GameLine
from deepsea_referee.clock import Alarm, time_limit
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.printable import one_line
from deepsea_web.gateway import RECHECK_US, Gateway
from deepsea_web.site.words import minute, result

POLL_US = 150_000
"""The time between two questions for new games."""
REST_US = 150
"""After news the store is left alone for so long for each reader. Writing to one takes about a
quarter of that, so no crowd takes more than a quarter of a core, however fast games are played."""
KEPT = 50
BEAT = 130
"""Polls without news after which readers are woken, so that they get a comment."""
FRAME_MS = 750
TURN_MS = 1_100
DIVE_MS = 3_000
END_MS = 9_000
"""The times of a frame: in mid-turn, after a turn, as a dive begins or ends, at the end."""
MOMENT_US = 50_000
"""Readers within this time get the same events."""
_CHOICE = 20
_log = logging.getLogger(__name__)


class ReaderCursor(NamedTuple):
    """A reader's place in the news."""

    seq: int
    """The newest game in its list."""
    shows: int = 0
    """The number of games that were on TV when the last one was announced."""
    told: bool = False
    """True if it was sent anything on this connection."""


class Program(NamedTuple):
    """A game on TV."""

    game: GameLine
    starts_ms: Sequence[int]
    """When each frame is shown, from the beginning of the game."""
    length_ms: int


class Broadcast:
    """The streams of a site; one event loop uses it."""

    def __init__(self, gateway: Gateway, url: Callable[[str], str]) -> None:
        """`url` makes the address of a path."""
        self.readers = 0
        self._news = asyncio.Event()
        """Set, and replaced by another, when something is new."""
        self._gateway = gateway
        self._clock = gateway.clock
        self._ladder = LocalLadder(gateway.service, READER)
        self._url = url
        self._floor = 0
        """Games up to this one may be missing in what is kept."""
        self._seq = 0
        self._games: deque[GameLine] = deque(maxlen=KEPT)
        self._program: Program | None = None
        self._begun_us = 0
        self._shows = 0
        self._shown: deque[str] = deque(maxlen=3 * KEPT)
        self._quiet = 0
        self._alarm: Alarm | None = None
        self._polling: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._told: dict[ReaderCursor, tuple[ReaderCursor, str]] = {}
        """The events of this moment, made once for all who are woken."""
        self._told_at = -1
        self._in_trouble = False

    async def events(self, seq: int, caller: Caller) -> AsyncGenerator[bytes]:
        """The events for a reader as they come, until the server or the reader's session ends.

        seq  the newest game in the reader's list
        Raises ApiError if there is no place for another stream.
        """
        has, checked_us = ReaderCursor(seq), self._clock.now_us()
        with self._gateway.place(caller.address), self.watching():
            while not self._gateway.closing.is_set():
                news = self._news
                has, text = self.since(has)
                yield text.encode()
                if not caller.secret_id:
                    await news.wait()
                    continue
                with suppress(TimeoutError):
                    async with time_limit(self._clock, RECHECK_US):
                        await news.wait()
                try:
                    checked_us = await self._gateway.recheck(caller, checked_us)
                except ApiError:
                    return

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a reader; the store is asked as long as there are any."""
        self.readers += 1
        if self._ending is None:
            self._games.clear()
            self._seq = self._floor = 0
            self._ending = asyncio.create_task(self._end())
            self._begin_poll()
        try:
            yield
        finally:
            self.readers -= 1
            if not self.readers:
                self._rest()

    def since(self, has: ReaderCursor) -> tuple[ReaderCursor, str]:
        """The events for a reader."""
        moment = self._clock.now_us() // MOMENT_US
        if moment != self._told_at:
            self._told.clear()
            self._told_at = moment
        found = self._told.get(has)
        if found is None:
            found = self._told[has] = self._made(has)
        return found

    def _made(self, has: ReaderCursor) -> tuple[ReaderCursor, str]:
        # After the server was away not all come back at once.
        parts = [] if has.told else [f"retry: {2000 + 611 * self._told_at % 6000}\n\n"]
        newer = [game for game in self._games if game.seq > has.seq]
        if 0 < has.seq < self._floor:
            parts.append(_event("reload", [], self._seq))  # games that it lacks are kept no more
        elif newer:
            parts.append(_event("games", [self._line(game) for game in newer], self._seq))
        if self._program is not None and has.shows != self._shows:
            parts.append(_event("tv", self._on_tv(self._program), max(self._seq, has.seq)))
        return ReaderCursor(max(self._seq, has.seq), self._shows, told=True), "".join(parts)

    def _line(self, game: GameLine) -> dict[str, object]:
        return {
            "id": game.game_id,
            "url": self._url(f"/games/{game.game_id}"),
            "played": f"{minute(game.played_at)} UTC",
            "words": result(game),
        }

    def _on_tv(self, program: Program) -> dict[str, object]:
        return {
            **self._line(program.game),
            # Who wins is seen at the end.
            "words": ", ".join(seat.bot for seat in program.game.seats),
            "frames": self._url(f"/games/{program.game.game_id}/frames.json"),
            "elapsed": (self._clock.now_us() - self._begun_us) // 1000,
            "starts": program.starts_ms,
        }

    # What happens while somebody watches

    def _begin_poll(self) -> None:
        self._alarm = None
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        try:
            await self._look()
            self._in_trouble = False
        except Exception as error:  # noqa: BLE001  (whatever it is, the next poll may succeed)
            if not self._in_trouble:
                known = isinstance(error, ApiError | LadderError | InvalidRecord)
                trace = None if known else error
                _log.error("live results have to wait: %s", one_line(str(error)), exc_info=trace)
            self._in_trouble = True
        if self.readers and not self._gateway.closing.is_set():
            pause_us = POLL_US if self._quiet else max(POLL_US, REST_US * self.readers)
            self._alarm = self._clock.at(self._clock.now_us() + pause_us, self._begin_poll)

    async def _look(self) -> None:
        newer = await self._gateway.in_thread(self._newer)
        for game in newer:
            if len(self._games) == KEPT:
                self._floor = int(self._games[0].seq)
            self._games.append(game)
            self._seq = int(game.seq)
        ended = self._program is None or (
            self._clock.now_us() - self._begun_us >= 1000 * self._program.length_ms
        )
        found = None
        if ended and self._games:
            game = self._next()
            self._shown.append(game.game_id)  # also one whose record is damaged
            found = await self._gateway.in_thread(lambda: program(self._ladder, game))
        if found is not None:
            self._program, self._begun_us = found, self._clock.now_us()
            self._shows += 1
        self._quiet = 0 if newer or found else self._quiet + 1
        if self._quiet == BEAT:
            self._quiet = 0
        if self._quiet == 0:
            self._told.clear()
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _newer(self) -> list[GameLine]:
        """Games since the newest that is kept, the oldest first; KEPT at most."""
        if self._seq:
            games = iter(self._ladder.feed(after=self._seq).__next__, None)
            return list(islice(games, KEPT))
        page = self._ladder.games(limit=KEPT)
        if page.older is not None:
            self._floor = int(page.games[-1].seq) - 1
        return list(reversed(page.games))

    def _next(self) -> GameLine:
        """The game of the strongest bots, of the newest that were not on TV."""
        new = [game for game in self._games if game.game_id not in self._shown]
        if not new:
            self._shown.clear()
            new = list(self._games)
        return max(new[-_CHOICE:], key=_strength)

    async def _end(self) -> None:
        await self._gateway.closing.wait()
        self._wake()

    def _rest(self) -> None:
        """Nobody watches: nothing is asked until somebody does."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for task in (self._polling, self._ending):
            if task is not None:
                task.cancel()
        self._ending = None


def program(ladder: LadderApi, game: GameLine) -> Program:
    """A game at human pace."""
    starts, now = [], 0
    shown = frames(read_record(ladder.game(game_id=game.game_id).record))["frames"]
    for frame in shown:
        starts.append(now)
        if any(text.startswith("dive ") for text in frame["say"]):
            now += DIVE_MS
        else:
            now += TURN_MS if frame["say"] else FRAME_MS
    return Program(game, starts, starts[-1] + END_MS)


def _strength(game: GameLine) -> float:
    return sum(seat.mu for seat in game.seats) / len(game.seats)


def _event(kind: str, data: object, number: int) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
