"""`deepsea-referee show`: shows a recorded game as an animation, as text, or as events.

A record is verified before anything is shown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from deepsea_cli.options import SEAT, load_record
from deepsea_cli.output import draw, say, width
from deepsea_referee.errors import UserError
from deepsea_rules import narration
from deepsea_rules.constants import SEAT_LETTERS
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import Game
from deepsea_rules.notation import format_position
from deepsea_rules.record import GameRecord, verify


@click.command("show")
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--step", is_flag=True, help="Wait for a key after every position.")
@click.option(
    "--speed",
    metavar="N",
    type=click.FloatRange(0.1, 100),
    default=2.0,
    show_default=True,
    help="Turns per second.",
)
@click.option(
    "--at", metavar="N", type=click.IntRange(0), help="Print the position after turn N and exit."
)
@click.option("--events", is_flag=True, help="Print the events as JSON Lines and exit.")
@click.option(
    "--seat",
    metavar="LETTER",
    type=SEAT,
    help="Print every decision of that seat (view, options, action, time) and exit.",
)
def command(
    record: Path, step: bool, speed: float, at: int | None, events: bool, seat: str | None
) -> None:
    """Animate the game in RECORD; into a pipe, print it turn by turn.

    Keys: space pauses, then goes step by step; b goes back, p continues, q quits.
    """
    if sum((events, at is not None, seat is not None)) > 1:
        raise click.UsageError("--events, --at and --seat exclude each other")
    source = load_record(record)
    if seat is not None:
        from deepsea_cli.seat_report import report_seat

        report_seat(record, source, SEAT_LETTERS.index(seat))
        return
    try:
        game = verify(source)
    except InvalidRecord as error:
        raise InvalidRecord(f"{record}: {error}") from None
    if events:
        for event in game.events_for(None):
            click.echo(json.dumps(event))
    elif at is not None:
        _print_position(source, game, at)
    elif sys.stdout.isatty() and sys.stdin.isatty():
        from deepsea_cli.animation import animate

        animate(source, game, turns_per_second=speed, stepwise=step)
    else:
        _print_story(source, game)


def _print_position(record: GameRecord, game: Game, turn: int) -> None:
    from deepsea_cli.board import draw_board

    *_, last = narration.moments(game)
    if turn > last.turn:
        raise UserError(f"--at: the game has {last.turn} turns, not {turn}")
    # A turn's last moment is the one after its search.
    *_, moment = (moment for moment in narration.moments(game) if moment.turn == turn)
    say(f"{narration.title(record)}, after turn {turn}")
    for line in draw_board(moment.state, narration.names(record), moment.dice, width()):
        draw(line)
    click.echo()
    for text in moment.lines:
        say(text)
    # Not wrapped: it is there to be copied.
    click.echo(format_position(moment.state, "all"))


def _print_story(record: GameRecord, game: Game) -> None:
    say(narration.title(record))
    for seat, name in enumerate(narration.names(record)):
        say(f"  {SEAT_LETTERS[seat]} {name}")
    for moment in narration.moments(game):
        for text in moment.lines:
            say(f"{moment.turn:4} {text}" if narration.is_turn(text) else text)
    say("the game is over")
    for text in (
        *narration.tell_end(game.result(), narration.names(record)),
        *narration.tell_faults(game),
    ):
        say(f"  {text}")
