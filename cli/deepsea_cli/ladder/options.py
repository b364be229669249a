"""Arguments that the commands of the ladder share.

Invariant: the ladder's arguments are interpreted here alone.
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
    """The default ladder, in the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return str(base / "deepsea-referee" / "ladder.db")


def store_option(function: _F) -> _F:
    """Add the parameter `store_text` to a command."""
    return click.option(
        "--store",
        "store_text",
        metavar="FILE|URL",
        envvar=VARIABLE,
        default=default_store,
        help=f"The ladder's file or URL.  [default: ${VARIABLE}, or a file in your data folder]",
    )(function)


def season_option(function: _F) -> _F:
    """Add the parameter `season_name` to a command."""
    return click.option(
        "--season",
        "season_name",
        metavar="NAME",
        help="The season.  [default: the open one]",
    )(function)


def settings_options(function: _F) -> _F:
    """Add a season's settings to a command."""
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
                help="Bots at a table; several numbers mix sizes.",
            ),
            click.option(
                "--clock",
                metavar="TIME+BANK",
                default="100ms+2s",
                show_default=True,
                help="Time for each decision, and a bank for each game for longer ones.",
            ),
            click.option(
                "--isolation",
                type=click.Choice(["sandbox", "process"]),
                default="sandbox",
                show_default=True,
                help="Isolation of bots; `process` is for bots that you trust.",
            ),
            click.option("--trusted", is_flag=True, help="The same as --isolation process."),
            click.option(
                "--beta",
                metavar="X",
                type=float,
                help="The luck in a game for the ratings; use 8 for seasons of two seats.",
            ),
        )
    ):
        function = option(function)
    return function


def open_store(text: str) -> Store:
    """Open the ladder; raises `StoreError` if there is none."""
    from deepsea_ladder.store import Store

    return Store.open(text)
