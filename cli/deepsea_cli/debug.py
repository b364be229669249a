"""`deepsea-referee debug`: shows what a bot would do now in a recorded game.

Invariants: the bot runs in this thread and gets exactly what its seat received; its exceptions are
not caught, so that a debugger stops where they are raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from deepsea_cli.options import SEAT, complete_bot, load_record, naming
from deepsea_cli.output import echo
from deepsea_referee.errors import RefereeError, UserError
from deepsea_rules.errors import RulesError
from deepsea_rules.ruleset import SEAT_LETTERS


class BotRaised(Exception):
    """The bot's own exception, of a kind that the command line would take for a user's mistake."""


@click.command("debug")
@click.argument("record", type=click.Path(path_type=Path))
@click.argument("bot", metavar="BOT", shell_complete=complete_bot)
@click.option("--seat", metavar="LETTER", type=SEAT, required=True, help="The seat to sit in.")
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not only changed ones.")
def command(record: Path, bot: str, seat: str, show_all: bool) -> None:
    """Put BOT, a Python bot, into a seat of RECORD and show which decisions change.

    It runs in this process and thread, on the views and events of that seat. breakpoint() works,
    and what the bot raises ends the program with its traceback; to look at that afterwards:
    python -m pdb -m deepsea_cli debug RECORD BOT --seat B. The clock shows the
    recorded times; your bot's own time is not measured.
    """
    from deepsea_referee.bots.loading import load
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.workbench.replay import Replay

    source = load_record(record)
    spec = resolve(bot)
    with naming(record):
        course = Replay(source, SEAT_LETTERS.index(seat))
    player = load(spec)
    echo(
        f"{spec.name} replays seat {seat} of game {source.game_id}, "
        f"which {source.seats[course.seat].name} played"
    )
    decisions = others = 0
    with _authors_code():
        for moment, action, note in course.feed(player()):
            decisions += 1
            differs = action != moment.decision.action
            others += differs
            if differs or show_all:
                fault = moment.decision.fault
                click.echo()
                echo(f"decision {moment.number}, dive {moment.view.dive}, to {moment.view.kind}")
                click.echo(f"  {moment.view}")
                echo(f"  options  {', '.join(moment.view.legal)}")
                echo(f"  then     {moment.decision.action}{f' ({fault})' if fault else ''}")
                echo(f"  now      {action}{'' if moment.view.is_legal(action) else ' (not legal)'}")
                if note is not None:
                    echo(f"  note     {note.line()}")
    click.echo()
    echo(f"{others} of {decisions} decisions of seat {seat} differ now")


@contextmanager
def _authors_code() -> Iterator[None]:
    """Lets out whatever the bot raises, with its traceback."""
    try:
        yield
    except (UserError, RefereeError, RulesError, click.ClickException, OSError) as error:
        raise BotRaised(f"the bot raised {type(error).__name__}: {error}") from error
