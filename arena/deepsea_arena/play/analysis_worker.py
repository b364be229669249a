"""Analyses games in a worker process.

Invariants: no code of a bot runs here; nothing here knows the store; a worker sends a message for
each step of the game, so that its progress is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from deepsea_arena.coach.analysis import Analysis, AnalysisSettings
from deepsea_arena.coach.ladder_analyses import game_document, record_file
from deepsea_referee.system import SYSTEM
from deepsea_referee.workers import Link, Perform
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.record import GameRecord
from deepsea_sdk.coach.roll_outs import COACH_VERSION


@dataclass(frozen=True, slots=True)
class AnalyseGame:
    """The task to analyse a game."""

    record: str
    settings: AnalysisSettings


class Analysed(NamedTuple):
    """The result of an analysis, or why there is none."""

    policy: str
    """The policy of the roll-outs, with its version."""
    document: str
    """JSON; "" if the record makes no sense."""
    problem: str = ""


@contextmanager
def analysis_worker(link: Link, *, gives_way: bool = True) -> Iterator[Perform]:
    """Set up a worker that analyses games, and sends how many more steps it has looked at.

    gives_way  whether it takes what others leave of the CPU
    """
    if gives_way:
        SYSTEM.give_way()

    def perform(task: AnalyseGame) -> Analysed:
        return analyse(task, link.send)

    yield perform


def analyse(task: AnalyseGame, on_steps: Callable[[int], object]) -> Analysed:
    """Analyse a game; `on_steps` receives how many more steps have been looked at."""
    try:
        record = GameRecord.from_json(task.record)
        analysis = Analysis([(record_file(record.game_id), record)], task.settings)
    except InvalidRecord as error:
        return Analysed(COACH_VERSION, "", str(error))
    (found,) = analysis.run(on_steps=on_steps)
    return Analysed(COACH_VERSION, game_document(found, task.settings))
