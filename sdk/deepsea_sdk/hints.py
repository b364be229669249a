"""Hints for the author of a bot: a misspelt method, a program that never plays.

Invariants: a hint is one line on stderr that begins with `PREFIX`; it changes nothing about how a
bot plays.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .bot import Bot

PREFIX: Final = "deepsea-sdk: hint: "
_METHODS: Final = {
    name.replace("_", ""): name
    for name, value in vars(Bot).items()
    if callable(value) and not name.startswith("_")
}
_ALIKE: Final = 0.8


def with_hints(new_bot: Callable[[], Bot]) -> Callable[[], Bot]:
    """The same function, with hints on stderr when it makes the first bot of a class."""
    known: set[type[Bot]] = set()

    def make() -> Bot:
        bot = new_bot()
        if type(bot) not in known:
            known.add(type(bot))
            sys.stderr.writelines(f"{hint}\n" for hint in [*misspelt(type(bot)), *unheard(bot)])
        return bot

    return make


def misspelt(bot: type[Bot]) -> list[str]:
    """A hint for each public method that `Bot` does not have, with a name much like one it has."""
    hints = []
    for cls in bot.__mro__[: bot.__mro__.index(Bot)]:
        for name, value in vars(cls).items():
            if callable(value) and not name.startswith("_") and not hasattr(Bot, name):
                plain = name.replace("_", "").lower()
                for near in difflib.get_close_matches(plain, _METHODS, 1, _ALIKE):
                    meant = _METHODS[near]
                    hints.append(
                        f"{PREFIX}the SDK never calls {cls.__name__}.{name}; did you mean {meant}?"
                    )
    return hints


def unheard(bot: Bot) -> list[str]:
    """A hint for an `on_event` that was put on an object: a class without one gets no events."""
    name = type(bot).__name__
    if "on_event" not in vars(bot) or type(bot).on_event is not Bot.on_event:
        return []
    return [f"{PREFIX}no events come for {name}: define on_event in the class, not on the object"]


def never_run(program: str) -> list[str]:
    """A hint for a program that ends without a call of `run`, if there is a bot in it."""
    bots = [bot for bot in _below(Bot) if not bot.__module__.startswith("deepsea_")]
    own = [bot for bot in bots if bot.__module__ == "__main__"] or bots
    if not own:
        return []
    name = own[-1].__name__
    return [f"{PREFIX}{Path(program).name} defines class {name}(Bot) but never calls run({name})"]


def _below(cls: type[Bot]) -> list[type[Bot]]:
    """The classes that are built on this one, in the order in which they were defined."""
    return [found for sub in cls.__subclasses__() for found in (sub, *_below(sub))]
