"""Plays one game between bot processes, from its line-up to its record.

Used by matches, rated games and checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from deepsea_referee.bots.author_error import author_error
from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import BotProcess
from deepsea_referee.game_loop import AskedSeat, play_to_end
from deepsea_referee.transport.session import Session
from deepsea_rules.faults import Fault, FaultReport
from deepsea_sdk.refereed_game import PlayedGame, RefereedGame


async def play_game(
    refereed: RefereedGame,
    pool: BotPool,
    line_up: Sequence[int],
    between: Mapping[int, Callable[[Session], AskedSeat]] | None = None,
) -> PlayedGame:
    """Play a game; raises RefereeError if it is void because the referee failed.

    line_up  for each seat the number of its bot in the pool
    between  for some seats, a wrapper of the session that disturbs the game on purpose:
             faults that follow are not blamed on the bot's process
    """
    between = between or {}
    processes = await _ready(pool, line_up)
    missing = {
        seat: pool.given_up(line_up[seat])
        for seat, process in enumerate(processes)
        if not process.session.usable
    }
    seats: list[AskedSeat] = [process.session for process in processes]
    for seat, disturb in between.items():
        seats[seat] = disturb(processes[seat].session)
    await play_to_end(refereed, seats)
    for bot in line_up:
        pool.finished_game(bot)
    played = refereed.played()
    faults = [
        _trimmed(report, processes[report.seat])
        if report.seat in between
        else await _explained(report, processes[report.seat], missing.get(report.seat))
        for report in played.faults
    ]
    return replace(played, faults=tuple(faults))


async def _ready(pool: BotPool, line_up: Sequence[int]) -> list[BotProcess]:
    """The bots' processes; one that did not start fails each request."""
    # All at once, and wait for all: none may still be starting when the pool is left.
    started = await asyncio.gather(*map(pool.ready, line_up), return_exceptions=True)
    processes = []
    for one in started:
        if isinstance(one, BaseException):
            raise one
        processes.append(one)
    return processes


async def _explained(report: FaultReport, process: BotProcess, missing: str | None) -> FaultReport:
    """The report, for a crash with the exit status and error of the process.

    missing  None if it ran when the game began; else why it was not started, or ""
    """
    if missing:
        return replace(report, came=missing, when="absent")
    process.troubled = True
    if missing == "":  # the report of its start has the exit status already
        return replace(report, when="start", error=process.error_text())
    if report.error:
        return _trimmed(report, process)
    if report.fault is not Fault.CRASH:
        return report
    came = f"{report.came}: {await process.exit_text()}"
    return replace(report, came=came, error=process.error_text())


def _trimmed(report: FaultReport, process: BotProcess) -> FaultReport:
    """The report with the author's part of the error that the bot sent."""
    return replace(report, error=author_error(report.error, process.bot.folder))
