"""S20, S21, S29: suid programs, terminals, clocks, priorities."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import subprocess
import time
from pathlib import Path

from attacks.guard import call, run, tried

TIOCSTI = 0x5412


def suid_programs() -> list[Path]:
    """Programs that would run as their owner."""
    return [
        path
        for path in Path("/usr/bin").iterdir()
        if path.is_file() and path.stat().st_mode & stat.S_ISUID
    ]


def own_suid() -> str:
    """The uid that a suid copy of `id` of one's own reports."""
    copy = Path("/tmp/id")
    copy.write_bytes(Path("/usr/bin/id").read_bytes())
    copy.chmod(0o6755)
    return subprocess.run([copy, "-u"], capture_output=True, text=True, check=False).stdout.strip()


def attack() -> dict[str, object]:
    realtime = os.sched_param(1)
    return {
        "suid": len(suid_programs()),
        "suid_is_ignored": all(os.statvfs(path).f_flag & os.ST_NOSUID for path in suid_programs()),
        "own_suid": own_suid(),
        "setuid": tried(lambda: os.setuid(0)),
        "terminal": tried(lambda: os.open("/dev/tty", os.O_RDWR)),
        "new_terminal": tried(lambda: os.open("/dev/ptmx", os.O_RDWR)),
        "type_in": tried(lambda: fcntl.ioctl(0, TIOCSTI, b"x")),
        "disk": tried(lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))),
        "clock_settime": tried(lambda: time.clock_settime(time.CLOCK_REALTIME, 0)),
        "adjtimex": call(159, 171, 0),
        "nice": tried(lambda: os.nice(-5)),
        "realtime": tried(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, realtime)),
        "io_priority": call(251, 30, 1, 0, 1 << 13),
        "autogroup": tried(lambda: Path("/proc/self/autogroup").write_text("-10")),
        "raise_limit": tried_limit(resource.RLIMIT_NPROC, 10_000),
        "oom_score_adj": Path("/proc/self/oom_score_adj").read_text().strip(),
        "oom": tried(lambda: Path("/proc/self/oom_score_adj").write_text("-1000")),
    }


def tried_limit(which: int, value: int) -> str:
    """Whether a limit can be raised again."""
    try:
        resource.setrlimit(which, (value, value))
    except ValueError as error:
        return str(error)
    return ""


run(attack)
