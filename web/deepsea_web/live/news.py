"""News of a running match, for its page.

Invariants: at most KEPT games are kept, the newest ones; news have numbers that only grow, so that
a reader who says what it has gets what it lacks, whatever it missed.
"""

from __future__ import annotations

import json
from typing import TypedDict

from deepsea_web.http import Source

KEPT = 200


class GameLine(TypedDict):
    """A game in the list."""

    number: int
    words: str
    """Placements and points."""


class Table(TypedDict):
    """A table of results."""

    head: list[str]
    rows: list[list[str]]


class Standing(TypedDict):
    """The results so far, as the terminal prints them at the end."""

    facts: str
    table: Table


class Message(TypedDict, total=False):
    """A line from the match."""

    facts: str
    table: Table
    game: GameLine
    record: str
    """The record of the game, as JSON."""
    over: str
    """The reason why there will be no more games."""


class News(Source[int]):
    """The state of the page."""

    def __init__(self, title: str, facts: str, table: Table) -> None:
        super().__init__()
        self.title = title
        self.facts = facts
        self.table = table
        self.over: str | None = None
        self._number = 0
        self._games: dict[int, tuple[int, GameLine, str]] = {}
        """By number of the game: the number of the news, its line and record."""

    def take(self, message: Message) -> None:
        self._number += 1
        if "game" in message:
            line = message["game"]
            self._games[line["number"]] = self._number, line, message["record"]
            if len(self._games) > KEPT:
                del self._games[next(iter(self._games))]
        self.table = message.get("table", self.table)
        self.facts = message.get("facts", self.facts)
        self.over = message.get("over", self.over)
        self.changed()

    def games(self) -> list[GameLine]:
        """The games that are kept, the newest one first."""
        return [line for _, line, _ in self._games.values()][::-1]

    def record(self, number: int) -> str | None:
        """The record of a game; None if it is not kept."""
        found = self._games.get(number)
        return found[2] if found else None

    def since(self, has: int) -> tuple[int, str]:
        """The news after a number, as an event."""
        text = json.dumps(
            {
                "news": self._number,
                "facts": self.facts,
                "table": self.table,
                "games": [line for at, line, _ in self._games.values() if at > has],
                "over": self.over,
            }
        )
        return self._number, f"id: {self._number}\ndata: {text}\n\n"
