"""`deepsea-referee improve`: the loop of an author in one command.

It plays a match against a panel, looks for the habits that cost most in it, and compares the bot
with its best version so far. The functions that match, analyse and compare call do all this.

Invariants: --out belongs to one run at a time, which has a folder of its own there, with its
records and, in `bot`, the program that played. When the time of a part is over, or at Ctrl-C, what
is complete counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field, replace
from io import StringIO
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from deepsea_cli.errors import NEGATIVE, EndedEarly, raise_early_end
from deepsea_cli.options import (
    GroupPlay,
    argument,
    complete_bot,
    decimal_option,
    flag,
    group,
    json_option,
    load_record,
    option,
    path_option,
    precision_option,
    seed_option,
    seed_text,
    shared,
    show_hints,
    whole_number,
    with_options,
)
from deepsea_cli.output import (
    Progress,
    count,
    echo,
    fit,
    print_command,
    print_json,
    width,
    with_progress,
)
from deepsea_rules.game import GameRecord
from deepsea_rules.scoring import placement_scores
from deepsea_sdk.coach.decisions import Effort

if TYPE_CHECKING:
    from deepsea_arena.weaknesses import Deviation, Weaknesses
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.match import MatchSettings
    from deepsea_referee.results_folder import ResultsFolder
    from deepsea_referee.summary import GameResult, MatchResult, VoidGame
    from deepsea_referee.workbench.blocks import CompareGames, PlayedBlock
    from deepsea_referee.workbench.versions import Version, Versions

GAMES = 100
"""Largest number of games of the match if --games is not given."""
BLOCKS = 500
"""Largest number of blocks of the comparison."""
PRECISION = 0.06
"""Precision of decisions, twice the usual one: games differ far more than decisions are unsure."""
HABITS = 3
"""Largest number of habits that are printed."""
CONDITIONS = 2
"""Largest number of conditions in the sentence on a habit."""
REPLAY_LIMIT_US = 1_000_000
"""Time that a bot took for all its decisions up to one, above which these are not replayed."""
CHANGES = 2
"""Largest number of changed habits that are printed."""
SHARES = (0.25, 0.45, 0.6)
"""Shares of the whole time at which the match and the two searches for habits end."""
SHARES_WITHOUT_RIVAL = (0.4, 1.0, 1.0)
"""The same shares if there is no bot to compare with."""


@dataclass(frozen=True)
class ImprovePlay(GroupPlay):
    """Options of `improve` that say how games are played."""

    seed: str | None = shared(seed_option("deals"))


@dataclass(frozen=True)
class ImproveOptions:
    """Arguments and options of `improve`."""

    bot: str = argument(metavar="MINE", shell_complete=complete_bot)
    against: str | None = option(
        "The panel: one to five bots.  [default: three samples of about the strength of MINE]",
        metavar="A,B,...",
        shell_complete=complete_bot,
    )
    against_version: str | None = option(
        "The bot to compare with.  [default: the best version in DIR]",
        metavar="BOT",
        shell_complete=complete_bot,
    )
    games: int = whole_number("Most games of the match.", default=GAMES)
    minutes: float = option(
        "About how long it takes at most.", decimal_option, over=True, default=1.0
    )
    precision: float = shared(precision_option(PRECISION))
    out: Path | None = option(
        "Folder of all runs of this bot.  [default: runs/improve-MINE]", path_option, metavar="DIR"
    )
    play: ImprovePlay = group(ImprovePlay)
    verbose: bool = flag("Print the tables and the whole report, too.")
    json: bool = shared(json_option)


class _Rival(NamedTuple):
    """The bot that is compared with the user's bot."""

    name: str
    argument: str
    """The argument of a command that names the bot."""
    bot: BotSpec
    is_best: bool
    """True for the best version so far, False for the bot of --against-version."""

    @property
    def words(self) -> str:
        """The name of the bot in a sentence."""
        return f"{self.name}, your best" if self.is_best else self.name


@dataclass(slots=True)
class _Run:
    """A run of the command: how it plays, and the results of its parts so far."""

    number: int
    """Number of the version, which is the number of the first run with the same program."""
    settings: MatchSettings
    folder: Path
    play: GroupPlay
    check_time: Callable[[float], None]
    """Raises `_TimeIsOver` when this share of the whole time is over."""
    effort: Effort
    """Number of roll-outs by which decisions are judged."""
    result: MatchResult
    match_share: float
    """Share of the whole time at which the match ends."""
    habits_share: float
    """Share of it at which the search for habits in the match ends."""
    habits_before_share: float
    """Share of it at which the search for habits in the games of the best version ends."""
    scores: list[float] = field(default_factory=list)
    """Placement score of the bot in each game."""
    records: list[tuple[str, GameRecord]] = field(default_factory=list)
    """Records of the match with their paths."""
    habits: Weaknesses | None = None
    comparison: CompareGames | None = None
    ended: EndedEarly = False
    """Cause of an early end of the run."""
    ended_at: str = ""
    """Words for what was complete at an early end."""

    @property
    def score(self) -> float:
        """Mean placement score of the bot."""
        return fsum(self.scores) / len(self.scores)


@click.command("improve")
@with_options(ImproveOptions)
def command(options: ImproveOptions) -> None:
    """Say whether MINE is stronger than its best version, and which habits cost it most.

    It plays a match against the panel, looks in all of its games for what MINE does worse than a
    simple strong policy, and compares MINE with its best version so far. Records and the program
    are kept in DIR, for the next time.

    Exit status: 0 done, whatever the verdict; 1 every game was void.
    """
    from deepsea_referee.bots.resolve import PROGRAM, resolve, sample, split_list
    from deepsea_referee.match import MatchSettings
    from deepsea_referee.results_folder import FolderWriter, ResultsFolder
    from deepsea_referee.workbench.versions import Versions

    mine = show_hints(resolve(options.bot))
    name = mine.name.removesuffix(mine.parameters)
    folder = options.out or Path("runs") / f"improve-{name}"
    versions = Versions(folder, name)
    rival = _choose_rival(versions, mine, options.against_version)
    if options.against is None:
        panel_names = [*versions.panel]
        panel = [sample(bot_name) for bot_name in panel_names]
    else:
        panel_names = split_list(options.against)
        panel = [show_hints(resolve(bot_name)) for bot_name in panel_names]
    text = seed_text(options.play.seed)
    settings = MatchSettings(
        bots=[mine, *panel], games=options.games, tables=None, **options.play.settings(text)
    )
    isolation = "in-process" if options.play.in_process else settings.hosting.isolation_text
    ctx = click.get_current_context()
    ctx.with_resource(FolderWriter(folder))
    shares = SHARES_WITHOUT_RIVAL if rival is None else SHARES
    match_share, habits_share, habits_before_share = shares
    run = _Run(
        number=versions.number_of(mine.digest),
        settings=settings,
        folder=folder / str(versions.next_number),
        play=options.play,
        check_time=_start_time(options.minutes),
        effort=Effort.to(options.precision),
        result=settings.result(isolation),
        match_share=match_share,
        habits_share=habits_share,
        habits_before_share=habits_before_share,
    )
    # The records name the copy of the program in the run's folder, which later changes spare.
    copy_of_mine = replace(mine, source=(run.folder / PROGRAM).absolute())
    with ResultsFolder(run.folder, [copy_of_mine if mine.bundle else mine, *panel]) as results:
        opponents = ", ".join(bot.name for bot in settings.named[1:])
        then = f", then up to {2 * BLOCKS} against {rival.words}" if rival else ""
        click.echo(
            f"about {60 * options.minutes:g} s at most: up to {count(options.games, 'game')} "
            f"against {opponents}{then}",
            err=True,
        )
        _play_match(run, results)
    if not run.ended:
        _find_habits(run, versions)
    if not run.ended and rival is not None:
        _play_comparison(run, rival.bot, text)
    if mine.bundle is not None and run.scores:  # the files of a command line are not known
        _save_version(run, versions, rival, panel_names)
    if options.json:
        print_json(_document(run, rival, versions, text))
    else:
        _report(run, options.bot, rival, versions, text, verbose=options.verbose)
    raise_early_end(run.ended, f"{run.ended_at}; what there is so far is in {run.folder}")
    if not run.result.games:
        ctx.exit(NEGATIVE)


# ----- Versions


def _choose_rival(versions: Versions, mine: BotSpec, argument: str | None) -> _Rival | None:
    """Return the bot to compare with: the one of the argument, otherwise the best version so far.

    Return None if there is no other version, or if the best one is the same program as now.

    mine      the user's bot as it is now
    argument  value of --against-version
    """
    from deepsea_referee.bots.resolve import resolve

    if argument is not None:
        bot = show_hints(resolve(argument))
        return _Rival(bot.name, argument, bot, is_best=False)
    best = versions.best
    if best is None or best.run.digest == mine.digest:
        return None
    bot = resolve(best.argument)
    # The user's bot has the same name, so the number of the version tells them apart.
    bot_with_number = replace(bot, name=f"{best.run.bot}-{best.number}{bot.parameters}")
    return _Rival(f"version {best.number}", best.argument, bot_with_number, is_best=True)


def _save_version(
    run: _Run, versions: Versions, rival: _Rival | None, panel: Sequence[str]
) -> None:
    """Save the bot's program and the run's outcome in the run's folder, for later runs.

    panel  names of the bots that it played against
    """
    from deepsea_referee.workbench.versions import Run, keep_run

    mine = run.settings.bots[0]
    assert mine.bundle is not None
    saved_run = Run(
        bot=mine.name.removesuffix(mine.parameters),
        digest=mine.digest,
        parameters=mine.parameters,
        panel=list(panel),
        score=run.score,
        best=_best_number(run, rival, versions),
    )
    keep_run(run.folder, saved_run, mine.bundle.files)


def _best_number(run: _Run, rival: _Rival | None, versions: Versions) -> int:
    """Return the number of the best version after the run.

    The version of the run becomes the best one if there was none, or if it surely won against it.
    """
    best = versions.best
    has_won = run.comparison is not None and run.comparison.comparison.verdict == "A"
    if best is None or (has_won and rival is not None and rival.is_best):
        return run.number
    return best.number


# ----- The three parts


class _TimeIsOver(Exception):
    """The time of a part is over."""


def _start_time(minutes: float) -> Callable[[float], None]:
    """Start the time of a run, and return the function that checks it.

    The function takes a share of the whole time, and raises `_TimeIsOver` if that is over: with 0.5
    it does so from half of `minutes` on.
    """
    from deepsea_referee.clock import SystemClock

    clock = SystemClock()
    begin_us = clock.now_us()
    whole_us = minutes * 60_000_000

    def check_time(share: float) -> None:
        """Raise `_TimeIsOver` if this share of the time is over."""
        if clock.now_us() - begin_us > int(share * whole_us):
            raise _TimeIsOver

    return check_time


def _play_match(run: _Run, results: ResultsFolder) -> None:
    """Play the match until its time is over, and add the games to the run and its folder."""
    from deepsea_referee.shared_match import run_match_with_workers
    from deepsea_referee.summary import BotHangs, record_name

    def on_game(game: GameResult, record: GameRecord) -> object:
        """Add a game of the match to the results of the run; raises `_TimeIsOver` if it was late.

        Return a future for which the match waits if the disk is too slow for the records, or None.
        """
        run.result.add(game, record.decisions)
        seat_of_mine = game.seats.index(0)  # the user's bot is the first one of the match
        run.scores.append(placement_scores(game.placements)[seat_of_mine])
        run.records.append((str(run.folder / record_name(game.game)), record))
        progress.advance()
        pending_writing = results.add(game, record)
        run.check_time(run.match_share)
        return pending_writing

    def on_void(void: VoidGame) -> object:
        run.result.add_void(void)
        return results.add_void(void)

    with Progress(run.settings.games, printed=True) as progress, suppress(_TimeIsOver):
        workers, in_process = run.play.workers, run.play.in_process
        try:
            result = run_match_with_workers(
                run.settings, workers, on_game, on_void, in_process=in_process
            )
            run.ended = result.interrupted
        except BotHangs as error:
            result, run.ended = error.result, error
        # The run has its own sums, because there is no result if its time ended the match.
        run.result.logs, run.result.tables = result.logs, result.tables
        run.result.interrupted = result.interrupted
        run.ended_at = f"{run.result.games} of {run.settings.games} games"
    results.finish(run.result)


def _find_habits(run: _Run, versions: Versions) -> None:
    """Find the habits that cost the bot most in the match, and how they differ from before.

    They are compared with those in the games of the best version, if this is another program. The
    result goes into `run.habits`.
    """
    from deepsea_arena.weaknesses import find_weaknesses

    mine, best = run.settings.named[0], versions.best
    deviations = _deviations(run, run.records, mine.name, run.habits_share)
    deviations_before: list[list[Deviation]] = []
    if best is not None and best.run.digest != mine.digest and not run.ended:
        deviations_before = _deviations_of_version(run, best)
    run.habits = find_weaknesses(mine.name, deviations, deviations_before)


def _deviations_of_version(run: _Run, version: Version) -> list[list[Deviation]]:
    """Return the deviations of an earlier version from the policy, in the games of its own run.

    The result has a list for each game.
    """
    paths = sorted(version.folder.glob("game-*.json"))
    records = [(str(path), load_record(path)) for path in paths]
    names_of_version = {
        seat.name
        for _, record in records
        for seat in record.seats
        if seat.digest == version.run.digest
    }
    if not names_of_version:
        return []
    # Copies of the program in one game have names with numbers: the first copy is enough.
    return _deviations(run, records, min(names_of_version), run.habits_before_share)


def _deviations(
    run: _Run, records: Sequence[tuple[str, GameRecord]], name: str, share: float
) -> list[list[Deviation]]:
    """Return the decisions of a bot in which a simple strong policy acts otherwise, by game.

    records  games with their paths
    name     the bot's name in the records
    share    share of the whole time at which the search ends; later games are left out

    After Ctrl-C the run is marked as ended.
    """
    from deepsea_arena.analysis import Analysis, AnalysisSettings
    from deepsea_arena.weaknesses import games_of_bots

    settings = AnalysisSettings(run.effort, bot=name, deviations=True)
    analysis = Analysis(with_progress(records, "reading the records"), settings)
    with Progress(analysis.steps, "decisions", printed=True) as progress:

        def on_steps(steps: int) -> None:
            progress.advance(steps)
            run.check_time(share)

        try:
            analyses = analysis.run(workers=run.play.workers, on_steps=on_steps, enough=_TimeIsOver)
        except KeyboardInterrupt:
            analyses, analysis.interrupted = [], "before its first decision"
    if analysis.interrupted:
        run.ended = True
        run.ended_at = f"{run.result.games} games, while decisions were judged"
    for seat, games in games_of_bots(with_progress(analyses, "looking for habits")).items():
        if seat.name == name:
            return games
    return []


def _play_comparison(run: _Run, rival: BotSpec, text: str) -> None:
    """Play the bot against its rival until it is clear which is stronger, or the time is over.

    Games have as many seats as those of the match. The result goes into `run.comparison`.

    text  text of the seed
    """
    from deepsea_cli.verdict_report import comparison_note
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames

    match = run.settings
    play_settings = run.play.settings(text)
    play_settings["hosting"] = match.hosting
    settings = BlockSettings.of(
        match.bots[0],
        rival,
        seats=len(match.bots),
        blocks=BLOCKS,
        seed_text=text,
        until_decided=True,
        **play_settings,
    )
    games = CompareGames(settings)
    run.comparison = games
    with Progress(games.left, "blocks", printed=True) as progress, suppress(_TimeIsOver):

        def on_block(_played: PlayedBlock) -> None:
            progress.advance(note=comparison_note(games.comparison))
            run.check_time(1.0)

        run.ended = run.play.run(games.play, on_block)
        run.ended_at = count(games.comparison.blocks, "block")


# ----- Output


def _document(run: _Run, rival: _Rival | None, versions: Versions, text: str) -> dict[str, Any]:
    """Return the results of the run as the document that `--json` prints.

    text  text of the seed
    """
    from deepsea_arena.documents import to_object
    from deepsea_cli.verdict_report import comparison_document

    comparison = run.comparison
    return {
        "folder": str(run.folder),
        "seed": text,
        "version": run.number,
        "best": _best_number(run, rival, versions),
        "games": run.result.games,
        "bots": [asdict(row) for row in run.result.summaries()],
        "habits": None if run.habits is None else to_object(run.habits),
        "comparison": None if comparison is None else comparison_document(comparison),
    }


def _report(
    run: _Run, bot: str, rival: _Rival | None, versions: Versions, text: str, *, verbose: bool
) -> None:
    """Print the verdict, the result of the match, the habits and their changes.

    bot      argument of the command that names the bot, for commands to copy
    text     text of the seed
    verbose  True to print the tables of match and comparison and the whole report of habits, too
    """
    _print_verdict(run, bot, rival, versions)
    click.echo()
    _print_match_result(run, bot)
    if run.habits is not None:
        _print_habits(run, run.habits, bot)
        _print_changes(run.habits, versions)
    if verbose:
        _print_tables(run, text)


def _print_match_result(run: _Run, bot: str) -> None:
    """Print how the bot did against the panel, and its faults if it had any.

    bot  argument of the command that names the bot
    """
    from deepsea_cli.match_report import explain_faults

    names = [named_bot.name for named_bot in run.settings.named]
    summary_of_mine = run.result.summaries()[0]
    if run.scores:
        echo(
            f"against {', '.join(names[1:])}: placement score {run.score:.2f}, first in "
            f"{summary_of_mine.wins} of {count(run.result.games, 'game')}"
        )
    else:
        echo(f"all {count(run.result.voids.count, 'game')} were void: --verbose says why")
    if summary_of_mine.faults:
        explain_faults(run.result.faults, names)
        print_command("deepsea-referee", "check", bot)


def _print_verdict(run: _Run, bot: str, rival: _Rival | None, versions: Versions) -> None:
    """Print which of the bot and its rival is stronger, and what to do next.

    bot  argument of the command that names the bot
    """
    comparison, best = run.comparison, versions.best
    if comparison is None or rival is None or not comparison.comparison.blocks:
        if best is None:
            echo(f"version {run.number}: the first one; the next run compares a change with it")
        elif best.run.digest == run.settings.bots[0].digest:
            echo(f"version {run.number}, your best so far: the same program as before")
        else:
            echo(f"version {run.number} was not compared with version {best.number}, your best")
        return
    outcome = comparison.comparison
    match outcome.verdict:
        case "A" if rival.is_best:
            echo(f"stronger than {rival.name}: version {run.number} is your best now")
        case "A":
            echo(f"stronger than {rival.name}")
        case "B" if rival.is_best and best is not None:
            echo(f"weaker: your best is version {best.number}, {best.argument}")
        case "B":
            echo(f"weaker than {rival.name}")
        case "same":
            margin = f"{comparison.settings.margin:g}"
            echo(f"no difference larger than {margin} from {rival.words}")
        case None:
            echo(f"undecided against {rival.words}")
    low, high = outcome.placement.interval
    ours, theirs = (mean[0] for mean in outcome.means)  # the first mean is of placement scores
    echo(
        f"  its placement score is {abs(ours - theirs):.2f} "
        f"{'higher' if ours >= theirs else 'lower'} in {count(outcome.games, 'game')}, with 95 % "
        f"between {low:+.2f} and {high:+.2f} (1: first of the table, 0: last)"
    )
    if outcome.verdict == "B" and rival.is_best and best is not None:
        _print_restore_command(run.settings.bots[0], best.program, bot)
    elif outcome.verdict is None:
        echo("  to play on until it is decided:")
        print_command("deepsea-referee", "compare", bot, rival.argument, "--until-decided")


def _print_restore_command(bot: BotSpec, best_files: Path, argument: str) -> None:
    """Print the command that replaces the files of the author's bot by those of its best version.

    Nothing is printed for a bot that is neither a single file nor a folder.

    best_files  folder with the files of the best version
    argument    the bot as the author typed it: its path, and its parameters if it has some
    """
    from deepsea_bundle.program import SINGLE

    bot_path = argument.removesuffix(bot.parameters)
    if bot.single:
        copy_command = ["cp", str(best_files / SINGLE), bot_path]
    elif bot.source is not None and bot.source.is_dir():
        copy_command = ["cp", "-r", f"{best_files}/.", bot_path]
    else:
        return
    echo("  to go back to it:")
    print_command(*copy_command)


def _print_habits(run: _Run, habits: Weaknesses, bot: str) -> None:
    """Print the habits that cost most, each with the position that shows it most clearly.

    bot  argument of the command that names the bot
    """
    from deepsea_arena.weaknesses import phrase_of

    click.echo()
    worst_habits = habits.weaknesses[:HABITS]
    if not worst_habits:
        echo(
            f"no habit that surely costs it something, in {count(habits.games, 'game')}; more "
            "games show smaller ones: --games 400 --minutes 5, and many more with --in-process"
        )
        return
    echo("what costs it most, and what is better there:")
    clearest_positions: list[Deviation] = []
    for number, habit in enumerate(worst_habits, 1):
        times = f"in {habit.games} of {habits.games} games"
        phrase = phrase_of(habit, CONDITIONS)
        echo(f"{number}. {phrase}: {habit.lost:.2f} a game, {times}")
        if habit.clearest:  # no single position may show the habit for sure
            position = habit.clearest[0]
            clearest_positions.append(position)
            echo(
                f"   clearest: {Path(position.record).name}, decision {position.decision}: "
                f"{position.policy} instead of {position.played}"
            )
            _print_deciding_line(run, position)
    if clearest_positions:
        _print_next_commands(run, clearest_positions[0], bot)


def _print_deciding_line(run: _Run, position: Deviation) -> None:
    """Print the line of the bot's program that decided, if the games were played in this process.

    It is found by replaying the game to the bot in this process. A bot that played in a process or
    a sandbox of its own is never run here, and a slow bot would take too long: nothing is printed.
    """
    from deepsea_referee.bots.loading import load
    from deepsea_referee.workbench.replay import deciding_line

    if not run.play.in_process:
        return
    record = dict(run.records)[position.record]
    replayed_decisions = record.decisions[: position.decision + 1]
    bot_us = sum(item.us for item in replayed_decisions if item.seat == position.seat)
    if bot_us > REPLAY_LIMIT_US:
        return
    mine = run.settings.bots[0]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # the match has shown its output
        line = deciding_line(record, position.decision, load(mine), mine.own_code)
    if line is not None:
        click.echo(fit(f"   decided by {line.in_words()}", width()))


def _print_next_commands(run: _Run, position: Deviation, bot: str) -> None:
    """Print the commands that show a position, and try out the better action there."""
    from deepsea_cli.next_steps import print_look, print_try

    echo("to look at the first of these, and to try out what is better:")
    record = dict(run.records)[position.record]
    print_look(position.record, record, position.decision, bot)
    print_try(position.record, record, position.decision, position.policy)


def _print_changes(habits: Weaknesses, versions: Versions) -> None:
    """Print the habits that have surely become worse or better since the best version."""
    from deepsea_arena.weaknesses import WORTH

    if not habits.before or versions.best is None:
        return
    click.echo()
    since_version = f"since version {versions.best.number}"
    # A habit that cost next to nothing before and costs nothing now does not matter.
    changes = [change for change in habits.changes if max(change.now, change.before) > WORTH]
    if not changes:
        echo(f"{since_version}: no habit has surely changed")
    for change in changes[:CHANGES]:
        direction = "worse" if change.more > 0 else "better"
        # An estimate may be a little below zero, but no habit costs less than nothing.
        lost_now, lost_before = max(0.0, change.now), max(0.0, change.before)
        echo(
            f"{since_version} {direction}: {change.situation}: {lost_now:.2f} a game, "
            f"it was {lost_before:.2f}"
        )


def _print_tables(run: _Run, text: str) -> None:
    """Print the tables of match and comparison, and the whole report of habits.

    text  text of the seed
    """
    from deepsea_cli.analysis_report import print_weaknesses
    from deepsea_cli.match_report import report
    from deepsea_cli.verdict_report import report_comparison

    click.echo()
    report(run.result, text, run.folder, again=None)
    if run.habits is not None:
        print_weaknesses(run.habits, dict(run.records))
    if run.comparison is not None and run.comparison.comparison.blocks:
        click.echo()
        report_comparison(run.comparison)
