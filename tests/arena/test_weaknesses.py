"""Weaknesses and changes over many games: found where they are, and seldom where they are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from deepsea_arena.weaknesses import FEWEST, WORTH, Deviation, find_weaknesses
from helpers.games import rng
from helpers.tiers import daily

Loss = Callable[[Deviation], float]


def season(label: str, games: int, loss: Loss) -> list[list[Deviation]]:
    """Games with four deviations on average; what they lose is known to ±0.1 by roll-outs."""
    chance = rng(label)
    found: list[list[Deviation]] = []
    for number in range(games):
        shared = chance.gauss(0, 0.05)  # deviations of one game are not independent
        deviations = []
        for decision in range(chance.randrange(9)):
            act, policy = chance.choice([("turns back", "down"), ("takes a piece", "leave")])
            one = Deviation(
                record=f"game-{number}.json",
                game_id=f"game-{number}",
                seat=number % 2,
                decision=decision,
                turn=decision + 1,
                dive=chance.randrange(1, 4),
                act=act,
                traits=(),
                played="back",
                policy=policy,
                lost=shared + chance.gauss(0, 0.05),
                error=0.1,
            )
            air = chance.choice(["air 8 or less", "air 9 or more"])
            traits = ((f"dive {one.dive}",), (air,), (f"load {chance.randrange(3)}",), ("2 seats",))
            one = replace(one, traits=traits)
            deviations.append(replace(one, lost=one.lost + loss(one)))
        found.append(deviations)
    return found


def by_trait(act: str, trait: str, lost: float) -> Loss:
    """A loss in one situation alone."""
    return lambda one: lost * (one.act == act and (trait,) in one.traits)


def least(one: Deviation) -> float:
    """As much as makes `WORTH` a game in all decisions of an act."""
    return WORTH / 2


# 5 % of 300 are 15, of 150 7.5; with a chance of 1 in 1,000 there would be 28 or 17.
@pytest.mark.parametrize(
    ("games", "runs", "most"), daily([(12, 150, 17), (12, 300, 28), (40, 300, 28)], [(12, 150, 17)])
)
def test_false_alarms_are_as_seldom_as_stated(games: int, runs: int, most: int) -> None:
    of_reports, of_changes = 0, 0
    for run in range(runs):
        now = season(f"now {games} {run}", games, least)
        found = find_weaknesses("mine", now, season(f"before {games} {run}", games, least))
        assert found.tested > 2
        of_reports += bool(found.weaknesses)
        of_changes += bool(found.changes)
    assert of_reports <= most
    assert of_changes <= most


def test_the_situation_that_loses_comes_first_and_says_where() -> None:
    loss = by_trait("turns back", "air 9 or more", 0.2)
    found = find_weaknesses("mine", season("planted", 40, loss))
    assert (found.bot, found.games, found.before, found.changes) == ("mine", 40, 0, ())
    worst = found.weaknesses[0]
    assert worst.situation in ("turns back", "turns back, air 9 or more")
    assert worst.lost == pytest.approx(0.2, abs=0.05)
    assert worst.lost - worst.error > 0
    assert worst.chance < 1e-4
    assert "air 9 or more" in (*worst.mostly, worst.situation.partition(", ")[2])
    lost = [one.lost for one in worst.clearest]
    assert lost == sorted(lost, reverse=True)
    assert all(
        one.act == "turns back" and ("air 9 or more",) in one.traits for one in worst.clearest
    )
    assert {row.situation.partition(",")[0] for row in found.weaknesses} == {"turns back"}


def test_many_small_steps_of_a_dive_are_a_plan() -> None:
    step = next(one for game in season("plan", 20, least) for one in game)
    games = [
        [replace(step, lost=0.03, error=0.02, decision=n, game_id=f"{number}") for n in range(5)]
        for number in range(10)
    ]
    games = [[replace(one, record=one.game_id) for one in game] for game in games]
    (row,) = find_weaknesses("mine", games + [[]] * 10).weaknesses
    assert row.plans == 0.5
    assert row.plan is not None
    assert (row.plan.decision, row.plan.lost) == (0, 0.15)
    assert row.clearest[0].lost == 0.03


def test_a_version_is_better_here_and_worse_there() -> None:
    before = season("old", 40, by_trait("turns back", "air 9 or more", 0.2))
    now = season("new", 40, by_trait("takes a piece", "load 2", 0.3))
    found = find_weaknesses("mine", now, before)
    changes = {row.situation.partition(",")[0]: row for row in found.changes}
    assert changes.keys() == {"turns back", "takes a piece"}
    assert changes["turns back"].more < 0 < changes["takes a piece"].more
    for row in changes.values():
        assert row.more == pytest.approx(row.now - row.before, abs=1e-3)
        assert abs(row.more) > row.error


def test_few_games_prove_nothing() -> None:
    games = season("few", 40, lambda one: 1.0)
    assert find_weaknesses("mine", games[: FEWEST - 1]).weaknesses == ()
    assert find_weaknesses("mine", []).tested == 0
    assert find_weaknesses("mine", games, games[: FEWEST - 1]).changes == ()
    assert find_weaknesses("mine", games).weaknesses
