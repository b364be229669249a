"""The check of standings by all games at once: whom it lists, what it marks, what it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec import structs

from deepsea_arena.documents import to_json
from deepsea_arena.reports.standings import show_standings
from deepsea_arena.season_check import check_season, final_table
from deepsea_arena.seasons import close_season
from deepsea_ladder.store import RetryPolicy, Store
from helpers import ladder


def test_each_line_of_the_standings_has_its_batch_rating(played: Store) -> None:
    page = show_standings(played)
    check = check_season(played, page)
    assert (check.games, check.settled) == (8, True)
    assert [(line.bot, line.version, line.rank) for line in check.lines] == [
        (line.bot, line.version, line.rank) for line in page.standings
    ]
    by_batch = sorted(check.lines, key=lambda line: -(line.rating or 0.0))
    assert [line.batch_rank for line in by_batch] == [1, 2, 3, 4]
    for line, rated in zip(check.lines, page.standings, strict=True):
        assert line.batch_rank is not None
        assert (line.best_rank or 9) <= line.batch_rank <= (line.worst_rank or 0)
        assert line.mu == pytest.approx(rated.mu, abs=2.0)
        assert (line.verdict == "same") == (line.rank == line.batch_rank)


def test_chances_of_being_stronger_are_a_table_of_the_lines(played: Store) -> None:
    check = check_season(played, show_standings(played))
    for i, row in enumerate(check.stronger):
        assert row[i] is None
        for j, chance in enumerate(row):
            back = check.stronger[j][i]
            if chance is not None and back is not None:
                assert chance == pytest.approx(1.0 - back)
                above = (check.lines[i].mu or 0.0) > (check.lines[j].mu or 0.0)
                assert (chance > 0.5) == above


def test_who_has_not_played_is_listed_without_a_verdict(played: Store) -> None:
    ladder.submit(played, "eve")
    check = check_season(played, show_standings(played))
    eve = check.lines[-1]
    assert (eve.bot, eve.rank, eve.verdict, eve.batch_rank, eve.mu) == (
        "eve",
        None,
        None,
        None,
        None,
    )
    assert set(check.stronger[-1]) == {None}
    assert {row[-1] for row in check.stronger} == {None}


def test_a_season_without_games_has_nothing_to_check(played: Store) -> None:
    played.seasons.open(ladder.a_season("s2"), ladder.SEED)
    check = check_season(played, show_standings(played, "s2"))
    assert (check.games, check.sweeps, check.pairs) == (0, 0, 0)
    assert {line.verdict for line in check.lines} == {None}


@pytest.fixture(scope="module")
def circle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Anna always beats ben, ben cleo, cleo anna; dan loses to all three."""
    database = ladder.created(tmp_path_factory.mktemp("circle") / "ladder.db").database
    with Store(database, RetryPolicy(strikes=ladder.NO_STRIKES)) as store:
        season = ladder.stocked(store, seats=(2,))
        ids = dict(zip(ladder.NAMES, ladder.ids(store), strict=False))
        crashing: dict[str, list[str]] = {}
        for winner, loser in (("anna", "ben"), ("ben", "cleo"), ("cleo", "anna")):
            for worse in (loser, loser, loser, loser, "dan", "dan"):
                store.jobs.add(season, ladder.rotations([ids[winner], ids[worse]], 2))
                crashing |= {f"s1-{len(crashing) + game}": [worse] for game in (1, 2)}
        ladder.play_all(store, season, crashing)
        yield store


def test_results_in_a_circle_are_not_foretold(circle: Store) -> None:
    check = check_season(circle, show_standings(circle))
    assert check.pairs == 6
    assert check.by_chance == pytest.approx(6 * 0.0027, rel=0.01)
    found = {frozenset((pair.bot, pair.other)) for pair in check.unforetold}
    assert found == {
        frozenset(pair) for pair in (("anna", "ben"), ("ben", "cleo"), ("anna", "cleo"))
    }
    for pair in check.unforetold:
        won = (pair.bot, pair.other) in (("anna", "ben"), ("ben", "cleo"), ("cleo", "anna"))
        assert (pair.games, pair.share) == (8, 1.0 if won else 0.0)
        assert pair.foretold == pytest.approx(0.5, abs=0.1)
        assert (pair.standard_errors > 3.0) == won


def test_a_rank_differs_if_the_batch_rules_it_out(circle: Store) -> None:
    """Standings that are not those of the games: the last of four stands first."""
    page = show_standings(circle)
    assert check_season(circle, page).lines[3].verdict == "same"
    *above, dan = page.standings
    moved = (
        structs.replace(dan, rank=1),
        *(structs.replace(line, rank=(line.rank or 0) + 1) for line in above),
    )
    check = check_season(circle, structs.replace(page, standings=moved))
    assert (check.lines[0].verdict, check.lines[0].best_rank) == ("differs", 4)
    assert {line.verdict for line in check.lines[1:3]} <= {"same", "within"}


def test_the_order_of_the_games_is_no_matter(
    circle: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = check_season(circle, show_standings(circle))
    outcomes = circle.history.outcomes
    monkeypatch.setattr(
        circle.history, "outcomes", lambda season, most: [*outcomes(season, most)][::-1]
    )
    assert check_season(circle, show_standings(circle)) == usual


def test_a_final_table_has_the_check_and_keeps_the_order_of_the_standings(played: Store) -> None:
    before = [line.bot for line in show_standings(played).standings]
    close_season(played, "s1")
    final = final_table(played, "s1")
    assert [line.bot for line in final.standings.standings] == before
    assert final.check == check_season(played, final.standings)
    assert final.winner is not None
    assert final.winner.bot == before[0]


def test_the_check_is_json(circle: Store) -> None:
    document = json.dumps(to_json(check_season(circle, show_standings(circle))), allow_nan=False)
    assert json.loads(document)["unforetold"]
