"""Animates a game in the terminal.

Invariants: the terminal's state is restored, whatever happens; a key works at any moment; time
passes only while waiting for one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

from rich.live import Live
from rich.text import Text

from deepsea_cli.keys import keys
from deepsea_cli.output import console, fit, width
from deepsea_cli.terminal_board import draw_board
from deepsea_rules import narration
from deepsea_rules.game import Game
from deepsea_rules.record import GameRecord

NEXT = frozenset({" ", "\n", "\r", "n", "\x1b[C", "\x1b[B"})
BACK = frozenset({"b", "\x1b[D", "\x1b[A"})
PLAY = "p"
QUIT = frozenset({"q", "\x1b", "\x04"})
FEWEST_LINES = 2
MOST_LINES = 8


def animate(record: GameRecord, game: Game, *, turns_per_second: float, stepwise: bool) -> None:
    """Play the game on stdout until it is over or the viewer has had enough."""
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
        yield _scene(record, moment, tuple(captions[-MOST_LINES:]))
    captions.append("the game is over")
    captions += [
        *narration.tell_end(game.result(), narration.names(record)),
        *narration.tell_faults(game),
    ]
    yield _scene(record, moments[-1], tuple(captions[-MOST_LINES:]))


def _scene(
    record: GameRecord, moment: narration.NarratedPosition, captions: tuple[str, ...]
) -> Callable[[bool], Text]:
    def draw(stepwise: bool) -> Text:
        columns = width()
        head = f"{narration.title(record)}, turn {moment.turn}"
        lines = [Text(fit(head, columns), "bold")]
        names = narration.names(record)
        lines += draw_board(moment.state, names, moment.dice, columns, steady=True)
        lines.append(Text())
        # One line stays free for the cursor and one for the keys.
        free = shutil.get_terminal_size().lines - len(lines) - 2
        room = max(FEWEST_LINES, min(MOST_LINES, free))
        recent = [*captions[-room:], *[""] * (room - len(captions))]
        lines += [Text(fit(text, columns)) for text in recent]
        hint = "space next   b back   p play   q quit" if stepwise else "space stop   q quit"
        lines.append(Text(hint, "dim"))
        return Text("\n").join(lines)

    return draw
