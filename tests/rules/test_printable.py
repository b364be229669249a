"""Strangers' text does nothing to a terminal, however it came."""

from __future__ import annotations

import sys

import pytest

from deepsea_rules.printable import one_line, printable, quoted


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("greedy 2", "greedy 2"),
        ("Zoë ❤ 深海", "Zoë ❤ 深海"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202ecba", "abc\\u202ecba"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028end", "line\\u2028end"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, safe: str) -> None:
    assert printable(text) == safe
    assert printable(safe) == safe


def test_every_character_comes_out_printable_and_can_be_encoded() -> None:
    # What lies between is not assigned, or for private use.
    places = (*range(0x20000), *range(0xDFFF0, 0xE1000), sys.maxunicode)
    others = [one for one in map(chr, places) if not one.isprintable()]
    assert printable("".join(others)).isascii()


def test_what_is_to_be_kept_stays() -> None:
    assert printable("a\n\tb\x07", keep="\n\t") == "a\n\tb\\x07"


def test_it_is_cut_after_escaping() -> None:
    assert printable("abcdef", 6) == "abcdef"
    assert printable("abcdefg", 6) == "abc..."
    assert printable("\x1b" * 100, 10) == "\\x1b\\x1..."


def test_one_line_has_single_spaces() -> None:
    assert one_line("  first\r\n\tsecond\x00 ") == "first second\\x00"
    assert one_line("one two three", 9) == "one tw..."


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("down", "'down'"),
        ("ü\n", "'\\xfc\\n'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 60}...'"),
        (7, "7"),
        ([1] * 100, f"[{'1, ' * 19}1,..."),
    ],
)
def test_quoted_is_short_ascii(value: object, shown: str) -> None:
    assert quoted(value) == shown
