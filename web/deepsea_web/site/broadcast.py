"""What everybody who watches the ladder gets at once: the newest results, and the game on TV.

Invariants: the store is asked once for all who watch, and not at all while nobody does; the games
that are told are stored and finished, and at most KEPT are kept; everybody sees the same frame of
the game on TV at the same moment, since its start is the server's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, TypeVar

from starlette.exceptions import HTTPException

from deepsea_arena.frames import frames
from deepsea_arena.game_reports import games_since
from deepsea_arena.games import GameLine
from deepsea_ladder.errors import LadderError
from deepsea_ladder.remote_limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.timing.clock import Alarm, Clock
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord
from deepsea_web.site.words import minute, result

POLL_US: Final = 150_000
"""How often the store is asked for new games."""
REST_US: Final = 150
"""After news the store is left alone for so long for each reader. Writing to one takes about a
quarter of that, so no crowd takes more than a quarter of a core, however fast games are played."""
KEPT: Final = 50
BEAT: Final = 130
"""Polls without news after which readers get a comment, so that no proxy ends the connection."""
FRAME_MS: Final = 750
TURN_MS: Final = 1_100
DIVE_MS: Final = 3_000
END_MS: Final = 9_000
"""How long a frame stays: in mid-turn, after a turn, as a dive begins or ends, at the end."""
MOMENT_US: Final = 50_000
"""What was made for a reader is the same for others within this time."""
_CHOICE: Final = 20
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Has(NamedTuple):
    """What a reader has."""

    seq: int
    """The newest game in its list."""
    shows: int = 0
    """How many games were on TV when it last was told of one."""
    beats: int = 0
    told: bool = False
    """Whether it was sent anything on this connection."""


class Host(Protocol):
    """The site that a broadcast is for."""

    store: Store
    closing: asyncio.Event

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of work that reads the store."""


class Program(NamedTuple):
    """A game on TV."""

    game: GameLine
    starts_ms: Sequence[int]
    """When each frame is shown, from the beginning of the game."""
    length_ms: int


class Broadcast:
    """The streams of a site; one event loop uses it."""

    def __init__(
        self,
        host: Host,
        clock: Clock,
        url: Callable[[str], str],
        limits: RemoteLimits = USUAL_LIMITS,
    ) -> None:
        """`url` makes the address of a path."""
        self._limits = limits
        self._host = host
        self._clock = clock
        self._url = url
        self._wakes: dict[Callable[[], object], str] = {}
        """By reader: its address."""
        self._clients: Counter[str] = Counter()
        self._seq = 0
        self._games: deque[GameLine] = deque(maxlen=KEPT)
        self._program: Program | None = None
        self._begun_us = 0
        self._shows = 0
        self._shown: deque[str] = deque(maxlen=3 * KEPT)
        self._beats = 0
        self._quiet = 0
        self._alarm: Alarm | None = None
        self._polling: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._told: dict[Has, tuple[Has, str]] = {}
        """What was made at this moment, so that it is made once for all who are woken."""
        self._told_at = -1
        self._in_trouble = False

    @property
    def closed(self) -> bool:
        """Whether the server ends."""
        return self._host.closing.is_set()

    @property
    def readers(self) -> int:
        """How many watch."""
        return len(self._wakes)

    def check_room(self, client: str, *, near: bool) -> None:
        """Raise 429 if too many streams are open, of all or of this address.

        near  on this machine: a proxy, maybe, whose clients cannot be told apart
        """
        limits = self._limits
        of_one = 0 if near else self._clients[client]
        if self.readers >= limits.streams or of_one >= limits.streams_of_address:
            raise HTTPException(429, "too many streams are open; try again", {"Retry-After": "30"})

    @contextmanager
    def watching(self, wake: Callable[[], object], client: str = "") -> Iterator[None]:
        """Count a reader, who is woken by news."""
        if not self._wakes:
            self._ending = asyncio.create_task(self._end())
            self._begin_poll()
        self._wakes[wake] = client
        self._clients[client] += 1
        try:
            yield
        finally:
            del self._wakes[wake]
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]
            if not self._wakes:
                self._rest()

    def since(self, has: Has) -> tuple[Has, str]:
        """The events for a reader."""
        moment = self._clock.now_us() // MOMENT_US
        if moment != self._told_at:
            self._told.clear()
            self._told_at = moment
        found = self._told.get(has)
        if found is None:
            found = self._told[has] = self._made(has)
        return found

    def _made(self, has: Has) -> tuple[Has, str]:
        # After the server was away not all come back at once.
        parts = [] if has.told else [f"retry: {2000 + 611 * self._told_at % 6000}\n\n"]
        newer = [game for game in self._games if game.seq > has.seq]
        if newer:
            parts.append(_event("games", [self._line(game) for game in newer], self._seq))
        if self._program is not None and has.shows != self._shows:
            parts.append(_event("tv", self._on_tv(self._program), max(self._seq, has.seq)))
        if not parts and has.beats != self._beats:
            parts.append(": still here\n\n")
        return Has(max(self._seq, has.seq), self._shows, self._beats, told=True), "".join(parts)

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
        except (LadderError, InvalidRecord, HTTPException) as error:
            if not self._in_trouble:
                _log.error("who watches has to wait: %s", one_line(str(error)))
            self._in_trouble = True
        if self._wakes and not self.closed:
            pause_us = POLL_US if self._quiet else max(POLL_US, REST_US * self.readers)
            self._alarm = self._clock.at(self._clock.now_us() + pause_us, self._begin_poll)

    async def _look(self) -> None:
        store, seq = self._host.store, self._seq
        newer = await self._host.in_thread(lambda: _newer(store, seq))
        if newer:
            self._games += newer
            self._seq = int(newer[-1].seq)
        ended = self._program is None or (
            self._clock.now_us() - self._begun_us >= 1000 * self._program.length_ms
        )
        found = None
        if ended and self._games:
            game = self._next()
            self._shown.append(game.game_id)  # also one whose record is damaged
            found = await self._host.in_thread(lambda: program(store, game))
            self._program, self._begun_us = found, self._clock.now_us()
            self._shows += 1
        self._quiet = 0 if newer or found else self._quiet + 1
        if self._quiet == BEAT:
            self._quiet = 0
            self._beats += 1
        if self._quiet == 0:
            self._wake()

    def _next(self) -> GameLine:
        """The game of the strongest bots, of the newest that were not on TV."""
        new = [game for game in self._games if game.game_id not in self._shown]
        if not new:
            self._shown.clear()
            new = list(self._games)
        return max(new[-_CHOICE:], key=_strength)

    def _wake(self) -> None:
        self._told.clear()
        for wake in list(self._wakes):
            wake()

    async def _end(self) -> None:
        await self._host.closing.wait()
        self._wake()

    def _rest(self) -> None:
        """Nobody watches: nothing is asked until somebody does."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for task in (self._polling, self._ending):
            if task is not None:
                task.cancel()


def program(store: Store, game: GameLine) -> Program:
    """A game at human pace."""
    starts, now = [], 0
    shown = frames(GameRecord.from_json(store.games.record(game.game_id)))["frames"]
    for frame in shown:
        starts.append(now)
        if any(text.startswith("dive ") for text in frame["say"]):
            now += DIVE_MS
        else:
            now += TURN_MS if frame["say"] else FRAME_MS
    return Program(game, starts, starts[-1] + END_MS)


def _newer(store: Store, seq: int) -> list[GameLine]:
    return games_since(store, seq, KEPT) if store.revision().game > seq else []


def _strength(game: GameLine) -> float:
    return sum(seat.mu for seat in game.seats) / len(game.seats)


def _event(kind: str, data: object, number: int) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
