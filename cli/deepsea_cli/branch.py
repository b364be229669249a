"""`deepsea-referee branch` and `debug`: bots in a recorded game.

`branch` continues the game from one of its decisions, and prints the new result beside the original
one, or the means of many games with other dice. `debug` shows what a bot would do now.
Invariants: the bot of `debug` runs in this thread and gets exactly what its seat received; its
exceptions are not caught, so that a debugger stops where they are raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.options import (
    SEAT,
    argument,
    complete_bot,
    load_record,
    new_file_option,
    number_option,
    option,
    path_in_errors,
    show_hints,
    whole_number,
    with_options,
)
from deepsea_cli.output import Column, Progress, echo, grid
from deepsea_referee.errors import RefereeError, UserError
from deepsea_rules import narration
from deepsea_rules.errors import RulesError
from deepsea_rules.game import GameRecord, RecordSeat, verify
from deepsea_rules.printable import printable
from deepsea_rules.ruleset import SEAT_LETTERS

if TYPE_CHECKING:
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.workbench.replay import BotLine, ReplayedDecision
    from deepsea_sdk.bot import Note


@dataclass(frozen=True)
class BranchOptions:
    """Arguments and options of `branch`."""

    record: Path = argument(type=click.Path(path_type=Path))
    bots: tuple[str, ...] = argument(metavar="[BOT]...", nargs=-1, shell_complete=complete_bot)
    at: int = whole_number(
        "The decision to continue from, numbered as by `show --at`, `debug` and `analyse`.",
        least=0,
        required=True,
    )
    action: str | None = option("The action of that decision.", metavar="ACTION")
    games: int = whole_number(
        "Play on N times, each with other dice, and show the mean placement scores.",
        most=100_000,
        default=1,
    )
    out: Path | None = option("Write the record of the new game.", new_file_option)


@click.command("branch")
@with_options(BranchOptions)
def command(options: BranchOptions) -> None:
    """Continue RECORD from decision N with other bots or another action.

    BOT is one Python bot for all seats, or one for each, seat A first; without a BOT those of the
    game play, as they are now. They run in this process and no clock runs.

    The dice are those of the record: one future of many. With --games each game has different dice;
    with --action, too, the recorded action is played on with the same dice, for comparison.
    """
    bots, at, out = options.bots, options.at, options.out
    if options.games > 1 and out is not None:
        raise click.UsageError("--out writes one game, with the dice of the record: omit --games")
    from deepsea_bundle.atomic import write_atomically
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.results_folder import bots_beside
    from deepsea_referee.workbench.replay import branch, original_bots

    original = load_record(options.record)
    with path_in_errors(options.record):
        verify(original)
    seats = len(original.seats)
    if len(bots) not in (0, 1, seats):
        raise UserError(f"name one bot for all seats, or {seats}, one for each; not {len(bots)}")
    specs = [show_hints(resolve(bot)) for bot in bots] * (seats if len(bots) == 1 else 1)
    if not specs:
        specs = [show_hints(bot) for bot in original_bots(original, bots_beside(options.record))]
        echo(f"programs: {', '.join(map(_seat_program, range(seats), specs, original.seats))}")
    if options.games > 1:
        _play_with_other_dice(original, at, specs, options.action, options.games)
        return
    branched = branch(original, at, specs, options.action)
    echo(f"{narration.title(original)}, played on from decision {at}")
    _print_first_difference(original, branched.record, branched.first_other)
    click.echo()
    _print_results(original, branched.record)
    click.echo()
    echo("this is one future of many, with the dice of the record: --games 100 plays 100 others")
    if lines := narration.tell_faults(branched.game):
        click.echo()
        for line in lines:
            echo(line)
    if out is not None:
        try:
            write_atomically(out, branched.record.to_json())
        except OSError as error:
            raise UserError(f"{out}: cannot be written: {error.strerror or error}") from None
        click.echo()
        echo(f"record of the new game: {out}")


def _seat_program(seat: int, bot: BotSpec, recorded: RecordSeat) -> str:
    """Return the letter of a seat and the path of its program, with a remark if it was changed.

    bot       the program as it is now
    recorded  the seat in the record, which has the digest of the program that played
    """
    changed = " (changed since the game)" if bot.digest != recorded.digest else ""
    return f"{SEAT_LETTERS[seat]} {bot.argument}{changed}"


def _print_first_difference(original: GameRecord, new: GameRecord, decision: int | None) -> None:
    """Print the first decision of the new game that differs from the record.

    decision  number of this decision, or None if all are the same
    """
    if decision is None:
        echo("every decision is the same")
        return
    recorded, changed = original.decisions[decision], new.decisions[decision]
    instead_of = f", not {recorded.action}"
    if recorded.seat != changed.seat:
        instead_of = f" where {SEAT_LETTERS[recorded.seat]} played {recorded.action}"
    letter = SEAT_LETTERS[changed.seat]
    echo(f"first different decision: {decision}, {letter} plays {changed.action}{instead_of}")


def _play_with_other_dice(
    original: GameRecord, at: int, bots: Sequence[BotSpec], action: str | None, games: int
) -> None:
    """Play on from a decision many times, and print the mean placement scores of all seats.

    at      number of the decision
    action  action of this decision, which is compared with the recorded one; None: the bot decides
    games   number of games, each with dice of its own
    """
    from deepsea_arena.analysis import mean
    from deepsea_referee.bots.resolve import with_unique_names
    from deepsea_referee.workbench.replay import futures

    def mean_text(numbers: Sequence[float], sign: str = "") -> str:
        estimate = mean(numbers)
        assert estimate is not None
        return f"{estimate.mean:{sign}.3f} ±{estimate.error:.3f}"

    recorded = original.decisions[at]
    actions = [action]
    if action not in (None, recorded.action):
        actions.append(recorded.action)
    # For each action and each seat, the placement scores of all games.
    with Progress(games * len(actions), printed=True) as progress:
        scores = [
            futures(original, at, bots, first_action, games, progress.advance)
            for first_action in actions
        ]
    echo(f"{narration.title(original)}, played on from decision {at} in {games} games")
    click.echo()
    letters = SEAT_LETTERS[: len(original.seats)]
    names = [
        f"{letter} {bot.name}" for letter, bot in zip(letters, with_unique_names(bots), strict=True)
    ]
    grid(
        Column("placement score", names, text=True),
        *[
            Column(first_action or "as the bots decide", [mean_text(seat) for seat in by_seat])
            for first_action, by_seat in zip(actions, scores, strict=True)
        ],
    )
    if len(actions) > 1:
        seat = recorded.seat
        gains = [new - old for new, old in zip(scores[0][seat], scores[1][seat], strict=True)]
        gain = mean_text(gains, sign="+")
        click.echo()
        echo(f"{letters[seat]}: {action} instead of {recorded.action} is {gain}")


def _print_results(original: GameRecord, new: GameRecord) -> None:
    """Print placement, bot and points of each seat, in the record and in the new game."""

    def cell(record: GameRecord, seat: int) -> str:
        name = printable(record.seats[seat].name)[:20]
        return f"{record.placements[seat]}. {name:20} {record.points[seat]:3}"

    click.echo(f"   {'original':27}  new")
    for seat, letter in enumerate(SEAT_LETTERS[: len(original.seats)]):
        click.echo(f"{letter}  {cell(original, seat)}  {cell(new, seat)}")


# ----- debug


class BotRaised(Exception):
    """Wrapper for an exception of a bot that the command line would take for a user's mistake.

    It is printed with its traceback, as a bot's other exceptions are.
    """


@click.command("debug")
@click.argument("record", type=click.Path(path_type=Path))
@click.argument("bot", metavar="[BOT]", required=False, shell_complete=complete_bot)
@click.option("--seat", metavar="LETTER", type=SEAT, help="The seat to sit in.")
@number_option("--at", least=0, help="Show decision N alone, with the position and the line.")
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not only changed ones.")
def debug(record: Path, bot: str | None, seat: str | None, at: int | None, show_all: bool) -> None:
    """Put BOT, a Python bot, into a seat of RECORD and show which decisions change.

    Without a BOT it is that of the game, as it is now. It runs in this process and thread, on the
    views and events of that seat. breakpoint() works, and what the bot raises ends the program with
    its traceback; to look at that afterwards: python -m pdb -m deepsea_cli debug RECORD BOT --seat
    B. The clock shows the recorded times; your bot's own time is not measured.
    """
    from deepsea_cli.terminal_board import print_board_at
    from deepsea_referee.bots.loading import load
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.results_folder import bots_beside
    from deepsea_referee.workbench.replay import Replay, original_bot, refuse_decision

    if (seat is None) == (at is None):
        raise click.UsageError("name --seat for all of its decisions, or --at for one decision")
    game = load_record(record)
    if at is not None:
        refuse_decision(game, at)
    number = game.decisions[at].seat if at is not None else SEAT_LETTERS.index(str(seat))
    with path_in_errors(record):
        replay = Replay(game, number)
    recorded = game.seats[number]
    spec = show_hints(resolve(bot) if bot else original_bot(recorded, bots_beside(record)))
    player = load(spec)
    letter = SEAT_LETTERS[number]
    echo(f"{spec.name} replays seat {letter} of game {game.game_id}, which {recorded.name} played")
    if not bot:
        echo(f"program: {_seat_program(number, spec, recorded)}")
    decisions = changes = 0
    try:
        # The line of the program that decided is looked for only with --at, since it takes time.
        own_code = None if at is None else spec.own_code
        for moment, action, note, line in replay.feed(player(), own_code):
            decisions += 1
            is_changed = action != moment.decision.action
            changes += is_changed
            if at is None and (is_changed or show_all):
                _print_replayed(moment, action, note, line)
            elif at is not None and moment.number == at:
                print_board_at(game, at)
                _print_replayed(moment, action, note, line)
                return
    except (UserError, RefereeError, RulesError, click.ClickException, OSError) as error:
        raise BotRaised(f"the bot raised {type(error).__name__}: {error}") from error
    click.echo()
    echo(f"{changes} of {decisions} decisions of seat {letter} differ now")


def _print_replayed(
    replayed: ReplayedDecision, action: str, note: Note | None, program_line: BotLine | None
) -> None:
    """Print a decision as it was recorded, and as the bot decides now.

    action        the bot's action now
    note          the bot's note on it, if it wrote one
    program_line  the line of its program that decided, if it is known
    """
    view, recorded = replayed.view, replayed.decision
    fault = f" ({recorded.fault})" if recorded.fault else ""
    illegal = "" if view.is_legal(action) else " (not legal)"
    click.echo()
    echo(f"decision {replayed.number}, dive {view.dive}, to {view.kind}")
    click.echo(f"  {view}")
    echo(f"  options  {', '.join(view.legal)}")
    echo(f"  then     {recorded.action}{fault}")
    echo(f"  now      {action}{illegal}")
    if program_line is not None:
        echo(f"  line     {program_line.in_words()}")
    if note is not None:
        echo(f"  note     {note.line()}")
