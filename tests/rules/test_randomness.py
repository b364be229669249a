"""Chance, against golden numbers and against a second derivation written here from the text.

The literals were printed by the few lines below, run on their own, and not by the code under
test. Other programs re-derive games from their seeds, so none of them may ever change.
"""

import hashlib
import hmac
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_rules.randomness import (
    Stream,
    commitment,
    deal,
    first_player,
    game_seed,
    seed_from_text,
    source,
)

ZERO = bytes(32)
DEMO = bytes.fromhex("22c68d2c9ef9cb890497329498e2a95fa6c49809ae682e8d4210e43a936e81b9")

seeds = st.binary(min_size=32, max_size=32)


# ------------------------------------------------------- the independent derivation


def stream_bytes(seed: bytes, label: str) -> Iterator[int]:
    counter = 0
    while True:
        yield from hmac.new(seed, f"{label}:{counter}".encode("ascii"), hashlib.sha256).digest()
        counter += 1


def uniform(source: Iterator[int], n: int) -> int:
    return next(byte % n for byte in source if byte < 256 - 256 % n)


def two_faces(seed: bytes, label: str) -> tuple[int, int]:
    source = stream_bytes(seed, label)
    return 1 + uniform(source, 3), 1 + uniform(source, 3)


def dealt(seed: bytes, level: int) -> list[int]:
    values = sorted([4 * (level - 1) + k for k in range(4)] * 2)
    source = stream_bytes(seed, f"deal/{level}")
    for i in range(7, 0, -1):
        j = uniform(source, i + 1)
        values[i], values[j] = values[j], values[i]
    return values


def roll_off(seed: bytes, players: int) -> tuple[int, int]:
    """Who begins, and after how many attempts."""
    tied, attempt = list(range(players)), 0
    while len(tied) > 1:
        totals = {seat: sum(two_faces(seed, f"first/{attempt}/{seat}")) for seat in tied}
        tied = [seat for seat in tied if totals[seat] == max(totals.values())]
        attempt += 1
    return tied[0], attempt


# ----------------------------------------------------------------------------- seeds


def test_seed_from_text() -> None:
    assert seed_from_text("demo") == DEMO
    assert seed_from_text("demo") == hashlib.sha256(b"deepsea-seed:demo").digest()
    assert seed_from_text("") == hashlib.sha256(b"deepsea-seed:").digest()
    assert seed_from_text("Ω ≈ 1") == hashlib.sha256("deepsea-seed:Ω ≈ 1".encode()).digest()


GAME_SEEDS = {
    0: "4a90621dcbaa9c530561487c2d238b1c9fda08c4f70dde54c5a4804096e772a3",
    1: "31ec63a39b5cdcf2bd9325344a69199e03651fc81f9cf96ed01500cae0b1bf25",
    10: "c1ec3f488a3f15254cad8ee5026b105f2302dad2677aead10a1aeba4e5281a7c",
}


@pytest.mark.parametrize("index", GAME_SEEDS)
def test_game_seed(index: int) -> None:
    assert game_seed(DEMO, index).hex() == GAME_SEEDS[index]
    assert game_seed(DEMO, index) == hashlib.sha256(DEMO + f"game:{index}".encode()).digest()


def test_every_attempt_after_a_void_game_has_a_seed_of_its_own() -> None:
    assert game_seed(DEMO, 12, 0) == game_seed(DEMO, 12)
    assert game_seed(DEMO, 12, 3) == hashlib.sha256(DEMO + b"game:12:3").digest()
    assert len({game_seed(DEMO, n, attempt) for n in range(3) for attempt in range(3)}) == 9


def test_commitment() -> None:
    assert commitment(ZERO) == "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
    assert commitment(DEMO) == "17ceebcf77a09a5cb1ca8a3c2df7096ce234aca360d14d847441a8898ed423ac"


# --------------------------------------------------------------------------- streams

# The first 70 bytes of the stream "x" of DEMO: more than two digests of 32.
DEMO_X = [
    147, 65, 145, 88, 27, 30, 225, 204, 144, 201, 236, 115, 141, 152, 225, 154, 173, 208, 40, 213,
    54, 72, 201, 17, 222, 197, 153, 201, 164, 68, 82, 82, 8, 223, 237, 103, 23, 22, 9, 62, 249,
    139, 32, 195, 0, 71, 114, 178, 162, 24, 24, 3, 235, 125, 253, 217, 251, 162, 154, 50, 234, 20,
    134, 162, 143, 22, 243, 103, 189, 98,
]  # fmt: skip


def test_the_byte_stream_across_digests() -> None:
    assert list(islice(stream_bytes(DEMO, "x"), 70)) == DEMO_X
    stream = Stream(DEMO, "x")
    assert [stream.uniform(256) for _ in range(70)] == DEMO_X


@pytest.mark.parametrize(
    ("game", "first_bytes", "faces"),
    [(198, [255, 105, 143], (1, 3)), (432, [251, 255, 156], (3, 1))],
)
def test_a_skipped_byte_in_a_die(game: int, first_bytes: list[int], faces: tuple[int, int]) -> None:
    """Games of the demo run with 255, which three cannot use, in their first roll's bytes."""
    seed = game_seed(DEMO, game)
    assert list(islice(stream_bytes(seed, "dice/1/0/1"), 3)) == first_bytes
    assert source(seed).dice(1, 0, 1) == faces


@given(seeds, st.text(alphabet="abc/0123456789", max_size=20), st.lists(st.integers(1, 256)))
def test_uniform(seed: bytes, label: str, limits: list[int]) -> None:
    source, stream = stream_bytes(seed, label), Stream(seed, label)
    assert [stream.uniform(n) for n in limits] == [uniform(source, n) for n in limits]


# ------------------------------------------------------------------------------ deal

DEALS = {
    ZERO: [
        [1, 3, 0, 1, 2, 2, 3, 0],
        [5, 5, 6, 4, 4, 7, 6, 7],
        [11, 8, 10, 10, 11, 9, 8, 9],
        [14, 14, 12, 15, 13, 12, 15, 13],
    ],
    DEMO: [
        [1, 0, 1, 2, 0, 2, 3, 3],
        [5, 7, 6, 7, 4, 6, 4, 5],
        [9, 11, 11, 9, 8, 10, 8, 10],
        [12, 13, 12, 14, 15, 13, 15, 14],
    ],
}


@pytest.mark.parametrize("seed", DEALS, ids=["zero", "demo"])
def test_deal_goldens(seed: bytes) -> None:
    values = deal(seed)
    assert len(values) == 33
    assert [list(values[n : n + 8]) for n in (1, 9, 17, 25)] == DEALS[seed]


@given(seeds)
def test_deal(seed: bytes) -> None:
    values = deal(seed)
    for level in (1, 2, 3, 4):
        first = 8 * (level - 1) + 1
        assert list(values[first : first + 8]) == dealt(seed, level)


# ------------------------------------------------------------------------------ dice

# dive, seat, turn: faces under ZERO and under DEMO
DICE = {
    (1, 0, 1): ((2, 2), (3, 3)),
    (1, 0, 2): ((2, 1), (3, 1)),
    (1, 1, 1): ((1, 3), (3, 3)),
    (2, 0, 1): ((2, 1), (1, 3)),
    (3, 5, 12): ((3, 3), (2, 3)),
}


@pytest.mark.parametrize("key", DICE)
def test_dice_goldens(key: tuple[int, int, int]) -> None:
    assert (source(ZERO).dice(*key), source(DEMO).dice(*key)) == DICE[key]


@given(seeds, st.integers(1, 3), st.integers(0, 5), st.integers(1, 200))
def test_dice(seed: bytes, dive: int, seat: int, turn: int) -> None:
    assert source(seed).dice(dive, seat, turn) == two_faces(seed, f"dice/{dive}/{seat}/{turn}")


# ---------------------------------------------------------------------- first player

# game of the demo run, players: who begins, after how many attempts
FIRST = {
    (0, 2): (1, 1),
    (0, 3): (1, 1),
    (0, 6): (4, 1),
    (1, 2): (0, 1),
    (1, 3): (2, 2),  # 4 2 4, then 2 . 4
    (1, 6): (5, 1),
    (2, 2): (0, 2),  # 3 3, then 4 3
    (2, 3): (2, 1),
    (2, 6): (5, 3),  # 3 3 5 3 5 5, then . . 5 . 2 5, then . . 3 . . 5
    (17, 2): (0, 3),  # 3 3, 4 4, 6 5
}


@pytest.mark.parametrize("key", FIRST)
def test_first_player_goldens(key: tuple[int, int]) -> None:
    index, players = key
    assert roll_off(game_seed(DEMO, index), players) == FIRST[key]
    assert first_player(game_seed(DEMO, index), players) == FIRST[key][0]


@given(seeds, st.integers(2, 6))
def test_first_player(seed: bytes, players: int) -> None:
    assert first_player(seed, players) == roll_off(seed, players)[0]
