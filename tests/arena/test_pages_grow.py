"""What a page reads of a ladder does not grow with the games that were played."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deepsea_arena.bots import bot_profile
from deepsea_arena.games import newest_games
from deepsea_arena.standings import pair_table, show_standings
from deepsea_ladder.model import GameFilter
from deepsea_ladder.store import Store
from helpers import ladder
from helpers.steps import Work, repeated

FEW, MANY = 80, 240
"""How many times the same games were played: a page that shows some of them is full with few."""
GROWTH = 1.12


@pytest.fixture(scope="module")
def veterans(pattern: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two ladders: anna plays always, eve and finn now and then, and never with one another."""
    folder = tmp_path_factory.mktemp("veterans")
    path = folder / "first.db"
    shutil.copy(pattern, path)
    with Store.open(path) as store:
        season = ladder.stocked(store, bots=6)
        anna, ben, cleo, dan, eve, finn = ladder.ids(store)
        lineups = [[anna, ben, cleo, dan]] * 8 + [[anna, ben, cleo, eve], [anna, ben, dan, finn]]
        for lineup in lineups:
            store.jobs.add(season, ladder.rotations(lineup, 4))
        for rotation, _ in enumerate(lineups):
            for shift in range(4):
                (job,) = store.jobs.claim(season, "worker", 60, [rotation or None])
                store.games.report(job, ladder.play(job, faulty={"ben": shift % 2}))
    return [repeated(path, folder / f"{times}.db", times) for times in (FEW, MANY)]


def games(**wanted: str | bool | None) -> Callable[[Store], object]:
    """Five games of those that are wanted."""
    return lambda store: newest_games(store, 5, game_filter=GameFilter(**wanted))  # type: ignore[arg-type]


READS: dict[str, Callable[[Store], object]] = {
    "a bot": lambda store: bot_profile(store, "anna"),
    "a bot with faults": lambda store: bot_profile(store, "ben"),
    "standings": show_standings,
    "pairs": lambda store: pair_table(store, None, start=0, size=20),
    "games": games(),
    "games of a bot": games(bot="anna"),
    "lost games": games(bot="anna", lost=True),
    "games with faults": games(faults=True),
    "games with faults of a bot": games(bot="ben", faults=True),
    "games of two bots": games(bot="anna", against="ben"),
    "games of two bots that meet rarely": games(bot="anna", against="finn"),
    "games of two bots that never met": games(bot="eve", against="finn"),
}


def _steps(path: Path, read: Callable[[Store], object]) -> int:
    with Store.open(path) as store:
        work = Work(store)
        read(store)
        return work.steps


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_is_read_does_not_grow_with_the_games(
    read: Callable[[Store], object], veterans: list[Path]
) -> None:
    few, many = (_steps(veteran, read) for veteran in veterans)
    assert 0 < many <= GROWTH * few


@pytest.mark.parametrize("read", ["standings", "pairs"])
def test_what_is_read_does_not_grow_with_former_versions(
    read: str, pattern: Path, tmp_path: Path
) -> None:
    steps = []
    for versions in (2, 8):
        path = tmp_path / f"{versions}.db"
        shutil.copy(pattern, path)
        with Store.open(path) as store:
            season = ladder.stocked(store, bots=4)
            for number in range(versions):
                for name in ladder.NAMES[:4]:
                    ladder.submit(store, name, f"{name} {number}")
                ladder.play_all(store, season, games=4)
        steps.append(_steps(path, READS[read]))
    assert 0 < steps[1] <= GROWTH * steps[0]


def test_reading_every_game_would_be_noticed(veterans: list[Path]) -> None:
    def every_game(store: Store) -> None:
        assert store.history.players(store.seasons.get("s1"))

    few, many = (_steps(veteran, every_game) for veteran in veterans)
    assert many > 2.5 * few
