"""A machine without memory or CPU: no bot is blamed, it is done again, the operator learns it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from deepsea_arena.admission import play_admission
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store
from deepsea_referee import match
from deepsea_referee.bots.resolve import bundle_for_ladder
from deepsea_referee.errors import HostOutOfMemory, HostTooBusy
from deepsea_referee.sandbox import process_tree
from deepsea_referee.workers import Task, TaskFailure, WorkerEvent
from helpers import ladder
from helpers.kinds import TASKS, InlineWorker, contents, do_what_waits
from helpers.programs import lines_bot

CONTENTS = contents
WORDS = "this machine ran out of memory, and the kernel ended 'one'"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("error", "noted", "age"),
    [
        (HostOutOfMemory(WORDS), AuditKind.OUT_OF_MEMORY, "shortage_age_seconds"),
        (HostTooBusy(WORDS, 12_000_000, 0), AuditKind.STARVED, "starved_age_seconds"),
    ],
    ids=["memory", "a CPU"],
)
def test_a_task_that_wanted_for_something_is_noted_and_done_again(
    store: Store, task: str, error: Exception, noted: AuditKind, age: str
) -> None:
    kind, failures = TASKS[task], count()

    def steps(argument: Task) -> Iterator[WorkerEvent]:
        if next(failures) == 0:
            yield TaskFailure(argument, error)
        else:
            yield from kind.steps(argument)

    kind.ask(store, 0)
    assert getattr(store.counts.read(), age) is None
    do_what_waits(store, task, InlineWorker(steps))
    (entry,) = ladder.audited(store, noted)
    assert entry.note == WORDS
    assert getattr(store.counts.read(), age) is not None
    kind.check(store, 0)


def test_a_bot_that_gets_no_cpu_in_its_check_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_cpu(*_: object, **__: object) -> None:
        raise HostTooBusy("the host was too busy", 12_000_000, 1)

    monkeypatch.setattr(match, "play_game", no_cpu)
    lines_bot(tmp_path, "short")
    bundle = bundle_for_ladder(str(tmp_path / "short"), None)
    season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
    with pytest.raises(HostTooBusy, match="the game is void: the host was too busy") as raised:
        play_admission(bundle, (season,))
    assert raised.value.seat is not None


SHORT = f"import os; os.kill(os.getpid(), {signal.SIGKILL.value})"


@pytest.mark.parametrize("moment", ["start", "before"])
def test_a_bot_that_the_kernel_ends_for_want_of_memory_is_checked_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before it had connected: "killed by SIGKILL"."""
    lines_bot(tmp_path, "short", **{moment: SHORT})
    bundle = bundle_for_ladder(str(tmp_path / "short"), None)
    season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
    # The kernel may end the programs of other tests meanwhile.
    monkeypatch.setattr(process_tree, "oom_kills", lambda: 0)
    refusal = play_admission(bundle, (season,))
    assert refusal is not None  # it has ended itself
    assert "SIGKILL" in refusal.found
    kills = count()
    monkeypatch.setattr(process_tree, "oom_kills", lambda: next(kills))
    with pytest.raises(HostOutOfMemory, match="ran out of memory, and the kernel ended 'short"):
        play_admission(bundle, (season,))
