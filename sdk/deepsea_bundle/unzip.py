"""Strict reader of zip files from strangers.

Invariants: nothing is guessed. The directory, the entries' own headers and the bytes between them
have to agree and to fill the file exactly, so that every reader sees the same files. No size is
used before it was checked, and no data grows beyond it. Nothing is written anywhere.

The standard library's reader accepts overlapping entries, duplicates, leading and trailing data and
names cut at a NUL, and differs between versions in what it accepts; hence this module.
"""

from __future__ import annotations

import stat
import struct
import zlib
from typing import NamedTuple

from deepsea_bundle.archive import BundleLimits, Collection, skipped_part
from deepsea_bundle.errors import BundleError

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
            collection.folder(entry.name.removesuffix("/"))
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
            collection.file(entry.name, content)
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
