"""A match of trusted bots in this process: the same games without processes and gRPC.

Invariants: bots whose decisions depend only on the game give the same records as in processes,
except for times; a bot is charged the time in which its thread ran or slept, not that in which a
busy host gave it no CPU; bots are not isolated. What they print is kept, written and shown as that
of bots with processes of their own, by the bot that is being asked: what its threads print while
another one is asked is taken for the other's.

Games are played in a thread of their own while the caller's thread waits for Ctrl-C and for bots
that do not return. Nothing is raised in bots' code: a game that is given up goes on in its thread,
without effect, until the process ends. So it is given up only while a bot's code runs, never while
a result is counted.
"""

from __future__ import annotations

import faulthandler
import io
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from deepsea_referee.bots.loading import MODULE_PREFIX, load
from deepsea_referee.bots.meetings import Meetings
from deepsea_referee.bots.output import BotLog, OutputPlan, OutputTail, bot_error
from deepsea_referee.bots.resolve import BotSpec, copies
from deepsea_referee.interrupts import StopRequests
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.results.summary import BotHangs, GameResult, MatchResult
from deepsea_referee.timing.clock import PULSE, SystemClock, ThreadClock
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import AnyBot, misspelt
from deepsea_sdk.errors import skip_odd_sources
from deepsea_sdk.refereed_game import RefereedGame
from deepsea_sdk.table import play_to_end

ISOLATION = "in-process"
"""What results say where others name the level of isolation."""
SHORTEST_S = 10.0
BUDGETS = 10
_PACKAGE = __name__.partition(".")[0]
_TICK_S = 0.1
"""Interval of the looks for Ctrl-C and for progress."""
FINISHING = "finishing the game that is being played; Ctrl-C again ends at once"


def longest_s(control: TimeControl) -> float:
    """The longest time without progress for a bot: ten budgets, at least 10 s, and the bank."""
    return max(SHORTEST_S, BUDGETS * control.budget_us / 1e6) + control.bank_us / 1e6


def run_match(
    settings: MatchSettings,
    on_game: OnGame | None = None,
    *,
    now_us: Callable[[], int] | None = None,
    limit_s: float | None = None,
    stop: StopRequests | None = None,
) -> MatchResult:
    """Play a match; Ctrl-C ends it early and cleanly. `settings.hosting` is not used.

    on_game  called in the thread in which the games are played
    now_us   the clock that bots are charged by; a ThreadClock's unless another is given
    limit_s  how long a bot may make no progress; by default after what the bots' clock suggests
    stop     ends the match after the game at hand, or at once; by default Ctrl-C does
    Raises UserError for a bot that cannot be imported, BotHangs for one that does not return.
    """
    result = settings.result(ISOLATION)
    stop, ends = (StopRequests(), True) if stop is None else (stop, False)
    troubled: set[int] = set()
    with copies(settings.named) as bots:
        output = InProcessOutput(bots, settings.output)
        games = _Games(replace(settings, bots=bots), on_game, now_us, result, output, stop, ends)
        try:
            with PULSE.beating(), stop.on_signals() if ends else nullcontext():
                games.play(longest_s(settings.time_control) if limit_s is None else limit_s)
        except BotHangs as error:
            result.interrupted = True
            error.result = result
            troubled.add(output.bot)
            raise
        finally:
            troubled |= {kind.bot for kind in result.faults}
            result.logs += output.logs(troubled)
    return result


# The thread in which the games are played


@dataclass
class _Games:
    """The games of a match under way, and the thread in which they are played."""

    settings: MatchSettings
    on_game: OnGame | None
    now_us: Callable[[], int] | None
    result: MatchResult
    output: InProcessOutput
    stop: StopRequests
    says_so: bool
    """Say that a game is being finished after Ctrl-C."""
    _meetings: Meetings = field(default_factory=Meetings)
    _players: defaultdict[int, list[AnyBot]] = field(default_factory=lambda: defaultdict(list))
    """Of each bot, one for each game on a seed, with modules of its own."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _in_bots_code: bool = False
    _game: RefereedGame | None = None
    _number: int = 0
    _given_up: bool = False
    """The game is without effect from now on, whatever its thread does."""
    _error: BaseException | None = None

    def play(self, limit_s: float) -> None:
        """Play until all games are played or it is to stop; see `run_match`."""
        thread = threading.Thread(target=self._run, name="games", daemon=True)
        thread.start()
        self._wait(thread, limit_s)
        self.result.interrupted = self.stop.count > 0 or isinstance(self._error, KeyboardInterrupt)
        if self._error is not None and not isinstance(self._error, KeyboardInterrupt):
            raise self._error

    def _wait(self, thread: threading.Thread, limit_s: float) -> None:
        clock, limit_us = SystemClock(), limit_s * 1_000_000
        since_us = armed_us = clock.now_us()
        before: tuple[int, int] | None = None
        told = not self.says_so
        try:
            _print_stacks_after(limit_s)
            while not self._over.wait(_TICK_S):
                now_us = clock.now_us()
                if now_us - armed_us >= limit_us / 2:
                    _print_stacks_after(limit_s)
                    armed_us = now_us
                game = self._game
                progress = None if game is None else (self._number, len(game.game.decisions))
                if progress is None or progress != before:
                    before, since_us = progress, now_us
                if self.stop.count and not told and self._in_bots_code:
                    told = True
                    self.output.terminal[1].write(f"{FINISHING}\n")
                if self.stop.count > 1 and self._give_up(thread):
                    return
                if now_us - since_us >= limit_us and self._give_up(thread):
                    self._error = self._hangs(thread, limit_s)
                    return
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _give_up(self, thread: threading.Thread) -> bool:
        """Leave the thread to itself, if a bot's code runs there."""
        with self._lock:
            self._given_up = self._in_bots_code
        if self._given_up:
            self.output.give_back(thread)
        return self._given_up

    def _hangs(self, thread: threading.Thread, limit_s: float) -> BotHangs:
        """The error that names the bot whose code runs, with its stack."""
        frame = sys._current_frames()[thread.ident or 0]  # noqa: SLF001  (it is documented)
        frames = [*traceback.walk_stack(frame)][::-1]
        modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
        while modules and modules[-1].startswith(f"{_PACKAGE}."):  # it prints
            modules.pop()
        first = next((i for i, name in enumerate(modules) if name.startswith(MODULE_PREFIX)), 0)
        skip_odd_sources(frame.f_code.co_filename for frame, _ in frames)
        stack = traceback.StackSummary.extract(iter(frames[first : len(modules)]))
        last = stack[-1]
        return BotHangs(
            f"bot {self.result.bots[self.output.bot].name!r} did not return for {limit_s:g} s in "
            f"game {self._number + 1} ({Path(last.filename).name}, line {last.lineno}, in "
            f"{last.name}): nothing can end it in this process; fix it, or play it without "
            "--in-process, where that is a timeout",
            "".join(stack.format()),
        )

    # In the thread

    def _run(self) -> None:
        try:
            now_us = self.now_us or ThreadClock().now_us
            for bot in range(len(self.settings.bots)):
                self._load(bot)
            for number in self.settings.numbers():
                if self.stop.count:
                    break
                self._play_number(number, now_us)
        except BaseException as error:  # noqa: BLE001  (it is raised in the caller's thread)
            self._error = error
        finally:
            self._over.set()

    def _load(self, number: int) -> AnyBot:
        """Import a bot anew, for its next game on a seed that it has met."""
        bot, players = self.settings.bots[number], self._players[number]
        hints = self.settings.output.hints if self.settings.output.worker <= 1 else None
        with self.output.redirected(number), self._bots_code():
            player = load(bot)
        if hints is not None and not players and isinstance(player, type):
            hints.show(bot, misspelt(player))
        players.append(player)
        return player

    def _seated(self, line_up: Sequence[int], seed: bytes) -> list[AnyBot]:
        """For each seat a player that has not met the seed."""
        earlier = self._meetings.begin(seed, line_up)
        return [
            self._players[bot][games] if games < len(self._players[bot]) else self._load(bot)
            for bot, games in zip(line_up, earlier, strict=True)
        ]

    def _play_number(self, number: int, now_us: Callable[[], int]) -> None:
        line_up = self.settings.line_up(number)
        bots = [self.settings.bots[bot] for bot in line_up]
        self._number, game = number, self.settings.game(number)
        game.own_paths = lambda seat, text: bots[seat].own_paths(text)

        def on_seat(seat: int) -> None:
            self.output.bot = line_up[seat]

        seated = self._seated(line_up, game.game.seed)
        with self.output.redirected(), self._bots_code(game):
            play_to_end(game, seated, on_error="forfeit", now_us=now_us, on_seat=on_seat)
        played = game.played()
        faults = tuple(
            replace(report, error=bot_error(report.error, bots[report.seat]))
            for report in played.faults
        )
        outcome = GameResult.of(number, line_up, replace(played, faults=faults))
        self.result.add(outcome, played.record.decisions)
        if self.on_game is not None:
            room = self.on_game(outcome, played.record)
            if isinstance(room, Future):
                room.result()

    @contextmanager
    def _bots_code(self, game: RefereedGame | None = None) -> Iterator[None]:
        """Around bots' code, which may be left to itself; a game is watched for progress."""
        self._in_bots_code, self._game = True, game
        try:
            yield
        finally:
            with self._lock:
                self._in_bots_code, self._game = False, None
            if self._given_up:
                raise SystemExit


def _print_stacks_after(limit_s: float) -> None:
    """Print the stacks of all threads if this is not called again in time.

    So is named what lets no other thread run: C code that keeps Python's lock. Nothing can end it,
    and a process that was stopped for so long prints them too.
    """
    if sys.__stderr__ is not None:
        with suppress(OSError, ValueError):  # it is closed, or no file
            faulthandler.dump_traceback_later(limit_s, file=sys.__stderr__)


# What bots print


class InProcessOutput:
    """The output of all bots of a match in this process."""

    def __init__(self, bots: Sequence[BotSpec], plan: OutputPlan) -> None:
        self._plan, self._bots = plan, bots
        self._outputs = [plan.open(number, bot, 1) for number, bot in enumerate(bots)]
        self._tails = [(OutputTail(), OutputTail()) for _ in bots]
        self.bot = 0
        """The bot with the code that runs."""
        self.terminal = (sys.stdout, sys.stderr)
        """The streams for what is not printed by a bot."""

    @contextmanager
    def redirected(self, bot: int = 0) -> Iterator[None]:
        """Take what is printed inside; `bot` prints first."""
        self.bot = bot
        self.terminal = (sys.stdout, sys.stderr)
        with redirect_stdout(self._stream(0)), redirect_stderr(self._stream(1)):
            yield

    def give_back(self, thread: threading.Thread) -> None:
        """Take no more; from now on nothing is heard of what this thread prints."""
        sys.stdout, sys.stderr = (cast(Any, _Without(thread, one)) for one in self.terminal)

    def logs(self, troubled: Container[int]) -> list[BotLog]:
        """Close the files; the end of the output of those bots, and which have files."""
        logs = []
        for number, (output, (stdout, stderr)) in enumerate(
            zip(self._outputs, self._tails, strict=True)
        ):
            output.close()
            texts = (stdout.text(), stderr.text())
            log, is_reported = "\n".join(texts), number in troubled
            self._plan.show_hints(number, self._bots[number], log, is_reported=is_reported)
            if not is_reported:
                texts = ("", "")
            if any(texts) or output.in_file:
                logs.append(BotLog(number, 1, *texts, self._plan.worker, output.in_file))
        return logs

    def _stream(self, which: int) -> io.TextIOWrapper:
        # With `buffer` and all, as a process has it.
        router = _Router(lambda data: self._take(which, data))
        return io.TextIOWrapper(router, "utf-8", "backslashreplace", "", write_through=True)

    def _take(self, which: int, data: bytes) -> None:
        self._tails[self.bot][which].take(data)
        if (sinks := self._outputs[self.bot].sinks()) is not None:
            sinks[which](data)


class _Without:
    """A stream into which one thread cannot write."""

    def __init__(self, thread: threading.Thread, stream: object) -> None:
        self._thread = thread
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if threading.current_thread() is not self._thread:
            self.__getattr__("write")(text)
        return len(text)


class _Router(io.BufferedIOBase):
    """A binary stream that only passes on what is written."""

    name = "output of a bot"

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self._take = take

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        taken = bytes(data)  # type: ignore[call-overload]
        self._take(taken)
        return len(taken)
