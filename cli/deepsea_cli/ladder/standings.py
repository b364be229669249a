"""`ladder standings`. JSON and CSV have the numbers without rounding."""

from __future__ import annotations

import click

from deepsea_cli.ladder.options import open_store, season_option
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import print_table
from deepsea_cli.output import print_json
from deepsea_referee.errors import UserError


@click.command("standings")
@season_option
@click.option(
    "--all", "everybody", is_flag=True, help="Include former versions, withdrawn and disabled bots."
)
@click.option("--best-of-author", is_flag=True, help="Only the best bot of each author.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--check", is_flag=True, help="Compare with all games rated at once, in no order.")
@click.option("--matrix", is_flag=True, help="Show how probably each bot is more skilled.")
@place_option
def standings(
    *,
    place: Place,
    season_name: str | None,
    everybody: bool,
    best_of_author: bool,
    as_json: bool,
    as_csv: bool,
    check: bool,
    matrix: bool,
) -> None:
    """Show the standings of a season, sorted by mu - 3 sigma."""
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other")
    if as_csv and (check or matrix):
        raise UserError("--csv has the standings only; use --json with --check or --matrix")
    place.refuse_options(check=check, matrix=matrix)
    from deepsea_arena.documents import csv_lines, to_object
    from deepsea_arena.reports.standings import CSV_COLUMNS, csv_rows

    found = None
    with place.opened() as ladder:
        page = ladder.standings(
            season=season_name or "", everybody=everybody, best_of_author=best_of_author
        )
    if check or matrix:
        from deepsea_arena.season_close import check_season

        with open_store(place.store_text) as store:
            found = check_season(store, page)
    if as_json:
        document = to_object(page)
        print_json(document if found is None else document | {"check": to_object(found)})
    elif as_csv:
        for line in csv_lines(csv_rows(page), CSV_COLUMNS):
            click.echo(line, nl=False)
    elif found is None:
        print_table(page)
    else:
        from deepsea_cli.ladder.check_tables import print_check, print_matrix

        if check:
            print_check(page, found)
        if check and matrix:
            click.echo()
        if matrix:
            print_matrix(found)
