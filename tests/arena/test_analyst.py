"""The analyst: every analysis ends in one result or a reason, whoever dies; others come first."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import update

from deepsea_arena.analysis import Analysis, AnalysisSettings
from deepsea_arena.analysis_document import document
from deepsea_arena.background_work import in_background
from deepsea_arena.handlers import ANALYSES
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.lease_owner import take_back
from deepsea_arena.run_report import Stop, StopRequest
from deepsea_arena.task_workers import Analysed, AnalyseGame, analyse
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.model import AnalysisLease, LadderAnalysis, TaskState
from deepsea_ladder.store import Store, schema
from deepsea_referee.workers import Task, TaskMessage, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.game import GameRecord
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from helpers import background
from helpers.background import OneWorker, Watcher, gone_owner
from helpers.submissions import LIMITS, add, an_author

QUEUED, DONE, FAILED = TaskState.QUEUED, TaskState.DONE, TaskState.FAILED
SECOND_US = 1_000_000
QUICK = AnalysisSettings(effort=Effort.of(2), luck=2)


class InlineAnalyst(OneWorker):
    """A worker that finds the same in every game."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[AnalyseGame] = []
        self.on_step: Callable[[], object] = lambda: None
        self.do: Callable[[Task], Iterator[WorkerEvent]] = self._do
        self.document = '{"found":1}'

    def steps(self, task: Task) -> Iterator[WorkerEvent]:
        assert isinstance(task.argument, AnalyseGame)
        self.tasks.append(task.argument)
        return self.do(task)

    def _do(self, task: Task) -> Iterator[WorkerEvent]:
        for _ in range(3):
            self.on_step()
            yield TaskMessage(task, 1)
        yield TaskResult(task, Analysed(COACH_VERSION, self.document))


class Site(background.Site[InlineAnalyst]):
    """A runner's side of a ladder."""

    def found(self, number: int = 1) -> LadderAnalysis:
        """An analysis as it stands."""
        return self.store.analyses.get(number)


@pytest.fixture
def site(played: Store, stop: Stop) -> Site:
    """A ladder with eight games."""
    return Site(ANALYSES, played, stop, InlineAnalyst())


def ask(store: Store, game: int = 1, settings: AnalysisSettings = QUICK) -> int:
    """Ask for the analysis of a game."""
    return store.analyses.request(f"s1-{game}", None, plan(settings), LIMITS).id


def test_what_waits_is_done_one_after_another(site: Site) -> None:
    for game in (1, 2):
        ask(site.store, game)
    site.run_out()
    assert site.watcher.seen == [f"s1-1: done, {COACH_VERSION}", f"s1-2: done, {COACH_VERSION}"]
    assert site.worker.tasks[0] == AnalyseGame(site.store.games.record("s1-1"), QUICK)
    assert site.store.analyses.document("s1-2") == '{"found":1}'
    assert site.store.tasks.owners() == []


def test_the_result_is_what_analyse_finds_in_the_same_record(played: Store, stop: Stop) -> None:
    """In a worker of its own."""
    watcher = Watcher()
    ask(played)
    with in_background(ANALYSES, played, watcher, stop, to_end=True):
        pass
    assert watcher.troubles == []
    assert watcher.seen == [f"s1-1: done, {COACH_VERSION}"]
    found = played.analyses.document("s1-1")
    assert found is not None
    assert "\n" not in found
    record = GameRecord.from_json(played.games.record("s1-1"))
    assert json.loads(found) == document(Analysis([("s1-1.json", record)], QUICK).run(), QUICK)


def test_none_begins_while_a_submission_waits(site: Site) -> None:
    ask(site.store)
    add(site.store, an_author(site.store, "Ada"), "a bot")
    site.run_out()
    assert site.worker.tasks == []
    assert site.found().state is QUEUED
    assert site.store.submissions.claim("runner", 60) is not None
    site.run_out()
    assert site.found().state is DONE


def test_a_lease_is_renewed_while_its_worker_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[float] = []
    renew = site.store.analyses.renew

    def noted(lease: AnalysisLease, seconds: float) -> bool:
        renewed.append(seconds)
        return renew(lease, seconds)

    monkeypatch.setattr(site.store.analyses, "renew", noted)
    site.worker.on_step = lambda: site.clock.jump(25 * SECOND_US)
    ask(site.store)
    site.run_out()
    assert site.found().state is DONE
    assert renewed == [60.0, 60.0, 60.0]


def test_a_worker_that_is_quiet_for_too_long_is_killed(site: Site) -> None:
    def silent(task: Task) -> Iterator[WorkerEvent]:
        site.clock.jump(901 * SECOND_US)
        yield from ()

    site.worker.do = silent
    ask(site.store)
    site.run_out()
    assert site.worker.killed == 3
    assert (site.found().state, site.found().reason) == (FAILED, "no step within 900 seconds")


def test_a_record_that_brings_its_worker_down_does_not_end_the_run(site: Site) -> None:
    def deadly(task: Task) -> Iterator[WorkerEvent]:
        assert isinstance(task.argument, AnalyseGame)
        if task.argument.record == site.store.games.record("s1-1"):
            yield WorkerDeath(task, "signal 9")
        else:
            yield from InlineAnalyst()._do(task)

    site.worker.do = deadly
    for game in (1, 2):
        ask(site.store, game)
    site.run_out()
    assert (site.found(1).state, site.found(1).reason) == (FAILED, "the worker ended (signal 9)")
    assert site.found(2).state is DONE
    assert len(site.worker.tasks) == 4
    assert "waits again: the worker ended (signal 9)" in site.watcher.troubles[0]


def test_a_record_or_settings_without_sense_fail_at_once(site: Site, played: Store) -> None:
    site.worker.do = lambda task: iter(
        [TaskResult(task, analyse(AnalyseGame("no record", QUICK), print))]
    )
    ask(played, 1)
    ask(played, 2)
    senseless = update(schema.analyses).where(schema.analyses.c.id == 2).values(settings="{}")
    with played.database.write() as connection:
        connection.execute(senseless)
    site.run_out()
    assert [site.found(number).state for number in (1, 2)] == [FAILED, FAILED]
    assert "JSON" in site.found(1).reason
    assert "the settings of an analysis cannot be read" in site.found(2).reason
    assert len(site.worker.tasks) == 1


def test_a_result_that_is_too_large_fails(site: Site) -> None:
    ask(site.store)
    site.worker.document = " " * 1025
    site.store.settings.change("analysis_bytes", 1024, MACHINE)  # beside the runner
    site.run_out()
    assert site.found().reason == "what was found has 1025 bytes; 1024 are the most"


@pytest.mark.parametrize("requested", [StopRequest.FINISH, StopRequest.HAND_BACK])
def test_a_request_to_stop_gives_it_back_at_once(site: Site, requested: StopRequest) -> None:
    site.worker.on_step = lambda: site.stop.ask(requested)
    ask(site.store)
    site.work.run()
    assert site.worker.killed == 1
    site.work.close()
    assert site.worker.closed
    assert site.found().state is QUEUED
    assert site.store.analyses.claim("another", 60) is not None


def test_leases_of_runners_that_are_gone_are_taken_back(site: Site) -> None:
    gone = gone_owner()
    ask(site.store)
    assert site.store.analyses.claim(gone, 60) is not None
    assert take_back(site.store) == 1
    assert (site.found().state, site.found().reason) == (QUEUED, f"the runner {gone} was lost")


def test_a_run_without_end_gives_back_what_it_does(played: Store, stop: Stop) -> None:
    worker, watcher = InlineAnalyst(), Watcher()
    ask(played)
    with in_background(ANALYSES, played, watcher, stop, workers=worker):
        pass
    assert played.tasks.owners() == []
    assert worker.closed


def test_sigterm_is_heard_where_the_body_does_not_look_for_it(played: Store, stop: Stop) -> None:
    ask(played)
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            in_background(ANALYSES, played, Watcher(), stop, workers=InlineAnalyst(), to_end=True),
        ):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, former)
    assert played.tasks.owners() == []
