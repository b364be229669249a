"""Hints for the author of a bot, such as one on a misspelt method, or on output that is lost.

Invariants: the bot's program is not run to find hints; a run shows few hints for each bot, each
once, however many processes, pools and workers play it.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from deepsea_rules.printable import one_line, printable
from deepsea_sdk.bot import HINT, misspelling

if TYPE_CHECKING:
    from deepsea_referee.bots.resolve import BotSpec

MOST_HINTS = 5
"""The largest number of hints for a bot that a run shows."""
LONGEST_HINT = 200
"""The largest number of characters of a hint."""
LONGEST_PROGRAM = 1024 * 1024
"""The largest size in bytes of a program that is searched for hints."""
_PACKAGES = ("deepsea_sdk", "deepsea_bots")
"""The packages with classes from which bots derive."""
_FOREIGN_PREFIXES = (HINT, "deepsea-referee: ")
"""The beginnings of lines in a bot's log that come from the SDK or the referee."""
NOT_KEPT = (
    "what it prints is not kept: deepsea-referee match shows it with --show-output, and keeps it "
    "with --out"
)


class Hints:
    """Shows hints on stderr, and remembers those that a run has shown."""

    def __init__(self) -> None:
        self._shown: dict[object, set[str]] = {}

    def show(self, bot: BotSpec, hints: Iterable[str]) -> None:
        """Write the hints that were not shown before to stderr, each with the bot's name."""
        # Not by name: a program may play under several names, with different parameters.
        shown = self._shown.setdefault(bot.source or bot.command, set())
        for hint in hints:
            line = one_line(hint, LONGEST_HINT)
            if line not in shown and len(shown) < MOST_HINTS:
                shown.add(line)
                with suppress(OSError, ValueError):  # stderr is closed, or its reader has ended
                    sys.stderr.write(f"{printable(bot.name)}: {line}\n")

    def show_printed(self, bot: BotSpec, log: str, *, is_kept: bool) -> None:
        """Show the SDK's hints in a bot's log; if other output is lost, a hint on how to keep it.

        is_kept  True if the bot's output is shown or stored
        """
        own_lines = [
            line for line in log.splitlines() if line and not line.startswith(_FOREIGN_PREFIXES)
        ]
        is_lost = bool(own_lines) and not is_kept
        self.show(bot, [*hints_in(log), NOT_KEPT] if is_lost else hints_in(log))


def hints_in(log: str) -> list[str]:
    """Return the first hints of the SDK in a bot's log, without repetitions, one line each."""
    lines = [line.removeprefix(HINT) for line in log.splitlines() if line.startswith(HINT)]
    return [one_line(line, LONGEST_HINT) for line in dict.fromkeys(lines)][:MOST_HINTS]


def hints_of(bot: BotSpec) -> list[str]:
    """Return hints on misspelt methods from the text of a bot's program, without running it."""
    return [*islice(dict.fromkeys(_misspelt(_programs(bot))), MOST_HINTS)]


def _programs(bot: BotSpec) -> Iterator[bytes]:
    """Yield the Python files of a bot: those of its bundle, or those that its command names."""
    if bot.bundle is not None:
        files = bot.bundle.files
        yield from (files[name] for name in sorted(files) if name.endswith(".py"))
        return
    for word in bot.command[1:]:
        path = Path(word)
        try:
            if path.suffix == ".py" and path.stat().st_size <= LONGEST_PROGRAM:
                yield path.read_bytes()
        except OSError:  # the error will be reported when the bot is started
            continue


def _misspelt(programs: Iterable[bytes]) -> Iterator[str]:
    """Yield hints on misspelt methods of classes that derive from the SDK's `Bot`.

    A class may derive from `Bot` by way of classes in any of the files. Classes are matched by
    their names alone.
    """
    bots, classes = {"Bot"}, []
    for program in programs:
        for node in _nodes(program):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_PACKAGES):
                bots |= {name.asname or name.name for name in node.names}
            elif isinstance(node, ast.ClassDef):
                classes.append(node)
    # Each pass finds the classes whose bases are known to be bots, until no class is added.
    remaining = classes
    while remaining:
        derived = [cls for cls in remaining if not bots.isdisjoint(map(_name, cls.bases))]
        if not derived:
            break
        bots |= {cls.name for cls in derived}
        remaining = [cls for cls in remaining if cls not in derived]
        for cls in derived:
            for method in cls.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from misspelling(cls.name, method.name)


def _name(base: ast.expr) -> str:
    """Return the last part of the name of a base class; "" if it is no name."""
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _nodes(program: bytes) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a program; none if it is too long or cannot be parsed.

    The error of such a program is reported when the bot is started.
    """
    if len(program) > LONGEST_PROGRAM:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the start of the bot shows its warnings
            yield from ast.walk(ast.parse(program))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
