"""Cleans up after the referee, also when the referee is killed.

Invariants: whatever must not outlive the referee (processes, control groups, folders) is registered
before it exists and unregistered after it is gone. Each referee process has a cleanup process,
which gets every entry as a line on its stdin; when its stdin ends because the referee has exited in
any way, `kill -9` included, it kills and removes everything that is still registered. It is
restarted with all entries if it has died. `CleanupProcess` is the same on every operating system.

Of referees that were killed together with their cleanup processes, a folder is removed only if it
is this user's, and the process that made it, by its number, start time and process namespace, has
certainly ended; a control group only if nothing runs in it.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from deepsea_referee.sandbox import cleanup_process
from deepsea_referee.sandbox.cleanup_process import start_time

Kind = Literal["mark", "session", "group", "folder"]

STOP_S = 3.0
_COMMAND = (sys.executable, "-I", "-S", "-B", cleanup_process.__file__)
_FOLDER = re.compile(r"deepsea-(\d+)-(\d+)-(\d+)-\d+")
_GROUP = re.compile(r"deepsea-(\d+)-\d+")
_number = itertools.count()


class CleanupProcess:
    """The cleanup process of one referee process, and its entries.

    After a fork the copied object still belongs to the parent.

    command      starts it
    environment  all that it gets; None: that of this process
    flags        how it is kept apart from this process where there are no sessions
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        flags: int = 0,
    ) -> None:
        self._command = tuple(command)
        self._environment = environment
        self._flags = flags
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._entries: dict[tuple[Kind, str], int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def register(self, kind: Kind, value: str, extra: int = 0) -> None:
        """Add an entry; starts or restarts the process if it does not run."""
        with self._lock:
            self._entries[kind, value] = extra
            if self._process is None or not self._send("+", kind, value, extra):
                self._process = self._start()
                for (other_kind, other), other_extra in self._entries.items():
                    self._send("+", other_kind, other, other_extra)

    def unregister(self, kind: Kind, value: str) -> None:
        with self._lock:
            if self._entries.pop((kind, value), None) is not None:
                self._send("-", kind, value, 0)

    def stop(self) -> None:
        """Let the process clean up what is still registered, for STOP_S at most, and end it."""
        if self._process is None or self._owner != os.getpid():
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._entries:  # else nothing is left for it to do
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        self._process.kill()
        self._process.wait()

    def _send(self, sign: str, kind: Kind, value: str, extra: int) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(os.fsencode(f"{sign}\t{kind}\t{value}\t{extra}\n"))
        except OSError:  # a broken pipe; Windows has other words for it
            self._process.wait()
            return False
        return True

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=os.path.abspath(os.sep),
            env=self._environment,
            # A signal to the referee's whole process group must not kill its cleanup process.
            start_new_session=True,
            creationflags=self._flags,
        )


_running: dict[int, CleanupProcess] = {}


def of_this_process(make: Callable[[], CleanupProcess]) -> CleanupProcess:
    """The cleanup process of this process, made when it is first asked for."""
    process = _running.get(os.getpid())
    if process is None:
        process = _running[os.getpid()] = make()
        atexit.register(process.stop)
    return process


# On Linux


def _mine() -> CleanupProcess:
    return of_this_process(lambda: CleanupProcess((*_COMMAND, str(os.getpid())), environment={}))


def new_mark() -> str:
    """A text that is unique on this machine, to find the processes of one bot."""
    owner = os.getpid()
    source = f"{owner} {start_time(owner)} {next(_number)}"
    # Of one length: none is a part of another.
    return hashlib.sha256(source.encode()).hexdigest()[:32]


def register(kind: Kind, value: str | Path, extra: int = 0) -> None:
    """Add something that must not outlive this process. `extra`: a session leader's start time."""
    _mine().register(kind, str(value), extra)


def unregister(kind: Kind, value: str | Path) -> None:
    """Remove an entry: its resource is gone."""
    _mine().unregister(kind, str(value))


def private_folder(parent: str | None = None) -> Path:
    """Make a folder (mode 700) for `remove_folder`; removed at the latest with this process."""
    while True:
        folder = Path(parent or tempfile.gettempdir(), folder_name())
        register("folder", folder)
        try:
            folder.mkdir(mode=0o700)
            return folder
        except OSError as error:
            unregister("folder", folder)
            if error.errno != errno.EEXIST:  # somebody else may have made one of that name
                raise


def remove_folder(folder: Path) -> None:
    """Remove a private folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    unregister("folder", folder)


# What referees left that were killed together with their cleanup processes


def folder_name() -> str:
    """A new name of a folder that says which process makes it."""
    pid = os.getpid()
    return f"deepsea-{pid}-{start_time(pid)}-{_namespace()}-{next(_number)}"


def remove_folders(parents: Iterable[str | Path] | None = None) -> list[Path]:
    """Remove the folders of ended processes; returns them. By default those for temporary files."""
    if parents is None:
        parents = {tempfile.gettempdir(), "/tmp"}
    removed = []
    for parent in parents:
        for folder in Path(parent).glob("deepsea-*"):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def remove_groups(places: Iterable[Path]) -> None:
    """Remove the empty control groups of ended processes."""
    for place in places:
        for group in place.glob("deepsea-*"):
            found = _GROUP.fullmatch(group.name)
            if found and not start_time(int(found[1])):
                with suppress(OSError):  # something runs in it
                    group.rmdir()


def _is_left(folder: Path) -> bool:
    found = _FOLDER.fullmatch(folder.name)
    if found is None or int(found[3]) != _namespace():
        return False
    with suppress(OSError):
        if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
            return False
        return start_time(int(found[1])) != int(found[2])
    return False


def _namespace() -> int:
    """The namespace that process numbers are of."""
    return Path("/proc/self/ns/pid").stat().st_ino
