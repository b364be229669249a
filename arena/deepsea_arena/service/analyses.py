"""Analyses of games: any author may ask for one, everybody may see what was found.

Invariants: a game that is not public is one that there is not; asking for what is there, or waits,
is no new analysis and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from deepsea_arena.ladder_analyses import (
    AnalysisFound,
    LadderAnalysis,
    analyses_of,
    found_of,
    plan,
    shown,
)
from deepsea_arena.service.caller import Caller
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Flow, Method
from deepsea_ladder.accounts import Role, Scope
from deepsea_ladder.errors import NotOnLadder


@dataclass(frozen=True, slots=True)
class AnalysisStep:
    """The present state of an analysis."""

    analysis: LadderAnalysis


def request_analysis(service: LadderService, caller: Caller, *, game_id: str = "") -> AnalysisStep:
    """Ask for the analysis of a game."""
    service.public.games.record(game_id)  # what is under embargo is not there
    found = service.store.analyses.request(
        game_id, caller.author_id or None, plan(), service.limits
    )
    return AnalysisStep(shown(found))


def get_analysis(service: LadderService, caller: Caller, *, game_id: str = "") -> AnalysisFound:
    """What there is of a game."""
    return found_of(service.public, game_id)


def watch_analysis(
    service: LadderService, caller: Caller, *, game_id: str = ""
) -> Iterator[AnalysisStep | None]:
    """Follow the analysis of a game that was asked for last, until it has ended."""
    service.public.games.record(game_id)
    found = analyses_of(service.public, game_id).last
    if found is None:
        raise NotOnLadder("nobody has asked for an analysis of that game")
    return _steps(service, found)


def _steps(service: LadderService, found: LadderAnalysis) -> Iterator[AnalysisStep | None]:
    yield AnalysisStep(found)
    while not found.state.is_final:
        before, found = found, shown(service.store.analyses.get(found.id))
        yield None if found == before else AnalysisStep(found)


ANALYSES: Final = (
    Method(
        name="RequestAnalysis",
        handler=request_analysis,
        role=Role.AUTHOR,
        scope=Scope.SUBMIT,
        verb="POST",
        path="/games/{game_id}/analysis",
    ),
    Method(name="GetAnalysis", handler=get_analysis, path="/games/{game_id}/analysis"),
    Method(
        name="WatchAnalysis",
        handler=watch_analysis,
        flow=Flow.WATCH,
        path="/games/{game_id}/analysis/steps",
    ),
)
