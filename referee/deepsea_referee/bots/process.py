"""One bot process: its server, start-up timeout, output, exit and clean-up.

Invariants: a bot gets the address and a one-use token in its environment, and must connect and send
Hello before the start-up timeout. When its first process exits, the whole process tree is killed,
so that no process holds its stream open. To stop a bot, the referee sends Goodbye, waits for a
short grace period and kills all remaining processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from deepsea_referee.bots.output import (
    BotOutput,
    OutputCapture,
    bot_error,
    error_line,
    last_frame_text,
    with_short_stack,
)
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.clock import PULSE, Alarm, Clock, time_limit
from deepsea_referee.decision_timer import DecisionTimer, HostDelay, RequestEnd, Timeout
from deepsea_referee.errors import BotFault, HostOutOfMemory, HostTooBusy, RefereeError
from deepsea_referee.pauses import BotTurns, Freezer, Gauge, OffTurn, Pauses
from deepsea_referee.sandbox.interface import (
    ADDRESS_VARIABLE,
    MIB,
    IsolatedProcess,
    Isolation,
    LaunchSpec,
    ResourceLimits,
)
from deepsea_referee.server import LinesServer, SeatServer
from deepsea_referee.session import Session
from deepsea_referee.system import SYSTEM
from deepsea_rules.faults import Fault
from deepsea_rules.printable import printable
from deepsea_sdk.bot import HINT, TimeLeft
from deepsea_sdk.entropy import fresh_token
from deepsea_sdk.errors import text_or_excuse
from deepsea_sdk.launch import PARAMETERS, TOKEN

START_PATIENCE = 6
"""The largest start-up time on a busy host, as a multiple of the bot's start-up timeout."""
EXIT_US = 100_000
"""The time in which a bot whose stream has ended may exit before it is frozen."""
READY = 'write the line {"type":"ready"}, and flush it,'
"""The first step that the lines protocol requires of a bot, in words."""
_KILL_LIMIT_US = 5_000_000
"""The longest wait for the exit of a killed process."""
_PROGRAM_ERRORS = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
"""Error numbers of a start that are the program's fault; all others are this machine's."""
_SHORTAGES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)
"""Error numbers of a machine without free resources.

Programs of the sandbox report them in words only.
"""


@dataclass(frozen=True, slots=True)
class Hosting:
    """Settings for starting and stopping bots."""

    isolation: Isolation
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    start_limit_us: int = 10_000_000
    """The start-up timeout, from the start of the program until its Hello."""
    starts_at_once: int = field(default_factory=SYSTEM.cpus)
    """The largest number of bots that start at the same time.

    The clocks of other bots begin when it is their turn.
    """
    grace_us: int = 1_000_000
    """The time to exit after Goodbye, before the bot is killed."""
    gauge: Callable[[IsolatedProcess], Gauge] | None = SYSTEM.gauge
    """Makes the gauge that measures the load of the host, so that bots are not charged for it.

    None for a clock that is not that of the host.
    """
    freeze: bool = True
    """True to freeze bots in a sandbox outside of their turns.

    Frozen bots cannot compute in the time of others.
    """
    tcp_host: str | None = SYSTEM.tcp_host
    """The host on whose free TCP ports the referee listens; None listens on Unix sockets."""

    def for_one_of(self, workers: int) -> Hosting:
        """Return the settings of one of several workers that start bots at the same time."""
        return replace(self, starts_at_once=max(1, self.starts_at_once // workers))

    @property
    def freezes(self) -> bool:
        """Return True if bots are frozen outside of their turns; plain processes never are."""
        return self.freeze and self.isolation.name == "sandbox"

    @property
    def isolation_text(self) -> str:
        """The level of isolation in words, for headers and results."""
        name = self.isolation.name
        if name == "sandbox":
            return name if self.freeze else f"{name}, bots not frozen"
        return name if SYSTEM.tells_delays else f"{name}, wall clock"


class EarlyEnd(Exception):
    """The program exited before it connected, or could not be started.

    error   the program's error, as its author needs it
    public  the message without texts of the program; "" if nothing is left
    """

    def __init__(self, message: str, error: str = "", public: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.public = public


class BotProcess:
    """A bot's process, with its server, output and clean-up.

    `session` is usable once `start` has returned, unless the start-up timed out.
    """

    def __init__(
        self,
        bot: BotSpec,
        hosting: Hosting,
        clock: Clock,
        output: BotOutput,
        rivals: Sequence[Path],
        freezer: Freezer,
    ) -> None:
        """Prepare a process, which `start` starts.

        rivals   the paths of other bots, which this bot must not see
        freezer  the freezer of the pool
        """
        self.bot = bot
        self.session = Session(clock)
        self.troubled = False
        """True once the bot was at fault, so that its output is stored."""
        self.missed_start = False
        """True if its start-up timed out."""
        self.aborted = False
        """True if the referee has aborted it, so that it prints its stack."""
        self._hosting = hosting
        self._rivals = tuple(rivals)
        self._freezer = freezer
        self._turns: BotTurns | None = None
        self._exit_alarm: Alarm | None = None
        self._pulse = contextlib.ExitStack()
        self._clock = clock
        self._token = fresh_token()
        self._server = SeatServer(
            self.session, self._token, clock, reflects=hosting.isolation.name != "sandbox"
        )
        self._lines: LinesServer | None = None
        if bot.protocol == "lines":
            self._lines = LinesServer(self.session, self._note, self._refuse)
        self._refusal = ""
        self._loop = asyncio.get_running_loop()
        self.output = output
        to_stdout, to_stderr = self.output.sinks() or (None, None)
        self._stdout = OutputCapture(to_stdout)
        try:
            self._stderr = OutputCapture(to_stderr)
        except OSError:
            self._stdout.finish()
            raise
        self._process: IsolatedProcess | None = None
        self._unwatch: Callable[[], object] | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self.session.explain_end = self._explain_end
        self.session.ended.add_done_callback(lambda _: self._allow_exit(EXIT_US))

    async def start(self, socket: Path) -> None:
        """Start the program, and wait for its Hello.

        A bot that exceeds the start-up timeout is killed, and its session answers every request
        with START_TIMEOUT. Time in which the host delayed the bot is not charged.

        socket  the path of the socket to listen on, unless the referee listens on TCP

        Raises EarlyEnd if the program exits first, and HostTooBusy if the host has delayed it for
        START_PATIENCE times the timeout.
        """
        self._pulse.enter_context(PULSE.beating())
        if self._lines is not None:
            if SYSTEM.tcp_host is not None:
                raise EarlyEnd('protocol = "lines" needs Linux or macOS')
            await self._lines.start()
            self._spawn(None, {})
        else:
            host = self._hosting.tcp_host
            address = await self._server.start(socket if host is None else f"{host}:0")
            environment = {ADDRESS_VARIABLE: address, TOKEN: self._token}
            self._spawn(socket if host is None else None, environment)
        session = self.session
        request_end = await self._wait_for_hello()
        if request_end is not None:
            self.missed_start = isinstance(request_end, Timeout)
            limit_ms = self._hosting.start_limit_us // 1000
            await self._abort()
            public = f"it did not {self.greeting} within {limit_ms} ms"
            session.fail(
                BotFault(Fault.START_TIMEOUT, f"{public}{self.aborted_at_text()}", public=public)
            )
            self._kill()
            if isinstance(request_end, HostDelay):
                raise HostTooBusy(
                    f"the host was too busy for {request_end.wall_us} us to start "
                    f"{self.bot.name!r}",
                    request_end.wall_us,
                )
            return
        if not session.connected.done():
            if shortage := self.shortage():
                raise shortage
            if self._process is not None and (error := self._process.setup_error()):
                message = f"the isolation of {self.bot.name!r} failed: {error}"
                raise RefereeError(message) from _shortage_in(error)
            when = " before connecting"
            end = self._refusal or await self.exit_text(when)
            public = self._refusal or await self.exit_text(when, with_last_error=False)
            raise EarlyEnd(end, self.error_text(), public)

    async def _wait_for_hello(self) -> RequestEnd | None:
        """Wait until the bot has connected or exited, and return None.

        If it does neither within the start-up timeout, return a Timeout, or a HostDelay if the host
        kept it from computing for too long. The time is measured as that of a decision, so that the
        bot is not charged for the load of the host.
        """
        timer = DecisionTimer(self.session.timer.gauge, START_PATIENCE)
        limits = TimeLeft(budget_us=self._hosting.start_limit_us, bank_us=0)
        timer.start([(0, limits)], self._clock.now_us())  # as the only decision, number 0
        while timer.due_us is not None:
            try:
                async with time_limit(self._clock, timer.due_us - self._clock.now_us()):
                    await asyncio.wait(
                        (self.session.connected, self._exited), return_when=asyncio.FIRST_COMPLETED
                    )
                return None
            except TimeoutError:
                # Empty if the load of the host gives the bot more time
                ends = timer.check(self._clock.now_us())
                if ends:
                    _, request_end = ends[0]
                    return request_end
        return None

    async def stop(self) -> None:
        """Stop the whole process tree, and free all resources.

        A connected bot gets Goodbye, and the grace period to exit. A Python program that still
        runs after that prints its stack for its author. All others are killed. This may be called
        at any time, and more than once.
        """
        if self._process is not None:
            await self._end_program()
        server = self._server if self._lines is None else self._lines
        await server.stop()
        self._stop_watching()
        self._stdout.finish()
        self._stderr.finish()
        self.output.close()
        if self._process is not None:
            # In a thread: it may take a moment while other games' clocks run.
            await asyncio.to_thread(self._process.close)
        self._pulse.close()

    async def _end_program(self) -> None:
        """Let the program exit, abort it after the grace period, and then kill its process tree."""
        session, grace_us = self.session, self._hosting.grace_us
        if grace_us and session.connected.done() and session.usable:
            session.close("the match is over")
            await self._wait_for_exit(grace_us)
            await self._abort()
        self._kill()
        self._leave_turns()  # thaws the bot, so that it can exit
        if self._unwatch is not None:  # still watched: `_on_exit` has not been called yet
            await self._wait_for_exit(_KILL_LIMIT_US)

    @property
    def off_turn(self) -> OffTurn:
        """The CPU time of the process outside of its turns."""
        return self.session.pauses.off_turn

    def freeze(self) -> None:
        """Freeze the bot now if no request is open; the next request thaws it."""
        if self._turns is not None and self.running:
            self._turns.freeze()

    @property
    def greeting(self) -> str:
        """The step that the bot must take before the start-up timeout, in words."""
        return "connect and send Hello" if self._lines is None else READY

    @property
    def running(self) -> bool:
        """Return True if the program was started and has not exited."""
        return self._process is not None and not self._exited.done()

    def shortage(self) -> RefereeError | None:
        """Return an error if the bot was ended for a reason of this machine, or None.

        The reasons are that the kernel ran out of memory while the bot was within its limit, and
        that the referee could not check the bot's limits.
        """
        if self._process is None:
            return None
        check_error = self._process.check_error
        if check_error is not None:
            message = f"the limits of {self.bot.name!r} cannot be checked: {check_error}"
            referee_error = RefereeError(message)
            referee_error.__cause__ = check_error
            return referee_error
        if not self._process.out_of_memory():
            return None
        limit_mib = self._hosting.limits.memory_bytes // MIB
        return HostOutOfMemory(
            f"this machine ran out of memory, and the kernel ended {self.bot.name!r}, which was "
            f"within its limit of {limit_mib} MiB"
        )

    async def exit_text(self, when: str = "", *, with_last_error: bool = True) -> str:
        """Return how the process ended, such as "exited with status 1: ValueError: no unit".

        A process that still runs gets the grace period to exit. If it does not, the text is "still
        running".

        when             a text to add to the exit status, such as " before connecting"
        with_last_error  True to add the error, or the last line, that the program has printed
        """
        if self.running:
            self._allow_exit(self._hosting.grace_us)
            await self._wait_for_exit(self._hosting.grace_us)
        if self._process is None or self._process.returncode is None:
            return "still running"
        self._stderr.finish()
        end_text = partial(self._end_text, self._process, when, with_last_error=with_last_error)
        return text_or_excuse(end_text, "how it ended")

    def _end_text(self, process: IsolatedProcess, when: str, *, with_last_error: bool) -> str:
        """Return how a process that has exited ended; for the arguments see `exit_text`."""
        assert process.returncode is not None
        status = _exit_text(process.returncode)
        exceeded_limit = process.over_limit()
        if exceeded_limit:
            status = f"{status} because it exceeded a limit ({exceeded_limit})"
        if not with_last_error:
            return f"{status}{when}"
        stderr = self.error_text()
        last_line = ""
        if process.returncode != 0:
            last_line = error_line(stderr, without_prefix=HINT)
        if not last_line:
            # Without an error, a hint of the SDK explains why the program exited early.
            last_line = error_line(stderr)
        return f"{status}{when}: {last_line}" if last_line else f"{status}{when}"

    def aborted_at_text(self) -> str:
        """Return where in its code the bot was aborted: "; it was at bot.py, line 7, in search".

        Return "" if that is not known.
        """
        self._stderr.drain()
        return last_frame_text(self.error_text())

    def error_text(self) -> str:
        """Return the last error that the bot wrote to stderr, as its author needs it."""
        return bot_error(self._stderr.tail.text(), self.bot)

    def log(self) -> tuple[str, str]:
        """Return the last output of the bot, stdout and stderr, as texts that are safe to show.

        Paths are those that the author knows. The stacks of an aborted program are shortened.
        """
        texts = []
        for stream in (self._stdout, self._stderr):
            stream.drain()
            texts.append(printable(self.bot.own_paths(stream.tail.text()), keep="\n\t"))
        stdout, stderr = texts
        return stdout, text_or_excuse(lambda: with_short_stack(stderr, self.bot.home))

    def _note(self, text: str) -> None:
        """Add a line of the referee to the stderr of a bot without the SDK, for its author."""
        self._stderr.add(f"deepsea-referee: {text}\n".encode())

    def _refuse(self, why: str) -> None:
        """Kill a bot of the lines protocol whose first line is wrong; `why` is the reason."""
        self._refusal = why
        self._kill()

    def _spawn(self, socket: Path | None, environment: dict[str, str]) -> None:
        """Start the program in its isolation, and begin to measure and freeze it.

        socket       the socket that the bot must reach; None for TCP or pipes
        environment  the variables with the address and the token

        Raises EarlyEnd if the program cannot be started, RefereeError for errors of this machine.
        """
        lines = self._lines
        stdin, stdout = subprocess.DEVNULL, self._stdout.writing
        if lines is not None:
            stdin, stdout = lines.stdin, lines.stdout
        for pipe in (stdin, stdout, self._stderr.writing):
            if pipe >= 0 and os.chmod in os.supports_fd:
                # A program may open the pipe again as /dev/stdin, in a sandbox as another user.
                os.chmod(pipe, 0o666)  # noqa: PTH101  (a descriptor)
        launch = LaunchSpec(
            command=self.bot.command,
            folder=self.bot.folder,
            environment={**environment, **self._environment()},
            socket=socket,
            stdin=stdin,
            stdout=stdout,
            stderr=self._stderr.writing,
            limits=self._hosting.limits,
            rivals=self._rivals,
        )
        try:
            process = self._process = self._hosting.isolation.spawn(launch)
            self._unwatch = process.on_exit(self._on_exit)
        except OSError as error:
            why = f"{self.bot.command[0]!r} cannot be started: {error.strerror or error}"
            raise (EarlyEnd if error.errno in _PROGRAM_ERRORS else RefereeError)(why) from None
        finally:
            self._stdout.close_writing()
            self._stderr.close_writing()
            if lines is not None:
                lines.close_theirs()
        gauge = self._hosting.gauge
        if gauge is not None:
            self.session.timer.gauge = gauge(process)
        self._turns = self._freezer.join(process) if self._hosting.freezes else None
        self.session.pauses = Pauses(process.cpu_us if gauge else None, self._turns)

    def _environment(self) -> dict[str, str]:
        """Return environment variables for the bot: those that Python reads, and its parameters."""
        environment = {
            "PYTHONUNBUFFERED": "1",  # the output is complete even if the bot is killed
            # The stack is written to stderr when the bot is aborted, or crashes in a library.
            "PYTHONFAULTHANDLER": "1",
            "PYTHONHASHSEED": "0",  # the order of sets is repeatable
        }
        if self.bot.parameters:
            environment[PARAMETERS] = self.bot.parameters
        return environment

    def _on_exit(self) -> None:
        """Kill the rest of the process tree; called when the first process has exited.

        The tree is killed before `poll` reaps the first process. Afterwards the number of its
        process group may belong to other processes.
        """
        assert self._process is not None
        self._stop_watching()
        self._leave_turns()
        self._process.kill()
        self._process.poll()
        if not self._exited.done():
            self._exited.set_result(None)

    async def _wait_for_exit(self, limit_us: int) -> None:
        """Wait until the process has exited, but not longer than the limit."""
        with contextlib.suppress(TimeoutError):
            async with time_limit(self._clock, limit_us):
                await asyncio.wait((self._exited,))

    async def _abort(self) -> None:
        """Abort a Python program that still runs, so that it writes its stack to stderr.

        Other programs are not aborted: they would only write a core file. Without a grace period
        nothing is done, since there is no time to write.
        """
        process, grace_us = self._process, self._hosting.grace_us
        is_python = Path(self.bot.command[0]).name.startswith("python")
        if process is not None and self.running and grace_us and is_python:
            self.aborted = True
            process.abort()
            await self._wait_for_exit(grace_us)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _allow_exit(self, limit_us: int) -> None:
        """Let a bot whose stream has ended run freely for some time, then freeze it for good.

        The bot needs the time to print the reason of its end, and to exit.
        """
        if not self.running or self._turns is None:
            return
        self._leave_turns()
        self._exit_alarm = self._clock.at(self._clock.now_us() + limit_us, self._freeze_for_good)

    def _freeze_for_good(self) -> None:
        """Freeze a bot that has not exited after its stream has ended."""
        if self.running and self._turns is not None:
            self._turns.rest(self._clock.now_us())

    def _leave_turns(self) -> None:
        """Thaw the bot, and freeze it no more outside of its turns."""
        if self._exit_alarm is not None:
            self._exit_alarm.cancel()
        if self._turns is not None:
            self._turns.leave()

    def _stop_watching(self) -> None:
        """Stop watching for the exit of the process."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _explain_end(self) -> BotFault | RefereeError | None:
        """Return why the referee or the machine has ended the bot, and so its stream.

        Return None if neither did: then the bot has ended its stream itself.
        """
        if self._process is None:
            return None
        exceeded_limit = self._process.over_limit()
        if exceeded_limit:
            return BotFault(Fault.RESOURCE_LIMIT, f"it exceeded a limit: {exceeded_limit}")
        return self.shortage()


def _shortage_in(message: str) -> OSError | None:
    """Return the OSError of a shortage of resources that a message names, or None.

    message  error text of a program of the sandbox, which does not tell error numbers
    """
    for code in _SHORTAGES:
        if os.strerror(code) in message:
            return OSError(code, message)
    return None


def _exit_text(returncode: int) -> str:
    """Return how a process ended: "killed by SIGKILL", or "exited with status 1"."""
    # Python reports a signal as its negative number; a sandbox or a shell as 128 plus the number.
    signal_number = -returncode if returncode < 0 else returncode - 128
    try:
        return f"killed by {signal.Signals(signal_number).name}"
    except ValueError:  # there is no such signal, so it is an exit status
        return f"exited with status {returncode}"
