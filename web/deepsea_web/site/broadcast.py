"""News for everybody who watches the ladder: the newest results, and the game on TV.

Start reading at `Broadcast.events`.

Invariants: the store is asked once for all readers, and not at all while there are none; the games
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
"""Time between two polls for new games."""
REST_US = 150
"""Time after news without a poll, for each reader.

Writing to one reader takes about a quarter of that, so no crowd takes more than a quarter of a
core, however fast games are played.
"""
KEPT = 50
"""Number of the newest games that are kept for readers who lack some."""
BEAT = 130
"""Polls without news after which readers are woken, so that they get a comment."""
FRAME_MS = 750
"""Time for which a frame in the middle of a turn is shown."""
TURN_MS = 1_100
"""Time for which the last frame of a turn is shown."""
DIVE_MS = 3_000
"""Time for which a frame is shown with which a dive begins or ends."""
END_MS = 9_000
"""Time for which the last frame of a game is shown."""
MOMENT_US = 50_000
"""Length of a moment: readers who are woken in the same one get the same events."""
_CANDIDATES = 20
"""Number of the newest games of which the next one for TV is chosen."""
_log = logging.getLogger(__name__)


class ReaderCursor(NamedTuple):
    """A reader's place in the news."""

    seq: int
    """Number of the newest game in the reader's list."""
    shows: int = 0
    """Number of the game on TV that the reader knows, counted from the start of the server."""
    has_events: bool = False
    """True if the reader was sent events on this connection already."""


class TvSchedule(NamedTuple):
    """A game on TV, with the times at which its frames are shown."""

    game: GameLine
    starts_ms: Sequence[int]
    """Time from the beginning of the game at which each frame is shown."""
    length_ms: int
    """Time from the beginning of the game at which the next one may begin."""


class Broadcast:
    """The streams of news of a site; it is used in one event loop alone.

    It polls the store for new games and keeps the newest; each reader's stream sends those that the
    reader lacks. While a game is on TV, its schedule is sent, and pages show the frames by it.
    """

    def __init__(self, gateway: Gateway, url: Callable[[str], str]) -> None:
        """Set up without readers; `url` returns the address of a path of the site."""
        self.readers = 0
        self._news = asyncio.Event()
        """Set, and replaced by another, when something is new."""
        self._gateway = gateway
        self._clock = gateway.clock
        self._ladder = LocalLadder(gateway.service, READER)
        self._url = url
        self._newest_missing = 0
        """Number of the newest game that may be missing among the kept ones."""
        self._seq = 0
        """Number of the newest kept game; 0 if there is none."""
        self._games: deque[GameLine] = deque(maxlen=KEPT)
        self._on_tv: TvSchedule | None = None
        self._tv_began_us = 0
        self._shows = 0
        """Games that have been on TV since the start of the server, with the one that is on now."""
        self._shown_ids: deque[str] = deque(maxlen=3 * KEPT)
        """Ids of the games that were on TV lately."""
        self._quiet_polls = 0
        """Polls without news since the readers were woken last."""
        self._alarm: Alarm | None = None
        """The alarm that begins the next poll."""
        self._polling: asyncio.Task[None] | None = None
        self._waking_at_end: asyncio.Task[None] | None = None
        self._made_events: dict[ReaderCursor, tuple[ReaderCursor, str]] = {}
        """The events of this moment by the cursor of their readers, and their cursor after them."""
        self._moment = -1
        """Number of the moment in which these were made, by MOMENT_US."""
        self._is_failing = False
        """True if the last poll failed, so that the next failure need not be logged."""

    async def events(self, seq: int, caller: Caller) -> AsyncGenerator[bytes]:
        """Yield the events for a reader as they come, until the server or the session ends.

        `seq` is the number of the newest game in the reader's list; 0 if the list is empty. Raises
        ApiError if too many streams are open.
        """
        cursor, checked_us = ReaderCursor(seq), self._clock.now_us()
        with self._gateway.stream_slot(caller.address), self.watching():
            while not self._gateway.closing.is_set():
                # First the event to wait for: news that comes while this yields sets it.
                news = self._news
                cursor, text = self.events_after(cursor)
                yield text.encode()
                if not caller.secret_id:
                    await news.wait()  # a visitor has no session that could end meanwhile
                    continue
                # Stop waiting from time to time, to see if the session has ended.
                with suppress(TimeoutError):
                    async with time_limit(self._clock, RECHECK_US):
                        await news.wait()
                try:
                    checked_us = await self._gateway.recheck(caller, checked_us)
                except ApiError:
                    return

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a reader. The first one begins the polls; when the last one leaves, they end."""
        self.readers += 1
        if self._waking_at_end is None:
            # Games that were played while nobody watched are not kept: begin anew.
            self._games.clear()
            self._seq = self._newest_missing = 0
            self._waking_at_end = asyncio.create_task(self._wake_at_end())
            self._begin_poll()
        try:
            yield
        finally:
            self.readers -= 1
            if not self.readers:
                self._stop_polling()

    def events_after(self, cursor: ReaderCursor) -> tuple[ReaderCursor, str]:
        """Return the events that a reader lacks, and the reader's cursor after them.

        Readers with the same cursor, as all that were woken together have, share one text.
        """
        moment = self._clock.now_us() // MOMENT_US
        if moment != self._moment:
            self._made_events.clear()
            self._moment = moment
        events = self._made_events.get(cursor)
        if events is None:
            events = self._made_events[cursor] = self._make_events(cursor)
        return events

    def _make_events(self, cursor: ReaderCursor) -> tuple[ReaderCursor, str]:
        """Write the events that a reader lacks; the first ones of a connection with `retry`.

        A reader who lacks a game that is kept no more is sent `reload`.
        """
        parts: list[str] = []
        if not cursor.has_events:
            # 2 to 8 seconds, by the moment: after a restart not all readers come back at once.
            parts.append(f"retry: {2000 + 611 * self._moment % 6000}\n\n")
        newer_games = [game for game in self._games if game.seq > cursor.seq]
        seq = max(self._seq, cursor.seq)
        if 0 < cursor.seq < self._newest_missing:
            parts.append(_event("reload", [], self._seq))
        elif newer_games:
            lines = [self._game_line(game) for game in newer_games]
            parts.append(_event("games", lines, self._seq))
        if self._on_tv is not None and cursor.shows != self._shows:
            parts.append(_event("tv", self._tv_document(self._on_tv), seq))
        return ReaderCursor(seq, self._shows, has_events=True), "".join(parts)

    def _game_line(self, game: GameLine) -> dict[str, object]:
        """Return a game as a line of the list of newest results."""
        return {
            "id": game.game_id,
            "url": self._url(f"/games/{game.game_id}"),
            "played": f"{minute(game.played_at)} UTC",
            "words": result(game),
        }

    def _tv_document(self, schedule: TvSchedule) -> dict[str, object]:
        """Return the game on TV for a page, with the time that has passed since it began.

        Its words name the bots in the order of their seats: the result is seen at the end.
        """
        return {
            **self._game_line(schedule.game),
            "words": ", ".join(seat.bot for seat in schedule.game.seats),
            "frames": self._url(f"/games/{schedule.game.game_id}/frames.json"),
            "elapsed": (self._clock.now_us() - self._tv_began_us) // 1000,
            "starts": schedule.starts_ms,
        }

    # ----- Polls, as long as there are readers

    def _begin_poll(self) -> None:
        self._alarm = None
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        """Look for news, and set the alarm for the next poll, whatever went wrong with this one.

        Only the first of several failures in a row is logged.
        """
        try:
            await self._look_for_news()
            self._is_failing = False
        except Exception as error:  # noqa: BLE001  (whatever it is, the next poll may succeed)
            if not self._is_failing:
                is_expected = isinstance(error, ApiError | LadderError | InvalidRecord)
                trace = None if is_expected else error
                _log.error("live results have to wait: %s", one_line(str(error)), exc_info=trace)
            self._is_failing = True
        if self.readers and not self._gateway.closing.is_set():
            pause_us = POLL_US if self._quiet_polls else max(POLL_US, REST_US * self.readers)
            self._alarm = self._clock.at(self._clock.now_us() + pause_us, self._begin_poll)

    async def _look_for_news(self) -> None:
        """Read new games, put the next game on TV when one has ended, and wake the readers.

        Without news they are woken after BEAT polls.
        """
        new_games = await self._gateway.in_thread(self._read_new_games)
        for game in new_games:
            if len(self._games) == KEPT:
                self._newest_missing = int(self._games[0].seq)  # the next line drops this game
            self._games.append(game)
            self._seq = int(game.seq)
        tv_is_free = self._on_tv is None or (
            self._clock.now_us() - self._tv_began_us >= 1000 * self._on_tv.length_ms
        )
        schedule = None
        if tv_is_free and self._games:
            game = self._next_for_tv()
            # Before its record is read: a damaged one fails this poll, and not the next one, too.
            self._shown_ids.append(game.game_id)
            schedule = await self._gateway.in_thread(lambda: tv_schedule(self._ladder, game))
        if schedule is not None:
            self._on_tv, self._tv_began_us = schedule, self._clock.now_us()
            self._shows += 1
        self._quiet_polls = 0 if new_games or schedule else self._quiet_polls + 1
        if self._quiet_polls == BEAT:
            self._quiet_polls = 0
        if self._quiet_polls == 0:
            self._made_events.clear()
            self._wake_readers()

    def _wake_readers(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _read_new_games(self) -> list[GameLine]:
        """Return the games after the newest kept one, the oldest first, KEPT at most.

        If none is kept, return the newest games of the ladder.
        """
        if self._seq:
            games: list[GameLine] = []
            for game in self._ladder.feed(after=self._seq):
                if game is None:  # there are no more games for now
                    break
                games.append(game)
                if len(games) == KEPT:
                    break
            return games
        page = self._ladder.games(limit=KEPT)
        if page.older is not None:
            self._newest_missing = int(page.games[-1].seq) - 1
        return list(reversed(page.games))

    def _next_for_tv(self) -> GameLine:
        """Return the game of the strongest bots, of the newest that were not on TV yet.

        When all kept games have been on TV, they may be shown again.
        """
        candidates = [game for game in self._games if game.game_id not in self._shown_ids]
        if not candidates:
            self._shown_ids.clear()
            candidates = list(self._games)
        return max(candidates[-_CANDIDATES:], key=_mean_skill)

    async def _wake_at_end(self) -> None:
        """Wake all readers when the server ends, so that their streams end."""
        await self._gateway.closing.wait()
        self._wake_readers()

    def _stop_polling(self) -> None:
        """Stop the polls after the last reader has left; the next reader begins them again."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for task in (self._polling, self._waking_at_end):
            if task is not None:
                task.cancel()
        self._waking_at_end = None


def tv_schedule(ladder: LadderApi, game: GameLine) -> TvSchedule:
    """Return the schedule of a game that is shown at human pace, from its record."""
    document = frames(read_record(ladder.game(game_id=game.game_id).record))
    starts_ms, time_ms = [], 0
    for frame in document["frames"]:
        starts_ms.append(time_ms)
        # A frame says something when a turn or a dive has ended, or a dive begins.
        if any(text.startswith("dive ") for text in frame["say"]):
            time_ms += DIVE_MS
        elif frame["say"]:
            time_ms += TURN_MS
        else:
            time_ms += FRAME_MS
    return TvSchedule(game, starts_ms, starts_ms[-1] + END_MS)


def _mean_skill(game: GameLine) -> float:
    return sum(seat.mu for seat in game.seats) / len(game.seats)


def _event(kind: str, data: object, event_id: int) -> str:
    """Return a server-sent event; a reader who comes back sends the id of its last one."""
    return f"id: {event_id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
