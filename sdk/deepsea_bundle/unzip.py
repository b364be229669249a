"""A strict reader of zip files from strangers.

Invariants: nothing is guessed: the directory, the entries' own headers and the bytes between them
have to agree and to fill the file exactly, so that every reader sees the same files; no size is
believed before it was checked, and nothing grows beyond it; nothing is written anywhere.

The standard library's reader takes overlapping entries, duplicates, leading and trailing data and
names cut at a NUL, and differs between versions in what it takes; hence this one.
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
"""Up to here files may be packed as tightly as they can be."""


class _Entry(NamedTuple):
    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    start: int
    """Where the packed bytes begin."""


def collect_zip(data: bytes, limits: BundleLimits) -> Collection:
    """The files in a zip; raises `BundleError` at the first thing that is wrong with it."""
    if len(data) > limits.archive_bytes:
        raise BundleError(
            f"the zip has {len(data)} bytes; at most {limits.archive_bytes} are taken"
        )
    entries, directory = _entries(data, limits)
    _check_tiling(data, entries, directory)
    collection = Collection(limits)
    grown = 0
    for entry in entries:
        if entry.name.endswith("/"):
            collection.folder(entry.name.removesuffix("/"))
            continue
        collection.announce(entry.name, entry.size)
        grown += entry.size
        # Of all together, because many small files are a bomb as one large one is.
        if grown > max(_SMALL, len(data) * limits.ratio):
            raise BundleError(
                f"with {entry.name!a} the zip grows from {len(data)} to {grown} bytes, more than "
                f"{limits.ratio} times; send what it is made from"
            )
        content = _content(data, entry)
        if skipped_part(entry.name) is None:
            collection.file(entry.name, content)
        else:
            collection.skip(entry.name)
    return collection


def _entries(data: bytes, limits: BundleLimits) -> tuple[list[_Entry], int]:
    """What the directory lists, and where it begins."""
    end = len(data) - _END.size
    if not data.startswith(b"PK") or end < 0:
        raise BundleError("this is no zip file")
    if not data.startswith(b"PK\x05\x06", end):
        raise BundleError(
            "the zip does not end where a zip ends: it is cut off, or has a comment or other data "
            "behind it"
        )
    _, disk, start_disk, here, count, size, directory, comment = _END.unpack_from(data, end)
    if (
        count == 0xFFFF
        or 0xFFFFFFFF in (size, directory)
        or data[end - 20 : end - 16] == (_ZIP64_LOCATOR)
    ):
        raise BundleError("the zip is in the format for huge ones (zip64); pack it without")
    if (disk, start_disk, here, comment) != (0, 0, count, 0) or directory + size != end:
        raise BundleError("the zip's directory is not where its end says")
    if count > limits.entries:
        raise BundleError(
            f"the zip has {count:,} entries; at most {limits.entries:,} are taken, "
            "leave out what the bot does not need"
        )
    entries, at = [], directory
    for _ in range(count):
        entry, at = _entry(data, at, end)
        entries.append(entry)
    if at != end:
        raise BundleError("the zip's directory has more or less in it than it says")
    return entries, directory


def _entry(data: bytes, at: int, end: int) -> tuple[_Entry, int]:
    """The entry that the directory has at a place, and the place of the next one."""
    if at + _CENTRAL.size > end or not data.startswith(b"PK\x01\x02", at):
        raise BundleError("the zip's directory is damaged")
    fields = _CENTRAL.unpack_from(data, at)
    _, made_by, _, flags, method, _, _, crc, packed, size = fields[:10]
    name_length, extra_length, comment_length, disk, _, attributes, offset = fields[10:]
    name_at = at + _CENTRAL.size
    extra_at = name_at + name_length
    raw_name, extra = data[name_at:extra_at], data[extra_at : extra_at + extra_length]
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
    after = extra_at + extra_length + comment_length
    return entry._replace(start=_check_local(data, entry)), after


def _name(raw: bytes, flags: int) -> str:
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError:
        raise BundleError(
            f"{raw[:60]!r}: a name that is neither ASCII nor marked as UTF-8"
        ) from None


def _check_extra(name: str, extra: bytes) -> None:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64_EXTRA:
            raise BundleError(f"{name!a} is in the format for huge files (zip64)")
        at += 4 + length


def _check_mode(name: str, mode: int) -> None:
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
    """Where an entry's bytes begin, having compared its own header with the directory."""
    if entry.offset + _LOCAL.size > len(data) or not data.startswith(b"PK\x03\x04", entry.offset):
        raise BundleError(f"{entry.name!a} is not where the zip's directory says")
    fields = _LOCAL.unpack_from(data, entry.offset)
    _, _, flags, method, _, _, *sizes, name_length, extra_length = fields
    name_at = entry.offset + _LOCAL.size
    extra_at = int(name_at + name_length)
    start = int(extra_at + extra_length)
    raw_name = data[name_at:extra_at]
    _check_extra(entry.name, data[extra_at:start])
    said = [entry.crc, entry.packed, entry.size]
    later = entry.flags & _SIZES_FOLLOW and sizes == [0, 0, 0]
    if (raw_name, flags, method) != (entry.raw_name, entry.flags, entry.method) or not (
        later or sizes == said
    ):
        raise BundleError(f"{entry.name!a}: its header and the zip's directory differ")
    return start


def _check_tiling(data: bytes, entries: list[_Entry], directory: int) -> None:
    """The entries fill the file up to the directory, side by side."""
    at = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.offset != at:
            what = "overlaps another entry" if entry.offset < at else "has other data before it"
            raise BundleError(f"{entry.name!a} {what}")
        at = entry.start + entry.packed
        if entry.flags & _SIZES_FOLLOW:
            sizes = struct.pack("<3L", entry.crc, entry.packed, entry.size)
            for descriptor in (b"PK\x07\x08" + sizes, sizes):
                if data.startswith(descriptor, at):
                    at += len(descriptor)
                    break
            else:
                raise BundleError(f"{entry.name!a}: the sizes behind it are not its own")
    if at != directory:
        raise BundleError("the zip has data between its files and its directory")


def _content(data: bytes, entry: _Entry) -> bytes:
    packed = data[entry.start : entry.start + entry.packed]
    if entry.method == _STORED:
        content, exact = packed, True
    else:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than announced is enough to see that the announcement lied.
            content = inflater.decompress(packed, entry.size + 1)
        except zlib.error as error:
            raise BundleError(f"{entry.name!a} is damaged: {error}") from None
        exact = inflater.eof and not inflater.unused_data and not inflater.unconsumed_tail
    if len(content) != entry.size or not exact:
        raise BundleError(f"{entry.name!a} has not the {entry.size} bytes that it announces")
    if zlib.crc32(content) != entry.crc:
        raise BundleError(f"{entry.name!a} is damaged: its checksum differs")
    return content
