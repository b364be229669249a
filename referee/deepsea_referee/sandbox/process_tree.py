"""A process and its descendants: CPU time, memory and state from /proc, signals, and exits.

Invariants: what vanishes while it is being read or signalled counts as gone, never as an error;
what cannot be read for another reason, such as a want of descriptors, is an error, and never gone;
a process that /proc does not show has ended only if the kernel knows of none with that number;
members are searched each time, never remembered; stopping is repeated until every member was seen
stopped. Reading works for other users' processes too (everybody may read stat, status, schedstat
and children). A process that is searched for in all of /proc is killed only after a second check
through its pidfd, so a reused process number is never hit.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from deepsea_referee.sandbox.interface import ThreadTimes

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
COUNTED_THREADS = 128
# How often stopping is tried: a process may fork while it is being stopped.
ROUNDS = 50
LONGEST_S = 1.0
"""The longest time for killed processes to vanish."""
PAUSE_S = 0.005
_KIB_FIELDS = (b"VmRSS:", b"VmSwap:", b"VmPTE:")
_PSS_FIELDS = (b"Pss:", b"SwapPss:")
_GONE = (FileNotFoundError, ProcessLookupError)
_UNSEEN = (*_GONE, PermissionError)
"""Errors of what is gone, or is another user's."""

Members = Callable[[], Iterable[int]]


def read_proc(file: str, most: int = 1 << 20) -> bytes:
    """The content of a file of /proc, or how it begins, in half the time of `open`."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < most and (part := os.read(descriptor, min(most, 4096))):
            content += part
        return content
    finally:
        os.close(descriptor)


def stat_fields(pid: int | str) -> list[bytes] | None:
    """The fields of /proc/PID/stat after the name: state, parent, group, session, ...

    Of a thread, if `pid` is PID/task/THREAD.
    """
    try:
        return read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except _UNSEEN:
        return None


def start_time(pid: int) -> int:
    """Start time of a process, in ticks since boot, or 0. Tells reused process numbers apart."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def has_ended(pid: int, began: int = 0) -> bool:
    """True if the process of that number has certainly ended; one that cannot be read has not.

    /proc may hide a living process (`hidepid`, ProtectProc= of a unit), or show it without a
    descriptor to read it by.

    began  its start time, which tells it from a later one with its number; 0 if it is unknown
    """
    try:
        fields = stat_fields(pid)
    except OSError:
        return False
    if fields is None:
        return not _is_known(pid)
    return fields[0] in (b"Z", b"X") or began not in (0, int(fields[19]))


def _is_known(pid: int) -> bool:
    """Whether the kernel knows a process of that number, whose ever it is."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def first_words(pid: int) -> bytes:
    """The environment and the command line that a process began with, each word ended by a 0."""
    words = b""
    for name in ("environ", "cmdline"):
        with suppress(*_UNSEEN):
            words += read_proc(f"/proc/{pid}/{name}", 1 << 22)
    return words


def is_in_session(pid: int, leader: int, began: int) -> bool:
    """True if a process is in the session of a leader that began at that start time."""
    fields = stat_fields(pid)
    return fields is not None and int(fields[3]) == leader and start_time(leader) in (0, began)


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _UNSEEN:
        return found
    for thread in threads:
        try:
            listed = read_proc(f"/proc/{pid}/task/{thread}/children")
        except _UNSEEN:
            continue
        if listed:
            found.extend(map(int, listed.split()))
    return found


def tree(root: int) -> list[int]:
    """`root` and all its descendants, parents first."""
    found = [root]
    for pid in found:
        found.extend(child for child in children(pid) if child not in found)
    return found


def _own_cpu_ns(pid: int) -> int:
    """CPU time of a process that is there; OSError if it is gone."""
    # The kernel's number for "CPU clock of that whole process": see clock_getcpuclockid(3).
    return time.clock_gettime_ns(((~pid) << 3) | 2)


def cpu_us(pid: int) -> int:
    """CPU time of a process and of the children it has waited for; 0 if it is gone."""
    try:
        own = _own_cpu_ns(pid) // 1000
    except OSError:
        return 0
    fields = stat_fields(pid)
    waited_for = int(fields[13]) + int(fields[14]) if fields else 0
    return own + waited_for * TICK_US


class Changes:
    """Tells whether a tree can have changed: a process without CPU time starts no other process and
    writes to no memory or file.

    Reading a clock takes a microsecond, and a hundredth of what it takes to read a tree in /proc.
    """

    def __init__(self) -> None:
        self._clocks: dict[int, int] = {}

    def tree(self, root: int) -> list[int]:
        """`root` and its descendants; none if none of them had CPU time since the last call."""
        now = {}
        for pid in self._clocks:
            with suppress(OSError):
                now[pid] = _own_cpu_ns(pid)
        if now and now == self._clocks:
            return []
        pids = tree(root)
        # The clocks were read before the tree. One that is new to it may have started another one
        # since it was listed: it is read once more.
        self._clocks = now if pids == [*now] else dict.fromkeys(pids, -1)
        return pids


def threads(pids: Iterable[int]) -> dict[int, ThreadTimes]:
    """The times of the threads of these processes, COUNTED_THREADS at most.

    All threads, because an answer passes through several: one reads the stream, another decides.
    """
    found: dict[int, ThreadTimes] = {}
    for pid in pids:
        try:
            numbers = os.listdir(f"/proc/{pid}/task")
        except _UNSEEN:
            continue
        for number in numbers[: COUNTED_THREADS - len(found)]:
            try:
                times = read_proc(f"/proc/{pid}/task/{number}/schedstat")
                cpu_ns, waited_ns, _ = times.split()
            except (*_UNSEEN, ValueError):
                continue
            found[int(number)] = ThreadTimes(int(cpu_ns) // 1000, int(waited_ns) // 1000)
    return found


class Waits:
    """Sums the time that threads waited for a CPU; never decreases.

    A thread's counter disappears with the thread, and gRPC's threads come and go: so the waiting
    time of each thread since the last reading is added to the sum.
    """

    def __init__(self) -> None:
        self._total_us = 0
        self._threads: dict[int, int] = {}

    def us(self, threads: Mapping[int, ThreadTimes]) -> int:
        """The sum up to this reading of all threads."""
        waits = {thread: times.waited_us for thread, times in threads.items()}
        for thread, waited_us in waits.items():
            before_us = self._threads.get(thread, 0)
            # Less than before: a new thread with a reused number.
            self._total_us += waited_us - before_us if waited_us >= before_us else waited_us
        self._threads = waits
        return self._total_us


def host_cpu_us(cpus: Collection[int] | None, stat: str = "/proc/stat") -> int:
    """CPU time that was used of these CPUs, in steps of a tick; 0 if the kernel does not say.

    None is all CPUs, which is read in less time.
    """
    wanted = {b"cpu"} if cpus is None else {b"cpu%d" % cpu for cpu in cpus}
    try:
        lines = read_proc(stat, 200 if cpus is None else 1 << 20).splitlines()
    except _UNSEEN:
        return 0
    counted = [words for words in map(bytes.split, lines) if words and words[0] in wanted]
    # Without idle and iowait; guests are in user already.
    return sum(int(words[i]) for words in counted for i in (1, 2, 3, 6, 7, 8)) * TICK_US


def is_ready(pid: int, but: int = 0) -> bool:
    """Whether a thread of a process, except thread `but`, is running or waits for a CPU."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _UNSEEN:
        return False
    for thread in threads[:COUNTED_THREADS]:
        fields = stat_fields(f"{pid}/task/{thread}")
        if fields is not None and fields[0] == b"R" and int(thread) != but:
            return True
    return False


def usage(pids: Sequence[int], suspicious_bytes: int) -> tuple[int, int]:
    """The tasks (processes and threads) of these processes, and their memory in bytes.

    Memory is what is resident, swapped out and in page tables. It counts what they share once for
    each of them; where that is more than `suspicious_bytes`, exactly, if that can be read.
    """
    kib = tasks = 0
    for pid in pids:
        for name, value in _kib_fields(pid, "status", (*_KIB_FIELDS, b"Threads:")):
            if name == b"Threads:":
                tasks += value
            else:
                kib += value
    if kib * 1024 > suspicious_bytes:
        with suppress(PermissionError):
            kib = sum(
                value for pid in pids for _, value in _kib_fields(pid, "smaps_rollup", _PSS_FIELDS)
            )
    return tasks, kib * 1024


def _kib_fields(pid: int, file: str, names: Collection[bytes]) -> list[tuple[bytes, int]]:
    """Lines of a file of /proc by their names; PermissionError if only that is in the way."""
    try:
        lines = read_proc(f"/proc/{pid}/{file}").splitlines()
    except _GONE:
        return []
    except PermissionError:
        if os.path.exists(f"/proc/{pid}"):
            raise
        return []
    words = [line.split() for line in lines]
    return [(line[0], int(line[1])) for line in words if line and line[0] in names]


def oom_kills(vmstat: str = "/proc/vmstat") -> int:
    """The processes of this machine that the kernel has killed for want of memory; 0 if unknown."""
    try:
        fields = read_proc(vmstat).split()
    except OSError:
        return 0
    return int(fields[fields.index(b"oom_kill") + 1]) if b"oom_kill" in fields else 0


def ended_for_memory(returncode: int | None, kills_before: int) -> bool:
    """Whether a process that nobody here killed was killed by the kernel, for want of memory.

    kills_before  `oom_kills` when it began
    """
    return returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) and oom_kills() > kills_before


# Signals


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, or gone."""
    fields = stat_fields(pid)
    return has_ended(pid) if fields is None else fields[0] in (b"T", b"t", b"Z", b"X")


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal each of these processes; those that are gone are skipped."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def search(belongs: Callable[[int], bool]) -> list[int]:
    """The living processes of which this is true, except this one."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and belongs(pid) and not has_ended(pid)]


def end_all(belongs: Callable[[int], bool]) -> bool:
    """Kill the processes of which this is true until there is none; False after LONGEST_S."""
    deadline_s = time.monotonic() + LONGEST_S
    while pids := search(belongs):
        for pid in pids:
            with suppress(OSError):
                handle = os.pidfd_open(pid)
                try:
                    if belongs(pid):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        if time.monotonic() > deadline_s:
            return False
        time.sleep(PAUSE_S)
    return True


def stop_all(members: Members) -> bool:
    """Stop every member; False if some still ran after ROUNDS attempts."""
    for _ in range(ROUNDS):
        running = [pid for pid in members() if not is_stopped(pid)]
        if not running:
            return True
        send_signal(running, signal.SIGSTOP)
    return False


# Exits


def exit_status(pid: int) -> int | None:
    """The status of a child that has exited, which can still be waited for; None if it runs."""
    try:
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if end is None:
        return None
    is_killed = end.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
    return -end.si_status if is_killed else end.si_status


def wait_for_end(pid: int, milliseconds: int) -> bool:
    """Wait for a process to exit; False after a timeout. Returns at once when it exits."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(milliseconds))
    finally:
        os.close(handle)


def on_exit(pid: int, call: Callable[[], object]) -> Callable[[], object]:
    """Call once the process has exited; see `interface.IsolatedProcess`."""
    handle = os.pidfd_open(pid)
    loop = asyncio.get_running_loop()
    watched = True

    def cancel() -> None:
        nonlocal watched
        if watched:
            watched = False
            loop.remove_reader(handle)
            os.close(handle)

    def exited() -> None:
        cancel()
        call()

    loop.add_reader(handle, exited)
    return cancel
