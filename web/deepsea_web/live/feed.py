"""The match's side of the page: starts its process and hands games over to it.

Invariants: the match never waits for the page: what the page's process does not take in time is
dropped; at most one game in GAP_US is handed over, and the last one; the process ends with this
one, however this one ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypedDict

from deepsea_referee.system import OWN_GROUP_FLAGS
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_sdk.entropy import fresh_token

GAP_US = 100_000
"""The time between two games that are handed over: nobody reads more than that."""
_WAITING = 64
_LONGEST = 24
"""Characters of a bot's name in the list."""


class GameLine(TypedDict):
    """A game in the list."""

    number: int
    words: str
    """Placements and points."""


class Table(TypedDict):
    head: list[str]
    rows: list[list[str]]


class Standing(TypedDict):
    """The results so far, as the terminal prints them at the end."""

    facts: str
    table: Table


class Message(TypedDict, total=False):
    """A line to the page's process."""

    facts: str
    table: Table
    game: GameLine
    record: str
    """The record of the game, as JSON."""
    over: str
    """The reason why there will be no more games."""


class LivePage:
    """The page of one match."""

    def __init__(self, title: str, standing: Standing, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._due_us = 0
        self._late: Callable[[], Message] | None = None
        """The newest game, if it was not handed over."""
        self._path = fresh_token()
        self._process = subprocess.Popen(
            (sys.executable, "-m", "deepsea_web.live"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C ends the match, and the page stays.
            start_new_session=True,
            creationflags=OWN_GROUP_FLAGS,
        )
        # A Ctrl-C while something is handed over leaves this kind of queue whole.
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="live page", daemon=True)
        self._writer.start()
        head = {"path": self._path, "title": title, **standing}
        self._queue.put(lambda: head)

    def address(self) -> str | None:
        """The address, once the page is there; None if its process has ended."""
        assert self._process.stdout is not None
        port = self._process.stdout.readline().decode().strip()
        return f"http://127.0.0.1:{port}/{self._path}/" if port else None

    def add(
        self, number: int, record: GameRecord, faults: int, standing: Callable[[], Standing]
    ) -> None:
        """Show a game that has ended; the standing is made if it is time to show it."""
        now_us = self._clock.now_us()
        if now_us < self._due_us:
            self._late = partial(_game, number, record, faults)
            return
        self._due_us = now_us + GAP_US
        self._late = None
        if self._queue.qsize() < _WAITING:
            self._queue.put(partial(_game, number, record, faults, standing()))

    def end(self, words: str, standing: Standing) -> None:
        """Show that there will be no more games, and why."""
        if self._late is not None:
            self._queue.put(self._late)
        last = Message(over=words, facts=standing["facts"], table=standing["table"])
        self._queue.put(lambda: last)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        self._process.wait()

    def close(self) -> None:
        """End the page at once."""
        self._process.kill()
        self._process.wait()
        self._queue.put(None)
        self._writer.join()  # its pipe is broken now, so it is not stuck
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        while (message := self._queue.get()) is not None:
            with suppress(OSError):  # the page's process has ended, and the match goes on
                pipe.write(json.dumps(message()).encode() + b"\n")
                pipe.flush()


def _game(
    number: int, record: GameRecord, faults: int, standing: Standing | None = None
) -> Message:
    ranked = sorted(range(len(record.seats)), key=record.placements.__getitem__)
    words = ", ".join(
        f"{record.placements[seat]}. {one_line(record.seats[seat].name, _LONGEST)} "
        f"({SEAT_LETTERS[seat]}) {record.points[seat]}"
        for seat in ranked
    )
    if faults:
        words += f"; {faults} fault{'' if faults == 1 else 's'}"
    message: Message = {"game": {"number": number, "words": words}, "record": record.to_json()}
    if standing is not None:
        message["facts"], message["table"] = standing["facts"], standing["table"]
    return message
