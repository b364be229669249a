"""The checks of `doctor`: those that `choose` needs, and advice for busy machines.

Invariants as in probe.py: each check is the outcome of an attempt. What a machine can do without
is advice (`needed=False`).
"""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from deepsea_referee.sandbox import bot_users, cgroup, probe, process_tree
from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Group
from deepsea_referee.sandbox.interface import MIB, LaunchSpec, ResourceLimits
from deepsea_referee.sandbox.probe import FOR_DEVELOPERS, Check, confinement, last_words


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


def _bots_run() -> Check:
    outcome = probe.run(Sandbox(), (sys.executable, "-c", "import deepsea_sdk.client"))
    return Check(
        "bots can run",
        outcome.returncode == 0,
        "a bot in the sandbox can import the SDK and gRPC",
        "" if outcome.returncode == 0 else last_words(outcome),
        "install the SDK where the referee runs: `pip install deepsea-referee`; the sandbox's user "
        "must be able to read it",
    )


# Shared memory, because private memory has another limit; keeps what it has got.
_TAKE_MEMORY = """
import mmap, signal
signal.alarm(8)
held = mmap.mmap(-1, 256 << 20)
for offset in range(0, 256 << 20, 4096):
    held[offset] = 1
signal.pause()
"""


def _memory_bound() -> Check:
    limits = ResourceLimits(memory_bytes=64 * MIB)
    outcome = probe.run(Sandbox(), (sys.executable, "-I", "-S", "-c", _TAKE_MEMORY), limits=limits)
    return Check(
        "memory limit",
        outcome.over_limit is not None,
        "a bot that exceeds its memory limit is killed",
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
    # A daemon that survived would keep the pipe's write end open.
    out, out_end = os.pipe()
    os.set_blocking(out, False)
    try:
        contained = None
        try:
            command = (sys.executable, "-I", "-S", "-c", _LEAVE_DAEMON)
            contained = Sandbox().spawn(
                LaunchSpec(command, None, {}, None, out_end, out_end, ResourceLimits())
            )
        finally:
            os.close(out_end)
        process_tree.wait_for_end(contained.pid, 10_000)
        contained.close()
        try:
            gone = os.read(out, 1) == b""
        except BlockingIOError:
            gone = False
    finally:
        os.close(out)
    return Check(
        "whole tree is killed",
        gone,
        "a daemon that left its session is killed with the bot",
        "",
        FOR_DEVELOPERS,
    )


def users_check() -> Check:
    own = bot_users.own_users()
    if own is not None:
        found = f"bots run as users {own.range}, which are nobody else's"
    elif bot_users.is_root():
        found = f"every bot runs as nobody: {bot_users.wanted().trouble()}"
    else:
        found = "every bot runs as the user who runs the referee"
    return Check(
        "a user for each bot",
        own is not None,
        "a bot cannot use up what the kernel counts for each user: descriptors sent through "
        "sockets, pages of pipes",
        found,
        "give the referee's user subordinate ones (`usermod --add-subuids 200000-265535 "
        "--add-subgids 200000-265535 NAME`) and install newuidmap (`apt-get install uidmap`); or "
        "run the referee as root, on a machine that holds nothing else, and with --bot-uids "
        "FIRST-LAST if the users of the default range exist",
        needed=False,
    )


def control_groups_check(places: cgroup.Hierarchies) -> Check:
    """What control groups do here, and how to get those that are missing."""
    missing = places.missing()
    return Check(
        "control groups",
        not missing,
        "the kernel limits each bot's memory, freezes it, gives it its share of the CPU and counts "
        "the CPU time of all its processes; otherwise a watchdog, signals and a sum over the "
        "processes that are left are used, and rated games are charged by the wall clock",
        f"missing for: {', '.join(missing)}" if missing else "used for all",
        "cgroup v2: start the referee with `systemd-run --user --scope -p Delegate=yes "
        "deepsea-referee ...`, as a service with `Delegate=yes` in its unit; if that lacks the "
        "controllers, write `[Service]` and `Delegate=cpu memory pids` to "
        "/etc/systemd/system/user@.service.d/delegate.conf and log in again. cgroup v1 "
        "beside v2: as root, `mkdir /sys/fs/cgroup/{memory,pids,cpu,unified}/deepsea` and chown "
        "these folders and the files in them to the referee's user",
    )


def pressure_check(places: cgroup.Hierarchies) -> Check:
    """Whether the kernel says what a bot as a whole was denied, by a group that is made for it."""
    try:
        group = Group(ResourceLimits(), places)
    except OSError:
        counted = False
    else:
        counted = group.denied_us() is not None
        group.remove()
    return Check(
        "CPU pressure",
        counted,
        "the kernel counts the time in which a bot had no CPU, so that a busy host differs from a "
        "bot whose threads wait; otherwise at most the sum of its threads' waits is not charged",
        "" if counted else "no group here has a cpu.pressure with a line `full`",
        "Linux 5.13 or newer with PSI (`psi=1` on the kernel's command line) and cgroup v2, also "
        "without controllers beside version 1, where the referee can make groups",
        needed=False,
    )


def _compiled() -> Check:
    spec = find_spec("grpc")
    origin = spec.origin if spec else None
    return Check(
        "compiled libraries",
        origin is not None and Path(cache_from_source(origin)).is_file(),
        "a bot cannot write compiled Python files; without them it starts 0.4 s later",
        "",
        f"run `{sys.executable} -m compileall -q {sys.prefix}` (uv: --compile-bytecode)",
        needed=False,
    )
