"""`deepsea-referee improve`: the loop of an author in one command.

A match against a panel, the worst decisions of its lost games, and a comparison with the last
version, all by what match, analyse and compare call; nothing more is computed here.

Invariants: --out belongs to one run at a time, which has a folder of its own there, with its
records and, in `bot`, the program that played; the next run compares with the newest one that
differs. When the time of a part is over, or at Ctrl-C, what is complete counts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from deepsea_cli.errors import NEGATIVE, EndedEarly, raise_early_end
from deepsea_cli.options import (
    GroupPlay,
    complete_bot,
    decimal_option,
    group_options,
    looked_at,
    number_option,
    path_option,
    precision_option,
    seed_text,
)
from deepsea_cli.output import count, echo, print_command, print_json
from deepsea_cli.progress import Progress
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_sdk.coach.decisions import Effort

if TYPE_CHECKING:
    from deepsea_arena.coach.analysis import GameAnalysis
    from deepsea_referee.bots.resolve import BotSpec
    from deepsea_referee.match import MatchSettings
    from deepsea_referee.results.folder import ResultsFolder
    from deepsea_referee.results.summary import GameResult, MatchResult, VoidGame
    from deepsea_referee.workbench.blocks import CompareGames, PlayedBlock

GAMES = 40
PANEL = "greedy,heuristic,steady"
JUDGED = 3
"""The lost games that are judged: a game takes some seconds of CPU time."""
BLOCKS = 200


class _Version(NamedTuple):
    """What the bot is compared with, and how it is named on the command line."""

    text: str
    bot: BotSpec


@dataclass(slots=True)
class _Run:
    settings: MatchSettings
    folder: Path
    play: GroupPlay
    part_us: int
    """The time of the match, of the judgement and of the comparison, each a third of the whole."""
    effort: Effort
    result: MatchResult
    lost: list[tuple[GameResult, GameRecord]] = field(default_factory=list)
    """Games that the bot did not win, the worst first."""
    analyses: list[GameAnalysis] = field(default_factory=list)
    comparison: CompareGames | None = None
    ended: EndedEarly = False
    ended_at: str = ""
    """The part that was complete at an early end, in words."""


@click.command("improve")
@click.argument("bot", metavar="MINE", shell_complete=complete_bot)
@click.option(
    "--against",
    metavar="A,B,...",
    default=PANEL,
    show_default=True,
    shell_complete=complete_bot,
    help="The panel: one to five bots to play against.",
)
@click.option(
    "--against-version",
    metavar="BOT",
    shell_complete=complete_bot,
    help="The version to compare with.  [default: that of the last run in DIR]",
)
@number_option("--games", default=GAMES, help="Most games of the match.")
@decimal_option("--minutes", over=True, default=3.0, help="About how long it takes at most.")
@precision_option
@path_option(
    "--out", metavar="DIR", help="Folder of all runs of this bot.  [default: runs/improve-MINE]"
)
@group_options("deals")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    bot: str,
    against: str,
    against_version: str | None,
    games: int,
    minutes: float,
    precision: float,
    out: Path | None,
    play: GroupPlay,
    as_json: bool,
) -> None:
    """Show what MINE does worst, and whether it is stronger than before.

    It plays a match against the panel, judges its decisions in the worst lost games, and compares
    it with its last version. Records and the program are kept in DIR, for the next time.

    Exit status: 0 done, whatever the verdict; 1 every game was void.
    """
    from deepsea_bundle.folder import write_folder
    from deepsea_referee.bots.resolve import resolve, split_list
    from deepsea_referee.match import MatchSettings
    from deepsea_referee.results.folder import FolderWriter, ResultsFolder

    mine = looked_at(resolve(bot))
    text = seed_text(play.seed)
    settings = MatchSettings(
        bots=[mine, *(looked_at(resolve(name)) for name in split_list(against))],
        games=games,
        tables=None,
        **play.settings(text),
    )
    place = out or Path("runs") / f"improve-{_plain_name(mine)}"
    version = _last_version(place, mine)
    if against_version:
        version = _Version(against_version, looked_at(resolve(against_version)))
    where = "in-process" if play.in_process else settings.hosting.isolation_text
    ctx.with_resource(FolderWriter(place))
    run = _Run(
        settings=settings,
        folder=place / str(max(_runs(place), default=0) + 1),
        play=play,
        part_us=int(minutes * 20_000_000),
        effort=Effort.to(precision),
        result=settings.result(where),
    )
    with ResultsFolder(run.folder) as results:
        panel = ", ".join(one.name for one in settings.named[1:])
        click.echo(
            f"about {minutes:g} minutes at most: up to {count(games, 'game')} against {panel}, "
            f"then its {JUDGED} worst lost games, then its last version",
            err=True,
        )
        _play(run, results)
    if mine.bundle is not None and run.result.games:  # those of a command line are not known
        write_folder(mine.bundle.files, run.folder / "bot")
        (run.folder / "parameters").write_text(mine.parameters, encoding="utf-8")
    if not run.ended:
        _judge(run)
    if not run.ended and version is not None:
        _compare(run, version.bot, text)
    if as_json:
        print_json(_document(run, text))
    else:
        _report(run, bot, version, text)
    raise_early_end(run.ended, f"{run.ended_at}; what there is so far is in {run.folder}")
    if not run.result.games:
        ctx.exit(NEGATIVE)


# Versions


def _runs(place: Path) -> list[int]:
    return [int(path.name) for path in place.glob("*") if path.name.isdecimal()]


def _last_version(place: Path, mine: BotSpec) -> _Version | None:
    """The newest other program that a run has kept."""
    from deepsea_referee.bots.resolve import resolve

    for number in sorted(_runs(place), reverse=True):
        folder = place / str(number)
        with suppress(FileNotFoundError):
            parameters = (folder / "parameters").read_text(encoding="utf-8")
            text = f"{folder / 'bot'}{parameters}"
            bot = resolve(text)
            if bot.digest != mine.digest:
                name = f"{_plain_name(mine)}-{number}{parameters}"
                return _Version(text, replace(bot, name=name))
    return None


def _plain_name(bot: BotSpec) -> str:
    """Without parameters."""
    return bot.name.removesuffix(bot.parameters)


# The three parts


class _Enough(Exception):
    """The time of a part is over."""


def _limit(run: _Run) -> Callable[[], None]:
    """What raises `_Enough` once a part that begins now has had its time."""
    from deepsea_referee.timing.clock import SystemClock

    clock = SystemClock()
    end_us = clock.now_us() + run.part_us

    def refuse_more() -> None:
        if clock.now_us() > end_us:
            raise _Enough

    return refuse_more


def _play(run: _Run, results: ResultsFolder) -> None:
    """The match; the games that it lost are put in order."""
    from deepsea_referee.results.summary import BotHangs
    from deepsea_referee.shared_match import run_match

    refuse_more = _limit(run)

    def on_game(game: GameResult, record: GameRecord) -> object:
        run.result.add(game, record.decisions)
        if game.placements[game.seats.index(0)] > 1:
            run.lost.append((game, record))
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
    run.lost.sort(key=lambda one: _badness(one[0]), reverse=True)


def _badness(game: GameResult) -> tuple[int, int]:
    seat = game.seats.index(0)
    return game.placements[seat], max(game.points) - game.points[seat]


def _judge(run: _Run) -> None:
    """The decisions of the bot in the worst lost games, as `analyse --seat` judges them."""
    from deepsea_arena.coach.analysis import Analysis, AnalysisSettings
    from deepsea_referee.results.summary import record_name

    refuse_more = _limit(run)
    chosen = run.lost[:JUDGED]
    with Progress(len(chosen), "lost games", printed=True) as progress, suppress(_Enough):
        for game, record in chosen:
            settings = AnalysisSettings(run.effort, seat=game.seats.index(0))
            name = str(run.folder / record_name(game.game))
            analysis = Analysis([(name, record)], settings)
            try:
                run.analyses += analysis.run(workers=run.play.workers)
            except KeyboardInterrupt:
                analysis.interrupted = "before its first decision"
            if analysis.interrupted:
                run.ended, run.ended_at = True, f"{run.result.games} games, while {name} was judged"
                return
            progress.advance()
            refuse_more()


def _compare(run: _Run, version: BotSpec, text: str) -> None:
    """The comparison with another version, at a table of as many seats."""
    from deepsea_cli.verdict_report import comparison_note
    from deepsea_referee.workbench.blocks import BlockSettings, CompareGames

    match = run.settings
    settings = BlockSettings.of(
        match.bots[0],
        version,
        seats=len(match.bots),
        blocks=BLOCKS,
        seed_text=text,
        until_decided=True,
        **run.play.settings(text) | {"hosting": match.hosting},
    )
    games = run.comparison = CompareGames(settings)
    refuse_more = _limit(run)

    def on_block(_played: PlayedBlock) -> None:
        progress.advance(note=comparison_note(games.comparison))
        refuse_more()

    with Progress(games.left, "blocks", printed=True) as progress, suppress(_Enough):
        run.ended = run.play.run(games.play, on_block)
        run.ended_at = count(games.comparison.blocks, "block")


# Output


def _document(run: _Run, text: str) -> dict[str, Any]:
    from deepsea_arena.coach.analysis import AnalysisSettings
    from deepsea_arena.coach.document import document
    from deepsea_cli.verdict_report import comparison_document

    comparison = run.comparison
    judged = document(run.analyses, AnalysisSettings(run.effort))
    return {
        "folder": str(run.folder),
        "seed": text,
        "games": run.result.games,
        "lost": len(run.lost),
        "bots": [asdict(row) for row in run.result.summaries()],
        "judged": judged["games"],
        "comparison": None if comparison is None else comparison_document(comparison),
    }


def _report(run: _Run, bot: str, version: _Version | None, text: str) -> None:
    from deepsea_cli.analysis_report import print_worst
    from deepsea_cli.match_report import report
    from deepsea_cli.verdict_report import report_comparison

    report(run.result, text, run.folder, again=None)
    worst = None
    if run.result.games:
        click.echo()
        echo(f"{count(len(run.analyses), 'game')} judged of {len(run.lost)} that it did not win")
        worst = print_worst(run.analyses)
    click.echo()
    if run.comparison is not None and run.comparison.comparison.blocks:
        report_comparison(run.comparison)
    elif version is None:
        echo("no other version to compare with: after a change the next run compares with this one")
    click.echo()
    echo("what to do next:")
    if run.result.summaries()[0].faults:
        print_command("deepsea-referee", "check", bot)
    if worst is not None:
        seat = SEAT_LETTERS[worst.decisions[0].seat]
        print_command("deepsea-referee", "debug", worst.name, bot, "--seat", seat)
    else:
        print_command("deepsea-referee", "analyse", str(run.folder))
    if run.comparison is not None and run.comparison.comparison.verdict is None and version:
        print_command("deepsea-referee", "compare", bot, version.text, "--until-decided")
    echo(f"change {bot}, and run the same command again")
