"""Requests that timed out are known until they are answered, the last ones of them."""

from __future__ import annotations

from deepsea_referee.transport.late_requests import LateRequests


def test_an_answer_is_expected_once() -> None:
    late = LateRequests()
    late.add(7)
    assert [late.take(7), late.take(7), late.take(8)] == [True, False, False]


def test_the_oldest_are_forgotten() -> None:
    late = LateRequests(kept=2)
    for request_id in (1, 2, 3):
        late.add(request_id)
    assert [late.take(request_id) for request_id in (1, 2, 3)] == [False, True, True]
