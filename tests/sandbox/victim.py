"""A referee that is about to be killed: starts two bots at a level and then does nothing more.

Arguments: level, control groups or not, and a word that the bots carry with them.
"""

from __future__ import annotations

import os
import signal
import sys

from deepsea_referee.sandbox.bubblewrap import Sandbox
from deepsea_referee.sandbox.cgroup import Hierarchies
from deepsea_referee.sandbox.interface import Isolation, LaunchSpec
from deepsea_referee.sandbox.plain_process import PlainProcess

# It and its child, which left the session, ignore what can be ignored.
BOT = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
os.write(1, b"x")
time.sleep(60)
"""


def main(level: str, groups: str, word: str) -> None:
    """Start the bots, say so once all four processes run, and wait."""
    signal.alarm(60)  # should its killer be killed first
    places = None if groups == "groups" else Hierarchies()
    isolation: Isolation = Sandbox(places) if level == "sandbox" else PlainProcess()
    reading, writing = os.pipe()
    # As an argument, too: another user's environment cannot be read.
    command = (sys.executable, "-I", "-S", "-c", BOT, word)
    bots = [
        isolation.spawn(LaunchSpec(command, None, {"WORD": word}, None, writing, 2))
        for _ in range(2)
    ]
    if os.environ.get("AT_ONCE") != "1":
        for _ in range(2 * len(bots)):
            os.read(reading, 1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
