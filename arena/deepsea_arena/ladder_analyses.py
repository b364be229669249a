"""Analyses of a ladder's games: the plan for them, and their stored documents.

Start reading at `plan` and `analyses_of`.

Invariants: one plan for all games, so that all are analysed with the same effort; a result is the
document that `analyse --json` writes of the same record, as one compact line without times; the
module of the analysis is imported only by functions that need it, and not by those of lists.
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
    """The newest analyses of a game."""

    done: LadderAnalysis | None
    """The newest analysis that has a result; None if none has."""
    last: LadderAnalysis | None
    """The analysis that was requested last; None if none was."""

    @property
    def may_be_asked(self) -> bool:
        """True if a new analysis of the game can be requested.

        It cannot while one is under way, or once there is a result by the present policy.
        """
        if self.last is None:
            return True
        is_under_way = not self.last.state.is_final
        has_present_result = self.done is not None and not self.done.outdated
        return not (is_under_way or has_present_result)


class AnalysisFound(LadderAnalyses, frozen=True, kw_only=True):
    """The analyses of a game, with the result of the newest."""

    document: str
    """The newest result as JSON; "" without a result."""


def plan(settings: AnalysisSettings | None = None) -> AnalysisPlan:
    """Return the plan by which games are analysed: the version of the coach, and the settings.

    Without settings these are those of `analyse --luck` without other options.
    """
    from deepsea_arena.analysis import LUCK_ROLLOUTS, AnalysisSettings
    from deepsea_arena.analysis_document import settings_data
    from deepsea_sdk.coach.decisions import Effort
    from deepsea_sdk.coach.roll_outs import COACH_VERSION

    settings = settings or AnalysisSettings(effort=Effort.to(), luck=LUCK_ROLLOUTS)
    return AnalysisPlan(COACH_VERSION, _compact(settings_data(settings)))


def settings_from(settings_json: str) -> AnalysisSettings:
    """Return the settings of an analysis from the JSON text in its stored plan.

    Raises DocumentError if the text cannot be read.
    """
    from deepsea_arena.analysis_document import SettingsDocument

    try:
        return read_json(SettingsDocument, settings_json).settings
    except DocumentError as error:
        raise DocumentError(f"the settings of an analysis cannot be read: {error}") from None


def game_document(analysis: GameAnalysis, settings: AnalysisSettings) -> str:
    """Return the analysis of one game as the JSON text that is stored."""
    from deepsea_arena.analysis_document import document

    return _compact(document([analysis], settings))


def record_file(game_id: str) -> str:
    """Return the name of a record's file, as it is downloaded and as documents name it."""
    return f"{game_id}.json"


def analyses_of(store: Store, game_id: str) -> LadderAnalyses:
    """Return the newest analyses of a game."""
    done, last = store.analyses.of_game(game_id, plan)
    return LadderAnalyses(done=done, last=last)


def analyses_and_document(store: Store, game_id: str) -> AnalysisFound:
    """Return the newest analyses of a game, with the document of the newest one that has a result.

    Raises NotOnLadder if there is no such game.
    """
    store.games.record(game_id)  # raises NotOnLadder
    analyses = analyses_of(store, game_id)
    document = document_of(store, game_id) if analyses.done else ""
    return AnalysisFound(done=analyses.done, last=analyses.last, document=document)


def document_of(store: Store, game_id: str) -> str:
    """Return the newest result of a game's analyses as JSON; "" if there is none."""
    try:
        return store.analyses.document(game_id)
    except NotOnLadder:
        return ""


def _compact(data: Mapping[str, Any]) -> str:
    """Return data as JSON without spaces."""
    return json.dumps(data, separators=(",", ":"))
