"""`deepsea-referee compare`, `rank` and `tune`: verdicts from games with the same deals and dice.

`compare` finds out which of two bots is stronger, `rank` puts many bots in order, and `tune`
searches better numbers for a bot and proves that they are better. Options become the settings of
`CompareGames`, `RankGames` and `TuneGames`, which play the games and decide.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepsea_cli.errors import DONE, NEGATIVE, raise_early_end
from deepsea_cli.options import (
    GroupPlay,
    alpha_option,
    argument,
    browser_option,
    complete_bot,
    flag,
    group,
    json_option,
    margin_option,
    option,
    path_option,
    seats_option,
    seed_option,
    seed_text,
    shared,
    show_hints,
    whole_number,
    with_options,
)
from deepsea_cli.output import Column, Progress, count, echo, grid, print_command, print_json
from deepsea_cli.pages import PlayedGamesPage, PlotFile, plot_games_option, write_plot
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_referee.workbench.tuning import TuneGames


# ----- compare

BLOCKS = 100
"""Largest number of blocks if --blocks is not given,"""
BLOCKS_UNTIL_DECIDED = 2000
"""and with --until-decided."""


@dataclass(frozen=True)
class CompareOptions:
    """Arguments and options of `compare`."""

    a: str = argument(metavar="A", shell_complete=complete_bot)
    b: str = argument(metavar="B", shell_complete=complete_bot)
    field: str = option(
        "Bots in the other seats.", metavar="C,D,...", default="", shell_complete=complete_bot
    )
    seats: int | None = shared(seats_option("4; with --field one for each named bot"))
    blocks: int | None = whole_number(
        f"Largest number of blocks.  [default: {BLOCKS}; --until-decided: {BLOCKS_UNTIL_DECIDED}]",
        metavar="MAX",
    )
    until_decided: bool = flag("Stop as soon as there is a verdict.")
    margin: float = shared(margin_option("none"))
    alpha: float = shared(alpha_option("The probability of a wrong verdict that you accept."))
    luck_adjusted: bool = flag(
        "Decide by the lead without the luck in it: half the blocks if bots are nearly equal."
    )
    play: GroupPlay = group(GroupPlay)
    out: Path | None = option(
        "Folder for the records; continues a comparison that is there.", path_option, metavar="DIR"
    )
    plot: Path | None = shared(plot_games_option)
    browser: bool = shared(browser_option)
    json: bool = shared(json_option)


@click.command("compare")
@with_options(CompareOptions)
def command(options: CompareOptions) -> None:
    """Compare bots A and B on the same deals and dice, with seats swapped.

    Without --field, A and B share all seats. The intervals are valid however often you look and
    whenever you stop.

    Exit status: 0 with any verdict, 1 undecided.
    """
    play, out = options.play, options.out
    plot_file = PlotFile(options.plot)
    from deepsea_cli import verdict_report
    from deepsea_referee.bots.resolve import resolve, split_list
    from deepsea_referee.workbench.blocks import (
        BlockSettings,
        CompareGames,
        PlayedBlock,
        open_folder,
    )

    text = seed_text(play.seed, out, BlockSettings.kind)
    settings = BlockSettings.of(
        show_hints(resolve(options.a)),
        show_hints(resolve(options.b)),
        [show_hints(resolve(bot)) for bot in split_list(options.field)],
        options.seats,
        blocks=options.blocks or (BLOCKS_UNTIL_DECIDED if options.until_decided else BLOCKS),
        seed_text=text,
        margin=options.margin,
        alpha=options.alpha,
        until_decided=options.until_decided,
        luck_adjusted=options.luck_adjusted,
        **play.settings(text),
    )
    plot_file.begin_pair(settings)
    page = PlayedGamesPage(wanted=options.browser)
    with ExitStack() as stack:
        folder = open_folder(stack, out, settings.fields_to_match(), settings.kind, settings.bots)
        if folder is None:
            games = CompareGames(settings)
        else:
            games = CompareGames(settings, folder.blocks, folder.add)
            plot_file.add_kept(folder)
        progress = stack.enter_context(Progress(games.left, "blocks", printed=True))

        def on_block(block: PlayedBlock) -> None:
            for result, record in block:
                plot_file.add(result, record)
                page.add(result, record)
            progress.advance(note=verdict_report.comparison_note(games.comparison))

        ended = play.run(games.play, on_block)
    comparison = games.comparison
    plot_file.write(verdict_report.comparison_facts(games), settings.time_control, games)
    if options.json:
        print_json(verdict_report.comparison_document(games))
    elif comparison.blocks:
        verdict_report.report_comparison(games)
        plot_file.print_path()
    page.open()
    blocks, decided = comparison.blocks, comparison.verdict is not None
    status = verdict_report.verdict_status
    click.get_current_context().exit(status(blocks, "block", out, ended=ended, decided=decided))


# ----- rank

GAMES = 1000
"""Largest number of games if --games is not given,"""
GAMES_UNTIL_DECIDED = 20_000
"""and with --until-decided."""


@dataclass(frozen=True)
class RankPlay(GroupPlay):
    """Options of `rank` that say how games are played."""

    seed: str | None = shared(seed_option("tables and luck"))


@dataclass(frozen=True)
class RankOptions:
    """Arguments and options of `rank`."""

    bots: tuple[str, ...] = argument(
        metavar="A B C...", nargs=-1, required=True, shell_complete=complete_bot
    )
    seats: int | None = shared(seats_option("one for each bot, 4 at most"))
    games: int | None = whole_number(
        f"Largest number of games.  [default: {GAMES}; --until-decided: {GAMES_UNTIL_DECIDED}]",
        metavar="MAX",
    )
    until_decided: bool = flag("Stop as soon as every pair has a verdict.")
    top: int | None = whole_number(
        "Decide only between bots that may be among the best K.", metavar="K"
    )
    margin: float = shared(margin_option("level"))
    alpha: float = shared(
        alpha_option("The probability that you accept of any wrong verdict at all.")
    )
    play: RankPlay = group(RankPlay)
    out: Path | None = option(
        "Folder for the records; continues a ranking that is there.", path_option, metavar="DIR"
    )
    markdown: bool = flag("Print the table in Markdown.")
    json: bool = shared(json_option)


@click.command("rank")
@with_options(RankOptions)
def rank(options: RankOptions) -> None:
    """Put bots in order by their placement scores in each other's company.

    For each bot it shows which ranks are still possible. All verdicts on all pairs hold together,
    however often you look and whenever you stop.

    Exit status: 0 if every pair has a verdict, 1 if pairs are open.
    """
    play, out = options.play, options.out
    if options.markdown and options.json:
        raise click.UsageError("--markdown and --json exclude each other")
    from deepsea_cli import verdict_report
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.workbench.blocks import PlayedBlock, open_folder
    from deepsea_referee.workbench.ranking import RankGames, RankSettings, seats_for

    text = seed_text(play.seed, out, RankSettings.kind)
    max_games = options.games or (GAMES_UNTIL_DECIDED if options.until_decided else GAMES)
    settings = RankSettings(
        bots=[show_hints(resolve(bot)) for bot in options.bots],
        players=seats_for(len(options.bots), options.seats),
        games=max_games,
        seed_text=text,
        margin=options.margin,
        alpha=options.alpha,
        until_decided=options.until_decided,
        top=options.top,
        **play.settings(text),
    )
    if max_games < settings.size:
        raise UserError(
            f"--games {max_games}: a round of {settings.size} bots has {settings.size} games"
        )
    with ExitStack() as stack:
        folder = open_folder(stack, out, settings.fields_to_match(), settings.kind, settings.bots)
        games = RankGames(settings, folder)
        ranking = games.ranking
        progress = stack.enter_context(Progress(max(games.left, 1), printed=True))

        def on_round(block: PlayedBlock) -> None:
            progress.advance(len(block), note=verdict_report.ranking_note(ranking))

        ended = play.run(games.play, on_round)
    if options.json:
        print_json(verdict_report.ranking_document(games))
    elif ranking.games:
        verdict_report.report_ranking(games, markdown=options.markdown)
    rounds, decided = ranking.rounds, ranking.decided
    status = verdict_report.verdict_status
    click.get_current_context().exit(status(rounds, "round", out, ended=ended, decided=decided))


# ----- tune

NO_FIELD = "none"
"""The value of --against for games without other bots."""
MARGIN = 0.02
"""Largest difference in placement score that counts as none."""


@dataclass(frozen=True)
class TuneOptions:
    """Arguments and options of `tune`."""

    bot: str = argument(metavar="MINE,NAME=LOW..HIGH,...", shell_complete=complete_bot)
    against: str = option(
        f"Bots in the other seats; {NO_FIELD} for copies of MINE in all seats.",
        metavar="A,B,...",
        default="greedy,heuristic",
        show_default=True,
        shell_complete=complete_bot,
    )
    seats: int | None = shared(seats_option("two, and one for each bot of --against"))
    budget: str = option(
        "Half for the search, and at most half for the comparison: 90s, 20m, 2h, or games.",
        metavar="TIME|GAMES",
        default="20m",
        show_default=True,
    )
    play: GroupPlay = group(GroupPlay)
    out: Path | None = option(
        "Folder for the steps; continues a search that is there.", path_option, metavar="DIR"
    )
    plot: Path | None = shared(plot_games_option)
    json: bool = shared(json_option)


@click.command("tune")
@with_options(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Find better numbers for the class attributes of your bot MINE.

    Each NAME is searched between LOW and HIGH, from the value that it has; two whole numbers ask
    for whole numbers. What is found is compared with that value on games of their own.

    Exit status: 0 the new numbers are better, 1 not better, or not surely.
    """
    from deepsea_referee.bots.resolve import resolve, split_list
    from deepsea_referee.clock import SystemClock
    from deepsea_referee.workbench.blocks import BlockSettings
    from deepsea_referee.workbench.tuning import KIND, Budget, TuneGames, subject

    play, out, plot = options.play, options.out, options.plot
    limit, mine = Budget.parse(options.budget), subject(options.bot)
    show_hints(mine.bot)
    text = seed_text(play.seed, out, KIND)
    start = mine.with_values(mine.start)
    field = [] if options.against == NO_FIELD else split_list(options.against)
    settings = BlockSettings.of(
        start,
        start,
        [show_hints(resolve(name)) for name in field],
        options.seats,
        blocks=1,
        seed_text=text,
        margin=MARGIN,
        until_decided=True,
        **play.settings(text),
    )
    size = f"{options.budget} {'games' if limit.in_games else 'of time'}"
    with ExitStack() as stack:
        tuned = TuneGames(mine, settings, limit, SystemClock().now_us, stack, out)
        click.echo(f"at most {size}: half to search, and at most half to prove it", err=True)
        progress = stack.enter_context(Progress(100, "%", printed=True))

        def on_step() -> None:
            progress.reach(tuned.percent, _progress_note(tuned))

        ended = play.run(tuned.play, on_step)
    compared = tuned.compared
    is_better = None
    if not ended:
        is_better = compared is not None and compared.comparison.verdict == "A"
    if plot is not None:
        _draw_plots(plot, tuned)
    if options.json:
        print_json(_document(tuned, is_better=is_better))
    else:
        _report(tuned, is_better=is_better)
        if plot is not None:
            echo(f"plots: {plot}")
    where = f"; what there is is in {out}, from where the same command goes on" if out else ""
    raise_early_end(ended, f"{count(tuned.search.steps, 'step')}{where}")
    click.get_current_context().exit(DONE if is_better else NEGATIVE)


def _progress_note(tuned: TuneGames) -> str:
    """Return the text beside the bar of progress.

    During the search it has the best values so far. After it these values play against those from
    which the search started, and the text has their lead.
    """
    from deepsea_cli.verdict_report import comparison_note

    if tuned.compared is None:
        return ", ".join(f"{name}={value}" for name, value in tuned.search.values.items())
    return comparison_note(tuned.compared.comparison)


def _document(tuned: TuneGames, *, is_better: bool | None) -> dict[str, Any]:
    """Return the result of a search as the document that `--json` prints.

    is_better  True if the new values surely win; None if the command was ended early
    """
    from deepsea_cli.verdict_report import comparison_document

    best_values, compared = tuned.search.values, tuned.compared
    return {
        "bot": tuned.subject.bot.name,
        "seed": tuned.settings.seed_text,
        "steps": tuned.search.steps,
        "parameters": [
            {**parameter._asdict(), "found": best_values[parameter.name]}
            for parameter in tuned.subject.ranges
        ],
        "better": is_better,
        "comparison": None if compared is None else comparison_document(compared),
    }


def _facts(tuned: TuneGames) -> str:
    """Return the bot, its fixed parameters and the size of the search in one line."""
    from deepsea_referee.workbench.tuning import BLOCKS

    name = f"{tuned.subject.bot.name}{tuned.subject.given.format()}"
    return f"{name}: {count(tuned.search.steps, 'step')} of {BLOCKS} blocks"


def _report(tuned: TuneGames, *, is_better: bool | None) -> None:
    """Print the values of the search, their comparison with the old ones, and what to write.

    is_better  True if the new values surely win; None if the command was ended early
    """
    from deepsea_cli.verdict_report import report_comparison

    subject, values, compared = tuned.subject, tuned.search.values, tuned.compared
    echo(_facts(tuned))
    click.echo()
    grid(
        Column("", list(values), text=True),
        Column("start", [f"{parameter.start}" for parameter in subject.ranges]),
        Column("found", [f"{value}" for value in values.values()]),
        Column("range", [f"{parameter.low} to {parameter.high}" for parameter in subject.ranges]),
    )
    click.echo()
    if compared is not None and compared.comparison.blocks:
        report_comparison(compared)
        click.echo()
    if is_better is False:
        is_open = compared is not None and compared.comparison.verdict is None
        echo(f"not {'surely ' if is_open else ''}better: keep the numbers that you have")
        for trial in tuned.search.tried_ranges if tuned.search.steps else ():
            echo(
                f"  {trial.name} was tried from {trial.low} to {trial.high}; from the low end of "
                "its range to the high one the placement score changes by "
                f"{trial.worth:+.2f} ±{trial.error:.2f}"
            )
    if not is_better:
        return
    echo(f"better: write into class {subject.class_name}")
    for name, value in values.items():
        echo(f"    {name} = {value}")
    echo("or play it as it is:")
    tuned_bot = f"{subject.text}{subject.parameters(values)}"
    print_command("deepsea-referee", "match", tuned_bot, "greedy")


def _draw_plots(path: Path, tuned: TuneGames) -> None:
    """Draw a chart of each searched value over the steps to a file.

    If the new values were compared with the old ones, a chart of their lead follows.
    """
    from deepsea_referee.workbench.comparison import Lead
    from deepsea_web import plots

    charts = plots.numbers(tuned.search)
    compared = tuned.compared
    if compared is not None:
        settings = compared.settings
        new_name, old_name = settings.names
        points = compared.comparison.history
        lead = Lead(new_name, old_name, settings.margin, settings.alpha, points)
        charts.append(plots.lead(lead))
    write_plot(path, f"Numbers of {tuned.subject.bot.name}", _facts(tuned), charts)
