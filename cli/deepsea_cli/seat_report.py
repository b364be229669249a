"""`show RECORD --seat B`: the decisions of one seat.

Prints every decision of the seat with its view, options, action, time and fault.
"""

from __future__ import annotations

from pathlib import Path

import click

from deepsea_cli.output import echo
from deepsea_referee.workbench.replay import Replay, ReplayedDecision, control_of
from deepsea_rules import narration
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import TimeControl


def report_seat(path: Path, record: GameRecord, seat: int) -> None:
    """Print a seat's decisions, and how the game ended."""
    try:
        course = Replay(record, seat)
    except InvalidRecord as error:
        raise InvalidRecord(f"{path}: {error}") from None
    control = control_of(record)
    letter = SEAT_LETTERS[seat]
    echo(
        f"{narration.title(record)}, clock {record.clock}, seat {letter}: {record.seats[seat].name}"
    )
    faults = 0
    for moment in course.moments():
        faults += moment.decision.fault is not None
        _print_decision(moment, control, faults)
    click.echo()
    for forfeit in record.forfeits:
        if forfeit.seat == seat:
            echo(
                f"{letter} forfeited with decision {forfeit.decision}: from there on it was not "
                "asked, and default actions were played"
            )
    echo("the game is over")
    for line in narration.tell_end(course.game.result(), narration.names(record)):
        echo(f"  {line}")


def _print_decision(moment: ReplayedDecision, control: TimeControl | None, faults: int) -> None:
    view, decision = moment.view, moment.decision
    click.echo()
    echo(f"decision {moment.number}, dive {view.dive}, to {view.kind}")
    # Not wrapped: it is there to be copied to `explain`.
    click.echo(f"  {view}")
    echo(f"  options  {', '.join(view.legal)}")
    echo(f"  choice   {decision.action}")
    took = f"  time     {decision.us / 1000:.1f} ms"
    if control is not None:
        over = max(0, decision.us - control.budget_us)
        drawn = f", {over / 1000:.1f} ms of it from the bank" if over else ""
        took += f"{drawn}; {moment.bank_us / 1000:.0f} ms left in the bank"
    echo(took)
    if decision.fault is not None:
        came = f": {decision.came}" if decision.came else ""
        echo(f"  fault    {decision.fault}{came}")
        echo(
            f"           the default action was played; fault {faults} of this seat in this game "
            f"({FAULTS_TO_FORFEIT} forfeit it, a crash does at once)"
        )
