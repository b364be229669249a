"""The referee of Deep Sea Adventure bot games, for programs of your own.

    from deepsea_referee import run_comparison, run_match

    result = run_match(["my_bot.py", "greedy"], games=20, in_process=True)
    for bot in result.summaries():
        print(bot.name, bot.mean_points, bot.faults)

What is not offered here is internal and changes without notice. To read the code, start at
`match.py`.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsea_referee.errors import RefereeError, UserError
    from deepsea_referee.script import run_comparison, run_match
    from deepsea_referee.summary import BotHangs, BotSummary, GameResult, MatchResult, VoidGame
    from deepsea_referee.workbench.comparison import Comparison
    from deepsea_referee.workbench.confidence import ConfidenceSequence

__all__ = [
    "BotHangs",
    "BotSummary",
    "Comparison",
    "ConfidenceSequence",
    "GameResult",
    "MatchResult",
    "RefereeError",
    "UserError",
    "VoidGame",
    "run_comparison",
    "run_match",
]

_NAMES_BY_MODULE = {
    "errors": ("RefereeError", "UserError"),
    "summary": ("BotHangs", "BotSummary", "GameResult", "MatchResult", "VoidGame"),
    "script": ("run_comparison", "run_match"),
    "workbench.comparison": ("Comparison",),
    "workbench.confidence": ("ConfidenceSequence",),
}

# What is logged here goes to whoever listens, and not to stderr by itself: the results report it.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    # On demand: every module of this package imports this one, and most do without gRPC.
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
