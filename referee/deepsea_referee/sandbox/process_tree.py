"""A process and its descendants: CPU time, memory and state from /proc, signals, and exits.

Invariants: a process that vanishes while it is being read or signalled counts as ended, never as an
error; if it cannot be read for another reason, such as no free descriptor, that is an error, and
the process does not count as ended. A process that /proc does not show has ended only if the kernel
does not know its number. Members are searched each time, never remembered; stopping is repeated
until every member was seen stopped. Reading works for other users' processes, too (everybody may
read stat, status, schedstat and children). A process that was found by a search of /proc is killed
only after a second check through its pidfd, so that a reused process number is never hit.
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
"""The longest wait for killed processes to vanish."""
PAUSE_S = 0.005
_KIB_FIELDS = (b"VmRSS:", b"VmSwap:", b"VmPTE:")
_PSS_FIELDS = (b"Pss:", b"SwapPss:")
_GONE = (FileNotFoundError, ProcessLookupError)
_UNSEEN = (*_GONE, PermissionError)
"""The errors for a process that has ended, or belongs to another user."""

Members = Callable[[], Iterable[int]]


def read_proc(file: str, limit: int = 1 << 20) -> bytes:
    """Read a file of /proc up to about `limit` bytes, in half the time that `open` takes."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < limit and (part := os.read(descriptor, min(limit, 4096))):
            content += part
        return content
    finally:
        os.close(descriptor)


def stat_fields(pid: int | str) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat after the name: state, parent, group, session, ...

    `pid` may be PID/task/THREAD for a thread. Return None if it has ended, or cannot be seen.
    """
    try:
        return read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except _UNSEEN:
        return None


def start_time(pid: int) -> int:
    """Return the start time of a process in ticks since boot; 0 if it has ended.

    The start time distinguishes a process from a later one with the same number.
    """
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0  # field 22 of proc(5), starttime


def has_ended(pid: int, known_start: int = 0) -> bool:
    """Return True if a process has certainly ended; False if that is not known.

    /proc may hide a living process (`hidepid`, ProtectProc= of a unit), and cannot be read without
    a free descriptor.

    known_start  the start time of the process, to distinguish it from a later one with the same
                 number; 0 if it is not known
    """
    try:
        fields = stat_fields(pid)
    except OSError:
        return False
    if fields is None:
        return not _is_known(pid)
    is_dead = fields[0] in (b"Z", b"X")  # a zombie, or dead
    start_ticks = int(fields[19])
    return is_dead or known_start not in (0, start_ticks)


def _is_known(pid: int) -> bool:
    """Return True if the kernel has a process with this number, of any user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def first_words(pid: int) -> bytes:
    """Return the initial environment and command line of a process, words ending with 0 bytes."""
    words = b""
    for name in ("environ", "cmdline"):
        with suppress(*_UNSEEN):
            words += read_proc(f"/proc/{pid}/{name}", 1 << 22)
    return words


def is_in_session(pid: int, leader: int, began: int) -> bool:
    """Return True if a process is in the session of a leader with this start time."""
    fields = stat_fields(pid)
    return fields is not None and int(fields[3]) == leader and start_time(leader) in (0, began)


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    pids: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _UNSEEN:
        return pids
    for thread in threads:
        try:
            listed = read_proc(f"/proc/{pid}/task/{thread}/children")
        except _UNSEEN:
            continue
        if listed:
            pids.extend(map(int, listed.split()))
    return pids


def tree(root: int) -> list[int]:
    """Return a process and all its descendants, parents first."""
    pids = [root]
    for pid in pids:  # grows meanwhile
        pids.extend(child for child in children(pid) if child not in pids)
    return pids


def _own_cpu_ns(pid: int) -> int:
    """Return the CPU time of a process without its children. Raises OSError if it has ended."""
    # The number of the CPU clock of a whole process: see clock_getcpuclockid(3).
    return time.clock_gettime_ns(((~pid) << 3) | 2)


def cpu_us(pid: int) -> int:
    """Return the CPU time of a process and of the children it has reaped; 0 if it has ended."""
    try:
        own_us = _own_cpu_ns(pid) // 1000
    except OSError:
        return 0
    fields = stat_fields(pid)
    reaped_ticks = int(fields[13]) + int(fields[14]) if fields else 0  # cutime and cstime
    return own_us + reaped_ticks * TICK_US


class TreeActivity:
    """Finds out whether a tree of processes can have changed.

    A process that has used no CPU time has started no other process, and written to no memory or
    file. Reading a CPU clock takes a microsecond, a hundredth of reading a tree in /proc.
    """

    def __init__(self) -> None:
        self._clocks: dict[int, int] = {}

    def tree(self, root: int) -> list[int]:
        """Return a process and its descendants; none if none has used CPU since the last call."""
        clocks = {}
        for pid in self._clocks:
            with suppress(OSError):
                clocks[pid] = _own_cpu_ns(pid)
        if clocks and clocks == self._clocks:
            return []
        pids = tree(root)
        # A new process may have started another one after it was listed. So if the tree is not the
        # one whose clocks were read before, the next call must read it again: -1 equals no clock.
        self._clocks = clocks if pids == [*clocks] else dict.fromkeys(pids, -1)
        return pids


def threads(pids: Iterable[int]) -> dict[int, ThreadTimes]:
    """Return the times of the threads of these processes, but of COUNTED_THREADS at most.

    All threads count, because an answer passes through several: one reads the stream, another one
    decides.
    """
    times_of: dict[int, ThreadTimes] = {}
    for pid in pids:
        try:
            numbers = os.listdir(f"/proc/{pid}/task")
        except _UNSEEN:
            continue
        for number in numbers[: COUNTED_THREADS - len(times_of)]:
            try:
                times = read_proc(f"/proc/{pid}/task/{number}/schedstat")
                cpu_ns, waited_ns, _ = times.split()
            except (*_UNSEEN, ValueError):
                continue
            times_of[int(number)] = ThreadTimes(int(cpu_ns) // 1000, int(waited_ns) // 1000)
    return times_of


class WaitSum:
    """Sums the times for which threads have waited for a CPU; the sum never decreases.

    A thread's counter disappears with the thread, and gRPC's threads come and go. So the waiting
    time of each thread since the last reading is added to the sum.
    """

    def __init__(self) -> None:
        self._total_us = 0
        self._threads: dict[int, int] = {}

    def us(self, threads: Mapping[int, ThreadTimes]) -> int:
        """Add a reading of all threads, and return the sum up to now."""
        waits = {thread: times.waited_us for thread, times in threads.items()}
        for thread, waited_us in waits.items():
            before_us = self._threads.get(thread, 0)
            # Less time than before means a new thread with a reused number.
            self._total_us += waited_us - before_us if waited_us >= before_us else waited_us
        self._threads = waits
        return self._total_us


def host_cpu_us(cpus: Collection[int] | None, stat: str = "/proc/stat") -> int:
    """Return the CPU time that was used on these CPUs, in steps of a tick; 0 if it is not known.

    cpus  the numbers of the CPUs; None for all, which takes less time
    """
    labels = {b"cpu"} if cpus is None else {b"cpu%d" % cpu for cpu in cpus}
    try:
        lines = read_proc(stat, 200 if cpus is None else 1 << 20).splitlines()
    except _UNSEEN:
        return 0
    counted = [words for words in map(bytes.split, lines) if words and words[0] in labels]
    # user, nice, system, irq, softirq and steal; not idle and iowait. Guests are part of user.
    return sum(int(words[i]) for words in counted for i in (1, 2, 3, 6, 7, 8)) * TICK_US


def is_ready(pid: int, but: int = 0) -> bool:
    """Return True if a thread of a process, except thread `but`, runs or waits for a CPU."""
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
    """Return the number of tasks (threads) of these processes, and their memory in bytes.

    The memory is the resident memory, the swapped-out memory and the page tables. Shared memory
    counts once for each process. If this sum is above `suspicious_bytes`, the exact memory is
    returned instead, if it can be read, which takes longer.
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
    """Return the named lines of a file of a process in /proc; an empty list if it has ended.

    Raises PermissionError if the process exists but the file cannot be read.
    """
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
    """Return how many processes the kernel has killed for lack of memory; 0 if unknown."""
    try:
        fields = read_proc(vmstat).split()
    except OSError:
        return 0
    return int(fields[fields.index(b"oom_kill") + 1]) if b"oom_kill" in fields else 0


def ended_for_memory(returncode: int | None, kills_before: int) -> bool:
    """Return True if a process that the referee did not kill was killed for lack of memory.

    returncode    the exit status of the process
    kills_before  the result of `oom_kills` at the start of the process
    """
    return returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) and oom_kills() > kills_before


# Signals


def is_stopped(pid: int) -> bool:
    """Return True if a process is stopped, or has ended."""
    fields = stat_fields(pid)
    return has_ended(pid) if fields is None else fields[0] in (b"T", b"t", b"Z", b"X")


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each of these processes; those that have ended are skipped."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def search(belongs: Callable[[int], bool]) -> list[int]:
    """Return the living processes for which `belongs` is true, except this process."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and belongs(pid) and not has_ended(pid)]


def end_all(belongs: Callable[[int], bool]) -> bool:
    """Kill the processes for which `belongs` is true until there is none.

    Return False if there are some after LONGEST_S.
    """
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
    """Stop every member; return False if some still run after ROUNDS attempts.

    members  lists the processes anew, since they may fork while they are being stopped
    """
    for _ in range(ROUNDS):
        running = [pid for pid in members() if not is_stopped(pid)]
        if not running:
            return True
        send_signal(running, signal.SIGSTOP)
    return False


# Exits


def exit_status(pid: int) -> int | None:
    """Return the exit status of a child that has exited, without reaping it.

    It is negative for a signal. Return None if the child runs, or was reaped already.
    """
    try:
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if result is None:
        return None
    is_killed = result.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
    return -result.si_status if is_killed else result.si_status


def wait_for_end(pid: int, milliseconds: int) -> bool:
    """Wait for a process to exit; return False if it has not after so many milliseconds."""
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
    """Let the running event loop make a call once a process has exited; return its cancellation."""
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
