"""Pages of games (--html, --browser) and charts (--plot).

Invariants: an error in the path of --plot is reported before a game is played; the modules that
draw are imported when there is something to draw; a file is written whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deepsea_bundle.atomic import write_atomically
from deepsea_cli.options import load_record, new_file_option, path_in_errors
from deepsea_cli.output import echo, with_progress
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

MAX_GAMES = 40
"""Largest number of games on a page."""


def show_page(
    paths: Sequence[Path],
    load: Callable[[Path], GameRecord],
    target: Path | None,
    *,
    browser: bool,
    max_games: int = MAX_GAMES,
) -> None:
    """Write a page with the first of these games.

    load       loads the record at a path
    target     file of the page; None for a new file in a private folder
    browser    True to open the page in a browser
    max_games  largest number of games on the page
    """
    from deepsea_referee.results_folder import notes_beside
    from deepsea_web.assets import game_page

    games = []
    for path in paths[:max_games]:
        record = load(path)
        with path_in_errors(path):
            games.append(_page_game(path, record, notes=notes_beside(path)))
    note = _omission_note(len(paths), max_games)
    page = target or _private_page()
    write_atomically(page, game_page(games, note))
    if target is not None:
        print_page_path(target)
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
        """Prepare the page; if it is not wanted, nothing is stored and opened."""
        self._wanted = wanted
        self._games = 0
        self._first_games: list[tuple[GameResult, GameRecord]] = []

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game that counts, in any order."""
        self._games += 1
        if self._wanted and len(self._first_games) < MAX_GAMES:
            self._first_games.append((result, record))

    def open(self) -> None:
        """Write the page to a private folder, print its address on stderr, and open it.

        Nothing is done if no game was played, or if no page is wanted.
        """
        if not self._first_games:
            return
        import webbrowser

        from deepsea_referee.summary import record_name
        from deepsea_referee.system import SYSTEM
        from deepsea_web.assets import game_page

        # Games may end in another order than that of their numbers.
        self._first_games.sort(key=lambda result_and_record: result_and_record[0].game)
        games = [
            _page_game(Path(record_name(result.game)), record, notes=result.notes)
            for result, record in self._first_games
        ]
        note = _omission_note(self._games, MAX_GAMES)
        page = _private_page()
        write_atomically(page, game_page(games, note))
        click.echo(f"{note or 'the games'} to watch: {page.as_uri()}", err=True)
        # A browser in this terminal would hide the results.
        if SYSTEM.opens_browsers():
            webbrowser.open(page.as_uri())


def print_page_path(page: Path) -> None:
    """Print the path of a page that was written."""
    echo(f"page: {page}, to open in a browser")


def write_analyses(target: Path, analyses: Sequence[GameAnalysis]) -> None:
    """Write a page with games and their analyses to a file; of very many games, the first ones."""
    from deepsea_referee.results_folder import notes_beside
    from deepsea_web.assets import game_page

    games = []
    for analysis in with_progress(analyses[:MAX_GAMES], "drawing the games"):
        path = Path(analysis.name)
        notes = notes_beside(path)
        games.append(_page_game(path, analysis.record, notes=notes, analysis=analysis))
    write_atomically(target, game_page(games, _omission_note(len(analyses), MAX_GAMES)))


def _omission_note(games: int, max_games: int) -> str:
    """Return a note if a page has fewer games than there are, otherwise ""."""
    return f"the first {max_games} of {games} games" if games > max_games else ""


def _private_page() -> Path:
    """Return the path of a page in a new folder that only this user can read."""
    return Path(tempfile.mkdtemp(prefix="deepsea-")) / "game.html"


def _page_game(
    path: Path,
    record: GameRecord,
    *,
    notes: Mapping[int, Note],
    analysis: GameAnalysis | None = None,
) -> PageGame:
    """Return a game for a page; its name is that of the record's file.

    notes  notes of bots by the number of the decision
    """
    from deepsea_web.assets import PageGame

    name = "record" if str(path) == "-" else path.name.removesuffix(".json")
    return PageGame.of_record(record, f"{name}.json", analysis=analysis, notes=notes)


# ----- Charts


def plot_option(subject: str) -> Callable[[_F], _F]:
    """Return the option `--plot`; `subject` names the charts in its help."""
    return new_file_option(
        "--plot",
        suffixes=(".svg", ".html"),
        metavar="FILE.svg|FILE.html",
        help=f"Draw {subject} to this file.",
    )


plot_games_option = plot_option("placements, dives and decision times")


def write_plot(path: Path, title: str, facts: str, charts: Sequence[Chart]) -> None:
    """Draw charts to an SVG or HTML file, below their title and a line of facts."""
    from deepsea_web.plots import charts_html, charts_svg

    draw = charts_svg if path.suffix.lower() == ".svg" else charts_html
    write_atomically(path, draw(title, facts, charts))


class PlotFile:
    """The file of --plot in a match or a comparison, and the sums of games for its charts."""

    def __init__(self, path: Path | None) -> None:
        """Prepare the file; without a path nothing is summed and drawn."""
        self._path = path
        self._sums: PlotSums | None = None

    def begin(self, bots: Sequence[BotSpec], row_of_bot: Sequence[int] | None = None) -> None:
        """Begin to sum up games for charts that show these bots.

        row_of_bot  for each bot of the games, its index in `bots`, so that copies of one program
                    can share a row; None if `bots` are the bots of the games
        """
        if self._path is not None:
            from deepsea_referee.bots.resolve import with_unique_names
            from deepsea_web.bars import PlotSums

            self._sums = PlotSums([bot.name for bot in with_unique_names(bots)], row_of_bot)

    def begin_pair(self, settings: BlockSettings) -> None:
        """Begin to sum up the games of a comparison of two bots, A and B.

        All copies of A share the first row of the charts and all copies of B the second one. Other
        bots at the tables have the rows below.
        """
        shown_bots = list(settings.pair)
        row_of_bot: list[int] = []
        for index, bot in enumerate(settings.bots):
            if index in settings.ours:
                row_of_bot.append(0)
            elif index in settings.theirs:
                row_of_bot.append(1)
            else:
                row_of_bot.append(len(shown_bots))
                shown_bots.append(bot)
        self.begin(shown_bots, row_of_bot)

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game that counts."""
        if self._sums is not None:
            self._sums.add(result, record)

    def add_kept(self, folder: ComparisonFolder) -> None:
        """Add the games of earlier runs in a folder."""
        if self._sums is not None:
            for block in folder.blocks:
                for game in block.games:
                    self._sums.add(game, load_record(folder.record_of(game)))

    def write(
        self, facts: str, time_control: TimeControl, compared: CompareGames | None = None
    ) -> None:
        """Draw the charts of the games to the file, if it is wanted and there are games.

        facts     line below the title
        compared  games of a comparison of two bots; then their lead is drawn, too
        """
        if self._path is None or self._sums is None or not self._sums.games:
            return
        from deepsea_referee.workbench.comparison import Lead
        from deepsea_web.bars import PlotData
        from deepsea_web.plots import charts_of

        names = [bot.name for bot in self._sums.bots]
        title, lead = ", ".join(names), None
        if compared is not None:
            a, b = names[:2]
            title, settings = f"{a} against {b}", compared.settings
            lead = Lead(a, b, settings.margin, settings.alpha, compared.comparison.history)
        data = PlotData(
            title=title,
            facts=facts,
            bots=self._sums.bots,
            budget_us=time_control.budget_us,
            lead=lead,
        )
        write_plot(self._path, data.title, data.facts, charts_of(data))

    def print_path(self) -> None:
        """Print the path of the file, if there is one."""
        if self._path is not None:
            echo(f"plots: {self._path}")
