"""The socket of the site."""

from __future__ import annotations

import errno
import resource
import socket
from contextlib import suppress
from typing import Final

from deepsea_referee.errors import UserError

BACKLOG: Final = 2048
MOST_OPEN: Final = 8192
"""Open files that are asked of the system: one for each reader."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is one of the system's choice. Raises UserError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            raise UserError(
                f"port {port} of {host} is in use: choose another one with --port"
            ) from None
        if code == errno.EACCES:
            raise UserError(f"port {port} needs more rights: choose one above 1023") from None
        words = getattr(error, "strerror", None) or error
        raise UserError(f"--host {host} --port {port}: {words}") from None

    # For all that connect: asyncio does it by itself only for sockets that name their protocol, and
    # else a page of two parts waits 40 ms for the reader's word on the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def open_many_files() -> None:
    """Ask the system for as many open files as a server needs, or as it gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN if hard == resource.RLIM_INFINITY else min(MOST_OPEN, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
