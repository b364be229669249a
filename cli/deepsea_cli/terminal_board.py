"""Games in the terminal: draws a position (air, submarine, trail, divers), and animates a game.

Invariants: a drawing fits the given width, from 60 columns on; a steady one keeps its height while
the trail shrinks, so that an animation does not move; colours only repeat what characters say. The
terminal's state is restored, whatever happens; a key works at any moment; time passes only while
waiting for one.

Single keys from the terminal.

`keys()` is a context manager that gives a function: it waits that many seconds, or for ever, for a
key; "" if none came, or if the waker rang, which ends a wait in another thread. The terminal's
state is restored afterwards.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from rich.text import Text

from deepsea_cli.output import column, console, draw, fit, width
from deepsea_referee.interrupts import WakePipe, first_ready
from deepsea_rules import narration
from deepsea_rules.actions import CHIPS, Unit
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.narration import ARROWS
from deepsea_rules.ruleset import ABOARD, DIVES, FULL_AIR, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.view import View

WIDEST = 100
"""A wider terminal gets the same drawing: eyes do not jump that far."""
CELL = 6
LABEL = 4
PER_ROW = 8
"""Spaces a row holds, or twice as many on a wide terminal: at the opening a row is a level."""
NEXT = frozenset({" ", "\n", "\r", "n", "\x1b[C", "\x1b[B"})
BACK = frozenset({"b", "\x1b[D", "\x1b[A"})
PLAY = "p"
QUIT = frozenset({"q", "\x1b", "\x04"})
FEWEST_LINES = 2
MOST_LINES = 8

LEVEL_STYLES = ("", "black on bright_cyan", "black on cyan", "white on blue", "white on dark_blue")
SEAT_STYLES = ("bold red", "bold green", "bold yellow", "bold magenta", "bold cyan", "bold white")


def print_board_at(record: GameRecord, number: int) -> None:
    """Print the position of a recorded game at a decision, with all values."""
    from deepsea_referee.workbench.replay import game_at

    state, names = game_at(record, number).state, narration.names(record)
    for line in draw_board(state, names, None, width(), known=dict(enumerate(state.values))):
        draw(line)


def draw_board(
    state: GameState | View,
    names: Sequence[str],
    dice: tuple[int, int] | None,
    width: int,
    *,
    known: Mapping[int, int],
    steady: bool = False,
) -> list[Text]:
    """The position line by line.

    dice    those that were rolled last
    known   the values that may be shown, by chip id
    steady  make a trail that shrank as high as it was at the opening
    """
    width = min(width, WIDEST)
    trail = _trail(state, width)
    if steady:
        trail += [Text()] * (2 * len(CHIPS) // _per_row(width) - len(trail))
    return [
        _air(state, dice),
        _submarine(state),
        *trail,
        Text(),
        *_divers(state, names, width, known),
    ]


def seat_mark(state: GameState | View, seat: int) -> Text:
    """A diver as it stands on the board: its letter and where it is heading."""
    return Text(f"{SEAT_LETTERS[seat]}{ARROWS[state.homeward[seat]]}", SEAT_STYLES[seat])


def _per_row(width: int) -> int:
    return PER_ROW * (2 if width >= LABEL + 2 * PER_ROW * CELL else 1)


def _air(state: GameState | View, dice: tuple[int, int] | None) -> Text:
    left = max(0, min(state.air, FULL_AIR))
    style = "green" if left > FULL_AIR // 2 else "yellow" if left > FULL_AIR // 5 else "red"
    bar = Text("air ")
    bar.append("█" * left, style)
    bar.append("░" * (FULL_AIR - left), "dim")
    bar.append(f" {left:2}   dive {state.dive} of {DIVES}   ")
    for face in dice or ():
        bar.append(f" {face} ", "reverse").append(" ")
    return bar


def _submarine(state: GameState | View) -> Text:
    line = Text("sub ")
    for seat in range(state.players):
        if state.place[seat] == ABOARD and state.phase != "over":
            line.append_text(seat_mark(state, seat)).append(" ")
    if state.home_order:
        line.append("home ", "dim")
        for seat in state.home_order:
            line.append(f"{SEAT_LETTERS[seat]} ", SEAT_STYLES[seat])
    return line


def _trail(state: GameState | View, width: int) -> list[Text]:
    """Two lines for each row of spaces: what lies there, and who is there."""
    at = {place: seat for seat, place in enumerate(state.place) if place > ABOARD}
    room = 0
    lines: list[Text] = []
    for space, unit in enumerate(state.trail[1:], start=1):
        # A pile that was laid again may be long: it takes the room of several spaces.
        cells = -(-(len(unit.name) + 1) // CELL)
        if cells > room:
            lines += Text(f"{space:2}  ", "dim"), Text(" " * LABEL)
            room = _per_row(width)
        room -= cells
        lines[-2].append_text(_tile(unit, cells * CELL))
        mark = seat_mark(state, at[space]) if space in at else Text()
        mark.align("left", cells * CELL - 2)
        lines[-1].append("  ").append_text(mark)
    return lines


def _tile(unit: Unit, width: int) -> Text:
    if not unit:
        return Text("  · " + " " * (width - 4), "dim")
    tile = Text()
    if len(unit) == 1:
        tile.append(f"  {unit.name}  ", LEVEL_STYLES[unit.levels[0]])
    else:
        tile.append("[")
        for level in unit.levels:
            tile.append(str(level), LEVEL_STYLES[level])
        tile.append("]")
    tile.align("left", width)
    return tile


def _divers(
    state: GameState | View, names: Sequence[str], width: int, known: Mapping[int, int]
) -> Iterator[Text]:
    name_column, place_column, points_column = 14, 6, 6
    cargo_column = max(8, width - 4 - name_column - place_column - points_column)
    head = f"    {'diver':{name_column}}{'at':{place_column}}{'cargo':{cargo_column}}points"
    yield Text(head, "dim")
    for seat in range(state.players):
        moves = state.to_move == seat and state.phase != "over"
        line = Text("›" if moves else " ").append_text(seat_mark(state, seat)).append(" ")
        place = state.place[seat]
        where = {HOME: "home", ABOARD: "sub"}.get(place, str(place))
        cargo = " ".join(unit.name for unit in state.cargo[seat])
        bank = state.bank[seat]
        points = str(sum(known.get(chip, 0) for chip in bank))
        if hidden := sum(chip not in known for chip in bank):
            points += f"+{hidden}?"
        line.append(column(fit(names[seat], name_column - 1), name_column))
        line.append(column(where, place_column))
        line.append(column(fit(cargo, cargo_column - 1), cargo_column))
        line.append(f"{points:>{points_column}}")
        yield line


# The animation


def animate(record: GameRecord, game: Game, *, turns_per_second: float, stepwise: bool) -> None:
    """Play the game on stdout until it is over or the viewer has had enough."""
    from rich.live import Live  # a single position does without these

    scenes = list(_scenes(record, game))
    # A turn that searches has two scenes, most turns do.
    pause = 0.5 / turns_per_second
    with keys() as wait, Live(console=console(), auto_refresh=False) as live:
        index = 0
        while True:
            live.update(scenes[index](stepwise), refresh=True)
            if index == len(scenes) - 1 and not stepwise:
                return
            key = wait(None if stepwise else pause)
            if key in QUIT:
                return
            if key == PLAY:
                stepwise = False
            elif key in BACK:
                stepwise = True
                index = max(0, index - 1)
            elif key in NEXT and not stepwise:
                stepwise = True
            elif key in NEXT or not key:
                if index == len(scenes) - 1:
                    return
                index += 1


def _scenes(record: GameRecord, game: Game) -> Iterator[Callable[[bool], Text]]:
    """What is drawn, one after the other; each is drawn only when it is shown."""
    captions: list[str] = []
    moments = list(narration.moments(game))
    for moment in moments:
        captions += moment.lines
        yield partial(_scene, record, moment, captions[-MOST_LINES:])
    end = narration.tell_end(game.result(), narration.names(record))
    captions += ["the game is over", *end, *narration.tell_faults(game)]
    yield partial(_scene, record, moments[-1], captions[-MOST_LINES:])


def _scene(
    record: GameRecord,
    moment: narration.NarratedPosition,
    captions: Sequence[str],
    stepwise: bool,
) -> Text:
    columns = width()
    head = f"{narration.title(record)}, turn {moment.turn}"
    names, known = narration.names(record), moment.known
    board = draw_board(moment.state, names, moment.dice, columns, known=known, steady=True)
    lines = [Text(fit(head, columns), "bold"), *board, Text()]
    # One line stays free for the cursor and one for the keys.
    free = shutil.get_terminal_size().lines - len(lines) - 2
    room = max(FEWEST_LINES, min(MOST_LINES, free))
    recent = [*captions[-room:], *[""] * (room - len(captions))]
    hint = "space next   b back   p play   q quit" if stepwise else "space stop   q quit"
    lines += [*(Text(fit(text, columns)) for text in recent), Text(hint, "dim")]
    return Text("\n").join(lines)


if sys.platform == "win32":
    import msvcrt
    import time  # noqa: TID251  (a console cannot be waited for)

    LOOK_S = 0.02
    ARROW_KEYS = {"H": "\x1b[A", "P": "\x1b[B", "M": "\x1b[C", "K": "\x1b[D"}
    """What a console sends for an arrow, after its prefix: as a terminal elsewhere would."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Read single keys from the console, without echo."""

        def wait(seconds: float | None) -> str:
            deadline_s = None if seconds is None else time.monotonic() + seconds
            while not msvcrt.kbhit():
                if deadline_s is not None and time.monotonic() > deadline_s:
                    return ""
                if waker is not None and first_ready([waker], 0):
                    return ""
                time.sleep(LOOK_S)
            key = msvcrt.getwch()
            if key == "\x03":
                raise KeyboardInterrupt
            return ARROW_KEYS.get(msvcrt.getwch(), "?") if key in ("\x00", "\xe0") else key

        yield wait

else:
    import os
    import select
    import signal
    import termios
    import tty

    ESCAPE = b"\x1b"
    """Begins what an arrow key sends, three bytes; alone it is the key of that name."""
    KEY_SECONDS = 0.05
    """How long the rest of a key may take."""

    @contextmanager
    def keys(waker: WakePipe | None = None) -> Iterator[Callable[[float | None], str]]:
        """Read single keys from the terminal, without echo."""
        stdin = sys.stdin.fileno()
        before = termios.tcgetattr(stdin)
        # A Ctrl-C just before `select` begins would not end it: the pipe does.
        signalled, signal_pipe = os.pipe()
        os.set_blocking(signalled, False)
        os.set_blocking(signal_pipe, False)
        former = signal.set_wakeup_fd(signal_pipe, warn_on_full_buffer=False)

        def wait(seconds: float | None) -> str:
            key = b""
            while True:
                timeout = KEY_SECONDS if key else seconds
                sources = [stdin, signalled, *([waker] if waker else [])]
                ready, _, _ = select.select(sources, [], [], timeout)
                if not ready or waker in ready:
                    break
                if stdin not in ready:
                    os.read(signalled, 4096)  # a handler that raises has done so
                    continue
                try:
                    byte = os.read(stdin, 1)
                except OSError:
                    byte = b""
                if not byte:
                    return "q"  # the terminal has gone
                key += byte
                if not key.startswith(ESCAPE) or len(key) == 3:
                    break
            return key.decode(errors="replace")

        try:
            tty.setcbreak(stdin, termios.TCSADRAIN)
            yield wait
        finally:
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
            signal.set_wakeup_fd(former)
            os.close(signalled)
            os.close(signal_pipe)
