"""What bots leave of games with faults: bounded, and kept for the newest games."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deepsea_ladder.errors import StoreError
from deepsea_ladder.model.games import SeatLog, StoredSeason
from deepsea_ladder.store import RetryPolicy, Store, games
from helpers import ladder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    database = Store.create(tmp_path / "ladder.db").database
    with Store(database, RetryPolicy(strikes=ladder.NO_STRIKES)) as store:
        yield store


def play(store: Store, season: StoredSeason, games: int, crashing: str) -> list[tuple[int, str]]:
    """Play some games in which a bot crashes; the number and the id of each."""
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * -(-games // 4))
    played = []
    for _ in range(games):
        job = ladder.claim(store, season)
        receipt = store.games.report(job, ladder.play(job, {crashing}))
        assert receipt.seq is not None
        seat = next(seat for seat, one in enumerate(job.seats) if one.bot == crashing)
        store.logs.add(receipt.seq, [SeatLog(seat, f"error {receipt.seq}", "printed\x1b")])
        played.append((receipt.seq, job.game_id))
    return played


def test_a_log_comes_back_as_it_was(store: Store) -> None:
    season = ladder.stocked(store)
    ((seq, game_id),) = play(store, season, 1, "anna")
    (log,) = store.logs.of_game(game_id)
    assert (log.error, log.output) == (f"error {seq}", "printed\x1b")
    assert store.logs.of_bot("anna") == {(seq, log.seat): log}
    assert store.logs.of_bot("ben") == {}
    with pytest.raises(StoreError, match="no game 'other'"):
        store.logs.of_game("other")


def test_a_log_is_added_once_and_only_for_seats_at_fault(store: Store) -> None:
    season = ladder.stocked(store)
    ((seq, game_id),) = play(store, season, 1, "anna")
    (log,) = store.logs.of_game(game_id)
    store.logs.add(seq, [SeatLog(seat, "again", "") for seat in (0, 1, 2, 3, 9)])
    assert store.logs.of_game(game_id) == (log,)


def test_the_newest_games_of_a_bot_keep_theirs(store: Store) -> None:
    season = ladder.stocked(store)
    played = play(store, season, games.KEPT + 4, "anna")
    assert sorted(seq for seq, _ in store.logs.of_bot("anna")) == [seq for seq, _ in played[4:]]
    assert store.logs.of_game(played[0][1]) == ()


def test_a_long_log_keeps_its_end(store: Store) -> None:
    season = ladder.stocked(store)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    job = ladder.claim(store, season)
    receipt = store.games.report(job, ladder.play(job, {"anna"}))
    assert receipt.seq is not None
    seat = next(seat for seat, one in enumerate(job.seats) if one.bot == "anna")
    store.logs.add(receipt.seq, [SeatLog(seat, "\udcff", "ü" * 100_000 + "the end")])
    (log,) = store.logs.of_game(job.game_id)
    assert log.error == "\\udcff"
    assert log.output.endswith("the end")
    assert games.LONGEST_OUTPUT - 2 <= len(log.output.encode()) <= games.LONGEST_OUTPUT
