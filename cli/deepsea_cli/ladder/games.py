"""`ladder games`, `record` and `export`: what was played."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import day, open_store, store_option
from deepsea_cli.output import print_json
from deepsea_cli.text_table import Column, grid

if TYPE_CHECKING:
    from deepsea_ladder.model import StoredGame


@click.command("games")
@click.option("--season", "season_name", metavar="NAME", help="Of one season only.")
@click.option("--bot", metavar="NAME", help="Of one bot only.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="How many games.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def games(
    *, store_text: str, season_name: str | None, bot: str | None, limit: int, as_json: bool
) -> None:
    """List the newest games, newest first: who placed where, with how many points."""
    with open_store(store_text) as store:
        season = None if season_name is None else store.seasons.get(season_name)
        name = None if bot is None else store.bots.get(bot).name
        found = store.history.latest(limit, season, name)
    if as_json:
        print_json({"games": [_document(game) for game in found]})
        return
    grid(
        [
            Column("game", [game.game_id for game in found]),
            Column("played", [day(game.played_at) for game in found], spare=1),
            Column("result", [result(game) for game in found], text=True),
        ]
    )


def result(game: StoredGame) -> str:
    """Who placed where: the best first, `!` behind those who forfeited."""
    ordered = sorted(game.seats, key=lambda seat: seat.result.placement)
    return ", ".join(
        f"{seat.result.placement} {seat.version.bot} {seat.result.score}"
        f"{'!' if seat.result.forfeit else ''}"
        for seat in ordered
    )


def _document(game: StoredGame) -> dict[str, object]:
    return {
        "game_id": game.game_id,
        "seq": game.seq,
        "season": game.season,
        "played_at": game.played_at,
        "seats": [
            {
                "bot": seat.version.bot,
                "version": seat.version.number,
                "score": seat.result.score,
                "placement": seat.result.placement,
                "faults": seat.result.faults,
                "forfeit": seat.result.forfeit,
            }
            for seat in game.seats
        ],
    }


@click.command("record")
@click.argument("game_id", metavar="GAME")
@store_option
def record(*, store_text: str, game_id: str) -> None:
    """Print the record of GAME, to be shown and verified like any other."""
    with open_store(store_text) as store:
        text = store.games.record(game_id)
    click.echo(text, nl=False)


@click.command("export")
@click.option("--season", "season_name", metavar="NAME", help="Of one season only.")
@click.option("--csv", "as_csv", is_flag=True, help="A line for each seat, not JSON for each game.")
@store_option
def export(*, store_text: str, season_name: str | None, as_csv: bool) -> None:
    """Print every game of all seasons, or of one, as JSON Lines; docs/ladder.md has the keys."""
    from deepsea_ladder.export import csv_lines, json_lines

    with open_store(store_text) as store:
        season = None if season_name is None else store.seasons.get(season_name)
        for line in (csv_lines if as_csv else json_lines)(store, season):
            click.echo(line, nl=False)
