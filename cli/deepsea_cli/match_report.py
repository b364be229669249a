"""Output of the results of a match.

Invariant: the numbers are `MatchResult`'s, nothing is computed here.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from deepsea_cli.output import (
    Column,
    count,
    echo,
    echo_lines,
    grid,
    number,
    print_command,
    shared_wins,
)
from deepsea_referee.bots.output import log_name
from deepsea_referee.pauses import UNFAIR_SHARE
from deepsea_referee.summary import (
    EXPLAINED,
    BotSummary,
    FaultGroups,
    GameResult,
    MatchResult,
    record_name,
)
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.time_control import duration_text

OUTPUT_LINES = 20
"""Largest number of lines of a bot's output that are shown with a fault."""
SHORT_SEED = 24
"""Number of characters up to which a seed stands in the line of facts; a longer one comes last."""


def report(result: MatchResult, seed: str, out: Path | None, again: Sequence[str] | None) -> None:
    """Print the table of results, the faults and void games, and where the records are.

    seed   the text that repeats the match
    out    folder of the records, or None if none are written
    again  arguments of the command that repeats the match, without seed and folder; None if it
           is not to be printed
    """
    echo(facts(result, seed))
    click.echo()
    grid(*_columns(result.ranked()))
    click.echo()
    if result.games_asked == 1 and result.first_game:
        echo(_winner_line(result, result.first_game))
    else:
        _echo_if_any(shared_wins([bot.wins for bot in result.summaries()], result.games))
    _echo_if_any(too_busy(result.late_share, "play with fewer workers"))
    explain_faults(result.faults, [bot.name for bot in result.bots])
    if out is None:
        _print_outputs(result)
    _print_voids(result)
    _print_where(result, seed, out, again)


def _echo_if_any(note: str) -> None:
    if note:
        echo(note)


def too_busy(late_share: float, remedy: str) -> str:
    """Return a note if this machine was too busy to time bots fairly, otherwise "".

    late_share  share of the time for which the referee itself was late
    remedy      what to do against it, besides ending other programs
    """
    if late_share <= UNFAIR_SHARE:
        return ""
    return (
        "this machine was too busy to be fair: the referee was late for "
        f"{100 * late_share:.0f} % of the time, and the wall clock runs on for bots too; "
        f"end other programs, or {remedy}"
    )


def facts(result: MatchResult, seed: str) -> str:
    """Return a line with the number of games, and how they were played.

    seed  text of the seed; it is left out if it is long
    """
    tables = f", up to {result.tables} tables" if result.tables > 1 else ""
    short_seed = f", seed {shlex.quote(seed)}" if len(seed) <= SHORT_SEED else ""
    return (
        f"{count(result.games, 'game')}, {result.rules.name} rules, "
        f"clock {result.time_control.format()}, {result.isolation}{tables}{short_seed}"
    )


def _columns(ranked: Sequence[BotSummary]) -> list[Column]:
    """Return the columns of the table of results, with a row for each bot, the best first.

    The last two are on the times of a bot's decisions. Where the terminal is too narrow, the column
    with the highest `spare` is left out first.
    """
    return [
        Column("bot", [bot.name for bot in ranked], text=True),
        Column("games", [str(bot.games) for bot in ranked], spare=2),
        Column("wins", [str(bot.wins) for bot in ranked], spare=1),
        Column("placement", [number(bot.mean_placement, 2) for bot in ranked]),
        Column("points", [number(bot.mean_points, 1) for bot in ranked]),
        Column("faults", [str(bot.faults) for bot in ranked]),
        Column("median", [_time_text(bot.median_us) for bot in ranked], spare=3),
        Column("slowest", [_time_text(bot.slowest_us) for bot in ranked], spare=4),
    ]


def _time_text(us: int | None) -> str:
    return "-" if us is None else duration_text(us)


def _winner_line(result: MatchResult, game: GameResult) -> str:
    """Return the sentence that names the winners of a game and their points.

    Seats with as many points that lost by the tie-break are named, too.
    """

    def names_of(seats: Sequence[int]) -> str:
        names = [
            f"{result.bots[game.seats[seat]].name} (seat {SEAT_LETTERS[seat]})" for seat in seats
        ]
        return " and ".join(names)

    winners = [seat for seat, placement in enumerate(game.placements) if placement == 1]
    points_of_winners = game.points[winners[0]]
    seats_with_as_many = [
        seat for seat, points in enumerate(game.points) if points == points_of_winners
    ]
    lost_tie_break = [seat for seat in seats_with_as_many if seat not in winners]
    verb = "wins" if len(winners) == 1 else "share the first place"
    sentence = f"{names_of(winners)} {verb} with {count(points_of_winners, 'point')}"
    if lost_tie_break:
        sentence += f", ahead of {names_of(lost_tie_break)} by the tie-break"
    return sentence


def _print_voids(result: MatchResult) -> None:
    """Print the number of void games, and the reasons of those that the result has kept."""
    voids = list(result.voids)
    if voids:
        echo(f"{count(result.voids.count, 'void game')}:")
    for void in voids:
        echo(f"  game {void.game}: {void.reason}")
    not_listed = result.voids.count - len(voids)
    if not_listed > 0:
        echo(f"  and {not_listed} more")


def explain_faults(faults: FaultGroups, names: Sequence[str]) -> None:
    """Print the faults of bots in groups, each with the error that the bot's own code raised.

    Only the first groups are printed, and the number of the others.

    names  names of the bots, by their index
    """
    groups = list(faults)
    if not groups:
        return
    echo(f"{count(faults.count, 'fault')}:")
    for group in groups[:EXPLAINED]:
        echo(f"  {group.line(names[group.bot])}")
        echo_lines(group.first.error, "    ")
    if len(groups) > EXPLAINED:
        echo(f"  and {len(groups) - EXPLAINED} other kinds")


def _print_outputs(result: MatchResult) -> None:
    """Print the last lines of output of each bot whose output was kept.

    stderr is left out for bots whose error was printed with a fault: it has the same traceback.
    """
    bots_with_error = {group.bot for group in result.faults if group.first.error}
    last_log_of_bot = {log.bot: log for log in result.logs if log.text}
    for bot, log in last_log_of_bot.items():
        text = log.stdout if bot in bots_with_error else log.text
        if text:
            echo(f"the last output of {result.bots[bot].name} (--show-output has all of it):")
            last_lines = text.splitlines()[-OUTPUT_LINES:]
            echo_lines("\n".join(last_lines), "    ")


def _print_where(
    result: MatchResult, seed: str, out: Path | None, again: Sequence[str] | None
) -> None:
    """Print where the records and outputs are, or how to repeat the match and keep them.

    seed   the text that repeats the match
    out    folder of the records, or None if none are written
    again  arguments of the command that repeats the match, or None if it is not to be printed
    """
    if out is None and again is not None:
        _print_repeating_command(result, seed, again)
        return
    if out is not None and result.first_game:
        record_path = out / record_name(result.first_game.game)
        echo(f"records and results.json: {out}; to watch a game:")
        print_command("deepsea-referee", "show", str(record_path))
        _print_fault_command(result, out)
    if len(seed) > SHORT_SEED:  # a short one is printed above the table
        echo(f"seed: {shlex.quote(seed)}")
    if out is not None:
        _print_output_files(result, out)


def _print_repeating_command(result: MatchResult, seed: str, again: Sequence[str]) -> None:
    """Print the command that plays the same games again and keeps their records."""
    command = ["deepsea-referee", "match", *again, "--seed", seed]
    if result.games_asked > 1:
        command += ["--games", str(result.games_asked)]
    command += ["--out", "DIR"]
    echo("no records kept; to play the same games again and keep them:")
    print_command(*command)


def _print_output_files(result: MatchResult, out: Path) -> None:
    """Print the paths of the files with the output of bots, in the folder of the records."""
    for log in result.logs[:EXPLAINED]:
        if log.in_file:
            name = result.bots[log.bot].name
            echo(f"output of {name}: {out / log_name(log.bot, log.start, log.worker)}")
    if len(result.logs) > EXPLAINED:
        echo(f"and {len(result.logs) - EXPLAINED} other outputs there")


def _print_fault_command(result: MatchResult, out: Path) -> None:
    """Print the command that shows the game of the first fault as the seat at fault knew it.

    Nothing is printed if no fault was in a decision.

    out  folder of the records
    """
    for group in result.faults:
        fault = group.first
        if fault.when == "decision":
            echo(f"to see what led to the fault in game {group.game}:")
            record_path = str(out / record_name(group.game))
            letter = SEAT_LETTERS[fault.seat]
            print_command("deepsea-referee", "show", record_path, "--seat", letter)
            return
