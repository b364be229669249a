"""Keeps a hostile program from running anywhere but in a sandbox.

Invariants: every hostile program begins with `run`, which refuses (exit status 86) unless this
process has a pid, network, user, mount and ipc namespace of its own, is not uid 0 outside, has no
capability, no network interface but lo and no gain of rights ahead. It believes nothing that it is
told: the numbers of the host's namespaces come from the test, but each other sign is looked at too
and one missing is enough to refuse. Time is bounded by an alarm. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

REFUSED = 86
HOST_VARIABLE = "DEEPSEA_TEST_HOST"
NAMESPACES = ("pid", "net", "user", "mnt", "ipc")
LONGEST_S = 20


def namespaces() -> dict[str, str]:
    """The numbers of the namespaces that this process is in."""
    return {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in NAMESPACES}


def reasons_to_refuse() -> list[str]:
    """Every sign that this is not a sandbox; empty inside of one."""
    reasons = []
    try:
        host = json.loads(os.environ[HOST_VARIABLE])
        mine = namespaces()
        reasons += [
            f"the host's {name} namespace" for name in NAMESPACES if mine[name] == host[name]
        ]
        status = dict(
            line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        if int(status["CapEff"], 16) or int(status["CapPrm"], 16) or int(status["CapBnd"], 16):
            reasons.append("capabilities")
        if status["NoNewPrivs"] != "1":
            reasons.append("can gain rights")
        if status["Seccomp"] != "2":
            reasons.append("no system call filter")
        inside, outside, count = map(int, Path("/proc/self/uid_map").read_text().split())
        if inside == 0 or outside == 0 or count != 1 or os.getuid() != inside:
            reasons.append("uid 0, or more users than one")
        if os.listdir("/proc/1"):
            reasons.append("process 1 can be seen")
        interfaces = Path("/proc/self/net/dev").read_text().splitlines()[2:]
        if [line.split(":")[0].strip() for line in interfaces] != ["lo"]:
            reasons.append("a network")
        if not os.statvfs("/").f_flag & os.ST_RDONLY:
            reasons.append("/ can be written")
    except (OSError, KeyError, ValueError) as error:
        reasons.append(f"cannot be found out: {error!r}")
    return reasons


def insist() -> None:
    """End this process unless it is in a sandbox."""
    if reasons := reasons_to_refuse():
        sys.stderr.write(f"refuses to run outside a sandbox: {'; '.join(reasons)}\n")
        sys.stderr.flush()
        os._exit(REFUSED)


def run(attack: Callable[[], Mapping[str, object]]) -> None:
    """Make sure of the sandbox, carry out the attack and print what it reports as JSON."""
    insist()
    signal.alarm(LONGEST_S)
    say(attack())


def say(report: Mapping[str, object]) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


def tried(action: Callable[..., object], *arguments: object) -> str:
    """The name of the error that an action met, "" if it worked."""
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    return ""


def call(x86_64: int, aarch64: int, *arguments: int) -> str:
    """Make a system call by its number; the name of its error, "" if it worked."""
    library = ctypes.CDLL(None, use_errno=True)
    number = x86_64 if platform.machine() == "x86_64" else aarch64
    words = [ctypes.c_long(argument) for argument in (number, *arguments)]
    if library.syscall(*words) == -1:
        return errno.errorcode.get(ctypes.get_errno(), "?")
    return ""


def wait_to_be_ended() -> None:
    """Do nothing more; the alarm ends it if nobody else does."""
    while True:
        signal.pause()
