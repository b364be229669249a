"""`ladder log`: what bots at fault left of a game."""

from __future__ import annotations

import click

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.options import SEAT
from deepsea_cli.output import echo, echo_lines, print_json
from deepsea_rules.ruleset import SEAT_LETTERS


@click.command("log")
@click.argument("game_id", metavar="GAME")
@click.option("--seat", metavar="A", type=SEAT, help="One seat only.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
@click.pass_context
def log(ctx: click.Context, *, place: Place, game_id: str, seat: str | None, as_json: bool) -> None:
    """Print the faults and the last output of the bots that were at fault in GAME.

    The logs of the newest 20 such games of each bot are kept.

    Exit status: 0 printed, 1 nothing is kept of that game or seat.
    """
    with place.opened() as ladder:
        logs = ladder.log(game_id=game_id).logs
    shown = [one for one in logs if seat in (None, SEAT_LETTERS[one.seat])]
    if as_json:
        from deepsea_arena.documents import to_json

        print_json({"logs": to_json(shown)})
        if not shown:
            ctx.exit(NEGATIVE)
        return
    if not shown:
        where = f" for seat {seat}" if seat else ""
        echo(f"no log of game {game_id} is kept{where}: no fault there, or an older one")
        ctx.exit(NEGATIVE)
    for one in shown:
        echo(f"seat {SEAT_LETTERS[one.seat]}, {one.bot}:")
        echo_lines(one.error, "  ")
        echo_lines(one.output or "(it printed nothing)", "  ")
