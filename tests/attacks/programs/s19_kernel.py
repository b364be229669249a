"""S19: system calls that open large parts of the kernel, each with arguments that do no harm."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform

from attacks.guard import call, run

NEW_USER = 0x10000000
# Name: number on x86_64, number on aarch64, arguments.
CALLS: dict[str, tuple[int, ...]] = {
    "unshare": (272, 97, NEW_USER),
    "setns": (308, 268, 0, 0),
    "clone_user": (56, 220, NEW_USER | 17, 0, 0, 0, 0),
    "mount": (165, 40, 0, 0, 0, 0, 0),
    "umount": (166, 39, 0, 0),
    "pivot_root": (155, 41, 0, 0),
    "chroot": (161, 51, 0),
    "open_tree": (428, 428, 0, 0, 0),
    "fsopen": (430, 430, 0, 0),
    "bpf": (321, 280, 0, 0, 0),
    "perf_event_open": (298, 241, 0, 0, -1, -1, 0),
    "userfaultfd": (323, 282, 0),
    "fanotify_init": (300, 262, 0, 0),
    "open_by_handle_at": (304, 265, 0, 0, 0),
    "personality": (135, 92, 0xFFFFFFFF),
    "init_module": (175, 105, 0, 0, 0),
    "kexec_load": (246, 104, 0, 0, 0, 0),
    "syslog": (103, 116, 3, 0, 0),
    "clone3": (435, 435, 0, 0),
    "io_uring_setup": (425, 425, 0, 0),
    "io_uring_enter": (426, 426, 0, 0, 0, 0, 0, 0),
    "beyond": (5000, 5000),
    "x32": (0x40000000 + 39, 5001),
}
# int 0x80 with the number of 32-bit getpid, then return.
MACHINE_CODE = bytes.fromhex("b814000000cd80c3")


def call_in_32_bit() -> int:
    """How a child ends that makes a 32-bit call: a signal as a negative number."""
    child = os.fork()
    if child == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(MACHINE_CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def attack() -> dict[str, object]:
    report: dict[str, object] = {
        name: call(numbers[0], numbers[1], *numbers[2:]) for name, numbers in CALLS.items()
    }
    if platform.machine() == "x86_64":
        report["32-bit"] = call_in_32_bit()
    return report


run(attack)
