"""Paths that bots need: the interpreter, its libraries, the SDK, the system.

Invariants: nothing of a bot or of the SDK is imported to find it; paths are those of the referee's
own interpreter, because it also runs bots that are Python files. The folder of a virtual
environment is never used as a whole: `python -m venv .` may have made it in a folder with bots, a
ladder and secrets.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from deepsea_referee.sandbox.interface import ADDRESS_VARIABLE, MARK_VARIABLE, LaunchSpec

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
            paths += [] if target in paths else [target]
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
