"""docs/bots.md is true: its bot.toml, its limits, its exclusions, its digest, its names.

docs/languages.md is true of a bot's limits and its bot.toml.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, SKIPPED, digest
from deepsea_bundle.errors import BundleError
from deepsea_bundle.program import LONGEST_MANIFEST
from deepsea_ladder.season import BotLimits
from helpers.bundles import bundle_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE, LANGUAGES = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("bots.md", "languages.md")
)
MIB = 1 << 20


def test_its_manifest_is_one() -> None:
    (manifest,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    bot = bundle_of({"bot.toml": manifest.encode(), "quick_bot.py": b""})
    assert (bot.name, bot.command) == ("quick", ("python3", "quick_bot.py", "--depth", "3"))


def test_its_limits_are_those_that_are_kept() -> None:
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", PAGE.partition("## Limits")[2], re.M)
    assert dict(rows[1:]) == {
        "a zip": f"{LIMITS.archive_bytes // MIB} MiB; all files in it, {LIMITS.ratio} times its "
        "size, or 1 MiB",
        "all files": f"{LIMITS.total_bytes // MIB} MiB",
        "one file": f"{LIMITS.file_bytes // MIB} MiB",
        "files and folders": f"{LIMITS.entries:,}",
        "depth": f"{LIMITS.depth} folders",
        "a path": f"{LIMITS.path_bytes} bytes, and {LIMITS.name_bytes} for each name in it",
        "`bot.toml`": f"{LONGEST_MANIFEST // 1024} KiB",
    }


def test_what_it_says_is_left_out_is() -> None:
    sentence = PAGE.partition("These are ignored")[2].partition("`check`")[0]
    assert set(re.findall(r"`(.*?)`", sentence)) == SKIPPED


def test_the_ladders_page_has_the_same_limits() -> None:
    words = " ".join((DOCS / "ladder.md").read_text(encoding="utf-8").split())
    assert (
        f"at most {LIMITS.entries:,} files and folders, {LIMITS.total_bytes // MIB} MiB, "
        f"{LIMITS.depth} deep" in words
    )


def test_its_digest_is_computed_as_it_says() -> None:
    files = {"b": b"2", "a/b": b"", "a": b"1"}
    parts = [part for path in sorted(files) for part in (path.encode(), files[path])]
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert digest(files) == hashlib.sha256(framed).hexdigest()


def test_its_names_are_what_it_says() -> None:
    text = PAGE.partition("## Names")[2]
    for name in ("quick-v3", "quick.v3", "quick v3"):
        assert f"`{name}`" in text
        with pytest.raises(BundleError):
            names.valid_bot_name("the name", name)
    assert names.name_from("my bot") == "my-bot"


def test_the_manifest_of_other_languages_starts_a_file_of_the_bot() -> None:
    (manifest,) = re.findall(r"```toml\n(.*?)```", LANGUAGES, re.S)
    bot = bundle_of({"bot.toml": manifest.encode(), "my-bot": b"\x7fELF"})
    assert (bot.name, bot.command) == ("my-bot", ("./my-bot",))


def test_the_limits_of_other_languages_are_those_that_are_kept() -> None:
    words = " ".join(LANGUAGES.split())
    assert (
        f"{LIMITS.entries:,} files and folders, {LIMITS.total_bytes >> 20} MiB, "
        f"{LIMITS.depth} deep" in words
    )
    usual = BotLimits()
    assert f"Memory is limited to {usual.memory_mib} MiB" in words
    assert f"processes and threads to {usual.processes}, unless a season" in words
