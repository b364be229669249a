"""The search for better numbers: its statistics, and what it reads from a bot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from deepsea_bundle.errors import BundleError
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.tuning import Budget, Range, Spsa, Values, subject
from deepsea_rules.randomness import seed_from_text
from helpers.games import rng

SAFE = Range("safe", 0.5, 1.5, 1.4, whole=False)
DEPTH = Range("depth", 1, 6, 6, whole=True)
SWITCH = Range("switch", 0, 1, 0, whole=True)
BOT = """
from deepsea_sdk import Bot, run

class Base(Bot):
    safe = 0.9
    depth = 3
    half = 2.5
    bold = True
    style = "deep"

class Mine(Base):
    pass

class Wild(Base):
    safe = 1.4

run(Mine)
"""


def searched(ranges: Sequence[Range], best: Values, seed: int, steps: int = 200) -> Values:
    """Search for the top of a quadratic, which is 0.5 above its value a range away.

    The noise of a step is a fifth of that.
    """
    search, noise = Spsa(ranges, seed_from_text(str(seed))), rng(f"noise {seed}")

    def strength(values: Values) -> float:
        return -0.5 * sum(
            ((values[one.name] - best[one.name]) / (one.high - one.low)) ** 2 for one in ranges
        )

    for step in range(1, steps + 1):
        one, other = search.pair()
        search.add(strength(one) - strength(other) + noise.gauss(0, 0.1), step / steps)
    return search.values


@pytest.mark.parametrize("seed", range(10))
def test_it_finds_the_top_through_noise(seed: int) -> None:
    best: Values = {"safe": 0.8, "depth": 2, "switch": 1}
    found = searched([SAFE, DEPTH, SWITCH], best, seed)
    assert found["safe"] == pytest.approx(0.8, abs=0.15)
    assert abs(found["depth"] - 2) <= 1
    assert found["switch"] == 1


@pytest.mark.parametrize("end", [0.5, 1.5])
def test_a_top_at_an_end_is_found(end: float) -> None:
    assert searched([SAFE], {"safe": end}, 1)["safe"] == pytest.approx(end, abs=0.1)


def test_where_nothing_matters_it_stays_near_the_start() -> None:
    search = Spsa([SAFE._replace(start=1.0)], seed_from_text("flat"))
    for step in range(50):
        search.add(0.0, step / 50)
    assert search.values == {"safe": 1.0}


@pytest.mark.parametrize("one", [SAFE, DEPTH, SWITCH], ids=lambda one: one.name)
@pytest.mark.parametrize("start", ["low", "high"])
def test_settings_of_a_step_differ_and_are_within_the_range(one: Range, start: str) -> None:
    search = Spsa([one._replace(start=getattr(one, start))], seed_from_text(start))
    chance = rng("leads")
    for step in range(300):
        high, low = sorted((values[one.name] for values in search.pair()), reverse=True)
        assert one.low <= low < high <= one.high
        assert not one.whole or (isinstance(low, int) and isinstance(high, int))
        search.add(chance.uniform(-1, 1), step / 200)


@pytest.mark.parametrize(
    ("low", "high", "share", "value"),
    [(0.0, 1.0, 0.12345, 0.123), (0.0, 30.0, 0.12345, 3.7), (0.0, 0.01, 0.12345, 0.00123)],
)
def test_a_result_has_the_digits_that_count(
    low: float, high: float, share: float, value: float
) -> None:
    assert Range("x", low, high, low, whole=False).at(share) == value


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(BOT, encoding="utf-8")
    return path


def test_a_search_starts_from_what_the_class_has(bot: Path) -> None:
    found = subject("mine.py:Wild,depth=1..4,bold=false,safe=0.5..1.5")
    assert found.ranges == (
        Range("depth", 1, 4, 3, whole=True),
        Range("safe", 0.5, 1.5, 1.4, whole=False),
    )
    best = found.with_values({"safe": 0.75, "depth": 2})
    assert best.name == "mine:Wild,bold=false,depth=2,safe=0.75"
    assert (found.text, found.class_name, found.start) == (
        ("mine.py", "Wild", {"depth": 3, "safe": 1.4})
    )
    assert subject("mine.py,depth=1.0..4.0").ranges == (Range("depth", 1, 4, 3, whole=False),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mine.py", "no range"),
        ("mine.py,safe=0.8", "no range"),
        ("mine.py,deep=1..4", "no attribute deep"),
        ("mine.py:Fast,safe=1..4", "no class Fast"),
        ("mine.py,safe=1.5..0.5", "empty range"),
        ("mine.py,safe=1..1", "empty range"),
        ("mine.py,safe=1..", "two numbers"),
        ("mine.py,safe=a..b", "two numbers"),
        ("mine.py,safe=0..inf", "two numbers"),
        ("mine.py,safe=1..2..3", "two numbers"),
        ("mine.py,safe=1.0..1.5", "safe is 0.9 in class Mine, outside of 1..1.5"),
        ("mine.py,half=1..4", "write 1.0..4.0"),
        ("mine.py,bold=0..1", "no number"),
        ("mine.py,style=0..1", "no number"),
        ("nobody.py,safe=0..1", "there is no bot"),
        ("cmd:./mine,safe=0..1", "are for Python bots"),
    ],
)
def test_what_cannot_be_searched_is_refused(bot: Path, text: str, problem: str) -> None:
    with pytest.raises((UserError, BundleError), match=problem) as refused:
        subject(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "half", "in_games"),
    [("90s", 45_000_000, False), ("20m", 600_000_000, False), ("500", 250, True), ("1", 1, True)],
)
def test_a_budget_is_a_time_or_a_number_of_games(text: str, half: int, in_games: bool) -> None:
    assert Budget.parse(text) == Budget(text, half, in_games)


@pytest.mark.parametrize("text", ["", "0", "0m", "20 m", "-5", "1.5h", "m"])
def test_no_budget(text: str) -> None:
    with pytest.raises(UserError, match="no budget"):
        Budget.parse(text)
