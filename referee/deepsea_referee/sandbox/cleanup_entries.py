"""The list of what must not outlive this process, kept by a process of its own.

Invariants: that process gets every entry as a line on its stdin and acts when its stdin ends; it is
restarted with all entries if it has died. After a fork the copied object still belongs to the
parent. What it does with the entries is its own matter; nothing here is of one operating system.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

Kind = Literal["mark", "session", "group", "folder"]

STOP_S = 3.0


class CleanupProcess:
    """The cleanup process of one referee process, and its entries.

    command      starts it
    first        what it reads before the entries
    environment  all that it gets; None: that of this process
    flags        how it is kept apart from this process where there are no sessions
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        first: bytes = b"",
        environment: Mapping[str, str] | None = None,
        flags: int = 0,
    ) -> None:
        self._command = tuple(command)
        self._first = first
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
        """Remove an entry."""
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
        process = subprocess.Popen(
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
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(self._first)
        return process


_running: dict[int, CleanupProcess] = {}


def of_this_process(make: Callable[[], CleanupProcess]) -> CleanupProcess:
    """The cleanup process of this process, made when it is first asked for."""
    process = _running.get(os.getpid())
    if process is None:
        process = _running[os.getpid()] = make()
        atexit.register(process.stop)
    return process
