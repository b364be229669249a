"""The start of a runner's process: a program that makes sure it does not outlive its server.

    runner_child.py PID COMMAND [ARGUMENT]...

It becomes the command, which gets SIGTERM when the process PID, its parent, has ended. It is a
program of its own, since a server with threads must not run code between fork and exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""The operation of prctl(2) that sets the signal for the end of the parent."""


def main() -> None:
    """Replace this process by the command of its arguments, unless the parent has ended."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == int(parent):  # else the parent ended before prctl, and no signal would come
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
