"""Processes that die in the middle of something, on a spot that the test chooses.

They are forked from a server process that has one thread and nothing open, never from the tests'.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import pytest
import sqlalchemy
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from deepsea_ladder.store import Store

context = multiprocessing.get_context("forkserver")
# Only what the server finds without the tests' path; else every process imports it anew.
context.set_forkserver_preload(
    ["pytest", "psycopg", "alembic.command", "deepsea_ladder.store", "deepsea_arena.runner"]
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
    parent = _parent()
    parent.send((work, arguments))
    status, result = parent.recv()
    if status == -signal.SIGKILL:
        return None
    assert status == 0, f"exit status {status}"
    return int(result)


@cache
def _parent() -> Connection:
    """The connection to a process that forks others: what it imports, each of them has.

    It has one thread and nothing open. It ends with this process.
    """
    ours, theirs = context.Pipe()
    context.Process(target=_fork_on_request, args=(theirs,), daemon=True).start()
    theirs.close()
    return ours


def _fork_on_request(requests: Connection) -> None:
    with suppress(EOFError):
        while True:
            work, arguments = requests.recv()
            reading, writing = context.Pipe(duplex=False)
            if (pid := os.fork()) == 0:
                _end_after(work, writing, *arguments)
            writing.close()
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with reading:
                requests.send((status, reading.recv() if status == 0 else None))


def _end_after(work: Callable[..., None], *arguments: object) -> NoReturn:
    status = 1
    try:
        work(*arguments)
        status = 0
    except BaseException:  # noqa: BLE001  (nothing of this process may go on)
        traceback.print_exc()
    finally:
        os._exit(status)


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


class Cut:
    """The end of a connection at a moment, and how many such moments there were."""

    def __init__(self) -> None:
        self.moments = 0
        self.happened = False


CutAt = Callable[[Engine, int, "Callable[[int], object] | None"], AbstractContextManager[Cut]]


@contextmanager
def cut_before(engine: Engine, number: int, end: Callable[[int], object] | None) -> Iterator[Cut]:
    """Cut the connection before the engine's statement `number`, once.

    A commit counts as a statement.

    end  ends the server's process of that number, which a connection has; None on SQLite, where the
         disk has an error instead
    """
    cut = Cut()

    def before(connection: sqlalchemy.Connection, *_: object) -> None:
        cut.moments += 1
        if cut.moments == number:
            cut.happened = True
            _cut(connection, end)

    with _listening(engine, before, "before_cursor_execute", "commit"):
        yield cut


@contextmanager
def cut_after_commit(
    engine: Engine, number: int, end: Callable[[int], object] | None
) -> Iterator[Cut]:
    """Cut the connection after the engine's commit `number`, once: its answer does not come."""
    cut = Cut()

    def at_commit(connection: sqlalchemy.Connection) -> None:
        cut.moments += 1
        if cut.moments == number:
            cut.happened = True
            driver: Any = connection.connection.driver_connection
            if end is None:
                driver.execute("COMMIT")
                _cut(connection, None)
            driver.commit()
            _cut(connection, end)

    with _listening(engine, at_commit, "commit"):
        yield cut


def _cut(connection: sqlalchemy.Connection, end: Callable[[int], object] | None) -> None:
    if end is not None:
        driver: Any = connection.connection.driver_connection
        end(driver.info.backend_pid)
        return  # what follows on this connection fails
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR"
    raise OperationalError("a statement", None, error)


@contextmanager
def _listening(engine: Engine, call: Callable[..., None], *names: str) -> Iterator[None]:
    for name in names:
        event.listen(engine, name, call)
    try:
        yield
    finally:
        for name in names:
            event.remove(engine, name, call)
