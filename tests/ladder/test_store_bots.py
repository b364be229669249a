"""Authors, bots, versions and seasons in the store."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from deepsea_bundle.atomic import stored_files
from deepsea_bundle.errors import BundleError
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.errors import SeasonError, StoreDamaged, StoreError, SubmissionError
from deepsea_ladder.model import BotState, ReceiptStatus, TaskState
from deepsea_ladder.store import Store, schema
from deepsea_rules.randomness import commitment, game_seed
from helpers import ladder


def test_a_submitted_bot_is_there_for_everybody(store: Store, another: Callable[[], Store]) -> None:
    submission = ladder.a_bundle("one")
    version = store.bots.submit("greedy", "Ada", submission)
    bot = another().bots.get("greedy")
    assert (bot.author, bot.state, bot.current) == ("Ada", BotState.ACTIVE, version)
    assert (version.number, version.digest) == (1, submission.digest)
    assert version.label == "greedy v1"
    assert another().bots.archive(version.digest) == submission.archive


def test_submitting_again_makes_a_new_version_and_keeps_the_old(store: Store) -> None:
    first = ladder.submit(store, "greedy", "one", "Ada")
    second = ladder.submit(store, "Greedy", "two", "ada")
    assert (second.number, second.bot) == (2, "greedy")
    assert store.bots.versions("greedy") == [first, second]
    assert store.bots.get("greedy").current == second


def test_the_same_files_under_two_names_are_kept_once(store: Store) -> None:
    one = ladder.submit(store, "greedy", "same")
    two = ladder.submit(store, "grabby", "same")
    assert one.digest == two.digest
    assert one.id != two.id


@pytest.mark.databases
def test_files_are_kept_packed(store: Store) -> None:
    version = ladder.submit(store, "greedy", "x" * 1_000_000)
    with store.database.read() as connection:
        content = connection.execute(select(schema.archives.c.content)).scalar_one()
    assert len(content) < 10_000
    assert len(store.bots.archive(version.digest)) > 1_000_000


def test_stored_files_that_are_damaged_are_named(store: Store) -> None:
    version = ladder.submit(store, "greedy")
    ladder.write(store, update(schema.archives).values(content=b"junk"))
    with pytest.raises(StoreDamaged, match=f"the stored files of {version.digest} are damaged"):
        store.bots.archive(version.digest)


def test_submitting_what_plays_already_changes_nothing(store: Store) -> None:
    version = ladder.submit(store, "greedy", "one")
    assert ladder.submit(store, "greedy", "one") == version
    store.bots.disable("greedy", "it snores")
    with pytest.raises(SubmissionError, match="greedy is disabled: it snores; ask whoever"):
        ladder.submit(store, "greedy", "one")


def test_an_older_version_may_be_submitted_again(store: Store) -> None:
    numbers = [ladder.submit(store, "greedy", text).number for text in ("one", "two", "one")]
    assert numbers == [1, 2, 3]


@pytest.mark.databases
def test_files_of_another_bot_of_the_author_are_refused_as_long_as_it_plays(store: Store) -> None:
    ladder.submit(store, "greedy", "one", "Ada")
    ladder.submit(store, "second", "two", "Ada")
    for name in ("copy", "second"):
        with pytest.raises(SubmissionError, match="these files are those of 'greedy', which plays"):
            ladder.submit(store, name, "one", "ada")
    assert [bot.current.number for bot in store.bots.all()] == [1, 1]
    ladder.submit(store, "theirs", "one", "Ben")  # another author may have the same idea
    ladder.submit(store, "greedy", "three", "Ada")
    ladder.submit(store, "second", "one", "Ada")  # what was a version of greedy is nobody's now
    store.bots.withdraw("second")
    ladder.submit(store, "copy", "one", "Ada")


def test_a_name_belongs_to_the_author_who_had_it_first(store: Store) -> None:
    ladder.submit(store, "greedy", "one", "Ada")
    with pytest.raises(
        SubmissionError, match="the bot 'greedy' is another author's; choose another name"
    ):
        ladder.submit(store, "GREEDY", "two", "Bob")
    assert [bot.name for bot in store.bots.all()] == ["greedy"]


@pytest.mark.parametrize("name", ["", "x" * 41, "a b", "greedy-v3"])
def test_names_that_the_rule_refuses_are_not_stored(store: Store, name: str) -> None:
    """The rule itself: tests/cli/test_names.py."""
    with pytest.raises(BundleError):
        store.bots.submit(name, "Ada", ladder.a_bundle("one"))
    if name not in ("a b", "a ", "אבג", "ｇreedy", "é"):  # people are called so
        with pytest.raises(BundleError):
            store.bots.submit("greedy", name, ladder.a_bundle("one"))
    assert store.bots.all() == []


def test_taking_out_and_bringing_back_says_why(store: Store) -> None:
    ladder.submit(store, "greedy")
    store.bots.disable("greedy", "it\x1b snores")
    bot = store.bots.get("greedy")
    assert (bot.state, bot.reason) == (BotState.DISABLED, "it\\x1b snores")
    store.bots.enable("greedy")
    bot = store.bots.get("greedy")
    assert (bot.state, bot.reason) == (BotState.ACTIVE, None)
    store.bots.withdraw("greedy")
    assert store.bots.get("greedy").state is BotState.WITHDRAWN
    ladder.submit(store, "greedy", "better")
    assert store.bots.get("greedy").state is BotState.ACTIVE
    kinds = ["submitted", "disabled", "enabled", "withdrawn", "submitted"]
    assert [entry.kind for entry in reversed(store.audit.latest())] == [*map(AuditKind, kinds)]
    (disabled,) = ladder.audited(store, AuditKind.DISABLED)
    assert (disabled.subject, disabled.note) == ("greedy", "it\\x1b snores")


def test_a_bot_that_is_taken_out_gets_none_of_its_waiting_games(store: Store) -> None:
    season = ladder.stocked(store, bots=5)
    a, b, c, d, e = ladder.ids(store)
    store.jobs.add(season, [[[a, b, c, d]], [[b, c, d, e]], [[e, d, c, b]]])
    played = ladder.claim(store, season)
    store.bots.withdraw("anna")
    store.bots.disable("eve", "it snores")
    cancelled = store.queue.listed(season, TaskState.CANCELLED)
    assert [job.note for job in cancelled] == ["eve is disabled", "eve is disabled"]
    # What is being played counts.
    assert store.games.report(played, ladder.play(played)).seq == 1


def test_the_former_version_plays_what_was_arranged_for_it(store: Store) -> None:
    season = ladder.stocked(store)
    former = ladder.ids(store)
    store.jobs.add(season, ladder.rotations(former, 1))
    ladder.submit(store, "anna", "better")
    job = ladder.claim(store, season)
    assert [version.id for version in job.seats] == former


@pytest.mark.databases
def test_unknown_names_are_said(store: Store) -> None:
    ladder.stocked(store, bots=0)
    with pytest.raises(StoreError, match="there is no bot 'nobody' on this ladder"):
        store.bots.get("nobody")
    with pytest.raises(StoreError, match="there is no season 's2'; there are s1"):
        store.seasons.get("s2")
    with pytest.raises(StoreError, match="no version has the digest ffff"):
        store.bots.archive("ffff")


@pytest.mark.databases
def test_a_season_is_stored_as_it_was_opened(store: Store, another: Callable[[], Store]) -> None:
    season = ladder.a_season(seats=(2, 3))
    store.seasons.open(season, ladder.SEED)
    stored = another().seasons.get("s1")
    assert stored.settings == season
    assert stored.commitment == commitment(ladder.SEED)
    assert another().seasons.all() == [stored]
    with pytest.raises(SeasonError, match="there is a season 's1' already"):
        store.seasons.open(season, ladder.SEED)


def test_seeds_of_games_follow_from_the_season_and_are_shown_when_it_closes(store: Store) -> None:
    season = ladder.to_play(store, 3)
    first, second = (ladder.claim(store, season) for _ in range(2))
    assert first.seed == game_seed(ladder.SEED, 1)
    assert second.seed == game_seed(ladder.SEED, 2)
    # As long as games are in play, the seed is nobody's.
    assert store.seasons.close("s1") == (None, 2)
    with pytest.raises(StoreError, match="the season 's1' is closed"):
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
    # What is being played counts, what waits is not played, nor what comes back.
    assert store.games.report(first, ladder.play(first)).seq == 1
    assert store.jobs.fail(second, "no luck").status is TaskState.CANCELLED
    assert store.jobs.claim(season, "worker", 60) == []
    assert store.queue.counts(season).cancelled == 2
    for _ in range(2):
        assert store.seasons.close("s1") == (ladder.SEED.hex(), 0)


def test_expired_leases_of_a_closed_season_are_not_waited_for(store: Store) -> None:
    season = ladder.to_play(store, 3)
    dead = ladder.claim(store, season, "dead", seconds=0)
    assert store.seasons.close("s1") == (ladder.SEED.hex(), 0)
    assert store.queue.counts(season).cancelled == 3
    assert [one.game_id for one in store.queue.lost(season)] == [dead.game_id]
    late = store.games.report(dead, ladder.play(dead))
    assert (late.status, late.reason) == (ReceiptStatus.REFUSED, "the season was closed")
    assert late.is_late


@pytest.mark.databases
def test_a_result_after_the_seed_was_shown_is_refused_why_ever_its_game_was_cancelled(
    store: Store,
) -> None:
    season = ladder.to_play(store, 3)
    dead, stuck = (ladder.claim(store, season) for _ in range(2))
    records = [ladder.play(job) for job in (dead, stuck)]
    store.bots.withdraw("ben")
    ladder.write(
        store,
        f"UPDATE tasks SET failures = 99 WHERE subject = {stuck.id}",
        f"UPDATE tasks SET until = 0 WHERE subject = {dead.id}",
    )
    store.jobs.fail(stuck, "no luck")
    assert store.queue.counts(season).quarantined == 1
    assert store.seasons.close("s1") == (ladder.SEED.hex(), 0)
    for job, record in zip((dead, stuck), records, strict=True):
        late = store.games.report(job, record)
        assert (late.status, late.is_late) == (ReceiptStatus.REFUSED, True)
    assert store.ratings.last_seq() == 0


@pytest.mark.parametrize("content", [b"no zlib", zlib.compress(b"no zip")])
def test_a_bot_whose_files_are_damaged_is_taken_out_and_the_others_play_on(
    store: Store, content: bytes
) -> None:
    season = ladder.stocked(store, bots=5)
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[:4], 4))
    digest = store.bots.get("ben").current.digest
    damage = "UPDATE archives SET content = :content WHERE digest = :digest"
    ladder.write(store, damage, content=content, digest=digest)
    receipt = store.jobs.fail(ladder.claim(store, season), "its files are damaged")
    assert (receipt.status, receipt.suspended) == (TaskState.CANCELLED, ("ben",))
    bot = store.bots.get("ben")
    assert bot.state is BotState.SUSPENDED
    assert bot.reason is not None
    assert bot.reason.startswith("the stored files of ben v1 are damaged: ")
    assert store.queue.counts(season).quarantined == 0


@pytest.mark.parametrize("author_first", ["ben-senior", "eve-senior"])
def test_authors_bring_damaged_files_back_by_submitting_them_again(
    store: Store, author_first: str
) -> None:
    """Two authors with the same files: each gets the own bot back, in either order."""
    season = ladder.stocked(store)
    ladder.submit(store, "copy", "ben", "eve-senior")
    digest = store.bots.get("ben").current.digest
    store.jobs.add(season, ladder.rotations(ladder.ids(store)[1:], 4))
    damage = "UPDATE archives SET content = :content WHERE digest = :digest"
    ladder.write(store, damage, content=b"no zlib", digest=digest)
    receipt = store.jobs.fail(ladder.claim(store, season), "its files are damaged")
    assert receipt.suspended == ("ben", "copy")
    by_author = {"ben-senior": "ben", "eve-senior": "copy"}
    for author in sorted(by_author, key=lambda name: name != author_first):
        name, files = by_author[author], ladder.a_bundle("ben")
        with pytest.raises(SubmissionError, match="submit it again; submit them under that name"):
            store.bots.submit("another", author, files)
        version = store.bots.submit(name, author, files)
        bot = store.bots.get(name)
        assert (version, bot.state, bot.reason) == (bot.current, BotState.ACTIVE, None)
        assert version.number == 1
        assert stored_files(store.bots.archive(digest), digest) == files.files
    # Of one that was suspended since then, for its strikes, the same files are not enough.
    ladder.write(store, "UPDATE bots SET state = 'suspended', reason = 'x' WHERE name = 'ben'")
    with pytest.raises(SubmissionError, match="submit it with other files"):
        store.bots.submit("ben", "ben-senior", ladder.a_bundle("ben"))
