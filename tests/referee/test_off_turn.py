"""CPU time outside of a bot's turns: measured now and then, held against it only when certain."""

from __future__ import annotations

import pytest

from deepsea_referee.timing.off_turn import Evidence, OffTurn, computes_off_turn


class Host:
    """A host whose reading the test decides."""

    us = 0

    def cpu_us(self) -> int:
        return self.us


def test_what_a_bot_does_between_its_turns_is_measured_now_and_then() -> None:
    host, off_turn = Host(), OffTurn()
    for turn in range(16):  # a measure at most every 100 ms
        off_turn.begin(turn * 25_000, host)
        host.us = (turn + 1) * 250
        off_turn.end(turn * 25_000 + 500, host)
    assert (off_turn.cpu_us, off_turn.wall_us) == (4 * 250, 4 * 500)
    assert off_turn.share == 0.5
    both = OffTurn()
    assert both.share is None
    both.add(off_turn)
    assert both.share == 0.5


def pauses(count: int, cpu_us: int, wall_us: int) -> Evidence:
    found = Evidence()
    for _ in range(count):
        found.add_pause(cpu_us, wall_us)
    return found


def mixed(count: int, *kinds: tuple[int, int]) -> Evidence:
    found = Evidence()
    for _ in range(count):
        for kind in kinds:
            found.add_pause(*kind)
    return found


@pytest.mark.parametrize(
    ("found", "certain"),
    [
        pytest.param(Evidence(), False, id="nothing was measured"),
        pytest.param(pauses(3, 620, 1_000), False, id="62 % of three short pauses"),
        pytest.param(pauses(5, 400_000, 400_000), False, id="few pauses, though busy ones"),
        pytest.param(pauses(100, 14_000, 14_000), False, id="many pauses, under 1 s of CPU time"),
        pytest.param(pauses(100_000, 950, 1_000), False, id="pauses as short as an answer's end"),
        pytest.param(mixed(15, (900_000, 900_000), (0, 700_000)), False, id="one pause in two"),
        pytest.param(pauses(1_000, 45_000, 100_000), False, id="below the threshold"),
        pytest.param(pauses(20, 98_000, 100_000), True, id="all of 20 long pauses"),
        pytest.param(mixed(500, (100_000, 100_000), (60_000, 100_000)), True, id="most of many"),
    ],
)
def test_a_bot_is_named_only_on_sufficient_evidence(found: Evidence, certain: bool) -> None:
    assert computes_off_turn(found) is certain


def test_warm_up_is_no_evidence() -> None:
    host, off_turn = Host(), OffTurn()
    for now_us in range(0, 2_000_000, 100_000):
        off_turn.begin(now_us, host)
        host.us += 90_000
        off_turn.end(now_us + 90_000, host)
    assert off_turn.share == 1.0
    assert (off_turn.evidence.pauses, off_turn.evidence.wall_us) == (10, 900_000)


def test_the_evidence_of_processes_adds_up() -> None:
    both = pauses(10, 98_000, 100_000)
    assert not computes_off_turn(both)
    both.add(pauses(10, 98_000, 100_000))
    assert computes_off_turn(both)
