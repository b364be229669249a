"""The files of a bot: which paths are allowed, the form in which they are stored, and their digest.

Invariants: a bundle is a mapping from relative paths to contents; modes, times and empty folders
are dropped. Equal bundles have the same digest and the same packed bytes, on every system. A path
means the same file on every system or is refused.
"""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from deepsea_bundle.errors import BundleError

Files = dict[str, bytes]

SKIPPED = frozenset(
    {"__pycache__", "*.pyc", "__MACOSX", ".DS_Store", ".git", ".hg", ".venv", "venv"}
    | {".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".idea", ".vscode"}
)
"""Names and endings of files and folders that systems and tools create; they are not part of a
bot."""

_MIB = 1 << 20
_DRIVE = re.compile(r"[A-Za-z]:")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can tell


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """Limits of a bot's size."""

    archive_bytes: int = 16 * _MIB
    """Bytes of the zip as it was sent."""
    total_bytes: int = 64 * _MIB
    file_bytes: int = 32 * _MIB
    entries: int = 5000
    """Number of files and folders."""
    ratio: int = 100
    """Size of all files together, as a multiple of the zip's size; 1 MiB is always allowed."""
    depth: int = 20
    path_bytes: int = 400
    name_bytes: int = 100


LIMITS = BundleLimits()


@dataclass(slots=True)
class Collection:
    """Files of a bot while they are read: they are counted and checked one by one.

    Each method raises `BundleError` for a path or a size that is not allowed.
    """

    limits: BundleLimits = LIMITS
    files: Files = field(default_factory=dict)
    skipped: dict[str, None] = field(default_factory=dict)
    """Paths that are left out; of a folder and its contents only the folder."""
    links: list[str] = field(default_factory=list)
    """Paths of links, which are stored as copies of their targets."""
    _announced_entries: int = 0
    _announced_bytes: int = 0
    _entries_by_folded_path: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By normalised path: the path as it was written first, and True if it is a folder."""

    @property
    def entries(self) -> int:
        """Number of files and of the folders that hold them."""
        parts = [path.split("/") for path in self.files]
        folders = {tuple(part[:end]) for part in parts for end in range(1, len(part))}
        return len(parts) + len(folders)

    @property
    def total_bytes(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def depth(self) -> int:
        """Number of parts of the longest path."""
        return max(path.count("/") + 1 for path in self.files)

    def folder(self, path: str) -> None:
        """Count and check a folder. It becomes part of the bot only if it has files."""
        self._count(path)
        self._check_clashes(path, is_folder=True)

    def announce(self, path: str, size: int) -> None:
        """Count and check the next file by its size, before it is read."""
        self._count(path)
        if size > self.limits.file_bytes:
            raise BundleError(
                f"{path!a} has {size} bytes; a file has at most {self.limits.file_bytes}"
            )
        self._announced_bytes += size
        if self._announced_bytes > self.limits.total_bytes:
            raise BundleError(
                f"with {path!a} the files have {self._announced_bytes} bytes together; "
                f"at most {self.limits.total_bytes} are taken"
            )

    def file(self, path: str, content: bytes) -> None:
        """Add a file that was announced."""
        if path in self.files:
            raise BundleError(f"{path!a} is there twice")
        self._check_clashes(path, is_folder=False)
        self.files[path] = content

    def skip(self, path: str) -> None:
        """Record a path that is left out."""
        self.skipped[skipped_part(path) or path] = None

    def _count(self, path: str) -> None:
        """Count one more file or folder, and check its path."""
        self._announced_entries += 1
        if self._announced_entries > self.limits.entries:
            raise BundleError(
                f"more than {self.limits.entries:,} files and folders, at {path!a}; "
                "leave out what the bot does not need"
            )
        check_path(path, self.limits)

    def _check_clashes(self, path: str, *, is_folder: bool) -> None:
        """Refuse a path that clashes with an earlier one.

        Some systems ignore the case of letters, or how accents are encoded: two paths that differ
        in nothing else would be one file there. A path may also not be a file and a folder.
        """
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            prefix = "/".join(parts[:end])
            prefix_is_folder = is_folder or end < len(parts)
            folded = unicodedata.normalize("NFC", prefix).casefold()
            # Folding the case may take composed letters apart again.
            folded = unicodedata.normalize("NFC", folded)
            entry = (prefix, prefix_is_folder)
            earlier, earlier_is_folder = self._entries_by_folded_path.setdefault(folded, entry)
            if earlier != prefix:
                raise BundleError(f"{prefix!a} and {earlier!a} are one name on some systems")
            if earlier_is_folder != prefix_is_folder:
                raise BundleError(f"{prefix!a} is a file and a folder")


def check_path(path: str, limits: BundleLimits) -> None:
    """Raise `BundleError` unless `path` names one file inside the bot's folder."""
    if "\0" in path:
        raise BundleError(f"{path!a}: a name with a NUL character")
    if "\\" in path:
        raise BundleError(f"{path!a}: a name with a backslash; folders are divided by /")
    if path.startswith("/") or _DRIVE.match(path):
        raise BundleError(f"{path!a} is an absolute path; paths start at the bot's folder")
    if not all(char.isprintable() for char in path):
        raise BundleError(f"{path!a}: a name with characters that cannot be printed")
    parts = path.split("/")
    if ".." in parts:
        raise BundleError(f"{path!a} leads out of the bot's folder")
    if "" in parts or "." in parts:
        raise BundleError(f"{path!a} has an empty part; write it the short way")
    if len(parts) > limits.depth:
        raise BundleError(f"{path!a} lies deeper than {limits.depth} folders")
    try:
        length = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise BundleError(f"{path!a}: a name that is not UTF-8") from None
    if length > limits.name_bytes or len(path.encode()) > limits.path_bytes:
        raise BundleError(
            f"{path[:60]!a}...: a name has at most {limits.name_bytes} bytes and a path "
            f"{limits.path_bytes}"
        )


def skipped_part(path: str) -> str | None:
    """Return the beginning of a path up to the part that is left out of bots; None if none is."""
    parts = path.split("/")
    for end, name in enumerate(parts, 1):
        if name in SKIPPED or name.endswith(".pyc"):
            return "/".join(parts[:end])
    return None


def digest(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 in hex over the sorted paths and their contents, each after its length."""
    total = hashlib.sha256()
    for path in sorted(files):
        for part in (path.encode(), files[path]):
            total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the files as a zip, which is always the same for the same files.

    It is not compressed, since the results of compressors differ.
    """
    import zipfile  # takes long to import, and a match packs nothing

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system = 3  # Unix
            entry.external_attr = 0o100644 << 16  # an ordinary file
            archive.writestr(entry, files[path])
    return packed.getvalue()
