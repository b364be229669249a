"""Games in the terminal: draws a position, and animates a game.

Start reading at `draw_board` and `animate`.
Invariants: a drawing fits the given width, from 60 columns on; a steady one keeps its height while
the trail shrinks, so that an animation does not move; colours only repeat what characters say; time
passes only while waiting for a key.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from math import ceil

from rich.text import Text

from deepsea_cli.output import column, console, draw, fit, width
from deepsea_rules import narration
from deepsea_rules.actions import CHIPS, Unit
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.narration import ARROWS
from deepsea_rules.ruleset import ABOARD, DIVES, FULL_AIR, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.view import View

WIDEST = 100
"""Number of columns of the widest drawing, since eyes do not jump further."""
CELL = 6
"""Width of a space of the trail."""
LABEL = 4
"""Width of the number at the beginning of a row of the trail."""
PER_ROW = 8
"""Spaces in a row, which are the chips of one level at the opening; a wide terminal has twice that.
"""
NEXT = frozenset({" ", "\n", "\r", "n", "\x1b[C", "\x1b[B"})
BACK = frozenset({"b", "\x1b[D", "\x1b[A"})
PLAY = "p"
QUIT = frozenset({"q", "\x1b", "\x04"})
FEWEST_LINES = 2
MOST_LINES = 8
"""Smallest and largest number of lines on the course of the game below the board."""

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
    """Return the lines of a drawing of a position: air, submarine, trail and divers.

    names   names of the bots by seat
    dice    the last roll; None if no roll is shown
    width   number of columns
    known   values of chips that may be shown, by the chip's number
    steady  True to add empty lines when the trail has shrunk, so that the drawing keeps its height
    """
    width = min(width, WIDEST)
    trail = _trail_lines(state, width)
    if steady:
        # At first there is a space for each chip, and a row of spaces has two lines.
        lines_at_opening = 2 * len(CHIPS) // _spaces_per_row(width)
        trail += [Text()] * (lines_at_opening - len(trail))
    return [
        _air_line(state, dice),
        _submarine_line(state),
        *trail,
        Text(),
        *_diver_lines(state, names, width, known),
    ]


def seat_mark(state: GameState | View, seat: int) -> Text:
    """Return a diver as it stands on the board: its letter and an arrow for its direction."""
    return Text(f"{SEAT_LETTERS[seat]}{ARROWS[state.homeward[seat]]}", SEAT_STYLES[seat])


def _spaces_per_row(width: int) -> int:
    """Return how many spaces of the trail a row has on a terminal of this width."""
    is_wide = width >= LABEL + 2 * PER_ROW * CELL
    return 2 * PER_ROW if is_wide else PER_ROW


def _air_line(state: GameState | View, dice: tuple[int, int] | None) -> Text:
    """Return the line with a bar of the remaining air, the dive, and the last roll."""
    air = max(0, min(state.air, FULL_AIR))
    if air > FULL_AIR // 2:
        style = "green"
    elif air > FULL_AIR // 5:
        style = "yellow"
    else:
        style = "red"
    bar = Text("air ")
    bar.append("█" * air, style)
    bar.append("░" * (FULL_AIR - air), "dim")
    bar.append(f" {air:2}   dive {state.dive} of {DIVES}   ")
    for face in dice or ():
        bar.append(f" {face} ", "reverse").append(" ")
    return bar


def _submarine_line(state: GameState | View) -> Text:
    """Return the line with the divers that have not left yet, and those that are home again."""
    line = Text("sub ")
    for seat in range(state.players):
        if state.place[seat] == ABOARD and state.phase != "over":
            line.append_text(seat_mark(state, seat)).append(" ")
    if state.home_order:
        line.append("home ", "dim")
        for seat in state.home_order:
            line.append(f"{SEAT_LETTERS[seat]} ", SEAT_STYLES[seat])
    return line


def _trail_lines(state: GameState | View, width: int) -> list[Text]:
    """Return the lines of the trail, two for each row of spaces: the chips, and divers below them.

    A row begins with the number of its first space.
    """
    seat_at_space = {place: seat for seat, place in enumerate(state.place) if place > ABOARD}
    free_cells = 0  # the first space begins a row
    lines: list[Text] = []
    for space, unit in enumerate(state.trail[1:], start=1):
        # A long pile, with a blank after its name, takes more than one cell of the row.
        cells = ceil((len(unit.name) + 1) / CELL)
        if cells > free_cells:
            lines += [Text(f"{space:2}  ", "dim"), Text(" " * LABEL)]
            free_cells = _spaces_per_row(width)
        free_cells -= cells
        chip_line, diver_line = lines[-2:]
        columns = cells * CELL
        chip_line.append_text(_unit_text(unit, columns))
        has_diver = space in seat_at_space
        diver = seat_mark(state, seat_at_space[space]) if has_diver else Text()
        diver.align("left", columns - 2)  # after the two blanks before it
        diver_line.append("  ").append_text(diver)
    return lines


def _unit_text(unit: Unit, width: int) -> Text:
    """Return a chip, a pile in brackets, or a dot for an empty space, in so many columns."""
    if not unit:
        return Text("  · " + " " * (width - 4), "dim")
    text = Text()
    if len(unit) == 1:
        text.append(f"  {unit.name}  ", LEVEL_STYLES[unit.levels[0]])
    else:
        text.append("[")
        for level in unit.levels:
            text.append(str(level), LEVEL_STYLES[level])
        text.append("]")
    text.align("left", width)
    return text


def _diver_lines(
    state: GameState | View, names: Sequence[str], width: int, known: Mapping[int, int]
) -> Iterator[Text]:
    """Yield the head and the rows of the table of divers: name, place, cargo and points.

    known  values of chips that may be shown, by the chip's number
    """
    mark_width, name_width, place_width, points_width = 4, 14, 6, 6
    cargo_width = max(8, width - mark_width - name_width - place_width - points_width)
    head = f"    {'diver':{name_width}}{'at':{place_width}}{'cargo':{cargo_width}}points"
    yield Text(head, "dim")
    for seat in range(state.players):
        is_to_move = state.to_move == seat and state.phase != "over"
        line = Text("›" if is_to_move else " ").append_text(seat_mark(state, seat)).append(" ")
        place = state.place[seat]
        place_name = {HOME: "home", ABOARD: "sub"}.get(place, str(place))
        cargo = " ".join(unit.name for unit in state.cargo[seat])
        points = _points_text(state.bank[seat], known)
        line.append(column(fit(names[seat], name_width - 1), name_width))
        line.append(column(place_name, place_width))
        line.append(column(fit(cargo, cargo_width - 1), cargo_width))
        line.append(f"{points:>{points_width}}")
        yield line


def _points_text(bank: Collection[int], known: Mapping[int, int]) -> str:
    """Return the points of the chips that a diver has brought home.

    They are the sum of the known values; "+2?" after it stands for two chips of unknown value.
    """
    points = sum(known.get(chip, 0) for chip in bank)
    unknown_values = sum(chip not in known for chip in bank)
    return f"{points}+{unknown_values}?" if unknown_values else f"{points}"


# ----- The animation


def animate(record: GameRecord, game: Game, *, turns_per_second: float, stepwise: bool) -> None:
    """Show the game on stdout, position by position, until it is over or the viewer quits.

    stepwise  True to wait for a key at each position, as after the space key
    """
    from rich.live import Live  # a single position does without these

    from deepsea_cli.keys import keys

    scenes = list(_scenes(record, game))
    # Most turns have two scenes, one before and one after the search.
    scene_seconds = 0.5 / turns_per_second
    with keys() as wait, Live(console=console(), auto_refresh=False) as live:
        index = 0
        while True:
            live.update(scenes[index](stepwise), refresh=True)
            if index == len(scenes) - 1 and not stepwise:
                return
            key = wait(None if stepwise else scene_seconds)
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
    """Yield the scenes of the animation: a function for each position, which draws it.

    Its argument is True if the animation goes step by step. The end of the game is a scene, too.
    """
    captions: list[str] = []
    positions = list(narration.moments(game))
    for position in positions:
        captions += position.lines
        yield partial(_scene, record, position, captions[-MOST_LINES:])
    end = narration.tell_end(game.result(), narration.names(record))
    captions += ["the game is over", *end, *narration.tell_faults(game)]
    yield partial(_scene, record, positions[-1], captions[-MOST_LINES:])


def _scene(
    record: GameRecord,
    position: narration.NarratedPosition,
    captions: Sequence[str],
    stepwise: bool,
) -> Text:
    """Return the drawing of a scene: title, board, the last captions, and the keys.

    captions  lines that tell the game up to this position
    stepwise  True if the animation goes on at a key, False if it does so by itself
    """
    columns = width()
    title = f"{narration.title(record)}, turn {position.turn}"
    names, known = narration.names(record), position.known
    board = draw_board(position.state, names, position.dice, columns, known=known, steady=True)
    lines = [Text(fit(title, columns), "bold"), *board, Text()]
    # One line stays free for the cursor and one for the keys.
    free_lines = shutil.get_terminal_size().lines - len(lines) - 2
    caption_lines = max(FEWEST_LINES, min(MOST_LINES, free_lines))
    empty_lines = [""] * (caption_lines - len(captions))
    last_captions = [*captions[-caption_lines:], *empty_lines]
    lines += [Text(fit(caption, columns)) for caption in last_captions]
    keys = "space next   b back   p play   q quit" if stepwise else "space stop   q quit"
    lines.append(Text(keys, "dim"))
    return Text("\n").join(lines)
