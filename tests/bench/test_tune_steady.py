"""The search for the policy's numbers: the same each time, and within its ranges."""

from deepsea_sdk.steady import STEADY, policy
from tune_steady import START, Lead, flat, numbers_of, search


def test_a_row_is_the_same_numbers() -> None:
    for numbers in (START, *STEADY.values()):
        assert numbers_of(flat(numbers)) == numbers


def test_a_search_repeats_itself() -> None:
    found = [search(3, "test", generations=2, candidates=4, pairs=2) for _ in range(2)]
    assert found[0] == found[1] != START


def test_the_same_policy_leads_by_nothing() -> None:
    lead = Lead(3, policy(START), policy(START), "level")
    lead.play(5)
    assert lead.found == [0.0] * 5


def test_there_are_numbers_for_all_numbers_of_seats() -> None:
    assert list(STEADY) == [2, 3, 4, 5, 6]
