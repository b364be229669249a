"""A pseudo-terminal with the command line in it."""

from __future__ import annotations

import os
import pty
import select

from helpers.commands import start


class Terminal:
    """A terminal with a program in it; a test reads until it sees what it waits for."""

    def __init__(self, *arguments: object) -> None:
        self._ours, theirs = pty.openpty()
        self.process = start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.seen = ""

    def read_until(self, text: str) -> None:
        while text not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], 30)
            assert ready, f"nothing more came, and no {text!r} in {self.seen!r}"
            try:
                self.seen += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # the program has ended
                assert text in self.seen
        self.seen = self.seen.partition(text)[2]

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def end(self) -> int:
        status = self.process.wait(30)
        os.close(self._ours)
        return status
