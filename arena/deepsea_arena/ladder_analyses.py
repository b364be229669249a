"""Analyses of a ladder's games: how they are made, and how they are shown.

Invariants: one plan for all games, so that no game is looked at longer than another; a result
is the document that `analyse --json` writes of the same record, as one compact line without times;
the analysis itself is imported by what needs it, and not by whoever shows a list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from deepsea_arena.documents import DocumentError, read_json
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model import AnalysisPlan, LadderAnalysis

if TYPE_CHECKING:
    from deepsea_arena.analysis import AnalysisSettings, GameAnalysis
    from deepsea_ladder.store import Store


class LadderAnalyses(Struct, frozen=True, kw_only=True):
    """The analyses of a game."""

    done: LadderAnalysis | None
    """The newest one that has a result."""
    last: LadderAnalysis | None
    """The one that was asked for last."""

    @property
    def may_be_asked(self) -> bool:
        """True if another one would be a new one."""
        last = self.last
        return last is None or (last.state.is_final and (self.done is None or self.done.outdated))


class AnalysisFound(LadderAnalyses, frozen=True, kw_only=True):
    """The analyses of a game, with the result of the newest."""

    document: str
    """JSON; "" without a result."""


def plan(settings: AnalysisSettings | None = None) -> AnalysisPlan:
    """The plan for a game: as `analyse --luck` without other options."""
    from deepsea_arena.analysis import LUCK_ROLLOUTS, AnalysisSettings
    from deepsea_arena.analysis_document import settings_data
    from deepsea_sdk.coach.decisions import Effort
    from deepsea_sdk.coach.roll_outs import COACH_VERSION

    settings = settings or AnalysisSettings(effort=Effort.to(), luck=LUCK_ROLLOUTS)
    return AnalysisPlan(COACH_VERSION, _compact(settings_data(settings)))


def settings_from(text: str) -> AnalysisSettings:
    """The settings of a plan. Raises DocumentError if they make no sense."""
    from deepsea_arena.analysis_document import SettingsDocument

    try:
        return read_json(SettingsDocument, text).settings
    except DocumentError as error:
        raise DocumentError(f"the settings of an analysis cannot be read: {error}") from None


def game_document(analysis: GameAnalysis, settings: AnalysisSettings) -> str:
    """The document of one game's analysis, as it is stored."""
    from deepsea_arena.analysis_document import document

    return _compact(document([analysis], settings))


def record_file(game_id: str) -> str:
    """The name of the record's file, as it is downloaded, and as documents have it."""
    return f"{game_id}.json"


def analyses_of(store: Store, game_id: str) -> LadderAnalyses:
    """The analyses of a game."""
    done, last = store.analyses.of_game(game_id, plan)
    return LadderAnalyses(done=done, last=last)


def found_of(store: Store, game_id: str) -> AnalysisFound:
    """The analyses of a game, with the newest result. Raises `NotOnLadder` if there is no game."""
    store.games.record(game_id)
    there = analyses_of(store, game_id)
    text = document_of(store, game_id) if there.done else ""
    return AnalysisFound(done=there.done, last=there.last, document=text)


def document_of(store: Store, game_id: str) -> str:
    """The document of a game's analysis; "" if there is none."""
    try:
        return store.analyses.document(game_id)
    except NotOnLadder:
        return ""


def _compact(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))
