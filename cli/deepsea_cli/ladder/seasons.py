"""`ladder init`, `season` and `close`: a ladder, and what its games are worth.

A season's settings never change: other settings are another season. Bots belong to the ladder and
play in every season.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import (
    VARIABLE,
    default_store,
    open_store,
    settings_options,
    store_option,
)
from deepsea_cli.options import load_rules
from deepsea_cli.output import say
from deepsea_referee.errors import UserError
from deepsea_rules.ruleset import PRESETS, RuleSet

if TYPE_CHECKING:
    from deepsea_ladder.model import StoredSeason
    from deepsea_ladder.season import Isolation, Season


@click.command("init")
@store_option
@click.option(
    "--season", "name", metavar="NAME", default="main", show_default=True, help="Its first season."
)
@settings_options
def init(
    *,
    store_text: str,
    name: str,
    rules_text: str,
    seats_text: str,
    clock: str,
    isolation: Isolation,
    trusted: bool,
    beta: float | None,
) -> None:
    """Make a ladder in a new file, or in an empty PostgreSQL database.

    Nothing that is there is touched.
    """
    season = made(name, rules_text, seats_text, clock, isolation, trusted=trusted, beta=beta)
    from deepsea_ladder.store import Store
    from deepsea_referee.random import fresh_seed

    if store_text == default_store():
        Path(store_text).parent.mkdir(parents=True, exist_ok=True)
    with Store.create(store_text) as store:
        stored = store.seasons.open(season, fresh_seed())
        say(f"a ladder at {store.database}")
    _say_season(stored)
    if store_text != default_store():
        say(f"name it to every command with --store, or in the variable {VARIABLE}")


@click.command("season")
@click.argument("name", metavar="NAME")
@store_option
@settings_options
def season(
    *,
    store_text: str,
    name: str,
    rules_text: str,
    seats_text: str,
    clock: str,
    isolation: Isolation,
    trusted: bool,
    beta: float | None,
) -> None:
    """Open the season NAME, in which every bot begins anew."""
    settings = made(name, rules_text, seats_text, clock, isolation, trusted=trusted, beta=beta)
    from deepsea_referee.random import fresh_seed

    with open_store(store_text) as store:
        _say_season(store.seasons.open(settings, fresh_seed()))


@click.command("close")
@click.argument("name", metavar="NAME")
@store_option
def close(*, store_text: str, name: str) -> None:
    """Give the season NAME no more games, and show its seed.

    What is being played is played. The seed is what the season committed to when it was opened.
    """
    with open_store(store_text) as store:
        seed = store.seasons.close(name)
        say(f"season {name} is closed; seed {seed}")


def made(
    name: str,
    rules_text: str,
    seats_text: str,
    clock: str,
    isolation: Isolation,
    *,
    trusted: bool,
    beta: float | None,
) -> Season:
    """The season that the options describe."""
    from deepsea_ladder.rating.trueskill_fold import RatingParameters
    from deepsea_ladder.season import Season
    from deepsea_referee.timing.clock import TimeControl

    try:
        seats = tuple(int(part) for part in seats_text.split(","))
    except ValueError:
        raise UserError(f"--seats {seats_text!r}: write numbers such as 4 or 2,3,4") from None
    return Season(
        name=name,
        rules=balanced(load_rules(rules_text)),
        seats=seats,
        clock=TimeControl.parse(clock).format(),
        isolation="process" if trusted else isolation,
        rating=RatingParameters() if beta is None else RatingParameters(beta=beta),
    )


def balanced(rules: RuleSet) -> RuleSet:
    """The same rules, with seat A beginning: every bot of a block sits there once.

    A roll-off would only add luck. Records say so with the name of the rules.
    """
    if rules.first_player == "seat_a":
        return rules
    name = f"{rules.name}, seat A begins" if rules.name in PRESETS else rules.name
    return replace(rules, name=name, first_player="seat_a")


def _say_season(stored: StoredSeason) -> None:
    settings = stored.season
    seats = " or ".join(map(str, settings.seats))
    say(
        f"season {settings.name}: rules {settings.rules.name!r}, {seats} seats, "
        f"clock {settings.clock}, isolation {settings.isolation}"
    )
    say(f"its games' chance is committed to: {stored.commitment}")
    if settings.isolation == "process":
        say("its bots are trusted: they run as plain processes with your rights")
        return
    from deepsea_referee.sandbox.probe import sandbox_trouble

    if trouble := sandbox_trouble():
        say(
            f"note: there is no sandbox here to play it in: {trouble.found or trouble.name}. "
            f"{trouble.remedy}; or open a season with --trusted"
        )
