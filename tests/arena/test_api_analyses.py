"""Analyses over the service: asked for by authors within limits, read by everybody."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deepsea_arena import ladder_analyses
from deepsea_arena.analysis import AnalysisSettings
from deepsea_arena.api.errors import ApiError, RefusalKind, refusal_of
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE, LadderService, visitor
from deepsea_arena.ladder_analyses import plan
from deepsea_arena.task_workers import AnalyseGame, analyse
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_ladder.errors import LadderError
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.model import TaskState
from deepsea_ladder.store import Store
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.coach.roll_outs import COACH_VERSION as VERSION
from helpers.submissions import LIMITS, an_author

QUEUED, RUNNING = TaskState.QUEUED, TaskState.RUNNING
DONE, FAILED = TaskState.DONE, TaskState.FAILED
QUICK = AnalysisSettings(effort=Effort.of(2), luck=2)


@pytest.fixture
def service(played: Store) -> LadderService:
    """A ladder whose authors may ask for two analyses a day."""
    limits: RemoteLimits = replace(LIMITS, analyses_per_day=2)
    return LadderService(played, entropy=lambda: b"", limits=limits)


def author(service: LadderService, name: str = "anna-senior") -> Caller:
    """An author with a token that may submit."""
    number = an_author(service.store, name)
    scopes = frozenset((Scope.READ, Scope.SUBMIT))
    return Caller(author=name, author_id=number, role=Role.AUTHOR, scopes=scopes)


def refused(service: LadderService, caller: Caller, name: str, game_id: str) -> ApiError:
    """The refusal of a call."""
    with pytest.raises((ApiError, LadderError)) as info:
        getattr(LocalLadder(service, caller), name)(game_id=game_id)
    return refusal_of(info.value)


def test_an_author_asks_and_everybody_reads(service: LadderService) -> None:
    anna = author(service)
    asked = LocalLadder(service, anna).request_analysis(game_id="s1-1")
    assert (asked.state, asked.ahead, asked.policy, asked.outdated) == (QUEUED, 0, VERSION, False)
    seen = LocalLadder(service, visitor()).analysis(game_id="s1-1")
    assert (seen.done, seen.last, seen.document) == (None, asked, "")
    steps = LocalLadder(service, visitor()).watch_analysis(game_id="s1-1")
    assert next(filter(None, steps)) == asked
    assert next(steps) is None
    lease = service.store.analyses.claim("runner", 60)
    assert lease is not None
    assert next(filter(None, steps)).state is RUNNING
    found = analyse(AnalyseGame(lease.record, QUICK), int)
    assert service.store.analyses.finish(lease, found.policy, found.document, LIMITS)
    assert [step and step.state for step in steps] == [DONE]
    seen = LocalLadder(service, visitor()).analysis(game_id="s1-1")
    assert seen.done == seen.last
    assert seen.document == found.document
    assert not seen.may_be_asked
    frames = json.loads(LocalLadder(service, visitor()).frames(game_id="s1-1", seat=1))
    assert frames["policy"] == VERSION
    assert any("judged" in one for one in frames["decisions"])


def test_what_is_not_there_is_not_found(service: LadderService) -> None:
    for caller in (author(service), MACHINE):
        for game in ("s1-99", "", "../x", "s1-1\x00"):
            for name in ("request_analysis", "analysis", "watch_analysis"):
                assert refused(service, caller, name, game).kind is RefusalKind.NOT_FOUND
    assert service.store.analyses.queue() == []
    assert refused(service, visitor(), "watch_analysis", "s1-1").kind is RefusalKind.NOT_FOUND


def test_one_by_other_settings_is_outdated(
    service: LadderService, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = author(service)
    first = LocalLadder(service, anna).request_analysis(game_id="s1-1")
    lease = service.store.analyses.claim("runner", 60)
    assert lease is not None
    assert service.store.analyses.finish(lease, VERSION, "{}", LIMITS)
    done = LocalLadder(service, anna).analysis(game_id="s1-1").done
    assert done is not None
    assert not done.outdated
    monkeypatch.setattr(plan, "__defaults__", (QUICK,))
    assert ladder_analyses.plan() == plan(QUICK)
    seen = LocalLadder(service, anna).analysis(game_id="s1-1")
    assert seen.done is not None
    assert seen.done.outdated
    assert seen.may_be_asked
    assert LocalLadder(service, anna).request_analysis(game_id="s1-1").id != first.id
