"""The mounts of the sandbox: the part of the file system that a bot sees.

Invariants: an allow-list; everything is read-only except /tmp and /dev/shm, which are private,
small and removed with the bot. Files keep their paths of the host, so a command means the same.
A bot with a bot.toml sees its folder and nothing else. What is private is hidden wherever it would
be visible: other bots, the ladder's store, files with settings (.env). Other folders may contain
more bots or a whole home: a bot that was given as a command line sees the files that its command
names (the user who runs the referee wrote that command).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from deepsea_bundle.manifest import MANIFEST
from deepsea_referee.sandbox import python_paths
from deepsea_referee.sandbox.interface import LaunchSpec

SOCKET = "/run/deepsea.sock"
ROOT_BYTES = 1024 * 1024
# Beginnings of names: settings with passwords, and the ladder's store with its log.
PRIVATE = (".env", "ladder.db")
DEVICES = ("null", "zero", "full", "random", "urandom")


class Mount(NamedTuple):
    """A file or folder of the host that is mounted at `target`."""

    source: Path
    target: str
    is_system: bool = False
    is_bot: bool = False
    """True for files of the bot, of which a copy is mounted if the sandbox's user cannot read them.
    """


class Layout(NamedTuple):
    """All mounts and links of one bot's sandbox."""

    shown: tuple[Mount, ...]
    links: tuple[tuple[str, str], ...]
    """Symbolic links to create: text and path."""
    directory: str
    """The working directory."""
    hidden: tuple[Path, ...] = ()
    """Files and folders within the mounts that a bot must not see."""


def layout_for(launch: LaunchSpec) -> Layout:
    """Return the mounts and links of a bot's sandbox."""
    directory = (launch.folder or Path.cwd()).absolute()
    links, system = _system()
    files, more_links = python_paths.interpreter()
    python = [*python_paths.python_folders(), *python_paths.shared_libraries()]
    own = {*files, *(path for _, path in more_links)}
    bot_paths = [path for path in _bot_paths(launch, directory) if path not in own]
    bot = [Mount(path, str(path), is_bot=True) for path in bot_paths]
    if launch.socket is not None:
        bot.append(Mount(launch.socket.absolute(), SOCKET))
    # Each path, and its real path if it contains symbolic links.
    paths = [*files, *python, *python_paths.sdk_folders()]
    libraries = [Mount(source, str(source)) for path in paths for source in (path, path.resolve())]
    shown = tuple(_without_nested([*system, *libraries, *bot]))
    links += [
        (text, str(path))
        for text, path in more_links
        if not any(path.is_relative_to(mount.target) for mount in [*shown, *system])
    ]
    hidden = [*_private(shown), *_rivals(launch.rivals, shown)]
    return Layout(shown, tuple(links), str(directory), tuple(dict.fromkeys(hidden)))


def _private(shown: Sequence[Mount]) -> Iterator[Path]:
    """Yield the files within the mounts that are private by their names.

    They are searched at any depth in a bot's folder, and only at the top of other folders.
    """
    for mount in shown:
        if mount.source.is_dir() and not mount.is_system:
            for folder, folders, files in os.walk(mount.source):
                private = [Path(folder, name) for name in files if name.startswith(PRIVATE)]
                yield from (path for path in private if not path.is_symlink())
                if not mount.is_bot:
                    folders.clear()  # do not descend


def _rivals(rivals: Sequence[Path], shown: Sequence[Mount]) -> Iterator[Path]:
    """Yield those of the other bots that are within the bot's folder."""
    for rival in rivals:
        if any(mount.source in rival.parents for mount in shown if mount.is_bot):
            yield rival


def _system() -> tuple[list[tuple[str, str]], list[Mount]]:
    """Return the symbolic links (text and path) and the mounts of the system's folders."""
    links, shown = [], [Mount(Path("/usr"), "/usr", is_system=True)]
    for name in (*python_paths.SYSTEM_FOLDERS, *python_paths.SYSTEM_FILES):
        path = Path(name)
        if path.is_symlink():
            links.append((str(path.readlink()), name))
        elif path.exists():
            shown.append(Mount(path, name, is_system=True))
    return links, shown


def _bot_paths(launch: LaunchSpec, directory: Path) -> Iterator[Path]:
    """Yield the files and folders of a bot: its folder, or the files that its command names."""
    program = launch.command[0]
    if os.sep not in program and (found := shutil.which(program)):
        yield Path(found).absolute()
    if launch.folder is not None and (launch.folder / MANIFEST).is_file():
        # The bot's author has written the command: other files that it names must not be visible.
        yield launch.folder.absolute()
        return
    for word in launch.command:
        path = os.path.normpath(directory / word)
        if os.path.isfile(path):  # not Path.is_file, which raises if a word is too long for a name
            yield Path(path)


def _without_nested(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Yield the mounts that are not within another one, outer folders first."""
    targets: set[Path] = set()
    for mount in sorted(mounts, key=lambda mount: len(Path(mount.target).parts)):
        path = Path(mount.target)
        if mount.target != "/" and targets.isdisjoint([path, *path.parents]):
            targets.add(path)
            yield mount


def bubblewrap_options(layout: Layout, launch: LaunchSpec, sources: dict[Mount, Path]) -> list[str]:
    """Return the options of bubblewrap that build the file system.

    sources  the sources of mounts that differ from their own paths
    """
    size = str(launch.limits.file_bytes)
    # Without a size, and without the option at the end, / would be writable memory without limit.
    root_size = str(ROOT_BYTES)
    options = ["--size", root_size, "--tmpfs", "/", "--proc", "/proc"]
    # Process 1 is bubblewrap under the bot's own uid: its memory could be read and even written.
    options += ["--size", root_size, "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    # Read-only, because of priorities of sessions (autogroup), and of the order in which processes
    # are killed when memory is short (oom_score_adj).
    options += ["--remount-ro", "/proc"]
    options += ["--size", root_size, "--tmpfs", "/dev"]
    for device in DEVICES:
        options += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for link, target in (("/proc/self/fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout")):
        options += ["--symlink", link, f"/dev/{target}"]
    options += ["--symlink", "fd/2", "/dev/stderr"]
    options += ["--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    options += ["--size", size, "--tmpfs", "/tmp"]
    for link, path in layout.links:
        options += ["--symlink", link, path]
    for mount in layout.shown:
        options += ["--ro-bind", str(sources.get(mount, mount.source)), mount.target]
    for hidden in layout.hidden:
        if hidden.is_dir():
            options += ["--size", root_size, "--tmpfs", str(hidden), "--remount-ro", str(hidden)]
        else:
            options += ["--ro-bind", "/dev/null", str(hidden)]
    return [*options, "--dir", layout.directory, "--remount-ro", "/", "--chdir", layout.directory]
