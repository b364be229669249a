"""Test program that runs in the sandbox, see probe.py: `probe_inside.py FUNCTION ARGUMENT...`.

Invariants: uses only the standard library; harmless wherever it runs: it reads, and tries only
what must be refused to a confined bot or what it undoes at once or within seconds.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable

NAMESPACES = ("user", "pid", "net", "ipc", "uts", "mnt", "cgroup")
# unshare, add_key, clone3, and a number from beyond the table: x86_64, then aarch64.
CALLS = {
    "unshare": (272, 97),
    "add_key": (248, 217),
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "beyond": (9999, 9999),
}


_AF_VSOCK = 40  # sockets to the hypervisor; some builds of Python do not know the constant


def attempt(action: Callable[[], object]) -> str:
    """Try an action, and return the name of its error, such as "EPERM"; "" if it succeeds.

    An action that opens a socket returns it, to be closed here.
    """
    try:
        result = action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    except RuntimeError as error:
        return str(error)
    if isinstance(result, socket.socket):
        result.close()
    return ""


def write_in(folder: str) -> str:
    """Try to create a folder in `folder`, and remove it again.

    Returns the name of the error; "" if it succeeds.
    """

    def make_and_remove() -> None:
        new_folder = os.path.join(folder, f"deepsea-probe-{os.getpid()}")
        os.mkdir(new_folder)
        os.rmdir(new_folder)

    return attempt(make_and_remove)


def call(name: str) -> str:
    """Try the system call `name` of CALLS, with arguments that have no effect: five zeros.

    Returns the name of the error; "" if it succeeds.
    """
    library = ctypes.CDLL(None, use_errno=True)
    x86_64_number, aarch64_number = CALLS[name]
    number = x86_64_number if os.uname().machine == "x86_64" else aarch64_number
    zeros = [ctypes.c_long(0)] * 5
    if library.syscall(ctypes.c_long(number), *zeros) == -1:
        return errno.errorcode.get(ctypes.get_errno(), "?")
    return ""


def threads_possible(limit: int) -> int:
    """Start threads until that fails, but not more than `limit`; return their number."""
    # Not threading.Thread, which waits until each thread has started: that would take longer than
    # all other checks. The threads wait for the lock, so that all exist at the same time, and end
    # when it is released.
    gate = _thread.allocate_lock()
    started = 0
    with gate, contextlib.suppress(RuntimeError):
        while started < limit:
            _thread.start_new_thread(_pass, (gate,))
            started += 1
    return started


def _pass(gate: _thread.LockType) -> None:
    with gate:
        pass


def own_namespaces() -> dict[str, str]:
    """Return the namespaces of this process by their kinds, as the kernel names them."""
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}


def _read(file: str) -> str:
    with open(file) as opened:
        return opened.read()


def facts(threads: int) -> dict[str, object]:
    """Return facts about this process, and the errors of what it has attempted.

    An attempt has the name of its error, or "" if it succeeded.

    threads  the number of threads that the process tries to start
    """
    status = dict(line.split(":\t", 1) for line in _read("/proc/self/status").splitlines())
    interfaces = _read("/proc/self/net/dev").splitlines()[2:]
    return {
        "namespaces": own_namespaces(),
        "outside_uid": int(_read("/proc/self/uid_map").split()[1]),
        "capabilities": [status[f"Cap{which}"] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
        "no_new_privileges": status["NoNewPrivs"],
        "filtered": status.get("Seccomp"),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "interfaces": [line.split(":")[0].strip() for line in interfaces],
        "first_process": os.listdir("/proc/1"),
        "write_root": write_in("/"),
        "write_system": write_in("/usr"),
        "write_own_file": attempt(lambda: open(__file__, "r+b").close()),
        "write_tmp": write_in("/tmp"),
        "internet_socket": attempt(lambda: socket.socket(socket.AF_INET)),
        "vsock_socket": attempt(lambda: socket.socket(_AF_VSOCK, socket.SOCK_STREAM)),
        "unix_socket": attempt(lambda: socket.socket(socket.AF_UNIX)),
        "calls": {name: call(name) for name in CALLS},
        "threads": threads_possible(threads),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    }


def print_facts(threads: str) -> None:
    """Print `facts` as one JSON object."""
    sys.stdout.write(json.dumps(facts(int(threads))))


def take_memory() -> None:
    """Use 256 MiB of shared memory for a few seconds; private memory has another limit."""
    signal.alarm(8)
    memory = mmap.mmap(-1, 256 << 20)
    for offset in range(0, 256 << 20, 4096):  # memory is allocated when a page is written
        memory[offset] = 1
    signal.pause()


def leave_daemon() -> None:
    """Start a daemon that keeps stdout open for half a minute, and exit.

    The daemon has a session of its own and ignores the usual signals, so it remains unless the
    whole sandbox is killed.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:  # the first child begins a session, and starts the daemon in it
        os.setsid()
        if os.fork() == 0:  # the daemon; the alarm ends it
            signal.alarm(30)
            signal.pause()
        os._exit(0)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
