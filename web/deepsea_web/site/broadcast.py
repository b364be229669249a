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
        cursor = ReaderCursor(seq)
        checked_us = self._clock.now_us()  # the time when the session was last checked
        with self._gateway.stream_slot(caller.address), self.watching():
            while not self._gateway.closing.is_set():
                # The asyncio.Event of the next news. It is taken before the text is made, so that
                # news that come while this generator yields are not missed.
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
        """Count a reader during the context, and poll the store while there is any reader."""
        self.readers += 1
        is_polling = self._waking_at_end is not None
        if not is_polling:
            self._begin_polling()
        try:
            yield
        finally:
            self.readers -= 1
            if not self.readers:
                self._stop_polling()

    def events_after(self, cursor: ReaderCursor) -> tuple[ReaderCursor, str]:
        """Return the reader's cursor after the events that the reader lacks, and their text.

        Readers that are woken together have the same cursor. So the text is made once for each
        cursor, and is kept for a moment, MOMENT_US.
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
        """Return the reader's cursor after the events that the reader lacks, and their text.

        The events are the newer games and a new game on TV. A reader who lacks a game that is no
        longer kept gets the event `reload` in place of games.
        """
        parts: list[str] = []
        if not cursor.has_events:
            # The time after which the browser connects again if the connection breaks, in
            # milliseconds. It is 2 to 8 seconds, and changes from moment to moment: after a restart
            # of the server not all readers come back at once.
            parts.append(f"retry: {2000 + 611 * self._moment % 6000}\n\n")
        newer_games = [game for game in self._games if game.seq > cursor.seq]
        newest_seq = max(self._seq, cursor.seq)
        lacks_dropped_game = 0 < cursor.seq < self._newest_missing
        if lacks_dropped_game:
            parts.append(_event("reload", [], self._seq))
        elif newer_games:
            lines = [self._game_line(game) for game in newer_games]
            parts.append(_event("games", lines, self._seq))
        if self._on_tv is not None and cursor.shows != self._shows:
            parts.append(_event("tv", self._tv_document(self._on_tv), newest_seq))
        return ReaderCursor(newest_seq, self._shows, has_events=True), "".join(parts)

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

        The time is in milliseconds. The words name the bots by seat, and not the result, which the
        reader sees at the end.
        """
        return {
            **self._game_line(schedule.game),
            "words": ", ".join(seat.bot for seat in schedule.game.seats),
            "frames": self._url(f"/games/{schedule.game.game_id}/frames.json"),
            "elapsed": (self._clock.now_us() - self._tv_began_us) // 1000,
            "starts": schedule.starts_ms,
        }

    # ----- Polls, as long as there are readers

    def _begin_polling(self) -> None:
        """Begin to poll for the first reader, without the games that were played before."""
        self._games.clear()
        self._seq = self._newest_missing = 0
        self._waking_at_end = asyncio.create_task(self._wake_at_end())
        self._begin_poll()

    def _begin_poll(self) -> None:
        self._alarm = None
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        """Look for news, and set the alarm for the next poll, even if this one fails.

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
            pause_us = POLL_US
            woke_readers = self._quiet_polls == 0
            if woke_readers:  # leave time to send something to each of them
                pause_us = max(POLL_US, REST_US * self.readers)
            self._alarm = self._clock.at(self._clock.now_us() + pause_us, self._begin_poll)

    async def _look_for_news(self) -> None:
        """Read new games, put the next game on TV when one has ended, and wake the readers.

        If BEAT polls in a row bring no news, wake the readers too, so that their streams send a
        comment.
        """
        new_games = await self._gateway.in_thread(self._read_new_games)
        self._keep_games(new_games)
        has_new_show = False
        if self._games and self._tv_is_free():
            await self._put_next_game_on_tv()
            has_new_show = True
        self._quiet_polls += 1
        if new_games or has_new_show or self._quiet_polls == BEAT:
            self._quiet_polls = 0
            self._made_events.clear()
            self._wake_readers()

    def _keep_games(self, new_games: Sequence[GameLine]) -> None:
        """Add new games to the kept ones, of which the oldest are dropped beyond KEPT."""
        for game in new_games:
            if len(self._games) == KEPT:
                self._newest_missing = int(self._games[0].seq)  # `append` drops this game
            self._games.append(game)
            self._seq = int(game.seq)

    def _tv_is_free(self) -> bool:
        """Return True if no game is on TV, or the time of the one that is on has passed."""
        if self._on_tv is None:
            return True
        shown_ms = (self._clock.now_us() - self._tv_began_us) // 1000
        return shown_ms >= self._on_tv.length_ms

    async def _put_next_game_on_tv(self) -> None:
        """Choose a kept game and begin to show it. Raises an error if its record is damaged."""
        game = self._next_for_tv()
        # Noted before the record is read, so that a damaged game fails one poll, and not all.
        self._shown_ids.append(game.game_id)
        schedule = await self._gateway.in_thread(lambda: tv_schedule(self._ladder, game))
        self._on_tv, self._tv_began_us = schedule, self._clock.now_us()
        self._shows += 1

    def _wake_readers(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _read_new_games(self) -> list[GameLine]:
        """Return the games after the newest kept one, KEPT at most, the oldest first.

        If none is kept, because the first reader has just come, return the ladder's newest games.
        """
        if not self._seq:
            page = self._ladder.games(limit=KEPT)  # newest first
            if page.older is not None:  # there are games before the oldest of these
                self._newest_missing = int(page.games[-1].seq) - 1
            return list(reversed(page.games))
        new_games: list[GameLine] = []
        for game in self._ladder.feed(after=self._seq):
            if game is None:  # there are no more games for now
                break
            new_games.append(game)
            if len(new_games) == KEPT:
                break
        return new_games

    def _next_for_tv(self) -> GameLine:
        """Return the kept game to show next.

        Of the _CANDIDATES newest games that were not on TV yet it is the one with the strongest
        bots. When all kept games have been on TV, they may be shown again.
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
    """Return the times at which the frames of a game are shown, so that people can follow it."""
    document = frames(read_record(ladder.game(game_id=game.game_id).record))
    starts_ms: list[int] = []
    next_start_ms = 0
    for frame in document["frames"]:
        starts_ms.append(next_start_ms)
        # A frame has sentences when a turn or a dive has ended, or a dive begins.
        sentences = frame["say"]
        if any(sentence.startswith("dive ") for sentence in sentences):
            next_start_ms += DIVE_MS
        elif sentences:
            next_start_ms += TURN_MS
        else:
            next_start_ms += FRAME_MS
    return TvSchedule(game, starts_ms, length_ms=starts_ms[-1] + END_MS)


def _mean_skill(game: GameLine) -> float:
    return sum(seat.mu for seat in game.seats) / len(game.seats)


def _event(kind: str, data: object, event_id: int) -> str:
    """Return a server-sent event; a reader who comes back sends the id of its last one."""
    return f"id: {event_id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
