"""Which cases of a test run every time, and which before a release only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """All cases, for `parametrize`; those that are not chosen are for a release.

    A case of several arguments is a tuple of them.
    """
    cases = list(cases)
    assert set(chosen) <= set(cases)
    return [case if case in chosen else _for_release(case) for case in cases]


def _for_release(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.release)
