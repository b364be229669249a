"""Matches and comparisons from a program of your own: what `match` and `compare` do in a terminal.

Invariants: bots, rules, clocks and seeds are named as on the command line; no file is written, and
nothing is printed except a note of `resolve` about a name that could mean two bots; both functions
work in any thread, also where an event loop runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from deepsea_referee import in_process as playing_in_process
from deepsea_referee import match
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import run_apart
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_referee.summary import MatchResult
from deepsea_referee.system import SYSTEM
from deepsea_referee.workbench.blocks import BlockSettings, CompareGames
from deepsea_referee.workbench.comparison import Comparison
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, RuleSet, preset
from deepsea_rules.time_control import DEFAULT_CLOCK, TimeControl
from deepsea_sdk.entropy import fresh_seed

T = TypeVar("T")


def run_match(
    bots: Sequence[str],
    *,
    games: int = 1,
    rules: RuleSet | str = DEFAULT,
    clock: TimeControl | str = DEFAULT_CLOCK,
    seed: bytes | str | None = None,
    seating: Literal["rotate", "fixed"] = "rotate",
    isolation: IsolationLevel = "auto",
    in_process: bool = False,
    on_game: OnGame | None = None,
) -> MatchResult:
    """Play a match. If this is the main thread, Ctrl-C ends it early and cleanly.

    bots        two to six files, folders, zips, names of sample bots, or `cmd:COMMAND LINE`
    rules       a rule set, or the name of a preset
    clock       the time for each decision and for each game, such as "100ms+2s"
    seed        a seed as for the option `--seed`; by default a new one each time
    isolation   the level of isolation; "auto" is the sandbox if it works, else plain processes
    in_process  True to import and call the bots in this process, fast and without isolation
    on_game     called with the result and the record of each game that counts, as it ends; with
                `in_process` in the thread that plays

    Raises UserError for a match that cannot be played, for example if a bot does not exist, and
    BotHangs if a bot in this process does not return: the error's `result` has the complete games.
    """
    settings = MatchSettings(
        bots=[resolve(bot) for bot in bots],
        hosting=_hosting(isolation, in_process),
        games=games,
        rules=_rules(rules),
        time_control=_time_control(clock),
        seed=_seed(seed),
        seating=seating,
    )
    play = playing_in_process.run_match_in_process if in_process else match.run_match_over_streams
    return _play(lambda: play(settings, on_game), in_process)


def run_comparison(
    a: str,
    b: str,
    *,
    field: Sequence[str] = (),
    seats: int | None = None,
    blocks: int = 200,
    until_decided: bool = False,
    rules: RuleSet | str = DEFAULT,
    clock: TimeControl | str = DEFAULT_CLOCK,
    seed: bytes | str | None = None,
    isolation: IsolationLevel = "auto",
    in_process: bool = False,
    luck_adjusted: bool = False,
    on_block: Callable[[Comparison], object] | None = None,
) -> Comparison:
    """Compare two bots on the same deals and dice, with seats swapped.

    The verdict of the comparison is "A", "B", "same", or None if it needs more blocks.

    a, b           the bots, named as for `run_match`
    field          bots for the other seats; without them a and b share all seats
    blocks         the largest number of blocks
    until_decided  True to stop as soon as there is a verdict
    luck_adjusted  True to decide by the lead minus the luck in it
    on_block       called with the comparison after each block

    Other parameters are those of `run_match`. Raises UserError for a comparison that cannot be
    played, and KeyboardInterrupt at Ctrl-C.
    """
    pair, others = (resolve(a), resolve(b)), [resolve(bot) for bot in field]
    games = CompareGames(
        BlockSettings.of(
            *pair,
            others,
            seats,
            blocks=blocks,
            hosting=_hosting(isolation, in_process),
            rules=_rules(rules),
            time_control=_time_control(clock),
            seed=_seed(seed),
            until_decided=until_decided,
            luck_adjusted=luck_adjusted,
        )
    )

    def count(_: object) -> None:
        if on_block is not None:
            on_block(games.comparison)

    if _play(lambda: games.play(count, in_process=in_process), in_process):
        raise KeyboardInterrupt
    return games.comparison


_grpc_process_ids: set[int] = set()
"""The ids of processes that have started gRPC: this process, or one from which it was forked."""


def _play(play_games: Callable[[], T], in_process: bool) -> T:
    """Call `play_games` where it can have an event loop of its own, and return its result.

    A thread has at most one running loop. If this thread has one already, as in a notebook, another
    thread makes the call. Raises UserError if gRPC cannot be used, unless `in_process` is True.

    in_process  True if the bots are called in this process, without gRPC
    """
    if not in_process:
        _check_grpc_is_usable()
    return run_apart(play_games) if _has_event_loop() else play_games()


def _check_grpc_is_usable() -> None:
    """Raise UserError if gRPC was started before this process was forked; it cannot go on then.

    Otherwise note that this process starts gRPC now.
    """
    # A fork copies the set: so an id of another process is that of a parent that started gRPC.
    process_id = os.getpid()
    if _grpc_process_ids - {process_id}:
        raise UserError(
            "bots played as processes before this process was forked, and gRPC does not go on "
            "after a fork: make the pool with multiprocessing.get_context('spawn')"
        )
    _grpc_process_ids.add(process_id)


def _has_event_loop() -> bool:
    """Return True if an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # raised if there is none
        return False
    return True


def _hosting(isolation: IsolationLevel, in_process: bool) -> Hosting:
    return Hosting(isolation=SYSTEM.choose("process" if in_process else isolation))


def _rules(rules: RuleSet | str) -> RuleSet:
    return preset(rules) if isinstance(rules, str) else rules


def _time_control(clock: TimeControl | str) -> TimeControl:
    return TimeControl.parse(clock) if isinstance(clock, str) else clock


def _seed(seed: bytes | str | None) -> bytes:
    if seed is None:
        return fresh_seed()
    return seed_from_text(seed) if isinstance(seed, str) else seed
