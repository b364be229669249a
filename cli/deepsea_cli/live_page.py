"""`--browser`: the page on which games appear while they are played.

Invariants: the match does not wait for the page or the browser; the page is gone when the command
has ended, and after the results only this waits, until Ctrl-C at the latest.
"""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import click

from deepsea_cli.match_report import columns, facts
from deepsea_cli.output import count
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.system import SYSTEM
from deepsea_rules.record import GameRecord
from deepsea_web.live.feed import LivePage, Standing

if TYPE_CHECKING:
    from deepsea_referee.match import MatchSettings


class LiveCommand:
    """The page of one command; `close` ends it."""

    def __init__(self, title: str, standing: Standing) -> None:
        self._page = LivePage(title, standing)
        self._said = threading.Event()
        # With --in-process what is printed during a game is taken for a bot's.
        self._stderr = sys.stderr
        self._ended = False
        # In a thread: some browsers return when their window is closed.
        threading.Thread(target=self._open, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._page.close()

    def _open(self) -> None:
        address = self._page.address()
        if self._ended:
            return
        if address is None:
            click.echo("the page could not be started", file=self._stderr)
        else:
            click.echo(f"the games are shown at {address}", file=self._stderr)
        self._said.set()
        # A browser in the terminal would hide the results: only one with windows is opened.
        if address and SYSTEM.opens_browsers():
            webbrowser.open(address)

    def add(self, result: GameResult, record: GameRecord, standing: Callable[[], Standing]) -> None:
        """Show a game; the standing is made if it is time to show it."""
        faults = sum(fault.when != "absent" for fault in result.faults)
        self._page.add(result.game, record, faults, standing)

    def stay(self, words: str, standing: Standing) -> None:
        """Show the end, and wait until the page is closed, a minute has passed, or Ctrl-C."""
        self._page.end(words, standing)
        with suppress(KeyboardInterrupt):
            self._said.wait()
            if self._page.alive:
                click.echo(
                    "the page stays until it is closed or for a minute; Ctrl-C ends it", err=True
                )
                self._page.wait()


class MatchPage(LiveCommand):
    """The page of a match, which counts the results so far."""

    def __init__(self, settings: MatchSettings, seed: str, isolation: str) -> None:
        self._seed = seed
        self._result = settings.result(isolation)
        super().__init__(", ".join(bot.name for bot in self._result.bots), self._standing())

    def _standing(self) -> Standing:
        table = columns(self._result.summaries())
        rows = zip(*(column.cells for column in table), strict=True)
        return {
            "facts": facts(self._result, self._seed),
            "table": {"head": [column.head for column in table], "rows": [[*row] for row in rows]},
        }

    def add_game(self, outcome: GameResult, record: GameRecord) -> None:
        self._result.add(outcome, record.decisions)
        self.add(outcome, record, self._standing)

    def stay_after(self, result: MatchResult) -> None:
        """Show the end of the match, and wait as `stay` does."""
        words = "interrupted" if result.interrupted else "over"
        if voids := result.voids.count:
            words += f", {count(voids, 'void game')}"
        self.stay(words, self._standing())
