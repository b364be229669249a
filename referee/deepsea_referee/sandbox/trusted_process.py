"""A bot that runs as a plain process, as far as it is the same on every system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from deepsea_referee.sandbox.interface import ADDRESS_VARIABLE, MARK_VARIABLE, LaunchSpec
from deepsea_referee.sandbox.python_paths import search_path


def environment_for(launch: LaunchSpec, passed_on: Sequence[str], mark: str) -> dict[str, str]:
    """The environment of a bot: its own, its mark, and the variables of this one that it gets."""
    environment = {name: os.environ[name] for name in passed_on if name in os.environ}
    if path := search_path(os.environ.get("PYTHONPATH", "")):
        environment["PYTHONPATH"] = path
    environment.update(launch.environment)
    if launch.socket is not None:
        environment[ADDRESS_VARIABLE] = f"unix:{launch.socket}"
    environment[MARK_VARIABLE] = mark
    return environment


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
