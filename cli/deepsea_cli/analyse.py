"""`deepsea-referee analyse`: what each decision of recorded games was worth, and what was luck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import Interrupted
from deepsea_cli.options import (
    SEAT,
    load_record,
    new_file_option,
    number_option,
    path_option,
    precision_option,
    records_in,
)
from deepsea_cli.output import Progress, counted, print_json
from deepsea_referee.errors import UserError
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_sdk.coach.decisions import MARKS, PRECISION, Effort

if TYPE_CHECKING:
    from deepsea_arena.analysis import Analysis, AnalysisSettings, GameAnalysis


_THRESHOLDS = [f"{mark} {threshold:g}" for threshold, mark in MARKS]
_HELP = f"""Judge the decisions of recorded games, and mark those that lost something.

Every legal action of a decision is played on to the end of the dive, many times, from what the seat
could know, with the same dice for each action. An action is marked that surely loses more than so
much placement score: {", ".join(_THRESHOLDS)}; a dive whose decisions lost more together has a
mark, too. A folder stands for the records in it; `-` reads one from stdin. Ctrl-C shows what is
complete.

With --report: the situations in which a bot surely loses by not playing as the roll-outs do, and
their clearest positions.
"""


@click.command("analyse", help=_HELP)
@click.argument(
    "records", metavar="RECORD...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--seat", metavar="LETTER", type=SEAT, help="Judge the decisions of that seat only.")
@precision_option(PRECISION)
@number_option(
    "--rollouts",
    least=2,
    most=100_000,
    help="Instead: N roll-outs of each option, no more and no fewer.",
)
@click.option("--luck", is_flag=True, help="Measure the luck of dice and of values too.")
@click.option(
    "--report", "as_report", is_flag=True, help="Show in which situations bots lose over all games."
)
@click.option("--bot", metavar="NAME", help="With --report: of that bot only.")
@path_option(
    "--before", metavar="DIR", help="With --report: show what has changed since those records."
)
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not only marked ones.")
@click.option(
    "--seed", metavar="TEXT", default="", help="Change the text to get different random numbers."
)
@number_option(
    "--workers", default=1, help="Processes that share the work; the result is the same."
)
@new_file_option(
    "--html", help="Write a page with the games and what was found, to watch in a browser."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    records: tuple[Path, ...],
    seat: str | None,
    precision: float,
    rollouts: int | None,
    luck: bool,
    as_report: bool,
    bot: str | None,
    before: Path | None,
    show_all: bool,
    seed: str,
    workers: int,
    html: Path | None,
    as_json: bool,
) -> None:
    from deepsea_arena.analysis import LUCK_ROLLOUTS, AnalysisSettings

    given = ctx.get_parameter_source("precision") is not click.core.ParameterSource.DEFAULT
    if given and rollouts is not None:
        raise click.UsageError("--precision and --rollouts exclude each other")
    if as_report and (seat is not None or luck or show_all):
        raise click.UsageError("--report excludes --seat, --luck and --all")
    if not as_report and (bot is not None or before is not None):
        raise click.UsageError("--bot and --before need --report")
    settings = AnalysisSettings(
        effort=Effort.to(precision) if rollouts is None else Effort.of(rollouts),
        luck=(rollouts or LUCK_ROLLOUTS) if luck else 0,
        seat=None if seat is None else SEAT_LETTERS.index(seat),
        seed=seed,
        bot=bot,
        deviations=as_report and html is None,
    )
    former = [] if before is None else _loaded((before,), settings)
    games = _loaded(records, settings)
    if former and not _names(games) & _names(former):
        raise UserError("--before: no bot of these games has the name of one of those")
    analysis, analyses = _analysed(games, settings, workers)
    if analysis.interrupted and not analyses[0].chances:
        settings = replace(settings, luck=0)
    if as_report:
        from deepsea_cli.analysis_report import report_weaknesses

        of_before = [] if analysis.interrupted else _analysed(former, settings, workers)[1]
        report_weaknesses(analyses, of_before, settings, as_json=as_json)
    elif as_json:
        from deepsea_arena.analysis_document import document

        print_json(document(analyses, settings))
    else:
        from deepsea_cli.analysis_report import report

        report(analyses, settings, show_all=show_all)
    if html is not None:
        from deepsea_cli.pages import say_page, write_analyses

        write_analyses(html, analyses)
        if not as_json:
            say_page(html)
    if analysis.interrupted:
        raise Interrupted(analysis.interrupted)


def _names(games: Sequence[tuple[str, GameRecord]]) -> set[str]:
    return {seat.name for _, record in games for seat in record.seats}


def _loaded(paths: Sequence[Path], settings: AnalysisSettings) -> list[tuple[str, GameRecord]]:
    """The records with their names; those of the bot, if one is named."""
    games = []
    folders = (records_in(path) if path.is_dir() else [path] for path in paths)
    for path in chain.from_iterable(folders):
        record = load_record(path)
        if settings.seat is not None and settings.seat >= len(record.seats):
            last = SEAT_LETTERS[len(record.seats) - 1]
            raise UserError(f"--seat: the game of {path} has seats A to {last}")
        games.append((str(path), record))
    if settings.bot is None:
        return games
    found = [game for game in games if settings.bot in _names([game])]
    if not found:
        known = ", ".join(sorted(_names(games)))
        raise UserError(f"--bot: {', '.join(map(str, paths))} has games of {known}")
    return found


def _analysed(
    games: Sequence[tuple[str, GameRecord]], settings: AnalysisSettings, workers: int
) -> tuple[Analysis, list[GameAnalysis]]:
    from deepsea_arena.analysis import Analysis

    analysis = Analysis(counted(games, "reading the records"), settings)
    with Progress(analysis.steps, "steps", printed=True) as counter:
        return analysis, analysis.run(workers=workers, on_steps=counter.advance)
