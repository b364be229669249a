"""Uploads: what comes whole is taken, in whatever parts; all else is refused, and is gone."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.uploads import PART, Upload, Uploads
from deepsea_ladder.limits import RemoteLimits
from helpers.manual_clock import ManualClock

DATA = bytes(range(256)) * 8
DIGEST = hashlib.sha256(DATA).hexdigest()
KEY = "a-key-of-mine"
SMALL = RemoteLimits(archive_bytes=len(DATA))


def an_upload(limits: RemoteLimits = SMALL, **more: object) -> Upload:
    return Upload(limits, ManualClock(), **more)  # type: ignore[arg-type]


def begun(size: int = len(DATA), sha256: str = DIGEST, key: str = KEY, bot: str = "") -> Upload:
    upload = an_upload()
    upload.header(bot=bot, size=size, sha256=sha256, key=key)
    return upload


@given(st.lists(st.integers(0, len(DATA)), max_size=12))
def test_any_parts_make_the_same_archive(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(DATA)]
    upload = begun()
    for start, end in pairwise(bounds):
        upload.chunk(DATA[start:end])
    upload.finish()
    assert b"".join(upload.parts()) == DATA
    assert (upload.size, upload.sha256) == (len(DATA), DIGEST)
    upload.close()


@given(st.binary(min_size=1, max_size=200), st.binary(min_size=1, max_size=200))
def test_only_the_announced_bytes_are_taken(announced: bytes, sent: bytes) -> None:
    upload = begun(len(announced), hashlib.sha256(announced).hexdigest())
    with upload, nullcontext() if sent == announced else pytest.raises(ApiError):
        upload.chunk(sent)
        upload.finish()


def test_a_large_archive_lies_in_a_file_and_comes_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    content = b"x" * (3 * PART + 1)
    with Upload(RemoteLimits(), ManualClock()) as upload:
        upload.header(size=len(content), sha256=hashlib.sha256(content).hexdigest(), key=KEY)
        for start in range(0, len(content), 1000):
            upload.chunk(content[start : start + 1000])
        upload.finish()
        assert [len(part) for part in upload.parts()] == [PART, PART, PART, 1]
        assert [len(part) for part in upload.parts()] == [PART, PART, PART, 1]
    assert list(tmp_path.iterdir()) == []


HEADER = {"size": len(DATA), "sha256": DIGEST, "key": KEY}


def parts(*given: dict[str, object] | bytes) -> Callable[[Upload], None]:
    def feed(upload: Upload) -> None:
        for part in given:
            if isinstance(part, bytes):
                upload.chunk(part)
            else:
                upload.header(**part)  # type: ignore[arg-type]
        upload.finish()

    return feed


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        (parts(), "begins with its header, and none came"),
        (parts(DATA), "begins with its header, and these are bytes"),
        (parts(HEADER, HEADER), "an upload has one header"),
        (parts(HEADER, DATA[:9], HEADER), "an upload has one header"),
        (parts(HEADER), f"ended after 0 of {len(DATA)} bytes"),
        (parts(HEADER, DATA[:-1]), f"ended after {len(DATA) - 1} of {len(DATA)} bytes"),
        (parts(HEADER, DATA, b"1"), "has more than 2048 bytes"),
        (parts({**HEADER, "size": 5}, b"123456"), "more than the 5 bytes came"),
        (
            parts({**HEADER, "sha256": "0" * 64}, DATA),
            f"SHA-256 is {DIGEST}, and the header says 00",
        ),
        (parts({**HEADER, "size": len(DATA) + 1}), "has 2049 bytes; at most 2048 bytes are taken"),
        (parts({**HEADER, "size": 0}), "says no size"),
        (parts({**HEADER, "size": -1}), "says no size"),
        (parts({**HEADER, "sha256": DIGEST.upper()}), "64 hexadecimal digits"),
        (parts({**HEADER, "sha256": ""}), "64 hexadecimal digits"),
        (parts({**HEADER, "key": "short"}), "8 to 64 characters"),
        (parts({**HEADER, "key": "a" * 65}), "8 to 64 characters"),
        (parts({**HEADER, "key": "a key\nof mine"}), "8 to 64 characters"),
        (parts({**HEADER, "bot": "../mine"}), "the bot's name '../mine' is not allowed"),
        (parts(HEADER, *[b""] * 17), "parts of the upload are empty"),
    ],
)
def test_each_lie_is_refused_in_one_sentence(feed: Callable[[Upload], None], words: str) -> None:
    closed: list[bool] = []
    upload = an_upload(on_close=lambda: closed.append(True))
    with pytest.raises(ApiError, match=words) as refused:
        feed(upload)
    assert refused.value.kind is Kind.INVALID
    assert "\n" not in str(refused.value)
    assert closed == [True]
    with pytest.raises(ApiError, match="was refused, and has ended"):
        upload.chunk(b"more")
    assert closed == [True]


def test_bytes_after_the_end_are_refused() -> None:
    upload = begun()
    upload.chunk(DATA)
    upload.finish()
    with pytest.raises(ApiError, match="the upload has ended, and more bytes came"):
        upload.chunk(b"1")


def test_an_upload_has_a_least_speed_and_a_longest_time() -> None:
    clock = ManualClock()
    limits = RemoteLimits(upload_seconds=120, upload_bytes_per_second=100)
    upload = Upload(limits, clock)
    upload.header(size=1 << 20, sha256=DIGEST, key=KEY)
    assert upload.left() == 10
    clock.jump(9_000_000)
    upload.chunk(b"x" * 100)
    assert upload.left() == 2
    upload.chunk(b"x" * 100_000)
    assert upload.left() == 111
    clock.jump(111_000_000)
    with pytest.raises(ApiError, match="too slow: it may take 120 seconds") as refused:
        upload.chunk(b"x")
    assert (refused.value.kind, refused.value.retry_after) == (Kind.EXHAUSTED, 1)


def test_a_form_says_neither_size_nor_digest() -> None:
    upload = an_upload()
    upload.form([DATA[:9], b"", DATA[9:]], key=KEY, bot="mine")
    assert (upload.size, upload.sha256, upload.bot) == (len(DATA), DIGEST, "mine")
    upload.close()
    for parts, words in (([DATA, b"1"], "more than 2048 bytes"), ([], "no file came")):
        with pytest.raises(ApiError, match=words):
            an_upload().form(parts, key=KEY)


def test_what_is_there_already_need_not_come() -> None:
    upload = an_upload(on_header=lambda _: True)
    upload.header(size=len(DATA), sha256=DIGEST, key=KEY)
    assert upload.known
    upload.chunk(DATA[:10])
    upload.finish()
    upload.close()


def test_a_header_may_be_refused_before_the_bytes() -> None:
    def refuse(upload: Upload) -> bool:
        raise ApiError(Kind.EXHAUSTED, f"enough of {upload.bot}", 7)

    upload = an_upload(on_header=refuse)
    with pytest.raises(ApiError, match="enough of mine"):
        upload.header(size=len(DATA), sha256=DIGEST, key=KEY, bot="mine")
    with pytest.raises(ApiError, match="has ended"):
        upload.chunk(DATA)


def test_an_author_has_so_many_uploads_at_a_time() -> None:
    uploads = Uploads(ManualClock())
    begin = partial(
        uploads.begin, limits=RemoteLimits(open_submissions=2, queue=3), on_header=lambda _: False
    )
    first, second = begin(1), begin(1)
    with pytest.raises(ApiError, match="2 uploads of yours") as refused:
        begin(1)
    assert (refused.value.kind, refused.value.retry_after) == (Kind.EXHAUSTED, 5)
    third = begin(2)
    with pytest.raises(ApiError, match="3 uploads are under way"):
        begin(3)
    for upload in (first, first, second, third):
        upload.close()
    begin(1).close()
