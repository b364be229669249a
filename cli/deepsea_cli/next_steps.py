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

    path      path of the record; nothing is printed for one that was read from stdin
    decision  number of the decision in the record
    bot       argument for the bot of that seat; "" stands for the program that played
    """
    at_decision = ("--at", str(decision))
    if path == STDIN:
        return
    if _can_import_bot(path, record, record.decisions[decision].seat):
        bots = [bot] if bot else []
        print_command("deepsea-referee", "debug", path, *bots, *at_decision)
    else:
        print_command("deepsea-referee", "show", path, *at_decision)


def print_try(path: str, record: GameRecord, decision: int, action: str) -> None:
    """Print the command that plays on with another action, many times.

    A record from stdin has no file that a command could name; then a line says what to do.
    """
    if path == STDIN:
        echo("  (read from stdin: keep the record in a file to look at it and to play on)")
        return
    seats = range(len(record.seats))
    missing = [seat for seat in seats if not _can_import_bot(path, record, seat)]
    bots = []
    if missing:
        bots = [STAND_IN]
        names = ", ".join(f"{SEAT_LETTERS[seat]} {record.seats[seat].name}" for seat in missing)
        echo(f"  ({STAND_IN} plays on in all seats: no Python file is known of {names})")
    options = ("--at", str(decision), "--action", action, "--games", "100")
    print_command("deepsea-referee", "branch", path, *bots, *options)


def _can_import_bot(path: str, record: GameRecord, seat: int) -> bool:
    """Return True if `branch` and `debug` find the program of a seat and can import it."""
    try:
        return is_python(original_bot(record.seats[seat], bots_beside(Path(path))))
    except (UserError, BundleError):
        return False
