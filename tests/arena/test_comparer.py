"""Comparisons of new versions: blocks are stored as they come, whoever dies; others come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from deepsea_arena.bots import VerdictLine, show_verdicts
from deepsea_arena.handlers import COMPARISONS
from deepsea_arena.rated_games import hosting
from deepsea_arena.run_report import Stop, StopRequest
from deepsea_arena.task_workers import BlockPlayed, play_on
from deepsea_ladder.model import BotVersion, ComparisonLease, ComparisonStanding, TaskState
from deepsea_ladder.season import SeasonSettings, VerdictSettings
from deepsea_ladder.store import Store
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.workbench.blocks import read_block
from deepsea_referee.workbench.comparison import LUCK_BOUND, Comparison, largest_lead
from deepsea_referee.workbench.confidence import AdjustedSequence
from deepsea_referee.workers import Task, TaskMessage, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.randomness import Stream
from helpers import background, ladder
from helpers.background import OneWorker
from helpers.comparisons import shown, to_compare
from helpers.submissions import add, an_author

CONTENTS = to_compare


class InlineWorker(OneWorker):
    """A worker that plays three blocks, the last with a verdict."""

    def __init__(self) -> None:
        super().__init__()
        self.leases: list[ComparisonLease] = []
        self.do: Callable[[Task], Iterator[WorkerEvent]] = blocks

    def steps(self, task: Task) -> Iterator[WorkerEvent]:
        assert isinstance(task.argument, ComparisonLease)
        self.leases.append(task.argument)
        return self.do(task)


def blocks(task: Task, count: int = 3, verdict: bool = True) -> Iterator[WorkerEvent]:
    """Blocks after those that were kept, and the end."""
    first = len(task.argument.kept)  # type: ignore[attr-defined]
    for number in range(first, first + count):
        last = verdict and number == first + count - 1
        standing = ComparisonStanding(blocks=number + 1, verdict="worse" if last else None)
        yield TaskMessage(task, BlockPlayed(number, b"{}", 1000, standing))
    yield TaskResult(task, None)


class Site(background.Site[InlineWorker]):
    """A runner's side of a ladder."""

    def first(self) -> str:
        """The first comparison of the season."""
        return shown(self.store)[0]


@pytest.fixture
def site(store: Store, stop: Stop) -> Site:
    return Site(COMPARISONS, store, stop, InlineWorker())


def test_what_waits_is_played_to_its_verdict(site: Site) -> None:
    site.run_out()
    assert [line.split(", ", 1)[1] for line in shown(site.store)] == ["decided, 3 blocks"] * 5
    assert site.watcher.seen[0] == "anna v2: decided, worse"
    assert len(site.watcher.seen) == 5
    assert {lease.cpu_ms for lease in site.worker.leases} == {20_000}
    assert site.watcher.troubles == []


def test_others_come_first(site: Site) -> None:
    add(site.store, an_author(site.store, "Ada"), "a bot")
    site.run_out()
    assert site.worker.leases == []
    assert site.store.submissions.claim("runner", 60) is not None
    site.run_out()
    assert site.worker.leases


def test_a_portion_without_a_verdict_goes_on_later(site: Site) -> None:
    portions = iter([(2, False), (1, True)])
    site.worker.do = lambda task: blocks(task, *next(portions, (1, True)))
    site.store.bots.withdraw("dan")
    site.run_out()
    assert "anna v2: anna v1, decided, 3 blocks" in shown(site.store)
    assert sorted(len(lease.kept) for lease in site.worker.leases) == [0, 0, 0, 2]


def test_a_worker_that_dies_costs_the_present_block_alone(site: Site) -> None:
    def dying(task: Task) -> Iterator[WorkerEvent]:
        if len(site.worker.leases) == 1:
            yield from [*blocks(task)][:2]
            yield WorkerDeath(task, "signal 9")
        yield from blocks(task)

    site.worker.do = dying
    site.run_out()
    (trouble,) = site.watcher.troubles
    assert trouble == (
        "the comparison of anna v2 against anna v1 has no result and waits again: "
        "the worker ended (signal 9)"
    )
    assert site.first() == "anna v2: anna v1, decided, 5 blocks"


def test_a_newer_version_ends_it_in_the_middle(site: Site) -> None:
    def replaced(task: Task) -> Iterator[WorkerEvent]:
        first, *others = blocks(task)
        yield first
        if len(site.worker.leases) == 1:
            ladder.submit(site.store, "anna", "anna, a third time")
        yield from others

    site.worker.do = replaced
    site.run_out()
    assert site.first() == "anna v2: anna v1, ended, 1 blocks"
    assert site.watcher.seen[0] == "anna v2: ended, None"
    assert (site.worker.killed, site.watcher.troubles) == (1, [])
    assert "anna v3: anna v2, decided, 3 blocks" in shown(site.store)


def test_at_a_request_to_stop_it_is_given_back(site: Site) -> None:
    def stopped(task: Task) -> Iterator[WorkerEvent]:
        first, *others = blocks(task)
        yield first
        site.stop.ask(StopRequest.FINISH)
        yield from others

    site.worker.do = stopped
    site.run_out()
    site.work.close()
    assert site.first() == "anna v2: anna v1, queued, 2 blocks"
    assert site.store.tasks.owners() == []


def test_a_lease_that_another_runner_has_is_lost(site: Site) -> None:
    def slow(task: Task) -> Iterator[WorkerEvent]:
        if len(site.worker.leases) == 1:
            site.store.tasks.end_leases_of_lost_runner("runner")
        yield from blocks(task)

    site.worker.do = slow
    site.run_out()
    (trouble,) = site.watcher.troubles
    assert trouble == "another runner has taken over the comparison of anna v2 against anna v1"


# The worker

SEASON = SeasonSettings(
    "s1", seats=(2,), isolation="process", verdicts=VerdictSettings(margin=0.01, blocks=8)
)


def lease(kept: tuple[bytes, ...] = (), cpu_ms: int = 10**6) -> ComparisonLease:
    """Greedy against cautious."""
    mine, other = (
        BotVersion(id=number, bot="mine", author="ada", number=number, digest="", created_at=0)
        for number in (2, 1)
    )
    return ComparisonLease(
        id=1,
        owner="runner",
        attempt=1,
        season=SEASON,
        versions=(mine, other),
        seed="luck",
        kept=kept,
        cpu_ms=cpu_ms,
    )


def played(given: ComparisonLease) -> list[BlockPlayed]:
    """What a worker sends."""
    sent: list[BlockPlayed] = []
    pair = resolve("greedy"), resolve("cautious")
    play_on(given, pair, hosting("process"), sent.append, in_process=True)
    return sent


@pytest.fixture(scope="module")
def whole() -> list[BlockPlayed]:
    """All blocks of a comparison."""
    return played(lease())


def test_a_comparison_that_was_cut_anywhere_goes_on_to_the_same_standing(
    whole: list[BlockPlayed],
) -> None:
    assert [block.number for block in whole] == [*range(8)]
    assert whole[-1].standing.blocks == 8
    for cut in (1, 5):
        rest = played(lease(tuple(block.content for block in whole[:cut])))
        assert [block.number for block in rest] == [*range(cut, 8)]
        assert [block.standing for block in rest] == [block.standing for block in whole[cut:]]


def test_a_worker_stops_at_its_budget() -> None:
    assert [block.number for block in played(lease(cpu_ms=0))] == [0]


# The rates of the sequence itself: tests/referee/test_comparison.py and test_confidence.py.
@pytest.mark.release
def test_of_equal_versions_hardly_any_are_called_different(whole: list[BlockPlayed]) -> None:
    """Leads and luck of real blocks, drawn again with either sign: so they are 0 in the mean."""
    sides = [(0, 1), (1, 0)], (0,), (1,)
    real = []
    for block in map(read_block, [block.content for block in whole]):
        comparison = Comparison(*sides)
        comparison.add(block.games)
        assert block.luck is not None
        real.append((comparison.placement.mean, block.luck))
    bound, different = largest_lead(*sides), 0
    for submission in range(40):
        chance = Stream(ladder.SEED, f"submission {submission}")
        sequence = AdjustedSequence(bound, LUCK_BOUND * bound)
        for _ in range(40):
            lead, (most, least) = real[chance.uniform(len(real))]
            if chance.uniform(2):
                lead, most, least = -lead, -least, -most
            sequence.add(lead, (most, least))
        different += sequence.interval.excludes_zero
    assert different <= 2


# What is shown


@pytest.mark.parametrize(
    ("standing", "state", "words"),
    [
        ({}, "queued", "open against version 1: not begun"),
        (
            {"blocks": 212, "lead": 0.08, "low": 0.02, "high": 0.14, "verdict": "better"},
            "decided",
            "better than version 1 (+0.08 placement score, 95 %: +0.02 to +0.14, 212 blocks)",
        ),
        (
            {"blocks": 1700, "lead": 0.01, "low": -0.03, "high": 0.04, "verdict": "level"},
            "decided",
            (
                "level with version 1 within 0.05 (+0.01 placement score, 95 %: -0.03 to +0.04, "
                "1,700 blocks)"
            ),
        ),
        (
            {"blocks": 1, "lead": 0.5},
            "running",
            (
                "open against version 1: it goes on (+0.50 placement score, 95 %: -1.00 to +1.00, "
                "1 block)"
            ),
        ),
        (
            {"blocks": 12, "blocks_to_go": 1349},
            "queued",
            (
                "open against version 1: about 1,300 blocks to go (+0.00 placement score, 95 %: "
                "-1.00 to +1.00, 12 blocks)"
            ),
        ),
    ],
)
def test_the_words_of_a_verdict(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    standing: dict[str, object],
    state: str,
    words: str,
) -> None:
    store.comparisons.claim("runner", 60)
    (found, *_) = store.comparisons.of_season(store.seasons.get("s1"))
    after = ComparisonStanding(**standing)  # type: ignore[arg-type]
    changed = replace(found, standing=after, state=TaskState(state))
    monkeypatch.setattr(store.comparisons, "of_season", lambda *_: [changed])

    def line() -> VerdictLine:
        (line,) = show_verdicts(store, None, "anna", 2).verdicts
        return line

    assert line().words == words
    beats = {"better": "yes", "level": "no"}.get(str(after.verdict), "open")
    assert (line().beats, line().decided_at is None) == (beats, beats == "open")
    store.seasons.close("s1")
    closed = "open against version 1: the season is closed"
    assert line().words.startswith(closed if beats == "open" else words)
