"""Groups of commands whose modules are imported when they are called.

Invariant: listing the commands imports none of them; a command's module is imported for its own
help or its call. So the short help of a command is written with the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """A command of a group."""

    place: str
    """MODULE:ATTRIBUTE of the command."""
    line: str
    """Its short help in the list of commands."""
    section: str = "Commands"
    """The heading above it in this list."""


class LazyGroup(click.Group):
    """A group; `entries` has its commands by name, in the order of help."""

    def __init__(self, *args: Any, entries: Mapping[str, LazyCommand], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._entries:
            return None
        entry = self._entries[cmd_name]
        module, _, attribute = entry.place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.line
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (name := args[0]) not in self._entries:
            import difflib  # rarely needed

            if near := difflib.get_close_matches(name, self._entries, 1):
                ctx.fail(f"there is no command {name!r}: did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own asks every command, which would import them all.
        width = max(map(len, self._entries))
        for section, items in groupby(self._entries.items(), lambda item: item[1].section):
            with formatter.section(section):
                # One width, so that the sections are columns of one table.
                formatter.write_dl([(f"{name:{width}}", entry.line) for name, entry in items])
