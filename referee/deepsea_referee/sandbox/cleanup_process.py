"""Finds and kills the processes of a bot, and removes its control groups and folders.

Invariants: uses only the standard library and imports nothing of this package, because this file
is run as a program (`python -I -S cleanup_process.py PID`, see cleanup.py).
A process belongs to a bot if it has the bot's mark (in its first environment or in its
command line) or is in the bot's session. A process is signalled only after a check through its
pidfd, so a reused process number is never hit.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

Kept = defaultdict[str, dict[str, str]]
"""What is registered: by kind, the values, and what goes with each."""
PAUSE_S = 0.005
LONGEST_S = 1.0


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
    except OSError:
        return None


def start_time(pid: int) -> int:
    """Start time of a process, in ticks since boot, or 0. Tells reused process numbers apart."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def _first_words(pid: int) -> bytes:
    words = b""
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                words += file.read()
        except OSError:  # another user's, or gone
            pass
    return words


def belongs(pid: int, marks: Iterable[bytes], sessions: Mapping[int, int]) -> bool:
    """Whether a process belongs to these bots. `sessions`: session -> its leader's start time."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return False
    session = int(fields[3])
    # 0 stands for every session whose leader is outside this pid namespace: nobody's.
    if session and session in sessions and start_time(session) in (0, sessions[session]):
        return True
    words = _first_words(pid)
    return any(mark in words for mark in marks)


def members(marks: Iterable[bytes], sessions: Mapping[int, int]) -> list[int]:
    """The living processes of these bots that this user may see."""
    marks = list(marks)
    if not marks and not sessions:
        return []
    me = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != me and belongs(pid, marks, sessions)]


def end_all(marks: Iterable[bytes], sessions: Mapping[int, int]) -> bool:
    """Kill the processes of these bots until none is left; False after a timeout of LONGEST_S."""
    marks = list(marks)
    deadline = time.monotonic() + LONGEST_S
    while pids := members(marks, sessions):
        for pid in pids:
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                if belongs(pid, marks, sessions):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            except OSError:
                pass
            finally:
                os.close(handle)
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def remove_group(path: str) -> bool:
    """Kill the members of a cgroup and remove it; False after a timeout of LONGEST_S."""
    deadline = time.monotonic() + LONGEST_S
    while os.path.isdir(path):
        _kill_group(path)
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError:  # still has members, or their statistics are not yet final
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_S)
    return True


def _kill_group(path: str) -> None:
    try:
        with open(os.path.join(path, "cgroup.procs")) as file:
            for line in file:
                os.kill(int(line), signal.SIGKILL)
    except (OSError, ValueError):
        pass


def keep(kept: Kept, line: bytes) -> None:
    """Note a line of the cleanup process's input: something to be cleaned up, or not any more."""
    sign, kind, value, extra = os.fsdecode(line).rstrip("\n").split("\t")
    if sign == "+":
        kept[kind][value] = extra
    else:
        kept[kind].pop(value, None)


def main(owner: int) -> None:
    """Read the list of resources from standard input; when `owner` ends, clean them up."""
    kept = Kept(dict)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    try:
        handle = os.pidfd_open(owner)
    except OSError:
        handle = -1
    else:
        waiting.register(handle, select.POLLIN)
    unread = b""
    while True:
        ready = dict(waiting.poll())
        received = os.read(0, 65536) if 0 in ready else b""
        unread += received
        *lines, unread = unread.split(b"\n")
        for line in lines:
            keep(kept, line)
        if not received and (0 in ready or handle in ready):
            break
    # Groups first: killing by group is exact.
    for group in kept["group"]:
        remove_group(group)
    end_all(
        [os.fsencode(mark) for mark in kept["mark"]],
        {int(session): int(start) for session, start in kept["session"].items()},
    )
    for group in kept["group"]:
        remove_group(group)
    for folder in kept["folder"]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
