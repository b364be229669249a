"""Checks whether the sandbox works on this machine, by trying it; the checks of `doctor`.

Invariants: the existence of a program or file proves nothing: each check is the outcome of an
attempt, inside a sandbox where that is possible. `choose` accepts a sandbox only after one was
tested from inside, once for each process; `look` starts that test early, beside other work. What a
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
    """What it protects or proves."""
    remedy: str = FOR_DEVELOPERS
    """What to do if it is not ok."""
    needed: bool = True
    """Whether a complete sandbox needs it; the rest is advice."""
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
    """The outcome of a check, perhaps with a better remedy than the usual one."""
    check = next(check for check in _CHECKS if check.name == name)
    return check._replace(ok=ok, found=found, remedy=remedy or check.remedy)


def _outcome_check(
    name: str, outcome: RunOutcome, ok: bool, found: str = "", remedy: str = ""
) -> Check:
    """The outcome of a check that ran a program: a timeout shows nothing but itself."""
    if not ok and outcome.was_late:
        return _check(name, False, f"no answer in {TIMEOUT_MS // 1000} s", TOO_LATE)
    return _check(name, ok, found, remedy)


# Choosing


@contextmanager
def look(level: IsolationLevel) -> Iterator[Ending | None]:
    """Start the test of a sandbox early: `with look(level) as begun: ... choose(level, begun)`."""
    with ExitStack() as stack:
        begun = None
        if level != "process" and _platform().ok and _programs().ok:
            with suppress(OSError):  # `choose` will get it too, and report it
                begun = stack.enter_context(_look_inside())
        yield begun


def choose(level: IsolationLevel, begun: Ending | None = None) -> Isolation:
    """Select the isolation for a level; `auto` is the best that works here.

    Raises SandboxUnavailable with the remedy if `sandbox` is asked for and does not work.
    """
    if level == "process":
        return PlainProcess()
    trouble = sandbox_trouble(begun)
    if trouble is None:
        return Sandbox()
    if level == "sandbox":
        found = trouble.found or trouble.name
        raise SandboxUnavailable(f"no sandbox here: {found}. {trouble.remedy}")
    return PlainProcess()


@cache
def sandbox_trouble(begun: Ending | None = None) -> Check | None:
    """The first failed check of confinement; None if all pass."""
    return next((check for check in confinement(begun) if not check.ok), None)


# The checks


def checks() -> list[Check]:
    """Everything that `doctor` prints, in its order."""
    found = list(confinement())
    if complete(found):
        found += [_bots_run(), _memory_bound(), _whole_tree_ends()]
    places = cgroup.hierarchies()
    groups = (control_groups_check(places), pressure_check(places))
    return [*found, users_check(), *groups, _compiled()]


def complete(found: list[Check]) -> bool:
    """Whether untrusted bots may be run here."""
    return not _failed(found)


def verdict(found: list[Check]) -> str:
    """The last line of `doctor`."""
    match _failed(found):
        case []:
            return "the sandbox is complete: --isolation sandbox"
        case ["control groups"]:
            return (
                "the sandbox works (--isolation sandbox) but is not complete: for bots of "
                "strangers, have control groups"
            )
    return "no complete sandbox: run only bots that you trust, with --isolation process"


def _failed(found: list[Check]) -> list[str]:
    return [check.name for check in found if check.needed and not check.ok]


def confinement(begun: Ending | None = None) -> Iterator[Check]:
    """The checks that a sandbox must pass; stops at the first basic failure."""
    for basic in (_platform(), _sockets(), _programs()):
        yield basic
        if not basic.ok:
            return
    looked = _outcome(lambda: nullcontext(begun) if begun else _look_inside())
    try:
        facts = json.loads(looked.stdout)
    except ValueError:
        facts = None
    # If the test failed, find out whether the cause is the sandbox or Python.
    start = looked if facts else _outcome(lambda: started(Sandbox(), ("true",)))
    starts = start.returncode == 0
    remedy = "" if starts else _remedy_for(start.stderr)
    found = "" if starts else _last_words(start)
    yield _outcome_check("a sandbox starts", start, starts, found, remedy)
    if facts:
        yield from _judge(facts)
    elif starts:
        yield _outcome_check("Python runs inside", looked, False, _last_words(looked))


def _look_inside() -> AbstractContextManager[Ending]:
    return started(Sandbox(), _test_program("print_facts", str(2 * LIMITS.processes)))


def _outcome(start: Callable[[], AbstractContextManager[Ending]]) -> RunOutcome:
    try:
        with start() as end:
            return end()
    except OSError as error:
        return RunOutcome(False, None, "", str(error), None, str(error))


def _last_words(outcome: RunOutcome) -> str:
    lines = outcome.stderr.strip().splitlines()
    return lines[-1] if lines else f"status {outcome.returncode}"


def _platform() -> Check:
    machine = platform.machine()
    fits = sys.platform == "linux" and machine in seccomp.ARCHITECTURES
    return _check("platform", fits, f"{platform.system()} {platform.release()} on {machine}")


def _sockets() -> Check:
    try:
        folder = cleanup.socket_folder()
    except OSError as error:
        return _check("sockets", False, str(error.strerror))
    cleanup.remove_folder(folder)
    return _check("sockets", True, f"in {folder.parent}")


def _programs() -> Check:
    names = ["bwrap", "prlimit", "sh"]
    if bot_users.is_root():
        names += ["setpriv", "unshare", "mount"]
    missing = [name for name in names if not shutil.which(name, path=bot_users.TOOL_PATH)]
    found = f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(names)}"
    return _check("programs", not missing, found, INSTALL if "bwrap" in missing else "")


def _remedy_for(words: str) -> str:
    """The remedy for an error of bubblewrap; nothing for an unknown one."""
    if "size" in words or "Unknown option" in words:
        return "bubblewrap is too old: 0.7 or newer is needed"
    if any(sign in words for sign in ("namespace", "uid map", "RTM_NEWADDR", "unshare", "mount")):
        return NAMESPACES_BLOCKED
    return ""


def _judge(facts: dict[str, Any]) -> Iterator[Check]:
    """The checks of what the test program has found inside a sandbox."""
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
    most = LIMITS.processes
    yield _check(
        "process limit",
        most // 2 <= facts["threads"] < most,
        f"{facts['threads']} threads started, {most} are allowed",
    )


def _bots_run() -> Check:
    outcome = run(Sandbox(), (sys.executable, "-c", "import deepsea_sdk.client"))
    works = outcome.returncode == 0
    return _outcome_check("bots can run", outcome, works, "" if works else _last_words(outcome))


def _memory_bound() -> Check:
    limits = ResourceLimits(memory_bytes=64 * MIB)
    outcome = run(Sandbox(), _test_program("take_memory"), limits=limits)
    keeper = "a control group" if cgroup.hierarchies().memory else "the watchdog"
    is_bounded = outcome.over_limit is not None
    return _outcome_check("memory limit", outcome, is_bounded, f"64 MiB by {keeper}")


def _whole_tree_ends() -> Check:
    outcome = run(Sandbox(), _test_program("leave_daemon"))
    return _outcome_check("whole tree is killed", outcome, outcome.is_silent)


def users_check() -> Check:
    own = bot_users.own_users()
    if own is not None:
        found = f"bots run as users {own.range}, which are nobody else's"
    elif bot_users.is_root():
        found = f"every bot runs as nobody: {bot_users.wanted().trouble()}"
    else:
        found = "every bot runs as the user who runs the referee"
    return _check("a user for each bot", own is not None, found)


def control_groups_check(places: cgroup.Hierarchies) -> Check:
    """What control groups do here, and how to get those that are missing."""
    missing = places.missing()
    found = f"missing for: {', '.join(missing)}" if missing else "used for all"
    if missing and places.refused:
        found = f"{found}: {places.refused}"
    usual = _check("control groups", not missing, found)
    remedy = f"start it with {own_scope(os.geteuid(), os.environ)}; {usual.remedy}"
    return usual._replace(remedy=remedy)


def own_scope(user: int, environment: Mapping[str, str], users: Path = Path("/run/user")) -> str:
    """The command that gives the referee a delegated group of its own, and what it needs.

    users  has a folder for each user who has a manager of systemd's
    """
    if user == 0:
        return "`systemd-run --scope -p Delegate=yes deepsea-referee ...`"
    scope = "`systemd-run --user --scope -p Delegate=yes deepsea-referee ...`"
    stays = f"`loginctl enable-linger {user}`"
    if environment.get("XDG_RUNTIME_DIR"):
        return f"{scope}, which ends when you log out, unless root has run {stays}"
    before = f"`export XDG_RUNTIME_DIR={users}/{user}`, which su and sudo leave out"
    if not (users / str(user)).is_dir():
        before = f"{stays} as root, then {before}"
    return f"{scope}, after {before}"


def pressure_check(places: cgroup.Hierarchies) -> Check:
    """Whether the kernel says what a bot as a whole was denied."""
    counted = places.pressure is not None
    found = "" if counted else "no group here has a cpu.pressure with a line `full`"
    return _check("CPU pressure", counted, found)


def _compiled() -> Check:
    spec = find_spec("grpc")
    origin = spec.origin if spec else None
    return _check(
        "compiled libraries", origin is not None and Path(cache_from_source(origin)).is_file()
    )


# Running one program


def _test_program(*arguments: str) -> tuple[str, ...]:
    # Without site-packages: the tests are about the sandbox, not the Python environment.
    return (sys.executable, "-I", "-S", "-B", probe_inside.__file__, *arguments)


class RunOutcome(NamedTuple):
    """The outcome of a program."""

    ended: bool
    """Whether it exited (or was killed for exceeding a limit) before the timeout."""
    returncode: int | None
    stdout: str
    stderr: str
    over_limit: str | None
    setup_error: str | None
    is_silent: bool = True
    """Whether no process is left that could still write to stdout."""

    @property
    def was_late(self) -> bool:
        """Whether it ran until the timeout."""
        return not self.ended and self.setup_error is None


Ending: TypeAlias = Callable[[], RunOutcome]
"""Waits for the exit of a program that was started, and kills it after the timeout."""


@contextmanager
def started(
    isolation: Isolation, command: tuple[str, ...], *, milliseconds: int = TIMEOUT_MS, **launch: Any
) -> Iterator[Ending]:
    """Start a program, which is killed at the end of the block; `launch` has fields of LaunchSpec.

    Raises OSError if it cannot be started.
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
            ended = process_tree.wait_for_end(contained.pid, milliseconds)
            returncode = contained.poll()
            setup_error, over_limit = contained.setup_error(), contained.over_limit()
            contained.close()
            (stdout, is_silent), (stderr, _) = _rest(out), _rest(err)
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


def _rest(descriptor: int) -> tuple[str, bool]:
    """What a pipe holds, and whether nobody can write more."""
    os.set_blocking(descriptor, False)
    text = b""
    with suppress(BlockingIOError):
        while part := os.read(descriptor, PIPE_BYTES):
            text += part
        return text.decode("utf-8", "replace"), True
    return text.decode("utf-8", "replace"), False
