"""Checks whether the sandbox works on this machine, by trying it.

Invariants: the existence of a program or file proves nothing; every check that can run inside a
sandbox runs inside one. `choose` accepts a sandbox only after one was tested from inside, once for
each process; `look` starts that test early, beside other work. Each check says what it means and,
if it failed, what to do. `run` is for probes and tests, not for games: it blocks, but no longer
than the timeout, closes what it opened, and reads the output at the end, so a program may print as
much as a pipe holds (64 KiB).
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import cache
from typing import Any, NamedTuple

from deepsea_referee.sandbox import bot_users, probe_inside, process_tree, seccomp
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.interface import (
    IsolatedProcess,
    Isolation,
    IsolationLevel,
    LaunchSpec,
    ResourceLimits,
    SandboxUnavailable,
)
from deepsea_referee.sandbox.plain_process import PlainProcess

PIPE_BYTES = 65536
INSTALL = "install it: `apt-get install bubblewrap` (Debian, Ubuntu) or your system's package"
NAMESPACES_BLOCKED = (
    "this system does not let ordinary users make user namespaces. Ubuntu 23.10 or newer: load the "
    "AppArmor profile bwrap-userns-restrict (24.04: copy it from /usr/share/apparmor/extra-profiles"
    " to /etc/apparmor.d and run `apparmor_parser -r` on it). Debian: `sysctl "
    "kernel.unprivileged_userns_clone=1`. Elsewhere: user.max_user_namespaces must not be 0. In a "
    "container: it must be allowed to make namespaces and mounts"
)
FOR_DEVELOPERS = "this should not happen: please report it with the output of `doctor --json`"


class Check(NamedTuple):
    """One line of `doctor`."""

    name: str
    ok: bool
    meaning: str
    """What it protects or proves."""
    found: str = ""
    remedy: str = ""
    """What to do if it is not ok."""
    needed: bool = True
    """Whether a complete sandbox needs it; the rest is advice."""


def look(level: IsolationLevel) -> AbstractContextManager[ProgramRun | None]:
    """Start the test of a sandbox early: `with look(level) as begun: ... choose(level, begun)`."""
    if level == "process" or not all(basic.ok for basic in (_platform(), _programs())):
        return nullcontext()
    try:
        return closing(_look_inside(ResourceLimits()))
    except OSError:  # `choose` will get it too, and report it
        return nullcontext()


def choose(level: IsolationLevel, begun: ProgramRun | None = None) -> Isolation:
    """Select the isolation for a level; `auto` is the best that works here.

    Raises SandboxUnavailable with the remedy if `sandbox` is asked for and does not work.
    """
    if level == "process":
        return PlainProcess()
    trouble = sandbox_trouble() if begun is None else _first_trouble(begun)
    if trouble is None:
        return Sandbox()
    if level == "sandbox":
        found = trouble.found or trouble.name
        raise SandboxUnavailable(f"no sandbox here: {found}. {trouble.remedy}")
    return PlainProcess()


@cache
def sandbox_trouble() -> Check | None:
    """The first failed check of confinement; None if all pass."""
    return _first_trouble()


def _first_trouble(begun: ProgramRun | None = None) -> Check | None:
    return next((check for check in confinement(begun) if not check.ok), None)


def confinement(begun: ProgramRun | None = None) -> Iterator[Check]:
    """The checks that a sandbox must pass; stops at the first basic failure."""
    for basic in (_platform(), _programs()):
        yield basic
        if not basic.ok:
            return
    limits = ResourceLimits()
    looked = _outcome(lambda: begun or _look_inside(limits))
    try:
        facts = json.loads(looked.stdout)
    except ValueError:
        facts = None
    # If the test failed, find out whether the cause is the sandbox or Python.
    starts = _starts(
        looked if facts else _outcome(lambda: ProgramRun(Sandbox(), ("true",), limits=limits))
    )
    yield starts
    if facts:
        yield from _judge(facts, limits)
    elif starts.ok:
        yield Check(
            "Python runs inside",
            False,
            "bots need the interpreter that runs the referee",
            last_words(looked),
            "the sandbox's user must be able to read the interpreter and its environment: "
            f"{sys.executable}",
        )


def _look_inside(limits: ResourceLimits) -> ProgramRun:
    # Without site-packages: the test is about the sandbox, not the Python environment.
    command = (sys.executable, "-I", "-S", "-B", probe_inside.__file__, str(2 * limits.processes))
    return ProgramRun(Sandbox(), command, limits=limits)


def _outcome(begin: Callable[[], ProgramRun]) -> RunOutcome:
    try:
        with closing(begin()) as begun:
            return begun.outcome()
    except OSError as error:
        return RunOutcome(False, None, "", str(error), None, str(error))


def last_words(outcome: RunOutcome) -> str:
    lines = outcome.stderr.strip().splitlines()
    return lines[-1] if lines else f"status {outcome.returncode}"


def _platform() -> Check:
    machine = platform.machine()
    return Check(
        "platform",
        sys.platform == "linux" and machine in seccomp.ARCHITECTURES,
        "the sandbox is made of Linux's namespaces and a filter for x86_64 and aarch64",
        f"{platform.system()} {platform.release()} on {machine}",
        "use --isolation process for your own bots, or run the referee on such a machine",
    )


def _programs() -> Check:
    names = ["bwrap", "prlimit", "sh"]
    if bot_users.is_root():
        names += ["setpriv", "unshare", "mount"]
    missing = [name for name in names if not shutil.which(name, path=bot_users.TOOL_PATH)]
    return Check(
        "programs",
        not missing,
        "bubblewrap builds the sandbox, util-linux sets its limits",
        f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(names)}",
        INSTALL if "bwrap" in missing else "install the package util-linux",
    )


def _starts(outcome: RunOutcome) -> Check:
    return Check(
        "a sandbox starts",
        outcome.returncode == 0,
        "a program was run in one",
        "" if outcome.returncode == 0 else last_words(outcome),
        _remedy_for(outcome.stderr),
    )


def _remedy_for(words: str) -> str:
    if "size" in words or "Unknown option" in words:
        return "bubblewrap is too old: 0.7 or newer is needed"
    if any(sign in words for sign in ("namespace", "uid map", "RTM_NEWADDR", "unshare", "mount")):
        return NAMESPACES_BLOCKED
    return "run `deepsea-referee doctor` as the user who runs the referee; see docs/security.md"


def _judge(facts: dict[str, Any], limits: ResourceLimits) -> Iterator[Check]:
    outside = probe_inside.own_namespaces()
    shared = [name for name, number in facts["namespaces"].items() if number == outside[name]]
    yield Check(
        "own namespaces",
        not shared and len(facts["processes"]) == 2 and facts["interfaces"] == ["lo"],
        "processes, network, file system and names of this machine and other bots are hidden",
        f"shared with this machine: {', '.join(shared)}" if shared else "",
        FOR_DEVELOPERS,
    )
    yield Check(
        "no privileges",
        facts["outside_uid"] != 0
        and all(int(mask, 16) == 0 for mask in facts["capabilities"])
        and facts["no_new_privileges"] == "1",
        "an ordinary user without capabilities, and no way to get any",
        "" if bot_users.in_namespace() else f"user {facts['outside_uid']} of this machine",
        FOR_DEVELOPERS,
    )
    yield Check(
        "system call filter",
        facts["filtered"] == "2"
        and facts["internet_socket"] == facts["vsock_socket"] == "EAFNOSUPPORT"
        and facts["unix_socket"] == ""
        and facts["calls"]
        == {
            "unshare": "EPERM",
            "add_key": "EPERM",
            "clone3": "ENOSYS",
            "io_uring_setup": "ENOSYS",
            "beyond": "ENOSYS",
        },
        "only Unix sockets; no tracing, keyrings, namespaces, mounts or risky kernel interfaces",
        "",
        "the kernel must have CONFIG_SECCOMP_FILTER; else " + FOR_DEVELOPERS,
    )
    refusals = {facts["write_root"], facts["write_system"], facts["write_own_file"]}
    yield Check(
        "read-only",
        refusals <= {"EROFS", "EACCES"} and facts["write_tmp"] == "",
        "only a small private /tmp is writable",
        "",
        FOR_DEVELOPERS,
    )
    yield Check(
        "nothing inherited",
        facts["first_process"] == [] and set(facts["descriptors"]) <= {0, 1, 2, 3},
        "no environment and no open file of the referee is visible to a bot",
        "",
        FOR_DEVELOPERS,
    )
    most = limits.processes
    yield Check(
        "process limit",
        most // 2 <= facts["threads"] < most,
        "processes and threads are counted for each sandbox, not for the whole user",
        f"{facts['threads']} threads started, {most} are allowed",
        "Linux 5.14 or newer is needed",
    )


# Running one program


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
        **launch: Any,
    ) -> None:
        """Start it; `launch` has other fields of the LaunchSpec. Raises OSError if that fails."""
        self._contained: IsolatedProcess | None = None
        self._out, out_end = os.pipe()
        self._err, err_end = os.pipe()
        try:
            spec = LaunchSpec(command, None, {}, None, out_end, err_end)._replace(**launch)
            self._contained = isolation.spawn(spec)
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


def run(
    isolation: Isolation, command: tuple[str, ...], *, milliseconds: int = 10_000, **launch: Any
) -> RunOutcome:
    """Start a program, wait for its exit until the timeout, kill it, and return the outcome."""
    with closing(ProgramRun(isolation, command, **launch)) as trial:
        return trial.outcome(milliseconds)


def _rest(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, PIPE_BYTES).decode("utf-8", "replace")
    return ""
