"""The files of a bot: which ones may be, in what form they are kept, and their digest.

Invariants: a bundle is a mapping from relative paths to contents, nothing else of a file is kept;
two equal bundles have the same digest and the same packed bytes wherever they were packed; a path
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
"""Files and folders that systems and tools leave behind; they are not part of a bot."""

_MIB = 1 << 20
_DRIVE = re.compile(r"[A-Za-z]:")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can tell


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """How large a bot may be."""

    archive_bytes: int = 16 * _MIB
    """Of the zip as it was sent."""
    total_bytes: int = 64 * _MIB
    file_bytes: int = 32 * _MIB
    entries: int = 5000
    """Files and folders."""
    ratio: int = 100
    """How many times larger than a zip its files may be together; 1 MiB in any case."""
    depth: int = 20
    path_bytes: int = 400
    name_bytes: int = 100


LIMITS = BundleLimits()


@dataclass(slots=True)
class Collection:
    """A bot's files, which come in one by one and are counted and compared as they come.

    Each method raises `BundleError` at a path or a size that is not allowed.
    """

    limits: BundleLimits = LIMITS
    files: Files = field(default_factory=dict)
    skipped: dict[str, None] = field(default_factory=dict)
    """Paths that are left out, the outermost of each."""
    links: list[str] = field(default_factory=list)
    """Links whose targets are kept as copies."""
    _announced_entries: int = 0
    _announced_bytes: int = 0
    _places: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By the path without case: how it was written first, and whether it is a folder."""

    @property
    def entries(self) -> int:
        """The number of files and of the folders that hold them."""
        parts = [path.split("/") for path in self.files]
        folders = {tuple(part[:end]) for part in parts for end in range(1, len(part))}
        return len(parts) + len(folders)

    @property
    def total_bytes(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def depth(self) -> int:
        """The number of parts of the longest path."""
        return max(path.count("/") + 1 for path in self.files)

    def folder(self, path: str) -> None:
        """Note a folder, which is kept only if it has files."""
        self._count(path)
        self._place(path, is_folder=True)

    def announce(self, path: str, size: int) -> None:
        """Say how large the next file is, before it is read."""
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
        """Keep an announced file."""
        if path in self.files:
            raise BundleError(f"{path!a} is there twice")
        self._place(path, is_folder=False)
        self.files[path] = content

    def skip(self, path: str) -> None:
        """Note something that is left out."""
        self.skipped[skipped_part(path) or path] = None

    def _count(self, path: str) -> None:
        self._announced_entries += 1
        if self._announced_entries > self.limits.entries:
            raise BundleError(
                f"more than {self.limits.entries:,} files and folders, at {path!a}; "
                "leave out what the bot does not need"
            )
        check_path(path, self.limits)

    def _place(self, path: str, *, is_folder: bool) -> None:
        """Refuse a path that is a file and a folder, and names that are one name on systems that
        know no case or compose accents.
        """
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            place = ("/".join(parts[:end]), is_folder or end < len(parts))
            folded = unicodedata.normalize("NFC", place[0]).casefold()
            folded = unicodedata.normalize("NFC", folded)
            other = self._places.setdefault(folded, place)
            if other[0] != place[0]:
                raise BundleError(f"{place[0]!a} and {other[0]!a} are one name on some systems")
            if other != place:
                raise BundleError(f"{place[0]!a} is a file and a folder")


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
    """The part of a path, from its beginning, that is left out of bots; None if nothing is."""
    parts = path.split("/")
    for end, name in enumerate(parts, 1):
        if name in SKIPPED or name.endswith(".pyc"):
            return "/".join(parts[:end])
    return None


def digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 over the sorted paths and their contents, each after its length, in hex."""
    total = hashlib.sha256()
    for path in sorted(files):
        for part in (path.encode(), files[path]):
            total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files as a zip; not compressed, since the results of compressors differ."""
    import zipfile  # takes a while, and a match packs nothing

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[path])
    return packed.getvalue()
