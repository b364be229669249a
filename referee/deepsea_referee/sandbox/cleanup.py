"""A small process that cleans up after this one if it is killed.

Laws: whatever must not outlive the referee (processes, control groups, folders) is entered here
before it exists and struck off after it is gone. When the referee ends in any way, `kill -9`
included, the keeper ends and removes all that is still entered. One keeper for each referee
process; it starts with the first entry.
"""

from __future__ import annotations

import atexit
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

from deepsea_referee.sandbox import cleanup_process, process_tree

Kind = Literal["mark", "session", "group", "folder"]

_STOP_MS = 3_000
_number = itertools.count()


class Keeper:
    """The keeper of one referee process, and what is entered with it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._entries: dict[tuple[Kind, str], int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def enter(self, kind: Kind, value: str, extra: int) -> None:
        """Note something; the keeper is started, or started again, if it does not run."""
        with self._lock:
            self._entries[kind, value] = extra
            if self._process is None or not self._tell("+", kind, value, extra):
                self._process = self._start()
                for (other_kind, other), other_extra in self._entries.items():
                    self._tell("+", other_kind, other, other_extra)

    def strike(self, kind: Kind, value: str) -> None:
        """Take something off the list."""
        with self._lock:
            if self._entries.pop((kind, value), None) is not None:
                self._tell("-", kind, value, 0)

    def stop(self) -> None:
        """Let the keeper clean up what is still entered, and end."""
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

    def _tell(self, sign: str, kind: Kind, value: str, extra: int) -> bool:
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
            # A signal to the referee's whole group must not take the one who tidies up after it.
            start_new_session=True,
        )


# After a fork the copied keeper is still the parent's.
_keepers: dict[int, Keeper] = {}


def _mine() -> Keeper:
    keeper = _keepers.get(os.getpid())
    if keeper is None:
        keeper = _keepers[os.getpid()] = Keeper()
        atexit.register(keeper.stop)
    return keeper


def new_mark() -> str:
    """A text that no other process of this machine carries, to find the processes of one bot."""
    owner = os.getpid()
    source = f"{owner} {cleanup_process.start_time(owner)} {next(_number)}"
    # Of one length: none is a part of another.
    return hashlib.sha256(source.encode()).hexdigest()[:32]


def enter(kind: Kind, value: str | Path, extra: int = 0) -> None:
    """Note something that must not outlive this process. `extra`: a session leader's start."""
    _mine().enter(kind, str(value), extra)


def strike(kind: Kind, value: str | Path) -> None:
    """Take something off the list: it is gone."""
    _mine().strike(kind, str(value))


def private_folder(parent: str | None = None) -> Path:
    """Make a new folder (mode 700) that is removed with `remove_folder`, at the latest with us."""
    folder = Path(tempfile.mkdtemp(prefix=f"deepsea-{os.getpid()}-", dir=parent))
    enter("folder", folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a private folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    strike("folder", folder)
