"""Bodies in parts: those that are whole and in time are taken; of others nothing stays."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from deepsea_arena.api.errors import LASTING_S, ApiError, RefusalKind
from deepsea_arena.api.ladder_api import KEY, ROOT, SHA256
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import DISK_FULL
from deepsea_ladder.limits import RemoteLimits
from deepsea_web import gateway
from deepsea_web.gateway import PART, Gateway, archive_in, upload_parts
from deepsea_web.http import BodyTooLong, at_most, body_parts
from deepsea_web.http_api import http_api
from deepsea_web.serve import with_api
from helpers import submissions
from helpers.manual_clock import ManualClock
from helpers.members import multipart
from helpers.site import LOCAL, get
from helpers.world import ANNA, BEN, Stock, World, opened

DATA = bytes(range(256)) * 8


def a_request(parts: Iterable[bytes | None]) -> Request:
    """A request whose body comes in these parts; its sender leaves at None."""
    coming: Iterator[bytes | None] = iter(parts)

    async def receive() -> Message:
        part = next(coming, b"")
        for _ in range(3):  # so that an alarm that is due by now rings
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": part != b""}

    return Request({"type": "http", "method": "PUT", "headers": []}, receive)


async def joined(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])


def body_of(parts: Iterable[bytes | None], most: int = len(DATA)) -> bytes:
    whole = body_parts(a_request(parts), ManualClock(), lambda received: 1)
    return asyncio.run(joined(at_most(whole, most)))


@given(st.lists(st.integers(1, len(DATA) - 1), max_size=12, unique=True))
def test_any_parts_make_the_same_body(cuts: list[int]) -> None:
    parts = [DATA[start:end] for start, end in pairwise([0, *sorted(cuts), len(DATA)])]
    assert body_of(parts) == DATA
    with pytest.raises(BodyTooLong):
        body_of(parts, len(DATA) - 1)
    with pytest.raises(ClientDisconnect):
        body_of([*parts, None])


async def test_an_upload_has_a_least_speed_and_a_longest_time() -> None:
    clock = ManualClock()
    limits = RemoteLimits(upload_seconds=120, upload_bytes_per_second=100)

    def after(*steps: tuple[float, int]) -> AsyncIterator[bytes]:
        """An upload of which so many bytes come after so many seconds more."""

        def parts() -> Iterator[bytes]:
            for seconds, size in steps:
                clock.jump(round(1_000_000 * seconds))
                yield b"x" * size

        return upload_parts(a_request(parts()), limits, clock)

    in_time: Sequence[tuple[float, int]] = [(9.9, 100), (1, 10_000), (100, 10_000), (9, 1), (0, 0)]
    assert len(await joined(after(*in_time))) == 20_101
    for late in ([(10, 1)], [(9.9, 100), (1.2, 1)], [(9.9, 20_000), (110.1, 1)]):
        with pytest.raises(ApiError, match="too slow: it may take 120 seconds") as refused:
            await joined(after(*late, (0, 0)))
        assert (refused.value.kind, refused.value.retry_after) == (RefusalKind.EXHAUSTED, 1)


def test_a_large_archive_lies_in_a_file_and_is_stored_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    content = b"x" * (3 * PART + 1)
    with tempfile.SpooledTemporaryFile(max_size=PART) as file:
        file.write(content)
        archive = archive_in(file, "mine", "a-key-of-mine")
        assert (archive.size, archive.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert [len(part) for part in archive.parts()] == [PART, PART, PART, 1]
        assert [len(part) for part in archive.parts()] == [PART, PART, PART, 1]
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ over the API


@pytest.fixture
def world(stock: Stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A ladder whose site has the API, and whose temporary files lie where the test sees them."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    with opened(stock, tmp_path) as world:
        world.site.app = with_api(world.site.app, http_api(world.site.gateway, LOCAL), LOCAL)
        yield world
    assert list(spool.iterdir()) == []


def upload(
    world: World, parts: Iterable[bytes | None], content: bytes, headers: Mapping[str, str]
) -> tuple[int, str]:
    """The status and the text of the answer to an upload, whose first step is enough."""
    digest = hashlib.sha256(content).hexdigest()
    usual = {
        "Authorization": f"Bearer {world.tokens[ANNA]}",
        "Content-Length": str(len(content)),
        SHA256: digest,
        KEY: digest[:16],
    }
    closing = world.site.gateway.closing
    answer = get(
        world.site,
        f"{ROOT}/bots/mine",
        "PUT",
        headers={**usual, **headers},
        body=parts,
        noted=lambda message: closing.set() if message.get("body") else None,
    )
    closing.clear()
    return answer.status, answer.text


ZIP = submissions.zipped("uploaded")


def own_submissions(world: World) -> int:
    return len(world.ladder(ANNA).submissions())


@pytest.mark.parametrize(
    ("parts", "headers", "words"),
    [
        ([], {}, f"ended after 0 of {len(ZIP)} bytes; send it again with the same key"),
        ([ZIP[:-1]], {}, f"ended after {len(ZIP) - 1} of {len(ZIP)} bytes"),
        ([ZIP, b"1"], {}, f"more than the {len(ZIP)} bytes came that the header says"),
        ([b"123456"], {"Content-Length": "5"}, "more than the 5 bytes came"),
        ([ZIP[:-1] + b"?"], {}, "and the header says"),
        ([ZIP[:9], None], {}, "the upload broke off"),
        ([ZIP], {KEY: "short"}, "8 to 64 characters"),
        ([ZIP], {"Content-Length": "x"}, "an upload has the header content-length"),
    ],
)
def test_an_upload_that_is_not_what_it_says_leaves_nothing(
    world: World, parts: list[bytes | None], headers: dict[str, str], words: str
) -> None:
    before = own_submissions(world)
    status, text = upload(world, parts, ZIP, headers)
    assert (status, words in text) == (400, True), text
    assert own_submissions(world) == before
    status, text = upload(world, [ZIP[:7], b"", ZIP[7:]], ZIP, {})
    assert (status, own_submissions(world)) == (200, before + 1), text


def test_the_bytes_of_what_is_there_already_are_not_kept(world: World) -> None:
    first = upload(world, [ZIP], ZIP, {})
    assert upload(world, [b"?" * len(ZIP)], ZIP, {}) == first
    assert own_submissions(world) == 2


@pytest.mark.parametrize("name", ["streams", "streams_of_address"])
def test_a_ladder_without_streams_takes_uploads_and_says_why_it_has_none(
    world: World, name: str
) -> None:
    world.service.store.settings.change(name, 0, MACHINE)
    world.service.read_settings()
    status, text = upload(world, [ZIP], ZIP, {})
    assert status == 200
    assert text.count("data: ") == 1
    assert own_submissions(world) == 2
    refused = get(world.site, f"{ROOT}/feed")
    assert refused.status == 429
    assert f"its operator has set `{name}` to 0" in refused.text
    assert "retry-after" not in refused.headers


class FullDisk(BytesIO):
    """A temporary file on a full disk."""

    def __init__(self, **_: object) -> None:
        super().__init__()

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/file")


def test_a_full_disk_is_said_to_who_uploads_and_when_to_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"code": "UNAVAILABLE", "message": DISK_FULL, "retry_after": LASTING_S}
    with monkeypatch.context() as full:
        full.setattr(gateway, "SpooledTemporaryFile", FullDisk)
        status, text = upload(world, [ZIP], ZIP, {})
    assert (status, json.loads(text)["error"]) == (503, told)
    with world.service.store.database.read() as connection:
        ((pages,),) = connection.exec_driver_sql("PRAGMA page_count")

    def fill(driver: sqlite3.Connection, _: object) -> None:
        driver.execute(f"PRAGMA max_page_count = {pages}")

    engine = world.service.store.database.engine
    engine.dispose()
    event.listen(engine, "connect", fill)
    large = submissions.zipped("\n# ".join(f"{number:x}" * 9 for number in range(20_000)))
    status, text = upload(world, [large], large, {})
    assert (status, json.loads(text)["error"]) == (503, told)
    anna = world.person(ANNA)
    kind, body = multipart(anna.form("/submit", "/submit"), "bot.zip", large)
    page = anna.post_body("/submit", kind, body)
    assert page.status == 503
    assert page.headers["retry-after"] == str(LASTING_S)
    assert DISK_FULL[1:] in page.text
    assert own_submissions(world) == 1


def test_an_author_has_so_many_uploads_at_a_time(world: World) -> None:
    for name, value in (("open_submissions", 2), ("queue", 3)):
        world.ladder().set_setting(name=name, value=value)
    service = world.service
    service.read_settings()
    door: Gateway = world.site.gateway
    anna, ben, admin = (service.caller_of(world.tokens[name], "") for name in (ANNA, BEN, "admin"))
    with ExitStack() as held:
        for caller in (anna, anna, ben):
            held.enter_context(door.uploading(caller))
        for caller, words in ((anna, "2 uploads of yours"), (admin, "3 uploads are under way")):
            with pytest.raises(ApiError, match=words) as refused, door.uploading(caller):
                pass
            assert (refused.value.kind, refused.value.retry_after) == (RefusalKind.EXHAUSTED, 5)
    with door.uploading(admin):
        pass
