"""The cleanup process: cleans up after the referee, also when the referee is killed.

Invariants: whatever must not outlive the referee (processes, control groups, folders) is
registered before it exists and unregistered after it is gone. When the referee exits in any way,
`kill -9` included, the cleanup process kills and removes everything that is still registered.
Each referee process has one; it starts with the first entry.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Literal

from deepsea_referee.sandbox import cleanup_process, leftovers, process_tree

Kind = Literal["mark", "session", "group", "folder"]

_STOP_MS = 3_000
_number = itertools.count()


class CleanupProcess:
    """The cleanup process of one referee process, and its entries."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._entries: dict[tuple[Kind, str], int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def register(self, kind: Kind, value: str, extra: int) -> None:
        """Add an entry; starts or restarts the process if it does not run."""
        with self._lock:
            self._entries[kind, value] = extra
            if self._process is None or not self._send("+", kind, value, extra):
                self._process = self._start()
                for (other_kind, other), other_extra in self._entries.items():
                    self._send("+", other_kind, other, other_extra)

    def unregister(self, kind: Kind, value: str) -> None:
        """Remove an entry."""
        with self._lock:
            if self._entries.pop((kind, value), None) is not None:
                self._send("-", kind, value, 0)

    def stop(self) -> None:
        """Let the process clean up what is still registered, and exit."""
        if self._process is None or self._owner != os.getpid():
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._entries:
            self._process.kill()  # nothing is left for it to do
        if self._process.poll() is None:
            if not process_tree.wait_for_end(self._process.pid, _STOP_MS):
                self._process.kill()
            self._process.wait()

    def _send(self, sign: str, kind: Kind, value: str, extra: int) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(os.fsencode(f"{sign}\t{kind}\t{value}\t{extra}\n"))
        except BrokenPipeError:
            self._process.wait()
            return False
        return True

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", cleanup_process.__file__, str(self._owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={},
            # A signal to the referee's whole process group must not kill its cleanup process.
            start_new_session=True,
        )


# By owner: after a fork the copied object still belongs to the parent.
_running: dict[int, CleanupProcess] = {}


def _mine() -> CleanupProcess:
    process = _running.get(os.getpid())
    if process is None:
        process = _running[os.getpid()] = CleanupProcess()
        atexit.register(process.stop)
    return process


def new_mark() -> str:
    """A text that is unique on this machine, to find the processes of one bot."""
    owner = os.getpid()
    source = f"{owner} {cleanup_process.start_time(owner)} {next(_number)}"
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
        folder = Path(parent or tempfile.gettempdir(), leftovers.folder_name())
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
