"""`deepsea-referee show`: shows a recorded game as an animation, as text, or as events.

The record comes from a file, a folder, stdin or a ladder, and is verified before anything is shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.options import (
    SEAT,
    argument,
    decimal_option,
    flag,
    load_record,
    new_file_option,
    option,
    path_in_errors,
    record_paths_in,
    shared,
    whole_number,
    with_options,
)
from deepsea_cli.output import draw, echo, print_command, width
from deepsea_referee.errors import UserError
from deepsea_rules import narration
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.notation import format_position
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
    from deepsea_referee.workbench.replay import ReplayedDecision
    from deepsea_sdk.bot import Note

LISTED = 40
"""Largest number of games of a folder that are listed."""


@dataclass(frozen=True)
class ShowOptions:
    """Arguments and options of `show`."""

    record: Path = argument(metavar="RECORD|FOLDER|-|GAME-ID", type=click.Path(path_type=Path))
    step: bool = flag("Wait for a key after every position.")
    speed: float = option(
        "Turns per second.", decimal_option, least=0.1, most=100, metavar="N", default=2.0
    )
    at: int | None = whole_number(
        "Print the position at decision N, and what was decided.", least=0
    )
    turn: int | None = whole_number("Print the position after turn N and exit.", least=0)
    events: bool = flag("Print the events as JSON Lines and exit.")
    frames: bool = flag(
        "Print what the viewer of games draws as JSON and exit; with --seat as that seat knew it."
    )
    seat: str | None = option(
        "Print every decision of that seat (view, options, action, time) and exit.",
        metavar="LETTER",
        type=SEAT,
    )
    html: Path | None = option(
        "Write a page with the game, or with the games of a FOLDER, to watch in a browser.",
        new_file_option,
    )
    browser: bool = flag("Open that page in the browser.")
    ladder: bool = flag("Show GAME-ID of a ladder.")
    store_text: str = shared(store_option)


@click.command("show")
@with_options(ShowOptions)
def command(options: ShowOptions) -> None:
    """Animate the game in RECORD; into a pipe, print it turn by turn.

    `-` reads the record from stdin. A FOLDER with one record shows it, another lists its games.
    With --html or --browser it is shown in a browser instead.

    Keys: space pauses, then goes step by step; b goes back, p continues, q quits.
    """
    given = click.get_current_context().get_parameter_source("store_text")
    if given is ParameterSource.COMMANDLINE and not options.ladder:
        raise click.UsageError("--store is for GAME-ID of a ladder: add --ladder")
    record, at, turn, seat = options.record, options.at, options.turn, options.seat
    page = options.html is not None or options.browser
    decisions = options.frames or seat is not None
    if sum((options.events, at is not None, turn is not None, decisions, page)) > 1:
        raise click.UsageError(
            "--events, --at, --turn, --frames or --seat, and --html exclude each other"
        )
    paths = record_paths_in(record) if record.is_dir() and not options.ladder else [record]
    if len(paths) > 1 and not page:
        shows_one_game = options.events or options.step or decisions
        _refuse_folder(paths, is_refused=shows_one_game or at is not None or turn is not None)
        _list_games(paths)
        return
    load = partial(_load_from_ladder, options.store_text) if options.ladder else load_record
    if page:
        from deepsea_cli.pages import show_page

        show_page(paths, load, options.html, browser=options.browser)
        return
    path, game_record = paths[0], load(paths[0])
    viewer = None if seat is None else SEAT_LETTERS.index(seat)
    if viewer is not None and not options.frames:
        _print_seat(path, game_record, viewer)
        return
    with path_in_errors(path):
        game = verify(game_record)
    if options.frames:
        _print_frames(game_record, game, viewer)
    elif options.events:
        for event in game.events_for(None):
            click.echo(json.dumps(event))
    elif at is not None:
        _print_at(path, game_record, at)
    elif turn is not None:
        _print_position(game_record, game, turn)
    elif sys.stdout.isatty() and sys.stdin.isatty():
        from deepsea_cli.terminal_board import animate

        animate(game_record, game, turns_per_second=options.speed, stepwise=options.step)
    else:
        _print_story(game_record, game)


def _load_from_ladder(store_text: str, game_id: Path) -> GameRecord:
    """Load the record of a ladder's game; `store_text` is the ladder's file or URL."""
    with open_store(store_text) as store:
        return GameRecord.from_json(store.games.record(str(game_id)))


def _refuse_folder(paths: Sequence[Path], *, is_refused: bool) -> None:
    """Raise UserError if an option shows a single game, and a folder with several was named."""
    if is_refused:
        raise UserError(f"{paths[0].parent}: {len(paths)} games; name one, such as {paths[0]}")


def _result_text(record: GameRecord) -> str:
    """Return placement, bot and points of each seat, the best first: "1 steady 24, 2 greedy 9"."""
    seats = sorted(range(len(record.seats)), key=lambda seat: record.placements[seat])
    results = [
        f"{record.placements[seat]} {record.seats[seat].name} {record.points[seat]}"
        for seat in seats
    ]
    return ", ".join(results)


def _list_games(paths: Sequence[Path]) -> None:
    """Print a line with the result of each game in a folder, and the command that shows the first.

    The records are verified before. Of very many games the first ones are listed.
    """
    for path in paths[:LISTED]:
        record = load_record(path)
        with path_in_errors(path):
            verify(record)
        echo(f"{path.name}  {_result_text(record)}")
    if len(paths) > LISTED:
        echo(f"and {len(paths) - LISTED} more")
    click.echo()
    print_command("deepsea-referee", "show", str(paths[0]))


def _print_position(record: GameRecord, game: Game, turn: int) -> None:
    """Print the position after a turn, what happened in the turn, and the position's notation.

    turn  number of the turn; raises UserError if the game has fewer turns
    """
    from deepsea_cli.terminal_board import draw_board

    all_positions = list(narration.moments(game))
    last_turn = all_positions[-1].turn
    if turn > last_turn:
        raise UserError(f"--turn: the game has {last_turn} turns, not {turn}")
    # One position after the move, and one after the search if the turn has one.
    positions_of_turn = [position for position in all_positions if position.turn == turn]
    end = positions_of_turn[-1]
    echo(f"{narration.title(record)}, after turn {turn}")
    for line in draw_board(end.state, narration.names(record), end.dice, width(), known=end.known):
        draw(line)
    click.echo()
    for position in positions_of_turn:
        for text in position.lines:
            echo(text)
    # Not wrapped, because it is there to be copied.
    click.echo(format_position(end.state, "all"))


def _print_at(path: Path, record: GameRecord, number: int) -> None:
    """Print the position at a decision, and the decision as its seat knew it.

    path    path of the record, beside which the notes of bots may be
    number  number of the decision in the record
    """
    from deepsea_cli.terminal_board import print_board_at
    from deepsea_referee.results_folder import notes_beside
    from deepsea_referee.workbench.replay import Replay, control_of, refuse_decision

    refuse_decision(record, number)
    seat = record.decisions[number].seat
    note = notes_beside(path).get(number)
    echo(f"{narration.title(record)}, at decision {number}")
    print_board_at(record, number)
    click.echo()
    echo(f"{SEAT_LETTERS[seat]} {record.seats[seat].name}:")
    faults_so_far = 0
    for replayed in Replay(record, seat).moments():
        if replayed.decision.fault is not None:
            faults_so_far += 1
        if replayed.number == number:
            _print_decision(replayed, control_of(record), faults_so_far, note)


def _print_frames(record: GameRecord, game: Game, viewer: int | None) -> None:
    """Print the positions of a game with their texts as JSON, as programs that draw games need it.

    viewer  the seat from which they are seen, with its knowledge alone; None to show all
    """
    from deepsea_arena.frames import frames

    if viewer is not None and viewer >= game.players:
        raise UserError(f"--seat: the game has seats A to {SEAT_LETTERS[game.players - 1]}")
    click.echo(json.dumps(frames(record, viewer), ensure_ascii=False))


def _print_story(record: GameRecord, game: Game) -> None:
    """Print the whole game turn by turn, and how it ended."""
    echo(narration.title(record))
    for seat, name in enumerate(narration.names(record)):
        echo(f"  {SEAT_LETTERS[seat]} {name}")
    for moment in narration.moments(game):
        for line in moment.lines:
            echo(f"{moment.turn:4} {line}" if narration.is_turn(line) else line)
    echo("the game is over")
    end = narration.tell_end(game.result(), narration.names(record))
    for line in (*end, *narration.tell_faults(game)):
        echo(f"  {line}")


def _print_seat(path: Path, record: GameRecord, seat: int) -> None:
    """Print all decisions of a seat as it knew them, its forfeit, and how the game ended.

    path  path of the record, beside which the notes of bots may be
    """
    from deepsea_referee.results_folder import notes_beside
    from deepsea_referee.workbench.replay import Replay, control_of

    notes = notes_beside(path)
    with path_in_errors(path):
        replay = Replay(record, seat)
    time_control = control_of(record)
    letter = SEAT_LETTERS[seat]
    clock, name = record.clock or "none", record.seats[seat].name
    echo(f"{narration.title(record)}, clock {clock}, seat {letter}: {name}")
    faults_so_far = 0
    for replayed in replay.moments():
        if replayed.decision.fault is not None:
            faults_so_far += 1
        _print_decision(replayed, time_control, faults_so_far, notes.get(replayed.number))
    click.echo()
    for forfeit in record.forfeits:
        if forfeit.seat == seat:
            echo(
                f"{letter} forfeited with decision {forfeit.decision}: from there on it was not "
                "asked, and default actions were played"
            )
    echo("the game is over")
    for line in narration.tell_end(replay.game.result(), narration.names(record)):
        echo(f"  {line}")


def _print_decision(
    moment: ReplayedDecision, control: TimeControl | None, faults: int, note: Note | None
) -> None:
    """Print a decision with its options, the choice, its time and its fault.

    control  time control of the game; None if no clock ran
    faults   number of faults of the seat up to this decision
    note     the bot's note on the decision, if it wrote one
    """
    view, decision = moment.view, moment.decision
    click.echo()
    echo(f"decision {moment.number}, dive {view.dive}, to {view.kind}")
    # Not wrapped, because it is there to be copied to `explain`.
    click.echo(f"  {view}")
    echo(f"  options  {', '.join(view.legal)}")
    echo(f"  choice   {decision.action}")
    if note is not None:
        echo(f"  note     {note.line()}")
    time_line = f"  time     {decision.us / 1000:.1f} ms"
    if control is not None:
        from_bank_us = max(0, decision.us - control.budget_us)
        if from_bank_us:
            time_line += f", {from_bank_us / 1000:.1f} ms of it from the bank"
        time_line += f"; {moment.bank_us / 1000:.0f} ms left in the bank"
    echo(time_line)
    if decision.fault is not None:
        illegal_answer = f": {decision.came}" if decision.came else ""
        echo(f"  fault    {decision.fault}{illegal_answer}")
        echo(
            f"           the default action was played; fault {faults} of this seat in this game "
            f"({FAULTS_TO_FORFEIT} forfeit it, a crash does at once)"
        )
