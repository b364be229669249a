"""The search for the policy's numbers: the same each time, and within its ranges."""

from deepsea_sdk.policies import STEADY
from tune_steady import START, chunks, flat, leads, moved, numbers_of, search, within


def test_a_row_is_the_same_numbers() -> None:
    for numbers in (START, *STEADY.values()):
        assert numbers_of(flat(numbers)) == numbers


def test_a_search_repeats_itself() -> None:
    found = [list(search(3, "test", steps=3, pairs=4, play=map)) for _ in range(2)]
    assert found[0] == found[1]
    assert START not in found[0]


def test_the_same_policy_leads_by_nothing() -> None:
    (games,) = chunks(3, "level", 5)
    assert leads(START, START, games) == [0.0] * 5


def test_chunks_have_each_pair_once() -> None:
    numbers = [number for games in chunks(2, "chunks", 1234) for number in games.pairs]
    assert numbers == list(range(1234))


def test_a_row_stays_within_its_ranges() -> None:
    far = moved(flat(START), [1.0] * 9, 5.0)
    assert numbers_of(far) == numbers_of(within(far))


def test_there_are_numbers_for_all_numbers_of_seats() -> None:
    assert list(STEADY) == [2, 3, 4, 5, 6]
