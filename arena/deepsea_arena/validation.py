"""Validation: the runner's side of submissions from afar, beside its games.

Invariants: one submission at a time, in a worker process of its own, with the isolation of each
season; whatever dies at any moment, a submission ends in exactly one version or none; a submission
that brings down its check three times has failed; trouble of this machine counts against nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar, cast

from deepsea_arena.admission import games_of
from deepsea_arena.beside import beside
from deepsea_arena.check_worker import (
    AdmissionPlayed,
    ArchiveRead,
    GamePlayed,
    PlayAdmission,
    ReadArchive,
    check_worker,
)
from deepsea_arena.game_limit import game_seconds
from deepsea_arena.lease_owner import is_gone, own_name
from deepsea_arena.outcomes import outcome_of
from deepsea_arena.retry import insist
from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_arena.submit import check_packages, seasons_to_fit
from deepsea_arena.worker_protocol import HostTrouble
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.errors import LadderError, StoreUnavailable, SubmissionError
from deepsea_ladder.model import SubmissionLease, SubmissionRefusal, SubmissionState
from deepsea_ladder.remote_limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from deepsea_referee.bots import apart
from deepsea_referee.interrupts import pause
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_referee.workers import Died, Done, Failed, LocalWorkers, Sent, Workers
from deepsea_rules.printable import one_line

_T = TypeVar("_T")
_LEASE_S: Final = 60.0
"""The duration of a lease; it is renewed three times as often."""
_IDLE_S: Final = 1.0
"""The wait when nothing waits to be checked."""
_HOST_PAUSE_S: Final = 5.0
"""The first wait when this machine cannot check; each further one is twice as long."""
_SLACK_S: Final = 60.0
"""For starting the worker process, and for sending it an archive."""
_TO_DO: Final = "correct it, and submit the bot again; `deepsea-referee check` looks at the same"
_LONGEST_PAUSE_S: Final = 60.0


class ValidationListener(Protocol):
    """Callbacks of validation; they may come in another thread."""

    def checked(self, bot: str, author: str, state: SubmissionState, note: str) -> None:
        """A submission has its verdict; `note` is the version, or what was found."""

    def trouble(self, message: str) -> None:
        """The store or this machine cannot check now."""


class _HandedBack(Exception):
    """The leases are to be given back."""


class _LeaseLost(Exception):
    """Another runner has the submission."""


class _NoVerdict(Exception):
    """The check ended without one."""


class _HostCannot(Exception):
    """This machine cannot check now."""


def local_checker() -> Workers:
    """The worker process in which submissions are checked."""
    return LocalWorkers(check_worker, 1)


class Validator:
    """Checks what is submitted to a ladder.

    workers  a pool with one worker that `check_worker` has set up; it is closed in the end
    stop     its own: nobody else may wait for it
    """

    def __init__(
        self,
        store: Store,
        workers: Workers,
        *,
        owner: str,
        clock: Clock,
        stop: Stop,
        listener: ValidationListener,
        limits: RemoteLimits = USUAL_LIMITS,
    ) -> None:
        self._store = store
        self._workers = workers
        self._owner = owner
        self._clock = clock
        self._stop = stop
        self._listener = listener
        self._limits = limits
        self._began = 0.0
        """When the present check began."""
        self._troubles = 0  # in a row, of this machine

    def take_back(self) -> None:
        """End the leases of runners of this machine that were killed; others expire."""
        for owner in filter(is_gone, self._store.submissions.owners()):
            self._store.submissions.lose(owner)

    def run(self) -> None:
        """Check what waits, and wait for more, until there is a request to stop."""
        while self._stop.wish is StopRequest.GO_ON:
            try:
                if not self._next():
                    pause(_IDLE_S, self._stop)
            except _HostCannot as trouble:
                seconds = _HOST_PAUSE_S * 2**self._troubles
                self._troubles += 1
                self._listener.trouble(f"submissions cannot be checked now: {trouble}")
                pause(min(seconds, _LONGEST_PAUSE_S), self._stop)

    def drain(self) -> None:
        """Check what waits, until nothing does, this machine cannot, or there is a request."""
        try:
            while self._stop.wish is StopRequest.GO_ON and self._next():
                pass
        except _HostCannot as trouble:
            self._listener.trouble(f"submissions cannot be checked now: {trouble}")

    def close(self) -> None:
        """End the worker, and give the lease back."""
        self._workers.close()
        try:
            self._store.submissions.hand_back(self._owner)
        except StoreUnavailable as error:
            self._listener.trouble(
                f"{error}; a submission's lease was not given back, and runs out"
            )

    def _next(self) -> bool:
        """Check the next submission; False if none waits."""
        if not self._insist(self._store.submissions.waiting):
            return False
        lease = self._insist(lambda: self._store.submissions.claim(self._owner, _LEASE_S))
        if lease is None:
            return False
        self._began = self._now()
        try:
            self._check(lease)
        except _HandedBack:
            return False  # `close` gives the lease back
        except _HostCannot:
            self._insist(lambda: self._store.submissions.hand_back(self._owner))
            raise
        except _LeaseLost:
            self._listener.trouble(f"another runner has taken over submission {lease.id}")
        except _NoVerdict as end:
            self._fail(lease, str(end))
        except (SubmissionError, BundleError) as error:
            self._refuse(lease, SubmissionRefusal(str(error)))
        except LadderError:
            raise
        except Exception as error:  # noqa: BLE001  (one submission must not end the others' checks)
            self._fail(lease, f"{type(error).__name__}: {error}")
        self._troubles = 0
        return True

    def _check(self, lease: SubmissionLease) -> None:
        submissions = self._store.submissions
        seasons = self._insist(lambda: seasons_to_fit(self._store))
        self._insist(lambda: submissions.check_before(lease))
        read = self._read(lease)
        if (bundle := read.bundle) is None:
            self._refuse(lease, SubmissionRefusal(read.found, _TO_DO))
            return
        try:
            if self._insist(
                lambda: submissions.accept_known(
                    lease, bundle.name, bundle.digest, self._limits, self._took_ms()
                )
            ):
                self._report(lease)
                return
            check_packages(bundle, seasons)
            refusal = self._play(lease, bundle, seasons)
            if refusal is None:
                # The store may be unavailable after the commit: a repetition finds the lease gone.
                self._insist(
                    lambda: submissions.accept(lease, bundle, self._limits, self._took_ms())
                )
                self._report(lease)
                return
        except (SubmissionError, BundleError) as error:
            refusal = SubmissionRefusal(str(error))
        self._refuse(lease, refusal, bundle)

    def _read(self, lease: SubmissionLease) -> ArchiveRead:
        content = self._insist(lambda: self._store.submissions.archive(lease))
        seconds = apart.LIMITS.seconds + _SLACK_S
        read = self._task(lease, ReadArchive(content, lease.bot), seconds, 0)
        return cast(ArchiveRead, read)  # what `check_worker` answers

    def _play(
        self, lease: SubmissionLease, bundle: BotBundle, seasons: Sequence[Season]
    ) -> SubmissionRefusal | None:
        task = PlayAdmission(bundle, tuple(seasons))
        played = self._task(lease, task, _longest(seasons), games_of(seasons))
        refusal = cast(AdmissionPlayed, played).refusal
        if refusal is None:
            return None
        return SubmissionRefusal(refusal.found, refusal.remedy, refusal.log, refusal.error)

    def _task(
        self, lease: SubmissionLease, argument: object, seconds: float, of_games: int
    ) -> ArchiveRead | AdmissionPlayed:
        """The worker's answer; the lease is renewed meanwhile, with the games that were played."""
        games, beat = 0, _LEASE_S / 3
        self._renew(lease, games, of_games)
        task = self._workers.start(argument, self._workers.free()[0])
        began = renewed = self._now()
        while True:
            events = self._workers.wait(beat, self._stop)
            for event in events:
                match event:
                    case Sent(_, GamePlayed(number)):
                        games = number
                    case Done(_, answer):
                        return cast(ArchiveRead | AdmissionPlayed, answer)
                    case Failed(_, error):
                        outcome = outcome_of(error)
                        kind = _HostCannot if isinstance(outcome, HostTrouble) else _NoVerdict
                        raise kind(outcome.reason)
                    case Died(_, ending):
                        raise _NoVerdict(f"the worker ended ({ending})")
            now = self._now()
            try:
                if self._stop.wish is StopRequest.HAND_BACK:
                    raise _HandedBack
                if now - began >= seconds:
                    raise _NoVerdict(f"no end after {seconds:g} seconds")
                if events or now - renewed >= beat:
                    self._renew(lease, games, of_games)
                    renewed = now
            except BaseException:
                self._workers.kill(task)
                raise

    def _renew(self, lease: SubmissionLease, games: int, of_games: int) -> None:
        seconds, progress = _LEASE_S, self._store.submissions.progress
        if not self._insist(lambda: progress(lease, seconds, games, of_games)):
            raise _LeaseLost

    def _refuse(
        self, lease: SubmissionLease, refusal: SubmissionRefusal, bundle: BotBundle | None = None
    ) -> None:
        facts = {} if bundle is None else {"bot": bundle.name, "digest": bundle.digest}
        refuse = self._store.submissions.refuse
        self._insist(lambda: refuse(lease, refusal, self._took_ms(), **facts))
        self._report(lease)

    def _fail(self, lease: SubmissionLease, reason: str) -> None:
        fail = self._store.submissions.fail
        state = self._insist(lambda: fail(lease, reason, self._took_ms()))
        if state is SubmissionState.QUEUED:
            self._listener.trouble(
                f"submission {lease.id} of {lease.author} has no verdict and waits again: "
                f"{one_line(reason)}"
            )
        elif state is not None:
            self._report(lease)

    def _report(self, lease: SubmissionLease) -> None:
        """Report a verdict."""
        done = self._insist(lambda: self._store.submissions.get(lease.id))
        note = done.found if done.version is None else f"version {done.version}"
        self._listener.checked(done.bot, done.author, done.state, note)

    def _took_ms(self) -> int:
        """How long the present check has taken until now.

        Not its CPU time: a bot in the sandbox has processes whose CPU time is lost with them. And
        what others wait for is the time.
        """
        return round(1000 * (self._now() - self._began))

    def _now(self) -> float:
        return self._clock.now_us() / 1_000_000

    def _insist(self, call: Callable[[], _T]) -> _T:
        """Call the store, with retries while it is unavailable; every call may be repeated."""
        try:
            return insist(call, self._stop, self._listener.trouble)
        except StoreUnavailable:
            raise _HandedBack from None


def _longest(seasons: Sequence[Season]) -> float:
    """The timeout of all admission games, in seconds."""
    games = (
        game_seconds(season, max(season.seats)) + 2 * game_seconds(season, min(season.seats))
        for season in seasons
    )
    return _SLACK_S + sum(games)


@contextmanager
def validating(
    store: Store,
    make_workers: Callable[[], Workers],
    listener: ValidationListener,
    stop: Stop,
    *,
    first: bool,
) -> Iterator[None]:
    """Check submissions in a thread while the body runs; at its end, the present one to its end.

    first  check what waits before the body begins
    Ctrl-C and SIGTERM request a stop meanwhile, so call this in the main thread.
    """
    own = Stop()
    stop.share(own)
    validator = Validator(
        store, make_workers(), owner=own_name(), clock=SystemClock(), stop=own, listener=listener
    )
    try:
        with stop.on_signals():
            validator.take_back()
            if first:
                validator.drain()
        with beside(validator.run, lambda: own.ask(StopRequest.FINISH), stop, own):
            yield
    finally:
        try:
            validator.close()
        finally:
            own.close()
