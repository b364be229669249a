"""Plays a job of the ladder with the referee.

Invariants: a bot runs from the files that were submitted, checked by their digest, and with the
season's isolation or not at all; an error of the referee voids the game; a bot that does not start
forfeits only its own seat.

Bot processes are reused from game to game, whoever they play with: starting them takes longer than
a game. Those of the next job are started beside the present game. Where a start lacks descriptors,
users, processes or memory, the bot that has rested longest leaves, and it is tried again.
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
from deepsea_referee.system.linux import BotGauge, WallGauge
from deepsea_referee.workers import Link
from deepsea_rules.faults import FaultReport
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.table import PlayedGame, RefereedGame

KEPT = 128
"""The most bots that a worker keeps running."""
DESCRIPTORS_OF_A_BOT = 12
"""Open files for a bot that starts; it keeps about eleven."""
SPARE_DESCRIPTORS = 24
"""Open files beside them. gRPC does not say that it cannot accept a bot: it would be late."""
SPARED = 4
"""Bots that rest leave one in so many bytes of memory to others."""
GAMES_OF_A_PROCESS = 200
"""The number of games after which a bot is restarted."""
StartPool = Callable[[], BotPool]
"""Makes the pool of one bot, whose process is not started yet."""


@contextmanager
def worker(link: Link, starts_at_once: int = 1) -> Iterator[Callable[[Job], Outcome]]:
    """Set up a worker that plays jobs, with a folder of its own for their bots.

    starts_at_once  its share of the CPUs; 1 where nobody knows what other workers are there
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
    """A private folder for as long as the body runs."""
    folder = cleanup.private_folder()
    try:
        yield folder
    finally:
        cleanup.remove_folder(folder)


class RatedGamePlayer:
    """An event loop in which one worker plays, and the bots that run there."""

    def __init__(self, folders: BotCache, link: Link, starts: asyncio.Semaphore) -> None:
        """`starts`: the limit of bots that start at once, of all that play here."""
        self._folders = folders
        self._link = link
        self._starts = starts
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._clock = SystemClock()
        self._freezer = Freezer(self._clock)
        self._bots = RunningBots()
        self._read: dict[Hashable, BotSpec] = {}
        """Bots of the next job that do not run yet."""
        self._unpacking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Held while a bot's files are unpacked, by digest: they come once."""
        self._next: Job | None = None
        self._preparing: asyncio.Task[None] | None = None
        link.on_next(self._on_next)

    def play(self, job: Job) -> Outcome:
        """Play the job's game. A request to stop ends it, and with it the worker."""
        if self._folders.has_lost(version.digest for version in job.seats):
            self._link.leave()
        try:
            return self._runner.run(self._play(job))
        except asyncio.CancelledError:
            raise SystemExit(0) from None
        except Exception as error:  # noqa: BLE001  (whatever it is, it is no bot's fault)
            return outcome_of_error(error)

    def close(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()
        self._runner.run(self._bots.close())
        self._runner.close()

    async def _play(self, job: Job) -> Outcome:
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
        if self._next is None:
            self._bots.freeze()
        return FinishedGame(played.record.to_json(), tuple(logs))

    def _on_next(self, job: Job) -> None:
        """Prepare for the job that comes after the present one; called in another thread.

        Bots are unpacked and read there: in the event loop, clocks of the present game are running.
        """
        self._next = job
        for (key, _), version in zip(self._line_up(job), job.seats, strict=True):
            if key not in self._bots:
                with suppress(Exception):  # which comes again, and is reported, in its game
                    self._read[key] = self._bot(version)
        self._loop.call_soon_threadsafe(self._begin_to_prepare, job)

    def _begin_to_prepare(self, job: Job) -> None:
        self._preparing = self._loop.create_task(self._prepare(job))

    async def _prepare(self, job: Job) -> None:
        """Start the bots that are missing while a game goes on: one by one, to disturb it less."""
        for key, make in self._line_up(job):
            with suppress(Exception):  # which comes again, and is reported, when the job is played
                await self._bots.prepare(key, make)

    def _line_up(self, job: Job) -> list[tuple[Hashable, StartPool]]:
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
        bot = self._read.pop(key, None) or self._bot(version)
        settings = hosting(season.isolation, season.limits)
        return BotPool([bot], settings, self._clock, freezer=self._freezer, starts=self._starts)

    def _bot(self, version: BotVersion) -> BotSpec:
        with self._unpacking[version.digest]:
            return bot_of(version, self._folders)


def suspects(job: Job) -> tuple[int, ...]:
    """The seats for which a decision that the host delays is a timeout, and voids the game no more.

    Where the kernel does not say what a bot as a whole was denied, its threads can make it seem so:
    there one void game of a version is enough in a season.
    """
    is_told = job.season.isolation != "process" and hierarchies().pressure is not None
    return job.void_seats if is_told else job.suspects


def bot_of(version: BotVersion, folders: BotCache) -> BotSpec:
    """A version's bot, unpacked; raises RefereeError if its files are not those of its digest."""
    digest, label = version.digest, version.label
    try:
        bot = unpacked_bot(folders(digest), label)
    except BundleError as error:
        raise RefereeError(f"the files of {label} are damaged: {error}") from None
    if bot.digest != digest:
        raise RefereeError(f"the files of {label} have the digest {bot.digest}, not {digest}")
    return bot


def _notes_by_seat(played: PlayedGame) -> dict[int, list[GameNote]]:
    """The notes of each bot; a seat that noted nothing is not there."""
    decisions = played.record.decisions
    found: dict[int, list[GameNote]] = {}
    for number, note in played.notes.items():
        found.setdefault(decisions[number].seat, []).append(GameNote(number, *note))
    return found


def _faults_of(faults: Sequence[FaultReport], seat: int) -> str:
    """A seat's faults in a game, each error once."""
    lines: dict[str, None] = {}
    for report in faults:
        if report.seat == seat:
            lines[f"decision {report.decision}: {report.explanation()}"] = None
            lines[report.error] = None
    return "\n".join(filter(None, lines))


def hosting(isolation: str, limits: BotLimits | None = None) -> Hosting:
    """The hosting of a season's bots.

    Raises SandboxUnavailable if the required sandbox or control groups do not work.
    """
    limits = limits or BotLimits()
    if limits.require_cgroups and (missing := hierarchies().missing()):
        raise SandboxUnavailable(
            f"this season requires control groups, and here are none for {', '.join(missing)}: "
            "see `deepsea-referee doctor`"
        )
    level = choose("process" if isolation == "process" else "sandbox")
    counted = level.counts_every_process or level.name == "process"
    return Hosting(
        isolation=level,
        gauge=BotGauge if counted else WallGauge,
        limits=ResourceLimits(
            memory_bytes=limits.memory_mib * MIB,
            processes=limits.processes,
        ),
    )


@dataclass(slots=True)
class _Running:
    """A bot with a pool to itself."""

    pool: BotPool
    games: int = 0


class RunningBots:
    """The running bots by their keys, those that played last at the end."""

    def __init__(
        self,
        most: int = KEPT,
        games: int = GAMES_OF_A_PROCESS,
        free_memory: Callable[[], int] | None = None,
        free_descriptors: Callable[[], int] = free_descriptors,
    ) -> None:
        """`free_memory`: bytes for bots that rest; by default as many as others can spare."""
        self._most = most
        self._free_descriptors = free_descriptors
        self._games = games
        self._free_memory = free_memory or _spare_memory
        self._bots: dict[Hashable, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._bots

    async def prepare(self, key: Hashable, make: StartPool) -> None:
        """Start a bot that will play soon, unless it runs or there is no room for one more."""
        if key not in self._bots and not self._has_descriptors(1):
            return
        await self._running(key, make).pool.start_early(0)

    def seat(self, bots: Sequence[tuple[Hashable, StartPool]], reserve: int) -> LineUp:
        """The bots of a game by seat, which `play_game` starts if need be.

        reserve  bytes of memory that must stay available
        """
        keys = [key for key, _ in bots]
        starts = len({*keys} - self._bots.keys())
        for key in [key for key in self._bots if key not in keys]:
            if self._has_descriptors(starts):
                break
            self._dismiss(key)
        for key, make in bots:
            self._running(key, make).games += 1
            self._bots[key] = self._bots.pop(key)
        self._shrink(keys, reserve)
        for key, running in self._bots.items():
            if key not in keys:
                running.pool.freeze(0)
        make_room = partial(self._dismiss_longest_rested, keys)
        return LineUp([self._bots[key].pool for key in keys], make_room)

    def dismiss(self, keys: Collection[Hashable]) -> None:
        """Stop bots that must not play on, and those that have played enough games."""
        for key in [key for key, running in self._bots.items() if running.games >= self._games]:
            self._dismiss(key)
        for key in keys:
            if key in self._bots:
                self._dismiss(key)

    def freeze(self) -> None:
        """Freeze all bots, since no game follows at once."""
        for running in self._bots.values():
            running.pool.freeze(0)

    async def close(self) -> None:
        for key in [*self._bots]:
            self._dismiss(key)
        await asyncio.gather(*self._ending)

    def _running(self, key: Hashable, make: StartPool) -> _Running:
        if key not in self._bots:
            self._bots[key] = _Running(make())
        return self._bots[key]

    def _shrink(self, but: Collection[Hashable], reserve: int) -> None:
        """Dismiss bots that have not played for longest while there are too many."""
        for key in [key for key in self._bots if key not in but]:
            if len(self._bots) <= self._most and self._free_memory() >= reserve:
                return
            self._dismiss(key)

    def _has_descriptors(self, starts: int) -> bool:
        """True if there are descriptors for so many bots, once those that are ending have ended."""
        needed = SPARE_DESCRIPTORS + DESCRIPTORS_OF_A_BOT * (starts - len(self._ending))
        return self._free_descriptors() >= needed

    async def _dismiss_longest_rested(self, but: Collection[Hashable]) -> bool:
        """Make room for a start, and wait for it; False if nobody rests any more."""
        resting = [key for key in self._bots if key not in but]
        if resting:
            self._dismiss(resting[0])
        if not self._ending:
            return False
        await asyncio.wait([*self._ending])
        return True

    def _dismiss(self, key: Hashable) -> None:
        running = self._bots.pop(key)
        # In the background: games go on meanwhile.
        ending = asyncio.ensure_future(running.pool.__aexit__(None, None, None))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


class LineUp:
    """The bots of a game as `play_game` needs them."""

    def __init__(self, pools: Sequence[BotPool], make_room: Callable[[], Awaitable[bool]]) -> None:
        """`make_room` has a bot leave that does not play; it returns False if there is none."""
        self._pools = pools
        self._make_room = make_room
        self._slots: list[Slot] = []

    @contextmanager
    def table(self, seed: bytes) -> Iterator[Sequence[Slot]]:
        """Give each seat a process that has not met the seed; the slots are numbered by seat."""
        with ExitStack() as opened:
            tables = [pool.table([0], seed) for pool in self._pools]
            self._slots = [opened.enter_context(table)[0] for table in tables]
            yield [Slot(seat) for seat in range(len(self._slots))]

    def running(self, seat: Slot) -> BotProcess | None:
        """The seat's process for a new game if it is there already."""
        return self._pools[seat].running(self._slots[seat])

    async def ready(self, seat: Slot, *, suspect: bool = False) -> BotProcess:
        """The seat's process for a new game."""
        while True:
            try:
                return await self._pools[seat].ready(self._slots[seat], suspect=suspect)
            except Exception as error:
                if not is_shortage(error) or not await self._make_room():
                    raise

    def given_up(self, seat: Slot) -> str:
        """The reason why the seat's process is not started any more; "" if it is."""
        return self._pools[seat].given_up(self._slots[seat])

    def finished_game(self, seat: Slot) -> None:
        """Note that the seat's process was there until the end of a game."""
        self._pools[seat].finished_game(self._slots[seat])

    def output(self, seat: int) -> str:
        """The end of what the seat's present process printed, safe to show."""
        return self._pools[seat].output(self._slots[seat])


def _spare_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """The bytes that are available, less what is left to others."""
    lines = (line.split() for line in meminfo.read_text(encoding="ascii").splitlines())
    kib = {words[0]: int(words[1]) for words in lines}
    if "MemAvailable:" not in kib:
        return 1 << 62
    return 1024 * (kib["MemAvailable:"] - kib["MemTotal:"] // SPARED)
