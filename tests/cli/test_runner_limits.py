"""The limits of a runner: it says what it has, and `status` shows that, wherever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_arena import runner
from deepsea_arena.run_report import RunWatcher, Stop
from deepsea_arena.workers import local_workers
from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_referee.sandbox import cgroup
from deepsea_referee.sandbox.cgroup import Hierarchies
from helpers import ladder
from helpers.commands import Run


def test_status_shows_the_control_groups_that_the_runner_has(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ladder.db"
    monkeypatch.setenv("DEEPSEA_LADDER", str(place))
    with ladder.created(place) as store:
        ladder.to_play(store)
    assert "the runner:" not in run("ladder", "status").out
    has_all = Hierarchies(memory=place, pids=place, core=place, cpu=place)
    for places, words in (
        (has_all, "the runner: control groups are used for all"),
        (has_all, "the runner: control groups are used for all"),
        (has_all._replace(memory=None), "the runner: no control groups here for memory: see"),
    ):
        monkeypatch.setattr(cgroup, "hierarchies", lambda places=places: places)
        begin_and_end(place)
        monkeypatch.setattr(cgroup, "hierarchies", nobody_looks)
        assert words in run("ladder", "status").out
    with Store.open(place) as store:
        entries = ladder.audited(store, AuditKind.RUNNER)
    assert len(entries) == 2  # one for each change


def begin_and_end(place: Path) -> None:
    """Begin a run that is refused after it has said what it has."""
    with Store.open(place) as store:
        stop = Stop()
        stop.terminate()
        run_here(store, stop)
        stop.close()


def run_here(store: Store, stop: Stop) -> None:
    request = runner.RunRequest(season=None, games=None, forever=True)
    runner.run(store, request, local_workers(store, 1), RunWatcher(), stop)


def nobody_looks() -> Hierarchies:
    """The shell of `status` is not the runner."""
    raise UserError("status looked at its own control groups")
