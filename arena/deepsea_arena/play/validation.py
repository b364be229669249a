"""Validation: the runner's side of submissions from afar, beside its games.

Invariants: one submission at a time, in a worker process of its own, with the isolation of each
season; whatever dies at any moment, a submission ends in exactly one version or none; a submission
that brings down its check three times has failed; trouble of this machine counts against nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from deepsea_arena.play.admission import check_packages, games_of, seasons_to_fit
from deepsea_arena.play.background_work import LeasedWork, Times
from deepsea_arena.play.check_worker import (
    AdmissionPlayed,
    PlayAdmission,
    ReadArchive,
    check_worker,
)
from deepsea_arena.play.shutdown import StopRequest
from deepsea_arena.play.tasks import game_seconds
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.model.bots import SubmissionLease, SubmissionRefusal
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.season import Season
from deepsea_ladder.store.submissions import Submissions
from deepsea_referee.bots.resolve import READER_LIMITS
from deepsea_referee.workers import LocalWorkers, Workers
from deepsea_rules.printable import one_line

_SLACK_S = 60.0
"""For starting the worker process, and for sending it an archive."""
_TO_DO = "correct it, and submit the bot again; `deepsea-referee check` looks at the same"


def local_checker() -> Workers:
    """The worker process in which submissions are checked."""
    return LocalWorkers(check_worker, 1)


class Validator(LeasedWork[SubmissionLease]):
    """Checks what is submitted to a ladder.

    workers  a pool with one worker that `check_worker` has set up; it is closed in the end
    """

    times = Times(idle=1.0)
    cannot = "submissions cannot be checked"
    lease_label = "a submission's lease"
    gives_back_at = StopRequest.HAND_BACK

    _began = 0.0
    """When the present check began."""

    def _queue(self) -> Submissions:
        return self._store.submissions

    def _claim(self) -> SubmissionLease | None:
        if not self._retry(self._store.submissions.waiting):
            return None
        return self._lease_by(lambda: self._queue().claim(self._owner, self._times.lease))

    def _do(self, lease: SubmissionLease) -> None:
        self._began = self._now()
        bundle = None
        try:
            seasons = self._retry(lambda: seasons_to_fit(self._store))
            self._retry(lambda: self._store.submissions.check_before(lease))
            read = self._read(lease)
            refusal: SubmissionRefusal | None
            if isinstance(read, str):
                refusal = SubmissionRefusal(read, _TO_DO)
            else:
                bundle = read
                refusal = self._judge(lease, bundle, seasons)
        except (SubmissionError, BundleError) as error:
            refusal = SubmissionRefusal(str(error))
        if refusal is not None:
            self._refuse(lease, refusal, bundle)
        self._report(lease)

    def _judge(
        self, lease: SubmissionLease, bundle: BotBundle, seasons: Sequence[Season]
    ) -> SubmissionRefusal | None:
        """Accept a bot, or say why not."""
        limits, submissions = self._store.settings.limits, self._store.submissions
        if self._retry(
            lambda: submissions.accept_known(
                lease, bundle.name, bundle.digest, limits(), self._took_ms()
            )
        ):
            return None
        check_packages(bundle, seasons)
        refusal = self._play(lease, bundle, seasons)
        if refusal is None:
            # The store may be unavailable after the commit: a repetition finds the lease gone.
            self._retry(lambda: submissions.accept(lease, bundle, limits(), self._took_ms()))
        return refusal

    def _read(self, lease: SubmissionLease) -> BotBundle | str:
        content = self._retry(lambda: self._store.submissions.archive(lease))
        seconds = READER_LIMITS.seconds + _SLACK_S
        read = self._task(lease, ReadArchive(content, lease.bot), seconds, 0)
        return cast(BotBundle | str, read)  # what `check_worker` answers

    def _play(
        self, lease: SubmissionLease, bundle: BotBundle, seasons: Sequence[Season]
    ) -> SubmissionRefusal | None:
        task = PlayAdmission(bundle, tuple(seasons))
        played = self._task(lease, task, _longest(seasons), games_of(seasons))
        return cast(AdmissionPlayed, played).refusal  # what `check_worker` answers

    def _task(
        self, lease: SubmissionLease, argument: object, seconds: float, of_games: int
    ) -> object:
        """The worker's answer; the store learns of each game that was played."""
        games = 0

        def progress() -> bool:
            return self._store.submissions.progress(lease, self._times.lease, games, of_games)

        def on_message(message: object) -> bool:
            nonlocal games
            if isinstance(message, int):
                games = message
            return True

        self._hold(progress)
        return self._answer(argument, progress, seconds=seconds, on_message=on_message)

    def _named(self, lease: SubmissionLease) -> str:
        return f"submission {lease.id}"

    def _refuse(
        self, lease: SubmissionLease, refusal: SubmissionRefusal, bundle: BotBundle | None
    ) -> None:
        facts = {} if bundle is None else {"bot": bundle.name, "digest": bundle.digest}
        refuse = self._store.submissions.refuse
        self._retry(lambda: refuse(lease, refusal, self._took_ms(), **facts))

    def _fail(self, lease: SubmissionLease, reason: str) -> None:
        fail = self._store.submissions.fail
        state = self._retry(lambda: fail(lease, reason, self._took_ms()))
        if state is TaskState.QUEUED:
            self._watcher.trouble(
                f"{self._named(lease)} of {lease.author} has no verdict and waits again: "
                f"{one_line(reason)}"
            )
        elif state is not None:
            self._report(lease)

    def _report(self, lease: SubmissionLease) -> None:
        done = self._retry(lambda: self._store.submissions.get(lease.id))
        note = done.found if done.version is None else f"version {done.version}"
        self._watcher.checked(done.bot, done.author, done.state, note)

    def _took_ms(self) -> int:
        """How long the present check has taken until now.

        Not its CPU time: a bot in the sandbox has processes whose CPU time is lost with them. And
        what others wait for is the time.
        """
        return round(1000 * (self._now() - self._began))


def _longest(seasons: Sequence[Season]) -> float:
    """The timeout of all admission games, in seconds."""
    games = (
        game_seconds(season, max(season.seats)) + 2 * game_seconds(season, min(season.seats))
        for season in seasons
    )
    return _SLACK_S + sum(games)
