"""S36: priorities, placement, the host's disks and page cache; asking and yielding still works."""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from pathlib import Path

from attacks.guard import call, run, tried

SHARED = Path(os.__file__)  # a file that every sandbox sees
F_GET_RW_HINT, F_SET_RW_HINT = 1035, 1036
MADV_PAGEOUT = 21


def page_out() -> None:
    """Push a library of the host out of the page cache."""
    with SHARED.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        mapped.madvise(MADV_PAGEOUT)


def attack() -> dict[str, object]:
    with SHARED.open("rb") as file, tempfile.TemporaryFile() as own:
        number = file.fileno()
        return {
            "nice": tried(os.nice, 5),
            "setpriority": tried(os.setpriority, os.PRIO_PROCESS, 0, 5),
            "ioprio_set": call(251, 30, 1, 0, 3 << 13),
            "sched_setscheduler": tried(os.sched_setscheduler, 0, os.SCHED_IDLE, os.sched_param(0)),
            "sched_setparam": tried(os.sched_setparam, 0, os.sched_param(0)),
            "sched_setattr": call(314, 274, 0, 0, 0),
            "sched_setaffinity": tried(os.sched_setaffinity, 0, os.sched_getaffinity(0)),
            "sync": call(162, 81),
            "syncfs": call(306, 267, number),
            "sync_file_range": call(277, 84, number, 0, 0, 0),
            "io_setup": call(206, 0, 100, 0),
            "drop_pages": tried(os.posix_fadvise, number, 0, 0, os.POSIX_FADV_DONTNEED),
            "page_out": tried(page_out),
            "hint": tried(fcntl.fcntl, number, F_GET_RW_HINT, bytes(8)),
            "set_hint": tried(fcntl.fcntl, number, F_SET_RW_HINT, bytes(8)),
            "sched_yield": tried(os.sched_yield),
            "sched_getaffinity": tried(os.sched_getaffinity, 0),
            "sched_getscheduler": tried(os.sched_getscheduler, 0),
            "getpriority": tried(os.getpriority, os.PRIO_PROCESS, 0),
            "fsync": tried(os.fsync, own.fileno()),
        }


run(attack)
