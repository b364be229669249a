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

from deepsea_arena.tasks import FinishedGame, JobOutcome, is_shortage, outcome_of_error
from deepsea_bundle.atomic import BotCache
from deepsea_bundle.errors import BundleError
from deepsea_ladder.model import BotVersion, GameNote, Job, SeatLog
from deepsea_ladder.season import BotLimits, SeasonSettings
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
def worker(link: Link, starts_at_once: int = 1) -> Iterator[Callable[[Job], JobOutcome]]:
    """Set up a worker with its own folder for bots, and yield the function that plays one job.

    `starts_at_once` is the number of bots that may start at the same time, which depends on the
    worker's share of the CPUs; 1 is right if the number of other workers is not known.
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

    def play(self, job: Job) -> JobOutcome:
        """Play the game of a job, and return its outcome; an error makes the game void.

        A request to stop ends the game, and the worker process with it.
        """
        if self._folders.has_lost(version.digest for version in job.seats):
            # A cleaner of /tmp has removed files of a bot: another worker takes over.
            self._link.leave()
        try:
            return self._runner.run(self._play(job))
        except asyncio.CancelledError:  # a request to stop
            raise SystemExit(0) from None
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            return outcome_of_error(error)

    def close(self) -> None:
        """End all bots and the event loop."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._runner.run(self._bots.close())
        self._runner.close()

    async def _play(self, job: Job) -> JobOutcome:
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
        bots = self._keys_and_pools(job)
        keys = [key for key, _ in bots]
        try:
            line_up = self._bots.line_up(bots, season.limits.memory_mib * MIB)
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
        """Unpack the bots of the job that follows the present one, and have them started.

        The link calls this in a thread of its own. The event loop of the present game must not wait
        for files, since its clocks are running.
        """
        self._next = job
        for version in job.seats:
            key = _process_key(job.season, version)
            if key not in self._bots:
                with suppress(Exception):  # the error comes again in the game, and is reported
                    self._unstarted[key] = self._spec(version)
        self._loop.call_soon_threadsafe(self._begin_to_prepare, job)

    def _begin_to_prepare(self, job: Job) -> None:
        """Start the bots of a job in the background; called in the event loop."""
        self._preparing = self._loop.create_task(self._prepare(job))

    async def _prepare(self, job: Job) -> None:
        """Start the missing bots of a job one by one, which disturbs the present game less."""
        for key, make in self._keys_and_pools(job):
            with suppress(Exception):  # the error comes again in the game, and is reported
                await self._bots.prepare(key, make)

    def _keys_and_pools(self, job: Job) -> list[tuple[Hashable, StartPool]]:
        """Return, for each seat of a job, the key of its bot and a function that makes its pool."""
        season = job.season
        keys_and_pools: list[tuple[Hashable, StartPool]] = []
        for version in job.seats:
            key = _process_key(season, version)
            keys_and_pools.append((key, partial(self._pool, season, version, key)))
        return keys_and_pools

    def _pool(self, season: SeasonSettings, version: BotVersion, key: Hashable) -> BotPool:
        """Return a pool for a version's bot, which was perhaps read before."""
        spec = self._unstarted.pop(key, None) or self._spec(version)
        settings = hosting(season.isolation, season.limits)
        return BotPool([spec], settings, self._clock, freezer=self._freezer, starts=self._starts)

    def _spec(self, version: BotVersion) -> BotSpec:
        """Return a version as a bot for the referee, unpacked; one thread at a time unpacks it."""
        with self._unpacking[version.digest]:
            return spec_of_version(version, self._folders)


def _process_key(season: SeasonSettings, version: BotVersion) -> Hashable:
    """Return the key of the process that plays a version in a season.

    Games whose versions have the same key can use the same process, since its files, name and
    limits are the same.
    """
    return (season.isolation, season.limits, version.digest, version.label)


def suspects(job: Job) -> tuple[int, ...]:
    """Return the seats of a job whose bots may have caused the delay that made a game void before.

    If such a seat is delayed in this game, that counts as its timeout, and the game is not void
    again. Usually only a former attempt at the same game counts. But if the kernel does not report
    how long a bot had to wait for the CPU, a bot can feign a delay with threads of its own. Then
    one void game of its version in the season is enough.
    """
    knows_waiting_times = job.season.isolation != "process" and hierarchies().pressure is not None
    return job.void_seats if knows_waiting_times else job.suspects


def spec_of_version(version: BotVersion, folders: BotCache) -> BotSpec:
    """Return a version as a bot for the referee; `folders` unpacks its files.

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
    """Return what the bots of a game noted beside their decisions, by seat.

    A seat without notes is missing.
    """
    notes_by_seat: dict[int, list[GameNote]] = {}
    for decision_number, note in played.notes.items():
        seat = played.record.decisions[decision_number].seat
        game_note = GameNote(decision_number, *note)
        notes_by_seat.setdefault(seat, []).append(game_note)
    return notes_by_seat


def _faults_of(faults: Sequence[FaultReport], seat: int) -> str:
    """Return a text with one line for each fault of a seat in a game, and the errors behind them.

    An error that several faults have is in the text once.
    """
    parts: dict[str, None] = {}  # keys in order, each once
    for report in faults:
        if report.seat == seat:
            parts[f"decision {report.decision}: {report.explanation()}"] = None
            if report.error:
                parts[report.error] = None
    return "\n".join(parts)


def hosting(isolation: str, limits: BotLimits | None = None) -> Hosting:
    """Return how this machine runs a season's bots: isolation, measured time and resource limits.

    isolation  the season's isolation, "process" or "sandbox"
    limits     the season's limits; None takes the default ones

    Raises SandboxUnavailable if the sandbox, or control groups that are required, do not work here.
    """
    limits = limits or BotLimits()
    missing_groups = hierarchies().missing() if limits.require_cgroups else ()
    if missing_groups:
        raise SandboxUnavailable(
            "this season requires control groups, and here are none for "
            f"{', '.join(missing_groups)}: see `deepsea-referee doctor`"
        )
    bot_isolation = choose("process" if isolation == "process" else "sandbox")
    # In a sandbox without control groups the CPU time of some of a bot's processes is unknown.
    counts_bot_cpu = bot_isolation.counts_every_process or bot_isolation.name == "process"
    return Hosting(
        isolation=bot_isolation,
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
        self._most_bots = most
        self._free_descriptors = free_descriptors
        self._games_of_a_process = games
        self._free_memory = free_memory or _spare_memory
        self._bots: dict[Hashable, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._bots

    async def prepare(self, key: Hashable, make: StartPool) -> None:
        """Start a bot that will play soon, unless it runs, or descriptors are scarce."""
        if key not in self._bots and not self._has_descriptors(new_bots=1):
            return
        await self._running(key, make).pool.start_early(0)

    def line_up(self, bots: Sequence[tuple[Hashable, StartPool]], reserve: int) -> LineUp:
        """Make the line-up of a game; `play_game` starts those of its bots that do not run yet.

        bots     for each seat the key of its bot, and the function that makes the bot's pool
        reserve  bytes of memory that must stay available

        Running bots that do not play are frozen. As many of them as necessary are ended if file
        descriptors or memory are scarce, those first that have rested longest.
        """
        playing_keys = [key for key, _ in bots]
        missing_bots = len({*playing_keys} - self._bots.keys())
        for key in self._resting_keys(playing_keys):
            if self._has_descriptors(missing_bots):
                break
            self._dismiss(key)
        for key, make_pool in bots:
            self._running(key, make_pool).games += 1
            # Move the bot to the end of the dictionary, where the bots that played last are.
            self._bots[key] = self._bots.pop(key)
        self._shrink(playing_keys, reserve)
        for key in self._resting_keys(playing_keys):
            self._bots[key].pool.freeze(0)  # slot 0 is the only one of each pool
        make_room = partial(self._dismiss_longest_rested, playing_keys)
        return LineUp([self._bots[key].pool for key in playing_keys], make_room)

    def dismiss(self, keys: Collection[Hashable]) -> None:
        """End the bots with these keys, and all whose processes have played enough games."""
        for key, running in [*self._bots.items()]:
            if key in keys or running.games >= self._games_of_a_process:
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

    def _resting_keys(self, playing_keys: Collection[Hashable]) -> list[Hashable]:
        """Return the keys of the other running bots, the one that has rested longest first."""
        return [key for key in self._bots if key not in playing_keys]

    def _shrink(self, playing_keys: Collection[Hashable], reserve: int) -> None:
        """End resting bots until the others are few enough and `reserve` bytes of memory are free.

        Bots that have rested longest are ended first. Those with the keys in `playing_keys` stay.
        """
        for key in self._resting_keys(playing_keys):
            if len(self._bots) <= self._most_bots and self._free_memory() >= reserve:
                return
            self._dismiss(key)

    def _has_descriptors(self, new_bots: int) -> bool:
        """Return True if there are enough file descriptors to start this number of bots.

        Descriptors of bots that are ending count as free, since a start waits for them if it has
        to.
        """
        needed = SPARE_DESCRIPTORS + DESCRIPTORS_OF_A_BOT * (new_bots - len(self._ending))
        return self._free_descriptors() >= needed

    async def _dismiss_longest_rested(self, playing_keys: Collection[Hashable]) -> bool:
        """End the bot that has rested longest, and wait until some bot has ended.

        Bots with the keys in `playing_keys` stay. Return False if no bot rests and none is ending.
        """
        resting_keys = self._resting_keys(playing_keys)
        if resting_keys:
            self._dismiss(resting_keys[0])
        if not self._ending:
            return False
        await asyncio.wait([*self._ending])
        return True

    def _dismiss(self, key: Hashable) -> None:
        """End a bot in the background, so that games go on meanwhile."""
        running = self._bots.pop(key)
        ending = asyncio.ensure_future(running.pool.__aexit__(None, None, None))
        # The set has the bots that are ending now; each is removed from it once it has ended.
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
        """Return the seat's process for a new game, and start it if it does not run.

        If the machine lacks memory or descriptors for the start, end resting bots one by one and
        try again. Raises the error of the start if no resting bot remains, or if the error has
        another reason.
        """
        while True:
            try:
                return await self._pools[seat].ready(self._slots[seat], suspect=suspect)
            except Exception as error:
                if not is_shortage(error):
                    raise
                has_ended_bot = await self._make_room()
                if not has_ended_bot:
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
    """Return how many bytes of memory bots can still use: what is available, less a reserve.

    The reserve is a share of all memory, for other programs. If the system does not say what is
    available, the number is so large that it limits nothing.
    """
    lines = (line.split() for line in meminfo.read_text(encoding="ascii").splitlines())
    kib = {fields[0]: int(fields[1]) for fields in lines}
    if "MemAvailable:" not in kib:
        return 1 << 62  # no limit
    reserve_kib = kib["MemTotal:"] // MEMORY_SHARE_OF_OTHERS
    return 1024 * (kib["MemAvailable:"] - reserve_kib)
