"""`deepsea-referee match`: plays games between bots and prints the results.

Converts arguments to `MatchSettings` and decides nothing; match_report.py prints the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from deepsea_cli.errors import NEGATIVE, EndedEarly, raise_early_end
from deepsea_cli.options import (
    bot_uids_option,
    browser_option,
    clock_option,
    cluster_option,
    complete_bot,
    freeze_option,
    in_process_option,
    isolation_option,
    load_rules,
    looked_at,
    number_option,
    path_option,
    refuse_workers_of_cluster,
    rules_option,
    seed_option,
    seed_text,
    shown_hints,
    workers_option,
)
from deepsea_cli.output import Progress, echo
from deepsea_cli.pages import PlayedGamesPage, PlotFile, plot_games_option
from deepsea_referee.errors import UserError
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.results_folder import ResultsFolder
    from deepsea_referee.summary import GameResult, MatchResult, VoidGame


@click.command("match")
@click.argument("bots", metavar="BOT BOT [BOT]...", nargs=-1, shell_complete=complete_bot)
@number_option("--games", default=1, help="Number of games.")
@seed_option("deal and dice")
@rules_option
@clock_option
@path_option(
    "--out", metavar="DIR", help="Write each game's record and results.json to this folder."
)
@click.option(
    "--seating",
    type=click.Choice(["rotate", "fixed"]),
    default="rotate",
    show_default=True,
    help="Move bots by one seat from game to game, or keep their seats.",
)
@number_option(
    "--tables",
    help="Games at once with the same bot processes. By default up to 64 for bots that answer at "
    "once, and 1 for others and with several workers.",
)
@workers_option(64, "Worker processes that share the games, each with its own bots.")
@cluster_option
@isolation_option
@bot_uids_option
@freeze_option
@click.option("--tcp", is_flag=True, help="Connect to bots over TCP on this machine.")
@in_process_option
@click.option(
    "--show-output",
    metavar="BOT",
    multiple=True,
    help="Show what this bot prints as it comes; may be given several times.",
)
@plot_games_option
@browser_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    bots: tuple[str, ...],
    games: int,
    seed: str | None,
    rules_text: str,
    clock: str,
    out: Path | None,
    seating: Literal["rotate", "fixed"],
    tables: int | None,
    workers: int | None,
    cluster: str | None,
    isolation: IsolationLevel,
    freeze: bool,
    tcp: bool,
    in_process: bool,
    show_output: tuple[str, ...],
    plot: Path | None,
    browser: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Play games between two to six bots.

    BOT is a Python file, a folder or zip with bot.toml, the name of a sample bot or
    cmd:COMMAND LINE. You may name the same bot several times.

    Exit status: 0 played, even with faults of bots; 1 every game was void.
    """
    rules = load_rules(rules_text)
    drawn = PlotFile(plot)
    _refuse_together(ctx)
    level: IsolationLevel = "process" if in_process or tcp else isolation
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.system import SYSTEM

    specs = [looked_at(resolve(bot)) for bot in bots]
    # A child process tests the sandbox while this one imports gRPC.
    with SYSTEM.begin_test(level) as begun:
        from deepsea_cli import match_report
        from deepsea_referee.bots.output import OutputPlan
        from deepsea_referee.bots.process import Hosting
        from deepsea_referee.match import MatchSettings
        from deepsea_referee.results_folder import ResultsFolder
        from deepsea_referee.shared_match import run_match

        chosen = SYSTEM.choose(level, begun)

    text = seed_text(seed)
    settings = MatchSettings(
        bots=specs,
        hosting=Hosting(
            isolation=chosen,
            freeze=freeze,
            tcp_host="127.0.0.1" if tcp else SYSTEM.tcp_host,
        ).for_one_of(workers or 1),
        games=games,
        rules=rules,
        time_control=TimeControl.parse(clock),
        seed=seed_from_text(text),
        seating=seating,
        tables=tables,
        output=OutputPlan(
            folder=out,
            shown=_shown(show_output, bots, specs),
            hints=None if quiet else shown_hints(),
        ),
    )
    page = PlayedGamesPage(wanted=browser)
    play: Callable[..., MatchResult]
    play = partial(run_match, settings, workers or 1, in_process=in_process)
    if cluster is not None:
        from deepsea_arena.workers import match_on_cluster

        report = partial(click.echo, err=True)
        play = partial(match_on_cluster, settings, cluster, report=report)
    drawn.begin(specs)
    with ResultsFolder(out, specs) if out or as_json else nullcontext() as results:
        with Progress(games, wanted=not (quiet or show_output) and games > 1) as progress:
            result, ended = _play(play, results, progress, (drawn.add, page.add))
        drawn.write(match_report.facts(result, text), settings.time_control)
        if as_json and results is not None:
            for piece in results.document.pieces(result):
                click.echo(piece, nl=False)
    if not as_json and not quiet and (result.games or result.voids.count or not result.interrupted):
        # How to repeat it is news if the seed was not chosen, or something went wrong.
        news = seed is None or result.faults.count or result.voids.count
        match_report.report(result, text, out, again=(*bots, *_unusual(ctx)) if news else None)
        if tables and min(tables, games // (workers or 1)) > result.tables == 1 < result.games:
            echo("one table: not every bot declares concurrent_games (see check)")
        if result.games:
            drawn.say_where()
    page.open()
    where = f"; their records are in {out}" if out and result.games else ""
    raise_early_end(ended, f"{result.games} of {games} games{where}")
    if not result.games:
        ctx.exit(NEGATIVE)


def _play(
    play: Callable[..., MatchResult],
    results: ResultsFolder | None,
    progress: Progress,
    watching: Iterable[Callable[[GameResult, GameRecord], object]],
) -> tuple[MatchResult, EndedEarly]:
    """Play the match, and let what watches it have each game that counts."""
    from deepsea_referee.summary import BotHangs

    def on_game(outcome: GameResult, record: GameRecord) -> object:
        progress.advance()
        for watch in watching:
            watch(outcome, record)
        return None if results is None else results.add(outcome, record)

    def on_void(void: VoidGame) -> object:
        progress.advance()
        return None if results is None else results.add_void(void)

    try:
        result = play(on_game=on_game, on_void=on_void)
        ended: EndedEarly = result.interrupted
    except BotHangs as error:
        result, ended = error.result, error
    if results is not None:
        results.finish(result)
    return result, ended


def _shown(
    wanted: tuple[str, ...], words: tuple[str, ...], specs: Sequence[BotSpec]
) -> frozenset[int]:
    """The bots with output to show, named as on the command line or as in the table."""
    from deepsea_referee.bots.resolve import with_unique_names

    names = [bot.name for bot in with_unique_names(specs)]
    found: set[int] = set()
    for name in wanted:
        bots = {i for i, known in enumerate(zip(words, names, strict=True)) if name in known}
        if not bots:
            raise UserError(f"--show-output {name!r} is none of the bots: {', '.join(names)}")
        found |= bots
    return frozenset(found)


def _refuse_together(ctx: click.Context) -> None:
    given = ctx.params
    if given["in_process"]:
        for name in ("tcp", "isolation", "freeze", "tables", "cluster"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise UserError(f"--in-process plays in one process: it has no --{name}")
    if given["cluster"] is not None and (given["tcp"] or given["show_output"]):
        raise UserError("a cluster's bots are on other machines: omit --tcp and --show-output")
    refuse_workers_of_cluster(given["cluster"], given["workers"])
    if given["tcp"] and given["isolation"] == "sandbox":
        raise UserError("--tcp needs --isolation process: a sandbox has no network")


def _unusual(ctx: click.Context) -> list[str]:
    """The options that change the games and are not the defaults."""
    words = []
    for name in ("rules_text", "clock", "seating"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            words += [f"--{name.removesuffix('_text')}", ctx.params[name]]
    if ctx.params["in_process"]:
        words.append("--in-process")
    return words
