"""S18: two sandboxes try to reach each other. Argument: `sender`, which then waits, or `receiver`.

Each reports whether it could do its part; a channel is there if the receiver sees the sender.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from pathlib import Path

from attacks.guard import call, insist, run, say, tried, wait_to_be_ended

SHARED = Path(os.__file__)  # a file that every sandbox sees
DESCRIPTION = b"user\0deepsea\0word\0"


def locks() -> dict[str, object]:
    """Try each kind of lock on a file that both see."""
    with SHARED.open("rb") as file:
        return {
            "flock": tried(lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)),
            "fcntl": tried(lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)),
            "ofd": tried(lambda: fcntl.fcntl(file, 37, bytes(32))),
            "lease": tried(lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)),
            "notify": tried(lambda: fcntl.fcntl(file, fcntl.F_NOTIFY, 1)),
        }


def kernel() -> dict[str, object]:
    """Try what the kernel keeps for a user or for the machine."""
    return {
        "keyring": call(248, 217, 0, 0, 0, 0, -4),
        "keyctl": call(250, 219, 0, -4, 0),
        "inotify": call(294, 26, 0),
        "page_cache": call(451, 451, 0, 0, 0, 0),
    }


def sender() -> None:
    Path("/tmp/word").write_text("hello")
    Path("/dev/shm/word").write_text("hello")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0deepsea-test-word")
    listener.listen()
    say({**locks(), **kernel()})
    wait_to_be_ended()


def receiver() -> dict[str, object]:
    client = socket.socket(socket.AF_UNIX)
    return {
        **locks(),
        **kernel(),
        "tmp": os.listdir("/tmp"),
        "shm": os.listdir("/dev/shm"),
        "abstract": tried(lambda: client.connect("\0deepsea-test-word")),
        "host_name": os.uname().nodename,
    }


insist()
if sys.argv[1] == "sender":
    sender()
else:
    run(receiver)
