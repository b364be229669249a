"""The simulated season goes through the real store, and its order is measured rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

import ladder  # noqa: TID251  (the benchmark)
import season
import web_store
from deepsea_ladder.rating import Rating
from deepsea_ladder.store import Store
from deepsea_ladder.store.database import find_damage
from deepsea_rules.game import GameRecord
from helpers.ladder import claim


@pytest.mark.slow
def test_a_season_is_simulated_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "ladder.db"
    rows = list(season.season(path, authors=12, games_a_day=20_000, games=50, before=8, requests=1))
    assert [row.what.split(" games, ")[0] for row in rows[: season.PARTS]] == [
        str(games) for games in range(13, 59, 5)
    ]
    compared = [row for row in rows if row.ratio is not None]
    assert len(compared) == 8
    assert all(row.figures["first_ms"] > 0 and row.figures["last_ms"] > 0 for row in compared)
    assert {"a game in the queue", "a submission until its game 1"} < {row.what for row in rows}
    with Store.open(path) as store:
        stored = store.seasons.get(web_store.SEASON)
        assert store.queue.counts(stored).done == 58
        assert find_damage(store.database) == []
        assert store.ratings.differences(stored) == []
        assert max(bot.current.number for bot in store.bots.all()) > 1


@pytest.mark.release  # when benchmarks are run
def test_a_made_up_game_ends_as_it_is_to(tmp_path: Path) -> None:
    path = tmp_path / "ladder.db"
    web_store.make(path, bots=4, games=0)
    with Store.open(path) as store:
        stored = store.seasons.get(web_store.SEASON)
        versions = [bot.current.id for bot in store.bots.all()]
        for placements in ((1, 2, 3, 4), (4, 2, 1, 3)):
            store.jobs.add(stored, [[versions]])
            job = claim(store, stored)
            record = web_store.played(job, placements)
            assert GameRecord.from_json(record).placements == placements
            assert store.games.report(job, record).seq is not None


@pytest.mark.parametrize(
    ("means", "tau"),
    [([1, 2, 3], 1.0), ([3, 2, 1], -1.0), ([2, 1, 3], 1 / 3), ([1, 1, 2], 2 / 3), ([1, 1, 1], 0.0)],
)
def test_kendalls_tau_counts_pairs(means: list[int], tau: float) -> None:
    ratings = {bot: Rating(float(mu), 1.0) for bot, mu in enumerate(means)}
    assert ladder.tau([10.0, 20.0, 30.0], ratings) == pytest.approx(tau)
    assert ladder.tau([30.0, 10.0, 20.0], {0: ratings[2], 1: ratings[0], 2: ratings[1]}) == (
        pytest.approx(tau)
    )
