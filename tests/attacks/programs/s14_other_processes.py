"""S14: trace, read and take descriptors from process 1 and from a child of one's own."""

from __future__ import annotations

import ctypes
import os
import signal

from attacks.guard import call, run

ATTACH, SEIZE = 16, 0x4206


def attack() -> dict[str, object]:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    here = ctypes.create_string_buffer(64)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(here), 64)
    at = ctypes.addressof(vector)
    report: dict[str, object] = {}
    for name, pid in (("first", 1), ("child", child)):
        handle = os.pidfd_open(pid)
        report[name] = {
            "attach": call(101, 117, ATTACH, pid, 0, 0),
            "seize": call(101, 117, SEIZE, pid, 0, 0),
            "read": call(310, 270, pid, at, 1, at, 1, 0),
            "write": call(311, 271, pid, at, 1, at, 1, 0),
            "take": call(438, 438, handle, 0, 0),
            "compare": call(312, 272, pid, pid, 0, 0, 0),
        }
        os.close(handle)
    os.kill(child, signal.SIGKILL)
    return report


run(attack)
