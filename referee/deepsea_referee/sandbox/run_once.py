"""Runs a program at a level of isolation and waits for it: for probes and tests, not for games.

Invariants: blocks, but no longer than the timeout; closes what it opened. The output is read at
the end, so a program may print as much as a pipe holds (64 KiB).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import IsolatedProcess, Isolation, LaunchSpec, ResourceLimits

PIPE_BYTES = 65536


class RunOutcome(NamedTuple):
    """The outcome of a program."""

    ended: bool
    """Whether it exited (or was killed for exceeding a limit) before the timeout."""
    returncode: int | None
    stdout: str
    stderr: str
    over_limit: str | None
    setup_error: str | None


class ProgramRun:
    """A running program. Call `outcome` if you need it, and `close` in any case."""

    def __init__(
        self,
        isolation: Isolation,
        command: tuple[str, ...],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        socket: Path | None = None,
        limits: ResourceLimits | None = None,
    ) -> None:
        """Start it. Raises OSError if nothing could be started."""
        self._contained: IsolatedProcess | None = None
        self._out, out_end = os.pipe()
        self._err, err_end = os.pipe()
        try:
            launch = LaunchSpec(
                command,
                folder,
                environment or {},
                socket,
                out_end,
                err_end,
                limits or ResourceLimits(),
            )
            self._contained = isolation.spawn(launch)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(out_end)
            os.close(err_end)

    def outcome(self, milliseconds: int = 10_000) -> RunOutcome:
        """Wait for its exit until the timeout, kill it, and return the outcome."""
        contained = self._contained
        assert contained is not None
        ended = process_tree.wait_for_end(contained.pid, milliseconds)
        returncode = contained.poll()
        setup_error = contained.setup_error()
        over_limit = contained.over_limit()
        contained.close()
        return RunOutcome(
            ended, returncode, _rest(self._out), _rest(self._err), over_limit, setup_error
        )

    def close(self) -> None:
        """Kill it if it still runs, and leave nothing behind. May be called again."""
        if self._contained is not None:
            self._contained.close()
        for descriptor in (self._out, self._err):
            if descriptor >= 0:
                os.close(descriptor)
        self._out = self._err = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def run(
    isolation: Isolation,
    command: tuple[str, ...],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    socket: Path | None = None,
    limits: ResourceLimits | None = None,
    milliseconds: int = 10_000,
) -> RunOutcome:
    """Start a program, wait for its exit until the timeout, kill it, and return the outcome."""
    with ProgramRun(
        isolation, command, folder=folder, environment=environment, socket=socket, limits=limits
    ) as trial:
        return trial.outcome(milliseconds)


def _rest(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, PIPE_BYTES).decode("utf-8", "replace")
    return ""
