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
        """Assign a slot to each seat for a game in the `with` block, and yield the slots.

        A slot is a place for one process of a bot. No process of the assigned slots has played on
        the game's seed, so that the bot cannot remember the dice. Seats with the same bot get the
        same slot.

        line_up  the number of the bot in each seat
        seed     the seed of the game
        """
        game_slots = self._assign_slots(line_up, seed)
        self._games += 1
        # Slots of games in progress are not idle: `_make_room` ends none of their processes.
        for number in game_slots:
            self._slots[number].games += 1
            self._slots[number].last_game = self._games
        try:
            yield game_slots
        finally:
            for number in game_slots:
                self._slots[number].games -= 1

    def _assign_slots(self, line_up: Sequence[int], seed: bytes) -> list[Slot]:
        """Return a slot for each seat of a game that begins; new slots are added if necessary.

        A bot's first slot plays its first game on a seed, the second slot the second game.
        """
        game_slots = []
        for bot, earlier_games in zip(line_up, self._meetings.begin(seed, line_up), strict=True):
            bot_slots = self._slots_of_bots[bot]
            if earlier_games == len(bot_slots):
                bot_slots.append(Slot(len(self._slots)))
                # Further slots play the copy of the files that the bot's first slot plays.
                first_slot = self._slots[bot]
                self._slots.append(_Slot(bot, first_slot.bot))
            game_slots.append(bot_slots[earlier_games])
        return game_slots

    async def ready(self, number: Slot, *, suspect: bool = False) -> BotProcess:
        """Return the slot's process for a new game, started or restarted if that is needed.

        If the slot's bot has been given up, the last process is returned: its requests fail, and
        `given_up` has the reason. Raises HostTooBusy if the host delayed the start.

        suspect  True if such a delay counts as a start timeout of the bot
        """
        slot = self._slots[number]
        async with slot.lock:
            if self._needs_start(slot):
                await self._start_or_give_up(slot, suspect)
            assert slot.process is not None
            slot.last_used = slot.process
            return slot.process

    def running(self, number: Slot) -> BotProcess | None:
        """Return the slot's process for a new game, if it runs already.

        Return None if it has to be started or is being started: then call `ready`.
        """
        slot = self._slots[number]
        if slot.lock.locked() or self._needs_start(slot):
            return None
        slot.last_used = slot.process
        return slot.process

    def _needs_start(self, slot: _Slot) -> bool:
        """Return True if the slot has no process that can play a new game."""
        process = slot.process
        return process is None or not process.session.usable or self._lacks_files(slot)

    async def _start_or_give_up(self, slot: _Slot, suspect: bool) -> None:
        """Start a process for the slot, unless its bot is given up.

        A bot is given up after too many restarts in a row, and after a start timeout. Then the
        slot's `given_up` is set to the reason. Raises HostTooBusy if the host delays the start.

        suspect  True if such a delay counts as a start timeout of the bot
        """
        process = slot.process
        if slot.restarts == RESTARTS_IN_A_ROW:
            slot.given_up = f"not started again after {RESTARTS_IN_A_ROW} restarts in a row"
        elif process is not None and process.missed_start:
            # The first game with the process reports the timeout itself, as a fault. Later games
            # report this reason.
            if slot.last_used is process:
                slot.given_up = "not started again after a start timeout"
        else:
            await self._make_room()
            await self._start_again(slot, suspect)

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

    def _rival_paths(self, bot: BotSpec) -> Iterator[Path]:
        """Yield the paths at which a bot could read the files of other bots of the match.

        An author may keep several bots in one folder. Then the copy of the folder has all of them,
        and the bot must not see the others there.
        """
        if not bot.folder or not bot.source:
            return
        for slot in self._slots:
            other_source = slot.bot.source
            if other_source and other_source != bot.source:
                with contextlib.suppress(ValueError):  # the other bot is not in this folder
                    yield bot.folder / other_source.relative_to(bot.source)

    async def _start_first(self, slot: _Slot) -> None:
        """Start a bot for the first time. Raises BotStartError if its program exits too early."""
        try:
            await self._start(slot)
        except EarlyEnd as error:
            message = f"bot {slot.bot.name!r}: {error}"
            raise BotStartError(slot.number, message, error.error) from None

    async def _make_room(self) -> None:
        """End an idle process if there are as many processes as a pool may have.

        Of the idle processes it is the one that has played last: slots play in turn, so this one
        will be idle for the longest time.
        """
        running = [slot for slot in self._slots if slot.process is not None]
        if len(running) < MOST_RUNNING:
            return
        idle = [slot for slot in running if not slot.games and not slot.lock.locked()]
        if idle:
            await self._dismiss(max(idle, key=lambda slot: slot.last_game))

    async def _dismiss(self, slot: _Slot) -> None:
        """End an idle process; the next game in the slot starts another one."""
        async with slot.lock:
            await self._end(slot)
            slot.process = None

    async def _start_again(self, slot: _Slot, suspect: bool) -> None:
        """Replace the slot's process by a new one, and count the restart.

        The restart does not count if the referee itself has ended the former process. If the new
        program exits too early, nothing is raised: its requests fail. Raises HostTooBusy if the
        host delays the start.

        suspect  True if such a delay counts as a start timeout of the bot
        """
        former = slot.process
        was_ended_by_referee = former is not None and former.session.ended_by_referee
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
        if not was_ended_by_referee:
            slot.restarts += 1

    async def _start(self, slot: _Slot) -> None:
        """Start a process for the slot, in STARTS_UNDER_LOAD attempts if the host delays them.

        Raises HostTooBusy if the last attempt is delayed, too. Raises EarlyEnd at once if the
        program exits.
        """
        for _ in range(STARTS_UNDER_LOAD - 1):
            try:
                await self._start_once(slot)
            except HostTooBusy:
                await self._end(slot)
            else:
                return
        await self._start_once(slot)

    def _lacks_files(self, slot: _Slot) -> bool:
        """Return True if the slot's files were removed, and its process plays in no other game."""
        return slot.games <= 1 and not self._has_files(slot)

    def _has_files(self, slot: _Slot) -> bool:
        """Return False if the bot in the slot plays a copy of its files and the copy was removed.

        The system may clean up its temporary files in a long match. Only the manifest is looked
        for: it is read once, so it is among the first to be removed.
        """
        if self._bots[slot.number].bundle is None:
            return True  # the bot plays from its own folder
        assert slot.bot.folder is not None
        return (slot.bot.folder / MANIFEST).exists()

    def _restore_folders(self, slot: _Slot) -> None:
        """Make new folders for sockets and for the bot's files, where the system removed them."""
        if not self._sockets.exists():
            self._sockets = SYSTEM.socket_folder()
            self._folders.append(self._sockets)
        if not self._has_files(slot):
            self._folders.append(SYSTEM.private_folder())
            slot.bot = self._bots[slot.number].copied(self._folders[-1])

    async def _start_once(self, slot: _Slot) -> None:
        """Start a process for the slot, and wait until it has connected.

        If that fails, the error is raised. The process stays in the slot, and its requests fail
        with the same error.
        """
        self._restore_folders(slot)
        self._starts_of_bots[slot.number] += 1
        slot.start = self._starts_of_bots[slot.number]
        output = self._output.open(slot.number, slot.bot, slot.start)
        hidden_paths = [path for path in self._rival_paths(slot.bot) if path.exists()]
        process = BotProcess(
            slot.bot, self._hosting, self._clock, output, hidden_paths, self._freezer
        )
        slot.process = process
        try:
            async with self._starts:  # limits how many bots start at once
                await process.start(self._sockets / f"{slot.number}-{slot.start}")
        except RefereeError as error:
            process.troubled = True
            process.session.fail(error)
            raise
        except EarlyEnd as error:
            process.troubled = True
            process.session.fail(BotFault(Fault.CRASH, str(error), public=error.public))
            raise

    async def _end(self, slot: _Slot) -> None:
        """Stop the slot's process, if it has one, and add its CPU time and log to the pool's.

        The hints in the output of a bot's first process are shown to its author.
        """
        process = slot.process
        if process is None:
            return
        await process.stop()
        self.off_turn[slot.number].add(process.off_turn)  # CPU time outside of turns
        if slot.start == 1:
            log = "\n".join(process.log())
            is_reported = process.troubled or process.aborted
            self._output.show_hints(slot.number, slot.bot, log, is_reported=is_reported)
        self._add_log(slot, process)

    def _add_log(self, slot: _Slot, process: BotProcess) -> None:
        """Add the output of a stopped process to `logs`.

        The text is stored only if the bot was at fault, and for at most `logs_per_bot` processes of
        a bot. A process whose output is in a file is listed even without a text.
        """
        logs_with_text = sum(1 for log in self.logs if log.bot == slot.number and log.text)
        stdout, stderr = "", ""
        if process.troubled and logs_with_text < self._output.logs_per_bot:
            stdout, stderr = process.log()
        in_file = process.output.in_file
        if stdout or stderr or in_file:
            worker = self._output.worker
            self.logs.append(
                BotLog(slot.number, slot.start, stdout, stderr, worker, in_file=in_file)
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
        """Count a game that begins, and return for each seat the earlier games of its bot.

        Only games on the same seed count. A bot in several seats of one game plays one game.

        line_up  the number of the bot in each seat
        """
        counts = self._counts.setdefault(seed, {})
        earlier_games = {bot: counts.get(bot, 0) for bot in line_up}
        for bot, games in earlier_games.items():
            counts[bot] = games + 1
        if len(self._counts) > RECENT_SEEDS:
            self._counts.popitem(last=False)  # the oldest seed
        return [earlier_games[bot] for bot in line_up]
