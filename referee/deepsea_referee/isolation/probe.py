"""What works on this machine, found out by doing it.

Laws: nothing is believed because a program or a file exists; every check that can be made inside
a sandbox is made inside one. `choose` accepts a sandbox only after one was looked at from within,
once for each process. Each check says what it means and, if it failed, what to do.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any, Literal

from deepsea_referee.errors import UserError
from deepsea_referee.isolation import cgroup, inside, launcher, seccomp, trial
from deepsea_referee.isolation.bwrap import Sandbox
from deepsea_referee.isolation.contract import MIB, Isolation, Launch, Limits
from deepsea_referee.isolation.plain import PlainProcess

Level = Literal["auto", "sandbox", "process"]

INSTALL = "install it: `apt-get install bubblewrap` (Debian, Ubuntu) or your system's package"
NAMESPACES_BLOCKED = (
    "this system does not let ordinary users make user namespaces. Ubuntu 23.10 or newer: load the "
    "AppArmor profile bwrap-userns-restrict (24.04: copy it from /usr/share/apparmor/extra-profiles"
    " to /etc/apparmor.d and run `apparmor_parser -r` on it). Debian: `sysctl "
    "kernel.unprivileged_userns_clone=1`. Elsewhere: user.max_user_namespaces must not be 0. In a "
    "container: it must be allowed to make namespaces and mounts"
)
FOR_DEVELOPERS = "this should not happen: please report it with the output of `doctor --json`"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `doctor`."""

    name: str
    ok: bool
    meaning: str
    """What it is good for."""
    found: str = ""
    """What was seen here."""
    remedy: str = ""
    """What to do if it is not ok."""
    needed: bool = True
    """Whether a complete sandbox needs it; the rest is advice."""


def choose(level: Level) -> Isolation:
    """The isolation for a level; `auto` is the best that works here, and its name says which.

    Raises UserError with the remedy if `sandbox` is asked for and does not work.
    """
    if level == "process":
        return PlainProcess()
    trouble = sandbox_trouble()
    if trouble is None:
        return Sandbox()
    if level == "sandbox":
        raise UserError(f"no sandbox here: {trouble.found or trouble.name}. {trouble.remedy}")
    return PlainProcess()


@cache
def sandbox_trouble() -> Check | None:
    """The first thing that keeps this machine from confining a bot; None if nothing does."""
    return next((check for check in _confinement() if not check.ok), None)


def checks() -> list[Check]:
    """Everything that `doctor` prints, in its order."""
    found = list(_confinement())
    if all(check.ok for check in found):
        found += [_bots_run(), _memory_bound(), _whole_tree_ends()]
    return [*found, _control_groups(), _compiled()]


def complete(found: list[Check]) -> bool:
    """Whether strangers' bots may be run here."""
    return all(check.ok for check in found if check.needed)


def _confinement() -> Iterator[Check]:
    """The checks without which nothing counts as a sandbox; stops at the first basic failure."""
    for basic in (_platform(), _programs()):
        yield basic
        if not basic.ok:
            return
    limits = Limits()
    # Without site-packages: what is looked at is the sandbox, not the Python environment.
    command = (sys.executable, "-I", "-S", "-B", inside.__file__, str(2 * limits.processes))
    looked = _try_in_sandbox(command, limits)
    try:
        facts = json.loads(looked.stdout)
    except ValueError:
        facts = None
    # If the look failed, is it the sandbox or is it Python?
    starts = _starts(looked if facts else _try_in_sandbox(("true",), limits))
    yield starts
    if facts:
        yield from _judge(facts, limits)
    elif starts.ok:
        yield Check(
            "Python runs inside",
            False,
            "bots need the interpreter that runs the referee",
            _last_words(looked),
            "the sandbox's user must be able to read the interpreter and its environment: "
            f"{sys.executable}",
        )


def _try_in_sandbox(command: tuple[str, ...], limits: Limits) -> trial.Outcome:
    try:
        return trial.run(Sandbox(), command, limits=limits)
    except OSError as error:
        return trial.Outcome(False, None, "", str(error), None, str(error))


def _last_words(outcome: trial.Outcome) -> str:
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
    if launcher.is_root():
        names += ["setpriv", "unshare", "mount"]
    missing = [name for name in names if not shutil.which(name, path=launcher.TOOL_PATH)]
    return Check(
        "programs",
        not missing,
        "bubblewrap builds the sandbox, util-linux sets its limits",
        f"missing: {', '.join(missing)}" if missing else f"found: {', '.join(names)}",
        INSTALL if "bwrap" in missing else "install the package util-linux",
    )


def _starts(outcome: trial.Outcome) -> Check:
    return Check(
        "a sandbox starts",
        outcome.returncode == 0,
        "a program was run in one",
        "" if outcome.returncode == 0 else _last_words(outcome),
        _remedy_for(outcome.stderr),
    )


def _remedy_for(words: str) -> str:
    if "size" in words or "Unknown option" in words:
        return "bubblewrap is too old: 0.7 or newer is needed"
    if any(sign in words for sign in ("namespace", "uid map", "RTM_NEWADDR", "unshare", "mount")):
        return NAMESPACES_BLOCKED
    return "run `deepsea-referee doctor` as the user who runs the referee; see docs/security.md"


def _judge(facts: dict[str, Any], limits: Limits) -> Iterator[Check]:
    outside = inside.own_namespaces()
    shared = [name for name, number in facts["namespaces"].items() if number == outside[name]]
    yield Check(
        "own namespaces",
        not shared and len(facts["processes"]) == 2 and facts["interfaces"] == ["lo"],
        "no process, network, file system or name of this machine or of another bot in sight",
        f"shared with this machine: {', '.join(shared)}" if shared else "",
        FOR_DEVELOPERS,
    )
    yield Check(
        "no rights",
        facts["outside_uid"] != 0
        and all(int(mask, 16) == 0 for mask in facts["capabilities"])
        and facts["no_new_privileges"] == "1",
        "an ordinary user without capabilities, and no way to get any",
        f"user {facts['outside_uid']} of this machine",
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
        "only Unix sockets; no tracing, keyrings, namespaces, mounts or kernel side doors",
        "",
        "the kernel must have CONFIG_SECCOMP_FILTER; else " + FOR_DEVELOPERS,
    )
    refusals = {facts["write_root"], facts["write_system"], facts["write_own_file"]}
    yield Check(
        "read-only",
        refusals <= {"EROFS", "EACCES"} and facts["write_tmp"] == "",
        "nothing can be written but a small private /tmp",
        "",
        FOR_DEVELOPERS,
    )
    yield Check(
        "nothing handed down",
        facts["first_process"] == [] and set(facts["descriptors"]) <= {0, 1, 2, 3},
        "no environment and no open file of the referee is visible to a bot",
        "",
        FOR_DEVELOPERS,
    )
    most = limits.processes
    yield Check(
        "process bound",
        most // 2 <= facts["threads"] < most,
        "processes and threads are counted for each sandbox, not for the whole user",
        f"{facts['threads']} threads started, {most} are allowed",
        "Linux 5.14 or newer is needed",
    )


def _bots_run() -> Check:
    outcome = trial.run(Sandbox(), (sys.executable, "-c", "import deepsea_sdk.client"))
    return Check(
        "bots can run",
        outcome.returncode == 0,
        "a bot in the sandbox can import the SDK and gRPC",
        "" if outcome.returncode == 0 else _last_words(outcome),
        "install the SDK where the referee runs: `pip install deepsea-referee`; the sandbox's user "
        "must be able to read it",
    )


# Shared memory, because private memory meets a limit of its own; holds what it has got.
_TAKE_MEMORY = """
import mmap, signal
signal.alarm(8)
held = mmap.mmap(-1, 256 << 20)
for offset in range(0, 256 << 20, 4096):
    held[offset] = 1
signal.pause()
"""


def _memory_bound() -> Check:
    limits = Limits(memory_bytes=64 * MIB)
    outcome = trial.run(Sandbox(), (sys.executable, "-I", "-S", "-c", _TAKE_MEMORY), limits=limits)
    return Check(
        "memory bound",
        outcome.over_limit is not None,
        "a bot that takes more than its share of memory is ended",
        f"64 MiB by {'a control group' if cgroup.hierarchies().memory else 'the watchdog'}",
        FOR_DEVELOPERS,
    )


_LEAVE_DAEMON = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(30)
    os._exit(0)
"""


def _whole_tree_ends() -> Check:
    # A daemon that survived would keep the pipe open for reading by its writers.
    out, out_end = os.pipe()
    os.set_blocking(out, False)
    try:
        contained = None
        try:
            command = (sys.executable, "-I", "-S", "-c", _LEAVE_DAEMON)
            contained = Sandbox().spawn(Launch(command, None, {}, None, out_end, out_end, Limits()))
        finally:
            os.close(out_end)
        trial.wait_for(contained, 10_000)
        contained.close()
        try:
            gone = os.read(out, 1) == b""
        except BlockingIOError:
            gone = False
    finally:
        os.close(out)
    return Check(
        "whole tree ends",
        gone,
        "a daemon that left its session is gone with the bot",
        "",
        FOR_DEVELOPERS,
    )


def _control_groups() -> Check:
    places = cgroup.hierarchies()
    uses = {
        "memory": places.memory,
        "processes": places.pids,
        "freezing": places.core or places.freezer,
        "CPU time": places.core or places.cpuacct,
    }
    missing = [name for name, place in uses.items() if place is None]
    return Check(
        "control groups",
        not missing,
        "the kernel itself bounds memory, freezes bots and counts their CPU time; without, the "
        "watchdog's looks, signals and a sum over the processes do",
        f"missing for: {', '.join(missing)}" if missing else "used for all",
        "cgroup v2: start the referee with `systemd-run --user --scope -p Delegate=yes "
        "deepsea-referee ...`; cgroup v1: as root, `mkdir /sys/fs/cgroup/{memory,pids,freezer,"
        "cpuacct}/deepsea` and chown these folders and the files in them to the referee's user",
        needed=False,
    )


def _compiled() -> Check:
    spec = find_spec("grpc")
    origin = spec.origin if spec else None
    return Check(
        "compiled libraries",
        origin is not None and Path(cache_from_source(origin)).is_file(),
        "a bot cannot write compiled Python files; with none there it starts 0.4 s later",
        "",
        f"run `{sys.executable} -m compileall -q {sys.prefix}` (uv: --compile-bytecode)",
        needed=False,
    )
