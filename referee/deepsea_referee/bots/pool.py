"""The bot pool: processes for the bots of a match, reused from game to game.

Invariants: no process meets a seed twice: a bot has a slot, with a process at a time, for each game
on one seed (meetings.py), and only the pool gives slots to a game. Each process plays a copy of the
files that were digested, also after a restart; the first of each bot are started at once, or as
many as the limit allows, further ones for the game that needs them; a start that the host delayed
is repeated, and is no fault. A process that exited is restarted for the next game; after
RESTARTS_IN_A_ROW it is not restarted and forfeits the remaining games. Where a cleaner of temporary
files has removed its copy, it gets another one and is restarted for the next game. At the end
nothing is left: no process, no socket, no folder.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NewType, Self

from deepsea_bundle.manifest import MANIFEST
from deepsea_referee.bots.meetings import Meetings
from deepsea_referee.bots.output import BotLog, OutputPlan, joined
from deepsea_referee.bots.process import BotProcess, EarlyEnd, Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import BotFault, BotStartError, HostTooBusy, RefereeError
from deepsea_referee.system import SYSTEM
from deepsea_referee.timing.clock import Clock
from deepsea_referee.timing.pauses import Freezer, OffTurn
from deepsea_rules.faults import Fault
from deepsea_sdk.wire import CONCURRENT_GAMES

RESTARTS_IN_A_ROW = 3
STARTS_UNDER_LOAD = 2
"""How often a bot is started that cannot be timed because the host is busy."""
MOST_RUNNING = 96
"""Processes that a pool keeps: each has about eight descriptors, and a bot in Python 25 MiB."""
Slot = NewType("Slot", int)
"""A slot of a pool, for a game that is being played; `BotPool.table` gives it."""


class BotPool:
    """The running bots of a match: an async context manager that starts and stops them."""

    def __init__(
        self,
        bots: Sequence[BotSpec],
        hosting: Hosting,
        clock: Clock,
        output: OutputPlan | None = None,
        freezer: Freezer | None = None,
        starts: asyncio.Semaphore | None = None,
    ) -> None:
        """Prepare the pool; a bot without a command gets no process, and plays elsewhere.

        output   what is done with what they print beside keeping its end
        freezer  shared with the other pools whose bots play with these
        starts   the limit of bots that start at once, shared with the other pools of this process;
                 by default that of `hosting`
        """
        self._output = output or OutputPlan()
        self._hosting = hosting
        self._clock = clock
        self._starts = starts or asyncio.Semaphore(hosting.starts_at_once)
        self._sockets = SYSTEM.socket_folder()
        self._folders = [SYSTEM.private_folder(), self._sockets]
        """Those that were made, to be removed at the end."""
        self._freezer = freezer or Freezer(clock)
        self._bots = bots
        copies = (bot.copied(self._folders[0] / f"bot-{n}") for n, bot in enumerate(bots))
        self._slots = [_Slot(number, bot) for number, bot in enumerate(copies)]
        self._of_bots = [[Slot(number)] for number in range(len(bots))]
        """The slots of each bot: one for each game on a seed."""
        self._meetings = Meetings()
        self._starts_of_bots = [0] * len(bots)
        self._games = 0
        self.logs: list[BotLog] = []
        self.off_turn = [OffTurn() for _ in bots]
        """CPU time of each bot's processes outside of their turns."""

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.TaskGroup() as starts:
                for slot in self._slots:
                    if slot.bot.command:
                        starts.create_task(self._start_first(slot))
        except BaseException as error:
            await self._stop_all()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        stopping = asyncio.ensure_future(self._stop_all())
        cancelled = False
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                cancelled = True  # a second Ctrl-C must not leave processes behind
        if cancelled:
            raise asyncio.CancelledError

    @contextlib.contextmanager
    def table(self, line_up: Sequence[int], seed: bytes) -> Iterator[list[Slot]]:
        """Give each seat of a game a slot with a process that has not met its seed.

        line_up  for each seat the number of its bot; one for several seats is one slot
        """
        slots = []
        for bot, earlier in zip(line_up, self._meetings.begin(seed, line_up), strict=True):
            if earlier == len(self._of_bots[bot]):
                self._of_bots[bot].append(Slot(len(self._slots)))
                self._slots.append(_Slot(bot, self._slots[bot].bot))
            slots.append(self._of_bots[bot][earlier])
        self._games += 1
        for number in slots:
            self._slots[number].games += 1
            self._slots[number].last_game = self._games
        try:
            yield slots
        finally:
            for number in slots:
                self._slots[number].games -= 1

    async def ready(self, number: Slot, *, suspect: bool = False) -> BotProcess:
        """The slot's process for a new game, restarted if it has exited.

        Raises HostTooBusy for a start that the host delayed; of a suspect it is a start timeout.
        """
        slot = self._slots[number]
        async with slot.lock:
            if slot.process is None or not slot.process.session.usable or self._is_bare(slot):
                late = slot.process is not None and slot.process.missed_start
                tried = slot.restarts == RESTARTS_IN_A_ROW
                if not late and not tried:
                    await self._make_room()
                    await self._start_again(slot, suspect)
                elif tried or slot.given is slot.process:
                    what = f"{RESTARTS_IN_A_ROW} restarts in a row" if tried else "a start timeout"
                    slot.given_up = f"not started again after {what}"
            assert slot.process is not None
            slot.given = slot.process
            return slot.process

    def running(self, number: Slot) -> BotProcess | None:
        """The same without waiting; None if it has to be started, or is being started."""
        slot = self._slots[number]
        process = slot.process
        if process is None or not process.session.usable or slot.lock.locked():
            return None
        if self._is_bare(slot):
            return None
        slot.given = process
        return process

    async def start_early(self, bot: int) -> None:
        """Start the bot before its first game; `ready` has the outcome."""
        slot = self._slots[bot]
        async with slot.lock:
            if slot.process is None:
                await self._start_again(slot, suspect=False)

    def freeze(self, bot: int) -> None:
        """Freeze the bot's processes, which do not play now; each is thawed when it is asked."""
        for number in self._of_bots[bot]:
            if (process := self._slots[number].process) is not None:
                process.freeze()

    async def dismiss_others(self, bot: int) -> None:
        """End the bot's processes but the first: games that need others get fresh ones."""
        for number in self._of_bots[bot][1:]:
            await self._dismiss(self._slots[number])

    @property
    def keeps_games_apart(self) -> bool:
        """Whether every bot declares that its games may run at once."""
        running = [self._slots[numbers[0]].process for numbers in self._of_bots]
        return all(bot and CONCURRENT_GAMES in bot.session.features for bot in running)

    def given_up(self, number: Slot) -> str:
        """Why the slot's process is not started any more; "" if it is."""
        return self._slots[number].given_up

    def output(self, number: Slot) -> str:
        """The end of what the slot's present process printed, safe to show."""
        process = self._slots[number].process
        return "" if process is None else joined(*process.log())

    def finished_game(self, number: Slot) -> None:
        """Reset the count of restarts of a process that still runs at the end of a game."""
        slot = self._slots[number]
        if slot.process is not None and slot.process.session.usable:
            slot.restarts = 0

    def _rivals(self, bot: BotSpec) -> Iterator[Path]:
        """The places of other bots in this one's folder, if its author keeps them there."""
        for slot in self._slots:
            if bot.folder and bot.source and slot.bot.source and bot.source != slot.bot.source:
                with contextlib.suppress(ValueError):  # it is elsewhere
                    yield bot.folder / slot.bot.source.relative_to(bot.source)

    async def _start_first(self, slot: _Slot) -> None:
        try:
            await self._start(slot)
        except EarlyEnd as error:
            message = f"bot {slot.bot.name!r}: {error}"
            raise BotStartError(slot.number, message, error.error) from None

    async def _make_room(self) -> None:
        """End a process that rests if there are too many.

        The one that played last: slots take turns, so those that rested longest are the next.
        """
        running = [slot for slot in self._slots if slot.process is not None]
        resting = [slot for slot in running if not slot.games and not slot.lock.locked()]
        if len(running) >= MOST_RUNNING and resting:
            await self._dismiss(max(resting, key=lambda slot: slot.last_game))

    async def _dismiss(self, slot: _Slot) -> None:
        """End a process that rests; a game that needs the slot starts another one."""
        async with slot.lock:
            await self._end(slot)
            slot.process = None

    async def _start_again(self, slot: _Slot, suspect: bool) -> None:
        by_referee = slot.process is not None and slot.process.session.ended_by_referee
        await self._end(slot)
        try:
            await self._start(slot)
        except EarlyEnd:
            pass
        except HostTooBusy:
            if not suspect:
                raise
            assert slot.process is not None
            slot.process.missed_start = True
        if not by_referee:
            slot.restarts += 1

    async def _start(self, slot: _Slot) -> None:
        for _ in range(STARTS_UNDER_LOAD - 1):
            with contextlib.suppress(HostTooBusy):
                await self._start_once(slot)
                return
            await self._end(slot)
        await self._start_once(slot)

    def _is_bare(self, slot: _Slot) -> bool:
        """True if a process for one game at a time has no files any more."""
        return slot.games <= 1 and not self._has_files(slot)

    def _has_files(self, slot: _Slot) -> bool:
        """Whether the slot's copy is there. A cleaner removes first what is read least."""
        if self._bots[slot.number].bundle is None:
            return True  # no copy of this pool's
        assert slot.bot.folder is not None
        return (slot.bot.folder / MANIFEST).exists()

    def _look_after_folders(self, slot: _Slot) -> None:
        """Make folders that a start needs again if a cleaner of temporary files removed them."""
        if not self._sockets.exists():
            self._sockets = SYSTEM.socket_folder()
            self._folders.append(self._sockets)
        if not self._has_files(slot):
            self._folders.append(SYSTEM.private_folder())
            slot.bot = self._bots[slot.number].copied(self._folders[-1])

    async def _start_once(self, slot: _Slot) -> None:
        self._look_after_folders(slot)
        self._starts_of_bots[slot.number] += 1
        slot.start = self._starts_of_bots[slot.number]
        output = self._output.open(slot.number, slot.bot, slot.start)
        process = slot.process = BotProcess(
            slot.bot,
            self._hosting,
            self._clock,
            output,
            [path for path in self._rivals(slot.bot) if path.exists()],
            self._freezer,
        )
        try:
            async with self._starts:
                await process.start(self._sockets / f"{slot.number}-{slot.start}")
        except (EarlyEnd, RefereeError) as error:
            process.troubled = True
            process.session.fail(
                error
                if isinstance(error, RefereeError)
                else BotFault(Fault.CRASH, str(error), public=error.public)
            )
            raise

    async def _end(self, slot: _Slot) -> None:
        process = slot.process
        if process is None:
            return
        await process.stop()
        self.off_turn[slot.number].add(process.off_turn)
        if slot.start == 1:
            log = "\n".join(process.log())
            is_reported = process.troubled or process.aborted
            self._output.show_hints(slot.number, slot.bot, log, is_reported=is_reported)
        texts = ("", "")
        logs = sum(log.bot == slot.number and bool(log.text) for log in self.logs)
        if process.troubled and logs < self._output.kept:
            texts = process.log()
        if any(texts) or process.output.in_file:
            by, in_file = self._output.worker, process.output.in_file
            self.logs.append(BotLog(slot.number, slot.start, *texts, by, in_file))

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self._end(slot) for slot in self._slots))
        for folder in self._folders:
            SYSTEM.remove_folder(folder)


class _Slot:
    """A bot's process at present, which plays one game on each seed."""

    def __init__(self, number: int, bot: BotSpec) -> None:
        self.number = number
        """That of the bot."""
        self.bot = bot
        self.process: BotProcess | None = None
        self.start = 0
        """Which of the bot's starts the process is, from 1."""
        self.restarts = 0
        self.given: BotProcess | None = None
        """The process that the last game got."""
        self.given_up = ""
        self.games = 0
        """The games that are being played with it."""
        self.last_game = 0
        """The number of the pool's games when the last of them began."""
        self.lock = asyncio.Lock()
