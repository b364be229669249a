"""Submissions in the store: whole or not at all, one verdict, exactly one version or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
from msgspec import structs
from sqlalchemy import func, select

from deepsea_ladder.accounts import MACHINE, AuditKind
from deepsea_ladder.errors import (
    KeyReused,
    LadderError,
    LimitReached,
    NotOnLadder,
    SeasonClosed,
    SeasonError,
    SubmissionError,
)
from deepsea_ladder.limits import HOUR_MS, RemoteLimits
from deepsea_ladder.model import (
    BotState,
    SubmissionLease,
    SubmissionRefusal,
    SubmissionWindow,
    TaskState,
    milliseconds,
)
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.killing import EVERYWHERE, killed_at
from helpers.submissions import LIMITS, add, an_author, new, zipped

QUEUED, RUNNING, FAILED = TaskState.QUEUED, TaskState.RUNNING, TaskState.FAILED
ACCEPTED, REFUSED = TaskState.ACCEPTED, TaskState.REFUSED


def two_authors(store: Store) -> None:
    """Ada and Bob, each with a bot."""
    for name in ("Ada", "Bob"):
        an_author(store, name)


CONTENTS = two_authors


def claim(store: Store, owner: str = "runner", seconds: float = 60) -> SubmissionLease:
    """Lease the next submission, of which there has to be one."""
    lease = store.submissions.claim(owner, seconds)
    assert lease is not None
    return lease


def accept(store: Store, lease: SubmissionLease, text: str) -> bool:
    """Accept a submission as a bot of that text."""
    bundle = replace(ladder.a_bundle(text), name=lease.bot)
    return store.submissions.accept(lease, bundle, LIMITS, 5, has_played=True)


def known(
    store: Store, lease: SubmissionLease, name: str, text: str, limits: RemoteLimits = LIMITS
) -> bool:
    """Accept a submission, as a bot of that name and text, if it plays already."""
    bundle = replace(ladder.a_bundle(text), name=name)
    return store.submissions.accept(lease, bundle, limits, 1, has_played=False)


def rows(store: Store) -> tuple[int, int]:
    """The numbers of submissions, and of pieces of archives."""
    tables = (schema.submissions, schema.submission_parts)
    with store.database.read() as connection:
        one, two = (
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        )
    return one, two


@pytest.mark.databases
def test_a_submission_waits_with_its_archive_until_it_is_accepted(
    store: Store, ada: int, another: Callable[[], Store]
) -> None:
    added = add(store, ada, "one")
    assert (added.state, added.author, added.bot, added.ahead) == (QUEUED, "Ada", "mine", 0)
    assert another().submissions.get(added.id, ada) == added
    lease = claim(store)
    assert (lease.id, lease.author, lease.bot, lease.attempt) == (added.id, "Ada", "mine", 1)
    assert store.submissions.archive(lease) == zipped("one")
    assert store.submissions.progress(lease, 60, 2, 3)
    shown = store.submissions.get(added.id)
    assert (shown.state, shown.games, shown.of_games) == (RUNNING, 2, 3)
    assert accept(store, lease, "one")
    done = another().submissions.get(added.id)
    assert (done.state, done.version, done.digest) == (ACCEPTED, 1, ladder.a_bundle("one").digest)
    assert store.bots.get("mine").author == "Ada"
    assert rows(store) == (1, 0)


@pytest.mark.databases
def test_a_refusal_is_kept_and_adds_no_version(store: Store, ada: int) -> None:
    added = add(store, ada, "one")
    refusal = SubmissionRefusal("it\x1b[2J crashed", "correct it", ("a", "b\x1b[2J"), "Trace\nback")
    assert store.submissions.refuse(claim(store), refusal, 5, digest="d" * 64)
    done = store.submissions.get(added.id)
    assert done.state is REFUSED
    assert "\x1b" not in done.found
    assert (done.remedy, done.log) == ("correct it", ("a", r"b\x1b[2J"))
    assert (done.error, done.version) == ("Trace\nback", None)
    assert [bot.name for bot in store.bots.all()] == ["bot-of-Ada", "bot-of-Bob"]
    assert rows(store) == (1, 0)


def test_the_same_key_is_the_same_submission_in_every_state(store: Store, ada: int) -> None:
    content = zipped("one")
    wanted = new(ada, content, bot="mine")
    assert store.submissions.check(wanted, LIMITS) is None
    added = store.submissions.add(wanted, [content], LIMITS)
    no_limits = replace(LIMITS, open_submissions=0)  # which do not count for what is there

    def again() -> int:
        assert store.submissions.check(wanted, no_limits) == store.submissions.get(added.id)
        return store.submissions.add(wanted, [], no_limits).id

    assert again() == added.id
    lease = claim(store)
    assert again() == added.id
    assert accept(store, lease, "one")
    assert again() == added.id
    assert rows(store) == (1, 0)


def test_the_same_key_with_another_archive_is_refused(store: Store, ada: int, bob: int) -> None:
    add(store, ada, "one", key="a-key-of-mine")
    with pytest.raises(KeyReused, match="the key 'a-key-of-mine' is that of another upload"):
        add(store, ada, "two", key="a-key-of-mine")
    assert add(store, bob, "two", "bobs", key="a-key-of-mine").author == "Bob"


def test_an_archive_that_is_too_short_leaves_nothing(store: Store, ada: int) -> None:
    wanted = new(ada, b"0123456789")
    with pytest.raises(SubmissionError, match="an archive of 10 bytes came with 4"):
        store.submissions.add(wanted, [b"01", b"23"], LIMITS)
    assert rows(store) == (0, 0)


def test_an_archive_that_breaks_off_leaves_nothing(store: Store, ada: int) -> None:
    def broken() -> Iterator[bytes]:
        yield b"01"
        raise OSError("a disk is gone")

    with pytest.raises(OSError, match="a disk is gone"):
        store.submissions.add(new(ada, b"0123456789"), broken(), LIMITS)
    assert rows(store) == (0, 0)


@pytest.mark.databases
def test_checks_go_round_robin_by_author_and_one_of_each_at_a_time(
    store: Store, ada: int, bob: int
) -> None:
    first, second = add(store, ada, "a1"), add(store, ada, "a2")
    third = add(store, bob, "b1", "bobs")
    assert [one.id for one in store.submissions.queue()] == [first.id, third.id, second.id]
    assert [one.ahead for one in store.submissions.queue()] == [0, 1, 2]
    one, two = claim(store, "r1"), claim(store, "r2")
    assert (one.id, two.id) == (first.id, third.id)
    assert store.submissions.claim("r3", 60) is None  # the third is of who is being checked
    assert [entry.state for entry in store.submissions.queue()] == [RUNNING, RUNNING, QUEUED]
    assert store.submissions.get(second.id).ahead == 2
    assert accept(store, one, "a1")
    assert claim(store, "r3").id == second.id


@pytest.mark.databases
def test_what_cannot_be_checked_three_times_has_failed(store: Store, ada: int) -> None:
    added = add(store, ada, "one")
    assert store.submissions.fail(claim(store), "the game is void", 7) is QUEUED
    claim(store, "r2")
    assert store.tasks.end_leases_of_lost_runner("r2") == 1
    claim(store, "r3", seconds=-1)
    assert store.submissions.claim("r4", 60) is None
    done = store.submissions.get(added.id)
    assert done.state is FAILED
    assert done.found == "the ladder could not check it: the runner r3 was lost"
    assert "again later" in done.remedy
    assert rows(store) == (1, 0)


@pytest.mark.databases
def test_a_runner_that_stops_gives_its_lease_back_and_nothing_counts(
    store: Store, ada: int
) -> None:
    added = add(store, ada, "one")
    for _ in range(5):
        claim(store)
        assert store.tasks.owners() == ["runner"]
        assert store.submissions.hand_back("runner") == 1
    assert store.submissions.get(added.id).state is QUEUED
    assert store.tasks.owners() == []


def test_the_files_of_the_present_version_make_no_new_one(store: Store, ada: int) -> None:
    ladder.submit(store, "mine", "one", "Ada")
    added = add(store, ada, "one")
    assert known(store, claim(store), "Mine", "one")
    done = store.submissions.get(added.id)
    assert (done.state, done.bot, done.version) == (ACCEPTED, "mine", 1)
    assert len(store.bots.versions("mine")) == 1


def test_a_withdrawn_bot_comes_back_with_its_files_and_a_disabled_one_does_not(
    store: Store, ada: int
) -> None:
    ladder.submit(store, "mine", "one", "Ada")
    store.bots.withdraw("mine")
    add(store, ada, "one", key="first-key")
    assert known(store, claim(store), "mine", "one")
    assert store.bots.get("mine").state is BotState.ACTIVE
    add(store, ada, "one", key="second-key")
    store.bots.disable("mine", "it crashed")
    lease, words = claim(store), "mine is disabled: it crashed; ask whoever runs the ladder"
    for refused in (
        partial(known, store, lease, "mine", "one"),
        partial(accept, store, lease, "two"),
        partial(add, store, ada, "three"),
    ):
        with pytest.raises(SubmissionError, match=words):
            refused()
    assert store.bots.get("mine").state is BotState.DISABLED


def test_files_of_another_bot_of_the_author_are_refused_before_games_are_played(
    store: Store, ada: int
) -> None:
    ladder.submit(store, "mine", "one", "Ada")
    words = "these files are those of 'mine', which plays"
    added = add(store, ada, "one", "copy")
    lease = claim(store)
    with pytest.raises(SubmissionError, match=words):
        known(store, lease, "copy", "one")
    with pytest.raises(SubmissionError, match=words):
        accept(store, lease, "one")
    assert store.submissions.refuse(lease, SubmissionRefusal(words), 1)
    # A copy that was withdrawn does not come back beside it, and a verdict stays when it is asked
    # for again.
    ladder.submit(store, "mine", "two", "Ada")
    ladder.submit(store, "copy", "one", "Ada")
    store.bots.withdraw("copy")
    ladder.submit(store, "mine", "one", "Ada")
    add(store, ada, "one", "copy", key="another-key")
    with pytest.raises(SubmissionError, match=words):
        known(store, claim(store), "copy", "one")
    assert add(store, ada, "one", "copy").id == added.id
    assert store.submissions.get(added.id).state is REFUSED


def test_other_files_are_not_known(store: Store, ada: int) -> None:
    added = add(store, ada, "one")
    assert not known(store, claim(store), "mine", "other")
    assert store.submissions.get(added.id).state is RUNNING


def test_a_name_that_is_somebody_elses_is_refused_before_and_after_the_upload(
    store: Store, ada: int
) -> None:
    with pytest.raises(SubmissionError, match="the bot 'bot-of-Bob' is another author's"):
        add(store, ada, "one", "Bot-of-bob")
    added = add(store, ada, "one", "")
    lease = claim(store)
    with pytest.raises(SubmissionError, match="the bot 'bot-of-Bob' is another author's"):
        known(store, lease, "bot-of-Bob", "other")
    bundle = replace(ladder.a_bundle("one"), name="bot-of-Bob")
    with pytest.raises(SubmissionError, match="the bot 'bot-of-Bob' is another author's"):
        store.submissions.accept(lease, bundle, LIMITS, 1, has_played=True)
    assert store.submissions.get(added.id).state is RUNNING


def test_an_author_has_so_many_bots_without_those_that_are_withdrawn(
    store: Store, ada: int
) -> None:
    limits = replace(LIMITS, bots=1)
    with pytest.raises(LimitReached, match="you have 1 bots"):
        add(store, ada, "one", "mine", limits)
    add(store, ada, "one", "", limits)
    with pytest.raises(LimitReached, match="you have 1 bots"):
        known(store, claim(store), "mine", "other", limits)
    store.bots.withdraw("bot-of-Ada")
    assert add(store, ada, "two", "mine", limits).state is QUEUED


def test_what_is_submitted_on_the_ladders_machine_has_no_limits_and_counts_in_none(
    store: Store, ada: int
) -> None:
    none = replace(LIMITS, bots=0, open_submissions=1, queue=0, submissions_per_hour=1)
    for text in ("one", "two"):
        add(store, ada, text, "mine", none, by_machine=True, needs_sandbox=False)
    assert accept(store, claim(store), "one")
    (entry, *_) = store.audit.latest(1)
    assert (entry.actor, entry.kind) == ("machine", AuditKind.SUBMITTED)
    assert add(store, ada, "three", limits=replace(none, bots=9, queue=9)).state is QUEUED


@pytest.mark.databases
def test_limits_count_what_the_store_has(store: Store, ada: int, bob: int) -> None:
    for text in ("one", "two", "three"):
        add(store, ada, text)
    with pytest.raises(LimitReached, match="3 submissions of yours wait"):
        add(store, ada, "four")
    add(store, bob, "four", "bobs")
    with pytest.raises(LimitReached, match="4 submissions wait already"):
        add(store, bob, "five", "bobs", replace(LIMITS, queue=4))
    busy = replace(LIMITS, open_submissions=10)
    with pytest.raises(LimitReached, match="3 times within an hour"):
        add(store, ada, "four", limits=replace(busy, submissions_per_hour=3))
    with pytest.raises(LimitReached, match="MiB; an author has 0 MiB"):
        add(store, ada, "four", limits=replace(busy, author_bytes=1000))
    assert store.submissions.fail(claim(store), "void", 700_000) is QUEUED
    with pytest.raises(LimitReached, match="600 s within") as refused:
        add(store, ada, "four", limits=busy)
    assert refused.value.retry_after is not None
    ladder.write(store, "UPDATE tasks SET changed_at = changed_at - :ms", ms=HOUR_MS)
    assert add(store, ada, "four", limits=busy).state is QUEUED


def test_after_the_end_of_submissions_nobody_submits(store: Store, ada: int) -> None:
    early = add(store, ada, "early")
    at = milliseconds(early.created_at)
    store.seasons.open(ladder.a_season(), ladder.SEED, submissions_until=at + 10**9)
    assert add(store, ada, "in time").state is QUEUED
    ladder.write(store, "UPDATE seasons SET submissions_until = :until", until=at + 1)
    words = (
        r"season s1 has taken in bots until \d{4}-\d\d-\d\d \d\d:\d\d UTC, and that time is over"
    )
    for refused in (
        lambda: add(store, ada, "late"),
        lambda: ladder.submit(store, "late", author="Ada"),
        lambda: ladder.submit(store, "late", author="Newcomer"),
    ):
        with pytest.raises(SubmissionError, match=words):
            refused()
    # What came in time is checked.
    lease = claim(store)
    assert lease.id == early.id
    assert accept(store, lease, "early")
    store.seasons.close("s1")
    for refused in (
        lambda: add(store, ada, "later"),
        lambda: ladder.submit(store, "late", author="Ada"),
    ):
        with pytest.raises(SubmissionError, match="every season is closed, so no bots are taken"):
            refused()
    store.seasons.open(structs.replace(ladder.a_season(), name="s2"), ladder.SEED)
    assert add(store, ada, "later").state is QUEUED


def test_a_tournament_takes_in_no_bots_and_keeps_no_door_open(store: Store, ada: int) -> None:
    store.seasons.open(ladder.a_season(), ladder.SEED)
    store.seasons.open(ladder.a_season("cup"), ladder.SEED, tournament="{}")
    assert store.seasons.submission_window(ada) == SubmissionWindow(None, "")
    store.seasons.close("s1")
    assert "every season is closed" in store.seasons.submission_window(ada).refusal
    with pytest.raises(SubmissionError, match="every season is closed"):
        add(store, ada, "one")


def test_the_first_of_the_deadlines_of_open_seasons_holds(store: Store, ada: int) -> None:
    at = milliseconds(add(store, ada, "early").created_at)
    for name, until in (("s1", at + 2 * 10**9), ("s2", at + 10**9), ("s3", None)):
        store.seasons.open(ladder.a_season(name), ladder.SEED, submissions_until=until)
    assert store.seasons.submission_window(ada) == SubmissionWindow(at + 10**9, "")
    store.seasons.extend("s2", "Ada", at + 3 * 10**9, MACHINE)
    assert store.seasons.submission_window(ada) == SubmissionWindow(at + 2 * 10**9, "")
    assert store.seasons.submission_window(0) == SubmissionWindow(at + 10**9, "")
    ladder.write(store, "UPDATE seasons SET submissions_until = :at WHERE name = 's2'", at=at)
    assert store.seasons.submission_window(ada).refusal == ""
    window = store.seasons.submission_window(0)
    assert (window.until, window.refusal[:28]) == (at, "season s2 has taken in bots ")


def test_a_season_that_is_to_be_closed_takes_in_no_bots_and_lets_those_that_came_play(
    store: Store, ada: int
) -> None:
    ladder.submit(store, "mine", "one", "Ada")
    others = [ladder.submit(store, name) for name in ("cleo", "dan")]
    season = store.seasons.open(ladder.a_season(seats=(2, 3)), ladder.SEED)
    former = store.bots.get("mine").current.id
    store.jobs.add(season, ladder.rotations([former, others[0].id], 2))
    store.jobs.add(season, ladder.rotations([others[1].id, others[0].id], 2))
    ladder.play_all(store, season)
    newest = ladder.submit(store, "mine", "two", "Ada").id
    ladder.submit(store, "dan", "two")
    store.bots.withdraw("dan")  # so it is not in the table
    early = add(store, ada, "three", "another")
    assert store.seasons.end_submissions("s1") == (["mine"], 1)
    for refused in (
        lambda: ladder.submit(store, "mine", "three", "Ada"),
        lambda: add(store, ada, "late"),
    ):
        with pytest.raises(SubmissionError, match="season s1 has taken in bots until"):
            refused()
    lease = claim(store)
    assert store.seasons.end_submissions("s1") == (["mine"], 1)
    assert accept(store, lease, "three")
    assert store.submissions.get(early.id).state is ACCEPTED
    lineup = [newest, others[0].id, store.bots.get("another").current.id]
    for games, left in ((9, ["mine"]), (3, [])):
        assert store.seasons.end_submissions("s1") == (["mine"], 0)
        store.jobs.add(season, ladder.rotations(lineup, games))
        ladder.play_all(store, season)
        assert store.seasons.end_submissions("s1") == (left, 0)
    store.seasons.close("s1")
    assert store.seasons.end_submissions("s1") == ([], 0)


def test_strangers_bots_and_seasons_without_a_sandbox_never_meet(store: Store, ada: int) -> None:
    trusted = SeasonSettings(name="trusted", isolation="process")
    waiting = add(store, ada, "one")
    store.seasons.open(trusted, ladder.SEED)
    words = "season trusted plays bots without a sandbox"
    with pytest.raises(SubmissionError, match=words):
        add(store, ada, "two")
    lease = claim(store)
    for refused in (
        partial(accept, store, lease, "one"),
        partial(known, store, lease, "mine", "other"),
    ):
        with pytest.raises(SubmissionError, match=words):
            refused()
    assert add(store, ada, "three", needs_sandbox=False).state is QUEUED
    store.seasons.close("trusted")
    assert accept(store, lease, "one")
    assert store.submissions.get(waiting.id).state is ACCEPTED
    trusted = structs.replace(trusted, name="again")
    with pytest.raises(SeasonError, match="bots of strangers, such as 'mine', would run without"):
        store.seasons.open(trusted, ladder.SEED)
    store.bots.disable("mine", "it is a stranger's")
    store.seasons.open(trusted, ladder.SEED)


@pytest.mark.databases
def test_a_submission_is_nobody_elses(store: Store, ada: int, bob: int) -> None:
    added = add(store, ada, "one")
    with pytest.raises(NotOnLadder) as of_another:
        store.submissions.get(added.id, bob)
    with pytest.raises(NotOnLadder) as of_nobody:
        store.submissions.get(added.id + 1, bob)
    assert str(of_another.value).replace(str(added.id), "N") == str(of_nobody.value).replace(
        str(added.id + 1), "N"
    )
    assert store.submissions.of_author(bob, 10) == []
    two = add(store, ada, "two")
    assert [one.id for one in store.submissions.of_author(ada, 10)] == [two.id, added.id]
    assert [one.id for one in store.submissions.of_author(ada, 1)] == [two.id]


def submit_one(store: Store) -> None:
    """Submit a bot, as the front does."""
    add(store, an_author(store, "Ada"), "one")


@pytest.mark.slow
@EVERYWHERE
def test_a_front_killed_at_any_moment_leaves_a_whole_submission_or_none(
    store: Store, target: str, step: int
) -> None:
    ada, number = an_author(store, "Ada"), 0
    while True:
        number += step
        ended = killed_at(number, submit_one, target)
        assert rows(store) in ((0, 0), (1, 2))
        if rows(store) == (1, 2):
            assert add(store, ada, "one").state is QUEUED
            assert rows(store) == (1, 2)  # the same key: the same submission
            break
        assert ended is None
    assert number > 5


def test_nothing_of_a_blocked_author_is_accepted(store: Store, ada: int) -> None:
    add(store, ada, "one")
    lease = claim(store)
    store.authors.set_blocked("Ada", MACHINE, blocked=True)
    for step in (
        partial(known, store, lease, "mine", "one"),
        partial(accept, store, lease, "one"),
    ):
        with pytest.raises(SubmissionError, match="this author is blocked"):
            step()


@pytest.mark.databases
def test_a_deadline_is_moved_and_an_author_gets_more_time(store: Store, ada: int, bob: int) -> None:
    at = milliseconds(add(store, ada, "early").created_at)
    season = store.seasons.open(ladder.a_season(), ladder.SEED, submissions_until=at + 10**9)
    stored = store.seasons.set_deadline("s1", at + 2 * 10**9, MACHINE)
    assert stored.submissions_until == at + 2 * 10**9
    store.seasons.extend("s1", "bob", at + 3 * 10**9, MACHINE)
    (extension,) = store.seasons.extensions()[season.id]
    assert (extension.author, milliseconds(extension.until)) == ("Bob", at + 3 * 10**9)
    ladder.write(store, "UPDATE seasons SET submissions_until = :until", until=at + 1)
    with pytest.raises(SubmissionError, match="that time is over"):
        add(store, ada, "late")
    late = add(store, bob, "late", "bobs")
    assert late.state is QUEUED
    assert ladder.submit(store, "new", author="Bob").number == 1
    assert store.seasons.deadline_of("s1", bob) == at + 3 * 10**9
    assert store.seasons.submission_window(bob) == SubmissionWindow(at + 3 * 10**9, "")
    assert store.seasons.deadline_of("s1", ada) == at + 1
    store.seasons.extend("s1", "Bob", None, MACHINE)
    with pytest.raises(SubmissionError, match="that time is over"):
        add(store, bob, "later", "bobs")
    # What came in time is taken in whatever is changed later.
    early, bobs = claim(store), claim(store)
    assert (early.author_id, bobs.author_id) == (ada, bob)
    assert bobs.id == late.id
    assert accept(store, bobs, "late")
    store.seasons.set_deadline("s1", at + 10**9, MACHINE)
    assert add(store, ada, "again in time").state is QUEUED
    store.seasons.set_deadline("s1", None, MACHINE)
    assert store.seasons.get("s1").submissions_until is None
    notes = [entry.note for entry in ladder.audited(store, AuditKind.SEASON)]
    assert notes[0] == "takes in bots until it is closed"
    assert notes[2] == "may submit to season s1 no longer than others"


def test_a_deadline_that_makes_no_sense_is_refused(store: Store, ada: int) -> None:
    season = store.seasons.open(ladder.a_season(), ladder.SEED)
    at = season.created_at
    for wrong, words in (
        (lambda: store.seasons.set_deadline("s1", at, MACHINE), "that time is over"),
        (lambda: store.seasons.extend("s1", "Ada", at + 10**9, MACHINE), "has no deadline"),
        (lambda: store.seasons.set_deadline("s2", at + 10**9, MACHINE), "no season 's2'"),
    ):
        with pytest.raises(LadderError, match=words):
            wrong()
    store.seasons.set_deadline("s1", at + 10**9, MACHINE)
    for author, until, words in (
        ("Ada", at + 10**8, "everybody's bots until"),
        ("Eve", at + 10**10, "no author 'Eve'"),
    ):
        with pytest.raises(LadderError, match=words):
            store.seasons.extend("s1", author, until, MACHINE)
    assert store.seasons.extensions() == {}


def test_who_closes_a_season_ends_every_extension(store: Store, ada: int) -> None:
    season = store.seasons.open(ladder.a_season(), ladder.SEED)
    store.seasons.set_deadline("s1", season.created_at + 10**9, MACHINE)
    store.seasons.extend("s1", "Ada", season.created_at + 10**10, MACHINE)
    store.seasons.end_submissions("s1")
    with pytest.raises(SubmissionError, match="that time is over"):
        add(store, ada, "late")
    # Also after the deadline, when the season is only waited for.
    store.seasons.set_deadline("s1", season.created_at + 10**9, MACHINE)
    store.seasons.extend("s1", "Ada", season.created_at + 10**10, MACHINE)
    ladder.write(store, "UPDATE seasons SET submissions_until = created_at + 1")
    assert add(store, ada, "with more time").state is QUEUED
    assert store.seasons.end_submissions("s1") == ([], 1)
    assert store.seasons.extensions() == {}
    with pytest.raises(SubmissionError, match="that time is over"):
        add(store, ada, "later still")
    store.seasons.set_deadline("s1", season.created_at + 10**9, MACHINE)
    store.seasons.extend("s1", "Ada", season.created_at + 10**10, MACHINE)
    store.seasons.close("s1")
    assert store.seasons.extensions() == {}
    with pytest.raises(SeasonClosed, match="season s1 is closed and takes in no bots"):
        store.seasons.set_deadline("s1", None, MACHINE)
