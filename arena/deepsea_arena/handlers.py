"""The kinds of task that a runner does beside its games, each in a worker process of its own.

Start reading at `CHECKS`, `ANALYSES`, `COMPARISONS` and `STEPS`.

Invariants, whatever dies at any moment: a submission ends in exactly one version or none; the
result of an analysis is stored once and whole; each block of a comparison is stored as it comes,
and the comparison goes on from there; a person's game goes on from its stored decisions, and while
people think nothing is leased. A task that brings down its worker three times has failed, and says
why. Analyses and comparisons take what others leave of the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from msgspec.structs import replace

from deepsea_arena.admission import (
    AdmissionPlayed,
    PlayAdmission,
    ReadArchive,
    admission_seasons,
    check_packages,
    check_worker,
    largest_admission,
)
from deepsea_arena.background_work import Handler, LeaseLost, TaskLoop
from deepsea_arena.documents import DocumentError
from deepsea_arena.ladder_analyses import settings_from
from deepsea_arena.run_report import StopRequest
from deepsea_arena.task_workers import (
    Analysed,
    AnalyseGame,
    BlockPlayed,
    PlayedOn,
    analysis_worker,
    comparison_worker,
    person_worker,
)
from deepsea_arena.tasks import game_seconds
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_ladder.errors import AnalysisError, SubmissionError
from deepsea_ladder.model import (
    AnalysisLease,
    ComparisonLease,
    PersonGame,
    SubmissionLease,
    SubmissionRefusal,
    TaskKind,
    TaskState,
)
from deepsea_ladder.season import SeasonSettings
from deepsea_referee.bots.resolve import READER_LIMITS
from deepsea_referee.workers import LocalWorkers

# --------------------------------------------------------------------------- checks of submissions

_SLACK_S = 60.0
"""Seconds for starting the worker process, and for sending it an archive."""
_REMEDY = "correct it, and submit the bot again; `deepsea-referee check` looks at the same"


def _check(loop: TaskLoop[SubmissionLease], lease: SubmissionLease) -> None:
    """Check a submission: read its archive, play its admission games, and accept or refuse the bot.

    A worker process reads the archive and plays the games. The result is stored, and reported to
    the watcher.
    """
    submissions = loop.store.submissions
    bundle: BotBundle | None = None
    refusal: SubmissionRefusal | None
    try:
        seasons = loop.retry(lambda: admission_seasons(loop.store))
        content = loop.retry(lambda: submissions.archive(lease))
        bundle_or_problem = _read_in_worker(loop, lease, content)
        if isinstance(bundle_or_problem, str):
            refusal = SubmissionRefusal(bundle_or_problem, _REMEDY)
        else:
            bundle = bundle_or_problem
            refusal = _accept_or_refusal(loop, lease, bundle, seasons)
    except SubmissionError as error:
        refusal = SubmissionRefusal(error.found, error.remedy or _REMEDY)
    except BundleError as error:
        refusal = SubmissionRefusal(str(error), _REMEDY)
    if refusal is not None:
        _refuse(loop, lease, refusal, bundle)
    _report_check(loop, lease)


def _refuse(
    loop: TaskLoop[SubmissionLease],
    lease: SubmissionLease,
    refusal: SubmissionRefusal,
    bundle: BotBundle | None,
) -> None:
    """Store that a submission is refused, with the name and the digest of its bot.

    `bundle` is the bot, or None if it could not be read from the submission.
    """
    submissions = loop.store.submissions
    bot_fields = {} if bundle is None else {"bot": bundle.name, "digest": bundle.digest}
    loop.retry(lambda: submissions.refuse(lease, refusal, loop.took_ms(), **bot_fields))


def _read_in_worker(
    loop: TaskLoop[SubmissionLease], lease: SubmissionLease, content: bytes
) -> BotBundle | str:
    """Return the bot in an uploaded archive, or the reason why it cannot be read."""
    timeout_s = READER_LIMITS.seconds + _SLACK_S
    answer = _worker_answer(loop, lease, ReadArchive(content, lease.bot), timeout_s)
    return cast(BotBundle | str, answer)


def _accept_or_refusal(
    loop: TaskLoop[SubmissionLease],
    lease: SubmissionLease,
    bundle: BotBundle,
    seasons: Sequence[SeasonSettings],
) -> SubmissionRefusal | None:
    """Have a bot play its admission games, and accept it if it has played them without a fault.

    Return None for an accepted bot, otherwise the reason why it is refused. Raises SubmissionError
    if the bot needs packages that a season does not offer.
    """
    # A bot with the same files as its current version needs no admission games.
    is_accepted = loop.retry(lambda: _accept(loop, lease, bundle, has_played=False))
    if is_accepted:
        return None
    check_packages(bundle, seasons)
    answer = _worker_answer(
        loop,
        lease,
        PlayAdmission(bundle, tuple(seasons)),
        _admission_seconds(seasons),
        game_count=largest_admission(seasons),
    )
    refusal = cast(AdmissionPlayed, answer).refusal
    if refusal is None:
        # False needs no handling: either the lease was lost, and another runner checks the bot, or
        # an earlier try was stored although its answer was lost.
        loop.retry(lambda: _accept(loop, lease, bundle, has_played=True))
    return refusal


def _accept(
    loop: TaskLoop[SubmissionLease],
    lease: SubmissionLease,
    bundle: BotBundle,
    *,
    has_played: bool,
) -> bool:
    """Store a bot as accepted; `has_played` is True if it has passed its admission games.

    Return False, and store nothing, if it still has to play them, or if the lease has ended.
    """
    store = loop.store
    return store.submissions.accept(
        lease, bundle, store.settings.limits(), loop.took_ms(), has_played=has_played
    )


def _worker_answer(
    loop: TaskLoop[SubmissionLease],
    lease: SubmissionLease,
    task: ReadArchive | PlayAdmission,
    timeout_s: float,
    *,
    game_count: int = 0,
) -> object:
    """Return the worker's answer to one task of a check.

    While the worker is at it, renew the lease, and store how many of the `game_count` games of the
    task were played.
    """
    games_played = 0

    def renew_and_store_progress() -> bool:
        """Return False if the lease was lost."""
        is_held = loop.store.submissions.progress(lease, loop.times.lease, games_played, game_count)
        loop.watcher.checking(lease.id)
        return is_held

    def on_message(number: int) -> bool:
        """Note that a game has ended; True makes the loop store that at once."""
        nonlocal games_played
        games_played = number
        return True

    loop.hold(renew_and_store_progress)
    return loop.answer(
        lease, task, renew=renew_and_store_progress, seconds=timeout_s, on_message=on_message
    )


def _admission_seconds(seasons: Sequence[SeasonSettings]) -> float:
    """Return the timeout of all admission games of a bot, in seconds.

    In each season the bot plays one game at the largest table and two at the smallest one.
    """
    games = (
        game_seconds(season, max(season.seats)) + 2 * game_seconds(season, min(season.seats))
        for season in seasons
    )
    return _SLACK_S + sum(games)


def _report_check(loop: TaskLoop[SubmissionLease], lease: SubmissionLease) -> None:
    """Tell the watcher how the check of a submission has ended."""
    submission = loop.retry(lambda: loop.store.submissions.get(lease.id))
    is_refused = submission.version is None
    note = submission.found if is_refused else f"version {submission.version}"
    loop.watcher.checked(submission.bot, submission.author, submission.state, note)


CHECKS: Handler[SubmissionLease] = Handler(
    kind=TaskKind.CHECK,
    queue=lambda store: store.submissions,
    make_workers=lambda store: LocalWorkers(check_worker, 1),
    perform=_check,
    fail=lambda loop, lease, reason: loop.store.submissions.fail(lease, reason, loop.took_ms()),
    report_failed=_report_check,
    name=lambda lease: f"submission {lease.id} of {lease.author}",
    cannot="submissions cannot be checked",
    idle=lambda store: 1.0,
    gives_back_at=StopRequest.HAND_BACK,
)


# ---------------------------------------------------------------------------------------- analyses

_STEP_TIMEOUT_S = 900.0
"""Timeout of one step of an analysis. It is long, because the worker gives way to all others."""


def _analyse(loop: TaskLoop[AnalysisLease], lease: AnalysisLease) -> None:
    """Have a worker analyse a game, and store the document, or the reason why there is none."""
    store, analyses = loop.store, loop.store.analyses
    try:
        task = AnalyseGame(lease.record, settings_from(lease.settings))
        result = cast(Analysed, loop.answer(lease, task, quiet=_STEP_TIMEOUT_S))
        if result.problem:
            raise AnalysisError(result.problem)
        # A repeated call does nothing: the first one has ended the lease.
        loop.retry(
            lambda: analyses.finish(lease, result.policy, result.document, store.settings.limits())
        )
    except (DocumentError, AnalysisError) as error:
        reason = str(error)
        loop.retry(lambda: analyses.reject(lease, reason))
    _report_analysis(loop, lease)


def _report_analysis(loop: TaskLoop[AnalysisLease], lease: AnalysisLease) -> None:
    """Tell the watcher how an analysis has ended."""
    analysis = loop.retry(lambda: loop.store.analyses.get(lease.id))
    note = analysis.policy if analysis.state is TaskState.DONE else analysis.reason
    loop.watcher.analysed(analysis.game_id, analysis.state, note)


ANALYSES: Handler[AnalysisLease] = Handler(
    kind=TaskKind.ANALYSIS,
    queue=lambda store: store.analyses,
    make_workers=lambda store: LocalWorkers(analysis_worker, 1),
    make_eager_workers=lambda store: LocalWorkers(partial(analysis_worker, gives_way=False), 1),
    perform=_analyse,
    report_failed=_report_analysis,
    name=lambda lease: f"the analysis of {lease.game_id}",
    cannot="games cannot be analysed",
    idle=lambda store: 2.0,
    gives_back_at=StopRequest.FINISH,
)


# --------------------------------------------------------------------- comparisons of new versions

_GAMES_PER_BLOCK = 2
_PORTION_MS = 20_000
"""CPU time of a lease, after which it is another author's turn."""


def _compare(loop: TaskLoop[ComparisonLease], lease: ComparisonLease) -> None:
    """Have a worker play blocks of a comparison, and store each block as it comes.

    A comparison that is not decided when its portion of CPU time is used up goes back to the queue.
    It may have ended while its lease was lost: with its last block, or by a newer version of the
    bot.
    """
    comparisons = loop.store.comparisons

    def store_block(block: BlockPlayed) -> bool:
        """Store a block, which also renews the lease; True makes the loop see that it was lost."""
        is_held = loop.retry(lambda: comparisons.add(lease, *block, loop.times.lease))
        return not is_held

    try:
        loop.answer(
            lease,
            replace(lease, cpu_ms=min(lease.cpu_ms, _PORTION_MS)),
            needs=tuple(dict.fromkeys(version.digest for version in lease.versions)),
            quiet=_GAMES_PER_BLOCK * game_seconds(lease.season, max(lease.season.seats)),
            on_message=store_block,
        )
        lost_lease = None
    except LeaseLost as error:
        lost_lease = error
    comparison = loop.retry(lambda: comparisons.get(lease.id))
    if comparison.state.is_final:
        loop.watcher.compared(comparison)
    elif lost_lease is not None:
        raise lost_lease
    loop.retry(lambda: comparisons.hand_back(loop.owner))


COMPARISONS: Handler[ComparisonLease] = Handler(
    kind=TaskKind.COMPARISON,
    queue=lambda store: store.comparisons,
    make_workers=lambda store: LocalWorkers(comparison_worker, 1, fetch=store.bots.archive),
    perform=_compare,
    name=lambda lease: f"the comparison of {lease.label}",
    cannot="bots cannot be compared",
    idle=lambda store: 5.0,
    gives_back_at=StopRequest.FINISH,
)


# -------------------------------------------------------------------------- steps of people's games


def _play_on(loop: TaskLoop[PersonGame], lease: PersonGame) -> None:
    """Have a worker play a person's game up to the person's next decision, or to its end.

    Store the record of a game that has ended, otherwise the decisions so far, which puts the
    question to the person.
    """
    digests = dict.fromkeys(version.digest for version in lease.versions)  # each once, in order
    answer = loop.answer(
        lease,
        argument=lease,
        needs=tuple(digests),
        seconds=game_seconds(lease.season, len(lease.names)),
    )
    played = cast(PlayedOn, answer)  # the answer of `person_worker`

    def store_step() -> None:
        """Store the record of a game that has ended, or else the decisions so far.

        A repeated call does nothing, since the first one has ended the lease.
        """
        person_games = loop.store.person_games
        if played.record:
            person_games.finish(lease, played.record)
        else:
            person_games.ask(lease, played.decisions)

    loop.retry(store_step)


STEPS: Handler[PersonGame] = Handler(
    kind=TaskKind.STEP,
    queue=lambda store: store.person_games,
    make_workers=lambda store: LocalWorkers(person_worker, 1, fetch=store.bots.archive),
    perform=_play_on,
    name=lambda lease: f"the game {lease.game_id}",
    cannot="games of people cannot be played",
    # Quick for people who are at their tables.
    idle=lambda store: 0.2 if store.person_games.open() else 1.0,
    gives_back_at=StopRequest.HAND_BACK,
)
