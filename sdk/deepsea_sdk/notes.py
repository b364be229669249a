"""Notes of a bot: a text and named numbers beside a decision, for the bot's author.

Invariants: texts that are too long are cut and numbers that are not finite are left out, so that a
note is never a fault. A note is one line that is safe to print. Notes are in no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import NamedTuple

from deepsea_rules.game import Decision
from deepsea_rules.printable import one_line

TEXT_BYTES = 200
"""Most bytes of a note's text."""
NAME_BYTES = 40
"""Most bytes of a number's name."""
MOST_NUMBERS = 8
"""Most numbers of a note."""
MOST_READ = 4 * MOST_NUMBERS
"""Numbers of a note that are read at most, so that a flood of them costs the referee nothing."""
GAME_BYTES = 16 * 1024
"""Most bytes of all notes of a seat in a game; later notes are dropped."""
_NUMBER_BYTES = 8


class Note(NamedTuple):
    """Note of a bot at a decision."""

    text: str
    numbers: Mapping[str, float]

    @property
    def size(self) -> int:
        """The bytes that it counts towards `GAME_BYTES`."""
        names = sum(len(name.encode()) + _NUMBER_BYTES for name in self.numbers)
        return len(self.text.encode()) + names

    def line(self) -> str:
        """Return the numbers and the text in one line, as listings show them."""
        numbers = [f"{name} {value:.4g}" for name, value in self.numbers.items()]
        return "; ".join(filter(None, [*numbers, self.text]))


def note_of(text: str, numbers: Iterable[tuple[str, float]] = ()) -> Note:
    """Return a note within the limits: too long texts are cut, other numbers are left out."""
    by_name: dict[str, float] = {}
    for name, value in islice(numbers, MOST_READ):
        label = _cut(name, NAME_BYTES)
        if isfinite(value) and (label in by_name or len(by_name) < MOST_NUMBERS):
            by_name[label] = value
    return Note(_cut(text, TEXT_BYTES), by_name)


def rows_of(notes: Mapping[int, Note], decisions: Sequence[Decision]) -> list[dict[str, object]]:
    """Return the notes of a game for JSON, in the order of its decisions.

    notes  notes by the number of the decision
    """
    return [
        {"decision": number, "seat": decisions[number].seat, **note._asdict()}
        for number, note in sorted(notes.items())
    ]


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a text in one printable line, as UTF-8 of at most `limit` bytes."""
    return one_line(text[:limit]).encode()[:limit].decode(errors="ignore")
