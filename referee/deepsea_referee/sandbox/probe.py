"""Checks whether the sandbox works on this machine, by trying it; the checks of `doctor`.

Invariants: the existence of a program or file proves nothing: each check is the outcome of an
attempt, inside a sandbox where that is possible. `choose` accepts a sandbox only after one was
tested from inside, once for each process; `start_test` starts that early, beside other work. What a
machine can do without is advice. `run` is for probes and tests, not for games: it blocks, but no
longer than the timeout, closes what it opened, and reads the output at the end, so a program may
print as much as a pipe holds (64 KiB).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import cache
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from deepsea_referee.sandbox import bot_users, cgroup, cleanup, probe_inside, process_tree, seccomp
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.interface import (
    MIB,
    Isolation,
    IsolationLevel,
    LaunchSpec,
    ResourceLimits,
    SandboxUnavailable,
)
from deepsea_referee.sandbox.plain_process import PlainProcess

PIPE_BYTES = 65536
TIMEOUT_MS = 10_000
LIMITS = ResourceLimits()
INSTALL = "install it: `apt-get install bubblewrap` (Debian, Ubuntu) or your system's package"
NAMESPACES_BLOCKED = (
    "this system does not let ordinary users make user namespaces. Ubuntu 23.10 or newer: load the "
    "AppArmor profile bwrap-userns-restrict (24.04: copy it from /usr/share/apparmor/extra-profiles"
    " to /etc/apparmor.d and run `apparmor_parser -r` on it). Debian: `sysctl "
    "kernel.unprivileged_userns_clone=1`. Elsewhere: user.max_user_namespaces must not be 0. In a "
    "container: it must be allowed to make namespaces and mounts"
)
TOO_LATE = "run it again when less is going on: this machine is too slow or too busy to tell"
"""The remedy of a check that ran out of time, which says nothing else."""
FOR_DEVELOPERS = "this should not happen: please report it with the output of `doctor --json`"


class Check(NamedTuple):
    """One line of `doctor`."""

    name: str
    meaning: str
    """The purpose of the check: what it protects or proves."""
    remedy: str = FOR_DEVELOPERS
    """The remedy if the check fails."""
    needed: bool = True
    """True if a complete sandbox needs it; False if the check only gives advice."""
    ok: bool = False
    found: str = ""


_CHECKS = (
    Check(
        "platform",
        "the sandbox is made of Linux's namespaces and a filter for x86_64 and aarch64",
        "use --isolation process for your own bots, or run the referee on such a machine",
    ),
    Check(
        "sockets",
        "bots connect through a private folder with a short and plain path, whatever TMPDIR is",
        "make /tmp writable, or set XDG_RUNTIME_DIR to a folder of the referee's user",
    ),
    Check(
        "programs",
        "bubblewrap builds the sandbox, util-linux sets its limits",
        "install the package util-linux",
    ),
    Check(
        "a sandbox starts",
        "a program was run in one",
        "run `deepsea-referee doctor` as the user who runs the referee; see docs/security.md",
    ),
    Check(
        "Python runs inside",
        "bots need the interpreter that runs the referee",
        "the sandbox's user must be able to read the interpreter and its environment: "
        f"{sys.executable}",
    ),
    Check(
        "own namespaces",
        "processes, network, file system and names of this machine and other bots are hidden",
    ),
    Check("no privileges", "an ordinary user without capabilities, and no way to get any"),
    Check(
        "system call filter",
        "only Unix sockets; no tracing, keyrings, namespaces, mounts or risky kernel interfaces",
        "the kernel must have CONFIG_SECCOMP_FILTER; else " + FOR_DEVELOPERS,
    ),
    Check("read-only", "only a small private /tmp is writable"),
    Check(
        "nothing inherited",
        "no environment and no open file of the referee is visible to a bot",
    ),
    Check(
        "process limit",
        "processes and threads are counted for each sandbox, not for the whole user",
        "Linux 5.14 or newer is needed",
    ),
    Check(
        "bots can run",
        "a bot in the sandbox can import the SDK and gRPC",
        "install the SDK where the referee runs: `pip install deepsea-referee`; the "
        "sandbox's user must be able to read it",
    ),
    Check("memory limit", "a bot that exceeds its memory limit is killed"),
    Check("whole tree is killed", "a daemon that left its session is killed with the bot"),
    Check(
        "a user for each bot",
        "a bot cannot use up what the kernel counts for each user: descriptors sent through "
        "sockets, pages of pipes",
        "give the referee's user subordinate ones (`usermod --add-subuids 200000-265535 "
        "--add-subgids 200000-265535 NAME`) and install newuidmap (`apt-get install "
        "uidmap`); or run the referee as root, on a machine that holds nothing else, and "
        "with --bot-uids FIRST-LAST if the users of the default range exist",
        needed=False,
    ),
    Check(
        "control groups",
        "the kernel limits each bot's memory, freezes it, gives it its share of the CPU and "
        "counts the CPU time of all its processes; otherwise a watchdog, signals and a sum over "
        "the processes that are left are used, and rated games are charged by the wall clock",
        "as a service: `Delegate=cpu memory pids` and `OOMPolicy=continue` in its unit. If "
        "controllers are missing then: write `[Service]` and `Delegate=cpu memory pids` to "
        "/etc/systemd/system/user@.service.d/delegate.conf and log in again. cgroup v1 "
        "beside v2: as root, `mkdir /sys/fs/cgroup/{memory,pids,cpu,unified}/deepsea` and "
        "chown these folders and the files in them to the referee's user",
    ),
    Check(
        "CPU pressure",
        "the kernel counts the time in which a bot had no CPU, so that a busy host differs from a "
        "bot whose threads wait; otherwise at most the sum of its threads' waits is not charged",
        "Linux 5.13 or newer with PSI (`psi=1` on the kernel's command line) and cgroup "
        "v2, also without controllers beside version 1, where the referee can make groups",
        needed=False,
    ),
    Check(
        "compiled libraries",
        "a bot cannot write compiled Python files; without them it starts 0.4 s later",
        f"run `{sys.executable} -m compileall -q {sys.prefix}` (uv: --compile-bytecode)",
        needed=False,
    ),
)


def _check(name: str, ok: bool, found: str = "", remedy: str = "") -> Check:
    """Return the outcome of a check; `remedy` replaces its usual remedy if it is not empty."""
    check = next(check for check in _CHECKS if check.name == name)
    return check._replace(ok=ok, found=found, remedy=remedy or check.remedy)


def _outcome_check(
    name: str, outcome: RunOutcome, ok: bool, found: str = "", remedy: str = ""
) -> Check:
    """Return the outcome of a check that has run a program, as `_check` does.

    If the check failed because the program ran out of time, its finding and its remedy say so, and
    nothing else.
    """
    if not ok and outcome.was_late:
        return _check(name, ok=False, found=f"no answer in {TIMEOUT_MS // 1000} s", remedy=TOO_LATE)
    return _check(name, ok, found, remedy)


# Choosing


@contextmanager
def start_test(level: IsolationLevel) -> Iterator[Ending | None]:
    """Start the test program in a sandbox early, so that `choose` need not wait for it as long.

    Yields the running test, to be passed to `choose`. Yields None if no test was started: it is not
    needed for the level, or cannot be started here.
    """
    with ExitStack() as stack:
        test = None
        if level != "process" and _platform().ok and _programs().ok:
            with suppress(OSError):  # `choose` will have the same error, and report it
                test = stack.enter_context(_look_inside())
        yield test


def choose(level: IsolationLevel, test: Ending | None = None) -> Isolation:
    """Return the isolation for a level; `auto` is the sandbox if it works, else plain processes.

    Raises SandboxUnavailable with the remedy if the level is `sandbox` and no sandbox works.

    test  the running test of a sandbox from `start_test`; None to start one if it is needed
    """
    if level == "process":
        return PlainProcess()
    failed_check = sandbox_trouble(test)
    if failed_check is None:
        return Sandbox()
    if level == "sandbox":
        reason = failed_check.found or failed_check.name
        raise SandboxUnavailable(f"no sandbox here: {reason}. {failed_check.remedy}")
    return PlainProcess()


@cache
def sandbox_trouble(test: Ending | None = None) -> Check | None:
    """Return the first failed check of confinement; None if all pass. It is tested only once."""
    return next((check for check in confinement(test) if not check.ok), None)


# The checks


def checks() -> list[Check]:
    """Make all checks that `doctor` prints, and return them in the order in which it prints them.

    Checks that need a working sandbox are left out if there is none.
    """
    results = list(confinement())
    if complete(results):
        results += [_bots_run(), _memory_bound(), _whole_tree_ends()]
    hierarchies = cgroup.hierarchies()
    results += [users_check(), control_groups_check(hierarchies), pressure_check(hierarchies)]
    return [*results, _libraries_compiled()]


def complete(found: list[Check]) -> bool:
    """Return True if no needed check has failed, so that untrusted bots may run here."""
    return not _failed(found)


def verdict(checks: list[Check]) -> str:
    """Return the last line of `doctor`, which sums up the checks for the user."""
    failed_checks = _failed(checks)
    if not failed_checks:
        return "the sandbox is complete: --isolation sandbox"
    if failed_checks == ["control groups"]:
        return (
            "the sandbox works (--isolation sandbox) but is not complete: for bots of "
            "strangers, have control groups"
        )
    return "no complete sandbox: run only bots that you trust, with --isolation process"


def _failed(found: list[Check]) -> list[str]:
    """Return the names of the needed checks that have failed."""
    return [check.name for check in found if check.needed and not check.ok]


def confinement(test: Ending | None = None) -> Iterator[Check]:
    """Make the checks that a sandbox must pass, and yield them.

    Without a basic requirement (the first three checks) no sandbox can start, so it stops there.

    test  the running test of a sandbox from `start_test`; None to start one now
    """
    for basic_check in (_platform(), _sockets(), _programs()):
        yield basic_check
        if not basic_check.ok:
            return

    def running_test() -> AbstractContextManager[Ending]:
        return _look_inside() if test is None else nullcontext(test)

    # The test program prints facts that it has found out inside of the sandbox.
    test_outcome = _run_to_end(running_test)
    try:
        facts = json.loads(test_outcome.stdout)
    except ValueError:
        facts = None
    if facts:
        yield _start_check(test_outcome)
        yield from _judge(facts)
        return
    # The test failed. A program other than Python shows whether the sandbox is the cause.
    start_check = _start_check(_run_to_end(lambda: started(Sandbox(), ("true",))))
    yield start_check
    if start_check.ok:
        error_line = _error_line(test_outcome)
        yield _outcome_check("Python runs inside", test_outcome, ok=False, found=error_line)


def _start_check(outcome: RunOutcome) -> Check:
    """Check by the outcome of a program in a sandbox that the sandbox starts."""
    if outcome.returncode == 0:
        return _check("a sandbox starts", ok=True)
    found, remedy = _error_line(outcome), _remedy_for(outcome.stderr)
    return _outcome_check("a sandbox starts", outcome, ok=False, found=found, remedy=remedy)


def _look_inside() -> AbstractContextManager[Ending]:
    """Start the test program in a sandbox; it tries more threads than are allowed."""
    return started(Sandbox(), _test_program("print_facts", str(2 * LIMITS.processes)))


def _run_to_end(start: Callable[[], AbstractContextManager[Ending]]) -> RunOutcome:
    """Start a program by `start`, wait for its exit, and return the outcome.

    A program that cannot be started has an outcome, too, with the reason in `setup_error`.
    """
    try:
        with start() as wait_for_outcome:
            return wait_for_outcome()
    except OSError as error:
        return RunOutcome(
            ended=False,
            returncode=None,
            stdout="",
            stderr=str(error),
            over_limit=None,
            setup_error=str(error),
        )


def _error_line(outcome: RunOutcome) -> str:
    """Return the last line of a program's stderr, or its exit status if it has written nothing."""
    lines = outcome.stderr.strip().splitlines()
    return lines[-1] if lines else f"status {outcome.returncode}"


def _platform() -> Check:
    """Check that the system is Linux on a machine that the system call filter supports."""
    machine = platform.machine()
    fits = sys.platform == "linux" and machine in seccomp.ARCHITECTURES
    return _check("platform", fits, f"{platform.system()} {platform.release()} on {machine}")


def _sockets() -> Check:
    """Check that a folder for sockets can be created."""
    try:
        folder = cleanup.socket_folder()
    except OSError as error:
        return _check("sockets", ok=False, found=str(error.strerror))
    cleanup.remove_folder(folder)
    return _check("sockets", ok=True, found=f"in {folder.parent}")


def _programs() -> Check:
    """Check that the programs with which a sandbox is started are installed."""
    names = ["bwrap", "prlimit", "sh"]
    if bot_users.is_root():  # bots run as other users then
        names += ["setpriv", "unshare", "mount"]
    missing = [name for name in names if not shutil.which(name, path=bot_users.TOOL_PATH)]
    found = f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(names)}"
    # All others have one package, which the usual remedy names.
    remedy = INSTALL if "bwrap" in missing else ""
    return _check("programs", not missing, found, remedy)


def _remedy_for(message: str) -> str:
    """Return the remedy for an error message of bubblewrap; "" for an unknown one."""
    if "size" in message or "Unknown option" in message:  # it does not know the option --size
        return "bubblewrap is too old: 0.7 or newer is needed"
    # Words of its messages when the kernel or AppArmor does not let it set up namespaces.
    blocked_steps = ("namespace", "uid map", "RTM_NEWADDR", "unshare", "mount")
    if any(step in message for step in blocked_steps):
        return NAMESPACES_BLOCKED
    return ""


def _judge(facts: dict[str, Any]) -> Iterator[Check]:
    """Yield the checks of the facts that the test program has printed inside of a sandbox."""
    outside = probe_inside.own_namespaces()
    shared = [name for name, number in facts["namespaces"].items() if number == outside[name]]
    yield _check(
        "own namespaces",
        not shared and len(facts["processes"]) == 2 and facts["interfaces"] == ["lo"],
        f"shared with this machine: {', '.join(shared)}" if shared else "",
    )
    yield _check(
        "no privileges",
        facts["outside_uid"] != 0
        and all(int(mask, 16) == 0 for mask in facts["capabilities"])
        and facts["no_new_privileges"] == "1",
        "" if bot_users.in_namespace() else f"user {facts['outside_uid']} of this machine",
    )
    yield _check(
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
    )
    refusals = {facts["write_root"], facts["write_system"], facts["write_own_file"]}
    yield _check("read-only", refusals <= {"EROFS", "EACCES"} and facts["write_tmp"] == "")
    yield _check(
        "nothing inherited",
        facts["first_process"] == [] and set(facts["descriptors"]) <= {0, 1, 2, 3},
    )
    allowed = LIMITS.processes
    yield _check(
        "process limit",
        allowed // 2 <= facts["threads"] < allowed,
        f"{facts['threads']} threads started, {allowed} are allowed",
    )


def _bots_run() -> Check:
    """Check that a Python bot can import the SDK in a sandbox."""
    outcome = run(Sandbox(), (sys.executable, "-c", "import deepsea_sdk.client"))
    works = outcome.returncode == 0
    return _outcome_check("bots can run", outcome, works, "" if works else _error_line(outcome))


def _memory_bound() -> Check:
    """Check that a program is killed if it uses more memory than its limit."""
    limits = ResourceLimits(memory_bytes=64 * MIB)
    outcome = run(Sandbox(), _test_program("take_memory"), limits=limits)
    enforced_by = "a control group" if cgroup.hierarchies().memory else "the watchdog"
    was_killed = outcome.over_limit is not None
    return _outcome_check("memory limit", outcome, was_killed, f"64 MiB by {enforced_by}")


def _whole_tree_ends() -> Check:
    """Check that a daemon is killed together with the program that has started it."""
    outcome = run(Sandbox(), _test_program("leave_daemon"))
    return _outcome_check("whole tree is killed", outcome, outcome.is_silent)


def users_check() -> Check:
    """Check that each bot runs as a user of its own; if not, say as which user all of them run."""
    users = bot_users.own_users()
    if users is not None:
        found = f"bots run as users {users.range}, which are nobody else's"
    elif bot_users.is_root():
        found = f"every bot runs as nobody: {bot_users.requested_range().trouble()}"
    else:
        found = "every bot runs as the user who runs the referee"
    return _check("a user for each bot", users is not None, found)


def control_groups_check(hierarchies: cgroup.Hierarchies) -> Check:
    """Check that control groups can be used for everything that the sandbox does with them.

    The remedy begins with the command that starts the referee in a control group of its own.
    """
    missing = hierarchies.missing()
    found = f"missing for: {', '.join(missing)}" if missing else "used for all"
    if missing and hierarchies.refused:
        found = f"{found}: {hierarchies.refused}"
    check = _check("control groups", not missing, found)
    remedy = f"start it with {own_scope(os.geteuid(), os.environ)}; {check.remedy}"
    return check._replace(remedy=remedy)


def own_scope(user: int, environment: Mapping[str, str], users: Path = Path("/run/user")) -> str:
    """Return advice how to start the referee in a control group of its own, by systemd.

    The advice is the command, and what must be done before it or lets it run after a logout.

    user         the number of the user who runs the referee
    environment  the user's environment
    users        the folder with a folder for each user who has a systemd manager
    """
    if user == 0:
        return "`systemd-run --scope -p Delegate=yes deepsea-referee ...`"
    start_command = "`systemd-run --user --scope -p Delegate=yes deepsea-referee ...`"
    # With this, systemd keeps a manager for the user also while nobody is logged in.
    linger_command = f"`loginctl enable-linger {user}`"
    if environment.get("XDG_RUNTIME_DIR"):
        return f"{start_command}, which ends when you log out, unless root has run {linger_command}"
    preparation = f"`export XDG_RUNTIME_DIR={users}/{user}`, which su and sudo leave out"
    try:
        has_manager = (users / str(user)).is_dir()
    except PermissionError:  # in a service with ProtectHome=
        has_manager = False
    if not has_manager:
        preparation = f"{linger_command} as root, then {preparation}"
    return f"{start_command}, after {preparation}"


def pressure_check(hierarchies: cgroup.Hierarchies) -> Check:
    """Check that the kernel counts for how long a bot as a whole was denied a CPU."""
    counted = hierarchies.pressure is not None
    found = "" if counted else "no group here has a cpu.pressure with a line `full`"
    return _check("CPU pressure", counted, found)


def _libraries_compiled() -> Check:
    """Check that Python has compiled the installed libraries, by the example of grpc."""
    spec = find_spec("grpc")
    source_file = spec.origin if spec else None
    is_compiled = source_file is not None and Path(cache_from_source(source_file)).is_file()
    return _check("compiled libraries", is_compiled)


# Running one program


def _test_program(*arguments: str) -> tuple[str, ...]:
    """Return the command of the test program, which runs without installed packages."""
    return (sys.executable, "-I", "-S", "-B", probe_inside.__file__, *arguments)


class RunOutcome(NamedTuple):
    """The outcome of a program that was run in an isolation."""

    ended: bool
    """True if it exited, or was killed for exceeding a limit, before the timeout."""
    returncode: int | None
    stdout: str
    stderr: str
    over_limit: str | None
    setup_error: str | None
    is_silent: bool = True
    """True if no process remains that could still write to stdout."""

    @property
    def was_late(self) -> bool:
        """Return True if the program ran until the timeout."""
        return not self.ended and self.setup_error is None


Ending: TypeAlias = Callable[[], RunOutcome]
"""Waits for the exit of a program that was started, and kills it after the timeout."""


@contextmanager
def started(
    isolation: Isolation, command: tuple[str, ...], *, milliseconds: int = TIMEOUT_MS, **launch: Any
) -> Iterator[Ending]:
    """Start a program, which is killed at the end of the `with` block.

    Yields a function that waits for the exit, up to the timeout, and returns the outcome.

    milliseconds  the timeout
    launch        further fields of LaunchSpec

    Raises OSError if the program cannot be started.
    """
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    try:
        try:
            spec = LaunchSpec(command, None, {}, None, out_end, err_end)._replace(**launch)
            contained = isolation.spawn(spec)
        finally:
            os.close(out_end)
            os.close(err_end)

        def end() -> RunOutcome:
            """Wait for the program's exit or the timeout, kill what remains, read the output."""
            ended = process_tree.wait_for_end(contained.pid, milliseconds)
            returncode = contained.poll()
            setup_error, over_limit = contained.setup_error(), contained.over_limit()
            contained.close()  # kills what remains
            stdout, is_silent = _read_rest(out)
            stderr, _is_at_end = _read_rest(err)
            return RunOutcome(ended, returncode, stdout, stderr, over_limit, setup_error, is_silent)

        with closing(contained):
            yield end
    finally:
        os.close(out)
        os.close(err)


def run(isolation: Isolation, command: tuple[str, ...], **options: Any) -> RunOutcome:
    """Start a program as `started` does, wait for its exit, and return the outcome."""
    with started(isolation, command, **options) as end:
        return end()


def _read_rest(descriptor: int) -> tuple[str, bool]:
    """Read what is in a pipe, without waiting for more.

    Returns the text, and True if the pipe is at its end: no process has its other end open.
    """
    os.set_blocking(descriptor, False)
    content = b""
    is_at_end = False
    with suppress(BlockingIOError):  # the pipe is empty, but a process may still write to it
        while part := os.read(descriptor, PIPE_BYTES):
            content += part
        is_at_end = True
    return content.decode("utf-8", "replace"), is_at_end
