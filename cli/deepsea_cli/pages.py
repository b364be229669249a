"""Pages of games (--html, --browser) and charts (--plot).

Invariants: what is wrong with the file of --plot is found before a game is played; what draws is
imported when there is something to draw; a file is written whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deepsea_bundle.atomic import write_atomically
from deepsea_cli.options import load_record, naming, new_file_option
from deepsea_cli.output import counted, echo
from deepsea_referee.errors import UserError
from deepsea_rules.game import GameRecord
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
    from deepsea_arena.analysis import GameAnalysis
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.summary import GameResult
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, ComparisonFolder
    from deepsea_sdk.bot import Note
    from deepsea_web.assets import PageGame
    from deepsea_web.bars import PlotSums
    from deepsea_web.svg import Chart

_F = TypeVar("_F", bound=Callable[..., Any])

MOST_GAMES = 40
"""How many games a page has."""


def show_page(
    paths: Sequence[Path],
    load: Callable[[Path], GameRecord],
    target: Path | None,
    *,
    browser: bool,
    most: int = MOST_GAMES,
) -> None:
    """Write the page with the first of these games to the target, or to a private folder; open it
    if wanted.

    most  how many games the page has
    """
    from deepsea_referee.results_folder import notes_beside
    from deepsea_web.assets import game_page

    games = []
    for path in paths[:most]:
        record = load(path)
        with naming(path):
            games.append(_page_game(path, record, notes=notes_beside(path)))
    note = _left_out(len(paths), most)
    page = target or _private_page()
    write_atomically(page, game_page(games, note))
    if target is not None:
        say_page(target)
    if note:
        echo(f"{page}: {note}; for another one, name its record instead of the folder")
    if browser:
        import webbrowser

        url = page.resolve().as_uri()
        if not webbrowser.open(url):
            raise UserError(f"there is no browser to open here; open {url} in one of your own")


class PlayedGamesPage:
    """The page of `match --browser` and `compare --browser`: the first games of a run."""

    def __init__(self, *, wanted: bool) -> None:
        """Prepare the page; `wanted` False keeps and opens nothing."""
        self._wanted = wanted
        self._games = 0
        self._kept: list[tuple[GameResult, GameRecord]] = []

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game that counts, in any order."""
        self._games += 1
        if self._wanted and len(self._kept) < MOST_GAMES:
            self._kept.append((result, record))

    def open(self) -> None:
        """Write the page to a private folder, name it on stderr, and open it in a browser."""
        if not self._kept:
            return
        import webbrowser

        from deepsea_referee.summary import record_name
        from deepsea_referee.system import SYSTEM
        from deepsea_web.assets import game_page

        self._kept.sort(key=lambda played: played[0].game)
        games = [
            _page_game(Path(record_name(result.game)), record, notes=result.notes)
            for result, record in self._kept
        ]
        note, page = _left_out(self._games, MOST_GAMES), _private_page()
        write_atomically(page, game_page(games, note))
        click.echo(f"{note or 'the games'} to watch: {page.as_uri()}", err=True)
        # A browser in this terminal would hide the results.
        if SYSTEM.opens_browsers():
            webbrowser.open(page.as_uri())


def say_page(page: Path) -> None:
    """Print where a page was written, and what it is for."""
    echo(f"page: {page}, to open in a browser")


def write_analyses(target: Path, analyses: Sequence[GameAnalysis]) -> None:
    """Write the page with games and what an analysis found; with the first ones of very many."""
    from deepsea_referee.results_folder import notes_beside
    from deepsea_web.assets import game_page

    games = [
        _page_game(Path(one.name), one.record, notes=notes_beside(Path(one.name)), analysis=one)
        for one in counted(analyses[:MOST_GAMES], "drawing the games")
    ]
    write_atomically(target, game_page(games, _left_out(len(analyses), MOST_GAMES)))


def _left_out(games: int, most: int) -> str:
    return f"the first {most} of {games} games" if games > most else ""


def _private_page() -> Path:
    """The file of a page in a new folder that only this user can read."""
    return Path(tempfile.mkdtemp(prefix="deepsea-")) / "game.html"


def _page_game(
    path: Path,
    record: GameRecord,
    *,
    notes: Mapping[int, Note],
    analysis: GameAnalysis | None = None,
) -> PageGame:
    from deepsea_web.assets import PageGame

    name = "record" if str(path) == "-" else path.name.removesuffix(".json")
    return PageGame.of(record, f"{name}.json", analysis=analysis, notes=notes)


# Charts


def plot_option(subject: str) -> Callable[[_F], _F]:
    """`--plot`; `subject` is what it draws."""
    return new_file_option(
        "--plot",
        suffixes=(".svg", ".html"),
        metavar="FILE.svg|FILE.html",
        help=f"Draw {subject} to this file.",
    )


plot_games_option = plot_option("placements, dives and decision times")


def write_plot(path: Path, title: str, facts: str, charts: Sequence[Chart]) -> None:
    from deepsea_web.plots import charts_html, charts_svg

    draw = charts_svg if path.suffix.lower() == ".svg" else charts_html
    write_atomically(path, draw(title, facts, charts))


class PlotFile:
    """The file of a match or a comparison, and the sums of what is drawn; None draws nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._sums: PlotSums | None = None

    def begin(self, bots: Sequence[BotSpec], who: Sequence[int] | None = None) -> None:
        """Begin with games between these bots; `who` as for PlotSums."""
        if self._path is not None:
            from deepsea_referee.bots.resolve import with_unique_names
            from deepsea_web.bars import PlotSums

            self._sums = PlotSums([bot.name for bot in with_unique_names(bots)], who)

    def begin_pair(self, settings: BlockSettings) -> None:
        """Begin with games of which some bots are copies of A, and others of B."""
        sides = (settings.ours, settings.theirs)
        places = {bot: place for place, side in enumerate(sides) for bot in side}
        field = [bot for bot in range(len(settings.bots)) if bot not in places]
        places |= {bot: place for place, bot in enumerate(field, 2)}
        self.begin(
            [*settings.pair, *(settings.bots[bot] for bot in field)],
            [places[bot] for bot in range(len(settings.bots))],
        )

    def add(self, result: GameResult, record: GameRecord) -> None:
        if self._sums is not None:
            self._sums.add(result, record)

    def add_kept(self, folder: ComparisonFolder) -> None:
        """Add the games that a folder has from earlier runs."""
        if self._sums is not None:
            for block in folder.blocks:
                for game in block.games:
                    self._sums.add(game, load_record(folder.record_of(game)))

    def write(
        self, facts: str, time_control: TimeControl, compared: CompareGames | None = None
    ) -> None:
        """Draw what there is; of a comparison also the lead of the first bot over the second."""
        if self._path is None or self._sums is None or not self._sums.games:
            return
        from deepsea_referee.workbench.comparison import Lead
        from deepsea_web.bars import PlotData
        from deepsea_web.plots import charts_of

        a, b, *_ = names = [bot.name for bot in self._sums.bots]
        lead = None
        if compared is not None:
            points = compared.comparison.history
            lead = Lead(a, b, compared.settings.margin, compared.settings.alpha, points)
        data = PlotData(
            title=f"{a} against {b}" if lead else ", ".join(names),
            facts=facts,
            bots=self._sums.bots,
            budget_us=time_control.budget_us,
            lead=lead,
        )
        write_plot(self._path, data.title, data.facts, charts_of(data))

    def say_where(self) -> None:
        """Print which file it is, if there is one."""
        if self._path is not None:
            echo(f"plots: {self._path}")
