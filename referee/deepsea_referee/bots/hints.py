"""Hints for the author of a bot, such as one on a misspelt method, or on output that is lost.

Invariants: nothing of the bot is run to look at it; of each bot a run shows few hints, each once,
however many processes, pools and workers play it.
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
"""Hints of a bot that are shown in a run."""
LONGEST_HINT = 200
LONGEST_PROGRAM = 1024 * 1024
"""Bytes of a program that is read for hints."""
_PACKAGES = ("deepsea_sdk", "deepsea_bots")
"""Packages with classes that bots derive from."""
_NOT_ITS_OWN = (HINT, "deepsea-referee: ")
"""How lines begin that the SDK and the referee put beside a bot's own."""
NOT_KEPT = (
    "what it prints is not kept: deepsea-referee match shows it with --show-output, and keeps it "
    "with --out"
)


class Hints:
    """The hints that a run has shown on stderr."""

    def __init__(self) -> None:
        self._shown: dict[object, set[str]] = {}

    def show(self, bot: BotSpec, hints: Iterable[str]) -> None:
        """Write those on stderr that are new, each in a line with the bot's name."""
        # Not by the name: one program may play under several names, with parameters or without.
        shown = self._shown.setdefault(bot.source or bot.command, set())
        for hint in hints:
            line = one_line(hint, LONGEST_HINT)
            if line not in shown and len(shown) < MOST_HINTS:
                shown.add(line)
                with suppress(OSError, ValueError):  # nobody sees stderr, or it is closed
                    sys.stderr.write(f"{printable(bot.name)}: {line}\n")

    def show_printed(self, bot: BotSpec, log: str, *, is_kept: bool) -> None:
        """Write the SDK's hints in what a bot printed, and what keeps the rest if nothing does."""
        own = [line for line in log.splitlines() if line and not line.startswith(_NOT_ITS_OWN)]
        self.show(bot, [*hints_in(log), *([NOT_KEPT] if own and not is_kept else [])])


def hints_in(log: str) -> list[str]:
    """The SDK's hints in what a bot printed: the first ones, each once, as a line."""
    lines = [line.removeprefix(HINT) for line in log.splitlines() if line.startswith(HINT)]
    return [one_line(line, LONGEST_HINT) for line in dict.fromkeys(lines)][:MOST_HINTS]


def hints_of(bot: BotSpec) -> list[str]:
    """The hints that the SDK would give when the bot starts, as far as its program shows them."""
    return [*islice(dict.fromkeys(_misspelt(_programs(bot))), MOST_HINTS)]


def _programs(bot: BotSpec) -> Iterator[bytes]:
    """The Python files of a bot; of a command line those that it names."""
    if bot.bundle is not None:
        files = bot.bundle.files
        yield from (files[name] for name in sorted(files) if name.endswith(".py"))
        return
    for word in bot.command[1:]:
        path = Path(word)
        try:
            if path.suffix == ".py" and path.stat().st_size <= LONGEST_PROGRAM:
                yield path.read_bytes()
        except OSError:  # the start says what is wrong
            continue


def _misspelt(programs: Iterable[bytes]) -> Iterator[str]:
    """Hints on methods of the classes that derive from the SDK's `Bot`, in any of the programs."""
    bots, classes = {"Bot"}, []
    for program in programs:
        for node in _nodes(program):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_PACKAGES):
                bots |= {name.asname or name.name for name in node.names}
            elif isinstance(node, ast.ClassDef):
                classes.append(node)
    waiting = classes
    while waiting:
        derived = [cls for cls in waiting if not bots.isdisjoint(map(_name, cls.bases))]
        if not derived:
            break
        bots |= {cls.name for cls in derived}
        waiting = [cls for cls in waiting if cls not in derived]
        for cls in derived:
            for method in cls.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from misspelling(cls.name, method.name)


def _name(base: ast.expr) -> str:
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _nodes(program: bytes) -> Iterator[ast.AST]:
    """The nodes of a program; none of one that cannot be read, of which its start says why."""
    if len(program) > LONGEST_PROGRAM:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a start shows the bot's own ones
            yield from ast.walk(ast.parse(program))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
