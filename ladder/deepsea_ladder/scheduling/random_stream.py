"""Random numbers from a seed, for pairings and schedules.

Invariants: the same seed and label give the same numbers on every system; uniform for any range.
Number i is made from SHA-256(seed, label, i); games have a stream of their own in `deepsea_rules`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from deepsea_rules.randomness import shuffled

T = TypeVar("T")
_WORD = 2**64


class RandomStream:
    """An endless stream of numbers; `seed` is any bytes, `label` names their purpose."""

    def __init__(self, seed: bytes, label: str) -> None:
        self._start = hashlib.sha256(hashlib.sha256(seed).digest() + label.encode())
        self._index = 0

    def _word(self) -> int:
        number = self._start.copy()
        number.update(self._index.to_bytes(8))
        self._index += 1
        return int.from_bytes(number.digest()[:8])

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        fair = _WORD - _WORD % n
        while (word := self._word()) >= fair:
            pass
        return word % n

    def unit(self) -> float:
        """A number from 0 up to, but never, 1."""
        return (self._word() >> 11) / 2.0**53

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a random order."""
        return [items[i] for i in shuffled(range(len(items)), self.below)]
