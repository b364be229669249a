"""Bots whose files are no files."""

from __future__ import annotations

from deepsea_bundle import reader
from deepsea_bundle.archive import Collection, Files
from deepsea_bundle.reader import BotBundle


def bundle_of(files: Files, name: str | None = None, default: str = "") -> BotBundle:
    """Check a bot's files. Without a `name`, and if bot.toml has none, it is called `default`."""
    return reader.bundle_of(Collection(files=files), name, default)
