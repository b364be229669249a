"""Paths that bots need: the interpreter, its environment, the SDK, the system.

Invariants: nothing of a bot or of the SDK is imported to find it; paths are those of the referee's
own interpreter, because it also runs bots that are Python files.
"""

from __future__ import annotations

import os
import site
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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
def python_folders() -> tuple[Path, ...]:
    """The folders that this interpreter needs: installation, virtual environment, user site."""
    wanted = [sys.base_prefix, sys.base_exec_prefix, sys.prefix]
    user_site = site.getusersitepackages()
    if site.ENABLE_USER_SITE and user_site in sys.path and Path(user_site).is_dir():
        wanted.append(user_site)
    return tuple(dict.fromkeys(Path(folder).absolute() for folder in wanted))


@cache
def sdk_folders() -> tuple[Path, ...]:
    """The folders that the SDK needs outside of `python_folders`.

    A checkout (an editable installation, or found by PYTHONPATH) needs them: only its packages
    are mounted. The folder that contains gRPC is mounted with everything in it.
    """
    packages = [folder for name in SDK_PACKAGES for folder in _package_folders(name)]
    libraries = [folder.parent for folder in _package_folders(LIBRARY)]
    return tuple(folder for folder in [*packages, *libraries] if not _is_in_python(folder))


def search_path(inherited: str = "") -> str:
    """The PYTHONPATH with which a bot can import the SDK; "" if none is needed."""
    parts = [
        folder.parent for name in (*SDK_PACKAGES, LIBRARY) for folder in _package_folders(name)
    ]
    user_site = Path(site.getusersitepackages()).absolute()
    # The user's site is found through the home folder, which a bot does not have.
    words = [str(part) for part in parts if part == user_site or not _is_in_python(part)]
    words += [part for part in inherited.split(os.pathsep) if part]
    return os.pathsep.join(dict.fromkeys(words))


def _package_folders(name: str) -> list[Path]:
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec else None
    return [Path(place).absolute() for place in places or ()]


def _is_in_python(folder: Path) -> bool:
    return any(folder.is_relative_to(root) for root in python_folders())
