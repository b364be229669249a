"""Which cases of a test run every time, and which before a release only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def daily(cases: Iterable[tuple[Any, ...]], chosen: Collection[tuple[Any, ...]]) -> list[Any]:
    """All cases, for `parametrize`; those that are not chosen are for a release."""
    cases = list(cases)
    assert set(chosen) <= set(cases)
    return [
        case if case in chosen else pytest.param(*case, marks=pytest.mark.release) for case in cases
    ]
