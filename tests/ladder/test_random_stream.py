"""Chance from a seed: the same numbers everywhere, and fair ones."""

import hashlib
from collections import Counter

import pytest

from deepsea_ladder.pairing import RandomStream


def test_numbers_are_those_of_the_definition() -> None:
    key = hashlib.sha256(b"seed").digest()
    words = [
        int.from_bytes(hashlib.sha256(key + b"label" + i.to_bytes(8, "big")).digest()[:8], "big")
        for i in range(3)
    ]
    chance = RandomStream(b"seed", "label")
    assert [chance.below(1000), chance.below(10**12)] == [words[0] % 1000, words[1] % 10**12]
    assert chance.unit() == (words[2] >> 11) / 2**53


def test_seed_and_label_both_matter() -> None:
    rows = {
        tuple(RandomStream(seed, label).below(10**9) for _ in range(1))
        for seed in (b"a", b"b")
        for label in ("x", "y")
    }
    assert len(rows) == 4


@pytest.mark.parametrize("n", [1, 2, 3, 6, 257])
def test_below_gives_every_number_about_as_often(n: int) -> None:
    chance = RandomStream(b"fair", str(n))
    counts = Counter(chance.below(n) for _ in range(200 * n))
    assert sorted(counts) == list(range(n))
    assert all(130 < count < 280 for count in counts.values())


def test_unit_lies_in_the_unit_interval() -> None:
    chance = RandomStream(b"unit", "")
    numbers = [chance.unit() for _ in range(1000)]
    assert 0.0 <= min(numbers) < 0.01
    assert 0.99 < max(numbers) < 1.0


def test_shuffled_gives_every_order() -> None:
    chance = RandomStream(b"cards", "")
    assert {tuple(chance.shuffled("abc")) for _ in range(200)} == {
        ("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c"), ("b", "c", "a"), ("c", "a", "b"),
        ("c", "b", "a"),
    }  # fmt: skip
