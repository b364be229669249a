"""`ladder run` checks what was submitted from afar; a kill makes no second version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepsea_bundle.archive import pack
from deepsea_bundle.reader import read_bot
from deepsea_ladder.model import Submission, TaskState
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from helpers import ladder
from helpers.commands import Run, start
from helpers.programs import nothing_left_behind, opponent_in, source
from helpers.submissions import LIMITS, an_author, new

PATIENT = "10s+60s"
"""A clock that no machine is too slow for."""
HANG = """
        try:
            os.unlink({hang!r})
        except FileNotFoundError:
            return
        with open({pipe!r}, "w") as pipe:
            pipe.write(".")
        signal.pause()
"""


@pytest.fixture
def store(tmp_path: Path, place: Path) -> Iterator[Store]:
    """A ladder of trusted bots, two at a table, with two bots."""
    with ladder.created(place) as store:
        season = SeasonSettings(name="s1", seats=(2,), clock=PATIENT, isolation="process")
        store.seasons.open(season, ladder.SEED)
        for name in ("Ada", "Bob"):
            store.bots.submit(f"{name}s", name, read_bot(opponent_in(tmp_path, f"{name}s")))
        yield store


def zipped(deed: str, name: str = "mine") -> bytes:
    """A bot that does this at each decision."""
    manifest = f'name = "{name}"\ncommand = "python bot.py"\n'.encode()
    return pack({"bot.toml": manifest, "bot.py": source(deed).encode()})


def submit(store: Store, author: str, content: bytes, *, stranger: bool = False) -> int:
    """Submit an archive, from this machine or as a stranger; the submission's id."""
    wanted = new(an_author(store, author), content, needs_sandbox=stranger)
    return store.submissions.add(wanted, [content], LIMITS).id


def verdict(store: Store, number: int) -> Submission:
    """A submission that has its verdict."""
    found = store.submissions.get(number)
    assert found.state.is_final
    return found


@pytest.mark.slow
def test_a_run_checks_what_waits_before_it_plays(run: Run, store: Store) -> None:
    good = submit(store, "Ada", zipped("pass"))
    bad = submit(store, "Ada", zipped("print('hm', flush=True); raise RuntimeError('a bug')"))
    junk = submit(store, "Bob", b"no zip, and no Python either")
    waiting = run("ladder", "status").out
    assert "3 submissions: `ladder run` checks them" in waiting
    assert "  of Ada: queued" in waiting
    with nothing_left_behind():
        done = run("ladder", "run", "--games", 2)
    assert done.status == 0
    assert "submissions" not in run("ladder", "status").out
    accepted = verdict(store, good)
    assert (accepted.state, accepted.bot, accepted.version) == ("accepted", "mine", 1)
    assert (accepted.games, accepted.of_games) == (3, 3)
    refused = verdict(store, bad)
    assert (refused.state, refused.bot, refused.version) == ("refused", "mine", None)
    assert "against itself, 2 seats" in refused.found
    assert "a bug" in refused.error
    assert refused.log
    assert refused.remedy
    unread = verdict(store, junk)
    assert (unread.state, unread.games) == ("refused", 0)
    assert "/" not in unread.found
    assert "submission of Ada, mine: accepted, version 1" in done.err
    assert "submission of Ada, mine: refused, season s1, against itself" in done.err
    assert [version.number for version in store.bots.versions("mine")] == [1]
    assert store.bots.archive(accepted.digest)


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
def test_strangers_bots_are_checked_in_the_sandbox(run: Run, store: Store) -> None:
    store.seasons.close("s1")
    store.seasons.open(SeasonSettings(name="s2", seats=(2,), clock=PATIENT), ladder.SEED)
    number = submit(store, "Ada", zipped("assert not os.path.exists('/etc/passwd')"), stranger=True)
    curious = submit(store, "Bob", zipped("open('/etc/passwd')", "curious"), stranger=True)
    with nothing_left_behind():
        assert run("ladder", "run", "--games", 2).status == 0
    assert verdict(store, number).state == "accepted", verdict(store, number)
    assert verdict(store, curious).state == "refused"
    assert "FileNotFoundError" in verdict(store, curious).error


@pytest.mark.slow
def test_a_runner_that_is_killed_while_it_checks_leaves_one_version_in_the_end(
    run: Run, store: Store, tmp_path: Path
) -> None:
    hang, pipe = tmp_path / "hang", tmp_path / "pipe"
    os.mkfifo(pipe)
    number = submit(store, "Ada", zipped(HANG.format(hang=str(hang), pipe=str(pipe)).strip()))
    with nothing_left_behind():
        hang.touch()
        runner = start("ladder", "run", "--games", 1)
        assert pipe.read_text() == "."
        runner.kill()
        runner.communicate()
        found = store.submissions.get(number)
        assert found.state is TaskState.RUNNING
    assert store.tasks.owners() != []
    assert run("ladder", "run", "--games", 1).status == 0
    assert (verdict(store, number).state, verdict(store, number).version) == ("accepted", 1)
    assert len(store.bots.versions("mine")) == 1
    assert store.tasks.owners() == []
