"""Comparisons of versions for tests: a ladder where some are to be played, and their blocks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from deepsea_ladder.model import ComparisonLease, ComparisonStanding
from deepsea_ladder.season import VerdictSettings
from deepsea_ladder.store import Store

from . import ladder


def to_compare(store: Store, **verdicts: Any) -> None:
    """Submit anna with two versions, dan with one, and the panel: ben, and cleo, withdrawn."""
    for name in ("anna", "ben", "cleo", "dan"):
        ladder.submit(store, name)
    ladder.submit(store, "anna", "anna, once more")
    store.bots.withdraw("cleo")
    settings = VerdictSettings(**{"panel": ("Ben", "cleo", "nobody"), **verdicts})
    store.seasons.open(replace(ladder.a_season(), verdicts=settings), ladder.SEED)


def claim(store: Store, owner: str = "runner", seconds: float = 60) -> ComparisonLease:
    """Lease the next comparison, of which there has to be one."""
    lease = store.comparisons.claim(owner, seconds)
    assert lease is not None
    return lease


def add(
    store: Store, lease: ComparisonLease, number: int = 0, cpu_ms: int = 1000, **standing: Any
) -> bool:
    """Add a block of a comparison."""
    after = ComparisonStanding(blocks=number + 1, **standing)
    return store.comparisons.add(lease, number, b'{"block":%d}' % number, cpu_ms, after, 60)


def shown(store: Store) -> list[str]:
    """The comparisons of the season, a line each."""
    return [
        f"{one.version.label}: {one.panel or one.other.label}, {one.state}, "
        f"{one.standing.blocks} blocks"
        for one in store.comparisons.of_season(store.seasons.get("s1"))
    ]
