"""Random numbers derived from a seed; no other module of the rules makes any.

Invariants: every number comes from `HMAC-SHA256(seed, "label:counter")`, so that any program can
derive it again. A label has one purpose only. A seat's dice do not depend on what others do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from .actions import LEVELS, values_of_level

SEED_BYTES = 32


class NumberSource(Protocol):
    """A source of random numbers, such as a `random.Random`."""

    def random(self) -> float:
        """Return a number from 0 up to, but not including, 1."""


def seed_from_text(text: str) -> bytes:
    """Return the 32-byte seed that `--seed TEXT` stands for."""
    return hashlib.sha256(f"deepsea-seed:{text}".encode()).digest()


def game_seed(seed: bytes, n: int, attempt: int = 0) -> bytes:
    """Return the seed of one game of a run of games, such as a match.

    seed     of the run
    n        the number of the game, from 0
    attempt  the number of the attempt at this game, from 0; the next one is made if a game is void
    """
    label = f"game:{n}:{attempt}" if attempt else f"game:{n}"
    return hashlib.sha256(seed + label.encode()).digest()


def commitment(seed: bytes) -> str:
    """Return the hash of a seed in hex, which is published before a game to fix the seed."""
    return hashlib.sha256(seed).hexdigest()


class Source:
    """Source of random bytes of one seed, by label."""

    __slots__ = ("_inner", "_outer", "seed")

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        # HMAC-SHA256 by hand: copies of two keyed hashes cost less than half of `hmac.digest`.
        key = seed.ljust(64, b"\0")
        self._inner = hashlib.sha256(key.translate(_INNER_PAD))
        self._outer = hashlib.sha256(key.translate(_OUTER_PAD))

    def __reduce__(self) -> tuple[Callable[[bytes], Source], tuple[bytes]]:
        """Return how to copy it: by its seed, since keyed hashes cannot be copied or pickled."""
        return source, (self.seed,)

    def block(self, message: bytes) -> bytes:
        """Return the 32 bytes of HMAC-SHA256(seed, message).

        message  "label:counter": each counter gives the next 32 bytes of a label
        """
        # Both hashes of the HMAC have read the key already. Their copies go on with the message.
        inner = self._inner.copy()
        outer = self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()

    def faces(self, message: bytes) -> tuple[int, int]:
        """Return two dice with the faces 1 to 3, from the random bytes of a label.

        message  "label:0": the first 32 bytes of the label
        """
        block = self.block(message)
        first_byte = block[0]
        second_byte = block[1]
        # The 255 bytes from 0 to 254 give each face equally often, since 255 is a multiple of 3.
        if first_byte < 255 and second_byte < 255:
            return 1 + first_byte % 3, 1 + second_byte % 3
        # The byte 255 must be skipped. `Stream` does that, and gives the same dice in all other
        # cases, but takes twice as long.
        stream = Stream(self.seed, message.decode().removesuffix(":0"))
        return 1 + stream.uniform(3), 1 + stream.uniform(3)

    def dice(self, dive: int, seat: int, turn: int) -> tuple[int, int]:
        """Return the dice of `seat` in its `turn` (from 1) of `dive` (from 1)."""
        return self.faces(_dice_message(dive, seat, turn))


@lru_cache(maxsize=4096)
def _dice_message(dive: int, seat: int, turn: int) -> bytes:
    """Return the message of a turn's dice, which is the same in every game; cached."""
    return f"dice/{dive}/{seat}/{turn}:0".encode()


@lru_cache(maxsize=64)
def source(seed: bytes) -> Source:
    """Return the source of a seed; the latest ones are cached."""
    return Source(seed)


_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))


class Stream:
    """Stream of fair numbers from the bytes of one label."""

    __slots__ = ("_bytes", "_counter", "_label", "_source")

    def __init__(self, seed: bytes, label: str) -> None:
        self._source = source(seed)
        self._label = label
        self._counter = 0
        self._bytes = iter(b"")

    def uniform(self, n: int) -> int:
        """Return a random number from 0 to n - 1, each equally likely, for n up to 256."""
        # Bytes from the highest multiple of n on would make the lower numbers more likely.
        limit = 256 - 256 % n
        while True:
            for byte in self._bytes:
                if byte < limit:
                    return byte % n
            # All bytes are used up: go on with the next block.
            self._bytes = iter(self._source.block(f"{self._label}:{self._counter}".encode()))
            self._counter += 1


def shuffled(values: Sequence[int], uniform: Callable[[int], int]) -> list[int]:
    """Return the values in random order, by Fisher-Yates from the last place down to the second.

    uniform  function that returns a random number from 0 to its argument - 1
    """
    items = list(values)
    for last in range(len(items) - 1, 0, -1):
        chosen = uniform(last + 1)
        items[last], items[chosen] = items[chosen], items[last]
    return items


def deal(seed: bytes) -> tuple[int, ...]:
    """Return the value of every chip by chip id: 33 numbers, of which index 0 is no chip."""
    values = [0]
    for level in LEVELS:
        values += shuffled(values_of_level(level), Stream(seed, f"deal/{level}").uniform)
    return tuple(values)


def first_player(seed: bytes, players: int) -> int:
    """Return the seat that begins: the one that rolls the highest sum. Tied seats roll again."""
    roll_dice = source(seed).faces
    candidates = list(range(players))
    attempt = 0
    while len(candidates) > 1:
        sums = {seat: sum(roll_dice(f"first/{attempt}/{seat}:0".encode())) for seat in candidates}
        highest_sum = max(sums.values())
        candidates = [seat for seat in candidates if sums[seat] == highest_sum]
        attempt += 1
    return candidates[0]
