"""A bot as it is submitted: a folder, a zip or a single Python file, checked and packed.

Laws: nothing of a bot is run or imported here; links are not followed; whoever is refused learns
in one line what is wrong and where; what is accepted unpacks to exactly what was checked.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from deepsea_bundle.archive import (
    LIMITS,
    BundleLimits,
    FileCollector,
    Files,
    digest,
    is_skipped,
    pack,
)
from deepsea_bundle.errors import BundleError
from deepsea_bundle.manifest import MANIFEST, Manifest, read_manifest
from deepsea_bundle.unzip import read_zip


@dataclass(frozen=True, slots=True)
class Submission:
    """A bot that was checked."""

    manifest: Manifest
    digest: str
    """SHA-256 over its files, as the referee computes it of the unpacked folder."""
    archive: bytes
    """Its files, packed."""


def read_submission(path: Path, limits: BundleLimits = LIMITS) -> Submission:
    """Check and pack what is at `path`; raises `BundleError` for the first thing wrong."""
    try:
        if path.is_dir():
            files = read_folder(path, limits)
        elif path.is_file():
            files = _read_file(path, limits)
        else:
            raise BundleError(f"there is nothing at {str(path)!r}")
    except OSError as error:
        where = error.filename or path
        raise BundleError(f"{str(where)!r} cannot be read: {error.strerror or error}") from None
    return submission_of(files)


def submission_of(files: Files) -> Submission:
    """Check a bot's manifest, and pack its files."""
    manifest = read_manifest(files)
    return Submission(manifest, digest(files), pack(files))


def _read_file(path: Path, limits: BundleLimits) -> Files:
    """A zip, or a program in one file."""
    with path.open("rb") as stream:
        content = stream.read(limits.archive_bytes + 1)
    if path.suffix == ".py":
        collection = FileCollector(limits)
        collection.announce(path.name, len(content))
        collection.file(path.name, content)
        manifest = f'command = ["python3", "{path.name}"]\n'
        if '"' in path.name:
            raise BundleError(f"{path.name!a}: a program's name without quotes, please")
        return {**collection.files, MANIFEST: manifest.encode()}
    if not content.startswith(b"PK"):
        raise BundleError(
            f"{str(path)!r} is neither a zip nor a Python file; a bot is a folder or zip with "
            f"{MANIFEST}, or a single .py file"
        )
    return _without_wrapping(read_zip(content, limits))


def _without_wrapping(files: Files) -> Files:
    """The files of a zip that has everything in one folder, as packing a folder makes it."""
    tops = {path.split("/")[0] for path in files}
    if MANIFEST in files or len(tops) != 1 or f"{(top := tops.pop())}/{MANIFEST}" not in files:
        return files
    return {path.removeprefix(f"{top}/"): content for path, content in files.items()}


def read_folder(folder: Path, limits: BundleLimits) -> Files:
    """A folder's files, links refused."""
    collection = FileCollector(limits)
    for base, folders, found, here in os.fwalk(folder, follow_symlinks=False, onerror=_raise):
        prefix = Path(base).relative_to(folder).as_posix()
        prefix = "" if prefix == "." else f"{prefix}/"
        folders[:] = sorted(name for name in folders if not is_skipped(name))
        for name in folders:
            _check_kind(f"{prefix}{name}", os.stat(name, dir_fd=here, follow_symlinks=False))
            collection.folder(f"{prefix}{name}")
        for name in sorted(name for name in found if not is_skipped(name)):
            path = f"{prefix}{name}"
            _check_kind(path, os.stat(name, dir_fd=here, follow_symlinks=False))
            # Between the look and the opening somebody may have put something else there.
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here
            )
            with os.fdopen(descriptor, "rb") as stream:
                state = os.fstat(descriptor)
                _check_kind(path, state)
                collection.announce(path, state.st_size)
                content = stream.read(state.st_size + 1)
            if len(content) != state.st_size:
                raise BundleError(f"{path!a} changes while it is read")
            collection.file(path, content)
    return collection.finished()


def _raise(error: OSError) -> None:
    raise error


def _check_kind(path: str, state: os.stat_result) -> None:
    kind = stat.S_IFMT(state.st_mode)
    if kind == stat.S_IFLNK:
        raise BundleError(f"{path!a} is a link; put the file itself there")
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"{path!a} is a device, pipe or socket, not a file")
    if kind == stat.S_IFREG and state.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BundleError(f"{path!a} has the setuid or setgid bit")
