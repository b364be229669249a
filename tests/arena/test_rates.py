"""Rates: how often, however requests are spread."""

from __future__ import annotations

from deepsea_arena.api.errors import MINUTE_US, ApiError, Rate
from helpers.manual_clock import ManualClock


def test_a_rate_is_kept_however_it_is_spread() -> None:
    clock = ManualClock()
    rate = Rate(lambda: 3, MINUTE_US, clock.now_us, most_keys=4)

    def take(key: str) -> int | None:
        try:
            rate.take(key, "too many")
        except ApiError as error:
            return error.retry_after
        return 0

    assert [take("a") for _ in range(4)] == [0, 0, 0, 20]
    assert take("b") == 0
    clock.jump(20_000_000)
    assert [take("a"), take("a")] == [0, 20]
    clock.jump(3_600_000_000)
    end, taken = clock.now_us() + MINUTE_US, 0
    while clock.now_us() < end:  # all at once, and then whenever it may
        wait = take("c") or 0
        taken += not wait
        clock.jump(wait * 1_000_000)
    assert taken == 2 * 3 - 1
    clock.jump(3_600_000_000)
    assert [take("a") for _ in range(4)] == [0, 0, 0, 20]
    for key in range(100):
        take(str(key))
    assert len(rate._full_at_us) <= 4
