"""`ladder publish` and `forget`: a closed season as files, and the room that it took."""

from __future__ import annotations

from pathlib import Path

import click

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.options import number_option
from deepsea_cli.output import count, echo, print_document
from deepsea_cli.progress import counting
from deepsea_ladder.limits import size_in_words


@click.command("publish")
@click.argument("seasons", metavar="SEASON...", nargs=-1, required=True)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@number_option(
    "--games", "most", least=0, most=1_000_000, default=20_000, help="Games with a page each."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def publish(
    *, store_text: str, seasons: tuple[str, ...], folder: Path, most: int, as_json: bool
) -> None:
    """Write the public site of a closed SEASON to the new folder DIR, for any web server.

    Several seasons, such as a course and its final, become one site; the first has its front page.
    Pages are those that visitors see, without what needs a server. All records are in the chain,
    which `verify --chain DIR` follows.
    """
    from deepsea_ladder.store import Store
    from deepsea_web.site.publish import publish as write

    with (
        open_store(store_text) as store,
        Store.open(store_text, read_only=True, public=True) as public,
    ):
        done = write(store, public, seasons, folder, most=most, progress=counting)
    if as_json:
        print_document(done)
        return
    for name, head in done.heads.items():
        echo(f"season {name}: head {head}")
    pages = f"pages of {count(done.game_pages, 'game')}"
    echo(f"{done.folder}: {pages}, {count(done.files, 'file')}, {size_in_words(done.bytes)}")


@click.command("forget")
@click.argument("season", metavar="SEASON")
@click.option(
    "--published",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder of `publish`, which has the records.",
)
@store_option
def forget(*, store_text: str, season: str, folder: Path) -> None:
    """Forget the records of SEASON, if DIR has every one of them.

    DIR is read and its chain compared with the ladder's, game by game; any difference, and nothing
    is forgotten. Results, ratings, heads and analyses stay. Keep DIR: nothing else has the records
    then, but for backups that were made before.
    """
    from deepsea_ladder.export import forget_records

    with open_store(store_text) as store:
        games = forget_records(store, season, folder)
    echo(f"season {season}: {count(games, 'record')} forgotten, which {folder} has")
