"""What bots print: bounded and harmless."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from deepsea_referee.bots.output import escaped
from deepsea_referee.bots.output_capture import OutputCapture
from helpers.in_loop import run


def captured(*parts: bytes, kept_bytes: int = 64) -> OutputCapture:
    async def test() -> OutputCapture:
        capture = OutputCapture(kept_bytes=kept_bytes)
        for part in parts:
            os.write(capture.writing, part)
        capture.close_writing()
        capture.finish()
        return capture

    return run(test())


def test_what_fits_is_kept_as_it_is() -> None:
    capture = captured(b"one\n", "zwölf\n".encode())
    assert capture.text() == "one\nzwölf\n"


def test_the_end_is_kept_with_a_marker_before_it() -> None:
    capture = captured(b"a" * 40 + b"b" * 1000, b"c" * 40)
    assert capture.text() == "[... 1016 bytes left out ...]\n" + "b" * 24 + "c" * 40


def test_nothing_printed_is_no_text() -> None:
    assert captured().text() == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[2J\x07", "\\x1b[2J\\x07"),
        (b"a\r\nb\rc\td", "a\nb\\rc\td"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("\u202eevil\u2066".encode(), "\\u202eevil\\u2066"),
        (b"\0", "\\x00"),
        ("ü — ✓".encode(), "ü — ✓"),
    ],
)
def test_control_characters_are_escaped(data: bytes, text: str) -> None:
    assert escaped(data) == text


async def test_a_flood_waits_and_the_loop_goes_on() -> None:
    loop = asyncio.get_running_loop()
    capture = OutputCapture()
    os.set_blocking(capture.writing, False)
    written = refused = 0
    # Whenever the loop is free the flood goes on; it soon finds the pipe full.
    while refused < 1_000:
        try:
            written += os.write(capture.writing, b"x" * 65_536)
        except BlockingIOError:
            refused += 1
        await _pass(loop.call_soon)
    capture.close_writing()
    capture.finish()
    assert len(capture.text()) < 70_000
    assert "bytes left out" in capture.text()


async def _pass(call_soon: Callable[..., object]) -> None:
    done = asyncio.Event()
    call_soon(done.set)
    await done.wait()


async def test_a_descriptor_that_stays_open_holds_nobody_up() -> None:
    capture = OutputCapture()
    child = os.dup(capture.writing)
    os.write(child, b"still here\n")
    capture.finish()  # with the child's end still open
    assert capture.text() == "still here\n"
    os.close(child)
