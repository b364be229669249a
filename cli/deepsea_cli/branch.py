"""`deepsea-referee branch`: continues a recorded game from one of its decisions.

Prints the new result beside the original.
"""

from __future__ import annotations

from pathlib import Path

import click

from deepsea_cli.options import load_record, naming, number_option
from deepsea_cli.output import echo
from deepsea_referee.errors import UserError
from deepsea_rules import narration
from deepsea_rules.printable import printable
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.ruleset import SEAT_LETTERS


@click.command("branch")
@click.argument("record", type=click.Path(path_type=Path))
@click.argument("bots", metavar="[BOT]...", nargs=-1)
@number_option(
    "--at",
    least=0,
    required=True,
    help="The decision to continue from, numbered as by `show RECORD --seat` and `debug`.",
)
@click.option("--action", metavar="ACTION", help="The action of that decision.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the record of the new game.",
)
def command(
    record: Path, bots: tuple[str, ...], at: int, action: str | None, out: Path | None
) -> None:
    """Continue RECORD from decision N with other bots or another action.

    BOT is one Python bot for all seats, or one for each, seat A first; without a BOT the same bots
    play, if they are sample bots. They run in this process and no clock runs. The dice come from
    the same seed.
    """
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
    done = branch(original, at, specs or original_bots(original), action)
    echo(f"{narration.title(original)}, played on from decision {at}")
    first = done.first_other
    if first is None:
        echo("every decision is the same")
    else:
        old, new = original.decisions[first], done.record.decisions[first]
        echo(
            f"first other decision: {first}, {SEAT_LETTERS[new.seat]} plays {new.action}"
            f" where {SEAT_LETTERS[old.seat]} played {old.action}"
            if old.seat != new.seat
            else f"first other decision: {first}, {SEAT_LETTERS[new.seat]} plays {new.action}, "
            f"not {old.action}"
        )
    click.echo()
    _table(original, done.record)
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


def _table(original: GameRecord, new: GameRecord) -> None:
    def cell(record: GameRecord, seat: int) -> str:
        name = printable(record.seats[seat].name)[:20]
        return f"{record.placements[seat]}. {name:20} {record.points[seat]:3}"

    click.echo(f"   {'original':27}  new")
    for seat, letter in enumerate(SEAT_LETTERS[: len(original.seats)]):
        click.echo(f"{letter}  {cell(original, seat)}  {cell(new, seat)}")
