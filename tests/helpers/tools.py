"""Programs that a machine may lack, and the tests that need them.

A test says by `@pytest.mark.needs("nginx")` that it needs one, or a fixture or a helper does by
`require("nginx")`. Where it is missing, the test is skipped with what to install. A test that
starts one without saying so fails, so that the tests pass on a machine that has none of them.

`python tests/helpers/tools.py` prints the paths of those that are here, for a run without them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

POSTGRES_FOLDERS: Final = "usr/lib/postgresql/*/bin"
"""Where Debian puts servers, outside of PATH."""


@dataclass(frozen=True)
class Tool:
    """A tool that tests use.

    programs  the names of its programs; any of them will do
    package   Debian's package that brings them
    folders   a pattern below `/` of folders that have them, beside those of PATH
    """

    programs: tuple[str, ...]
    package: str
    folders: str = "nowhere"

    def paths(self) -> list[str]:
        """Return the paths of its programs that are here; of several versions the newest first."""
        folders = sorted(map(str, Path("/").glob(self.folders)), reverse=True)
        places = [os.environ.get("PATH", os.defpath), "/usr/sbin", *folders]
        paths = (shutil.which(name, path=os.pathsep.join(places)) for name in self.programs)
        return [path for path in paths if path]


TOOLS: Final = {
    "bubblewrap": Tool(("bwrap",), "bubblewrap"),
    "caddy": Tool(("caddy",), "caddy"),
    # The one without windows first: the same pages at half the CPU time.
    "chromium": Tool(
        ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
        "chromium-headless-shell",
    ),
    "curl": Tool(("curl",), "curl"),
    "debootstrap": Tool(("debootstrap",), "debootstrap"),
    "fish": Tool(("fish",), "fish"),
    "mawk": Tool(("mawk",), "mawk"),
    "nginx": Tool(("nginx",), "nginx-light"),
    "node": Tool(("node",), "nodejs"),
    "openssl": Tool(("openssl",), "openssl"),
    "perl": Tool(("perl",), "perl-base"),
    "postgresql": Tool(("initdb", "postgres"), "postgresql", POSTGRES_FOLDERS),
    "qemu": Tool(("qemu-system-x86_64",), "qemu-system-x86"),
    "systemd": Tool(("systemd-analyze",), "systemd"),
    "systemd-nspawn": Tool(("systemd-nspawn",), "systemd-container"),
    "testssl": Tool(("testssl", "testssl.sh"), "testssl.sh"),
    "uidmap": Tool(("newuidmap",), "uidmap"),
    "wget": Tool(("wget",), "wget"),
    "zsh": Tool(("zsh",), "zsh"),
}

USED_IF_PRESENT: Final = frozenset({"bubblewrap", "uidmap"})
"""Tools that commands use by themselves if they are here and do without if not."""


STARTING: Final = "DEEPSEA_TESTS_STARTING_PROCESSES"
"""Environment variable with the file to which tests that start processes add their names."""

# Of the test that runs now.
_declared: set[str] = set()
_undeclared: set[str] = set()
_processes: list[str] = []


def path_of(name: str) -> str | None:
    """Return the path of a tool's program, or None if this machine lacks the tool."""
    return next(iter(TOOLS[name].paths()), None)


def require(*names: str) -> None:
    """Skip the running test unless these tools are here."""
    import pytest  # not for the list of paths

    from deepsea_referee.sandbox import probe

    for name in names:
        _declared.add(name)
        if path_of(name) is None:
            pytest.skip(f"there is no {name} here (apt-get install {TOOLS[name].package})")
        # The program alone is not enough: the system may refuse it what it asks for.
        if name == "bubblewrap" and (trouble := probe.sandbox_trouble()):
            pytest.skip(f"no sandbox here: {trouble.name}: {trouble.found}. {trouble.remedy}")


def watch() -> None:
    """Watch the processes that this one starts, for as long as it runs."""
    from deepsea_referee.sandbox import probe as module

    sys.addaudithook(_on_event)
    probe: Any = module
    # A test that asks for the sandbox goes otherwise where there is none. The answer is cached, so
    # that most of these tests start no process for it.
    cached = probe.sandbox_trouble

    @wraps(cached)
    def sandbox_trouble(*arguments: Any) -> Any:
        _processes.append("sandbox")
        return cached(*arguments)

    probe.sandbox_trouble = sandbox_trouble
    probe.sandbox_trouble.cache_clear = cached.cache_clear


@contextmanager
def watched_test(name: str) -> Iterator[None]:
    """Watch a test; write its name into the file of `STARTING` if it starts a process."""
    for notes in (_declared, _undeclared, _processes):
        notes.clear()
    yield
    if _processes and (path := os.environ.get(STARTING)):
        with Path(path).open("a", encoding="utf-8") as names:
            names.write(f"{name}\n")


def check_test() -> None:
    """Raise an AssertionError if the running test has started a tool that it does not declare."""
    names = _undeclared - _declared - USED_IF_PRESENT
    assert not names, f"a test that starts {', '.join(names)} is marked with pytest.mark.needs"


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the start of a process by the running test: an audit hook."""
    if event not in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        return
    _processes.append(event)
    if event != "subprocess.Popen":
        return
    executable, words, *_ = arguments
    words = [words] if isinstance(words, str | bytes | os.PathLike) else list(words)
    # Some start a program by another one, such as setpriv, and give it the whole path.
    for word in map(os.fsdecode, filter(None, (executable, *words))):
        if word == words[0] or word.startswith("/"):
            name = _tools_by_path().get(shutil.which(word) or "")
            _undeclared.update([name] if name else [])


@cache
def _tools_by_path() -> dict[str, str]:
    return {path: name for name, tool in TOOLS.items() for path in tool.paths()}


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in _tools_by_path())
