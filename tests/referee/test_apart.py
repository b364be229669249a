"""Strangers' bots are read in a process with limits; what comes back is checked again."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from deepsea_bundle.errors import BundleDamaged, BundleError
from deepsea_bundle.reader import read_bot
from deepsea_bundle.reader_process import bundle_from
from deepsea_referee.bots.apart import ReaderLimits, read_apart

MANIFEST = 'command = ["python3", "bot.py"]\n'


def zip_of(tmp_path: Path, program: str = "print()\n", data: int = 0) -> Path:
    """A bot's zip, with so many bytes of data."""
    place = tmp_path / "bot.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bot.toml", MANIFEST)
        archive.writestr("bot.py", program)
        archive.writestr("__pycache__/bot.pyc", b"")
        archive.writestr("data", bytes(data), zipfile.ZIP_STORED)
    return place


def test_a_bot_is_the_same_read_here_or_apart(tmp_path: Path) -> None:
    place = zip_of(tmp_path)
    here, apart = read_bot(place), read_apart(place)
    assert apart == here
    assert apart.facts == here.facts
    assert apart.archive == here.archive
    assert read_apart(place, "other").name == "other"


def test_a_refusal_is_the_same_too(tmp_path: Path) -> None:
    place = zip_of(tmp_path, "def (:\n")
    with pytest.raises(BundleError) as here:
        read_bot(place)
    with pytest.raises(BundleError) as apart:
        read_apart(place)
    assert str(apart.value) == str(here.value)


def test_modules_of_the_current_folder_are_not_for_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = zip_of(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_apart(Path(place.name)).name == "bot"


@pytest.mark.parametrize(
    ("program", "data", "limits"),
    [
        ("", 15 << 20, ReaderLimits(memory_mib=40)),
        # Compiled in a time that grows with the square: 400 s on a machine of 2026.
        ("lambda: 0\n" * 100_000, 0, ReaderLimits(cpu_seconds=1, memory_mib=4096)),
    ],
)
def test_what_takes_too_much_is_refused_in_one_line(
    tmp_path: Path, program: str, data: int, limits: ReaderLimits
) -> None:
    with pytest.raises(BundleError, match=r"more than \d+ MiB of memory or \d+ s of CPU") as caught:
        read_apart(zip_of(tmp_path, program, data), limits=limits)
    assert "\n" not in str(caught.value)


def test_a_reader_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="reading it takes more than 0 s"):
        read_apart(zip_of(tmp_path), limits=ReaderLimits(seconds=0))


def answer(**changes: object) -> bytes:
    """What a reader says of a bot, with changes."""
    facts = {"entries": 1, "total_bytes": 2, "deepest": 1, "skipped": [], "links": []}
    head = {
        "name": "bot",
        "command": ["./a"],
        "digest": "5b0e",
        "facts": {**facts, "requirements": None},
        "files": [["a", 2]],
    }
    header = json.dumps(head | changes).encode()
    return len(header).to_bytes(8, "big") + header + b"hi"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0" * 8,
        answer()[:-1],
        answer() + b"!",
        answer(),
        answer(files=[["a", -1]]),
        answer(files=7),
        answer(facts=None),
        answer(facts={}),
        answer(digest=7),
    ],
)
def test_an_answer_that_is_none_is_refused(said: bytes) -> None:
    with pytest.raises(BundleDamaged):
        bundle_from(said)


@pytest.mark.parametrize("said", [answer(files=[["../a", 2]]), answer(name="a b")])
def test_names_and_paths_are_checked_again(said: bytes) -> None:
    with pytest.raises(BundleError):
        bundle_from(said)
