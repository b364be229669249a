"""Processes that die in the middle of something, on a spot that the test chooses.

They are forked from a server process that has one thread and nothing open, never from the tests'.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest
from sqlalchemy import Engine, event

from deepsea_ladder.store import Store

context = multiprocessing.get_context("forkserver")
# Only what the server finds without the tests' path; else every process imports it anew.
context.set_forkserver_preload(
    ["pytest", "psycopg", "alembic.command", "deepsea_ladder.store", "deepsea_arena.play.runner"]
)

NEVER = 1_000_000
EVERYWHERE = pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.release), 3])
"""At every third statement; before a release at every one."""


def killed_at(number: int, action: Callable[..., object], target: str, *words: Any) -> int | None:
    """Run `action(store, *words)` in a process that kills itself before its statement `number`.

    A commit counts as a statement. None if it was killed; else how many statements there were.
    """
    return answered(_run, number, action, target, words)


def answered(work: Callable[..., None], *arguments: object) -> int | None:
    """The result of `work(answer, *arguments)` in a process of its own; None if it was killed."""
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(theirs, *arguments))
    process.start()
    theirs.close()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0, f"exit status {process.exitcode}"
    with ours:
        return int(ours.recv())


def _run(
    answer: Connection,
    number: int,
    action: Callable[..., object],
    target: str,
    words: tuple[Any, ...],
) -> None:
    with Store.open(target) as store:
        count = kill_before(store.database.engine, number)
        action(store, *words)
        answer.send(count())


def kill_before(engine: Engine, number: int) -> Callable[[], int]:
    """Kill this process before the engine's statement `number`; a function that counts them."""
    count = 0

    def before(*_: object) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "commit", before)
    return lambda: count
