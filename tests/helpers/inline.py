"""A pool of one worker in the caller's own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deepsea_arena.run_report import RunReport, RunWatcher, Stop
from deepsea_arena.runner import Runner, RunnerSettings
from deepsea_arena.tasks import JobOutcome, VoidOutcome
from deepsea_arena.workers import JobWorkers
from deepsea_ladder.model import Job, Receipt
from deepsea_ladder.store import Store
from deepsea_rules.printable import one_line


class InlineWorker(JobWorkers):
    """One worker that plays in `wait`."""

    def __init__(self, play: Callable[[Job], JobOutcome]) -> None:
        self._play = play
        self._job: Job | None = None
        self._rotation: int | None = None

    def free(self) -> Sequence[int | None]:
        """One, unless a job waits to be played."""
        return [] if self._job else [self._rotation]

    def has_not_begun(self, job: Job) -> bool:
        """It never does."""
        return False

    def start(self, job: Job) -> bool:
        """Remember the job."""
        self._job, self._rotation = job, job.rotation
        return True

    def wait(self, seconds: float, stop: Stop) -> Sequence[tuple[Job, JobOutcome]]:
        """Play the job; `seconds` is no limit to it."""
        job, self._job = self._job, None
        if job is None:
            stop.pause(seconds)
            return []
        try:
            return [(job, self._play(job))]
        except Exception as error:  # noqa: BLE001  (as in a worker process)
            return [(job, VoidOutcome(one_line(f"{type(error).__name__}: {error}")))]

    def abandon(self, job: Job) -> None:
        if self._job == job:
            self._job = None

    def close(self) -> None:
        self._job = None


class Watcher(RunWatcher):
    """Notes what a runner tells, and answers to trouble."""

    def __init__(self, on_trouble: Callable[[], None] = lambda: None) -> None:
        self.receipts: list[Receipt] = []
        self.failures: list[tuple[str, str]] = []
        self.troubles: list[str] = []
        self._on_trouble = on_trouble

    def finished(self, job: Job, receipt: Receipt) -> None:
        self.receipts.append(receipt)

    def failed(self, job: Job, reason: str) -> None:
        self.failures.append((job.game_id, reason))

    def trouble(self, message: str) -> None:
        self.troubles.append(message)
        self._on_trouble()


def run_with(workers: JobWorkers, store: Store, stop: Stop, **words: Any) -> RunReport:
    """Run season s1 in this thread, by a clock that stands still unless another one is given."""
    given = {
        "owner": "runner",
        "clock": lambda: 0.0,
        "settings": RunnerSettings(idle=0),
        "watcher": Watcher(),
        **words,
    }
    return Runner(store, store.seasons.get("s1"), workers, stop=stop, **given).run()
