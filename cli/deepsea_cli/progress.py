"""Progress of commands that play many games: one line on stderr.

Invariants: where stderr is no terminal rich is not loaded, and a line is printed from time to time
if that is asked for; lines are drawn after a game and by no thread, so that nothing runs beside a
bot's clock; what is drawn on a terminal vanishes at the end.
What is printed on stderr meanwhile stands above it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn

_T = TypeVar("_T")
PATIENCE_US = 1_000_000
"""A command that is shorter shows no progress."""
REDRAW_US = 200_000
PRINT_US = 30_000_000
"""How often a line is printed where stderr is no terminal."""
ROOMY = 80
"""Columns of a terminal that is wide enough for a bar and the speed, too."""


class Progress(AbstractContextManager["Progress"]):
    """A counter up to `total`, or without an end, shown until `close` or the end of `with`.

    unit     what is counted, in the plural
    wanted   False draws nothing
    printed  print lines where stderr is no terminal
    now_us   a clock's; the system's unless another is given
    """

    def __init__(
        self,
        total: int | None,
        unit: str = "games",
        *,
        wanted: bool = True,
        printed: bool = False,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._total = total
        self._unit = unit
        self._done = 0
        self._bar: RichProgress | None = None
        self._prints = False
        if not wanted or not (sys.stderr.isatty() or printed):
            return
        from deepsea_referee.timing.clock import SystemClock

        self._now_us = now_us or SystemClock().now_us
        self._began_us = self._now_us()
        if sys.stderr.isatty():
            from rich.console import Console

            # Without a width of its own it follows the terminal's.
            console = Console(stderr=True, highlight=False, markup=False)
            if console.is_interactive:  # not with TERM=dumb
                self._due_us = self._began_us + PATIENCE_US
                self._bar = self._drawn_on(console)
                self._task = self._bar.add_task("", total=total, count="", rate="", note="")
                return
        self._prints = printed
        self._due_us = self._began_us + PRINT_US

    def _drawn_on(self, console: Console) -> RichProgress:
        from rich import progress
        from rich.table import Column

        columns: list[ProgressColumn] = [
            progress.TextColumn("{task.fields[count]}", markup=False),
            progress.TextColumn("{task.fields[rate]}", markup=False),
            progress.TextColumn(
                "{task.fields[note]}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            ),
        ]
        if self._total is not None:
            bar, rest = progress.BarColumn(bar_width=20), progress.TimeRemainingColumn()
            roomy = console.width >= ROOMY
            columns[1:2] = [bar, rest, columns[1]] if roomy else [rest]
        return progress.Progress(
            *columns,
            console=console,
            auto_refresh=False,
            transient=True,
            # stdout may be a pipe, and would come out on stderr.
            redirect_stdout=False,
            get_time=lambda: self._now_us() / 1_000_000,
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int = 1, note: str = "", *, at_once: bool = False) -> None:
        """Add to the count, and redraw the line if it is due; the note is at its end.

        at_once  redraw it on a terminal in any case, since there may be no news for long
        """
        self.reach(self._done + steps, note, at_once=at_once)

    def reach(self, done: int, note: str = "", *, at_once: bool = False) -> None:
        """The same, with the count that is reached; it never goes back."""
        self._done = max(self._done, done)
        if self._bar is None and not self._prints:
            return
        now_us = self._now_us()
        if now_us < self._due_us and not (at_once and self._bar is not None):
            return
        count = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
        rate = f"{self._done * 1_000_000 / max(1, now_us - self._began_us):.1f} {self._unit}/s"
        note = printable(note)
        if self._bar is None:
            self._due_us = now_us + PRINT_US
            click.echo(f"{count} {self._unit}, {rate}  {note}".rstrip(), err=True)
            return
        self._due_us = now_us + REDRAW_US
        self._bar.update(self._task, completed=self._done, count=count, rate=rate, note=note)
        if self._bar.live.is_started:
            self._bar.refresh()
        else:
            self._bar.start()


@contextmanager
def counting(games: int) -> Iterator[Callable[[int], object]]:
    """Show the progress of work on so many games, which calls this with how many more are done."""
    with Progress(games, printed=True) as counter:
        yield counter.advance


def counted(games: Sequence[_T], doing: str) -> Iterator[_T]:
    """The games, one after the other, with the progress of what is done with each of them."""
    with Progress(len(games), printed=True) as progress:
        for game in games:
            yield game
            progress.advance(note=doing)
