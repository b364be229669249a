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
"""The path of a record that was read from stdin."""


def print_look(path: str, record: GameRecord, decision: int, bot: str = "") -> None:
    """Print the command that shows a decision: `debug`, or `show` if the bot cannot be imported.

    Nothing is printed for a record that was read from stdin: no command could read it again.

    path      path of the record
    decision  number of the decision in the record
    bot       argument for the bot of that seat; "" stands for the program that played
    """
    if path == STDIN:
        return
    at_decision = ("--at", str(decision))
    seat = record.decisions[decision].seat
    if not _can_import_bot(path, record, seat):
        print_command("deepsea-referee", "show", path, *at_decision)
    elif bot:
        print_command("deepsea-referee", "debug", path, bot, *at_decision)
    else:
        print_command("deepsea-referee", "debug", path, *at_decision)


def print_try(path: str, record: GameRecord, decision: int, action: str) -> None:
    """Print the command that plays on from a decision with another action, in many games.

    The bots of the game play on. If one of them cannot be imported, a sample bot does in all seats.

    path      path of the record; for one from stdin a line says to keep it in a file
    decision  number of the decision in the record
    action    the action to try
    """
    if path == STDIN:
        echo("  (read from stdin: keep the record in a file to look at it and to play on)")
        return
    seats_without_bot = [
        seat for seat in range(len(record.seats)) if not _can_import_bot(path, record, seat)
    ]
    branch = ["deepsea-referee", "branch", path]
    if seats_without_bot:
        names = [f"{SEAT_LETTERS[seat]} {record.seats[seat].name}" for seat in seats_without_bot]
        echo(f"  ({STAND_IN} plays on in all seats: no Python file is known of {', '.join(names)})")
        branch.append(STAND_IN)
    print_command(*branch, "--at", str(decision), "--action", action, "--games", "100")


def _can_import_bot(path: str, record: GameRecord, seat: int) -> bool:
    """Return True if `branch` and `debug` find the program of a seat and can import it."""
    try:
        return is_python(original_bot(record.seats[seat], bots_beside(Path(path))))
    except (UserError, BundleError):
        return False
