"""`deepsea-referee improve`: the loop of an author in one command.

A match against a panel, the habits that cost most in it, and a comparison with the best version so
far, all by what match, analyse and compare call; nothing more is computed here.

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
    looked_at,
    option,
    path_option,
    precision_option,
    seed_option,
    seed_text,
    shared,
    whole_number,
    with_options,
)
from deepsea_cli.output import Progress, count, counted, echo, fit, print_command, print_json, width
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
    from deepsea_referee.workbench.versions import Versions

GAMES = 100
BLOCKS = 500
PRECISION = 0.06
"""Twice the usual one: games differ by far more than decisions are known to."""
HABITS = 3
"""The habits that are shown."""
CONDITIONS = 2
"""The most conditions that are named of a habit."""
REPEATED_US = 1_000_000
"""The most time that a bot has taken in a game up to a decision for it to be asked once more."""
CHANGES = 2
"""The changed habits that are named."""
PARTS = (0.25, 0.45, 0.6)
"""The parts of the whole time by which the match and the two searches for habits are over,"""
ALONE = (0.4, 1.0, 1.0)
"""and where there is nothing to compare with."""


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
    """The bot of the comparison."""

    name: str
    argument: str
    bot: BotSpec
    is_best: bool
    """Whether it is the best version so far."""

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return f"{self.name}, your best" if self.is_best else self.name


@dataclass(slots=True)
class _Run:
    number: int
    """That of the version: of the first run with the same program."""
    settings: MatchSettings
    folder: Path
    play: GroupPlay
    limit: Callable[[float], Callable[..., None]]
    """By a part of the whole time, a function that raises `_Enough` when it is over."""
    effort: Effort
    result: MatchResult
    parts: tuple[float, float, float]
    scores: list[float] = field(default_factory=list)
    """The placement score of the bot in each game."""
    records: list[tuple[str, GameRecord]] = field(default_factory=list)
    """Those of the match, with their paths."""
    habits: Weaknesses | None = None
    comparison: CompareGames | None = None
    ended: EndedEarly = False
    ended_at: str = ""
    """The part that was complete at an early end, in words."""

    @property
    def score(self) -> float:
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

    mine = looked_at(resolve(options.bot))
    name = mine.name.removesuffix(mine.parameters)
    place = options.out or Path("runs") / f"improve-{name}"
    versions = Versions(place, name)
    rival = _rival(versions, mine, options.against_version)
    if options.against is None:
        panel, names = [sample(one) for one in versions.panel], [*versions.panel]
    else:
        names = split_list(options.against)
        panel = [looked_at(resolve(one)) for one in names]
    text = seed_text(options.play.seed)
    settings = MatchSettings(
        bots=[mine, *panel], games=options.games, tables=None, **options.play.settings(text)
    )
    where = "in-process" if options.play.in_process else settings.hosting.isolation_text
    ctx = click.get_current_context()
    ctx.with_resource(FolderWriter(place))
    run = _Run(
        number=versions.number_of(mine.digest),
        settings=settings,
        folder=place / str(versions.next_number),
        play=options.play,
        limit=_limits(options.minutes),
        effort=Effort.to(options.precision),
        result=settings.result(where),
        parts=ALONE if rival is None else PARTS,
    )
    kept = replace(mine, source=(run.folder / PROGRAM).absolute())
    with ResultsFolder(run.folder, [kept if mine.bundle else mine, *panel]) as results:
        opponents = ", ".join(one.name for one in settings.named[1:])
        then = f", then up to {2 * BLOCKS} against {rival.words}" if rival else ""
        click.echo(
            f"about {60 * options.minutes:g} s at most: up to {count(options.games, 'game')} "
            f"against {opponents}{then}",
            err=True,
        )
        _play(run, results)
    if not run.ended:
        _find_habits(run, versions)
    if not run.ended and rival is not None:
        _compare(run, rival.bot, text)
    if mine.bundle is not None and run.scores:  # the files of a command line are not known
        _keep(run, versions, rival, names)
    if options.json:
        print_json(_document(run, rival, versions, text))
    else:
        _report(run, options.bot, rival, versions, text, verbose=options.verbose)
    raise_early_end(run.ended, f"{run.ended_at}; what there is so far is in {run.folder}")
    if not run.result.games:
        ctx.exit(NEGATIVE)


# Versions


def _rival(versions: Versions, mine: BotSpec, argument: str | None) -> _Rival | None:
    """The bot that was named, else the best version; None if that is the same program."""
    from deepsea_referee.bots.resolve import resolve

    if argument is not None:
        bot = looked_at(resolve(argument))
        return _Rival(bot.name, argument, bot, is_best=False)
    best = versions.best
    if best is None or best.run.digest == mine.digest:
        return None
    bot = resolve(best.argument)
    named = replace(bot, name=f"{best.run.bot}-{best.number}{bot.parameters}")
    return _Rival(f"version {best.number}", best.argument, named, is_best=True)


def _keep(run: _Run, versions: Versions, rival: _Rival | None, panel: Sequence[str]) -> None:
    """Keep the program that played, and which version is the best one now."""
    from deepsea_referee.workbench.versions import Run, keep_run

    mine = run.settings.bots[0]
    assert mine.bundle is not None
    kept = Run(
        bot=mine.name.removesuffix(mine.parameters),
        digest=mine.digest,
        parameters=mine.parameters,
        panel=[*panel],
        score=run.score,
        best=_best_number(run, rival, versions),
    )
    keep_run(run.folder, kept, mine.bundle.files)


def _best_number(run: _Run, rival: _Rival | None, versions: Versions) -> int:
    """The number of the best version after the run: another one only if it surely won."""
    best = versions.best
    won = run.comparison is not None and run.comparison.comparison.verdict == "A"
    if best is None or (won and rival is not None and rival.is_best):
        return run.number
    return best.number


# The three parts


class _Enough(Exception):
    """The time of a part is over."""


def _limits(minutes: float) -> Callable[[float], Callable[..., None]]:
    """The limits of the parts of a run that begins now."""
    from deepsea_referee.clock import SystemClock

    clock = SystemClock()
    begin_us = clock.now_us()

    def limit(share: float) -> Callable[..., None]:
        end_us = begin_us + int(share * minutes * 60_000_000)

        def refuse_more(*_: object) -> None:
            if clock.now_us() > end_us:
                raise _Enough

        return refuse_more

    return limit


def _play(run: _Run, results: ResultsFolder) -> None:
    """The match."""
    from deepsea_referee.shared_match import run_match
    from deepsea_referee.summary import BotHangs, record_name

    refuse_more = run.limit(run.parts[0])

    def on_game(game: GameResult, record: GameRecord) -> object:
        run.result.add(game, record.decisions)
        run.scores.append(placement_scores(game.placements)[game.seats.index(0)])
        run.records.append((str(run.folder / record_name(game.game)), record))
        progress.advance()
        writing = results.add(game, record)
        refuse_more()
        return writing

    def on_void(void: VoidGame) -> object:
        run.result.add_void(void)
        return results.add_void(void)

    with Progress(run.settings.games, printed=True) as progress, suppress(_Enough):
        workers, in_process = run.play.workers, run.play.in_process
        try:
            played = run_match(run.settings, workers, on_game, on_void, in_process=in_process)
            run.ended = played.interrupted
        except BotHangs as error:
            played, run.ended = error.result, error
        run.result.logs, run.result.tables = played.logs, played.tables
        run.result.interrupted = played.interrupted
        run.ended_at = f"{run.result.games} of {run.settings.games} games"
    results.finish(run.result)


def _find_habits(run: _Run, versions: Versions) -> None:
    """The habits that cost it most, and what has changed in them since the best version."""
    from deepsea_arena.weaknesses import find_weaknesses

    mine, best = run.settings.named[0], versions.best
    now = _deviations(run, run.records, mine.name, run.parts[1])
    before: list[list[Deviation]] = []
    if best is not None and best.run.digest != mine.digest and not run.ended:
        paths = sorted(best.folder.glob("game-*.json"))
        records = [(str(path), load_record(path)) for path in paths]
        seats = (seat for _, record in records for seat in record.seats)
        if names := {seat.name for seat in seats if seat.digest == best.run.digest}:
            before = _deviations(run, records, min(names), run.parts[2])
    run.habits = find_weaknesses(mine.name, now, before)


def _deviations(
    run: _Run, records: Sequence[tuple[str, GameRecord]], name: str, share: float
) -> list[list[Deviation]]:
    """What a bot of this name did in each game otherwise than the policy, as far as time allows."""
    from deepsea_arena.analysis import Analysis, AnalysisSettings
    from deepsea_arena.weaknesses import games_of_bots

    settings = AnalysisSettings(run.effort, bot=name, deviations=True)
    analysis = Analysis(counted(records, "reading the records"), settings)
    refuse_more = run.limit(share)
    with Progress(analysis.steps, "decisions", printed=True) as progress:

        def on_steps(steps: int) -> None:
            progress.advance(steps)
            refuse_more()

        try:
            analyses = analysis.run(workers=run.play.workers, on_steps=on_steps, enough=_Enough)
        except KeyboardInterrupt:
            analyses, analysis.interrupted = [], "before its first decision"
    if analysis.interrupted:
        run.ended = True
        run.ended_at = f"{run.result.games} games, while decisions were judged"
    bots = games_of_bots(counted(analyses, "looking for habits")).items()
    return next((games for seat, games in bots if seat.name == name), [])


def _compare(run: _Run, rival: BotSpec, text: str) -> None:
    """The comparison, at a table of as many seats."""
    from deepsea_cli.verdict_report import comparison_note
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames

    match = run.settings
    settings = BlockSettings.of(
        match.bots[0],
        rival,
        seats=len(match.bots),
        blocks=BLOCKS,
        seed_text=text,
        until_decided=True,
        **run.play.settings(text) | {"hosting": match.hosting},
    )
    games = run.comparison = CompareGames(settings)
    refuse_more = run.limit(1.0)

    def on_block(_played: PlayedBlock) -> None:
        progress.advance(note=comparison_note(games.comparison))
        refuse_more()

    with Progress(games.left, "blocks", printed=True) as progress, suppress(_Enough):
        run.ended = run.play.run(games.play, on_block)
        run.ended_at = count(games.comparison.blocks, "block")


# Output


def _document(run: _Run, rival: _Rival | None, versions: Versions, text: str) -> dict[str, Any]:
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
    from deepsea_cli.match_report import explain_faults

    _print_verdict(run, bot, rival, versions)
    click.echo()
    if not run.scores:
        echo(f"all {count(run.result.voids.count, 'game')} were void: --verbose says why")
    else:
        opponents = ", ".join(row.name for row in run.settings.named[1:])
        echo(
            f"against {opponents}: placement score {run.score:.2f}, first in "
            f"{run.result.summaries()[0].wins} of {count(run.result.games, 'game')}"
        )
    if run.result.summaries()[0].faults:
        explain_faults(run.result.faults, [row.name for row in run.settings.named])
        print_command("deepsea-referee", "check", bot)
    if run.habits is not None:
        _print_habits(run, run.habits, bot)
        _print_changes(run.habits, versions)
    if verbose:
        _print_all(run, text)


def _print_verdict(run: _Run, bot: str, rival: _Rival | None, versions: Versions) -> None:
    comparison, best = run.comparison, versions.best
    if comparison is None or rival is None or not comparison.comparison.blocks:
        if best is None:
            echo(f"version {run.number}: the first one; the next run compares a change with it")
        elif best.run.digest == run.settings.bots[0].digest:
            echo(f"version {run.number}, your best so far: the same program as before")
        else:
            echo(f"version {run.number} was not compared with version {best.number}, your best")
        return
    found = comparison.comparison
    match found.verdict:
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
    low, high = found.placement.interval
    ours, theirs = (mean[0] for mean in found.means)
    echo(
        f"  its placement score is {abs(ours - theirs):.2f} "
        f"{'higher' if ours >= theirs else 'lower'} in {count(found.games, 'game')}, with 95 % "
        f"between {low:+.2f} and {high:+.2f} (1: first of the table, 0: last)"
    )
    if found.verdict == "B" and rival.is_best and best is not None:
        _print_way_back(run.settings.bots[0], best.program, bot)
    elif found.verdict is None:
        echo("  to play on until it is decided:")
        print_command("deepsea-referee", "compare", bot, rival.argument, "--until-decided")


def _print_way_back(mine: BotSpec, program: Path, bot: str) -> None:
    """The command that brings the best version's files back."""
    from deepsea_bundle.program import SINGLE

    place = bot.removesuffix(mine.parameters)
    if mine.single:
        echo("  to go back to it:")
        print_command("cp", str(program / SINGLE), place)
    elif mine.source is not None and mine.source.is_dir():
        echo("  to go back to it:")
        print_command("cp", "-r", f"{program}/.", place)


def _print_habits(run: _Run, habits: Weaknesses, bot: str) -> None:
    from deepsea_arena.weaknesses import phrase_of

    click.echo()
    shown = habits.weaknesses[:HABITS]
    if not shown:
        echo(
            f"no habit that surely costs it something, in {count(habits.games, 'game')}; more "
            "games show smaller ones: --games 400 --minutes 5, and many more with --in-process"
        )
        return
    echo("what costs it most, and what is better there:")
    for number, habit in enumerate(shown, 1):
        times = f"in {habit.games} of {habits.games} games"
        phrase = phrase_of(habit, CONDITIONS)
        echo(f"{number}. {phrase}: {habit.lost:.2f} a game, {times}")
        for position in habit.clearest[:1]:
            echo(
                f"   clearest: {Path(position.record).name}, decision {position.decision}: "
                f"{position.policy} instead of {position.played}"
            )
            _print_line(run, position)
    clearest = [position for habit in shown for position in habit.clearest[:1]]
    if clearest:
        _print_next(run, clearest[0], bot)


def _print_line(run: _Run, position: Deviation) -> None:
    """The line of the bot's program that decided, where the bot runs in this process anyway.

    A bot in a process or the sandbox is not run here unasked: its author does that by the command
    `debug`, which names the line, too.
    """
    from deepsea_referee.bots.loading import load
    from deepsea_referee.workbench.replay import deciding_line

    record = dict(run.records)[position.record]
    so_far = record.decisions[: position.decision + 1]
    us = sum(decision.us for decision in so_far if decision.seat == position.seat)
    if not run.play.in_process or us > REPEATED_US:
        return
    mine = run.settings.bots[0]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # it has printed that before
        line = deciding_line(record, position.decision, load(mine), mine.home)
    if line is not None:
        click.echo(fit(f"   decided by {line.in_words()}", width()))


def _print_next(run: _Run, position: Deviation, bot: str) -> None:
    """The commands that show a position, and try out what is better there."""
    from deepsea_cli.next_steps import print_look, print_try

    echo("to look at the first of these, and to try out what is better:")
    at = (position.record, dict(run.records)[position.record], position.decision)
    print_look(*at, bot)
    print_try(*at, position.policy)


def _print_changes(habits: Weaknesses, versions: Versions) -> None:
    from deepsea_arena.weaknesses import WORTH

    if not habits.before or versions.best is None:
        return
    click.echo()
    since = f"since version {versions.best.number}"
    # Where it is ahead of the policy before and now, nothing is lost.
    changes = [change for change in habits.changes if max(change.now, change.before) > WORTH]
    if not changes:
        echo(f"{since}: no habit has surely changed")
    for change in changes[:CHANGES]:
        word = "worse" if change.more > 0 else "better"
        now, before = max(0.0, change.now), max(0.0, change.before)
        echo(f"{since} {word}: {change.situation}: {now:.2f} a game, it was {before:.2f}")


def _print_all(run: _Run, text: str) -> None:
    """The tables of match and comparison, and the whole report."""
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
