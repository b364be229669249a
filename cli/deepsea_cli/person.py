"""A person at the terminal: shows what the seat knows and asks for its decisions.

On a terminal the screen is redrawn in place and answers are keys; in a pipe all is plain text and
answers are lines, which may be whole actions too.
Invariant: the text that is shown while a game runs comes from the seat's views and events alone,
and the actions to choose from come from the view.
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
"""Largest number of lines on the course of the game above a question, on a terminal."""
COMMANDS = "? rules   h hint   l last turns   q leave"
LEAVING = """leave the game?
  p  play it on by default actions
  q  drop it: it does not count
any other key stays"""


class TerminalPerson:
    """A person at the terminal, as the referee's `Person`.

    The event loop calls `wake` and `interrupt`, and a thread `decide`. An answer is waited for
    until the waker rings.
    """

    def __init__(
        self,
        read: Callable[[], str | None],
        waker: WakePipe,
        *,
        in_place: bool,
        hint_effort: Effort = HINT_EFFORT,
    ) -> None:
        """Prepare the person for its games.

        read         waits for a key or a line and returns it, or None if the waker rang; raises
                     EOFError at the end of the input
        waker        ends a wait of `read` from another thread
        in_place     True to redraw the screen, as on a terminal; False to print line by line
        hint_effort  number of roll-outs for a hint
        """
        self.on_drop: Callable[[], object] = lambda: None
        """Called when the person drops the game."""
        self.away = False
        """True after the person has left: default actions are played for it."""
        self.dropped = False
        """True after the person has left without finishing the game."""
        self.skips = False
        """True if the person does not wait for the judgement of its decisions."""
        self._read = read
        self._waker = waker
        self._in_place = in_place
        self._hint_effort = hint_effort
        self._is_interrupted = False
        self._deciding = threading.Lock()
        self.hints = 0
        """Number of hints that were shown in this game."""
        self._names: Sequence[str] = ()
        self._story: narration.Story
        self._lines: list[str] = []
        """The course of this game in words."""
        self._printed_lines = 0
        """Number of these lines that were printed, where the screen is not redrawn."""
        self._drawn_lines = 0
        """Number of lines on the screen that the next drawing replaces."""

    def begin(self, game: RefereedGame, seat: int) -> None:
        """Prepare for a game in which the person has this seat, and forget the one before."""
        self.hints = 0
        self._names = game.names
        self._story = narration.Story(game.game.rules, seat=seat)
        self._lines = []
        self._printed_lines = 0
        self._drawn_lines = 0

    def wake(self, why: str) -> None:
        """End the wait for an answer whose decision is no longer wanted, and show the reason."""
        self._lines.append(why)
        self._waker.ring()

    def interrupt(self) -> None:
        """End the wait for an answer, now and in all later decisions: the match is interrupted."""
        self._is_interrupted = True
        self._waker.ring()

    def decide(self, request: PersonRequest) -> str | None:
        """Ask the person for an action, and return it.

        Return None if the decision is no longer wanted, as after its time, or if the person drops
        the game: by a key, or by the end of the input. After the person has left, the default
        action is returned without asking.
        """
        # The thread of an earlier decision, which is no longer wanted, may still be ending.
        with self._deciding:
            for event in request.events:
                self._lines += self._story.add(event)
            if self.away:
                return request.view.legal[0]  # the default action
            try:
                return self._choose(request)
            except (EOFError, BrokenPipeError):
                self._drop()
                return None

    def _choose(self, request: PersonRequest) -> str | None:
        """Ask until an action is chosen, and serve the keys of COMMANDS meanwhile.

        Return None if the decision is no longer wanted, or if the person drops the game.
        """
        choosing = ChoiceDialog(request.view)
        note: Sequence[str] = ()
        board: Sequence[Text] = self._board(request.view)
        while request.is_wanted() and not self._is_interrupted:
            self._draw(self._screen(request, board, choosing.offered, note))
            if not self._in_place:
                board = ()  # in a pipe the board is printed once for a decision
            answer = self._read()
            note = choosing.note
            if answer == "?":
                self._show_text(rules_of(request.view))
            elif answer == "h":
                self.hints += 1
                note = hint(request.view, self._hint_effort)
            elif answer == "l":
                self._show_text(self._lines[-LAST_TURNS:])
            elif answer == "q":
                if self._ask_to_leave():
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

    def _ask_to_leave(self) -> bool:
        """Ask if the person really leaves the game; return True if it does.

        It can leave in two ways: default actions are played for it, or the game does not count.
        """
        self._draw([Text(line) for line in LEAVING.splitlines()])
        answer = self._read()
        self.away = answer == "p"
        if answer == "q":
            self._drop()
        return self.away or self.dropped

    def _drop(self) -> None:
        """End the game without a result."""
        self.dropped = True
        self.on_drop()

    # ----- Between games

    def over(self, game: int, record: GameRecord, seat: int, *, judging: bool, more: bool) -> None:
        """Print that a game is over, and its result.

        game     number of the game
        judging  True if the person's decisions are judged next, which takes some time
        more     True if another game follows; not used here, but by a person at a page
        """
        click.echo()
        echo(f"game {game} is over")
        result = Result(record.points, record.placements)
        for line in narration.tell_end(result, narration.names(record)):
            echo(f"  {line}")
        self.skips = False  # the person has not skipped the judgement of this game yet
        if judging:
            echo("judging your decisions takes some seconds; Ctrl-C skips it")

    def void(self, void: VoidGame, *, more: bool) -> None:
        """Print that a game does not count, and why."""
        click.echo()
        echo(f"game {void.game} is void: {void.reason}")

    def judged(self, analysis: GameAnalysis | None, seat: int) -> None:
        """Print how well the person decided in a game: a summary, and its worst decisions.

        analysis  the judgement of its decisions; None if the person skipped that
        """
        if analysis is None:
            echo("skipped")
            return
        click.echo()
        echo(in_words(analysis, seat))
        decisions = worst(analysis)
        if not decisions:
            echo("no decision was certainly worse than another")
        names = narration.names(analysis.record)
        for decision in decisions:
            click.echo()
            view = game_at(analysis.record, decision.number).view(seat)
            for line in draw_board(view, names, None, width(), known=view.known):
                draw(line)
            print_decision(decision, analysis)
            echo(f"  better: {action_words(decision.judged.best)}")

    def wait_for_next(self) -> None:
        """Return at once: at the terminal the next game follows without a question."""

    def end(self, why: str) -> None:
        """Do nothing: the command itself prints the end."""

    # ----- The screen

    def _board(self, view: View) -> list[Text]:
        """Return the lines of the board as the seat knows it, below a line on the person."""
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
        """Return the lines that the person sees before it decides: board, news, question and keys.

        On a terminal only as many lines as fit are returned.

        board    lines of the board
        offered  choices of the moment, with their keys
        note     lines below the news, such as a hint or an error
        """
        assert request.view.kind is not None
        question = QUESTIONS[request.view.kind]
        if request.time_left != NO_CLOCK:
            question += f" ({duration_text(sum(request.time_left))} left)"
        keys = [f"  {choice.key}  {choice.meaning}" for choice in offered]
        question_and_keys = [question, *keys, COMMANDS]
        # A redrawn screen shows old news again; in a pipe they have been printed.
        shown_before = 0 if self._in_place else self._printed_lines
        news = [*self._lines[shown_before:], *note]
        self._printed_lines = len(self._lines)
        if self._in_place:
            board, news = _cut_to_screen(board, news, len(question_and_keys))
        texts = [fit(line, width()) for line in [*news, *question_and_keys]]
        return [*board, *map(Text, texts)]

    def _show_text(self, lines: Sequence[str]) -> None:
        """Show a text; on a terminal it stays until a key is pressed."""
        wrapped = [
            Text(part)
            for line in lines
            for part in textwrap.wrap(line, width(), subsequent_indent="  ") or [""]
        ]
        if not self._in_place:
            self._draw(wrapped)
            return
        self._draw([*wrapped, Text("any key goes on", "dim")])
        self._read()

    def _draw(self, lines: Sequence[Text]) -> None:
        """Write lines; on a terminal they replace the lines that were drawn before."""
        if self._in_place and self._drawn_lines:
            # Control sequences: go up so many lines, and erase from there on.
            click.echo(f"\x1b[{self._drawn_lines}F\x1b[J", nl=False, color=True)
        self._drawn_lines = len(lines)
        draw(Text("\n").join(lines))


def _cut_to_screen(
    board: Sequence[Text], news: Sequence[str], lines_below: int
) -> tuple[Sequence[Text], list[str]]:
    """Return the last lines of the board and of the news that fit on the terminal.

    The oldest news are left out first, and then the upper lines of the board.

    lines_below  number of lines that follow the news
    """
    # One line stays free for the cursor.
    free_lines = shutil.get_terminal_size().lines - 1 - len(board) - lines_below
    if free_lines > 0:
        return board, list(news[-min(free_lines, MOST_NEWS) :])
    return board[-free_lines:], []


# ----- Answers


def lines_of(source: TextIO, waker: WakePipe) -> Callable[[], str | None]:
    """Return a function that reads the person's next answer, which is a line of a pipe or a file.

    The function returns None if another thread woke it by the waker, and raises EOFError at the end
    of the source.
    """
    unread = bytearray()

    def read_line() -> str | None:
        """Return the next line; None if the waker rang. Raises EOFError if there is none.

        `unread` has the bytes that were read after the last line.
        """
        while b"\n" not in unread:
            # Windows cannot wait for a pipe and a waker at once: there the waker has no effect.
            can_be_woken = sys.platform != "win32"
            if can_be_woken and source not in first_ready([source, waker], None):
                waker.clear()
                return None
            data = os.read(source.fileno(), 4096)
            if data:
                unread.extend(data)
            elif unread:
                unread.extend(b"\n")  # the last line of the source may have no line end
            else:
                raise EOFError
        line, _, after_line = bytes(unread).partition(b"\n")
        unread[:] = after_line
        return line.decode(errors="replace").strip()

    return read_line


def keys_of(
    wait_for_key: Callable[[float | None], str], waker: WakePipe
) -> Callable[[], str | None]:
    """Return a function that reads the person's next answer, which is a key at the terminal.

    The function returns None if another thread woke it by the waker.

    wait_for_key  function of `keys.keys`, which returns "" in this case
    """

    def read_key() -> str | None:
        key = wait_for_key(None)
        if key:
            return key
        waker.clear()
        return None

    return read_key
