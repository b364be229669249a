"""`deepsea-referee branch` and `debug`: bots in a recorded game.

`branch` continues it from one of its decisions: the new result beside the original, or the means of
many games with other dice. `debug` shows what a bot would do now.
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
    looked_at,
    naming,
    new_file_option,
    number_option,
    option,
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
    with naming(options.record):
        verify(original)
    seats = len(original.seats)
    if len(bots) not in (0, 1, seats):
        raise UserError(f"name one bot for all seats, or {seats}, one for each; not {len(bots)}")
    specs = [looked_at(resolve(bot)) for bot in bots] * (seats if len(bots) == 1 else 1)
    if not specs:
        specs = [looked_at(bot) for bot in original_bots(original, bots_beside(options.record))]
        echo(f"programs: {', '.join(map(_program, range(seats), specs, original.seats))}")
    if options.games > 1:
        _futures(original, at, specs, options.action, options.games)
        return
    done = branch(original, at, specs, options.action)
    echo(f"{narration.title(original)}, played on from decision {at}")
    first = done.first_other
    if first is None:
        echo("every decision is the same")
    else:
        old, new = original.decisions[first], done.record.decisions[first]
        was = f", not {old.action}"
        if old.seat != new.seat:
            was = f" where {SEAT_LETTERS[old.seat]} played {old.action}"
        echo(f"first different decision: {first}, {SEAT_LETTERS[new.seat]} plays {new.action}{was}")
    click.echo()
    _table(original, done.record)
    click.echo()
    echo("this is one future of many, with the dice of the record: --games 100 plays 100 others")
    if lines := narration.tell_faults(done.game):
        click.echo()
        for line in lines:
            echo(line)
    if out is not None:
        try:
            write_atomically(out, done.record.to_json())
        except OSError as error:
            raise UserError(f"{out}: cannot be written: {error.strerror or error}") from None
        click.echo()
        echo(f"record of the new game: {out}")


def _program(seat: int, bot: BotSpec, played: RecordSeat) -> str:
    """The program of a seat in words: where it is, and whether it is another one by now."""
    changed = " (changed since the game)" if bot.digest != played.digest else ""
    return f"{SEAT_LETTERS[seat]} {bot.argument}{changed}"


def _futures(
    original: GameRecord, at: int, bots: Sequence[BotSpec], action: str | None, games: int
) -> None:
    """Play on with other dice, and print the mean placement scores of all seats."""
    from deepsea_arena.analysis import mean
    from deepsea_referee.bots.resolve import with_unique_names
    from deepsea_referee.workbench.replay import futures

    def shown(numbers: Sequence[float], sign: str = "") -> str:
        found = mean(numbers)
        assert found is not None
        return f"{found.mean:{sign}.3f} ±{found.error:.3f}"

    made = original.decisions[at]
    columns = [action, made.action] if action not in (None, made.action) else [action]
    with Progress(games * len(columns), printed=True) as progress:
        scores = [futures(original, at, bots, each, games, progress.advance) for each in columns]
    echo(f"{narration.title(original)}, played on from decision {at} in {games} games")
    click.echo()
    letters = SEAT_LETTERS[: len(original.seats)]
    names = [
        f"{letter} {bot.name}" for letter, bot in zip(letters, with_unique_names(bots), strict=True)
    ]
    grid(
        Column("placement score", names, text=True),
        *[
            Column(each or "as the bots decide", [shown(seat) for seat in found])
            for each, found in zip(columns, scores, strict=True)
        ],
    )
    if len(columns) > 1:
        new, old = (found[made.seat] for found in scores)
        gains = [one - other for one, other in zip(new, old, strict=True)]
        click.echo()
        echo(f"{letters[made.seat]}: {action} instead of {made.action} is {shown(gains, '+')}")


def _table(original: GameRecord, new: GameRecord) -> None:
    def cell(record: GameRecord, seat: int) -> str:
        name = printable(record.seats[seat].name)[:20]
        return f"{record.placements[seat]}. {name:20} {record.points[seat]:3}"

    click.echo(f"   {'original':27}  new")
    for seat, letter in enumerate(SEAT_LETTERS[: len(original.seats)]):
        click.echo(f"{letter}  {cell(original, seat)}  {cell(new, seat)}")


# What a bot would do now


class BotRaised(Exception):
    """The bot's own exception, of a kind that the command line would take for a user's mistake."""


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
    source = load_record(record)
    if at is not None:
        refuse_decision(source, at)
    number = source.decisions[at].seat if at is not None else SEAT_LETTERS.index(str(seat))
    with naming(record):
        course = Replay(source, number)
    played = source.seats[number]
    spec = looked_at(resolve(bot) if bot else original_bot(played, bots_beside(record)))
    player = load(spec)
    letter = SEAT_LETTERS[number]
    echo(f"{spec.name} replays seat {letter} of game {source.game_id}, which {played.name} played")
    if not bot:
        echo(f"program: {_program(number, spec, played)}")
    decisions = others = 0
    try:
        for moment, action, note, line in course.feed(player(), None if at is None else spec.home):
            decisions += 1
            differs = action != moment.decision.action
            others += differs
            if (differs or show_all) if at is None else moment.number == at:
                fault = moment.decision.fault
                if at is not None:
                    print_board_at(source, at)
                click.echo()
                echo(f"decision {moment.number}, dive {moment.view.dive}, to {moment.view.kind}")
                click.echo(f"  {moment.view}")
                echo(f"  options  {', '.join(moment.view.legal)}")
                echo(f"  then     {moment.decision.action}{f' ({fault})' if fault else ''}")
                echo(f"  now      {action}{'' if moment.view.is_legal(action) else ' (not legal)'}")
                if line is not None:
                    echo(f"  line     {line.in_words()}")
                if note is not None:
                    echo(f"  note     {note.line()}")
                if at is not None:
                    return
    except (UserError, RefereeError, RulesError, click.ClickException, OSError) as error:
        raise BotRaised(f"the bot raised {type(error).__name__}: {error}") from error
    click.echo()
    echo(f"{others} of {decisions} decisions of seat {letter} differ now")
