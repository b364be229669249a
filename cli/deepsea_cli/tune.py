"""`deepsea-referee tune`: better numbers for a bot, and a proof that they are better.

Converts arguments to a `Subject` and to `BlockSettings`; `TuneGames` plays them.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.errors import DONE, NEGATIVE, raise_early_end
from deepsea_cli.options import (
    GroupPlay,
    complete_bot,
    group_options,
    looked_at,
    path_option,
    seats_option,
    seed_text,
)
from deepsea_cli.output import Column, count, echo, grid, print_command, print_json
from deepsea_cli.pages import plot_games_option, write_plot
from deepsea_cli.progress import Progress

if TYPE_CHECKING:
    from deepsea_referee.workbench.tuning import TuneGames

NO_FIELD = "none"
MARGIN = 0.02
"""The largest difference in placement score that counts as none."""


@click.command("tune")
@click.argument("bot", metavar="MINE,NAME=LOW..HIGH,...", shell_complete=complete_bot)
@click.option(
    "--against",
    metavar="A,B,...",
    default="greedy,heuristic",
    show_default=True,
    shell_complete=complete_bot,
    help=f"Bots in the other seats; {NO_FIELD} for copies of MINE in all seats.",
)
@seats_option("two, and one for each bot of --against")
@click.option(
    "--budget",
    metavar="TIME|GAMES",
    default="20m",
    show_default=True,
    help="Half for the search, and at most half for the comparison: 90s, 20m, 2h, or games.",
)
@group_options("deals and dice")
@path_option("--out", metavar="DIR", help="Folder for the steps; continues a search that is there.")
@plot_games_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    bot: str,
    against: str,
    seats: int | None,
    budget: str,
    play: GroupPlay,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Find better numbers for the class attributes of your bot MINE.

    Each NAME is searched between LOW and HIGH, from the value that it has; two whole numbers ask
    for whole numbers. What is found is compared with that value on games of their own.

    Exit status: 0 the new numbers are better, 1 not better, or not surely.
    """
    from deepsea_referee.bots.resolve import resolve, split_list
    from deepsea_referee.timing.clock import SystemClock
    from deepsea_referee.workbench.blocks import BlockSettings
    from deepsea_referee.workbench.tuning import KIND, Budget, TuneGames, subject

    limit, mine = Budget.parse(budget), subject(bot)
    looked_at(mine.bot)
    text = seed_text(play.seed, out, KIND)
    start = mine.with_values(mine.start)
    settings = BlockSettings.of(
        start,
        start,
        [] if against == NO_FIELD else [looked_at(resolve(name)) for name in split_list(against)],
        seats,
        blocks=1,
        seed_text=text,
        margin=MARGIN,
        until_decided=True,
        **play.settings(text),
    )
    size = f"{budget} games" if limit.in_games else f"{budget} of time"
    with ExitStack() as opened:
        tuned = TuneGames(mine, settings, limit, SystemClock().now_us, opened, out)
        click.echo(f"at most {size}: half to search, and at most half to prove it", err=True)
        progress = opened.enter_context(Progress(100, "%", printed=True))
        ended = play.run(tuned.play, lambda: progress.reach(tuned.percent, _note(tuned)))
    compared = tuned.compared
    better = None if ended else bool(compared and compared.comparison.verdict == "A")
    if plot is not None:
        _draw(plot, tuned)
    if as_json:
        print_json(_document(tuned, better))
    else:
        _report(tuned, better)
        if plot is not None:
            echo(f"plots: {plot}")
    kept = f"; what there is is in {out}, from where the same command goes on" if out else ""
    raise_early_end(ended, f"{count(tuned.search.steps, 'step')}{kept}")
    ctx.exit(DONE if better else NEGATIVE)


def _note(tuned: TuneGames) -> str:
    from deepsea_cli.verdict_report import comparison_note

    if tuned.compared is not None:
        return comparison_note(tuned.compared.comparison)
    return ", ".join(f"{name}={value}" for name, value in tuned.search.values.items())


def _document(tuned: TuneGames, better: bool | None) -> dict[str, Any]:
    from deepsea_cli.verdict_report import comparison_document

    found, compared = tuned.search.values, tuned.compared
    return {
        "bot": tuned.subject.bot.name,
        "seed": tuned.settings.seed_text,
        "steps": tuned.search.steps,
        "parameters": [{**one._asdict(), "found": found[one.name]} for one in tuned.subject.ranges],
        "better": better,
        "comparison": None if compared is None else comparison_document(compared),
    }


def _facts(tuned: TuneGames) -> str:
    name = f"{tuned.subject.bot.name}{tuned.subject.given.format()}"
    from deepsea_referee.workbench.tuning import BLOCKS

    return f"{name}: {count(tuned.search.steps, 'step')} of {BLOCKS} blocks"


def _report(tuned: TuneGames, better: bool | None) -> None:
    from deepsea_cli.verdict_report import report_comparison

    subject, found, compared = tuned.subject, tuned.search.values, tuned.compared
    echo(_facts(tuned))
    click.echo()
    grid(
        Column("", list(found), text=True),
        Column("start", [f"{one.start}" for one in subject.ranges]),
        Column("found", [f"{value}" for value in found.values()]),
        Column("range", [f"{one.low} to {one.high}" for one in subject.ranges]),
    )
    click.echo()
    if compared is not None and compared.comparison.blocks:
        report_comparison(compared)
        click.echo()
    if better is False:
        is_open = compared is not None and compared.comparison.verdict is None
        echo(f"not {'surely ' if is_open else ''}better: keep the numbers that you have")
        for one in tuned.search.tried if tuned.search.steps else ():
            echo(
                f"  {one.name} was tried from {one.low} to {one.high}; from the low end of its "
                "range to the high one the placement score changes by "
                f"{one.worth:+.2f} ±{one.error:.2f}"
            )
    if not better:
        return
    echo(f"better: write into class {subject.class_name}")
    for name, value in found.items():
        echo(f"    {name} = {value}")
    echo("or play it as it is:")
    best = f"{subject.text}{subject.parameters(found)}"
    print_command("deepsea-referee", "match", best, "greedy")


def _draw(path: Path, tuned: TuneGames) -> None:
    from deepsea_referee.workbench.comparison import Lead
    from deepsea_web.charts.course import lead, numbers

    charts = numbers(tuned.search)
    if (compared := tuned.compared) is not None:
        (a, b), settings = compared.settings.names, compared.settings
        points = compared.comparison.history
        charts.append(lead(Lead(a, b, settings.margin, settings.alpha, points)))
    write_plot(path, f"Numbers of {tuned.subject.bot.name}", _facts(tuned), charts)
