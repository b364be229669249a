"""`ladder standings`: who stands where.

Law: the numbers are the store's, and in JSON and CSV they are not rounded.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import (
    chosen_season,
    count,
    day,
    number,
    open_store,
    season_option,
    store_option,
)
from deepsea_cli.output import print_json, say
from deepsea_cli.text_table import Column, grid
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_ladder.model import RatedVersion, StoredSeason
    from deepsea_ladder.standings import Standing
    from deepsea_ladder.store import Store


@click.command("standings")
@season_option
@click.option("--all", "everybody", is_flag=True, help="Former versions and bots taken out, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@store_option
def standings(
    *, store_text: str, season_name: str | None, everybody: bool, as_json: bool, as_csv: bool
) -> None:
    """Show the standings of a season: by the skill that a bot has with 99.9 % certainty."""
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other")
    with open_store(store_text) as store:
        season = chosen_season(store, season_name)
        entries = store.ratings.entries(season)
        shown = [entry for entry in entries if everybody or plays(entry)]
        lines = ranked(store, season, shown)
        games = store.queue.counts(season).done
    if as_json:
        rows = [line._asdict() for line in lines]
        print_json({"season": season.name, "games": games, "standings": rows})
    elif as_csv:
        click.echo(as_text(lines), nl=False)
    else:
        rules, clock = season.season.rules.name, season.season.clock
        closed = ", closed" if season.closed_at else ""
        say(f"season {season.name}{closed}: {count(games, 'game')}, rules {rules!r}, clock {clock}")
        click.echo()
        grid(columns(lines))
        out = [entry for entry in entries if entry.is_current and not plays(entry)]
        if out and not everybody:
            click.echo()
            say(f"not shown: {count(len(out), 'bot')} taken out; --all shows them")


def plays(entry: RatedVersion) -> bool:
    """Whether it is a bot's newest version, and gets games."""
    return entry.is_current and entry.state == "active"


def ranked(store: Store, season: StoredSeason, entries: Sequence[RatedVersion]) -> list[Standing]:
    """The lines of these versions, best first."""
    from deepsea_ladder.standings import TREND_GAMES, StandingRow
    from deepsea_ladder.standings import standings as in_order

    earlier = store.ratings.earlier(season, TREND_GAMES)
    return in_order(
        StandingRow(
            entry.version.bot,
            entry.version.author,
            entry.version.number,
            entry.tally,
            earlier.get(entry.version.id),
        )
        for entry in entries
    )


def columns(lines: Sequence[Standing]) -> list[Column]:
    """The table; what is not needed to see who stands where goes first if it is too wide."""
    return [
        Column("rank", ["-" if line.rank is None else str(line.rank) for line in lines]),
        Column("bot", [line.bot for line in lines], text=True),
        Column("ver", [str(line.version) for line in lines], spare=7),
        Column("author", [line.author for line in lines], text=True, spare=8),
        Column("rating", [number(line.rating) for line in lines]),
        Column("skill", [_skill(line) for line in lines], spare=3),
        Column("games", [str(line.games) for line in lines], spare=1),
        Column("wins", [str(line.wins) for line in lines], spare=5),
        Column("place", [number(line.mean_placement, 2) for line in lines], spare=2),
        Column("points", [number(line.mean_points) for line in lines], spare=4),
        Column("faults", [_percent(line.fault_rate) for line in lines], spare=6),
        Column("trend", [number(line.trend, sign=True) for line in lines], spare=9),
        Column("last game", [day(line.last_played) for line in lines], spare=10),
    ]


def as_text(lines: Sequence[Standing]) -> str:
    """Comma-separated values, with the names of the columns first."""
    from deepsea_ladder.standings import Standing

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Standing._fields)
    writer.writerows(lines)
    return text.getvalue()


def _skill(line: Standing) -> str:
    return f"{line.mu:.1f} ±{line.high - line.mu:4.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
