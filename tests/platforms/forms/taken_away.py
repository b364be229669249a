"""Takes from Python what macOS or Windows lack, before anything of ours is imported.

Invariants: what Python's own library needs on this machine goes on working: it is imported first.
psutil may read /proc, because elsewhere it reads something else. Nothing is added but what the real
system has: line ends and an encoding of Windows, connected sockets without Unix sockets.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib.abc
import importlib.machinery
import io
import multiprocessing.connection  # noqa: F401  (before what it imports is gone)
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from typing import Any

import psutil

LINUX = {
    os: [
        *("pidfd_open", "pipe2", "memfd_create", "eventfd", "posix_fadvise", "setxattr"),
        *("sched_getaffinity", "sched_setaffinity", "sched_setscheduler", "unshare", "setns"),
    ],
    signal: ["pidfd_send_signal", "sigwaitinfo", "sigtimedwait"],
    select: ["epoll"],
    socket: ["SO_PEERCRED"],
}
"""What macOS does not have."""

UNIX = {
    os: [
        *("killpg", "setsid", "getpgid", "getsid", "setpgid", "fork", "forkpty", "getuid"),
        *("geteuid", "getgid", "chown", "fchown", "fchmod", "nice", "mkfifo", "sysconf", "statvfs"),
        *("pread", "pwrite", "set_blocking", "openpty", "O_DIRECTORY", "O_NOFOLLOW"),
        *("O_NONBLOCK", "O_CLOEXEC", "uname", "getloadavg"),
    ],
    signal: [
        *("SIGKILL", "SIGALRM", "SIGHUP", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGCHLD", "SIGPIPE"),
        *("setitimer", "alarm", "pause", "pthread_kill", "pthread_sigmask", "sigwait"),
        *("siginterrupt", "SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK", "ITIMER_REAL"),
    ],
    select: ["poll"],
    socket: ["AF_UNIX"],
}
"""What Windows does not have either."""

LK_NBLCK = 2
KILL = 9
"""SIGKILL, with which this machine does what TerminateProcess does there."""
MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty")


def macos() -> None:
    """Leave what macOS has."""
    _take_linux()
    _unsupported(asyncio.SelectorEventLoop, "add_signal_handler", "remove_signal_handler")


def windows() -> None:
    """Leave what Windows has."""
    import numpy  # noqa: F401  (this machine's build looks for what is gone; that of Windows does not)

    _keep_for(psutil, signal)
    _take_linux()
    _delete(UNIX)
    _add_locks()
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())
    os.supports_dir_fd.clear()
    os.supports_fd.clear()
    _unsupported(
        asyncio.SelectorEventLoop,
        *("add_signal_handler", "remove_signal_handler", "add_reader", "remove_reader"),
        *("add_writer", "remove_writer", "connect_read_pipe", "connect_write_pipe"),
    )

    def kill(process: subprocess.Popen[Any]) -> None:
        process.send_signal(KILL)

    replacements: list[tuple[Any, str, Any]] = [
        (subprocess.Popen, "kill", kill),
        (socket, "socketpair", _loopback_pair),
        (shutil, "_use_fd_functions", False),
    ]
    for owner, name, value in replacements:
        setattr(owner, name, value)
    _write_as_windows()


def _add_locks() -> None:
    """Locks of files as Windows has them, by those of this machine."""
    import fcntl

    def locking(descriptor: int, mode: int, _count: int) -> None:
        assert mode == LK_NBLCK
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    module: Any = types.ModuleType("msvcrt")
    module.locking, module.LK_NBLCK = locking, LK_NBLCK
    sys.modules["msvcrt"] = module


def _take_linux() -> None:
    _delete(LINUX)
    if "process_cpu_count" in vars(os):  # from Python 3.13 on; here it asks for the affinity
        vars(os)["process_cpu_count"] = os.cpu_count
    _hide_proc()


def _delete(what: dict[types.ModuleType, list[str]]) -> None:
    for module, names in what.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def _keep_for(user: types.ModuleType, module: types.ModuleType) -> None:
    """Let one package keep a module as it is; its own form elsewhere does not need it."""
    whole = types.ModuleType(module.__name__)
    whole.__dict__.update(vars(module))
    for name, one in [*sys.modules.items()]:
        if name.split(".")[0] == user.__name__ and getattr(one, module.__name__, None) is module:
            setattr(one, module.__name__, whole)


def _hide_proc() -> None:
    for owner, name in (
        *((os, name) for name in ("open", "listdir", "scandir", "stat", "readlink")),
        (io, "open"),
        (builtins, "open"),
    ):
        setattr(owner, name, _without_proc(getattr(owner, name)))


def _without_proc(real: Any) -> Any:
    def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc"):
            caller = sys._getframe(1)
            while caller.f_globals is globals() and caller.f_back is not None:
                caller = caller.f_back
            if not caller.f_globals.get("__name__", "").startswith("psutil"):
                raise FileNotFoundError(2, "there is no /proc", os.fspath(path))
        return real(path, *arguments, **options)

    return call


def _unsupported(loop: type, *names: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError

    for name in names:
        setattr(loop, name, refuse)


def _loopback_pair(*_: object) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _address = listening.accept()
    return ours, theirs


class _Missing(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _write_as_windows() -> None:
    """Where a text file is opened without saying how, it is as Windows would have it."""
    real = io.open

    def call(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if "b" not in mode:
            if len(arguments) < 2 and options.get("encoding") is None:
                options["encoding"] = "cp1252"
            if len(arguments) < 4 and options.get("newline") is None and "r" not in mode:
                options["newline"] = "\r\n"
        return real(file, mode, *arguments, **options)

    for owner in (io, builtins):
        owner.open = call  # type: ignore[attr-defined]
    tempfile._io.open = call  # type: ignore[attr-defined]
