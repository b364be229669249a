"""Bots from the store as folders that can be played.

Invariants: a folder is there whole or not at all, and holds exactly the files of its digest;
several processes may share the place.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from deepsea_bundle.archive import BundleLimits, Files, digest
from deepsea_bundle.errors import BundleDamaged, BundleError
from deepsea_bundle.folder import read_folder, write_folder
from deepsea_bundle.manifest import MANIFEST
from deepsea_bundle.unzip import collect_zip

_HUGE = 1 << 40
_ANY = BundleLimits(*[_HUGE] * 8)
"""For what was checked when it came in."""


def stored_files(archive: bytes, expected: str) -> Files:
    """The files of an archive from the store.

    Raises `BundleDamaged` if they have not the digest `expected`.
    """
    try:
        files = collect_zip(archive, _ANY).files
    except BundleError as error:
        raise BundleDamaged(f"the stored files of {expected} are damaged: {error}") from None
    if digest(files) != expected:
        raise BundleDamaged(f"the stored files of {expected} have another digest")
    return files


def unpack(archive: bytes, expected: str, folder: Path) -> None:
    """Make `folder` of an archive from the store; it is there whole or not at all.

    Raises `BundleDamaged` if its files have not the digest `expected`.
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
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class BotCache:
    """Unpacked bots by digest, in a folder that several processes may share."""

    def __init__(self, folder: Path, fetch: Callable[[str], bytes]) -> None:
        self._folder = folder
        self._fetch = fetch
        self._seen: set[str] = set()

    def __call__(self, wanted: str) -> Path:
        """The folder of the bot with that digest, unpacked if need be."""
        folder = self._folder / wanted
        if wanted not in self._seen:
            if folder.exists() and not _holds(folder, wanted):
                shutil.rmtree(folder)  # a crash has left it
            if not folder.exists():
                unpack(self._fetch(wanted), wanted, folder)
            self._seen.add(wanted)
        return folder

    def has_lost(self, wanted: Iterable[str]) -> bool:
        """True if one of these bots was unpacked and is gone: who cleans temporary files removes
        first what is read least.
        """
        here = (one for one in wanted if one in self._seen)
        return not all((self._folder / one / MANIFEST).exists() for one in here)


def _holds(folder: Path, wanted: str) -> bool:
    try:
        return digest(read_folder(folder, _ANY).files) == wanted
    except BundleError:
        return False
