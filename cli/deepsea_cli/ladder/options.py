"""What the commands of the ladder share: which store, which season, and how numbers look.

Law: what a text on the command line stands for is decided here alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from deepsea_cli.options import RULES_HELP
from deepsea_ladder.errors import StoreError
from deepsea_referee.errors import UserError
from deepsea_rules.ruleset import DEFAULT

if TYPE_CHECKING:
    from deepsea_ladder.model import StoredSeason
    from deepsea_ladder.store import Store

VARIABLE: Final = "DEEPSEA_LADDER"
_F = TypeVar("_F", bound=Callable[..., Any])


def default_store() -> str:
    """The user's own ladder, in the folder for a user's data."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # As the convention says: what is not absolute counts as not set.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return str(base / "deepsea-referee" / "ladder.db")


def store_option(function: _F) -> _F:
    """Gives a command the parameter `store_text`."""
    return click.option(
        "--store",
        "store_text",
        metavar="FILE|URL",
        envvar=VARIABLE,
        default=default_store,
        help=f"Where the ladder is.  [default: ${VARIABLE}, or a file in your data folder]",
    )(function)


def season_option(function: _F) -> _F:
    """Gives a command the parameter `season_name`."""
    return click.option(
        "--season",
        "season_name",
        metavar="NAME",
        help="Which season.  [default: the open one]",
    )(function)


def settings_options(function: _F) -> _F:
    """Gives a command the parameters that say what a season is."""
    for option in reversed(
        (
            click.option(
                "--rules", "rules_text", metavar="NAME|FILE.toml", default=DEFAULT, help=RULES_HELP
            ),
            click.option(
                "--seats",
                "seats_text",
                metavar="N[,N]...",
                default="4",
                show_default=True,
                help="How many bots sit at a table; several numbers mix them.",
            ),
            click.option(
                "--clock",
                metavar="TIME+BANK",
                default="100ms+2s",
                show_default=True,
                help="Time for each decision, and a bank for each game that overruns draw from.",
            ),
            click.option(
                "--isolation",
                type=click.Choice(["sandbox", "process"]),
                default="sandbox",
                show_default=True,
                help="How bots are kept apart; `process` is for bots that you trust.",
            ),
            click.option("--trusted", is_flag=True, help="The same as --isolation process."),
            click.option(
                "--beta",
                metavar="X",
                type=float,
                help="How much luck the ratings see in a game; 8 suits two at a table.",
            ),
        )
    ):
        function = option(function)
    return function


def open_store(text: str) -> Store:
    """The ladder; `StoreError` says why there is none."""
    from deepsea_ladder.store import Store

    return Store.open(text)


def chosen_season(store: Store, name: str | None) -> StoredSeason:
    """The season of that name, else the open one, else the newest."""
    if name is not None:
        return store.seasons.get(name)
    seasons = store.seasons.all()
    if not seasons:
        raise StoreError("this ladder has no season: open one with `ladder season NAME`")
    opened = [season for season in seasons if season.closed_at is None]
    if len(opened) > 1:
        names = ", ".join(season.name for season in opened)
        raise UserError(f"several seasons are open: name one of {names} with --season")
    return (opened or seasons)[-1]


def day(ms: int | None) -> str:
    """A moment of the database's clock, to the minute."""
    if ms is None:
        return "-"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """A number, or `-` where there is none."""
    if value is None:
        return "-"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    # What is rounded to nothing has no sign.
    return text if float(text) else f"{0.0:.{digits}f}"


def count(number: int, what: str) -> str:
    """`1 game`, `2 games`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
