"""Commands to paste for a decision of a recorded game: one to look at it, one to try an action.

Invariant: each works as it is printed. Where a program cannot be imported the command does without
it, and a line says so.
"""

from __future__ import annotations

from pathlib import Path

from deepsea_bundle.errors import BundleError
from deepsea_cli.output import echo, print_command
from deepsea_referee.bots.loading import is_python
from deepsea_referee.errors import UserError
from deepsea_referee.results_folder import bots_beside
from deepsea_referee.workbench.replay import original_bot
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS

STAND_IN = "steady"
"""The sample bot that plays on where a program cannot be imported."""
STDIN = "-"


def print_look(path: str, record: GameRecord, decision: int, bot: str = "") -> None:
    """Print the command that shows a decision, with the line of the program where it has one.

    bot  the argument of a program that has to be named; "" is the one that played
    """
    at = ("--at", str(decision))
    if path == STDIN:
        return
    if _has_program(path, record, record.decisions[decision].seat):
        print_command("deepsea-referee", "debug", path, *filter(None, [bot]), *at)
    else:
        print_command("deepsea-referee", "show", path, *at)


def print_try(path: str, record: GameRecord, decision: int, action: str) -> None:
    """Print the command that plays on with an action, many times; or why there is none."""
    if path == STDIN:
        echo("  (read from stdin: keep the record in a file to look at it and to play on)")
        return
    others = [seat for seat in range(len(record.seats)) if not _has_program(path, record, seat)]
    stand_in = [STAND_IN] if others else []
    if others:
        seats = ", ".join(f"{SEAT_LETTERS[seat]} {record.seats[seat].name}" for seat in others)
        echo(f"  ({STAND_IN} plays on in all seats: no Python file is known of {seats})")
    at = ("--at", str(decision), "--action", action, "--games", "100")
    print_command("deepsea-referee", "branch", path, *stand_in, *at)


def _has_program(path: str, record: GameRecord, seat: int) -> bool:
    """Whether `branch` and `debug` find the program of a seat, and can import it."""
    try:
        return is_python(original_bot(record.seats[seat], bots_beside(Path(path))))
    except (UserError, BundleError):
        return False
