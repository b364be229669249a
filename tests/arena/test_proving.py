"""Records are re-run by any number of processes with the same differences, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deepsea_arena.doctor import check_ratings, prove_with
from deepsea_ladder.chain import RecordedGame
from deepsea_ladder.store import Store
from deepsea_ladder.store.ratings import recorded_games
from helpers import ladder

GAMES = 8


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[RecordedGame]:
    with ladder.created(tmp_path_factory.mktemp("ladder") / "ladder.db") as store:
        season = ladder.stocked(store)
        ladder.play_all(store, season, games=GAMES)
        with store.database.read() as connection:
            return list(recorded_games(connection, season))


def test_sound_games_have_no_differences(games: list[RecordedGame]) -> None:
    assert len(games) == GAMES
    assert list(prove_with(1)(games)) == []


def test_differences_come_in_the_order_of_the_games(games: list[RecordedGame]) -> None:
    bad = {1: "{}", 2: games[0].record, 7: games[7].record.replace('"us": 100', '"us": "x"', 1)}
    wrong = [game._replace(record=bad.get(n, game.record)) for n, game in enumerate(games)]
    counted: list[int] = []
    found = list(prove_with(2, counted.append, portion_size=3)(iter(wrong)))
    assert found == list(prove_with(1)(wrong))
    assert [line.partition(":")[0] for line in found] == ["game s1-2", "game s1-3", "game s1-8"]
    assert "another game's" in found[1]
    assert sum(counted) == GAMES


# Two more workers, for somebody who reads the first difference alone.
@pytest.mark.release
def test_whoever_has_seen_enough_may_stop(games: list[RecordedGame]) -> None:
    wrong = [game._replace(seed=bytes(32)) for game in games]
    lines = prove_with(2, portion_size=1)(wrong)
    assert "its seed does not follow" in next(lines)
    lines.close()  # type: ignore[attr-defined]


def test_other_bots_and_results_are_found(games: list[RecordedGame]) -> None:
    game = games[0]
    spoiled = (
        game._replace(lineup=()),
        game._replace(lineup=game.lineup[::-1]),
        game._replace(results=game.results[:-1]),
    )
    for one in spoiled:
        (line,) = prove_with(1)([one])
        assert "the stored results are not those of its record" in line


def test_a_check_counts_the_games_that_it_looks_at(played: Store) -> None:
    counted: list[int] = []

    @contextmanager
    def progress(games: int) -> Iterator[Callable[[int], object]]:
        assert games == 8
        yield counted.append

    (check,) = check_ratings(played, records=True, workers=1, progress=progress)
    assert check.sound
    assert sum(counted) == 8
