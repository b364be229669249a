"""Zips from strangers: only what every reader sees alike, and nothing larger than it says."""

from __future__ import annotations

import io
import stat
import struct
import tracemalloc
import zipfile
import zlib
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_bundle.archive import LIMITS, BundleLimits, collect_zip, pack
from deepsea_bundle.errors import BundleError


def read_zip(data: bytes, limits: BundleLimits = LIMITS) -> dict[str, bytes]:
    return collect_zip(data, limits).files


FILES = {"bot.toml": b"command = 'x'\n", "lib/mind.py": b"think()\n" * 100, "empty": b""}


@dataclass
class Entry:
    """An entry of a zip, with every field at the test's mercy."""

    name: bytes = b"bot.py"
    data: bytes = b"print()\n"
    method: int = 8
    flags: int = 0
    made_by: int = 3 << 8
    attributes: int = 0o100644 << 16
    extra: bytes = b""
    local_extra: bytes = b""
    local_name: bytes | None = None
    size: int | None = None
    crc: int | None = None
    packed: bytes | None = None
    packed_size: int | None = None
    offset: int | None = None
    descriptor: bytes | None = None

    def bytes_of(self) -> bytes:
        if self.packed is not None:
            return self.packed
        if self.method != 8:
            return self.data
        deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
        return deflater.compress(self.data) + deflater.flush()

    def sizes(self) -> tuple[int, int, int]:
        """Checksum, packed size and size, as the headers say."""
        return (
            zlib.crc32(self.data) if self.crc is None else self.crc,
            len(self.bytes_of()) if self.packed_size is None else self.packed_size,
            len(self.data) if self.size is None else self.size,
        )


def zipped(
    *entries: Entry,
    before: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    count: int | None = None,
    comment: bytes = b"",
    disk: int = 0,
) -> bytes:
    """A zip of entries, as they say that they are."""
    body, directory = bytearray(before), bytearray()
    for entry in entries:
        offset = len(body) if entry.offset is None else entry.offset
        name = entry.name if entry.local_name is None else entry.local_name
        later = entry.flags & 8
        local = (0, 0, 0) if later else entry.sizes()
        head = (20, entry.flags, entry.method, 0, 0x21, *local, len(name), len(entry.local_extra))
        body += struct.pack("<4s5H3L2H", b"PK\3\4", *head) + name + entry.local_extra
        body += entry.bytes_of()
        if later:
            usual = b"PK\7\x08" + struct.pack("<3L", *entry.sizes())
            body += usual if entry.descriptor is None else entry.descriptor
        said = (20, entry.flags, entry.method, 0, 0x21, *entry.sizes())
        rest = (len(entry.name), len(entry.extra), 0, 0, 0, entry.attributes, offset)
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", entry.made_by, *said, *rest)
        directory += entry.name + entry.extra
    body += between
    number = len(entries) if count is None else count
    end = struct.pack(
        "<4s4H2LH", b"PK\5\6", disk, 0, number, number, len(directory), len(body), len(comment)
    )
    return bytes(body + directory) + end + comment + after


def test_what_programs_pack_is_read() -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.mkdir("lib")
            for name, content in FILES.items():
                archive.writestr(name, content)
        assert read_zip(packed.getvalue()) == FILES


def test_what_is_packed_without_seeking_is_read() -> None:
    class Pipe(io.RawIOBase):
        """Something that cannot be written twice."""

        def __init__(self) -> None:
            self.written = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            chunk = bytes(data)  # type: ignore[call-overload]
            self.written += chunk
            return len(chunk)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    assert read_zip(bytes(pipe.written)) == FILES


def test_descriptors_with_and_without_their_mark_are_read() -> None:
    entry = Entry(flags=8)
    bare = replace(entry, descriptor=struct.pack("<3L", *entry.sizes()))
    for each in (entry, bare):
        assert read_zip(zipped(each, Entry(b"b"))) == {"bot.py": entry.data, "b": entry.data}


def test_packing_is_the_same_everywhere_and_reads_back() -> None:
    packed = pack(FILES)
    assert packed == pack(dict(reversed(FILES.items())))
    assert read_zip(packed) == FILES
    assert zlib.crc32(packed) == 0x2ABC25C2


@given(
    st.dictionaries(
        st.text("abcäöé😀 .-", min_size=1, max_size=20).filter(lambda name: name.strip(".") != ""),
        st.binary(max_size=2000),
        max_size=6,
    )
)
def test_whatever_is_packed_is_read_or_refused_by_name(files: dict[str, bytes]) -> None:
    try:
        assert read_zip(pack(files)) == files
    except BundleError as error:
        assert "one name on some systems" in str(error)  # noqa: PT017


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 10_000))
def test_a_changed_byte_is_noticed_or_harmless(place: int, value: int, cut: int) -> None:
    good = pack(FILES)
    for bad in (
        good[: place % len(good)] + bytes([value]) + good[place % len(good) + 1 :],
        good[: cut % len(good)],
    ):
        try:
            files = read_zip(bad)
        except BundleError:
            continue
        # Names and dates have no checksum; contents do.
        assert sorted(files.values()) == sorted(FILES.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (b"../evil.py", "leads out of the bot's folder"),
        (b"lib/../../evil.py", "leads out"),
        (b"/etc/cron.d/evil", "absolute path"),
        (b"C:evil.py", "absolute path"),
        (b"c:/evil.py", "absolute path"),
        (b"lib\\evil.py", "backslash"),
        (b"..\\evil.py", "backslash"),
        (b"bot.py\0.txt", "NUL"),
        (b"lib//evil.py", "empty part"),
        (b"./bot.py", "empty part"),
        (b"lib/.", "empty part"),
        (b"", "empty part"),
        (b"/", "by its name or its mode"),
        (b"a\nb", "cannot be printed"),
        (b"\x1b[2J", "cannot be printed"),
        ("\u202egnp.exe".encode(), "cannot be printed"),
        (b"x" * 101, "a name has at most 100 bytes"),
        (b"/".join([b"x" * 99] * 5), "a name has at most 100 bytes"),
        (b"a/" * 20 + b"a", "deeper than 20"),
        (b"\xff\xfe", "neither ASCII nor marked as UTF-8"),
        ("größe".encode("cp437"), "neither ASCII nor marked as UTF-8"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: bytes, words: str) -> None:
    flags = 1 << 11 if name.isascii() or b"\xe2" in name else 0
    with pytest.raises(BundleError, match=words):
        read_zip(zipped(Entry(name, flags=flags)))


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (stat.S_IFLNK | 0o777, "is a link"),
        (stat.S_IFCHR | 0o666, "is a device"),
        (stat.S_IFBLK | 0o666, "is a device"),
        (stat.S_IFIFO | 0o666, "is a device"),
        (stat.S_IFSOCK | 0o666, "is a device"),
        (stat.S_IFREG | stat.S_ISUID | 0o755, "setuid"),
        (stat.S_IFREG | stat.S_ISGID | 0o755, "setuid or setgid"),
        (stat.S_IFDIR | 0o755, "by its name or its mode"),
    ],
)
def test_what_is_no_plain_file_is_refused(mode: int, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        read_zip(zipped(Entry(attributes=mode << 16)))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([b"main.py", b"main.py"], "is there twice"),
        ([b"main.py", b"Main.py"], "'Main.py' and 'main.py' are one name"),
        ([b"lib/a", b"LIB/b"], "'LIB' and 'lib' are one name"),
        (["é".encode(), "e\u0301".encode()], "are one name on some systems"),
        (["ß".encode(), b"ss"], "are one name on some systems"),
        ([b"lib", b"lib/a"], "'lib' is a file and a folder"),
        ([b"lib/a", b"lib"], "'lib' is a file and a folder"),
        ([b"lib/", b"lib"], "'lib' is a file and a folder"),
    ],
)
def test_names_that_are_one_are_refused(names: list[bytes], words: str) -> None:
    with pytest.raises(BundleError, match=words):
        read_zip(zipped(*(Entry(name, flags=1 << 11, attributes=0) for name in names)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no zip file"),
        (b"#!/bin/sh\n" * 10, "no zip file"),
        (b"PK", "no zip file"),
        (zipped(Entry())[:-1], "does not end where a zip ends"),
        (zipped(Entry(), comment=b"hello"), "does not end where"),
        (zipped(Entry(), after=b"<script>"), "does not end where"),
        (zipped(Entry(), before=b"PK\3\4#!/bin/sh\n"), "has other data before it"),
        (zipped(Entry(), between=b"hidden"), "data between its files and its directory"),
        (zipped(Entry(), count=2), "directory is damaged"),
        (zipped(Entry(), Entry(b"b"), count=1), "more or less in it"),
        (zipped(Entry(), disk=1), "not where its end says"),
        (zipped(Entry(), count=0xFFFF), "zip64"),
        (zipped(Entry(extra=struct.pack("<2H16x", 1, 16))), "zip64"),
        (zipped(Entry(local_extra=struct.pack("<2H16x", 1, 16))), "zip64"),
        (zipped(Entry(size=0xFFFFFFFF)), "a file has at most"),
        (zipped(Entry(flags=1)), "is encrypted"),
        (zipped(Entry(flags=1 << 6)), "is encrypted"),
        (zipped(Entry(flags=1 << 13)), "is encrypted"),
        (zipped(Entry(flags=1 << 5)), "unusual way"),
        (zipped(Entry(b"\xff\xfe", flags=1 << 11)), "neither ASCII nor marked as UTF-8"),
        (zipped(Entry(method=12)), "packed with method 12"),
        (zipped(Entry(method=99)), "packed with method 99"),
        (zipped(Entry(local_name=b"evil.py"[:6])), "its header and the zip's directory differ"),
        (zipped(Entry(), Entry(b"b", offset=0)), "its header and the zip's directory differ"),
        (zipped(Entry(), Entry(offset=0)), "overlaps another entry"),
        (zipped(Entry(offset=7)), "is not where the zip's directory says"),
        (zipped(Entry(offset=1 << 31)), "is not where the zip's directory says"),
        (zipped(Entry(size=4)), "has not the 4 bytes that it announces"),
        (zipped(Entry(size=400)), "has not the 400 bytes that it announces"),
        (zipped(Entry(crc=0)), "its checksum differs"),
        (zipped(Entry(packed=b"\xff" * 20)), "is damaged"),
        (zipped(Entry(packed=b"")), "has not the 8 bytes"),
        (zipped(Entry(method=0, size=9)), "has not the 9 bytes"),
        (zipped(Entry(packed=Entry().bytes_of() + b"hidden")), "has not the 8 bytes"),
        (zipped(Entry(packed_size=3)), "data between its files"),
        (zipped(Entry(flags=8, descriptor=b"PK\7\x08" + b"\0" * 12)), "the sizes behind it"),
        (zipped(Entry(flags=8, descriptor=b"")), "the sizes behind it"),
    ],
)
def test_zips_that_readers_may_see_differently_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        read_zip(data)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        pytest.param(None, r"grows from \d+ to 20971520 bytes, more than 100", id="the truth"),
        pytest.param(1000, "has not the 1000 bytes", id="less than it has"),
    ],
)
def test_a_bomb_is_refused_before_it_grows(says: int | None, words: str) -> None:
    bomb = zipped(Entry(data=b"\0" * (20 << 20), size=says))
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match=words):
            read_zip(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_many_small_files_are_a_bomb_together() -> None:
    one = Entry(data=b"\0" * (1 << 20))
    crc, packed_size, size = one.sizes()
    made = Entry(packed=one.bytes_of(), crc=crc, packed_size=packed_size, size=size)
    bomb = zipped(*(replace(made, name=b"%d" % n) for n in range(62)))
    assert len(bomb) < 80_000
    with pytest.raises(BundleError, match=r"with '\d' the zip grows from \d+ to \d+ bytes, more"):
        read_zip(bomb)


def test_files_that_pack_well_may_come_with_others_that_do_not() -> None:
    table = Entry(b"table", b"\0" * (8 << 20))
    noise = Entry(b"noise", bytes(range(256)) * 400, method=0)
    assert len(read_zip(zipped(noise, table))) == 2


def test_an_overlap_bomb_is_refused() -> None:
    kernel = Entry(b"a", data=b"\0" * 100_000)
    entries = [kernel, *(replace(kernel, name=b"%02d" % n, offset=0) for n in range(50))]
    with pytest.raises(BundleError, match=r"differ|overlaps"):
        read_zip(zipped(*entries))


def test_limits_are_kept() -> None:
    small = BundleLimits(archive_bytes=2000, total_bytes=300, file_bytes=200, entries=3, ratio=100)
    for entries, words in (
        ([Entry(method=0, data=b"x" * 201)], "'bot.py' has 201 bytes; a file has at most 200"),
        ([Entry(b"%d" % n, b"x" * 150) for n in range(3)], "the files have 450 bytes together"),
        ([Entry(b"%d" % n) for n in range(4)], "the zip has 4 entries; at most 3"),
        ([Entry(method=0, data=b"x" * 2000)], "the zip has 2110 bytes; at most 2000 are taken"),
    ):
        with pytest.raises(BundleError, match=words):
            read_zip(zipped(*entries), small)
    assert read_zip(zipped(*(Entry(b"%d" % n, b"x" * 100) for n in range(3))), small)


def test_reading_takes_time_in_proportion_to_the_zip() -> None:
    class Counted(bytes):
        """A zip that counts the bytes that are copied out of it."""

        copied = 0

        def __getitem__(self, key: Any) -> Any:
            part = super().__getitem__(key)
            Counted.copied += len(part)
            return part

    data = zipped(*(Entry(b"%d" % n, b"x" * 1000, method=0) for n in range(500)))
    assert len(read_zip(Counted(data))) == 500
    assert Counted.copied < len(data)


def test_a_hundred_thousand_entries_are_refused_unread() -> None:
    directory = b"PK\1\2".ljust(46, b"\0") * 60_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 60_000, 60_000, len(directory), 4, 0)
    with pytest.raises(BundleError, match="the zip has 60,000 entries; at most 5,000"):
        read_zip(b"PK\3\4" + directory + end)


def test_what_systems_leave_behind_is_left_out_but_looked_at() -> None:
    junk = [b"__MACOSX/._bot.py", b".DS_Store", b"lib/__pycache__/x.pyc", b".git/config"]
    assert read_zip(zipped(Entry(), *(Entry(name) for name in junk))) == {"bot.py": b"print()\n"}
    with pytest.raises(BundleError, match="leads out"):
        read_zip(zipped(Entry(b"__pycache__/../../evil")))
