"""T18: wants its games played again. It says which deals it was given. Arguments: how, how often.

"sleeps" for 200 ms, as soon as it may have other games on; "exits" once.
"""

from __future__ import annotations

import os
import sys
import time

from attacks.guard import insist, say

insist()
from deepsea_sdk import Bot, GameInfo, View, run  # noqa: E402

how, every = sys.argv[1], int(sys.argv[2])


class SecondTry(Bot):
    """Answers at once but for every so many-th decision of all its games."""

    concurrent_games = True
    asked = 0

    def on_game_start(self, info: GameInfo) -> None:
        """Say which deal it is."""
        say({"deal": info.commitment})

    def decide(self, view: View) -> str:
        """Play the default action."""
        SecondTry.asked += 1
        if SecondTry.asked % every == 0:
            if how == "exits":
                os._exit(1)
            time.sleep(0.2)
        return str(view.legal[0])


run(SecondTry)
