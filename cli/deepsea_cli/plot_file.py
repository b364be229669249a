"""The file of `--plot`: of a match, of a comparison, or of a bot's rating.

Invariants: what is wrong with the file is found before a game is played; the charts are imported
when there is something to draw; the file is written whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_arena.reports.plot_data import PlotSums
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.results.summary import GameResult
    from deepsea_referee.workbench.comparison import Comparison, LeadHistory
    from deepsea_referee.workbench.paired_blocks import PlayedBlock
    from deepsea_rules.record import GameRecord
    from deepsea_rules.time_control import TimeControl
    from deepsea_web.charts.svg import Chart

_SUFFIXES = (".svg", ".html")

plot_option = click.option(
    "--plot",
    metavar="FILE.svg|FILE.html",
    type=click.Path(path_type=Path),
    help="Draw placements, dives and decision times to this file.",
)


def refuse_plot(path: Path) -> None:
    """Raise UserError for a file that cannot be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UserError(f"--plot {str(path)!r}: the name has to end in .svg or .html")
    from deepsea_cli.options import refuse_unwritable

    refuse_unwritable("--plot", path)


def write_plot(path: Path, title: str, facts: str, charts: Sequence[Chart]) -> None:
    """Write charts to a file, as its ending says."""
    from deepsea_bundle.atomic import write_atomically
    from deepsea_web.charts import charts_html, charts_svg

    draw = charts_svg if path.suffix.lower() == ".svg" else charts_html
    write_atomically(path, draw(title, facts, charts))


class PlotFile:
    """The file, and the sums of what is drawn to it."""

    def __init__(self, path: Path) -> None:
        """Raises UserError for a file that cannot be written."""
        refuse_plot(path)
        self._path = path
        self._sums: PlotSums | None = None
        self._history: LeadHistory | None = None

    def begin(self, bots: Sequence[BotSpec], who: Sequence[int] | None = None) -> None:
        """Begin with games between these bots; `who` as for PlotSums."""
        from deepsea_arena.reports.plot_data import PlotSums
        from deepsea_referee.bots.resolve import with_unique_names
        from deepsea_referee.workbench.comparison import LeadHistory

        self._sums = PlotSums([bot.name for bot in with_unique_names(bots)], who)
        self._history = LeadHistory()

    def begin_pair(
        self,
        bots: Sequence[BotSpec],
        pair: Sequence[BotSpec],
        ours: Sequence[int],
        theirs: Sequence[int],
    ) -> None:
        """Begin with games of which some bots are copies of A, and others of B."""
        field = [i for i in range(len(bots)) if i not in {*ours, *theirs}]
        places = {**dict.fromkeys(ours, 0), **dict.fromkeys(theirs, 1)}
        places |= {bot: place for place, bot in enumerate(field, 2)}
        self.begin([*pair, *(bots[i] for i in field)], [places[i] for i in range(len(bots))])

    def add(self, result: GameResult, record: GameRecord) -> None:
        """Add a game."""
        if self._sums is not None:
            self._sums.add(result, record)

    def add_block(self, comparison: Comparison, played: PlayedBlock) -> None:
        """Add a block, which the comparison has counted already."""
        from deepsea_referee.workbench.comparison import LeadPoint

        for result, record in played:
            self.add(result, record)
        lead = comparison.deciding
        if self._history is not None:
            self._history.add(LeadPoint(comparison.blocks, lead.mean, *lead.interval))

    def write(
        self,
        facts: str,
        time_control: TimeControl,
        *,
        margin: float | None = None,
        alpha: float = 0.05,
    ) -> None:
        """Draw what there is; with a margin also the lead of the first bot over the second."""
        if self._sums is None or self._history is None or not self._sums.games:
            return
        from deepsea_arena.reports.plot_data import PlotData
        from deepsea_referee.workbench.comparison import Lead
        from deepsea_web.charts import charts_of

        names = [bot.name for bot in self._sums.bots]
        lead = None
        if margin is not None:
            lead = Lead(names[0], names[1], margin, alpha, self._history.points)
        data = PlotData(
            title=f"{names[0]} against {names[1]}" if lead else ", ".join(names),
            facts=facts,
            bots=self._sums.bots,
            budget_us=time_control.budget_us,
            lead=lead,
        )
        write_plot(self._path, data.title, data.facts, charts_of(data))
