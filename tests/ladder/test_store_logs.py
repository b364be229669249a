"""What bots leave of games for their authors: bounded, and kept for the newest games."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import GameNote, SeatLog, StoredSeason
from deepsea_ladder.store import Database, RetryPolicy, Store
from deepsea_ladder.store import games as logs
from helpers import ladder


@pytest.fixture
def store(pattern: Path, tmp_path: Path) -> Iterator[Store]:
    database = Database(str(shutil.copy(pattern, tmp_path / "ladder.db")))
    with Store(database, RetryPolicy(strikes=ladder.NO_STRIKES)) as store:
        ladder.stocked(store)
        yield store


def play(store: Store, games: int, crashing: str) -> list[tuple[int, str]]:
    """Play some games in which a bot crashes; the number and the id of each."""
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * -(-games // 4))
    played = []
    for _ in range(games):
        job = ladder.claim(store, season)
        receipt = store.games.report(job, ladder.play(job, {crashing}))
        assert receipt.seq is not None
        seat = next(seat for seat, one in enumerate(job.seats) if one.bot == crashing)
        store.logs.add(
            receipt.seq, [SeatLog(seat, "anna v1", f"error {receipt.seq}", "printed\x1b")]
        )
        played.append((receipt.seq, job.game_id))
    return played


def test_a_log_comes_back_as_it_was(store: Store) -> None:
    ((seq, game_id),) = play(store, 1, "anna")
    (log,) = store.logs.of_game(game_id)
    assert (log.error, log.output) == (f"error {seq}", "printed\x1b")
    assert store.logs.of_bot("anna") == {(seq, log.seat): log}
    assert store.logs.of_bot("ben") == {}
    with pytest.raises(StoreError, match="no game 'other'"):
        store.logs.of_game("other")


def test_a_log_is_added_once_and_only_for_seats_at_fault(store: Store) -> None:
    ((seq, game_id),) = play(store, 1, "anna")
    (log,) = store.logs.of_game(game_id)
    store.logs.add(seq, [SeatLog(seat, "anna v1", "again", "") for seat in (0, 1, 2, 3, 9)])
    assert store.logs.of_game(game_id) == (log,)


def test_the_newest_games_of_a_bot_keep_theirs(store: Store) -> None:
    played = play(store, logs.GAMES_WITH_LOGS + 4, "anna")
    assert sorted(seq for seq, _ in store.logs.of_bot("anna")) == [seq for seq, _ in played[4:]]
    assert store.logs.of_game(played[0][1]) == ()


def test_notes_are_kept_of_seats_without_a_fault_too(
    store: Store, season: StoredSeason, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "GAMES_WITH_NOTES", 3)
    ((first, with_fault),) = play(store, 1, "anna")
    note = GameNote(4, "deep", {"chance home": 0.5})
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 5))
    played: list[tuple[str, tuple[SeatLog, ...]]] = []
    for _ in range(5):
        job = ladder.claim(store, season)
        receipt = store.games.report(job, ladder.play(job))
        assert receipt.seq is not None
        seat = next(seat for seat, one in enumerate(job.seats) if one.bot == "anna")
        others = [
            SeatLog(other, "anna v1", "", "") for other in range(len(job.seats)) if other != seat
        ]
        store.logs.add(receipt.seq, [SeatLog(seat, "anna v1", "none", "printed", (note,)), *others])
        kept = (SeatLog(seat, "anna v1", "", "", (note,)),) if len(played) >= 2 else ()
        played.append((job.game_id, kept))
    assert [(game_id, store.logs.of_game(game_id)) for game_id, _ in played] == played
    (log,) = store.logs.of_game(with_fault)
    assert (log.error, log.notes) == (f"error {first}", ())


def test_a_long_log_keeps_its_end(store: Store, season: StoredSeason) -> None:
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    job = ladder.claim(store, season)
    receipt = store.games.report(job, ladder.play(job, {"anna"}))
    assert receipt.seq is not None
    seat = next(seat for seat, one in enumerate(job.seats) if one.bot == "anna")
    store.logs.add(receipt.seq, [SeatLog(seat, "anna v1", "\udcff", "ü" * 100_000 + "the end")])
    (log,) = store.logs.of_game(job.game_id)
    assert log.error == "\\udcff"
    assert log.output.endswith("the end")
    assert logs.LONGEST_OUTPUT - 2 <= len(log.output.encode()) <= logs.LONGEST_OUTPUT
