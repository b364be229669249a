"""`deepsea-referee branch`: continues a recorded game from one of its decisions.

Prints the new result beside the original, or the mean results of many games with other dice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.options import complete_bot, load_record, naming, number_option
from deepsea_cli.output import Column, echo, grid
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_rules import narration
from deepsea_rules.printable import printable
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.ruleset import SEAT_LETTERS

if TYPE_CHECKING:
    from deepsea_referee.bots.resolve import BotSpec


@click.command("branch")
@click.argument("record", type=click.Path(path_type=Path))
@click.argument("bots", metavar="[BOT]...", nargs=-1, shell_complete=complete_bot)
@number_option(
    "--at",
    least=0,
    required=True,
    help="The decision to continue from, numbered as by `show --at`, `debug` and `analyse`.",
)
@click.option("--action", metavar="ACTION", help="The action of that decision.")
@number_option(
    "--games",
    most=100_000,
    default=1,
    help="Play on N times, each with other dice, and show the mean placement scores.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the record of the new game.",
)
def command(
    record: Path, bots: tuple[str, ...], at: int, action: str | None, games: int, out: Path | None
) -> None:
    """Continue RECORD from decision N with other bots or another action.

    BOT is one Python bot for all seats, or one for each, seat A first; without a BOT the same bots
    play, if they are sample bots. They run in this process and no clock runs.

    The dice are those of the record: one future of many. With --games each game has different dice;
    with --action, too, the recorded action is played on with the same dice, for comparison.
    """
    if games > 1 and out is not None:
        raise click.UsageError("--out writes one game, with the dice of the record: omit --games")
    from deepsea_bundle.atomic import write_atomically
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.workbench.variations import branch, original_bots

    original = load_record(record)
    with naming(record):
        verify(original)
    seats = len(original.seats)
    if len(bots) not in (0, 1, seats):
        raise UserError(f"name one bot for all seats, or {seats}, one for each; not {len(bots)}")
    specs = [resolve(bot) for bot in bots] * (seats if len(bots) == 1 else 1)
    specs = specs or original_bots(original)
    if games > 1:
        _futures(original, at, specs, action, games)
        return
    done = branch(original, at, specs, action)
    echo(f"{narration.title(original)}, played on from decision {at}")
    first = done.first_other
    if first is None:
        echo("every decision is the same")
    else:
        old, new = original.decisions[first], done.record.decisions[first]
        echo(
            f"first different decision: {first}, {SEAT_LETTERS[new.seat]} plays {new.action}"
            f" where {SEAT_LETTERS[old.seat]} played {old.action}"
            if old.seat != new.seat
            else f"first different decision: {first}, {SEAT_LETTERS[new.seat]} plays {new.action}, "
            f"not {old.action}"
        )
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


def _futures(
    original: GameRecord, at: int, bots: Sequence[BotSpec], action: str | None, games: int
) -> None:
    """Play on with other dice, and print the mean placement scores of all seats."""
    from deepsea_arena.coach.analysis import mean
    from deepsea_referee.bots.resolve import with_unique_names
    from deepsea_referee.workbench.variations import futures

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
        [
            Column("placement score", names, text=True),
            *[
                Column(each or "as the bots decide", [shown(seat) for seat in found])
                for each, found in zip(columns, scores, strict=True)
            ],
        ]
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
