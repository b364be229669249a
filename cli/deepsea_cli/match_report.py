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
    FaultKinds,
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
    """Print the table, faults, void games and where the records are.

    seed   the text that repeats the match
    out    folder of the records, or None if none are written
    again  arguments of the command that repeats the match, without seed and folder; None if it
           is not to be printed
    """
    echo(facts(result, seed))
    click.echo()
    rows = result.summaries()
    grid(*_columns(result.ranked()))
    click.echo()
    if result.games_asked == 1 and result.first_game:
        echo(_winner_line(result, result.first_game))
    elif line := shared_wins([row.wins for row in rows], result.games):
        echo(line)
    if note := too_busy(result.late_share, "play with fewer workers"):
        echo(note)
    explain_faults(result.faults, [bot.name for bot in result.bots])
    if out is None:
        _print_outputs(result)
    _print_voids(result)
    _print_where(result, seed, out, again)


def too_busy(late_share: float, remedy: str) -> str:
    """Return a note if this machine was too busy to time bots by the wall clock, otherwise "".

    late_share  share of the time for which the referee was late
    """
    if late_share <= UNFAIR_SHARE:
        return ""
    return (
        "this machine was too busy to be fair: the referee was late for "
        f"{100 * late_share:.0f} % of the time, and the wall clock runs on for bots too; "
        f"end other programs, or {remedy}"
    )


def facts(result: MatchResult, seed: str) -> str:
    """Return games, rules, clock, isolation, tables and seed in one line."""
    tables = f", up to {result.tables} tables" if result.tables > 1 else ""
    suffix = f", seed {shlex.quote(seed)}" if len(seed) <= SHORT_SEED else ""
    return (
        f"{count(result.games, 'game')}, {result.rules.name} rules, "
        f"clock {result.time_control.format()}, {result.isolation}{tables}{suffix}"
    )


def _columns(ranked: Sequence[BotSummary]) -> list[Column]:
    """Return the columns of the table of results; times are those of a bot's decisions."""
    return [
        Column("bot", [row.name for row in ranked], text=True),
        Column("games", [str(row.games) for row in ranked], spare=2),
        Column("wins", [str(row.wins) for row in ranked], spare=1),
        Column("placement", [number(row.mean_placement, 2) for row in ranked]),
        Column("points", [number(row.mean_points, 1) for row in ranked]),
        Column("faults", [str(row.faults) for row in ranked]),
        Column("median", [_time_text(row.median_us) for row in ranked], spare=3),
        Column("slowest", [_time_text(row.slowest_us) for row in ranked], spare=4),
    ]


def _time_text(us: int | None) -> str:
    return "-" if us is None else duration_text(us)


def _winner_line(result: MatchResult, game: GameResult) -> str:
    """Return the sentence that names the winners of a game, their points and a tie-break."""

    def names_of(seats: Sequence[int]) -> str:
        bots = [(result.bots[game.seats[seat]], SEAT_LETTERS[seat]) for seat in seats]
        return " and ".join(f"{bot.name} (seat {letter})" for bot, letter in bots)

    winners = [seat for seat, placement in enumerate(game.placements) if placement == 1]
    top_points = game.points[winners[0]]
    tied = [
        seat
        for seat, points in enumerate(game.points)
        if points == top_points and seat not in winners
    ]
    verb = "wins" if len(winners) == 1 else "share the first place"
    tie_break = f", ahead of {names_of(tied)} by the tie-break" if tied else ""
    return f"{names_of(winners)} {verb} with {count(top_points, 'point')}{tie_break}"


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


def explain_faults(faults: FaultKinds, names: Sequence[str]) -> None:
    """Print the first kinds of faults, each with the error of the bot's own code below it.

    names  names of the bots, by their index
    """
    kinds = list(faults)
    if not kinds:
        return
    echo(f"{count(faults.count, 'fault')}:")
    for kind in kinds[:EXPLAINED]:
        echo(f"  {kind.line(names[kind.bot])}")
        echo_lines(kind.first.error, "    ")
    if len(kinds) > EXPLAINED:
        echo(f"  and {len(kinds) - EXPLAINED} other kinds")


def _print_outputs(result: MatchResult) -> None:
    """Print the last lines of output of each bot whose output was kept.

    stderr is left out for bots whose error was printed with a fault: it has the same traceback.
    """
    bots_with_error = {kind.bot for kind in result.faults if kind.first.error}
    last_logs = {log.bot: log for log in result.logs if log.text}
    for bot, log in last_logs.items():
        text = log.stdout if bot in bots_with_error else log.text
        if text:
            echo(f"the last output of {result.bots[bot].name} (--show-output has all of it):")
            echo_lines("\n".join(text.splitlines()[-OUTPUT_LINES:]), "    ")


def _print_where(
    result: MatchResult, seed: str, out: Path | None, again: Sequence[str] | None
) -> None:
    """Print where the records and outputs are, and how to watch or repeat the games.

    The arguments are those of `report`.
    """
    if out is None and again is not None:
        command = ["deepsea-referee", "match", *again, "--seed", seed, "--out", "DIR"]
        if result.games_asked > 1:
            command[-2:-2] = ["--games", str(result.games_asked)]  # before --out DIR
        echo("no records kept; to play the same games again and keep them:")
        print_command(*command)
        return
    if out is not None and result.first_game:
        record_path = out / record_name(result.first_game.game)
        echo(f"records and results.json: {out}; to watch a game:")
        print_command("deepsea-referee", "show", str(record_path))
        _print_how_to_explain(result, out)
    if len(seed) > SHORT_SEED:
        echo(f"seed: {shlex.quote(seed)}")
    if out is not None:
        for log in result.logs[:EXPLAINED]:
            if log.in_file:
                name = result.bots[log.bot].name
                echo(f"output of {name}: {out / log_name(log.bot, log.start, log.worker)}")
        if len(result.logs) > EXPLAINED:
            echo(f"and {len(result.logs) - EXPLAINED} other outputs there")


def _print_how_to_explain(result: MatchResult, out: Path) -> None:
    """Print the command that shows the decisions of the seat with the first fault in a decision."""
    for kind in result.faults:
        if kind.first.when == "decision":
            echo(f"to see what led to the fault in game {kind.game}:")
            record_path, letter = out / record_name(kind.game), SEAT_LETTERS[kind.first.seat]
            print_command("deepsea-referee", "show", str(record_path), "--seat", letter)
            return
