"""Workers that do what they are asked for, in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from deepsea_arena.tasks import FinishedGame, JobOutcome
from deepsea_ladder.model import Job
from deepsea_referee.errors import UserError
from deepsea_referee.workers import Link

from . import ladder


@contextmanager
def doing(folder: Path, link: Link) -> Iterator[Callable[[str], object]]:
    """A worker whose tasks are words; it notes when it is set up and cleaned up."""
    (folder / f"{os.getpid()} up").touch()
    try:
        yield partial(do, folder, link)
    finally:
        (folder / f"{os.getpid()} down").touch()


@contextmanager
def late(folder: Path, link: Link) -> Iterator[Callable[[str], object]]:
    """The same, but it is only set up when it is to stop; until then it hangs."""
    stopped = threading.Event()
    link.on_stop(stopped.set)
    (folder / "hangs").write_text(str(os.getpid()))
    stopped.wait()
    with doing(folder, link) as perform:
        yield perform


@contextmanager
def leaving(folder: Path, link: Link) -> Iterator[Callable[[str], object]]:
    """The same; the first one leaves rather than begin a second task."""
    tasks = count(1)
    with doing(folder, link) as perform:

        def perform_or_leave(words: str) -> object:
            if next(tasks) == 2 and len([*folder.glob("* up")]) == 1:
                link.leave()
            return perform(words)

        yield perform_or_leave


def do(folder: Path, link: Link, words: str) -> object:
    """Do what the words say.

    Who hangs writes its process's number to `hangs`, which may be a pipe.
    """
    match words.split():
        case ["who"]:
            return os.getpid()
        case ["where"]:
            return os.sched_getaffinity(0)
        case ["raise"]:
            raise RuntimeError("no luck")
        case ["refuse"]:
            raise UserError("bad input", "where")
        case ["exit"]:
            os._exit(3)
        case ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["hang"]:
            (folder / "hangs").write_text(str(os.getpid()))
            signal.pause()
        case ["tell", *texts]:
            for text in texts:
                link.send(text)
        case ["read", digest]:
            return link.file(digest)
        case ["until-stopped"]:
            stopped = threading.Event()
            link.on_stop(stopped.set)
            link.send("here")
            stopped.wait()
            return "stopped"
    return None


def forged(record: str) -> str:
    """A record whose first seat is the only winner, whatever was played."""
    return record.replace('"placements": [', '"placements": [1, ')


@contextmanager
def one_forges(folder: Path, link: Link) -> Iterator[Callable[[Job], JobOutcome]]:
    """A worker that plays games at once; the first of all forges their results."""
    result: Callable[[str], str] = str
    with suppress(FileExistsError):
        (folder / "forger").touch(exist_ok=False)
        result = forged
    yield lambda job: FinishedGame(result(ladder.play(job)))


def broken(link: Link) -> AbstractContextManager[Callable[[object], object]]:
    """A worker that cannot be set up."""
    raise UserError("nothing works here")


@contextmanager
def misbehaving(folder: Path, link: Link) -> Iterator[Callable[[Job], JobOutcome]]:
    """A worker that does what a file named like the game says, once; else it plays the game."""

    def play(job: Job) -> JobOutcome:
        deed = folder / job.game_id
        if deed.exists():
            words = deed.read_text()
            deed.unlink()
            do(folder, link, words)
        return FinishedGame(ladder.play(job))

    yield play
