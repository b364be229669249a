"""A bot that runs as a plain process, as far as it is the same on every system."""

from __future__ import annotations

import subprocess


class TrustedProcess:
    """A part of `interface.IsolatedProcess`: bots at the level `process` are trusted."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._over_limit: str | None = None

    def cpu_us(self) -> int:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def poll(self) -> int | None:
        self.cpu_us()  # the last chance to read it
        return self._process.poll()

    def denied_us(self) -> None:
        return None

    def freeze(self) -> None:
        """Do nothing: these bots are trusted."""

    def thaw(self) -> None:
        """Do nothing."""

    def over_limit(self) -> str | None:
        return self._over_limit

    def setup_error(self) -> str | None:
        return None
