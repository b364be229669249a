"""The bot pool: one process for each bot of a match, reused from game to game.

Invariants: all are started at once. A process that exited is restarted for the next game; after
FAILURES_IN_A_ROW a bot is not restarted and forfeits the remaining games. At the end nothing is
left: no process, no socket, no folder.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from deepsea_referee.bots.bot_output import BotLog, OutputPlan, joined
from deepsea_referee.bots.process import BotProcess, EarlyEnd, Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import BotStartError, RefereeError
from deepsea_referee.sandbox import cleanup
from deepsea_referee.timing.clock import Clock
from deepsea_referee.timing.off_turn import OffTurn
from deepsea_rules.faults import Fault

FAILURES_IN_A_ROW: Final = 3
LOGS_KEPT: Final = 10
"""For each bot: the output of the first starts in which it was at fault."""


class BotPool:
    """The running bots of a match: an async context manager that starts and stops them."""

    def __init__(
        self,
        bots: Sequence[BotSpec],
        hosting: Hosting,
        clock: Clock,
        output: OutputPlan | None = None,
    ) -> None:
        """`output` is what is done with what they print beside keeping its end."""
        self._output = output or OutputPlan()
        self._hosting = hosting
        self._clock = clock
        self._folder = cleanup.private_folder()
        self._places = [_Place(number, self._alone(number, bot)) for number, bot in enumerate(bots)]
        self.logs: list[BotLog] = []
        self.off_turn = [OffTurn() for _ in bots]
        """CPU time of each bot's processes outside of their turns."""

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.TaskGroup() as starts:
                for place in self._places:
                    starts.create_task(self._start_first(place))
        except BaseException as error:
            await self._stop_all()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stopping = asyncio.ensure_future(self._stop_all())
        cancelled = False
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                cancelled = True  # a second Ctrl-C must not leave processes behind
        if cancelled:
            raise asyncio.CancelledError

    async def ready(self, bot: int) -> BotProcess:
        """The bot's process for a new game, restarted if it has exited."""
        place = self._places[bot]
        async with place.lock:
            if place.process is None or not place.process.session.usable:
                late = place.process is not None and place.process.missed_start
                failed = place.failures == FAILURES_IN_A_ROW
                if not late and not failed:
                    await self._start_again(place)
                elif failed or place.given is place.process:
                    what = f"{FAILURES_IN_A_ROW} failures in a row" if failed else "a start timeout"
                    place.given_up = f"not started again after {what}"
            assert place.process is not None
            place.given = place.process
            return place.process

    def given_up(self, bot: int) -> str:
        """Why the bot is not started any more; "" if it is."""
        return self._places[bot].given_up

    def output(self, bot: int) -> str:
        """The end of what the bot's present process printed, safe to show."""
        process = self._places[bot].process
        return "" if process is None else joined(*process.log())

    def finished_game(self, bot: int) -> None:
        """Reset the count of failures of a bot that still runs at the end of a game."""
        place = self._places[bot]
        if place.process is not None and place.process.session.usable:
            place.failures = 0

    def _alone(self, number: int, bot: BotSpec) -> BotSpec:
        """A bot of a single file gets a folder with nothing beside it, as on the ladder."""
        if bot.program is None:
            return bot
        file = self._folder / f"bot-{number}" / Path(bot.command[1]).name
        file.parent.mkdir()
        file.write_bytes(bot.program)
        return replace(bot, command=(bot.command[0], str(file)), folder=file.parent)

    async def _start_first(self, place: _Place) -> None:
        try:
            await self._start(place)
        except EarlyEnd as error:
            message = f"bot {place.bot.name!r}: {error}"
            raise BotStartError(place.number, message, error.error) from None

    async def _start_again(self, place: _Place) -> None:
        await self._end(place)
        with contextlib.suppress(EarlyEnd):
            await self._start(place)
        place.failures += 1  # not after a RefereeError, which is no failure of the bot

    async def _start(self, place: _Place) -> None:
        place.starts += 1
        output = self._output.open(place.number, place.bot.name, place.starts)
        process = place.process = BotProcess(place.bot, self._hosting, self._clock, output)
        try:
            await process.start(self._folder / f"{place.number}-{place.starts}")
        except (EarlyEnd, RefereeError) as error:
            process.troubled = True
            process.session.fail(Fault.CRASH, str(error))
            raise

    async def _end(self, place: _Place) -> None:
        process = place.process
        if process is None:
            return
        await process.stop()
        self.off_turn[place.number].add(process.session.off_turn)
        texts = ("", "")
        if process.troubled and place.logs < LOGS_KEPT and any(texts := process.log()):
            place.logs += 1
        if any(texts) or process.output.in_file:
            by, in_file = self._output.worker, process.output.in_file
            self.logs.append(BotLog(place.number, place.starts, *texts, by, in_file))

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self._end(place) for place in self._places))
        cleanup.remove_folder(self._folder)


class _Place:
    """A bot of the line-up and its present process."""

    def __init__(self, number: int, bot: BotSpec) -> None:
        self.number = number
        self.bot = bot
        self.process: BotProcess | None = None
        self.starts = 0
        self.failures = 0
        self.given: BotProcess | None = None
        """The process that the last game got."""
        self.given_up = ""
        self.logs = 0
        self.lock = asyncio.Lock()
