"""Time controls as text, and banks that pay for overruns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_rules.errors import InvalidTimeControl
from deepsea_rules.time_control import Bank, TimeControl

DAY_US = 24 * 3600 * 1_000_000
CONTROLS = st.builds(
    TimeControl, budget_us=st.integers(1, 10_000_000), bank_us=st.integers(0, 100_000_000)
)


@pytest.mark.parametrize(
    ("text", "budget_us", "bank_us", "formatted"),
    [
        ("100ms+2s", 100_000, 2_000_000, "100ms+2s"),
        ("50ms", 50_000, 0, "50ms"),
        ("1s+500ms", 1_000_000, 500_000, "1s+500ms"),
        ("250us", 250, 0, "250us"),
        ("1.5s", 1_500_000, 0, "1500ms"),
        ("0.000001s", 1, 0, "1us"),
        ("1001us+1ms", 1_001, 1_000, "1001us+1ms"),
        ("0ms+3s", 0, 3_000_000, "0s+3s"),
        ("2m", 120_000_000, 0, "120s"),
        (" 1s + 2s ", 1_000_000, 2_000_000, "1s+2s"),
        ("1440m", DAY_US, 0, "86400s"),
    ],
)
def test_a_time_control_is_budget_and_bank(
    text: str, budget_us: int, bank_us: int, formatted: str
) -> None:
    control = TimeControl.parse(text)
    assert control == TimeControl(budget_us, bank_us)
    assert control.format() == formatted


NONSENSE = """
+ 100 ms 1h -1s 1s+ +1s 1s+1s+1s 1e3ms 1,5s 0.0000001s 0s 0ms+0s 1441m 86400s+1us ٣s 1S
999999999999s 1..5s nan 1s;2s
"""


@pytest.mark.parametrize("text", ["", *NONSENSE.split()])
def test_nonsense_is_refused_with_one_line_that_quotes_it(text: str) -> None:
    with pytest.raises(InvalidTimeControl) as caught:
        TimeControl.parse(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@given(CONTROLS)
def test_format_and_parse_are_a_round_trip(control: TimeControl) -> None:
    assert TimeControl.parse(control.format()) == control


@pytest.mark.parametrize(("budget_us", "bank_us"), [(-1, 5), (5, -1), (0, 0), (DAY_US, 1)])
def test_a_time_control_gives_something_and_at_most_a_day(budget_us: int, bank_us: int) -> None:
    with pytest.raises(ValueError, match=r"negative|at most 24 hours"):
        TimeControl(budget_us, bank_us)


@pytest.mark.parametrize(
    ("elapsed_us", "left_us"),
    [(0, 500), (99, 500), (100, 500), (101, 499), (600, 0), (601, 0), (10_000, 0)],
)
def test_what_goes_beyond_the_budget_is_drawn_from_the_bank(elapsed_us: int, left_us: int) -> None:
    bank = Bank(100, 500)
    assert bank.limit_us == 600
    bank.spend(elapsed_us)
    assert bank.left_us == left_us
    assert bank.limit_us == 100 + left_us


@given(CONTROLS, st.lists(st.integers(0, 20_000_000), max_size=30))
def test_a_bank_pays_for_overruns_and_for_nothing_else(
    control: TimeControl, elapsed: list[int]
) -> None:
    bank = Bank(control.budget_us, control.bank_us)
    for us in elapsed:
        before_us = bank.left_us
        bank.spend(us)
        assert bank.left_us == max(0, before_us - max(0, us - control.budget_us))


def test_many_small_overruns_use_up_the_bank() -> None:
    bank = Bank(1_000, 100)
    for _ in range(10):
        bank.spend(1_010)
    assert bank.left_us == 0
