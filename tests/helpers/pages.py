"""Games for pages: with texts that try to be more than texts."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Final

from deepsea_rules.game import GameRecord
from helpers.commands import faulty, record_of

HOSTILE: Final = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "<!--<script>",
    "a\u2028b\u2029c",
    "\u202eright to left",
    "\x1b[31mred\x1b[2J",
    "x" * 10**6,
    "a" + "\u0301" * 40,
    "o'neil",
    'a+b"c&d;e=1',
    "foo.json",
    "${7*7}{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "\ud800 half a character",
)

DAILY: Final = tuple(HOSTILE[number] for number in (0, 4, 6, 11, 13))
"""One of each kind: tags, writing, length, templates, no Unicode."""

RUN: Final = (
    "'\"></title></script></textarea><script>ran=1</script><img src=x onerror=ran=1>"
    "<svg onload=ran=1><a href=javascript:ran=1>{{7*7}}${ran=1}"
)
"""What sets `ran` if a page takes any of it for more than text."""


def saying(record: GameRecord, text: str) -> GameRecord:
    """The record with this text as the name of each bot and as what came instead of decisions."""
    seats = tuple(seat._replace(name=text) for seat in record.seats)
    came = tuple(one._replace(came=text) if one.fault else one for one in record.decisions)
    return replace(record, seats=seats, decisions=came)


def hostile_record(text: str) -> GameRecord:
    """A game with faults in which every text that a stranger can choose is this one.

    A very long one is so in full where a bot chooses it: its name, and what it sent.
    """
    short = text[:1000]
    return replace(saying(record_of(faulty()), text), game_id=short, clock=short)


def elements_of(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page, each as its tag and its attributes."""
    found: list[tuple[str, dict[str, str | None]]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Parser().feed(page)
    return found
