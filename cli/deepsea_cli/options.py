"""Arguments that several commands share: rule sets and records.

Arguments are interpreted here alone. An argument that cannot be read raises a one-line error that
names it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from deepsea_referee.errors import UserError
from deepsea_rules.constants import SEAT_LETTERS
from deepsea_rules.errors import InvalidRecord, InvalidRules
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import DEFAULT, RuleSet, preset

RULES_HELP = f"A preset's name, or a TOML file with a rule set of your own.  [default: {DEFAULT}]"

# Far more than any game needs; a larger file is given by mistake.
LARGEST_FILE = 4 * 1024 * 1024


SEAT = click.Choice(tuple(SEAT_LETTERS), case_sensitive=False)

rules_option = click.option(
    "--rules", "rules_text", metavar="NAME|FILE.toml", default=DEFAULT, help=RULES_HELP
)
clock_option = click.option(
    "--clock",
    metavar="TIME+BANK",
    default="100ms+2s",
    show_default=True,
    help="Time for each decision, and a bank for each game for longer ones.",
)
isolation_option = click.option(
    "--isolation",
    type=click.Choice(["auto", "sandbox", "process"]),
    default="auto",
    show_default=True,
    help="Run bots in a sandbox, as plain processes, or (auto) in the sandbox where it works.",
)
in_process_option = click.option(
    "--in-process", is_flag=True, help="Run Python bots that you trust in this process: faster."
)


def load_rules(text: str) -> RuleSet:
    """Load a rule set by a preset's name or the path of a TOML file."""
    path = Path(text)
    if path.suffix.lower() != ".toml" and "/" not in text:
        return preset(text)
    try:
        return RuleSet.from_toml(read_text(path))
    except InvalidRules as error:
        raise InvalidRules(f"{text}: {error}") from None


def load_record(path: Path) -> GameRecord:
    """Load the record in a file; raises `InvalidRecord` if it is damaged."""
    try:
        return GameRecord.from_json(read_text(path))
    except InvalidRecord as error:
        where = "stdin" if str(path) == "-" else path
        raise InvalidRecord(f"{where}: {error}") from None


def read_text(path: Path) -> str:
    """Read the text of a file, or of stdin for `-`; raises `UserError` if it cannot be read."""
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with path.open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise UserError(f"{path}: more than {LARGEST_FILE} bytes; is this the right file?")
        return data.decode()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not a text file") from None
