"""The checks of `doctor`: those that `choose` needs, and advice for busy machines.

Invariants as in probe.py: each check is the outcome of an attempt. What a machine can do without
is advice (`needed=False`).
"""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from deepsea_referee.sandbox import cgroup, run_once
from deepsea_referee.sandbox.interface import MIB, LaunchSpec, ResourceLimits
from deepsea_referee.sandbox.probe import FOR_DEVELOPERS, Check, confinement, last_words
from deepsea_referee.sandbox.sandbox_start import Sandbox


def checks() -> list[Check]:
    """Everything that `doctor` prints, in its order."""
    found = list(confinement())
    if complete(found):
        found += [_bots_run(), _memory_bound(), _whole_tree_ends()]
    return [*found, _control_groups(), _compiled()]


def complete(found: list[Check]) -> bool:
    """Whether untrusted bots may be run here."""
    return all(check.ok for check in found if check.needed)


def _bots_run() -> Check:
    outcome = run_once.run(Sandbox(), (sys.executable, "-c", "import deepsea_sdk.client"))
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
    outcome = run_once.run(
        Sandbox(), (sys.executable, "-I", "-S", "-c", _TAKE_MEMORY), limits=limits
    )
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
        run_once.wait_for(contained, 10_000)
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
        "the kernel limits memory, freezes bots and counts their CPU time; otherwise a watchdog, "
        "signals and a sum over the processes are used",
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
        "a bot cannot write compiled Python files; without them it starts 0.4 s later",
        "",
        f"run `{sys.executable} -m compileall -q {sys.prefix}` (uv: --compile-bytecode)",
        needed=False,
    )
