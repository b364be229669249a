"""Plays jobs of the ladder with the referee, in a worker process.

Start reading at `worker` and `RatedGamePlayer.play`.

Invariants: a bot runs from the files that were submitted, checked by their digest, and with the
season's isolation or not at all; an error of the referee voids the game; a bot that does not start
forfeits only its own seat.

Bot processes are reused from game to game, with any other bots: starting them takes longer than a
game. The bots of the next job are started beside the present game. If a start lacks descriptors,
users, processes or memory, the bot that has rested longest is ended, and the start is tried again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deepsea_arena.tasks import FinishedGame, Outcome, is_shortage, outcome_of_error
from deepsea_bundle.atomic import BotCache
from deepsea_bundle.errors import BundleError
from deepsea_ladder.model import BotVersion, GameNote, Job, SeatLog
from deepsea_ladder.season import BotLimits, Season
from deepsea_referee.bots.pool import BotPool, Slot
from deepsea_referee.bots.process import BotProcess, Hosting
from deepsea_referee.bots.resolve import BotSpec, unpacked_bot
from deepsea_referee.clock import SystemClock
from deepsea_referee.errors import RefereeError
from deepsea_referee.pauses import Freezer
from deepsea_referee.play_game import play_game
from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.cgroup import hierarchies
from deepsea_referee.sandbox.interface import MIB, ResourceLimits, SandboxUnavailable
from deepsea_referee.sandbox.probe import choose
from deepsea_referee.system import free_descriptors, open_many_files
from deepsea_referee.system.gauge import BotGauge, WallGauge
from deepsea_referee.workers import Link
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import PlayedGame, RefereedGame

MOST_RUNNING_BOTS = 128
"""Largest number of bots that a worker keeps running."""
DESCRIPTORS_OF_A_BOT = 12
"""Number of open files for a bot that starts; a running one has about eleven."""
SPARE_DESCRIPTORS = 24
"""Number of open files that must stay free beside those of bots.

gRPC does not report that it cannot accept a bot's connection: the bot would seem late.
"""
MEMORY_SHARE_OF_OTHERS = 4
"""Resting bots leave one byte of memory in this number to other programs."""
GAMES_OF_A_PROCESS = 200
"""Number of games after which a bot is restarted."""
StartPool = Callable[[], BotPool]
"""Makes the pool of one bot. It does not start the process yet."""


@contextmanager
def worker(link: Link, starts_at_once: int = 1) -> Iterator[Callable[[Job], Outcome]]:
    """Set up a worker with a folder of its own for bots, and yield its function that plays a job.

    starts_at_once  number of bots that may start at once, by the worker's share of the CPUs; 1 is
                    right where the number of other workers is not known
    """
    starts = asyncio.Semaphore(starts_at_once)
    open_many_files()
    with (
        own_folder() as folder,
        closing(RatedGamePlayer(BotCache(folder, link.file), link, starts)) as player,
    ):
        yield player.play


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield a private folder, which is removed when the body ends."""
    folder = cleanup.private_folder()
    try:
        yield folder
    finally:
        cleanup.remove_folder(folder)


class RatedGamePlayer:
    """The event loop in which one worker plays, and the bots that run there."""

    def __init__(self, folders: BotCache, link: Link, starts: asyncio.Semaphore) -> None:
        """Make a player of jobs; `starts` limits the bots that start at once."""
        self._folders = folders
        self._link = link
        self._starts = starts
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._clock = SystemClock()
        self._freezer = Freezer(self._clock)
        self._bots = RunningBots()
        self._unstarted: dict[Hashable, BotSpec] = {}
        """Bots of the next job that were read and do not run yet."""
        self._unpacking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Locks by digest, held while a bot's files are unpacked, so that this is done once."""
        self._next: Job | None = None
        self._preparing: asyncio.Task[None] | None = None
        link.on_next(self._on_next)

    def play(self, job: Job) -> Outcome:
        """Play the job's game. A request to stop ends the game, and the worker with it."""
        if self._folders.has_lost(version.digest for version in job.seats):
            self._link.leave()
        try:
            return self._runner.run(self._play(job))
        except asyncio.CancelledError:
            raise SystemExit(0) from None
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            return outcome_of_error(error)

    def close(self) -> None:
        """End all bots and the event loop."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._runner.run(self._bots.close())
        self._runner.close()

    async def _play(self, job: Job) -> Outcome:
        """Play the job's game, and return its record with the logs of bots.

        An error of the referee makes the game void, and ends its bots.
        """
        task = asyncio.current_task()
        assert task is not None
        self._link.on_stop(partial(self._loop.call_soon_threadsafe, task.cancel))
        if self._next == job:
            self._next = None
        season = job.season
        seats = [(version.label, version.digest) for version in job.seats]
        game = Game(season.rules, len(seats), job.seed)
        refereed = RefereedGame(game, job.game_id, TimeControl.parse(season.clock), seats)
        refereed.is_public = True
        bots = self._line_up(job)
        keys = [key for key, _ in bots]
        try:
            line_up = self._bots.seat(bots, season.limits.memory_mib * MIB)
            with line_up.table(job.seed) as slots:
                played = await play_game(refereed, line_up, slots, suspects=suspects(job))
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            self._bots.dismiss(keys)
            return outcome_of_error(error)
        notes = _notes_by_seat(played)
        logs = []
        for seat in sorted({report.seat for report in played.faults} | notes.keys()):
            faults = _faults_of(played.faults, seat)
            output = line_up.output(seat) if faults else ""
            logs.append(SeatLog(seat, seats[seat][0], faults, output, tuple(notes.get(seat, ()))))
        self._bots.dismiss([keys[forfeit.seat] for forfeit in played.record.forfeits])
        if self._next is None:  # no game follows at once
            self._bots.freeze()
        return FinishedGame(played.record.to_json(), tuple(logs))

    def _on_next(self, job: Job) -> None:
        """Prepare for the job that follows the present one.

        The link calls this in another thread. Bots are unpacked and read there, since clocks of the
        present game are running in the event loop.
        """
        self._next = job
        for (key, _), version in zip(self._line_up(job), job.seats, strict=True):
            if key not in self._bots:
                with suppress(Exception):  # the error comes again in the game, and is reported
                    self._unstarted[key] = self._bot(version)
        self._loop.call_soon_threadsafe(self._begin_to_prepare, job)

    def _begin_to_prepare(self, job: Job) -> None:
        """Start the bots of a job in the background; called in the event loop."""
        self._preparing = self._loop.create_task(self._prepare(job))

    async def _prepare(self, job: Job) -> None:
        """Start the missing bots of a job one by one, which disturbs the present game less."""
        for key, make in self._line_up(job):
            with suppress(Exception):  # the error comes again in the game, and is reported
                await self._bots.prepare(key, make)

    def _line_up(self, job: Job) -> list[tuple[Hashable, StartPool]]:
        """Return for each seat of a job the key of its running bot, and the function for its pool.

        Bots with the same key may be the same process: they have the same files, name and limits.
        """
        season = job.season
        keys = [
            (season.isolation, season.limits, version.digest, version.label)
            for version in job.seats
        ]
        return [
            (key, partial(self._pool, season, version, key))
            for key, version in zip(keys, job.seats, strict=True)
        ]

    def _pool(self, season: Season, version: BotVersion, key: Hashable) -> BotPool:
        """Return a pool for a version's bot, which was perhaps read before."""
        bot = self._unstarted.pop(key, None) or self._bot(version)
        settings = hosting(season.isolation, season.limits)
        return BotPool([bot], settings, self._clock, freezer=self._freezer, starts=self._starts)

    def _bot(self, version: BotVersion) -> BotSpec:
        """Return a version's bot, unpacked; one thread at a time unpacks it."""
        with self._unpacking[version.digest]:
            return bot_of(version, self._folders)


def suspects(job: Job) -> tuple[int, ...]:
    """Return the seats whose bots are suspected of causing the delays of their void games.

    A decision of such a seat that the host delays is a timeout, and does not void the game. Where
    the kernel does not report how long a bot as a whole had to wait for the CPU, threads of the bot
    can feign a delay by the host: there one void game of a version in a season is enough.
    """
    measures_pressure = job.season.isolation != "process" and hierarchies().pressure is not None
    return job.void_seats if measures_pressure else job.suspects


def bot_of(version: BotVersion, folders: BotCache) -> BotSpec:
    """Return a version's bot, unpacked from its files.

    Raises RefereeError if the files are damaged or have another digest.
    """
    digest, label = version.digest, version.label
    try:
        bot = unpacked_bot(folders(digest), label)
    except BundleError as error:
        raise RefereeError(f"the files of {label} are damaged: {error}") from None
    if bot.digest != digest:
        raise RefereeError(f"the files of {label} have the digest {bot.digest}, not {digest}")
    return bot


def _notes_by_seat(played: PlayedGame) -> dict[int, list[GameNote]]:
    """Return the notes of each seat's bot; a seat without notes is missing."""
    decisions = played.record.decisions
    notes_by_seat: dict[int, list[GameNote]] = {}
    for number, note in played.notes.items():
        notes_by_seat.setdefault(decisions[number].seat, []).append(GameNote(number, *note))
    return notes_by_seat


def _faults_of(faults: Sequence[FaultReport], seat: int) -> str:
    """Return a seat's faults in a game, one in a line, with each error text once."""
    lines: dict[str, None] = {}  # a set that remembers the order
    for report in faults:
        if report.seat == seat:
            lines[f"decision {report.decision}: {report.explanation()}"] = None
            lines[report.error] = None
    return "\n".join(filter(None, lines))


def hosting(isolation: str, limits: BotLimits | None = None) -> Hosting:
    """Return how a season's bots are run: isolation, clock and resource limits.

    Raises SandboxUnavailable if the required sandbox or control groups do not work.
    """
    limits = limits or BotLimits()
    if limits.require_cgroups and (missing := hierarchies().missing()):
        raise SandboxUnavailable(
            f"this season requires control groups, and here are none for {', '.join(missing)}: "
            "see `deepsea-referee doctor`"
        )
    level = choose("process" if isolation == "process" else "sandbox")
    # In a sandbox without control groups the CPU time of some processes is unknown.
    counts_bot_cpu = level.counts_every_process or level.name == "process"
    return Hosting(
        isolation=level,
        gauge=BotGauge if counts_bot_cpu else WallGauge,
        limits=ResourceLimits(
            memory_bytes=limits.memory_mib * MIB,
            processes=limits.processes,
        ),
    )


@dataclass(slots=True)
class _Running:
    """A running bot: its pool, and the number of games that its process has played."""

    pool: BotPool
    games: int = 0


class RunningBots:
    """The running bots by their keys, in the order of their last games, the newest last."""

    def __init__(
        self,
        most: int = MOST_RUNNING_BOTS,
        games: int = GAMES_OF_A_PROCESS,
        free_memory: Callable[[], int] | None = None,
        free_descriptors: Callable[[], int] = free_descriptors,
    ) -> None:
        """Make an empty set of bots.

        most              largest number of running bots
        games             number of games after which a bot is restarted
        free_memory       returns the bytes that resting bots may use; None: what others can spare
        free_descriptors  returns the number of files that can still be opened
        """
        self._most = most
        self._free_descriptors = free_descriptors
        self._games = games
        self._free_memory = free_memory or _spare_memory
        self._bots: dict[Hashable, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._bots

    async def prepare(self, key: Hashable, make: StartPool) -> None:
        """Start a bot that will play soon, unless it runs, or descriptors are scarce."""
        if key not in self._bots and not self._has_descriptors(starts=1):
            return
        await self._running(key, make).pool.start_early(0)

    def seat(self, bots: Sequence[tuple[Hashable, StartPool]], reserve: int) -> LineUp:
        """Return the bots of a game by seat; `play_game` starts those that do not run.

        Others are ended if descriptors or memory are scarce, and frozen if not.

        reserve  bytes of memory that must stay available
        """
        keys = [key for key, _ in bots]
        missing_bots = len({*keys} - self._bots.keys())
        resting_keys = [key for key in self._bots if key not in keys]
        for key in resting_keys:
            if self._has_descriptors(missing_bots):
                break
            self._dismiss(key)
        for key, make in bots:
            self._running(key, make).games += 1
            self._bots[key] = self._bots.pop(key)  # to the end, since it plays last
        self._shrink(keys, reserve)
        for key, running in self._bots.items():
            if key not in keys:
                running.pool.freeze(0)
        make_room = partial(self._dismiss_longest_rested, keys)
        return LineUp([self._bots[key].pool for key in keys], make_room)

    def dismiss(self, keys: Collection[Hashable]) -> None:
        """End the bots with these keys, and those that have played enough games."""
        for key in [key for key, running in self._bots.items() if running.games >= self._games]:
            self._dismiss(key)
        for key in keys:
            if key in self._bots:
                self._dismiss(key)

    def freeze(self) -> None:
        """Freeze all bots until the next game."""
        for running in self._bots.values():
            running.pool.freeze(0)

    async def close(self) -> None:
        """End all bots, and wait until they have ended."""
        for key in [*self._bots]:
            self._dismiss(key)
        await asyncio.gather(*self._ending)

    def _running(self, key: Hashable, make: StartPool) -> _Running:
        """Return the bot with this key; if there is none, make its pool."""
        if key not in self._bots:
            self._bots[key] = _Running(make())
        return self._bots[key]

    def _shrink(self, playing: Collection[Hashable], reserve: int) -> None:
        """End resting bots, those that rest longest first, while bots or memory are too many.

        Bots with the keys in `playing` stay. Stop when `reserve` bytes of memory are free.
        """
        for key in [key for key in self._bots if key not in playing]:
            if len(self._bots) <= self._most and self._free_memory() >= reserve:
                return
            self._dismiss(key)

    def _has_descriptors(self, starts: int) -> bool:
        """Return True if this number of bots can start.

        Bots that are ending count as ended, since a start waits for that if need be.
        """
        needed = SPARE_DESCRIPTORS + DESCRIPTORS_OF_A_BOT * (starts - len(self._ending))
        return self._free_descriptors() >= needed

    async def _dismiss_longest_rested(self, playing: Collection[Hashable]) -> bool:
        """End the bot that rests longest and is not among `playing`, and wait until one has ended.

        Return False if no bot rests and none is ending.
        """
        resting = [key for key in self._bots if key not in playing]
        if resting:
            self._dismiss(resting[0])
        if not self._ending:
            return False
        await asyncio.wait([*self._ending])
        return True

    def _dismiss(self, key: Hashable) -> None:
        """End a bot in the background, so that games go on meanwhile."""
        running = self._bots.pop(key)
        ending = asyncio.ensure_future(running.pool.__aexit__(None, None, None))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


class LineUp:
    """The bots of a game as `play_game` needs them."""

    def __init__(self, pools: Sequence[BotPool], make_room: Callable[[], Awaitable[bool]]) -> None:
        """Make the line-up of a game from the pool of each seat's bot.

        `make_room` ends a resting bot when a start lacks something; it returns False if there is
        none.
        """
        self._pools = pools
        self._make_room = make_room
        self._slots: list[Slot] = []

    @contextmanager
    def table(self, seed: bytes) -> Iterator[Sequence[Slot]]:
        """Give each seat a process that does not know the seed. The slots are numbered by seat."""
        with ExitStack() as opened:
            tables = [pool.table([0], seed) for pool in self._pools]
            self._slots = [opened.enter_context(table)[0] for table in tables]
            yield [Slot(seat) for seat in range(len(self._slots))]

    def running(self, seat: Slot) -> BotProcess | None:
        """Return the seat's process if it runs already; else None."""
        return self._pools[seat].running(self._slots[seat])

    async def ready(self, seat: Slot, *, suspect: bool = False) -> BotProcess:
        """Return the seat's process for a new game, started if need be.

        If the start lacks something of the machine, resting bots are ended one by one.
        """
        while True:
            try:
                return await self._pools[seat].ready(self._slots[seat], suspect=suspect)
            except Exception as error:
                if not is_shortage(error) or not await self._make_room():
                    raise

    def given_up(self, seat: Slot) -> str:
        """Return why the seat's process is not started any more; "" if it is."""
        return self._pools[seat].given_up(self._slots[seat])

    def finished_game(self, seat: Slot) -> None:
        """Note that the seat's process lasted until the end of a game."""
        self._pools[seat].finished_game(self._slots[seat])

    def output(self, seat: int) -> str:
        """Return the end of the output of the seat's present process, safe to show."""
        return self._pools[seat].output(self._slots[seat])


def _spare_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes of memory that resting bots may use.

    These are the available ones less a share of all memory for other programs. Where the system
    does not say what is available, the number is so large that it limits nothing.
    """
    lines = (line.split() for line in meminfo.read_text(encoding="ascii").splitlines())
    kib = {fields[0]: int(fields[1]) for fields in lines}
    if "MemAvailable:" not in kib:
        return 1 << 62  # no limit
    return 1024 * (kib["MemAvailable:"] - kib["MemTotal:"] // MEMORY_SHARE_OF_OTHERS)
