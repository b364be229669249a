"""Folders, control groups and processes that must not outlive the referee: names and removal.

Invariants: the names of these things contain the number, start time and process namespace of the
process that made them. A process that exits normally removes its own folders. Remains of killed
processes (`kill -9`) are removed by the next process that plays: only those of this user, and only
if the process that made them has certainly ended; a control group only if it has no members.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deepsea_referee.sandbox import process_tree
from deepsea_referee.sandbox.interface import MARK_VARIABLE

MARK_OPTION = "--unsetenv"
"""The option of bubblewrap that marks its process with a name.

It unsets a variable of this name, which is never set.
"""
_NAME = re.compile(r"deepsea-(\d+)-(\d+)-(\d+)-\d+")
_MARK = re.compile(
    rb"(?:^|\0)(?:%s=|%s\0)(deepsea-[\d-]+)\0" % (MARK_VARIABLE.encode(), MARK_OPTION.encode())
)
_PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)
_LONGEST_PARENT = 40
"""The longest path of a folder in which a socket's path has room.

The name of the socket's folder has up to 55 characters.
"""
_number = itertools.count()


class _FolderOwner(NamedTuple):
    """A private folder of this process, or of the process from which it was forked."""

    owner: int
    """The process that made the folder; forked processes do not remove it."""
    lock: int | None
    """The descriptor that locks the folder; None if there was no free descriptor."""


_folders: dict[Path, _FolderOwner] = {}


def new_name() -> str:
    """Return a name, unique on this machine, by which this process can be identified later."""
    pid = os.getpid()
    return f"deepsea-{pid}-{_start_time_of_this(pid)}-{_namespace()}-{next(_number)}"


@cache
def _start_time_of_this(pid: int) -> int:
    return process_tree.start_time(pid)


def private_folder(parent: str | None = None) -> Path:
    """Create a folder in `parent` that only this user can read; in TMPDIR if that is None.

    `remove_folder` removes it. Otherwise it is removed at the end of this process, or by the next
    process of a referee if this one is killed. Raises OSError if it cannot be created.
    """
    _remove_folders_of_killed_referees()
    while True:
        folder = Path(parent or tempfile.gettempdir(), new_name())
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue  # another user has made a folder of that name: try the next name
        _folders[folder] = _FolderOwner(os.getpid(), _lock(folder))
        return folder


def _lock(folder: Path) -> int | None:
    """Lock a folder against cleaners of temporary files; return the descriptor that locks it.

    systemd's cleaner removes files from /tmp after ten days, but not from folders with a lock
    (flock). Return None if there is no free descriptor: the folder is used without a lock then.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor
    return None


def socket_folder() -> Path:
    """Create a private folder for sockets, with a short path of ordinary characters.

    The path of a socket has at most 107 bytes, and in gRPC's addresses %, #, ? and commas have a
    special meaning. Raises OSError if no such folder can be created.
    """
    for parent in _socket_places():
        if len(parent) <= _LONGEST_PARENT and _PLAIN_PATH.fullmatch(parent):
            with suppress(OSError):
                return private_folder(parent)
    raise OSError(
        errno.ENOENT, f"no folder for sockets can be made in {', '.join(_socket_places())}"
    )


def _socket_places() -> list[str]:
    """Return the folders in which a socket folder may be created, in order of preference."""
    folders = ("/tmp", os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir())
    return list(dict.fromkeys(filter(None, folders)))


def remove_folder(folder: Path) -> None:
    """Remove a private folder with its content."""
    shutil.rmtree(folder, ignore_errors=True)
    owned = _folders.pop(folder, None)
    if owned is not None and owned.lock is not None:
        os.close(owned.lock)


@atexit.register
def _remove_own_folders() -> None:
    for folder, owned in _folders.items():
        if owned.owner == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


# Remains of killed referees


@cache
def remove_what_killed_referees_left() -> None:
    """Kill the bots and remove the folders of killed referees, once in each process."""
    end_processes()
    _remove_folders_of_killed_referees()


@cache
def _remove_folders_of_killed_referees() -> None:
    """Remove the folders of killed referees, once in each process.

    Their processes are not killed here: the search for them takes 10 ms, which a referee can save
    if its bots play in its own process.
    """
    remove_folders(map(Path, _socket_places()))


def end_processes() -> None:
    """Kill processes of bots whose referee has ended.

    If a referee is killed while it sets up a sandbox, a process of bubblewrap may wait forever. A
    plain bot may have children that survive it. Both have the name that their referee has given
    them, with its process number, in their environment or command line.
    """

    def has_lost_referee(pid: int) -> bool:
        mark = _MARK.search(process_tree.environment_and_command(pid))
        return mark is not None and _is_of_ended_process(os.fsdecode(mark[1]))

    process_tree.end_all(has_lost_referee)


def remove_folders(parents: Iterable[Path]) -> None:
    """Remove this user's private folders in these parents whose process has ended."""
    for parent in parents:
        for folder in parent.glob("deepsea-*"):
            with suppress(OSError):
                is_own = not folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
                if is_own and _is_of_ended_process(folder.name):
                    shutil.rmtree(folder, ignore_errors=True)


def remove_groups(parents: Iterable[Path]) -> None:
    """Remove the control groups in these parents whose process has ended, if they are empty."""
    for parent in parents:
        for group in parent.glob("deepsea-*"):
            with suppress(OSError):  # the group has members
                if _is_of_ended_process(group.name):
                    group.rmdir()


def _is_of_ended_process(name: str) -> bool:
    """Return True if the process that made a name by `new_name` has certainly ended.

    False for any other name, and for a process in another namespace of process numbers, of which
    nothing is known.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[3]) != _namespace():
        return False
    pid, start_ticks = int(match[1]), int(match[2])
    return process_tree.has_ended(pid, start_ticks)


def _namespace() -> int:
    """Return the number of this process's namespace of process numbers."""
    return Path("/proc/self/ns/pid").stat().st_ino
