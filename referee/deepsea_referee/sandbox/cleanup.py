"""Names of what must not outlive the referee, and removal of what a killed one left.

Invariants: folders, control groups and processes of bots have names that say which process made
them, by its number, start time and process namespace. A process that ends in an orderly way removes
its own folders; what killed ones left (`kill -9`) is removed by the next process that plays: only
what is this user's, and only if the process that made it has certainly ended; a control group only
if nothing runs in it.
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
"""The option of bubblewrap's that is followed by a name: it unsets a variable that nobody sets."""
_NAME = re.compile(r"deepsea-(\d+)-(\d+)-(\d+)-\d+")
_MARK = re.compile(
    rb"(?:^|\0)(?:%s=|%s\0)(deepsea-[\d-]+)\0" % (MARK_VARIABLE.encode(), MARK_OPTION.encode())
)
_PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)
_LONGEST_PARENT = 40
"""The longest path of a folder in which a socket's path has room: its folder's name has up to 55
characters."""
_number = itertools.count()


class _Owned(NamedTuple):
    """A private folder that is there."""

    owner: int
    """The process that made it: a fork removes none."""
    lock: int | None
    """Its descriptor, by which it is locked; None if there was none left."""


_folders: dict[Path, _Owned] = {}


def new_name() -> str:
    """A name, unique on this machine, that says which process gives it."""
    pid = os.getpid()
    return f"deepsea-{pid}-{_start_time_of_this(pid)}-{_namespace()}-{next(_number)}"


@cache
def _start_time_of_this(pid: int) -> int:
    return process_tree.start_time(pid)


def private_folder(parent: str | None = None) -> Path:
    """Make a folder (mode 700) for `remove_folder`; removed at the latest with this process."""
    _remove_folders_of_killed_referees()
    while True:
        folder = Path(parent or tempfile.gettempdir(), new_name())
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            if error.errno != errno.EEXIST:  # somebody else may have made one of that name
                raise
        else:
            _folders[folder] = _Owned(os.getpid(), _locked(folder))
            return folder


def _locked(folder: Path) -> int | None:
    """Lock a folder, so that nobody tidies it away while it is in use, however old its files are.

    systemd's cleaner, which removes from /tmp what is ten days old, passes over locked folders.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor
    return None


def socket_folder() -> Path:
    """Make a private folder for sockets, whose path does not depend on the form of TMPDIR.

    The path of a socket has at most 107 bytes, and gRPC's addresses give %, #, ? and commas
    meanings of their own. Raises OSError if no such folder can be made.
    """
    for parent in _socket_places():
        if len(parent) <= _LONGEST_PARENT and _PLAIN_PATH.fullmatch(parent):
            with suppress(OSError):
                return private_folder(parent)
    raise OSError(
        errno.ENOENT, f"no folder for sockets can be made in {', '.join(_socket_places())}"
    )


def _socket_places() -> list[str]:
    """Folders in which socket folders are made, the first that is possible."""
    found = ("/tmp", os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir())
    return list(dict.fromkeys(filter(None, found)))


def remove_folder(folder: Path) -> None:
    """Remove a private folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    owned = _folders.pop(folder, None)
    if owned is not None and owned.lock is not None:
        os.close(owned.lock)


@atexit.register
def _remove_own_folders() -> None:
    for folder, owned in _folders.items():
        if owned.owner == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


# What killed referees left


@cache
def remove_what_killed_referees_left() -> None:
    """End the processes and remove the folders of killed referees; once in a process."""
    end_processes()
    _remove_folders_of_killed_referees()


@cache
def _remove_folders_of_killed_referees() -> None:
    # By itself: looking through all processes takes 10 ms, and who plays in process starts none.
    remove_folders(map(Path, _socket_places()))


def end_processes() -> None:
    """Kill processes of bots whose referee has ended.

    Of a sandbox that was being set up when its referee was killed, a process of bubblewrap may wait
    for ever; of a plain bot there may be children.
    """

    def is_left(pid: int) -> bool:
        mark = _MARK.search(process_tree.first_words(pid))
        return mark is not None and _is_of_ended_process(os.fsdecode(mark[1]))

    process_tree.end_all(is_left)


def remove_folders(parents: Iterable[Path]) -> None:
    """Remove the folders of ended processes."""
    for parent in parents:
        for folder in parent.glob("deepsea-*"):
            with suppress(OSError):
                is_own = not folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
                if is_own and _is_of_ended_process(folder.name):
                    shutil.rmtree(folder, ignore_errors=True)


def remove_groups(places: Iterable[Path]) -> None:
    """Remove the empty control groups of ended processes."""
    for place in places:
        for group in place.glob("deepsea-*"):
            with suppress(OSError):  # something runs in it
                if _is_of_ended_process(group.name):
                    group.rmdir()


def _is_of_ended_process(name: str) -> bool:
    found = _NAME.fullmatch(name)
    if found is None or int(found[3]) != _namespace():
        return False
    return process_tree.has_ended(int(found[1]), int(found[2]))


def _namespace() -> int:
    """The namespace that process numbers are of."""
    return Path("/proc/self/ns/pid").stat().st_ino
