"""The bot pool: processes for the bots of a match, reused from game to game.

Invariants: no process meets a seed twice, so that a bot that remembers all messages knows nothing
of future dice and values. `Meetings` counts the games on each seed: a bot has a slot, with a
process at a time, for each game on one seed; the first one plays the first games of all blocks, the
second one the second games. Games on one seed begin soon after one another, in the order of a
match, so that only recent seeds have to be remembered. Only the pool assigns slots to a game.

Each process plays a copy of the files that were digested, also after a restart. The first processes
of all bots are started at the same time, or as many as the limit allows; further ones are started
for the game that needs them. A start that the host delayed is repeated, and is no fault. A process
that exited is restarted for the next game; after RESTARTS_IN_A_ROW it is not restarted and forfeits
the remaining games. If a cleaner of temporary files has removed its copy, it gets another one and
is restarted for the next game. At the end no process, no socket, and no folder remains.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NewType, Self

from deepsea_bundle.program import MANIFEST
from deepsea_referee.bots.output import BotLog, OutputPlan, joined
from deepsea_referee.bots.process import BotProcess, EarlyEnd, Hosting
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.clock import Clock
from deepsea_referee.errors import BotFault, BotStartError, HostTooBusy, RefereeError
from deepsea_referee.pauses import Freezer, OffTurn
from deepsea_referee.system import SYSTEM
from deepsea_rules.faults import Fault
from deepsea_sdk.wire import CONCURRENT_GAMES

RESTARTS_IN_A_ROW = 3
"""The number of restarts in a row without a finished game, after which a bot is given up."""
STARTS_UNDER_LOAD = 2
"""The number of attempts to start a bot whose start the busy host delays."""
MOST_RUNNING = 96
"""The largest number of processes of a pool.

Each has about eight descriptors, and a bot in Python 25 MiB of memory.
"""
Slot = NewType("Slot", int)
"""The number of a slot of a pool, which `BotPool.table` assigns to a seat of a game."""


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
        """Prepare the pool; a bot without a command gets no process.

        output   the destinations of the bots' output
        freezer  the freezer, shared with other pools whose bots play in the same games
        starts   limits how many bots start at once, shared with the other pools of this process; by
                 default the limit of `hosting`
        """
        self._output = output or OutputPlan()
        self._hosting = hosting
        self._clock = clock
        self._starts = starts or asyncio.Semaphore(hosting.starts_at_once)
        self._sockets = SYSTEM.socket_folder()
        self._folders = [SYSTEM.private_folder(), self._sockets]
        """The folders to remove at the end."""
        self._freezer = freezer or Freezer(clock)
        self._bots = bots
        copies = (bot.copied(self._folders[0] / f"bot-{n}") for n, bot in enumerate(bots))
        self._slots = [_Slot(number, bot) for number, bot in enumerate(copies)]
        self._slots_of_bots = [[Slot(number)] for number in range(len(bots))]
        """The slots of each bot: one for each game on a seed."""
        self._meetings = Meetings()
        self._starts_of_bots = [0] * len(bots)
        """The number of starts of each bot's processes."""
        self._games = 0
        """The number of games that have begun."""
        self.logs: list[BotLog] = []
        self.off_turn = [OffTurn() for _ in bots]
        """The CPU time of each bot's processes outside of their turns."""

    async def __aenter__(self) -> Self:
        """Start the first process of each bot. Raises BotStartError if a bot does not start."""
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
        """Stop all processes, and remove all folders; a cancellation waits until that is done."""
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
        """Assign each seat of a game a slot whose process has not played on the game's seed.

        The slots are occupied within the `with` block. Seats with the same bot get the same slot.

        line_up  the number of the bot in each seat
        """
        slots = []
        for bot, earlier in zip(line_up, self._meetings.begin(seed, line_up), strict=True):
            if earlier == len(self._slots_of_bots[bot]):
                self._slots_of_bots[bot].append(Slot(len(self._slots)))
                self._slots.append(_Slot(bot, self._slots[bot].bot))
            slots.append(self._slots_of_bots[bot][earlier])
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
        """Return the slot's process for a new game, restarted if it has exited.

        A process that is not started again is returned, too: it fails each request, and `given_up`
        has the reason. Raises HostTooBusy if the host delayed the start.

        suspect  True if such a delay counts as a start timeout of the bot
        """
        slot = self._slots[number]
        async with slot.lock:
            if slot.process is None or not slot.process.session.usable or self._lacks_files(slot):
                missed_start = slot.process is not None and slot.process.missed_start
                no_restarts = slot.restarts == RESTARTS_IN_A_ROW
                if not missed_start and not no_restarts:
                    await self._make_room()
                    await self._start_again(slot, suspect)
                elif no_restarts:
                    slot.given_up = f"not started again after {RESTARTS_IN_A_ROW} restarts in a row"
                elif slot.last_used is slot.process:  # an earlier game has the start timeout
                    slot.given_up = "not started again after a start timeout"
            assert slot.process is not None
            slot.last_used = slot.process
            return slot.process

    def running(self, number: Slot) -> BotProcess | None:
        """Return the slot's process for a new game without waiting.

        Return None if it has to be started, or is being started: then `ready` is needed.
        """
        slot = self._slots[number]
        process = slot.process
        if process is None or not process.session.usable or slot.lock.locked():
            return None
        if self._lacks_files(slot):
            return None
        slot.last_used = process
        return process

    async def start_early(self, bot: int) -> None:
        """Start a bot before its first game; `ready` reports an error of the start."""
        slot = self._slots[bot]
        async with slot.lock:
            if slot.process is None:
                await self._start_again(slot, suspect=False)

    def freeze(self, bot: int) -> None:
        """Freeze a bot's processes while the bot does not play; a request thaws the process."""
        for number in self._slots_of_bots[bot]:
            if (process := self._slots[number].process) is not None:
                process.freeze()

    async def dismiss_others(self, bot: int) -> None:
        """End all of a bot's processes except the first; games that need more get new ones."""
        for number in self._slots_of_bots[bot][1:]:
            await self._dismiss(self._slots[number])

    @property
    def keeps_games_apart(self) -> bool:
        """Return True if every bot declares that it can play several games at once."""
        running = [self._slots[numbers[0]].process for numbers in self._slots_of_bots]
        return all(bot and CONCURRENT_GAMES in bot.session.features for bot in running)

    def given_up(self, number: Slot) -> str:
        """Return why the slot's process is never started again; "" if it still is."""
        return self._slots[number].given_up

    def output(self, number: Slot) -> str:
        """Return the end of the output of the slot's process, safe to show."""
        process = self._slots[number].process
        return "" if process is None else joined(*process.log())

    def finished_game(self, number: Slot) -> None:
        """Reset the count of restarts of a process that still runs at the end of a game."""
        slot = self._slots[number]
        if slot.process is not None and slot.process.session.usable:
            slot.restarts = 0

    def _rivals(self, bot: BotSpec) -> Iterator[Path]:
        """Yield the paths of other bots of the match within the copy of this bot's folder.

        An author may keep several bots in one folder. A bot must not see the others there.
        """
        for slot in self._slots:
            if bot.folder and bot.source and slot.bot.source and bot.source != slot.bot.source:
                with contextlib.suppress(ValueError):  # the other bot is not in this folder
                    yield bot.folder / slot.bot.source.relative_to(bot.source)

    async def _start_first(self, slot: _Slot) -> None:
        """Start a bot for the first time. Raises BotStartError if it exits early."""
        try:
            await self._start(slot)
        except EarlyEnd as error:
            message = f"bot {slot.bot.name!r}: {error}"
            raise BotStartError(slot.number, message, error.error) from None

    async def _make_room(self) -> None:
        """End an idle process if there are too many processes.

        The one that has played last is ended: slots take turns, so it will be idle for longest.
        """
        running = [slot for slot in self._slots if slot.process is not None]
        idle = [slot for slot in running if not slot.games and not slot.lock.locked()]
        if len(running) >= MOST_RUNNING and idle:
            await self._dismiss(max(idle, key=lambda slot: slot.last_game))

    async def _dismiss(self, slot: _Slot) -> None:
        """End an idle process; the next game in the slot starts another one."""
        async with slot.lock:
            await self._end(slot)
            slot.process = None

    async def _start_again(self, slot: _Slot, suspect: bool) -> None:
        """Replace the slot's process by a new one, and count the restart.

        The restart does not count if the referee itself has ended the former process. A program
        that exits early raises nothing here: its session fails each request. For `suspect` and
        HostTooBusy see `ready`.
        """
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
        """Start a process for the slot; try again if the host delays the start.

        Raises HostTooBusy if the last attempt is delayed, too, and EarlyEnd if the program exits.
        """
        for _ in range(STARTS_UNDER_LOAD - 1):
            with contextlib.suppress(HostTooBusy):
                await self._start_once(slot)
                return
            await self._end(slot)
        await self._start_once(slot)

    def _lacks_files(self, slot: _Slot) -> bool:
        """Return True if the slot's files were removed, and its process plays in no other game."""
        return slot.games <= 1 and not self._has_files(slot)

    def _has_files(self, slot: _Slot) -> bool:
        """Return True if the slot's copy of the bot's files exists.

        A cleaner of temporary files removes rarely read files first, such as the manifest.
        """
        if self._bots[slot.number].bundle is None:
            return True  # the pool has not made a copy
        assert slot.bot.folder is not None
        return (slot.bot.folder / MANIFEST).exists()

    def _restore_folders(self, slot: _Slot) -> None:
        """Create the folders that a start needs again, if a cleaner has removed them."""
        if not self._sockets.exists():
            self._sockets = SYSTEM.socket_folder()
            self._folders.append(self._sockets)
        if not self._has_files(slot):
            self._folders.append(SYSTEM.private_folder())
            slot.bot = self._bots[slot.number].copied(self._folders[-1])

    async def _start_once(self, slot: _Slot) -> None:
        """Start a process for the slot, and wait until it has connected.

        If that fails, the error is raised, and the process's session fails each request with it.
        """
        self._restore_folders(slot)
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
        """Stop the slot's process, if any; add its CPU time, hints and log to those of the pool."""
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
        stored_logs = sum(log.bot == slot.number and bool(log.text) for log in self.logs)
        if process.troubled and stored_logs < self._output.logs_per_bot:
            texts = process.log()
        in_file = process.output.in_file
        if any(texts) or in_file:
            self.logs.append(
                BotLog(slot.number, slot.start, *texts, self._output.worker, in_file=in_file)
            )

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self._end(slot) for slot in self._slots))
        for folder in self._folders:
            SYSTEM.remove_folder(folder)


class _Slot:
    """A place for one process of a bot at a time, which plays one game on each seed."""

    def __init__(self, number: int, bot: BotSpec) -> None:
        self.number = number
        """The number of the bot."""
        self.bot = bot
        self.process: BotProcess | None = None
        self.start = 0
        """The number of the bot's start that started the process, from 1."""
        self.restarts = 0
        """The number of restarts since the process has last finished a game."""
        self.last_used: BotProcess | None = None
        """The process that the last game has used."""
        self.given_up = ""
        """The reason why no process is started any more; "" if there is none."""
        self.games = 0
        """The number of games in progress that use the slot."""
        self.last_game = 0
        """The number of the pool's games when the last game in this slot began."""
        self.lock = asyncio.Lock()
        """Held while the process is started or ended."""


RECENT_SEEDS = 10_000
"""The number of seeds that are remembered; all games on a seed begin within some hundred games."""


class Meetings:
    """The number of games that the bots of a match have begun on each seed."""

    def __init__(self) -> None:
        self._counts: OrderedDict[bytes, dict[int, int]] = OrderedDict()

    def begin(self, seed: bytes, line_up: Sequence[int]) -> list[int]:
        """Count a game that begins, and return the earlier games on its seed of each seat's bot.

        A bot that the line-up has in several seats is counted once.
        """
        counts = self._counts.setdefault(seed, {})
        earlier = {bot: counts.get(bot, 0) for bot in line_up}
        for bot, games in earlier.items():
            counts[bot] = games + 1
        if len(self._counts) > RECENT_SEEDS:
            self._counts.popitem(last=False)
        return [earlier[bot] for bot in line_up]
