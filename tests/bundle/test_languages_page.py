"""docs/languages.md says what is so: the limits of a bot, and the example of its bot.toml."""

from __future__ import annotations

import re
from pathlib import Path

from deepsea_bundle.archive import LIMITS
from deepsea_ladder.season import BotLimits
from helpers.bundles import bundle_of

PAGE = (Path(__file__).parents[2] / "docs" / "languages.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def test_its_manifest_starts_a_file_of_the_bot() -> None:
    (manifest,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    bot = bundle_of({"bot.toml": manifest.encode(), "my-bot": b"\x7fELF"})
    assert (bot.name, bot.command) == ("my-bot", ("./my-bot",))


def test_its_limits_are_those_that_are_kept() -> None:
    assert (
        f"{LIMITS.entries:,} files and folders, {LIMITS.total_bytes >> 20} MiB, "
        f"{LIMITS.depth} deep" in WORDS
    )
    usual = BotLimits()
    assert f"Memory is limited to {usual.memory_mib} MiB" in WORDS
    assert f"processes and threads to {usual.processes}, unless a season" in WORDS
