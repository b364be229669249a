"""The features of a view are those that the plain way makes of it, to the bit."""

from __future__ import annotations

import pytest

pytest.importorskip(
    "numpy", reason="the extra is not installed: pip install 'deepsea-sdk[pettingzoo]'"
)


from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk.features import HEAD, PER_SPACE, SPACES, features


def test_an_array_belongs_to_whoever_asked_for_it() -> None:
    view = Game(PRESETS["manual"], 2, seed_from_text("own")).view(0)
    first = features(view)
    first *= 0
    assert not first.any()
    assert features(view)[HEAD : HEAD + PER_SPACE * SPACES].any()


def test_a_watcher_has_no_features() -> None:
    with pytest.raises(ValueError, match="watcher"):
        features(Game(PRESETS["manual"], 2, seed_from_text("watch")).view(None))
