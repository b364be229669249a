"""Workers of the ladder that do what they are told, once, instead of playing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from deepsea_arena.worker_protocol import Fetch, FinishedGame, Outcome, Play
from deepsea_ladder.model import Job

from . import ladder


def misbehave(folder: Path, job: Job) -> Outcome:
    """Do what a file named like the game says, once; else play it.

    Who hangs waits for a reader of the pipe `never`, after writing its process's number to `hangs`,
    which may be a pipe too.
    """
    deed = folder / job.game_id
    if deed.exists():
        words = deed.read_text()
        deed.unlink()
        if words == "raise":
            raise RuntimeError("no luck")
        if words == "exit":
            os._exit(3)
        if words == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if words == "hang":
            (folder / "hangs").write_text(str(os.getpid()))
            (folder / "never").read_text()
    return FinishedGame(ladder.play(job))


@contextmanager
def guest(folder: Path, bots: Path, fetch: Fetch) -> Iterator[Play]:
    """A worker of a cluster that needs no bots to play."""
    yield partial(misbehave, folder)
