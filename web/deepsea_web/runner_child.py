"""The first thing that a runner's process does: make sure that it does not outlive its server.

    runner_child.py PID COMMAND [ARGUMENT]...

It becomes the command, which is asked to end when the process PID, its parent, is gone. A program
of its own, since a thread of the server cannot do anything between fork and exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == int(parent):  # else the parent was gone before the call
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
