"""Notes of a bot: a text and named numbers beside a decision, for the bot's author.

Invariants: what is too long is cut and a number that is not finite is left out, so that a note is
never a fault; a note is one line that is safe to print; no record has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import NamedTuple

from deepsea_rules.game import Decision
from deepsea_rules.printable import one_line

TEXT_BYTES = 200
NAME_BYTES = 40
MOST_NUMBERS = 8
MOST_READ = 4 * MOST_NUMBERS
"""The numbers of a note that are looked at, so that a flood of them costs the referee nothing."""
GAME_BYTES = 16 * 1024
"""The limit of all notes of a seat in a game; later ones are left out."""
_NUMBER_BYTES = 8


class Note(NamedTuple):
    """What a bot noted at a decision."""

    text: str
    numbers: Mapping[str, float]

    @property
    def size(self) -> int:
        """What it counts towards `GAME_BYTES`."""
        names = sum(len(name.encode()) + _NUMBER_BYTES for name in self.numbers)
        return len(self.text.encode()) + names

    def line(self) -> str:
        """The numbers and the text, as listings show them."""
        numbers = [f"{name} {value:.4g}" for name, value in self.numbers.items()]
        return "; ".join(filter(None, [*numbers, self.text]))


def note_of(text: str, numbers: Iterable[tuple[str, float]] = ()) -> Note:
    """A note within the limits."""
    kept: dict[str, float] = {}
    for name, value in islice(numbers, MOST_READ):
        label = _cut(name, NAME_BYTES)
        if isfinite(value) and (label in kept or len(kept) < MOST_NUMBERS):
            kept[label] = value
    return Note(_cut(text, TEXT_BYTES), kept)


def rows_of(notes: Mapping[int, Note], decisions: Sequence[Decision]) -> list[dict[str, object]]:
    """The notes of a game for JSON, in the order of its decisions."""
    return [
        {"decision": number, "seat": decisions[number].seat, **note._asdict()}
        for number, note in sorted(notes.items())
    ]


def _cut(text: str, limit: int) -> str:
    """The beginning of a text in one printable line, as UTF-8 of at most so many bytes."""
    return one_line(text[:limit]).encode()[:limit].decode(errors="ignore")
