"""`deepsea-referee match`: plays games between bots and prints the results.

The options become `MatchSettings`, and nothing is decided here; match_report.py prints the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from deepsea_cli.errors import NEGATIVE, EndedEarly, raise_early_end
from deepsea_cli.options import (
    argument,
    bot_uids_option,
    browser_option,
    clock_option,
    cluster_option,
    command_hints,
    complete_bot,
    flag,
    freeze_option,
    in_process_option,
    isolation_option,
    json_option,
    load_rules,
    option,
    records_option,
    refuse_workers_of_cluster,
    rules_option,
    seed_option,
    seed_text,
    shared,
    show_hints,
    whole_number,
    with_options,
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


@dataclass(frozen=True)
class MatchOptions:
    """Arguments and options of `match`."""

    bots: tuple[str, ...] = argument(
        metavar="BOT BOT [BOT]...", nargs=-1, shell_complete=complete_bot
    )
    games: int = whole_number("Number of games.", default=1)
    seed: str | None = shared(seed_option("deal and dice"))
    rules: str = shared(rules_option)
    clock: str = shared(clock_option)
    out: Path | None = shared(records_option)
    seating: Literal["rotate", "fixed"] = option(
        "Move bots by one seat from game to game, or keep their seats.",
        type=click.Choice(["rotate", "fixed"]),
        default="rotate",
        show_default=True,
    )
    tables: int | None = whole_number(
        "Games at once with the same bot processes. By default up to 64 for bots that "
        "answer at once, and 1 for others and with several workers."
    )
    workers: int | None = shared(
        workers_option(64, "Worker processes that share the games, each with its own bots.")
    )
    cluster: str | None = shared(cluster_option)
    isolation: IsolationLevel = shared(isolation_option, bot_uids_option)
    freeze: bool = shared(freeze_option)
    tcp: bool = flag("Connect to bots over TCP on this machine.")
    in_process: bool = shared(in_process_option)
    show_output: tuple[str, ...] = option(
        "Show what this bot prints as it comes; may be given several times.",
        metavar="BOT",
        multiple=True,
    )
    plot: Path | None = shared(plot_games_option)
    browser: bool = shared(browser_option)
    json: bool = shared(json_option)
    quiet: bool = flag("Print errors only.")

    @property
    def level(self) -> IsolationLevel:
        """Isolation of the bots; bots over TCP or in this process have no sandbox."""
        return "process" if self.in_process or self.tcp else self.isolation


@click.command("match")
@with_options(MatchOptions)
def command(options: MatchOptions) -> None:
    """Play games between two to six bots.

    BOT is a Python file, a folder or zip with bot.toml, the name of a sample bot or
    cmd:COMMAND LINE. You may name the same bot several times.

    Exit status: 0 played, even with faults of bots; 1 every game was void.
    """
    rules = load_rules(options.rules)
    plot_file = PlotFile(options.plot)
    ctx = click.get_current_context()
    _refuse_contradictions(ctx, options)
    from deepsea_referee.bots.resolve import resolve
    from deepsea_referee.system import SYSTEM

    specs = [show_hints(resolve(bot)) for bot in options.bots]
    # A child process tests the sandbox while this one imports gRPC.
    with SYSTEM.start_sandbox_test(options.level) as sandbox_test:
        from deepsea_cli import match_report
        from deepsea_referee.bots.output import OutputPlan
        from deepsea_referee.bots.process import Hosting
        from deepsea_referee.match import MatchSettings
        from deepsea_referee.results_folder import ResultsFolder
        from deepsea_referee.shared_match import run_match_with_workers

        isolation = SYSTEM.choose(options.level, sandbox_test)

    text = seed_text(options.seed)
    settings = MatchSettings(
        bots=specs,
        hosting=Hosting(
            isolation=isolation,
            freeze=options.freeze,
            tcp_host="127.0.0.1" if options.tcp else SYSTEM.tcp_host,
        ).for_one_of(options.workers or 1),
        games=options.games,
        rules=rules,
        time_control=TimeControl.parse(options.clock),
        seed=seed_from_text(text),
        seating=options.seating,
        tables=options.tables,
        output=OutputPlan(
            folder=options.out,
            shown=_bots_with_output(options.show_output, options.bots, specs),
            hints=None if options.quiet else command_hints(),
        ),
    )
    page = PlayedGamesPage(wanted=options.browser)
    play: Callable[..., MatchResult]
    play = partial(
        run_match_with_workers, settings, options.workers or 1, in_process=options.in_process
    )
    if options.cluster is not None:
        from deepsea_arena.workers import match_on_cluster

        report = partial(click.echo, err=True)
        play = partial(match_on_cluster, settings, options.cluster, report=report)
    plot_file.begin(specs)
    keeps_results = options.out or options.json
    shows_progress = not (options.quiet or options.show_output) and options.games > 1
    with ResultsFolder(options.out, specs) if keeps_results else nullcontext() as results:
        with Progress(options.games, wanted=shows_progress) as progress:
            result, ended = _play(play, results, progress, (plot_file.add, page.add))
        plot_file.write(match_report.facts(result, text), settings.time_control)
        if options.json and results is not None:
            for piece in results.document.pieces(result):
                click.echo(piece, nl=False)
    has_results = result.games or result.voids.count or not result.interrupted
    if has_results and not options.json and not options.quiet:
        # The user needs the command that repeats the match if the seed is new, or after a fault.
        prints_command = options.seed is None or result.faults.count or result.voids.count
        again = (*options.bots, *_options_to_repeat(ctx, options)) if prints_command else None
        match_report.report(result, text, options.out, again=again)
        tables = min(options.tables or 1, options.games // (options.workers or 1))
        if tables > result.tables == 1 < result.games:
            echo("one table: not every bot declares concurrent_games (see check)")
        if result.games:
            plot_file.print_path()
    page.open()
    where = f"; their records are in {options.out}" if options.out and result.games else ""
    raise_early_end(ended, f"{result.games} of {options.games} games{where}")
    if not result.games:
        ctx.exit(NEGATIVE)


def _play(
    play: Callable[..., MatchResult],
    results: ResultsFolder | None,
    progress: Progress,
    listeners: Iterable[Callable[[GameResult, GameRecord], object]],
) -> tuple[MatchResult, EndedEarly]:
    """Play the match, and return its result and what ended it early.

    play       function that plays the match, with the callbacks `on_game` and `on_void`
    results    folder that gets each game and the result, if there is one
    listeners  functions that get each game that counts
    """
    from deepsea_referee.summary import BotHangs

    def on_game(outcome: GameResult, record: GameRecord) -> object:
        progress.advance()
        for listener in listeners:
            listener(outcome, record)
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


def _bots_with_output(
    names: tuple[str, ...], arguments: tuple[str, ...], specs: Sequence[BotSpec]
) -> frozenset[int]:
    """Return the indices of the bots that the values of --show-output name.

    A value is a bot's name in the table, or the argument for it. Raises UserError if it is neither.

    names      values of the option
    arguments  arguments for the bots, in the order of `specs`
    """
    from deepsea_referee.bots.resolve import with_unique_names

    bot_names = [bot.name for bot in with_unique_names(specs)]
    named_bots: set[int] = set()
    for name in names:
        bots_of_name = {
            index
            for index, bot_name in enumerate(bot_names)
            if name in (bot_name, arguments[index])
        }
        if not bots_of_name:
            raise UserError(f"--show-output {name!r} is none of the bots: {', '.join(bot_names)}")
        named_bots |= bots_of_name
    return frozenset(named_bots)


def _refuse_contradictions(ctx: click.Context, options: MatchOptions) -> None:
    """Raise UserError for options that exclude each other."""
    if options.in_process:
        for name in ("tcp", "isolation", "freeze", "tables", "cluster"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise UserError(f"--in-process plays in one process: it has no --{name}")
    if options.cluster is not None and (options.tcp or options.show_output):
        raise UserError("a cluster's bots are on other machines: omit --tcp and --show-output")
    refuse_workers_of_cluster(options.cluster, options.workers)
    if options.tcp and options.isolation == "sandbox":
        raise UserError("--tcp needs --isolation process: a sandbox has no network")


def _options_to_repeat(ctx: click.Context, options: MatchOptions) -> list[str]:
    """Return the options that were given and change the games, for a command that repeats them."""
    words = []
    for name in ("rules", "clock", "seating"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            words += [f"--{name}", getattr(options, name)]
    if options.in_process:
        words.append("--in-process")
    return words
