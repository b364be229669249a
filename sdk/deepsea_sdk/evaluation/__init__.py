"""Evaluation of positions: the expected score of each seat, by a small net.

    from deepsea_sdk.evaluation import choices

    values = choices(view)      # {"leave": 0.52, "take": 0.57}

A value is a placement score: the share of the others that a seat ends ahead of, 0.5 on average.
The net was trained in games with itself. `plain` evaluates one view without numpy, `arrays` many
positions at once, and `deepsea_sdk.train` trains weights.
"""

from .plain import (
    EVALUATION,
    Weights,
    WeightsError,
    choices,
    read_weights,
    sdk_weights,
    standings,
    values,
)

__all__ = [
    "EVALUATION",
    "Weights",
    "WeightsError",
    "choices",
    "read_weights",
    "sdk_weights",
    "standings",
    "values",
]
