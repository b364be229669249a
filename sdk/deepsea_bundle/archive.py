"""The files of a bot as a bundle: allowed paths, packed form, digest; and a strict reader of zips.

`Collection` gathers the files of a bundle, `pack` makes the form in which they are stored, and
`collect_zip` reads a zip file from a stranger.

Invariants of a bundle: it is a mapping from relative paths to contents; modes, times and empty
folders are dropped. Equal bundles have the same digest and the same packed bytes, on every system.
A path means the same file on every system or is refused.

Invariants of the zip reader: nothing is guessed. The directory, the entries' own headers and the
bytes between them have to agree and to fill the file exactly, so that every reader sees the same
files. No size is used before it was checked, and no data grows beyond it. Nothing is written
anywhere. The standard library's reader accepts overlapping entries, duplicates, leading and
trailing data and names cut at a NUL, and differs between versions in what it accepts; hence our
own.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import unicodedata
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from deepsea_bundle.errors import BundleError

Files = dict[str, bytes]

SKIPPED = frozenset(
    {"__pycache__", "*.pyc", "__MACOSX", ".DS_Store", ".git", ".hg", ".venv", "venv"}
    | {".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".idea", ".vscode"}
)
"""Names and endings of files and folders that systems and tools create.

They are not part of a bot.
"""

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
    """The path as it was written first, and True if it is a folder, by normalised path."""

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

    def add_folder(self, path: str) -> None:
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

    def add_file(self, path: str, content: bytes) -> None:
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


_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ZIP64_LOCATOR = b"PK\x06\x07"
_ZIP64_EXTRA = 0x0001

_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_SIZES_FOLLOW = 1 << 3
_UTF8 = 1 << 11
_KNOWN_FLAGS = 1 << 1 | 1 << 2 | _SIZES_FOLLOW | _UTF8

_STORED, _DEFLATED = 0, 8
_UNIX = 3
_SMALL = 1 << 20
"""Total size in bytes up to which any ratio of compression is accepted."""


class _Entry(NamedTuple):
    """Entry of a zip, from its directory and its own header."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    """Number of packed bytes."""
    size: int
    """Number of bytes after unpacking."""
    offset: int
    """Position of its own header in the zip."""
    start: int
    """Position of its packed bytes."""


def collect_zip(data: bytes, limits: BundleLimits) -> Collection:
    """Return the files in a zip. Raise `BundleError` for the first thing that is wrong with it."""
    if len(data) > limits.archive_bytes:
        raise BundleError(
            f"the zip has {len(data)} bytes; at most {limits.archive_bytes} are taken"
        )
    entries, directory = _entries(data, limits)
    _check_tiling(data, entries, directory)
    collection = Collection(limits)
    unpacked_bytes = 0
    for entry in entries:
        if entry.name.endswith("/"):
            collection.add_folder(entry.name.removesuffix("/"))
            continue
        collection.announce(entry.name, entry.size)
        unpacked_bytes += entry.size
        # The ratio counts for all files together: many small files can be a bomb, too.
        if unpacked_bytes > max(_SMALL, len(data) * limits.ratio):
            raise BundleError(
                f"with {entry.name!a} the zip grows from {len(data)} to {unpacked_bytes} bytes, "
                f"more than {limits.ratio} times; send what it is made from"
            )
        content = _content(data, entry)
        if skipped_part(entry.name) is None:
            collection.add_file(entry.name, content)
        else:
            collection.skip(entry.name)
    return collection


def _entries(data: bytes, limits: BundleLimits) -> tuple[list[_Entry], int]:
    """Return the entries of the zip's directory, and where the directory begins."""
    end = len(data) - _END.size
    if not data.startswith(b"PK") or end < 0:
        raise BundleError("this is no zip file")
    if not data.startswith(b"PK\x05\x06", end):
        raise BundleError(
            "the zip does not end where a zip ends: it is cut off, or has a comment or other data "
            "behind it"
        )
    _, disk, start_disk, count_on_disk, count, size, directory, comment = _END.unpack_from(
        data, end
    )
    if (
        count == 0xFFFF
        or 0xFFFFFFFF in (size, directory)
        or data[end - 20 : end - 16] == (_ZIP64_LOCATOR)
    ):
        raise BundleError("the zip is in the format for huge ones (zip64); pack it without")
    if (disk, start_disk, count_on_disk, comment) != (0, 0, count, 0) or directory + size != end:
        raise BundleError("the zip's directory is not where its end says")
    if count > limits.entries:
        raise BundleError(
            f"the zip has {count:,} entries; at most {limits.entries:,} are taken, "
            "leave out what the bot does not need"
        )
    entries, position = [], directory
    for _ in range(count):
        entry, position = _entry(data, position, end)
        entries.append(entry)
    if position != end:
        raise BundleError("the zip's directory has more or less in it than it says")
    return entries, directory


def _entry(data: bytes, position: int, end: int) -> tuple[_Entry, int]:
    """Return the directory's entry at a position, and the position after it.

    end  where the directory ends
    """
    if position + _CENTRAL.size > end or not data.startswith(b"PK\x01\x02", position):
        raise BundleError("the zip's directory is damaged")
    # The fields of a central directory header, in the order of the zip format.
    fields = _CENTRAL.unpack_from(data, position)
    _, made_by, _, flags, method, _, _, crc, packed, size = fields[:10]
    name_length, extra_length, comment_length, disk, _, attributes, offset = fields[10:]
    name_start = position + _CENTRAL.size
    extra_start = name_start + name_length
    raw_name, extra = data[name_start:extra_start], data[extra_start : extra_start + extra_length]
    name = _name(raw_name, flags)
    if flags & _ENCRYPTED:
        raise BundleError(f"{name!a} is encrypted")
    if flags & ~_KNOWN_FLAGS or disk:
        raise BundleError(f"{name!a} is packed in an unusual way (flags {flags:#x})")
    if method not in (_STORED, _DEFLATED):
        raise BundleError(f"{name!a} is packed with method {method}; use deflate or none")
    _check_extra(name, extra)
    if made_by >> 8 == _UNIX:
        _check_mode(name, attributes >> 16)
    entry = _Entry(name, raw_name, flags, method, crc, packed, size, offset, 0)
    next_position = extra_start + extra_length + comment_length
    return entry._replace(start=_check_local(data, entry)), next_position


def _name(raw: bytes, flags: int) -> str:
    """Return the name of an entry. Raise BundleError if its encoding is not clear."""
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError:
        raise BundleError(
            f"{raw[:60]!r}: a name that is neither ASCII nor marked as UTF-8"
        ) from None


def _check_extra(name: str, extra: bytes) -> None:
    """Raise BundleError if a header's extra fields say that the entry is in zip64 format."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        if kind == _ZIP64_EXTRA:
            raise BundleError(f"{name!a} is in the format for huge files (zip64)")
        position += 4 + length


def _check_mode(name: str, mode: int) -> None:
    """Raise BundleError for a Unix mode of anything but an ordinary file or folder."""
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        raise BundleError(
            f"{name!a} is a link; pack the zip without links, or put the file itself there"
        )
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"{name!a} is a device or the like, not a file")
    if kind and (kind == stat.S_IFDIR) != name.endswith("/"):
        raise BundleError(f"{name!a} is a file by its name or its mode, but not by both")
    if mode & (stat.S_ISUID | stat.S_ISGID) and kind != stat.S_IFDIR:
        raise BundleError(f"{name!a} has the setuid or setgid bit")


def _check_local(data: bytes, entry: _Entry) -> int:
    """Compare an entry's own header with the directory, and return where its packed bytes begin."""
    if entry.offset + _LOCAL.size > len(data) or not data.startswith(b"PK\x03\x04", entry.offset):
        raise BundleError(f"{entry.name!a} is not where the zip's directory says")
    # The fields of a local file header, in the order of the zip format.
    fields = _LOCAL.unpack_from(data, entry.offset)
    _, _, flags, method, _, _, *sizes, name_length, extra_length = fields
    name_start = entry.offset + _LOCAL.size
    extra_start = int(name_start + name_length)
    start = int(extra_start + extra_length)
    raw_name = data[name_start:extra_start]
    _check_extra(entry.name, data[extra_start:start])
    directory_sizes = [entry.crc, entry.packed, entry.size]
    # A writer that does not know the sizes yet writes zeros here, and the sizes behind the bytes.
    sizes_follow = entry.flags & _SIZES_FOLLOW and sizes == [0, 0, 0]
    if (raw_name, flags, method) != (entry.raw_name, entry.flags, entry.method) or not (
        sizes_follow or sizes == directory_sizes
    ):
        raise BundleError(f"{entry.name!a}: its header and the zip's directory differ")
    return start


def _check_tiling(data: bytes, entries: list[_Entry], directory: int) -> None:
    """Raise BundleError unless the entries fill the file up to the directory, side by side."""
    position = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.offset != position:
            problem = (
                "overlaps another entry" if entry.offset < position else "has other data before it"
            )
            raise BundleError(f"{entry.name!a} {problem}")
        position = entry.start + entry.packed
        if entry.flags & _SIZES_FOLLOW:
            # The sizes behind the bytes may have a signature of their own or not.
            sizes = struct.pack("<3L", entry.crc, entry.packed, entry.size)
            for descriptor in (b"PK\x07\x08" + sizes, sizes):
                if data.startswith(descriptor, position):
                    position += len(descriptor)
                    break
            else:
                raise BundleError(f"{entry.name!a}: the sizes behind it are not its own")
    if position != directory:
        raise BundleError("the zip has data between its files and its directory")


def _content(data: bytes, entry: _Entry) -> bytes:
    """Return the contents of an entry.

    Raise BundleError unless size and checksum are as announced.
    """
    packed = data[entry.start : entry.start + entry.packed]
    if entry.method == _STORED:
        content, is_complete = packed, True
    else:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than announced is enough to see that the announced size is wrong.
            content = inflater.decompress(packed, entry.size + 1)
        except zlib.error as error:
            raise BundleError(f"{entry.name!a} is damaged: {error}") from None
        is_complete = inflater.eof and not inflater.unused_data and not inflater.unconsumed_tail
    if len(content) != entry.size or not is_complete:
        raise BundleError(f"{entry.name!a} has not the {entry.size} bytes that it announces")
    if zlib.crc32(content) != entry.crc:
        raise BundleError(f"{entry.name!a} is damaged: its checksum differs")
    return content
