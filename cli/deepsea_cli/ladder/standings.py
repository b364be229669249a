"""`ladder standings`. JSON and CSV have the numbers without rounding."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import open_store, season_option, store_option
from deepsea_cli.ladder.tables import print_table
from deepsea_cli.output import print_json
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.standings import Standings


@click.command("standings")
@season_option
@click.option(
    "--all", "everybody", is_flag=True, help="Include former versions, withdrawn and disabled bots."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@store_option
def standings(
    *, store_text: str, season_name: str | None, everybody: bool, as_json: bool, as_csv: bool
) -> None:
    """Show the standings of a season, sorted by mu - 3 sigma."""
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other")
    from deepsea_arena.standings import show_standings
    from deepsea_arena.wire.json import to_json

    with open_store(store_text) as store:
        page = show_standings(store, season_name, everybody=everybody)
    if as_json:
        print_json(to_json(page))
    elif as_csv:
        click.echo(_csv(page), nl=False)
    else:
        print_table(page)


def _csv(page: Standings) -> str:
    """Comma-separated values, with the names of the columns first."""
    from dataclasses import fields

    from deepsea_arena.standings import StandingLine
    from deepsea_arena.wire.json import to_object

    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(StandingLine)])
    writer.writeheader()
    writer.writerows(map(to_object, page.standings))
    return text.getvalue()
