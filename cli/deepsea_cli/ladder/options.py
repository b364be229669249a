"""Arguments that the commands of the ladder share.

Invariant: what a text on the command line stands for is decided here alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from deepsea_cli.options import RULES_HELP
from deepsea_rules.ruleset import DEFAULT

if TYPE_CHECKING:
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
