"""Pages and pictures of recorded games: written to a file, and opened in the browser."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deepsea_bundle.atomic import write_atomically
from deepsea_cli.options import naming
from deepsea_cli.output import echo
from deepsea_referee.errors import UserError
from deepsea_rules import narration
from deepsea_rules.narration import NarratedPosition
from deepsea_rules.record import GameRecord

if TYPE_CHECKING:
    from deepsea_arena.coach.analysis import GameAnalysis

MOST_GAMES = 40
"""How many games a page has."""


def open_in_browser(url: str) -> None:
    """Open a page; raises UserError with its address if there is no browser."""
    if not webbrowser.open(url):
        raise UserError(f"there is no browser to open here; open {url} in one of your own")


def show_page(
    paths: Sequence[Path],
    load: Callable[[Path], GameRecord],
    target: Path | None,
    *,
    browser: bool,
) -> None:
    """Write the page with the first of these games to the target, or to a private folder; open it
    if wanted."""
    from deepsea_referee.results.folder import notes_beside
    from deepsea_web.viewer.game_page import PageGame, game_page

    games = []
    for path in paths[:MOST_GAMES]:
        record = load(path)
        with naming(path):
            games.append(PageGame.of(record, _file_name(path), notes=notes_beside(path)))
    note = _left_out(len(paths))
    page = target or Path(tempfile.mkdtemp(prefix="deepsea-")) / "game.html"
    write_atomically(page, game_page(games, note))
    if note:
        echo(f"{page}: {note}; for another one, name its record instead of the folder")
    if browser:
        open_in_browser(page.resolve().as_uri())


def write_analyses(target: Path, analyses: Sequence[GameAnalysis]) -> None:
    """Write the page with games and what an analysis found; with the first ones of very many."""
    from deepsea_referee.results.folder import notes_beside
    from deepsea_web.viewer.game_page import PageGame, game_page

    games = [
        PageGame.of(
            analysis.record,
            _file_name(Path(analysis.name)),
            analysis=analysis,
            notes=notes_beside(Path(analysis.name)),
        )
        for analysis in analyses[:MOST_GAMES]
    ]
    write_atomically(target, game_page(games, _left_out(len(analyses))))


def write_picture(target: Path, record: GameRecord, moment: NarratedPosition) -> None:
    """Write a position as SVG, with all its values."""
    from deepsea_web.viewer.picture import picture

    text = picture(
        moment.state,
        moment.known,
        title=f"{narration.title(record)}, after turn {moment.turn}",
        names=narration.names(record),
    )
    write_atomically(target, text)


def _left_out(games: int) -> str:
    return f"the first {MOST_GAMES} of {games} games" if games > MOST_GAMES else ""


def _file_name(path: Path) -> str:
    if str(path) == "-":
        return "record.json"
    return path.name if path.suffix == ".json" else f"{path.name}.json"
