"""Plays one game between bot processes, from its line-up to its record.

Used by matches, rated games and checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from deepsea_referee.bots.output import author_error
from deepsea_referee.bots.process import BotProcess
from deepsea_referee.errors import HostTooBusy
from deepsea_referee.game_loop import AskedSeat, play_to_end
from deepsea_referee.transport.session import Session
from deepsea_rules.faults import Fault, FaultReport
from deepsea_sdk.refereed_game import PlayedGame, RefereedGame


class Processes(Protocol):
    """The bots of a game; a BotPool has this."""

    def running(self, bot: int) -> BotProcess | None:
        """The bot's process for a new game if it is there already, which it nearly always is."""

    def ready(self, bot: int, *, suspect: bool = False) -> Awaitable[BotProcess]:
        """The bot's process for a new game, restarted if it has exited."""

    def given_up(self, bot: int) -> str:
        """Why the bot is not started any more; "" if it is."""

    def finished_game(self, bot: int) -> None:
        """Note that a game with the bot is over."""


async def play_game(
    refereed: RefereedGame,
    pool: Processes,
    line_up: Sequence[int],
    between: Mapping[int, Callable[[Session], AskedSeat]] | None = None,
    suspects: Container[int] = frozenset(),
    blamed: Container[int] = frozenset(),
) -> PlayedGame:
    """Play a game; raises RefereeError if it is void because the referee failed.

    Raises HostTooBusy, with the seat, if a bot could not be timed because of the host's load.

    line_up  for each seat the number of its bot in the pool; all but one seat of a bot have
             another player in `between`
    between  for some seats, what is asked in place of the session: a wrapper that disturbs the
             game on purpose, or another player; faults that follow are not blamed on the
             bot's process
    suspects seats that have made a game void so before: now it is their timeout
    blamed   seats of `between` that pass all on, so that their faults are the bot's
    """
    between = between or {}
    running = [pool.running(bot) for bot in line_up]
    processes = [process for process in running if process is not None]
    if len(processes) < len(line_up):
        processes = await _ready(pool, line_up, suspects)
    missing = {
        seat: pool.given_up(line_up[seat])
        for seat, process in enumerate(processes)
        if not process.session.usable
    }
    seats: list[AskedSeat] = [process.session for process in processes]
    for seat, disturb in between.items():
        seats[seat] = disturb(processes[seat].session)
    longest_us = await play_to_end(refereed, seats, suspects)
    for bot in line_up:
        pool.finished_game(bot)
    played = refereed.played()
    faults = [
        _trimmed(report, processes[report.seat])
        if report.seat in between and report.seat not in blamed
        else await _explained(report, processes[report.seat], missing.get(report.seat))
        for report in played.faults
    ]
    return replace(played, faults=tuple(faults), longest_us=longest_us)


async def _ready(
    pool: Processes, line_up: Sequence[int], suspects: Container[int]
) -> list[BotProcess]:
    """The bots' processes; one that did not start fails each request."""
    seats = {bot: seat for seat, bot in enumerate(line_up)}
    starts = [pool.ready(bot, suspect=seat in suspects) for bot, seat in seats.items()]
    # All at once, and wait for all: none may still be starting when the pool is left.
    started = await asyncio.gather(*starts, return_exceptions=True)
    processes = {}
    for (bot, seat), one in zip(seats.items(), started, strict=True):
        if isinstance(one, HostTooBusy):
            raise HostTooBusy(str(one), one.us, seat)
        if isinstance(one, BaseException):
            raise one
        processes[bot] = one
    return [processes[bot] for bot in line_up]


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
