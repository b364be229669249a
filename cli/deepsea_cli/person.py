"""A person at the terminal: shows what the seat knows and asks for its decisions.

Invariants: what is shown while a game runs comes from the seat's views and events alone; which
actions there are, the view says. On a terminal the screen is redrawn in place and answers are keys;
in a pipe all is plain text and answers are lines, which may be whole actions too.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from typing import TextIO

import click
from rich.text import Text

from deepsea_arena.analysis import GameAnalysis
from deepsea_arena.analysis_document import in_words, worst
from deepsea_cli.analysis_report import print_decision
from deepsea_cli.output import draw, echo, fit, width
from deepsea_cli.terminal_board import draw_board
from deepsea_referee.interrupts import WakePipe, first_ready
from deepsea_referee.person import (
    HINT_EFFORT,
    LAST_TURNS,
    QUESTIONS,
    Choice,
    ChoiceDialog,
    PersonRequest,
    action_words,
    hint,
    rules_of,
)
from deepsea_referee.summary import VoidGame
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.game import GameRecord
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.scoring import Result
from deepsea_rules.time_control import duration_text
from deepsea_rules.view import View
from deepsea_sdk.bot import NO_CLOCK
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.table import RefereedGame

MOST_NEWS = 8
COMMANDS = "? rules   h hint   l last turns   q leave"
LEAVING = """leave the game?
  p  play it on by default actions
  q  drop it: it does not count
any other key stays"""


class TerminalPerson:
    """The person; a referee's `Person`."""

    def __init__(
        self,
        read: Callable[[], str | None],
        waker: WakePipe,
        *,
        in_place: bool,
        hint_effort: Effort = HINT_EFFORT,
    ) -> None:
        """Prepare the person.

        read      waits for a key or a line; None if the waker rang, EOFError at the end
        in_place  redraw the screen, and take keys
        """
        self.on_drop: Callable[[], object] = lambda: None
        """Called when the person drops the game."""
        self.away = False
        """It has left: default actions are played."""
        self.dropped = False
        self.skips = False
        """It does not wait for the judgement of its decisions."""
        self._read = read
        self._waker = waker
        self._in_place = in_place
        self._hint_effort = hint_effort
        self._closed = False
        self._deciding = threading.Lock()
        self.hints = 0
        """The number of hints that were shown in this game."""
        self._names: Sequence[str] = ()
        self._story: narration.Story
        self._lines: list[str] = []
        """The course of this game in words."""
        self._told = self._drawn = 0

    def begin(self, game: RefereedGame, seat: int) -> None:
        self.hints = 0
        self._names = game.names
        self._story = narration.Story(game.game.rules, seat=seat)
        self._lines = []
        self._told = self._drawn = 0

    def wake(self, why: str) -> None:
        """End the decision that waits, after a timeout."""
        self._lines.append(why)
        self._waker.ring()

    def interrupt(self) -> None:
        """End all decisions: the match is interrupted."""
        self._closed = True
        self._waker.ring()

    def decide(self, request: PersonRequest) -> str | None:
        with self._deciding:  # one that is not wanted any more may still be ending
            for event in request.events:
                self._lines += self._story.add(event)
            if self.away:
                return request.view.legal[0]
            try:
                return self._choose(request)
            except (EOFError, BrokenPipeError):
                self._drop()
                return None

    def _choose(self, request: PersonRequest) -> str | None:
        """Ask until the action is chosen; None if none is wanted any more."""
        choosing = ChoiceDialog(request.view)
        note: Sequence[str] = ()
        board: Sequence[Text] = self._board(request.view)
        while request.is_wanted() and not self._closed:
            self._draw(self._screen(request, board, choosing.offered, note))
            board = board if self._in_place else ()
            answer = self._read()
            note = choosing.note
            if answer == "?":
                self._page(rules_of(request.view))
            elif answer == "h":
                self.hints += 1
                note = hint(request.view, self._hint_effort)
            elif answer == "l":
                self._page(self._lines[-LAST_TURNS:])
            elif answer == "q":
                if self._leaves():
                    return request.view.legal[0] if self.away else None
            elif answer is not None:
                try:
                    action = choosing.choose(answer)
                except ValueError as error:
                    note = [f"{quoted(answer)} is {error} ? h l q"]
                    continue
                if action is not None:
                    return action
                note = choosing.note
        return None

    def _leaves(self) -> bool:
        """Ask how to leave; False to stay."""
        self._draw([*map(Text, LEAVING.splitlines())])
        answer = self._read()
        self.away = answer == "p"
        if answer == "q":
            self._drop()
        return self.away or self.dropped

    def _drop(self) -> None:
        self.dropped = True
        self.on_drop()

    # Between games

    def over(self, game: int, record: GameRecord, seat: int, *, judging: bool, more: bool) -> None:
        click.echo()
        echo(f"game {game} is over")
        result = Result(record.points, record.placements)
        for line in narration.tell_end(result, narration.names(record)):
            echo(f"  {line}")
        self.skips = False
        if judging:
            echo("judging your decisions takes some seconds; Ctrl-C skips it")

    def void(self, void: VoidGame, *, more: bool) -> None:
        """Print that a game does not count."""
        click.echo()
        echo(f"game {void.game} is void: {void.reason}")

    def judged(self, found: GameAnalysis | None, seat: int) -> None:
        """Print what the person's decisions lost, its luck, and its worst decisions."""
        if found is None:
            echo("skipped")
            return
        click.echo()
        echo(in_words(found, seat))
        decisions = worst(found)
        if not decisions:
            echo("no decision was certainly worse than another")
        for decision in decisions:
            view = game_at(found.record, decision.number).view(seat)
            click.echo()
            names = narration.names(found.record)
            for line in draw_board(view, names, None, width(), known=view.known):
                draw(line)
            print_decision(decision, found)
            echo(f"  better: {action_words(decision.judged.best)}")

    def wait_for_next(self) -> None:
        """Go on at once."""

    def end(self, why: str) -> None:
        """Do nothing: all is printed."""

    # What is seen

    def _board(self, view: View) -> list[Text]:
        columns, seat = width(), view.me.seat
        head = f"you are {SEAT_LETTERS[seat]} {self._names[seat]}, {view.rules.name} rules"
        lines = draw_board(view, self._names, None, columns, known=view.known)
        return [Text(fit(head, columns), "bold"), *(line for line in lines if line.plain)]

    def _screen(
        self,
        request: PersonRequest,
        board: Sequence[Text],
        offered: Sequence[Choice],
        note: Sequence[str],
    ) -> list[Text]:
        """What is seen while the person thinks: as much as fits; in a pipe, what is new."""
        assert request.view.kind is not None
        question = QUESTIONS[request.view.kind]
        if request.time_left != NO_CLOCK:
            question += f" ({duration_text(sum(request.time_left))} left)"
        keys = [question, *(f"  {choice.key}  {choice.meaning}" for choice in offered), COMMANDS]
        news = [*self._lines[0 if self._in_place else self._told :], *note]
        self._told = len(self._lines)
        if self._in_place:
            # One line stays free for the cursor.
            room = shutil.get_terminal_size().lines - 1 - len(board) - len(keys)
            news = news[-min(room, MOST_NEWS) :] if room > 0 else []
            board = board[max(0, -room) :]
        return [*board, *(Text(fit(line, width())) for line in [*news, *keys])]

    def _page(self, lines: Sequence[str]) -> None:
        """Show a text; on a terminal until a key comes."""
        shown = [
            Text(part)
            for line in lines
            for part in textwrap.wrap(line, width(), subsequent_indent="  ") or [""]
        ]
        if not self._in_place:
            self._draw(shown)
            return
        self._draw([*shown, Text("any key goes on", "dim")])
        self._read()

    def _draw(self, lines: Sequence[Text]) -> None:
        if self._in_place and self._drawn:
            click.echo(f"\x1b[{self._drawn}F\x1b[J", nl=False, color=True)
        self._drawn = len(lines)
        draw(Text("\n").join(lines))


# Answers


def lines_of(source: TextIO, waker: WakePipe) -> Callable[[], str | None]:
    """What reads answers line by line from a pipe or a file."""
    kept = bytearray()

    def read() -> str | None:
        while b"\n" not in kept:
            # Windows cannot wait for a pipe: there a read is ended by its writer alone.
            if sys.platform != "win32" and source not in first_ready([source, waker], None):
                waker.clear()
                return None
            data = os.read(source.fileno(), 4096)
            if not data and not kept:
                raise EOFError
            kept.extend(data or b"\n")
        line, _, rest = bytes(kept).partition(b"\n")
        kept[:] = rest
        return line.decode(errors="replace").strip()

    return read


def keys_of(wait: Callable[[float | None], str], waker: WakePipe) -> Callable[[], str | None]:
    """What reads answers key by key from a terminal; `wait` is that of `keys`."""

    def read() -> str | None:
        key = wait(None)
        if not key:
            waker.clear()
        return key or None

    return read
