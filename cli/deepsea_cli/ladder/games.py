"""`ladder games`, `record` and `export`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import click

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import minute
from deepsea_cli.output import print_json
from deepsea_cli.text_table import Column, grid

if TYPE_CHECKING:
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_arena.reports.games import GameLine, GamesPage


class Wanted(TypedDict):
    """The games that are wanted, as `LadderApi.games` takes them."""

    season: str
    bot: str
    against: str
    faults: bool
    lost: bool


@click.command("games")
@click.option("--season", "season_name", metavar="NAME", help="One season only.")
@click.option("--bot", metavar="NAME", help="Games of one bot only.")
@click.option("--against", metavar="NAME", help="Games of the bot with this one.")
@click.option("--faults", is_flag=True, help="Games in which the bot, or any, had a fault.")
@click.option(
    "--lost", is_flag=True, help="Games that the bot did not win, or not against that one."
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    default=20,
    show_default=True,
    help="Number of games.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def games(
    *,
    place: Place,
    season_name: str | None,
    bot: str | None,
    against: str | None,
    faults: bool,
    lost: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the newest games, newest first, with placements and points."""
    from deepsea_arena.documents import to_json

    wanted: Wanted = {
        "season": season_name or "",
        "bot": bot or "",
        "against": against or "",
        "faults": faults,
        "lost": lost,
    }
    with place.opened() as ladder:
        page = _newest(ladder, limit, wanted)
    if as_json:
        print_json(to_json(page))
        return
    grid(
        [
            Column("game", [game.game_id for game in page.games]),
            Column("played", [minute(game.played_at) for game in page.games], spare=1),
            Column("result", [_result(game) for game in page.games], text=True),
        ]
    )


def _newest(ladder: LadderApi, limit: int, wanted: Wanted) -> GamesPage:
    """The newest games, asked for page by page."""
    from deepsea_arena.reports.games import MOST_GAMES

    page = ladder.games(limit=min(limit, MOST_GAMES), **wanted)
    while page.older is not None and len(page.games) < limit:
        asked = min(MOST_GAMES, limit - len(page.games))
        more = ladder.games(limit=asked, before=page.older, **wanted)
        page = replace(more, games=page.games + more.games)
    return page


def _result(game: GameLine) -> str:
    """The placements of a game, the best first; `!` marks forfeits."""
    seats = game.by_placement()
    several = len({seat.bot for seat in seats}) < len(seats)  # versions of a bot
    return ", ".join(
        f"{seat.placement} {seat.bot}{f' v{seat.version}' if several else ''} "
        f"{seat.points}{'!' if seat.forfeit else ''}"
        for seat in seats
    )


@click.command("record")
@click.argument("game_id", metavar="GAME")
@place_option
def record(*, place: Place, game_id: str) -> None:
    """Print the record of GAME, to be shown and verified like any other."""
    with place.opened() as ladder:
        click.echo(ladder.record(game_id=game_id).record, nl=False)


@click.command("export")
@click.option("--season", "season_name", metavar="NAME", help="One season only.")
@click.option("--csv", "as_csv", is_flag=True, help="A line for each seat, not JSON for each game.")
@store_option
def export(*, store_text: str, season_name: str | None, as_csv: bool) -> None:
    """Print every game of all seasons, or of one, as JSON Lines; docs/ladder.md has the keys."""
    from deepsea_arena.reports.games import csv_lines, json_lines

    with open_store(store_text) as store:
        for line in (csv_lines if as_csv else json_lines)(store, season_name):
            click.echo(line, nl=False)
