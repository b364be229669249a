"""Runs on the workers of a Dask cluster: stores bots there, and plays games in child processes.

Invariants: a worker is Dask's process, with its own threads and signals, so games are played by
child processes, as on one machine; a child is killed with its worker; a bot is stored only if its
files have their digest; nothing here knows a store or schedules games.
"""

from __future__ import annotations

import asyncio
import pickle
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import distributed

from deepsea_arena.rated_games import guest, hosting
from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_arena.worker_protocol import Fetch, MakePlay, Outcome, Play, VoidOutcome
from deepsea_arena.workers.local import LocalWorkers
from deepsea_bundle.bot_cache import unpack
from deepsea_ladder.model import Job
from deepsea_referee.errors import RefereeError
from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.errors import SandboxUnavailable
from deepsea_sdk import __version__

_LONG: Final = 3600.0
_PLUGIN: Final = "deepsea-ladder"
_CHILD: Final = """
import sys
from multiprocessing.connection import Connection
from deepsea_arena.workers.local import attend
connection = Connection(int(sys.argv[1]))
attend(connection, connection.recv())
"""


@dataclass(frozen=True, slots=True)
class Lacks:
    """The answer of a worker that lacks bots of a game."""

    digests: tuple[str, ...]


@dataclass(slots=True)
class _Child:
    """A process that plays, or one that is to be started for the first game."""

    pool: LocalWorkers
    run: str = ""
    game_id: str = ""
    rotation: int | None = None
    stop: Stop = field(default_factory=Stop)
    free: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        self.pool.close()
        self.stop.close()


class Host:
    """The bots and the children of this process. `make_play` is called in each child."""

    def __init__(self, make_play: Callable[[Path, Fetch], AbstractContextManager[Play]]) -> None:
        self.make_play = make_play
        self.idle_seconds = 60.0
        """The time for which children wait for the next game."""
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._idle: list[_Child] = []
        self._busy: list[_Child] = []
        self._over: set[str] = set()
        self._timer: threading.Timer | None = None

    def keep(self, digest: str, archive: bytes) -> None:
        """Unpack a bot. Raises `BundleDamaged` if it is another one."""
        folder = self._home() / digest
        if not folder.is_dir():
            unpack(archive, digest, folder)

    def play(self, run: str, job: Job) -> Outcome | Lacks:
        """Play a job of a run in a child, if all of its bots are here."""
        bots = dict.fromkeys(version.digest for version in job.seats)
        if lacking := [digest for digest in bots if not (self._home() / digest).is_dir()]:
            return Lacks(tuple(lacking))
        child = self._take(run, job)
        if child is None:
            return VoidOutcome("its run has ended")
        try:
            child.pool.start(job)
            while child.stop.wish is StopRequest.GO_ON:
                for _, outcome in child.pool.wait(_LONG, child.stop):
                    return outcome
            return VoidOutcome("it was ended")
        finally:
            self._give_back(child)

    def end(self, run: str | None = None, game_id: str | None = None) -> None:
        """Stop a game, or all games of a run and the run itself; without a run, everything."""
        with self._lock:
            if run is not None and game_id is None:
                self._over.add(run)
            busy = [c for c in self._busy if run in (None, c.run) and game_id in (None, c.game_id)]
            idle = [c for c in self._idle if run in (None, c.run) and game_id is None]
            self._idle = [child for child in self._idle if child not in idle]
            for child in busy:
                child.stop.ask(StopRequest.HAND_BACK)
        for child in idle:
            child.close()
        for child in busy:
            child.free.wait()

    def close(self) -> None:
        """Stop everything, and delete the bots."""
        self.end()
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is not None:
            cleanup.remove_folder(folder)

    def _home(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = cleanup.private_folder()
            return self._folder

    def _take(self, run: str, job: Job) -> _Child | None:
        """The idle child whose bots are those of the job, else any, else a new one."""
        play = partial(self.make_play, self._home())
        with self._lock:
            if run in self._over:
                return None
            if self._timer is not None:
                self._timer.cancel()
            same = [
                child for child in self._idle if (child.run, child.rotation) == (run, job.rotation)
            ]
            # There are never more than the worker has threads: each waits for its own.
            child = (same or self._idle or [_Child(LocalWorkers(play, 1, launch))])[0]
            if child in self._idle:
                self._idle.remove(child)
            child.run, child.game_id, child.rotation = run, job.game_id, job.rotation
            child.free.clear()
            self._busy.append(child)
        return child

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            self._busy.remove(child)
            ended = child.stop.wish is not StopRequest.GO_ON
            if not ended:
                self._idle.append(child)
            if not self._busy:
                self._timer = threading.Timer(self.idle_seconds, self._rest)
                self._timer.daemon = True
                self._timer.start()
        if ended:
            child.close()
        child.free.set()

    def _rest(self) -> None:
        """Nobody has played for a while; perhaps whose children these were was killed."""
        with self._lock:
            idle = self._idle if not self._busy else []
            self._idle = [child for child in self._idle if child not in idle]
        for child in idle:
            child.close()


class Program:
    """A process as `Processes` wants it. Those of `multiprocessing` are not to be had here: it
    forbids Dask's workers to have children, and would run their main module again in each."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.terminate, self.kill = process.terminate, process.kill

    @property
    def exitcode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its exit, with a timeout in seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def close(self) -> None:
        """There is nothing to free."""


def launch(make_play: MakePlay) -> tuple[Program, Connection]:
    """A `Launch` by a program of its own."""
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            # Ctrl-C at the worker's terminal ends the worker, and that the child.
            start_new_session=True,
        )
    ours.send(make_play)
    return Program(process), ours


HOST: Final = Host(guest)
"""That of this worker. Workers that are threads of one process share it."""


class _Ending(distributed.WorkerPlugin):
    """Ends the children before Dask waits for the threads that wait for them."""

    async def teardown(self, worker: Any) -> None:
        """Called when a worker closes."""
        await asyncio.to_thread(HOST.close)


# What a run asks of a worker. All but games are asked outside of Dask's queue, on its event loop


def programs() -> dict[str, str]:
    """What must be the same everywhere; bots run in the worker's Python."""
    return {
        "deepsea-referee": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": distributed.__version__,
    }


def difference(theirs: dict[str, str], ours: dict[str, str]) -> str | None:
    """The first program that is not the same, in words; None if there is none."""
    for name, version in ours.items():
        if theirs.get(name) != version:
            return f"it has {name} {theirs.get(name)}, this run has {version}"
    return None


async def look(
    wanted: dict[str, str], isolation: str, dask_worker: Any | None = None
) -> str | None:
    """The reason why this worker cannot play; None if it can."""
    if found := difference(programs(), wanted):
        return found
    try:
        await asyncio.to_thread(hosting, isolation)
    except (SandboxUnavailable, RefereeError) as error:
        return str(error)
    if dask_worker is not None and _PLUGIN not in dask_worker.plugins:
        await dask_worker.plugin_add(_Ending(), name=_PLUGIN)
    return None


async def keep(digest: str, archive: bytes) -> None:
    """Store a bot."""
    await asyncio.to_thread(HOST.keep, digest, archive)


async def end(run: str, game_id: str | None = None) -> None:
    """End a game of a run, or the run."""
    await asyncio.to_thread(HOST.end, run, game_id)


def play(run: str, packed: bytes) -> Outcome | Lacks:
    """Play a job; a task of Dask's, which does not look into the packed job."""
    job: Job = pickle.loads(packed)
    return HOST.play(run, job)
