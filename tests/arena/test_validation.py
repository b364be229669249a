"""Validation: every submission gets its verdict, whoever dies; nobody else's trouble counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from deepsea_arena.admission import AdmissionPlayed, PlayAdmission, ReadArchive
from deepsea_arena.background_work import in_background
from deepsea_arena.handlers import CHECKS
from deepsea_arena.run_report import Stop, StopRequest
from deepsea_bundle.archive import LIMITS as BUNDLE_LIMITS
from deepsea_bundle.archive import collect_zip
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle, bundle_of
from deepsea_ladder.errors import LimitReached, StoreUnavailable
from deepsea_ladder.model import Submission, SubmissionRefusal, TaskState
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from deepsea_referee.errors import HostTooBusy, RefereeError
from deepsea_referee.workers import (
    Task,
    TaskFailure,
    TaskMessage,
    TaskResult,
    WorkerDeath,
    WorkerEvent,
)
from helpers import background, ladder
from helpers.background import OneWorker, Watcher
from helpers.submissions import LIMITS, add, an_author, new

QUEUED, RUNNING, FAILED = TaskState.QUEUED, TaskState.RUNNING, TaskState.FAILED
ACCEPTED, REFUSED = TaskState.ACCEPTED, TaskState.REFUSED
SECOND_US = 1_000_000


class InlineChecker(OneWorker):
    """A worker that reads archives, and plays no games."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[ReadArchive | PlayAdmission] = []
        self.refusal: SubmissionRefusal | None = None
        self.on_game: Callable[[], object] = lambda: None
        self.play: Callable[[Task], Iterator[WorkerEvent]] = self._play

    def steps(self, task: Task) -> Iterator[WorkerEvent]:
        assert isinstance(task.argument, ReadArchive | PlayAdmission)
        self.tasks.append(task.argument)
        return self._read(task) if isinstance(task.argument, ReadArchive) else self.play(task)

    @property
    def played(self) -> int:
        """How often games were played."""
        return sum(isinstance(task, PlayAdmission) for task in self.tasks)

    def _read(self, task: Task) -> Iterator[WorkerEvent]:
        assert isinstance(task.argument, ReadArchive)
        yield TaskResult(task, read(task.argument))

    def _play(self, task: Task) -> Iterator[WorkerEvent]:
        for game in (1, 2, 3):
            self.on_game()
            yield TaskMessage(task, game)
        yield TaskResult(task, AdmissionPlayed(self.refusal))


def read(task: ReadArchive) -> BotBundle | str:
    """What `check_worker` reads, in this process."""
    try:
        return bundle_of(collect_zip(task.content, BUNDLE_LIMITS), task.bot or None, "-")
    except BundleError as error:
        return str(error)


def _contents(store: Store) -> None:
    for name in ("Ada", "Bob"):
        an_author(store, name)
    store.seasons.open(ladder.a_season(), ladder.SEED)


KINDS = ["sqlite"]  # who checks does not know the database
CONTENTS = _contents


class Site(background.Site[InlineChecker]):
    """A runner's side of a ladder."""

    def submit(self, text: str = "one", author: str = "Ada", bot: str = "mine") -> int:
        """Submit a bot; the submission's id."""
        return add(self.store, an_author(self.store, author), text, bot).id

    def checked(self, text: str = "one") -> Submission:
        """A submission after its check."""
        number = self.submit(text)
        self.work.drain()
        return self.now(number)

    def now(self, number: int) -> Submission:
        """A submission as it stands."""
        return self.store.submissions.get(number)


@pytest.fixture
def site(store: Store, stop: Stop) -> Site:
    """A runner that has nothing to do yet."""
    return Site(CHECKS, store, stop, InlineChecker())


def test_a_bot_that_plays_well_is_accepted_and_its_games_are_counted(site: Site) -> None:
    seen: list[Submission] = []
    site.worker.on_game = lambda: seen.append(site.now(1))
    done = site.checked()
    found = [(now.state, now.games, now.of_games) for now in seen]
    assert found == [("running", 0, 3), ("running", 1, 3), ("running", 2, 3)]
    assert (done.state, done.version, done.games) == (ACCEPTED, 1, 3)
    assert done.digest == ladder.a_bundle("one").digest
    assert site.store.bots.get("mine").author == "Ada"
    assert site.watcher.seen == ["mine of Ada: accepted, version 1"]
    assert site.worker.tasks[1] == PlayAdmission(
        replace(ladder.a_bundle("one"), name="mine"), (ladder.a_season(),)
    )


def test_a_bot_with_a_fault_is_refused_with_what_to_do(site: Site) -> None:
    site.worker.refusal = SubmissionRefusal("it crashed", "correct it", ("a line",), "Traceback")
    done = site.checked()
    assert (done.state, done.found, done.remedy) == (REFUSED, "it crashed", "correct it")
    assert (done.log, done.error, done.version) == (("a line",), "Traceback", None)
    assert done.digest == ladder.a_bundle("one").digest
    assert site.watcher.seen == ["mine of Ada: refused, it crashed"]
    with pytest.raises(Exception, match="no bot 'mine'"):
        site.store.bots.get("mine")


def test_an_archive_that_is_none_is_refused_without_games(site: Site) -> None:
    content = b"PK\x03\x04 and so on"
    wanted = new(an_author(site.store, "Ada"), content)
    number = site.store.submissions.add(wanted, [content], LIMITS).id
    site.work.drain()
    done = site.now(number)
    assert done.state is REFUSED
    assert done.found
    assert "deepsea-referee check" in done.remedy
    assert site.worker.played == 0


def test_the_files_that_play_already_are_accepted_without_games(site: Site) -> None:
    ladder.submit(site.store, "mine", "one", "Ada")
    done = site.checked()
    assert (done.state, done.version) == (ACCEPTED, 1)
    assert site.worker.played == 0
    assert len(site.store.bots.versions("mine")) == 1


def test_a_name_that_became_somebody_elses_is_refused_without_games(site: Site) -> None:
    number = site.submit()
    ladder.submit(site.store, "mine", "two", "Bob")
    site.work.drain()
    done = site.now(number)
    assert (done.found, done.remedy) == (
        "the bot 'mine' is another author's",
        "choose another name",
    )
    assert (done.bot, done.digest) == ("mine", ladder.a_bundle("one").digest)
    assert site.worker.played == 0


def test_a_strangers_bot_does_not_meet_a_season_without_a_sandbox(site: Site) -> None:
    number = site.submit()
    site.store.seasons.open(SeasonSettings(name="open", isolation="process"), ladder.SEED)
    site.work.drain()
    done = site.now(number)
    assert done.found == "season open plays bots without a sandbox, so none are taken from afar"
    assert done.remedy == "ask whoever runs the ladder"
    assert site.worker.played == 0
    add(site.store, an_author(site.store, "Bob"), "two", "bobs", needs_sandbox=False)
    site.work.drain()
    assert site.worker.played == 1


def test_everybody_waits_in_turn(site: Site) -> None:
    for text, author, bot in (("a", "Ada", "a"), ("b", "Ada", "a"), ("c", "Bob", "c")):
        site.submit(text, author, bot)
    site.work.drain()
    assert [line.partition(",")[0] for line in site.watcher.seen] == [
        "a of Ada: accepted",
        "c of Bob: accepted",
        "a of Ada: accepted",
    ]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda task: WorkerDeath(task, "signal 9"), "the worker ended (signal 9)"),
        (lambda task: TaskFailure(task, RefereeError("the game is void")), "the game is void"),
        (lambda task: TaskFailure(task, ValueError("a bug")), "ValueError: a bug"),
    ],
)
def test_what_brings_down_its_check_three_times_has_failed(
    site: Site, end: Callable[[Task], WorkerEvent], words: str
) -> None:
    site.worker.play = lambda task: iter([end(task)])
    done = site.checked()
    assert (done.state, done.found) == (FAILED, f"the ladder could not check it: {words}")
    assert site.worker.played == 3
    assert len(site.watcher.troubles) == 2
    assert all("has no result and waits again" in line for line in site.watcher.troubles)


def test_an_answer_that_nobody_expects_ends_no_other_check(site: Site) -> None:
    site.worker.play = lambda task: iter([TaskResult(task, None)])
    assert site.checked().state is FAILED
    site.worker.play = site.worker._play
    assert site.checked("two").state is ACCEPTED


def test_trouble_of_this_machine_counts_against_nobody(site: Site) -> None:
    busy = HostTooBusy("the host is too busy to start bots", 5)
    site.worker.play = lambda task: iter([TaskFailure(task, busy)])
    number = site.submit()
    for _ in range(5):
        site.work.drain()
    assert site.now(number).state is QUEUED
    assert set(site.watcher.troubles) == {
        "submissions cannot be checked now: the host is too busy to start bots"
    }
    site.worker.play = site.worker._play
    site.work.drain()
    assert site.now(number).state is ACCEPTED


def test_a_check_that_does_not_end_is_killed(site: Site) -> None:
    def hang(task: Task) -> Iterator[WorkerEvent]:
        while True:
            site.clock.jump(600 * SECOND_US)
            yield TaskMessage(task, 1)

    site.worker.play = hang
    done = site.checked()
    assert done.state is FAILED
    assert "no end after" in done.found
    assert site.worker.killed == 3


def test_a_request_to_stop_gives_the_submission_back(site: Site) -> None:
    site.worker.on_game = lambda: site.stop.ask(StopRequest.HAND_BACK)
    number = site.submit()
    site.work.drain()
    site.work.close()
    assert site.worker.killed == 1
    assert site.worker.closed
    assert site.now(number).state is QUEUED
    assert site.store.tasks.owners() == []


def test_a_request_to_stop_is_heard_while_the_store_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        site.stop.ask(StopRequest.HAND_BACK)
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(site.store.submissions, "waiting", away)
    site.work.run()
    assert site.worker.tasks == []


def test_a_request_to_finish_ends_the_present_check_alone(site: Site) -> None:
    site.worker.on_game = lambda: site.stop.ask(StopRequest.FINISH)
    first, second = site.submit("a"), site.submit("b")
    site.work.run()
    assert (site.now(first).state, site.now(second).state) == (ACCEPTED, QUEUED)


def test_who_lost_the_lease_changes_nothing(site: Site) -> None:
    def lose() -> None:
        if not site.store.tasks.end_leases_of_lost_runner("runner"):
            return
        lease = site.store.submissions.claim("another", 60)
        assert lease is not None

    site.worker.on_game = lose
    number = site.submit()
    site.work.drain()
    assert site.worker.killed == 1
    assert site.now(number).state is RUNNING
    assert site.store.tasks.owners() == ["another"]
    assert site.watcher.troubles == [f"another runner has taken over submission {number} of Ada"]


def test_the_time_of_checks_is_counted(site: Site) -> None:
    site.worker.on_game = lambda: site.clock.jump(7 * SECOND_US)
    site.checked()
    limits = replace(LIMITS, check_seconds_per_hour=21)
    words = "the checks of your bots have taken 21 s within an hour"
    with pytest.raises(LimitReached, match=words):
        add(site.store, an_author(site.store, "Ada"), "two", limits=limits)


def test_submissions_are_checked_before_a_body_and_beside_it(store: Store, stop: Stop) -> None:
    checker, watcher = InlineChecker(), Watcher()
    ada, bob = an_author(store, "Ada"), an_author(store, "Bob")
    first = add(store, ada, "one").id
    with in_background(CHECKS, store, watcher, stop, workers=checker, first=True):
        assert store.submissions.get(first).state is ACCEPTED
        watcher.verdict.clear()
        second = add(store, bob, "two", "bobs").id
        assert watcher.verdict.wait(60)
        assert store.submissions.get(second).state is ACCEPTED
    assert checker.closed
    assert watcher.seen == ["mine of Ada: accepted, version 1", "bobs of Bob: accepted, version 1"]
