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
from collections import deque
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
    """Return the mounts and links of a bot's sandbox: the system, Python, the SDK and the bot."""
    directory = (launch.folder or Path.cwd()).absolute()
    system_links, system_mounts = _system_folders()
    python_files, python_links = interpreter()

    # Each path, and its real path if it contains symbolic links.
    library_paths = [*python_files, *python_folders(), *shared_libraries(), *sdk_folders()]
    library_mounts = [
        Mount(source, str(source)) for path in library_paths for source in (path, path.resolve())
    ]

    # A bot's command may name the interpreter, which is not the bot's.
    interpreter_paths = {*python_files, *(path for _text, path in python_links)}
    bot_paths = [path for path in _bot_paths(launch, directory) if path not in interpreter_paths]
    bot_mounts = [Mount(path, str(path), is_bot=True) for path in bot_paths]
    if launch.socket is not None:
        bot_mounts.append(Mount(launch.socket.absolute(), SOCKET))

    shown = tuple(_without_nested([*system_mounts, *library_mounts, *bot_mounts]))
    # A link within a mounted folder is there already.
    mounted_folders = [mount.target for mount in [*shown, *system_mounts]]
    missing_links = [
        (text, str(path))
        for text, path in python_links
        if not any(path.is_relative_to(folder) for folder in mounted_folders)
    ]
    hidden = [*_private_files(shown), *_visible_rivals(launch.rivals, shown)]
    return Layout(
        shown, (*system_links, *missing_links), str(directory), tuple(dict.fromkeys(hidden))
    )


def _private_files(shown: Sequence[Mount]) -> Iterator[Path]:
    """Yield the files within the mounts that are private by their names, see PRIVATE.

    They are searched at any depth in a bot's folder, and only at the top of other folders. The
    system's folders are not searched.
    """
    for mount in shown:
        if not mount.source.is_dir() or mount.is_system:
            continue
        for folder, subfolders, file_names in os.walk(mount.source):
            for name in file_names:
                path = Path(folder, name)
                if name.startswith(PRIVATE) and not path.is_symlink():
                    yield path
            if not mount.is_bot:
                subfolders.clear()  # os.walk goes no deeper then


def _visible_rivals(rivals: Sequence[Path], shown: Sequence[Mount]) -> Iterator[Path]:
    """Yield the files and folders of other bots that are within the mounts of this bot."""
    for rival in rivals:
        if any(mount.source in rival.parents for mount in shown if mount.is_bot):
            yield rival


def _system_folders() -> tuple[list[tuple[str, str]], list[Mount]]:
    """Return the parts of this machine's file system that every sandbox has.

    They are symbolic links, each with its text and its path, and read-only mounts.
    """
    links = []
    mounts = [Mount(Path("/usr"), "/usr", is_system=True)]
    for name in (*SYSTEM_FOLDERS, *SYSTEM_FILES):
        path = Path(name)
        if path.is_symlink():  # such as /bin, which is usr/bin on most systems
            links.append((str(path.readlink()), name))
        elif path.exists():
            mounts.append(Mount(path, name, is_system=True))
    return links, mounts


def _bot_paths(launch: LaunchSpec, directory: Path) -> Iterator[Path]:
    """Yield the files and folders that a bot consists of.

    They are the bot's folder if it has a manifest, otherwise the files that its command names. The
    program that the command starts is yielded in both cases.

    directory  the working directory of the bot
    """
    program = launch.command[0]
    if os.sep not in program and (program_path := shutil.which(program)):
        yield Path(program_path).absolute()
    if launch.folder is not None and (launch.folder / MANIFEST).is_file():
        # The bot's author has written the command: other files that it names must not be visible.
        yield launch.folder.absolute()
        return
    for word in launch.command:  # each may be the path of a file
        path = os.path.normpath(directory / word)
        if os.path.isfile(path):  # not Path.is_file, which raises if a word is too long for a name
            yield Path(path)


def _without_nested(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Yield the mounts whose target is not within that of another one, outer folders first.

    The whole file system is never mounted.
    """

    def depth(mount: Mount) -> int:
        return len(Path(mount.target).parts)

    targets: set[Path] = set()
    for mount in sorted(mounts, key=depth):
        target = Path(mount.target)
        if mount.target != "/" and targets.isdisjoint([target, *target.parents]):
            targets.add(target)
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


def executable() -> Path:
    """Return the path of the interpreter, without any `..` in the path by which it was started.

    Inside, such a path would lead through folders that are not there.
    """
    return Path(os.path.abspath(sys.executable))


@cache
def interpreter() -> tuple[tuple[Path, ...], tuple[tuple[str, Path], ...]]:
    """Return the files of the interpreter, and the symbolic links to them (text and path).

    Links stay links, because some interpreters find their libraries beside the real file.
    """
    # All names of the interpreter, since a bot may be started by any of them.
    other_names = sorted(executable().parent.glob("python*[0-9]"))
    paths = list(dict.fromkeys([executable(), *other_names]))
    links = []
    unread_paths = deque(paths)
    while unread_paths:
        path = unread_paths.popleft()
        if not path.is_symlink():
            continue
        text = str(path.readlink())
        links.append((text, path))
        target = Path(os.path.normpath(path.parent / text))
        if target not in paths:
            paths.append(target)
            unread_paths.append(target)  # it may be a link, too
    environment_settings = Path(sys.prefix, "pyvenv.cfg").absolute()
    paths.append(environment_settings)
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    return tuple(files), tuple(links)


@cache
def python_folders() -> tuple[Path, ...]:
    """Return the folders with modules: the standard library, site-packages, and the user site."""
    # In a virtual environment, the standard library is that of the Python that has made it.
    bases = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    folders = [sysconfig.get_path(name, vars=bases) for name in ("stdlib", "platstdlib")]
    folders += [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
    user_site = site.getusersitepackages()
    if site.ENABLE_USER_SITE and user_site in sys.path and Path(user_site).is_dir():
        folders.append(user_site)
    return tuple(dict.fromkeys(Path(folder).absolute() for folder in folders))


@cache
def shared_libraries() -> tuple[Path, ...]:
    """Return the shared libraries with which the interpreter itself is linked.

    In an environment of conda these may be any, so its whole library folders are returned.
    """
    prefix = Path(sys.base_prefix).absolute()
    folders = [prefix / name for name in ("lib", "lib64") if (prefix / name).is_dir()]
    if (prefix / "conda-meta").is_dir():
        return tuple(folders)
    return tuple(file for folder in folders for file in folder.glob("libpython*.so*"))


@cache
def sdk_folders() -> tuple[Path, ...]:
    """Return the folders and files that the SDK needs outside of `python_folders`.

    There are some if the SDK is used from a checkout of its repository (by an editable
    installation, or by PYTHONPATH), or if gRPC is in a folder of PYTHONPATH. A bot must not see all
    of such a folder: only the SDK's packages, and what pip has installed beside gRPC.
    """
    sdk_packages = [folder for name in SDK_PACKAGES for folder in _package_folders(name)]
    library_folders = {folder.parent for folder in _package_folders(LIBRARY)}
    installed = [path for folder in library_folders for path in _installed_in(folder)]
    return tuple(path for path in [*sdk_packages, *installed] if not _is_in_python(path))


def _installed_in(folder: Path) -> list[Path]:
    """Return the packages and modules in a folder that belong to installed distributions.

    Return an empty list for one of `python_folders`, as a sandbox has these anyway.
    """
    if _is_in_python(folder):
        return []
    # Slow to import, and only needed for the sandbox.
    from importlib.metadata import distributions

    files = (
        file
        for distribution in distributions(path=[str(folder)])
        for file in distribution.files or ()
    )
    # Files are listed relative to the folder; scripts are outside of it ("../../bin/...").
    top_names = {file.parts[0] for file in files if file.parts[0] != os.pardir}
    return [folder / name for name in sorted(top_names) if (folder / name).exists()]


def search_path(inherited: str = "") -> str:
    """Return the PYTHONPATH with which a bot can import the SDK; "" if none is necessary.

    inherited  a PYTHONPATH whose folders are appended: that of the referee, or ""
    """
    import_folders = [
        folder.parent for name in (*SDK_PACKAGES, LIBRARY) for folder in _package_folders(name)
    ]
    user_site = Path(site.getusersitepackages()).absolute()
    entries = [
        str(folder)
        for folder in import_folders
        # A bot's Python does not find the user site: it is below the home folder.
        if folder == user_site or not _is_in_python(folder)
    ]
    entries += [entry for entry in inherited.split(os.pathsep) if entry]
    return os.pathsep.join(dict.fromkeys(entries))


def environment_for(launch: LaunchSpec, passed_on: Sequence[str], mark: str) -> dict[str, str]:
    """Return the environment of a bot that runs as a plain process, without a sandbox.

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
