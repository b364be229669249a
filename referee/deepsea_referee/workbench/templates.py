"""The texts of bots that search or learn, for `new --template`.

Invariants: they are filled in with `str.format`; a bot needs no more than the SDK to play.
"""

from __future__ import annotations

SEARCH = '''\
"""{name}: tries each action many times in its head, and takes what did best.

What it cannot see is dealt at random, the same for every action, and in each of its turns a seat
rolls the same dice: actions are compared on equal luck. In these futures everyone plays `steady`.
"""

import random
from statistics import fmean, pstdev

from deepsea_sdk import Bot, GameInfo, TurnDice, View, roll_out, run, steady


class {class_name}(Bot):
    trials = 40
    """Of each action at most, if the clock allows."""
    concurrent_games = True
    chance = random.Random(1)

    def on_game_start(self, info: GameInfo) -> None:
        # The same game is thought through in the same way.
        self.chance = random.Random(f"{{info.commitment}}/{{info.seat}}")

    def decide(self, view: View) -> str:
        deadline = self.clock.deadline(0.5)  # the other half is for a busy machine
        found: dict[str, list[float]] = {{action: [] for action in view.legal}}
        for trial in range(1, self.trials + 1):
            if len(found) == 1 or self.clock.now() > deadline:
                break
            position = view.sample(self.chance)
            dice = TurnDice(self.chance, view.players)
            for action, leads in found.items():
                future = position.clone()
                future.apply(action)
                points = roll_out(future, dice, steady, to_end_of="dive")
                rivals = [other for seat, other in enumerate(points) if seat != view.me.seat]
                leads.append(points[view.me.seat] - fmean(rivals))
            if trial % 10 == 0:
                drop_those_behind(found)
        return max(found, key=lambda action: sum(found[action]))


def drop_those_behind(found: dict[str, list[float]]) -> None:
    """Race: what is clearly behind the best action, by three standard errors, is tried no more."""
    best = max(found.values(), key=sum)
    for action, leads in list(found.items()):
        gaps = [one - other for one, other in zip(best, leads, strict=True)]
        if fmean(gaps) * len(gaps) ** 0.5 > 3 * (pstdev(gaps) + 0.5):
            del found[action]


if __name__ == "__main__":
    run({class_name})
'''

LEARNED = '''\
"""{name}: takes the action that its net values most. The net is trained by `python train.py`.

To play, it needs neither numpy nor a search: an answer takes a millisecond.
"""

from pathlib import Path

from deepsea_sdk import Bot, Unit, View, run
from deepsea_sdk.evaluation import choices, read_weights

FILE = Path(__file__).with_name("net.weights")
if not FILE.exists():
    raise FileNotFoundError(f"{{FILE.name}} is missing: in the bot's folder, run: python train.py")
WEIGHTS = read_weights(FILE)


class {class_name}(Bot):
    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        return self.best(view) == "back"

    def search(self, view: View) -> str:
        return self.best(view)

    def stack_order(self, view: View) -> list[Unit]:
        """Asked when it has stranded: the net has no opinion on the order of its items."""
        return sorted(view.items, key=view.expected_value)

    def best(self, view: View) -> str:
        worth = choices(view, WEIGHTS)
        return max(worth, key=lambda action: worth[action])


if __name__ == "__main__":
    run({class_name})
'''

TRAIN = '''\
"""Trains the net in games with itself: python train.py, or python train.py ROUNDS.

Needs numpy: pip install -r train-requirements.txt. A round takes about a second. A training that
was stopped goes on when it is started again with the same ROUNDS.
"""

import sys
from pathlib import Path

from deepsea_sdk.train import main

FILE = Path(__file__).with_name("net.weights")
ROUNDS = sys.argv[1] if len(sys.argv) > 1 else "48"

sys.exit(main([str(FILE), "--seats", "4", "--rounds", ROUNDS, "--name", "{name}"]))
'''

TRAIN_REQUIREMENTS = """\
# What train.py needs. The bot itself does not: bot.toml does not name this file.
numpy>=2.0
"""
