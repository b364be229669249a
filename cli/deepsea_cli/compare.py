"""`deepsea-referee compare`: is bot A stronger than bot B?

Converts arguments to `BlockSettings`; `CompareGames` plays them.

`deepsea-referee rank`: the order of many bots, as far as it can be known.

Converts arguments to `RankSettings`; `RankGames` plays them.

`deepsea-referee tune`: better numbers for a bot, and a proof that they are better.

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
    alpha_option,
    browser_option,
    complete_bot,
    group_options,
    looked_at,
    margin_option,
    number_option,
    path_option,
    seats_option,
    seed_text,
)
from deepsea_cli.output import Column, Progress, count, echo, grid, print_command, print_json
from deepsea_cli.pages import PlayedGamesPage, PlotFile, plot_games_option, write_plot
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_referee.workbench.tuning import TuneGames


BLOCKS = 100
BLOCKS_UNTIL_DECIDED = 2000


@click.command("compare")
@click.argument("a", metavar="A", shell_complete=complete_bot)
@click.argument("b", metavar="B", shell_complete=complete_bot)
@click.option(
    "--field",
    metavar="C,D,...",
    default="",
    shell_complete=complete_bot,
    help="Bots in the other seats.",
)
@seats_option("4; with --field one for each named bot")
@number_option(
    "--blocks",
    metavar="MAX",
    help=f"Largest number of blocks.  [default: {BLOCKS}; --until-decided: {BLOCKS_UNTIL_DECIDED}]",
)
@click.option("--until-decided", is_flag=True, help="Stop as soon as there is a verdict.")
@margin_option("none")
@alpha_option("The probability of a wrong verdict that you accept.")
@click.option(
    "--luck-adjusted",
    is_flag=True,
    help="Decide by the lead without the luck in it: half the blocks if bots are nearly equal.",
)
@group_options("deals and dice")
@path_option(
    "--out", metavar="DIR", help="Folder for the records; continues a comparison that is there."
)
@plot_games_option
@browser_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    a: str,
    b: str,
    field: str,
    seats: int | None,
    blocks: int | None,
    until_decided: bool,
    margin: float,
    alpha: float,
    luck_adjusted: bool,
    play: GroupPlay,
    out: Path | None,
    plot: Path | None,
    browser: bool,
    as_json: bool,
) -> None:
    """Compare bots A and B on the same deals and dice, with seats swapped.

    Without --field, A and B share all seats. The intervals are valid however often you look and
    whenever you stop.

    Exit status: 0 with any verdict, 1 undecided.
    """
    drawn = PlotFile(plot)
    from deepsea_cli import verdict_report
    from deepsea_referee.bots.resolve import resolve, split_list
    from deepsea_referee.workbench.blocks import (
        BlockSettings,
        CompareGames,
        PlayedBlock,
        kept_folder,
    )

    text = seed_text(play.seed, out, BlockSettings.kind)
    settings = BlockSettings.of(
        looked_at(resolve(a)),
        looked_at(resolve(b)),
        [looked_at(resolve(bot)) for bot in split_list(field)],
        seats,
        blocks=blocks or (BLOCKS_UNTIL_DECIDED if until_decided else BLOCKS),
        seed_text=text,
        margin=margin,
        alpha=alpha,
        until_decided=until_decided,
        luck_adjusted=luck_adjusted,
        **play.settings(text),
    )
    drawn.begin_pair(settings)
    page = PlayedGamesPage(wanted=browser)
    with ExitStack() as opened:
        folder = kept_folder(opened, out, settings.fields_to_match(), settings.kind, settings.bots)
        if folder is None:
            games = CompareGames(settings)
        else:
            games = CompareGames(settings, folder.blocks, folder.add)
            drawn.add_kept(folder)
        progress = opened.enter_context(Progress(games.left, "blocks", printed=True))

        def on_block(played: PlayedBlock) -> None:
            for result, record in played:
                drawn.add(result, record)
                page.add(result, record)
            progress.advance(note=verdict_report.comparison_note(games.comparison))

        ended = play.run(games.play, on_block)
    comparison = games.comparison
    drawn.write(verdict_report.comparison_facts(games), settings.time_control, games)
    if as_json:
        print_json(verdict_report.comparison_document(games))
    elif comparison.blocks:
        verdict_report.report_comparison(games)
        drawn.say_where()
    page.open()
    blocks, decided = comparison.blocks, comparison.verdict is not None
    status = verdict_report.verdict_status
    ctx.exit(status(blocks, "block", out, ended=ended, decided=decided))


GAMES = 1000
GAMES_UNTIL_DECIDED = 20_000


@click.command("rank")
@click.argument("bots", metavar="A B C...", nargs=-1, required=True, shell_complete=complete_bot)
@seats_option("one for each bot, 4 at most")
@number_option(
    "--games",
    metavar="MAX",
    help=f"Largest number of games.  [default: {GAMES}; --until-decided: {GAMES_UNTIL_DECIDED}]",
)
@click.option("--until-decided", is_flag=True, help="Stop as soon as every pair has a verdict.")
@number_option("--top", metavar="K", help="Decide only between bots that may be among the best K.")
@margin_option("level")
@alpha_option("The probability that you accept of any wrong verdict at all.")
@group_options("tables and luck")
@path_option(
    "--out", metavar="DIR", help="Folder for the records; continues a ranking that is there."
)
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def rank(
    ctx: click.Context,
    *,
    bots: tuple[str, ...],
    seats: int | None,
    games: int | None,
    until_decided: bool,
    top: int | None,
    margin: float,
    alpha: float,
    play: GroupPlay,
    out: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Put bots in order by their placement scores in each other's company.

    For each bot it shows which ranks are still possible. All verdicts on all pairs hold together,
    however often you look and whenever you stop.

    Exit status: 0 if every pair has a verdict, 1 if pairs are open.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    from deepsea_cli import verdict_report
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.workbench.blocks import PlayedBlock, kept_folder
    from deepsea_referee.workbench.ranking import RankGames, RankSettings, seats_for

    text = seed_text(play.seed, out, RankSettings.kind)
    most = games or (GAMES_UNTIL_DECIDED if until_decided else GAMES)
    settings = RankSettings(
        bots=[looked_at(resolve(bot)) for bot in bots],
        players=seats_for(len(bots), seats),
        games=most,
        seed_text=text,
        margin=margin,
        alpha=alpha,
        until_decided=until_decided,
        top=top,
        **play.settings(text),
    )
    if most < settings.size:
        raise UserError(
            f"--games {most}: a round of {settings.size} bots has {settings.size} games"
        )
    with ExitStack() as opened:
        folder = kept_folder(opened, out, settings.fields_to_match(), settings.kind, settings.bots)
        played = RankGames(settings, folder)
        ranking = played.ranking
        progress = opened.enter_context(Progress(max(played.left, 1), printed=True))

        def on_round(games: PlayedBlock) -> None:
            progress.advance(len(games), note=verdict_report.ranking_note(ranking))

        ended = play.run(played.play, on_round)
    if as_json:
        print_json(verdict_report.ranking_document(played))
    elif ranking.games:
        verdict_report.report_ranking(played, markdown=markdown)
    rounds, decided = ranking.rounds, ranking.decided
    status = verdict_report.verdict_status
    ctx.exit(status(rounds, "round", out, ended=ended, decided=decided))


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
def tune(
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
    from deepsea_referee.clock import SystemClock
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
    from deepsea_web.plots import lead, numbers

    charts = numbers(tuned.search)
    if (compared := tuned.compared) is not None:
        (a, b), settings = compared.settings.names, compared.settings
        points = compared.comparison.history
        charts.append(lead(Lead(a, b, settings.margin, settings.alpha, points)))
    write_plot(path, f"Numbers of {tuned.subject.bot.name}", _facts(tuned), charts)
