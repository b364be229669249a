"""A match of trusted bots in this process: the same games without processes and gRPC.

Invariants: bots whose decisions depend only on the game give the same records as in processes,
except for times; a bot is charged the time in which its thread ran or slept, not that in which a
busy host gave it no CPU; bots are not isolated. Their output is stored and shown like that of bots
with processes of their own. Output counts as that of the bot that is being asked, even
if a thread of another bot has printed it.

Games are played in a thread of their own while the caller's thread waits for Ctrl-C and for bots
that do not return. No exception is raised in bots' code: an abandoned game continues in its thread,
without effect, until the process ends. So a game is only abandoned while a bot's code runs, never
while a result is counted.
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
from types import FrameType
from typing import Any, cast

from deepsea_referee.bots.loading import MODULE_PREFIX, load
from deepsea_referee.bots.output import BotLog, OutputPlan, OutputTail, bot_error
from deepsea_referee.bots.pool import Meetings
from deepsea_referee.bots.resolve import BotSpec, copies
from deepsea_referee.clock import PULSE, SystemClock, ThreadClock
from deepsea_referee.interrupts import StopRequests
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.summary import BotHangs, GameResult, MatchResult
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import AnyBot, misspelt
from deepsea_sdk.errors import skip_odd_sources
from deepsea_sdk.table import RefereedGame, play_by_calls

ISOLATION = "in-process"
"""The level of isolation that results name for bots in this process."""
SHORTEST_S = 10.0
"""The shortest time without progress after which a bot is reported."""
BUDGETS = 10
"""The number of budgets without progress after which a bot is reported."""
_PACKAGE = __name__.partition(".")[0]
_TICK_S = 0.1
"""The interval at which Ctrl-C and the progress of the game are checked."""
FINISHING = "finishing the game that is being played; Ctrl-C again ends at once"


def longest_s(control: TimeControl) -> float:
    """Return the longest time without progress: ten budgets, at least 10 s, plus the bank."""
    return max(SHORTEST_S, BUDGETS * control.budget_us / 1e6) + control.bank_us / 1e6


def run_match_in_process(
    settings: MatchSettings,
    on_game: OnGame | None = None,
    *,
    now_us: Callable[[], int] | None = None,
    limit_s: float | None = None,
    stop: StopRequests | None = None,
) -> MatchResult:
    """Play a match by calling the bots in this process. `settings.hosting` is not used.

    It ends with its last game, at a request to stop (see `stop`), or when a bot does not return.
    `run_match_over_streams` and `run_match_with_workers` play the same match in other ways. The
    list of what ends a match is in docs/dev/processes.md.

    on_game  called with each game, in the thread in which the games are played
    now_us   the clock that measures the bots' time; by default a ThreadClock
    limit_s  how long a bot may make no progress; by default `longest_s` of the bots' clock
    stop     requests to end the match after the current game, or at once; by default Ctrl-C makes
             them

    Raises UserError for a bot that cannot be imported, BotHangs for a bot that does not return.
    """
    result = settings.result(ISOLATION)
    handles_signals = stop is None
    stop = StopRequests() if stop is None else stop
    troubled: set[int] = set()
    with copies(settings.named) as bots:
        output = InProcessOutput(bots, settings.output)
        games = _Games(
            replace(settings, bots=bots),
            on_game,
            now_us,
            result,
            output,
            stop,
            announces_stop=handles_signals,
        )
        try:
            with PULSE.beating(), stop.on_signals() if handles_signals else nullcontext():
                games.play(longest_s(settings.time_control) if limit_s is None else limit_s)
        except BotHangs as error:
            result.interrupted = True
            error.result = result
            troubled.add(output.bot)
            raise
        finally:
            troubled |= {group.bot for group in result.faults}
            result.logs += output.logs(troubled)
    return result


# The thread in which the games are played


@dataclass
class _Games:
    """The games of a match in progress, and the thread in which they are played.

    The caller's thread watches the other one. The lock protects `_in_bots_code` and `_abandoned`:
    a game is abandoned only while a bot's code runs.
    """

    settings: MatchSettings
    on_game: OnGame | None
    now_us: Callable[[], int] | None
    result: MatchResult
    output: InProcessOutput
    stop: StopRequests
    announces_stop: bool
    """True to print after Ctrl-C that the current game is being finished."""
    _meetings: Meetings = field(default_factory=Meetings)
    _copies_of_bot: defaultdict[int, list[AnyBot]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The imported copies of each bot, by its number. No copy plays two games on the same seed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _in_bots_code: bool = False
    _game: RefereedGame | None = None
    _number: int = 0
    _abandoned: bool = False
    """True once the game has no effect any more, whatever its thread does."""
    _error: BaseException | None = None

    def play(self, limit_s: float) -> None:
        """Play until all games are played, a stop is requested, or a bot does not return.

        limit_s  the longest time without progress

        Raises BotHangs for a bot that does not return, and any other error of the thread.
        """
        thread = threading.Thread(target=self._run, name="games", daemon=True)
        thread.start()
        self._wait(thread, limit_s)
        self.result.interrupted = self.stop.count > 0 or isinstance(self._error, KeyboardInterrupt)
        if self._error is not None and not isinstance(self._error, KeyboardInterrupt):
            raise self._error

    def _wait(self, thread: threading.Thread, limit_s: float) -> None:
        """Wait until the games are over, or abandon them at the second Ctrl-C or without progress.

        Every `_TICK_S` the number of decisions is compared with the one before. If the game cannot
        be abandoned at the moment, the next tick tries it again.
        """
        clock, limit_us = SystemClock(), limit_s * 1_000_000
        progress_us = armed_us = clock.now_us()
        before: tuple[int, int] | None = None
        is_announced = not self.announces_stop
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
                    before, progress_us = progress, now_us
                if self.stop.count and not is_announced and self._in_bots_code:
                    is_announced = True
                    self.output.terminal[1].write(f"{FINISHING}\n")
                if self.stop.count > 1 and self._abandon_game(thread):
                    return
                if now_us - progress_us >= limit_us and self._abandon_game(thread):
                    self._error = self._hang_error(thread, limit_s)
                    return
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _abandon_game(self, thread: threading.Thread) -> bool:
        """Abandon the game if a bot's code runs in the thread; return True if it is abandoned.

        The thread cannot be ended, so it stays in the bot's code. It ends if that ever returns, and
        its output is discarded from now on.
        """
        with self._lock:
            self._abandoned = self._in_bots_code
        if self._abandoned:
            self.output.restore_streams(thread)
        return self._abandoned

    def _hang_error(self, thread: threading.Thread, limit_s: float) -> BotHangs:
        """Return an error that names the bot whose code runs in the thread, with its stack.

        limit_s  how long the bot made no progress
        """
        innermost = sys._current_frames()[thread.ident or 0]  # noqa: SLF001  (it is documented)
        stack = _stack_of_bot(innermost)
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
        """Import the bots and play the games; store an error for the caller's thread."""
        try:
            now_us = self.now_us or ThreadClock().now_us
            for bot in range(len(self.settings.bots)):
                self._import_copy(bot)
            for number in self.settings.numbers():
                if self.stop.count:
                    break
                self._play_number(number, now_us)
        except BaseException as error:  # noqa: BLE001  (it is raised in the caller's thread)
            self._error = error
        finally:
            self._over.set()

    def _import_copy(self, number: int) -> AnyBot:
        """Import another copy of the bot with this number, store it, and return it.

        Each copy has modules of its own. With a bot's first copy, hints about misspelt names of
        methods are shown, but by one worker only.
        """
        bot = self.settings.bots[number]
        copies_of_bot = self._copies_of_bot[number]
        with self.output.redirected(number), self._running_bots_code():
            player = load(bot)
        plan = self.settings.output
        hints = plan.hints if plan.worker <= 1 else None
        is_first = not copies_of_bot
        if hints is not None and is_first and isinstance(player, type):
            hints.show(bot, misspelt(player))
        copies_of_bot.append(player)
        return player

    def _copies_for(self, line_up: Sequence[int], seed: bytes) -> list[AnyBot]:
        """Return for each seat a copy of its bot that has not played on this seed before.

        A copy could use what it knows from another game on the same seed. Copies are used in the
        order of import: so a bot with n earlier games on the seed needs the copy with index n,
        which is imported if it does not exist yet.

        line_up  the number of the bot in each seat
        """
        players = []
        for bot, earlier_games in zip(line_up, self._meetings.begin(seed, line_up), strict=True):
            copies_of_bot = self._copies_of_bot[bot]
            if earlier_games < len(copies_of_bot):
                players.append(copies_of_bot[earlier_games])
            else:
                players.append(self._import_copy(bot))
        return players

    def _play_number(self, number: int, now_us: Callable[[], int]) -> None:
        """Play the game with this number, add it to the result of the match, and call `on_game`.

        now_us  the clock that measures the bots' time
        """
        line_up = self.settings.line_up(number)
        bots = [self.settings.bots[bot] for bot in line_up]
        self._number = number
        refereed = self.settings.game(number)
        # Messages show the paths of files as the bot's author knows them.
        refereed.own_paths = lambda seat, text: bots[seat].own_paths(text)

        def assign_output_to(seat: int) -> None:
            self.output.bot = line_up[seat]

        players = self._copies_for(line_up, refereed.game.seed)
        with self.output.redirected(), self._running_bots_code(refereed):
            play_by_calls(
                refereed, players, on_error="forfeit", now_us=now_us, on_seat=assign_output_to
            )
        played = refereed.played()
        faults = tuple(
            replace(report, error=bot_error(report.error, bots[report.seat]))
            for report in played.faults
        )
        result = GameResult.of(number, line_up, replace(played, faults=faults))
        self.result.add(result, played.record.decisions)
        if self.on_game is not None:
            writing = self.on_game(result, played.record)
            if isinstance(writing, Future):  # the disk is too slow: wait until the queue has room
                writing.result()

    @contextmanager
    def _running_bots_code(self, game: RefereedGame | None = None) -> Iterator[None]:
        """Allow the thread that watches this one to abandon the game while the `with` block runs.

        The block runs bots' code. If that returns although the game was abandoned meanwhile, this
        thread ends silently.

        game  the game whose progress is watched; None while a bot is imported
        """
        self._game = game
        self._in_bots_code = True
        try:
            yield
        finally:
            with self._lock:
                self._in_bots_code = False
                self._game = None
            if self._abandoned:
                raise SystemExit  # ends the thread, without a message


def _stack_of_bot(innermost: FrameType) -> traceback.StackSummary:
    """Return the part of a thread's stack that is the bot's, the outermost frame first.

    It begins with the first frame of the bot's own modules. Frames of this package at the end are
    left out: they only mean that the bot prints, and this package redirects that.
    """
    frames = list(traceback.walk_stack(innermost))
    frames.reverse()
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    end = len(modules)
    while end and modules[end - 1].startswith(f"{_PACKAGE}."):
        end -= 1
    start = 0
    for position, module in enumerate(modules[:end]):
        if module.startswith(MODULE_PREFIX):
            start = position
            break
    # `extract` reads lines of source files, but must not read huge files, nor wait at pipes.
    skip_odd_sources(frame.f_code.co_filename for frame, _ in frames)
    return traceback.StackSummary.extract(iter(frames[start:end]))


def _print_stacks_after(limit_s: float) -> None:
    """Print the stacks of all threads unless this is called again within `limit_s`.

    So the user sees what hangs even if C code holds Python's global lock, and no other thread can
    run to report the bot. A process that was suspended for that long prints the stacks, too.
    """
    if sys.__stderr__ is not None:
        with suppress(OSError, ValueError):  # standard error is closed, or is no file
            faulthandler.dump_traceback_later(limit_s, file=sys.__stderr__)


# The output of bots


class InProcessOutput:
    """Redirects and stores the output of all bots of a match in this process."""

    def __init__(self, bots: Sequence[BotSpec], plan: OutputPlan) -> None:
        self._plan, self._bots = plan, bots
        self._outputs = [plan.open(number, bot, 1) for number, bot in enumerate(bots)]
        self._tails = [(OutputTail(), OutputTail()) for _ in bots]
        self.bot = 0
        """The number of the bot whose code runs, and to which output belongs."""
        self.terminal = (sys.stdout, sys.stderr)
        """The original standard output and standard error, for messages to the user."""

    @contextmanager
    def redirected(self, bot: int = 0) -> Iterator[None]:
        """Redirect the output within the `with` block to bots, at first to the bot `bot`."""
        self.bot = bot
        self.terminal = (sys.stdout, sys.stderr)
        with redirect_stdout(self._stream(0)), redirect_stderr(self._stream(1)):
            yield

    def restore_streams(self, thread: threading.Thread) -> None:
        """Restore the original streams for all threads but this one, whose output is discarded."""
        stdout, stderr = self.terminal
        sys.stdout = cast(Any, _StreamWithoutThread(thread, stdout))
        sys.stderr = cast(Any, _StreamWithoutThread(thread, stderr))

    def logs(self, troubled: Container[int]) -> list[BotLog]:
        """Close the files with the output of bots, show hints about it, and return logs of bots.

        The log of a bot with a fault has the end of its output. The log of any other bot only says
        that there is a file, and is left out if there is none.

        troubled  the numbers of the bots with a fault
        """
        logs = []
        for number, bot in enumerate(self._bots):
            output = self._outputs[number]
            output.close()
            stdout_tail, stderr_tail = self._tails[number]
            stdout, stderr = stdout_tail.text(), stderr_tail.text()
            has_fault = number in troubled
            self._plan.show_hints(number, bot, f"{stdout}\n{stderr}", is_reported=has_fault)
            if not has_fault:
                stdout = stderr = ""
            if stdout or stderr or output.in_file:
                logs.append(BotLog(number, 1, stdout, stderr, self._plan.worker, output.in_file))
        return logs

    def _stream(self, index: int) -> io.TextIOWrapper:
        """Return a text stream that takes the place of sys.stdout (index 0) or sys.stderr (1).

        It has all attributes of a process's own streams, such as `buffer`.
        """
        router = _Router(lambda data: self._receive(index, data))
        return io.TextIOWrapper(
            router, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
        )

    def _receive(self, index: int, data: bytes) -> None:
        """Store output of the current bot, and pass it on as the plan says."""
        self._tails[self.bot][index].add(data)
        sinks = self._outputs[self.bot].sinks()
        if sinks is not None:
            sinks[index](data)


class _StreamWithoutThread:
    """A stream that discards everything that one thread writes."""

    def __init__(self, thread: threading.Thread, stream: object) -> None:
        self._thread = thread
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, unless the excluded thread calls this."""
        if threading.current_thread() is not self._thread:
            self.__getattr__("write")(text)
        return len(text)


class _Router(io.BufferedIOBase):
    """A binary stream that passes all written data to a function."""

    name = "output of a bot"

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        super().__init__()
        self._receive = receive

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        """Pass on the data; return the number of bytes."""
        copy = bytes(data)  # type: ignore[call-overload]
        self._receive(copy)
        return len(copy)
