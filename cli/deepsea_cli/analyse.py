"""`deepsea-referee analyse`: the worth of each decision of recorded games, and the luck in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import Interrupted
from deepsea_cli.options import (
    SEAT,
    argument,
    flag,
    json_option,
    load_record,
    new_file_option,
    option,
    path_option,
    precision_option,
    record_paths_in,
    shared,
    whole_number,
    with_options,
)
from deepsea_cli.output import Progress, print_json, with_progress
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


@dataclass(frozen=True)
class AnalyseOptions:
    """Arguments and options of `analyse`."""

    records: tuple[Path, ...] = argument(
        metavar="RECORD...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )
    seat: str | None = option("Judge the decisions of that seat only.", metavar="LETTER", type=SEAT)
    precision: float = shared(precision_option(PRECISION))
    rollouts: int | None = whole_number(
        "Instead: N roll-outs of each option, no more and no fewer.", least=2, most=100_000
    )
    luck: bool = flag("Measure the luck of dice and of values too.")
    report: bool = flag("Show in which situations bots lose over all games.")
    bot: str | None = option("With --report: of that bot only.", metavar="NAME")
    before: Path | None = option(
        "With --report: show what has changed since those records.", path_option, metavar="DIR"
    )
    all: bool = flag("Show every decision, not only marked ones.")
    seed: str = option(
        "Change the text to get different random numbers.", metavar="TEXT", default=""
    )
    workers: int = whole_number("Processes that share the work; the result is the same.", default=1)
    html: Path | None = option(
        "Write a page with the games and what was found, to watch in a browser.", new_file_option
    )
    json: bool = shared(json_option)


@click.command("analyse", help=_HELP)
@with_options(AnalyseOptions)
def command(options: AnalyseOptions) -> None:
    """Judge the decisions of recorded games; its help is _HELP, which has the thresholds."""
    from deepsea_arena.analysis import LUCK_ROLLOUTS, AnalysisSettings

    _refuse_contradictions(options)
    html, rollouts = options.html, options.rollouts
    settings = AnalysisSettings(
        effort=Effort.to(options.precision) if rollouts is None else Effort.of(rollouts),
        luck=(rollouts or LUCK_ROLLOUTS) if options.luck else 0,
        seat=None if options.seat is None else SEAT_LETTERS.index(options.seat),
        seed=options.seed,
        bot=options.bot,
        deviations=options.report and html is None,
    )
    games_before = [] if options.before is None else _load_games((options.before,), settings)
    games = _load_games(options.records, settings)
    if games_before and not _bot_names(games) & _bot_names(games_before):
        raise UserError("--before: no bot of these games has the name of one of those")
    analysis, analyses = _analyse_games(games, settings, options.workers)
    if analysis.interrupted and not analyses[0].chances:
        settings = replace(settings, luck=0)
    if options.report:
        from deepsea_cli.analysis_report import report_weaknesses

        analyses_before: list[GameAnalysis] = []
        if not analysis.interrupted:
            _, analyses_before = _analyse_games(games_before, settings, options.workers)
        report_weaknesses(analyses, analyses_before, settings, as_json=options.json)
    elif options.json:
        from deepsea_arena.analysis_document import document

        print_json(document(analyses, settings))
    else:
        from deepsea_cli.analysis_report import report

        report(analyses, settings, show_all=options.all)
    if html is not None:
        from deepsea_cli.pages import print_page_path, write_analyses

        write_analyses(html, analyses)
        if not options.json:
            print_page_path(html)
    if analysis.interrupted:
        raise Interrupted(analysis.interrupted)


def _refuse_contradictions(options: AnalyseOptions) -> None:
    """Raise UsageError for options that exclude each other or need --report."""
    precision_source = click.get_current_context().get_parameter_source("precision")
    has_precision = precision_source is not click.core.ParameterSource.DEFAULT
    if has_precision and options.rollouts is not None:
        raise click.UsageError("--precision and --rollouts exclude each other")
    if options.report and (options.seat is not None or options.luck or options.all):
        raise click.UsageError("--report excludes --seat, --luck and --all")
    if not options.report and (options.bot is not None or options.before is not None):
        raise click.UsageError("--bot and --before need --report")


def _bot_names(games: Sequence[tuple[str, GameRecord]]) -> set[str]:
    return {seat.name for _, record in games for seat in record.seats}


def _load_games(paths: Sequence[Path], settings: AnalysisSettings) -> list[tuple[str, GameRecord]]:
    """Load the games to analyse from these paths, and return each record after its path.

    A folder stands for all records in it. With --bot only the games of this bot are returned.
    Raises UserError if there are none.
    """
    games: list[tuple[str, GameRecord]] = []
    for path in paths:
        record_paths = record_paths_in(path) if path.is_dir() else [path]
        games += [
            (str(record_path), _load_game(record_path, settings)) for record_path in record_paths
        ]
    if settings.bot is None:
        return games
    games_of_bot = [
        (path, record)
        for path, record in games
        if settings.bot in [seat.name for seat in record.seats]
    ]
    if not games_of_bot:
        names = ", ".join(sorted(_bot_names(games)))
        raise UserError(f"--bot: {', '.join(map(str, paths))} has games of {names}")
    return games_of_bot


def _load_game(path: Path, settings: AnalysisSettings) -> GameRecord:
    """Load a record; raises UserError if its game does not have the seat of --seat."""
    record = load_record(path)
    if settings.seat is not None and settings.seat >= len(record.seats):
        last_seat = SEAT_LETTERS[len(record.seats) - 1]
        raise UserError(f"--seat: the game of {path} has seats A to {last_seat}")
    return record


def _analyse_games(
    games: Sequence[tuple[str, GameRecord]], settings: AnalysisSettings, workers: int
) -> tuple[Analysis, list[GameAnalysis]]:
    """Analyse games, with a line of progress, and return the finished analysis and its results.

    The results have one item for each game. After Ctrl-C those that are complete are returned, and
    `interrupted` of the analysis says how far it came.
    """
    from deepsea_arena.analysis import Analysis

    analysis = Analysis(with_progress(games, "reading the records"), settings)
    with Progress(analysis.steps, "steps", printed=True) as progress:
        game_analyses = analysis.run(workers=workers, on_steps=progress.advance)
    return analysis, game_analyses
