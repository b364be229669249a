"""Owners of leases: which runs are gone for certain, and what becomes of their games."""

from __future__ import annotations

import pytest

from deepsea_arena import lease_owner
from deepsea_arena.reports.seasons import ClosedSeason, close_season
from deepsea_ladder.model.games import JobStatus
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from helpers import ladder


def test_only_a_run_that_has_certainly_ended_is_gone() -> None:
    own = lease_owner.own_name()
    place, pid, began = own.rsplit("/", 2)
    assert not lease_owner.is_gone(own)
    assert lease_owner.is_gone(f"{place}/{pid}/1")
    assert lease_owner.is_gone(f"{place}/{2**22 + 1}/{began}")
    assert not lease_owner.is_gone(f"elsewhere/1/{pid}/1")
    assert not lease_owner.is_gone("worker")


def test_games_of_a_killed_run_wait_again_at_once(played: Store) -> None:
    place = lease_owner.own_name().rsplit("/", 2)[0]
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 2))
    ladder.claim(played, season, f"{place}/{2**22 + 1}/7")
    ladder.claim(played, season, "somebody else")
    assert lease_owner.take_back(played, season) == 1
    (left,) = played.queue.listed(season, JobStatus.LEASED)
    assert left.owner == "somebody else"
    with pytest.raises(UserError, match="'nobody' has leases; there are somebody else"):
        lease_owner.release_leases(played, "nobody")
    assert lease_owner.release_leases(played, "somebody else") == 1
    assert played.queue.counts(season).todo == 2


def test_a_season_that_is_closed_does_not_wait_for_killed_runs(played: Store) -> None:
    place = lease_owner.own_name().rsplit("/", 2)[0]
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played), 2))
    ladder.claim(played, season, f"{place}/{2**22 + 1}/7")
    alive = ladder.claim(played, season, "somebody else")
    assert close_season(played, "s1") == ClosedSeason("s1", None, 1)
    played.games.report(alive, ladder.play(alive))
    assert close_season(played, "s1") == ClosedSeason("s1", ladder.SEED.hex(), 0)
