"""The bot pool: one process for each bot of a match, reused from game to game.

Invariants: each plays a copy of the files that were digested, also after a restart; all are
started at once, or as many as the limit allows; a start that the host delayed
is repeated, and is no fault. A process that exited is restarted for the next game; after
RESTARTS_IN_A_ROW a bot is not restarted and forfeits the remaining games. At the end nothing is
left: no process, no socket, no folder.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from deepsea_referee.bots.output import BotLog, OutputPlan, joined, show_hints
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
        self._folder = SYSTEM.private_folder()
        self._freezer = freezer or Freezer(clock)
        copies = (bot.copied(self._folder / f"bot-{number}") for number, bot in enumerate(bots))
        self._slots = [_Slot(number, bot) for number, bot in enumerate(copies)]
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

    async def ready(self, bot: int, *, suspect: bool = False) -> BotProcess:
        """The bot's process for a new game, restarted if it has exited.

        Raises HostTooBusy for a start that the host delayed; of a suspect it is a start timeout.
        """
        slot = self._slots[bot]
        async with slot.lock:
            if slot.process is None or not slot.process.session.usable:
                late = slot.process is not None and slot.process.missed_start
                tried = slot.restarts == RESTARTS_IN_A_ROW
                if not late and not tried:
                    await self._start_again(slot, suspect)
                elif tried or slot.given is slot.process:
                    what = f"{RESTARTS_IN_A_ROW} restarts in a row" if tried else "a start timeout"
                    slot.given_up = f"not started again after {what}"
            assert slot.process is not None
            slot.given = slot.process
            return slot.process

    def running(self, bot: int) -> BotProcess | None:
        """The same without waiting; None if it has to be started, or is being started."""
        slot = self._slots[bot]
        process = slot.process
        if process is None or not process.session.usable or slot.lock.locked():
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
        """Freeze the bot's process, which does not play now; it is thawed when it is asked."""
        if (process := self._slots[bot].process) is not None:
            process.freeze()

    @property
    def keeps_games_apart(self) -> bool:
        """Whether every bot declares that its games may run at once."""
        running = [slot.process for slot in self._slots]
        return all(bot and CONCURRENT_GAMES in bot.session.features for bot in running)

    def given_up(self, bot: int) -> str:
        """Why the bot is not started any more; "" if it is."""
        return self._slots[bot].given_up

    def output(self, bot: int) -> str:
        """The end of what the bot's present process printed, safe to show."""
        process = self._slots[bot].process
        return "" if process is None else joined(*process.log())

    def finished_game(self, bot: int) -> None:
        """Reset the count of restarts of a bot that still runs at the end of a game."""
        slot = self._slots[bot]
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

    async def _start_once(self, slot: _Slot) -> None:
        slot.starts += 1
        output = self._output.open(slot.number, slot.bot, slot.starts)
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
                await process.start(self._folder / f"{slot.number}-{slot.starts}")
        except (EarlyEnd, RefereeError) as error:
            process.troubled = True
            process.session.fail(
                error if isinstance(error, RefereeError) else BotFault(Fault.CRASH, str(error))
            )
            raise

    async def _end(self, slot: _Slot) -> None:
        process = slot.process
        if process is None:
            return
        await process.stop()
        self.off_turn[slot.number].add(process.off_turn)
        if self._output.hints and slot.starts == 1 and self._output.worker <= 1:
            show_hints(slot.bot.name, joined(*process.log()))
        texts = ("", "")
        if process.troubled and slot.logs < self._output.kept and any(texts := process.log()):
            slot.logs += 1
        if any(texts) or process.output.in_file:
            by, in_file = self._output.worker, process.output.in_file
            self.logs.append(BotLog(slot.number, slot.starts, *texts, by, in_file))

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self._end(slot) for slot in self._slots))
        SYSTEM.remove_folder(self._folder)


class _Slot:
    """A bot of the line-up and its present process."""

    def __init__(self, number: int, bot: BotSpec) -> None:
        self.number = number
        self.bot = bot
        self.process: BotProcess | None = None
        self.starts = 0
        self.restarts = 0
        self.given: BotProcess | None = None
        """The process that the last game got."""
        self.given_up = ""
        self.logs = 0
        self.lock = asyncio.Lock()
