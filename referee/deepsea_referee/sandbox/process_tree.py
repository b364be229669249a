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
# Indices in `stat_fields` of starttime, cutime and cstime: fields 22, 16 and 17 of proc(5).
_START_TIME, _REAPED_USER_TIME, _REAPED_SYSTEM_TIME = 19, 13, 14
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
        content = read_proc(f"/proc/{pid}/stat")
    except _UNSEEN:
        return None
    _pid_and_name, _, fields = content.rpartition(b")")  # a name may contain spaces and brackets
    return fields.split()


def start_time(pid: int) -> int:
    """Return the start time of a process in ticks since boot; 0 if it has ended.

    The start time distinguishes a process from a later one with the same number.
    """
    fields = stat_fields(pid)
    return int(fields[_START_TIME]) if fields else 0


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
    is_another_process = known_start != 0 and int(fields[_START_TIME]) != known_start
    return is_dead or is_another_process


def _is_known(pid: int) -> bool:
    """Return True if the kernel has a process with this number, of any user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def environment_and_command(pid: int) -> bytes:
    """Return the environment and the command line with which a process was started.

    Each variable and each argument ends with a 0 byte. What cannot be read is left out.
    """
    content = b""
    for name in ("environ", "cmdline"):
        with suppress(*_UNSEEN):
            content += read_proc(f"/proc/{pid}/{name}", limit=4 << 20)
    return content


def is_in_session(pid: int, leader: int, began: int) -> bool:
    """Return True if a process is in the session of a leader with this start time."""
    fields = stat_fields(pid)
    return fields is not None and int(fields[3]) == leader and start_time(leader) in (0, began)


def children(pid: int) -> list[int]:
    """Return the children of a process; an empty list if it has ended, or cannot be seen."""
    child_pids: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _UNSEEN:
        return child_pids
    for thread in threads:  # the kernel lists a child at the thread that has started it
        try:
            listed = read_proc(f"/proc/{pid}/task/{thread}/children")
        except _UNSEEN:
            continue
        if listed:
            child_pids.extend(map(int, listed.split()))
    return child_pids


def tree(root: int) -> list[int]:
    """Return a process and all its descendants, parents first."""
    pids = [root]
    for pid in pids:  # the list grows meanwhile, until no process has a further child
        pids.extend(child for child in children(pid) if child not in pids)
    return pids


def _own_cpu_ns(pid: int) -> int:
    """Return the CPU time of a process without its children. Raises OSError if it has ended."""
    # Linux numbers the CPU clocks of processes so (see clock_getcpuclockid(3)): the lowest three
    # bits say which clock it is, 2 for the time on a CPU, and those above are the inverted pid.
    clock_id = ((~pid) << 3) | 2
    return time.clock_gettime_ns(clock_id)


def cpu_us(pid: int) -> int:
    """Return the CPU time of a process and of the children it has reaped; 0 if it has ended."""
    try:
        own_us = _own_cpu_ns(pid) // 1000
    except OSError:
        return 0
    fields = stat_fields(pid)
    if not fields:
        return own_us
    reaped_ticks = int(fields[_REAPED_USER_TIME]) + int(fields[_REAPED_SYSTEM_TIME])
    return own_us + reaped_ticks * TICK_US


class TreeActivity:
    """Finds out whether a tree of processes can have changed.

    A process that has used no CPU time has started no other process, and written to no memory or
    file. Reading a CPU clock takes a microsecond, a hundredth of reading a tree in /proc.
    """

    def __init__(self) -> None:
        self._last_cpu_ns: dict[int, int] = {}
        """The CPU time of each process of the tree at the last call; -1 if it was not read."""

    def tree_if_active(self, root: int) -> list[int]:
        """Return a process and its descendants, or an empty list if nothing can have changed.

        That is so if no process of the tree has used CPU time since the last call: then none has
        started another one.
        """
        cpu_ns_of = {}
        for pid in self._last_cpu_ns:
            with suppress(OSError):
                cpu_ns_of[pid] = _own_cpu_ns(pid)
        if cpu_ns_of and cpu_ns_of == self._last_cpu_ns:
            return []
        pids = tree(root)
        has_same_processes = pids == [*cpu_ns_of]
        if has_same_processes:
            self._last_cpu_ns = cpu_ns_of
        else:
            # A new process may have started another one after it was listed. So the next call must
            # read the tree again: no CPU time equals -1.
            self._last_cpu_ns = dict.fromkeys(pids, -1)
        return pids


def threads(pids: Iterable[int]) -> dict[int, ThreadTimes]:
    """Return the times of the threads of these processes, by the numbers of the threads.

    All threads count, because an answer passes through several: one reads the stream, another one
    decides. But only the first COUNTED_THREADS are read, as a bot may start very many.
    """
    times_of: dict[int, ThreadTimes] = {}
    for pid in pids:
        try:
            thread_numbers = os.listdir(f"/proc/{pid}/task")
        except _UNSEEN:
            continue
        for number in thread_numbers[: COUNTED_THREADS - len(times_of)]:
            try:
                times = read_proc(f"/proc/{pid}/task/{number}/schedstat")
                cpu_ns, waited_ns, _timeslices = times.split()
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

    def add_reading(self, threads: Mapping[int, ThreadTimes]) -> int:
        """Add what all threads have waited since the last reading; return the sum up to now.

        threads  the present times of all threads, by their numbers
        """
        waits_us = {thread: times.waited_us for thread, times in threads.items()}
        for thread, waited_us in waits_us.items():
            before_us = self._threads.get(thread, 0)
            if waited_us >= before_us:
                self._total_us += waited_us - before_us
            else:  # it is a new thread with a reused number
                self._total_us += waited_us
        self._threads = waits_us
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
    # user, nice, system, irq, softirq and steal; not idle and iowait. Guests are part of user.
    used_columns = (1, 2, 3, 6, 7, 8)
    ticks = 0
    for line in lines:
        words = line.split()
        if words and words[0] in labels:
            ticks += sum(int(words[column]) for column in used_columns)
    return ticks * TICK_US


def is_ready(pid: int, except_thread: int = 0) -> bool:
    """Return True if a thread of a process runs or waits for a CPU, except one of its threads.

    Only the first COUNTED_THREADS are read.

    except_thread  the number of the thread that does not count; 0 for none
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _UNSEEN:
        return False
    for thread in threads[:COUNTED_THREADS]:
        fields = stat_fields(f"{pid}/task/{thread}")
        if fields is not None and fields[0] == b"R" and int(thread) != except_thread:
            return True
    return False


def usage(pids: Sequence[int], suspicious_bytes: int) -> tuple[int, int]:
    """Return the number of tasks (threads) of these processes, and their memory in bytes.

    It is the sum of resident memory, swapped-out memory and page tables. Memory that processes
    share counts once for each of them. If the sum exceeds `suspicious_bytes`, the exact memory is
    read, which takes longer, and returned instead if this process may read it.
    """
    kib = tasks = 0
    for pid in pids:
        for name, value in _named_values(pid, "status", (*_KIB_FIELDS, b"Threads:")):
            if name == b"Threads:":
                tasks += value
            else:
                kib += value
    if kib * 1024 > suspicious_bytes:
        with suppress(PermissionError):
            # The proportional set size shares out shared memory among its processes.
            kib = sum(
                value
                for pid in pids
                for _name, value in _named_values(pid, "smaps_rollup", _PSS_FIELDS)
            )
    return tasks, kib * 1024


def _named_values(pid: int, file: str, names: Collection[bytes]) -> list[tuple[bytes, int]]:
    """Return the name and the number of these lines in a file of /proc/PID.

    Return an empty list if the process has ended. Raises PermissionError if it exists but the file
    cannot be read.
    """
    try:
        lines = read_proc(f"/proc/{pid}/{file}").splitlines()
    except _GONE:
        return []
    except PermissionError:
        if os.path.exists(f"/proc/{pid}"):
            raise
        return []
    split_lines = [line.split() for line in lines]
    return [(words[0], int(words[1])) for words in split_lines if words and words[0] in names]


def oom_kills(vmstat: str = "/proc/vmstat") -> int:
    """Return how many processes the kernel has killed for lack of memory; 0 if unknown."""
    try:
        fields = read_proc(vmstat).split()
    except OSError:
        return 0
    return int(fields[fields.index(b"oom_kill") + 1]) if b"oom_kill" in fields else 0


def ended_for_memory(returncode: int | None, kills_before: int) -> bool:
    """Return True if a process was killed for lack of memory, as far as that can be known.

    That is assumed if it was killed, and the kernel has killed any process for lack of memory since
    its start. The caller makes sure that the referee did not kill it.

    returncode    the exit status of the process
    kills_before  the result of `oom_kills` at the start of the process
    """
    was_killed = returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    return was_killed and oom_kills() > kills_before


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
    """Kill all processes for which `belongs` is true, and search again until none is left.

    Return False if there are still some after LONGEST_S.
    """
    deadline_s = time.monotonic() + LONGEST_S
    while pids := search(belongs):
        for pid in pids:
            with suppress(OSError):  # it has ended, or belongs to another user
                handle = os.pidfd_open(pid)
                try:
                    # Tested again: before it was opened, its number may have been reused.
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
        poller = select.poll()
        poller.register(handle, select.POLLIN)  # it becomes readable when the process exits
        return bool(poller.poll(milliseconds))
    finally:
        os.close(handle)


def on_exit(pid: int, call: Callable[[], object]) -> Callable[[], object]:
    """Let the running event loop call `call` once, when a process has exited.

    Returns a function that cancels this, and may be called at any time. Raises OSError if the
    process cannot be watched.
    """
    handle = os.pidfd_open(pid)  # becomes readable when the process exits
    loop = asyncio.get_running_loop()
    is_watched = True

    def stop_watching() -> None:
        nonlocal is_watched
        if is_watched:
            is_watched = False
            loop.remove_reader(handle)
            os.close(handle)

    def process_exited() -> None:
        stop_watching()
        call()

    loop.add_reader(handle, process_exited)
    return stop_watching
