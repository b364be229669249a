"""`deepsea-referee analyse`: what each decision of recorded games was worth, and what was luck."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from deepsea_cli.errors import Interrupted
from deepsea_cli.options import (
    SEAT,
    load_record,
    number_option,
    path_option,
    precision_option,
    records_in,
    refuse_unwritable,
)
from deepsea_cli.output import print_json
from deepsea_cli.progress import Progress
from deepsea_referee.errors import UserError
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS


@click.command("analyse")
@click.argument(
    "records", metavar="RECORD...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--seat", metavar="LETTER", type=SEAT, help="Judge the decisions of that seat only.")
@precision_option
@number_option(
    "--rollouts",
    least=2,
    most=100_000,
    help="Instead: N roll-outs of each option, no more and no fewer.",
)
@click.option("--luck", is_flag=True, help="Measure the luck of dice and of values too.")
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not only marked ones.")
@click.option(
    "--seed", metavar="TEXT", default="", help="Change the text to get different random numbers."
)
@number_option(
    "--workers", default=1, help="Processes that share the work; the result is the same."
)
@path_option(
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
    show_all: bool,
    seed: str,
    workers: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """Judge the decisions of recorded games, and mark those that lost something.

    Every legal action of a decision is played on to the end of the dive, many times, from what the
    seat could know, with the same dice for each action. ?! is an action that loses 0.05 of
    placement score or more, ? 0.10, ?? 0.20; a dive whose decisions lost more together has a mark,
    too. A folder stands for the records in it; `-` reads one from stdin. Ctrl-C shows what is
    complete.
    """
    from deepsea_arena.coach.analysis import LUCK_ROLLOUTS, Analysis, AnalysisSettings
    from deepsea_sdk.coach.decisions import Effort

    given = ctx.get_parameter_source("precision") is not click.core.ParameterSource.DEFAULT
    if given and rollouts is not None:
        raise click.UsageError("--precision and --rollouts exclude each other")
    refuse_unwritable("--html", html)
    settings = AnalysisSettings(
        effort=Effort.to(precision) if rollouts is None else Effort.of(rollouts),
        luck=(rollouts or LUCK_ROLLOUTS) if luck else 0,
        seat=None if seat is None else SEAT_LETTERS.index(seat),
        seed=seed,
    )
    games = [(str(path), _load(path, settings.seat)) for path in _files(records)]
    analysis = Analysis(games, settings)
    with Progress(analysis.steps, "steps", printed=True) as counter:
        analyses = analysis.run(workers=workers, on_steps=counter.advance)
    if analysis.interrupted and not analyses[0].chances:
        settings = replace(settings, luck=0)
    if html is not None:
        from deepsea_cli.pages import write_analyses

        write_analyses(html, analyses)
    if as_json:
        from deepsea_arena.coach.document import document

        print_json(document(analyses, settings))
    else:
        from deepsea_cli.analysis_report import report

        report(analyses, settings, show_all=show_all)
    if analysis.interrupted:
        raise Interrupted(analysis.interrupted)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from records_in(path)
        else:
            yield path


def _load(path: Path, seat: int | None) -> GameRecord:
    record = load_record(path)
    if seat is not None and seat >= len(record.seats):
        last = SEAT_LETTERS[len(record.seats) - 1]
        raise UserError(f"--seat: the game of {path} has seats A to {last}")
    return record
