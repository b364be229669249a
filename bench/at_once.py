"""A bot that answers at once: any legal action, and no thought."""

from __future__ import annotations

from random import Random

from deepsea_sdk import Bot, View, run


class AtOnce(Bot):
    """Chooses by chance, as fast as the SDK lets it."""

    concurrent_games = True

    def __init__(self) -> None:
        self.random = Random(1).random

    def decide(self, view: View) -> str:
        legal = view.legal
        return legal[int(self.random() * len(legal))]


if __name__ == "__main__":
    run(AtOnce)
