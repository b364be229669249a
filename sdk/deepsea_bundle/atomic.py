"""Files and folders that are there whole or not at all, even after a crash or a power cut.

Invariants: new content is written beside its place, synced and renamed, and the folder is synced.
After an error no new file is left, and an old one is unchanged.

`BotCache` has bots from the store as folders that can be played. Each holds exactly the files of
its digest. Several processes may share the cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from deepsea_bundle.archive import BundleLimits, Files, collect_zip, digest
from deepsea_bundle.errors import BundleDamaged, BundleError
from deepsea_bundle.program import MANIFEST
from deepsea_bundle.reader import read_folder, write_folder


def write_atomically(path: Path, text: str | Iterable[str], mode: int = 0o644) -> None:
    """Write a text, or pieces of it, to a file with this mode. An OSError names the file."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.writelines((text,) if isinstance(text, str) else text)
                if hasattr(os, "fchmod"):  # Windows takes permissions from the folder
                    os.fchmod(file.fileno(), mode)
            put_in_place(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:  # of a full disk, for example, which does not name the file
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_in_place(written: Path, target: Path) -> None:
    """Rename a finished file to its place in the same file system; a file there is replaced."""
    _sync(written)
    written.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    flags = os.O_RDONLY
    if not hasattr(os, "O_DIRECTORY"):
        # Windows cannot open a folder, and syncs only files that are open for writing.
        if path.is_dir():
            return
        flags = os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_HUGE = 1 << 40
_ANY = BundleLimits(*[_HUGE] * 8)
"""No limits, for bots that were checked when they were submitted."""


def stored_files(archive: bytes, expected: str) -> Files:
    """Return the files of an archive from the store.

    Raise `BundleDamaged` unless their digest is `expected`.
    """
    try:
        files = collect_zip(archive, _ANY).files
    except BundleError as error:
        raise BundleDamaged(f"the stored files of {expected} are damaged: {error}") from None
    if digest(files) != expected:
        raise BundleDamaged(f"the stored files of {expected} have another digest")
    return files


def unpack(archive: bytes, expected: str, folder: Path) -> None:
    """Unpack an archive from the store into `folder`, which is there whole or not at all.

    Raise `BundleDamaged` unless the digest of its files is `expected`.
    """
    files = stored_files(archive, expected)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        write_folder(files, scratch / "bot")
        (scratch / "bot").chmod(0o755)
        try:
            (scratch / "bot").rename(folder)
        except OSError as error:
            # Another process may have unpacked the same bot in the meantime.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class BotCache:
    """Unpacked bots by digest, in a folder that several processes may share.

    fetch  function that returns the archive of a digest
    """

    def __init__(self, folder: Path, fetch: Callable[[str], bytes]) -> None:
        self._folder = folder
        self._fetch = fetch
        self._unpacked: set[str] = set()

    def __call__(self, bot_digest: str) -> Path:
        """Return the folder of the bot with this digest, unpacked if it was not yet."""
        folder = self._folder / bot_digest
        if bot_digest not in self._unpacked:
            if folder.exists() and not _holds(folder, bot_digest):
                shutil.rmtree(folder)  # left by a crash
            if not folder.exists():
                unpack(self._fetch(bot_digest), bot_digest, folder)
            self._unpacked.add(bot_digest)
        return folder

    def has_lost(self, digests: Iterable[str]) -> bool:
        """Return True if one of these bots was unpacked and its files are gone.

        Programs that clean temporary folders first remove files that were not read for long. The
        manifest is one of them, so only that file is looked for.
        """
        unpacked = self._unpacked.intersection(digests)
        return any(not (self._folder / bot_digest / MANIFEST).exists() for bot_digest in unpacked)


def _holds(folder: Path, expected: str) -> bool:
    """Return True if a folder holds exactly the files of this digest."""
    try:
        return digest(read_folder(folder, _ANY).files) == expected
    except BundleError:
        return False
