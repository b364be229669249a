"""The mounts of the sandbox: the part of the file system that a bot sees.

Invariants: an allow-list; everything is read-only except /tmp and /dev/shm, which are private,
small and removed with the bot. Files have the same paths as on the host, so a command means the
same. A bot with a bot.toml sees its folder and nothing else. What is private is hidden wherever it
would be visible: other bots, the ladder's store, files with settings (.env). Other folders may
contain more bots or a whole home: a bot that was given as a command line sees the files that its
command names (the user who runs the referee wrote that command).

All bots need the interpreter, its libraries, the SDK and the system. Nothing of a bot or of the SDK
is imported to find them. The paths are those of the referee's own interpreter, because it also runs
bots that are Python files. The folder of a virtual environment is never mounted as a whole:
`python -m venv .` may have made it in a folder with bots, a ladder and secrets.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from deepsea_bundle.program import MANIFEST
from deepsea_referee.sandbox.interface import ADDRESS_VARIABLE, MARK_VARIABLE, LaunchSpec

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
    files, more_links = interpreter()
    python = [*python_folders(), *shared_libraries()]
    own = {*files, *(path for _, path in more_links)}
    bot_paths = [path for path in _bot_paths(launch, directory) if path not in own]
    bot = [Mount(path, str(path), is_bot=True) for path in bot_paths]
    if launch.socket is not None:
        bot.append(Mount(launch.socket.absolute(), SOCKET))
    # Each path, and its real path if it contains symbolic links.
    paths = [*files, *python, *sdk_folders()]
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
    for name in (*SYSTEM_FOLDERS, *SYSTEM_FILES):
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


# The part of the referee's environment that a plain bot process inherits.
PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
)

SDK_PACKAGES = ("deepsea_sdk", "deepsea_rules")
LIBRARY = "grpc"

# What system programs need besides /usr. Everything else of /etc stays outside.
SYSTEM_FOLDERS = ("/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")


@cache
def interpreter() -> tuple[tuple[Path, ...], tuple[tuple[str, Path], ...]]:
    """Return the files of the interpreter, and the symbolic links to them (text and path).

    Links stay links, because some interpreters find their libraries beside the real file.
    """
    executable = Path(sys.executable).absolute()
    # All names of the interpreter, since a bot may be started by any of them.
    paths = list(dict.fromkeys([executable, *sorted(executable.parent.glob("python*[0-9]"))]))
    links = []
    for path in paths:
        if path.is_symlink():
            text = str(path.readlink())
            links.append((text, path))
            target = Path(os.path.normpath(path.parent / text))
            if target not in paths:  # it may be a link, too: the loop goes on with it
                paths.append(target)
    settings = Path(sys.prefix, "pyvenv.cfg").absolute()
    files = [path for path in [*paths, settings] if path.is_file() and not path.is_symlink()]
    return tuple(files), tuple(links)


@cache
def python_folders() -> tuple[Path, ...]:
    """Return the folders with modules: the standard library, site-packages, and the user site."""
    bases = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    folders = [sysconfig.get_path(name, vars=bases) for name in ("stdlib", "platstdlib")]
    folders += [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
    user_site = site.getusersitepackages()
    if site.ENABLE_USER_SITE and user_site in sys.path and Path(user_site).is_dir():
        folders.append(user_site)
    return tuple(dict.fromkeys(Path(folder).absolute() for folder in folders))


@cache
def shared_libraries() -> tuple[Path, ...]:
    """Return the interpreter's own shared libraries; with conda, the folders of all libraries."""
    prefix = Path(sys.base_prefix).absolute()
    folders = [prefix / name for name in ("lib", "lib64") if (prefix / name).is_dir()]
    if (prefix / "conda-meta").is_dir():
        return tuple(folders)
    return tuple(file for folder in folders for file in folder.glob("libpython*.so*"))


@cache
def sdk_folders() -> tuple[Path, ...]:
    """Return the folders and files that the SDK needs outside of `python_folders`.

    They are needed if the SDK is a checkout (an editable installation, or in PYTHONPATH). Of the
    checkout these are only the packages, of a folder of libraries only installed distributions.
    """
    packages = [folder for name in SDK_PACKAGES for folder in _package_folders(name)]
    libraries = {folder.parent for folder in _package_folders(LIBRARY)}
    installed = [path for folder in libraries for path in _installed_in(folder)]
    return tuple(path for path in [*packages, *installed] if not _is_in_python(path))


def _installed_in(folder: Path) -> list[Path]:
    """Return the packages and modules of the distributions in a folder."""
    if _is_in_python(folder):
        return []
    # Slow to import, and only needed for the sandbox.
    from importlib.metadata import distributions

    files = (
        file
        for distribution in distributions(path=[str(folder)])
        for file in distribution.files or ()
    )
    names = {file.parts[0] for file in files if file.parts[0] != os.pardir}
    return [folder / name for name in sorted(names) if (folder / name).exists()]


def search_path(inherited: str = "") -> str:
    """Return the PYTHONPATH with which a bot can import the SDK; "" if none is necessary.

    inherited  the PYTHONPATH of the referee, which follows
    """
    parts = [
        folder.parent for name in (*SDK_PACKAGES, LIBRARY) for folder in _package_folders(name)
    ]
    user_site = Path(site.getusersitepackages()).absolute()
    # Python finds the user site by the home folder, which a bot does not have.
    words = [str(part) for part in parts if part == user_site or not _is_in_python(part)]
    words += [part for part in inherited.split(os.pathsep) if part]
    return os.pathsep.join(dict.fromkeys(words))


def environment_for(launch: LaunchSpec, passed_on: Sequence[str], mark: str) -> dict[str, str]:
    """Return the environment of a plain bot.

    passed_on  the names of the referee's variables that the bot inherits
    mark       the name by which the bot's processes are found later
    """
    environment = {name: os.environ[name] for name in passed_on if name in os.environ}
    if path := search_path(os.environ.get("PYTHONPATH", "")):
        environment["PYTHONPATH"] = path
    environment.update(launch.environment)
    if launch.socket is not None:
        environment[ADDRESS_VARIABLE] = f"unix:{launch.socket}"
    environment[MARK_VARIABLE] = mark
    return environment


def _package_folders(name: str) -> list[Path]:
    """Return the folders of a package, without importing it; an empty list if there is none."""
    spec = find_spec(name)
    locations = spec.submodule_search_locations if spec else None
    return [Path(location).absolute() for location in locations or ()]


def _is_in_python(folder: Path) -> bool:
    """Return True if a folder is within one of `python_folders`."""
    return any(folder.is_relative_to(root) for root in python_folders())
