"""Every kind of task that a runner does: asked for, done by a worker in this process, checked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import structs
from sqlalchemy import func, select

from deepsea_arena.admission import AdmissionPlayed, ReadArchive
from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.background_work import Handler, TaskLoop
from deepsea_arena.handlers import ANALYSES, CHECKS, COMPARISONS, STEPS
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.lease_owner import own_run_name, take_back
from deepsea_arena.run_report import RunWatcher, Stop, retry_until_available
from deepsea_arena.runner import Runner, RunnerSettings
from deepsea_arena.task_workers import Analysed, BlockPlayed
from deepsea_arena.tasks import FinishedGame
from deepsea_arena.workers import JobWorkers
from deepsea_bundle.archive import LIMITS as BUNDLE_LIMITS
from deepsea_bundle.archive import collect_zip
from deepsea_bundle.reader import bundle_of
from deepsea_ladder.model import ComparisonStanding, Presence, TaskState
from deepsea_ladder.season import VerdictSettings
from deepsea_ladder.store import Store, schema
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.workers import Task, TaskMessage, TaskResult, WorkerDeath, WorkerEvent
from deepsea_rules.game import GameRecord, verify
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION

from . import ladder, people, submissions

_T = TypeVar("_T")
BLOCKS = 3
SEASON = "s1"


def contents(store: Store) -> None:
    """Give a store four bots, and a season with a game that was played."""
    for name in ladder.NAMES[:4]:
        ladder.submit(store, name)
    verdicts = VerdictSettings(panel=())
    season = store.seasons.open(structs.replace(ladder.a_season(), verdicts=verdicts), ladder.SEED)
    ladder.play_all(store, season, games=1)


class InlineWorker:
    """A worker without a process, whose tasks go on by one event at each wait."""

    def __init__(
        self, steps: Callable[[Task], Iterator[WorkerEvent]], *, dies_at: int | None = None
    ) -> None:
        """`dies_at`: the event, counted from 0, in place of which the worker dies, once."""
        self.events = 0
        self._steps = steps
        self._dies_at = dies_at
        self._task: Task | None = None
        self._coming: Iterator[WorkerEvent] = iter(())

    def free(self) -> Sequence[Hashable]:
        return [0] if self._task is None else []

    def start(self, argument: object, worker: Hashable, needs: Sequence[str] = ()) -> Task:
        self._task = Task(argument, tuple(needs))
        self._coming = self._steps(self._task)
        return self._task

    def wait(self, seconds: float | None, *wakers: WakePipe) -> Sequence[WorkerEvent]:
        if self._task is None:
            return []
        event = next(self._coming)
        if self.events == self._dies_at:
            event = WorkerDeath(self._task, "signal 9")
        self.events += 1
        if not isinstance(event, TaskMessage):
            self._task = None
        return [event]

    def stop(self) -> None:
        """Nothing asks for it."""

    def kill(self, task: Task) -> None:
        self._task = None

    def close(self) -> None:
        self._task = None


class HastyStop(Stop):
    """A stop for runners that try again at once."""

    def pause(self, seconds: float) -> None:
        """Wait for nothing."""


class Silent(RunWatcher):
    """A listener that keeps what was said of trouble."""

    def __init__(self) -> None:
        self.troubles: list[str] = []

    def trouble(self, message: str) -> None:
        self.troubles.append(message)


@dataclass(frozen=True)
class Kind:
    """A kind of task.

    ask    asks for the task of a number, counted from 0
    steps  the events of a task at its worker
    work   has a runner do all that waits, and end
    check  checks that the task of a number was done once, and that nobody has a lease
    whole  checks what takes long, after all tasks
    """

    ask: Callable[[Store, int], object]
    steps: Callable[[Task], Iterator[WorkerEvent]]
    work: Callable[[Store, InlineWorker, RunWatcher], object]
    check: Callable[[Store, int], object]
    whole: Callable[[Store], object] = lambda store: None


def do_what_waits(store: Store, name: str, worker: InlineWorker | None = None) -> Silent:
    """Have a runner of this process do the tasks of a kind that wait."""
    kind, watcher = TASKS[name], Silent()
    kind.work(store, worker or InlineWorker(kind.steps), watcher)
    return watcher


def _beside(handler: Handler[Any]) -> Callable[[Store, InlineWorker, RunWatcher], None]:
    def do(store: Store, worker: InlineWorker, watcher: RunWatcher) -> None:
        with (
            closing(HastyStop()) as stop,
            closing(TaskLoop(handler, store, worker, stop=stop, watcher=watcher)) as loop,
        ):
            loop.retry(lambda: take_back(store))
            loop.drain()

    return do


# Games


def _play_games(store: Store, worker: InlineWorker, watcher: RunWatcher) -> None:
    with closing(HastyStop()) as stop:

        def retried(call: Callable[[], _T]) -> _T:
            return retry_until_available(call, stop, watcher.trouble)

        season = retried(lambda: store.seasons.get(SEASON))
        retried(lambda: take_back(store))
        Runner(
            store,
            season,
            JobWorkers(worker),
            owner=own_run_name(),
            clock=lambda: 0.0,
            stop=stop,
            watcher=watcher,
            settings=RunnerSettings(idle=0),
        ).run()


def _ask_game(store: Store, number: int) -> None:
    versions = ladder.ids(store)[:4]
    store.jobs.add(store.seasons.get(SEASON), ladder.rotations(versions, 1))


def _game(task: Task) -> Iterator[WorkerEvent]:
    yield TaskResult(task, FinishedGame(ladder.play(task.argument)))  # type: ignore[arg-type]


def _check_game(store: Store, number: int) -> None:
    season, games = store.seasons.get(SEASON), number + 2
    counts = store.queue.counts(season)
    assert (counts.done, counts.waiting, counts.leased, counts.quarantined) == (games, 0, 0, 0)
    played = sorted(int(game.line.game_id.split("-")[1]) for game in store.history.games(season))
    assert played == [*range(1, games + 1)]
    assert store.tasks.owners() == []


def _check_ratings(store: Store) -> None:
    assert store.ratings.differences(store.seasons.get(SEASON), records=True) == []


# Checks of submissions


def _ask_check(store: Store, number: int) -> None:
    author = submissions.an_author(store, f"author{number}")
    submissions.add(store, author, f"the bot {number}", f"new{number}")


def _check(task: Task) -> Iterator[WorkerEvent]:
    if isinstance(archive := task.argument, ReadArchive):
        files = collect_zip(archive.content, BUNDLE_LIMITS)
        yield TaskResult(task, bundle_of(files, archive.bot or None, "-"))
        return
    for game in (1, 2, 3):
        yield TaskMessage(task, game)
    yield TaskResult(task, AdmissionPlayed(None))


def _check_check(store: Store, number: int) -> None:
    submission = store.submissions.get(number + 1)
    assert (submission.state, submission.version) == (TaskState.ACCEPTED, 1)
    assert len(store.bots.versions(f"new{number}")) == 1
    assert store.tasks.owners() == []


# Analyses


def _ask_analysis(store: Store, number: int) -> None:
    settings = AnalysisSettings(effort=Effort.of(2), luck=number + 1)
    store.analyses.request(f"{SEASON}-1", None, plan(settings), submissions.LIMITS)


def _analysis(task: Task) -> Iterator[WorkerEvent]:
    yield TaskMessage(task, 1)
    yield TaskMessage(task, 1)
    yield TaskResult(task, Analysed(COACH_VERSION, '{"found":1}'))


def _check_analysis(store: Store, number: int) -> None:
    analysis = store.analyses.get(number + 1)
    assert (analysis.state, analysis.reason) == (TaskState.DONE, "")
    assert store.analyses.document(f"{SEASON}-1") == '{"found":1}'
    assert store.tasks.owners() == []


# Comparisons


def _ask_comparison(store: Store, number: int) -> None:
    ladder.submit(store, "anna", f"anna, version {number}")


def _comparison(task: Task) -> Iterator[WorkerEvent]:
    """The blocks after those that were kept, and the end."""
    for number in range(len(task.argument.kept), BLOCKS):  # type: ignore[attr-defined]
        standing = ComparisonStanding(blocks=number + 1)
        if number == BLOCKS - 1:
            standing = structs.replace(standing, verdict="worse")
        yield TaskMessage(task, BlockPlayed(number, b"{}", 1000, standing))
    yield TaskResult(task, None)


def _check_comparison(store: Store, number: int) -> None:
    comparisons = store.comparisons.of_season(store.seasons.get(SEASON))
    assert [one.version.number for one in comparisons] == [*range(2, number + 3)]
    assert comparisons[-1].state is TaskState.DECIDED
    assert {one.standing.blocks for one in comparisons} == {BLOCKS}
    with store.database.read() as connection:
        query = select(func.count()).select_from(schema.comparison_blocks)
        assert connection.execute(query).scalar_one() == BLOCKS * len(comparisons)
    assert store.tasks.owners() == []


# Steps of games of people


def _ask_step(store: Store, number: int) -> None:
    people.new_game(
        store,
        game_id=f"person-{number}",
        visitor=f"visitor {number}",
        address=f"address {number}",
    )


def _ask_last_step(store: Store, number: int) -> None:
    _ask_step(store, number)
    store.person_games.leave(f"person-{number}")


def _step(task: Task) -> Iterator[WorkerEvent]:
    yield TaskResult(task, people.step(task.argument))  # type: ignore[arg-type]


def _check_step(store: Store, number: int) -> None:
    game = store.person_games.get(f"person-{number}")
    assert (game.state, game.presence) == (TaskState.ASKED, Presence.HERE)
    begun = structs.replace(game, decisions=(), answer=None)
    assert game.decisions == people.step(begun).decisions
    assert store.tasks.owners() == []
    store.person_games.leave(game.game_id, drop=True)  # there are so many tables at most


def _check_last_step(store: Store, number: int) -> None:
    game = store.person_games.get(f"person-{number}")
    assert game.state is TaskState.DONE
    verify(GameRecord.from_json(store.games.record(game.game_id)))
    assert store.tasks.owners() == []


TASKS = {
    "game": Kind(_ask_game, _game, _play_games, _check_game, _check_ratings),
    "check": Kind(_ask_check, _check, _beside(CHECKS), _check_check),
    "analysis": Kind(_ask_analysis, _analysis, _beside(ANALYSES), _check_analysis),
    "comparison": Kind(_ask_comparison, _comparison, _beside(COMPARISONS), _check_comparison),
    "step": Kind(_ask_step, _step, _beside(STEPS), _check_step),
    "last step": Kind(_ask_last_step, _step, _beside(STEPS), _check_last_step),
}
