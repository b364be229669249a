"""Archives of strangers: read in a process of their own, refused in one line that names no file."""

from __future__ import annotations

import io
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deepsea_arena.admission import AdmissionPlayed, PlayAdmission, ReadArchive, check_worker
from deepsea_bundle.reader import BotBundle, read_bot
from deepsea_ladder.season import SeasonSettings
from deepsea_referee import workers
from helpers.programs import opponent_in
from helpers.submissions import zipped

BOT = b"""
from deepsea_sdk import Bot, run

class Mine(Bot):
    def decide(self, view):
        return view.legal[0]

run(Mine)
"""
TOML = b'command = "python bot.py"\n'


class Link(workers.Link):
    """What a worker has of its pool."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, message: object) -> None:
        self.sent.append(message)


def read(content: bytes, bot: str = "") -> object:
    """What a worker makes of an archive."""
    with check_worker(Link()) as perform:
        return perform(ReadArchive(content, bot))


def a_zip_of(files: dict[str, bytes], attributes: int = 0o100644, method: int = 0) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, attributes << 16
            archive.writestr(entry, content, method)
    return packed.getvalue()


def test_a_zip_is_read_under_its_name_or_the_one_that_is_given() -> None:
    content = zipped("one", "mine")
    first, second = read(content), read(content, "yours")
    assert isinstance(first, BotBundle)
    assert isinstance(second, BotBundle)
    assert (first.name, second.name) == ("mine", "yours")
    assert first.digest == second.digest


def test_a_python_file_is_a_bot_with_the_name_that_is_given() -> None:
    found = read(BOT, "mine")
    assert isinstance(found, BotBundle)
    assert found.name == "mine"


@pytest.mark.parametrize("content", [zipped("one"), BOT])
def test_a_bot_without_a_name_is_asked_for_one(content: bytes) -> None:
    assert read(content) == (
        'the bot has no name: write name = "..." in bot.toml, or give one when you submit'
    )


def a_link() -> bytes:
    """A bot with a link that leads elsewhere."""
    return a_zip_of({"bot.toml": TOML, "bot.py": b"/etc/passwd"}, stat.S_IFLNK | 0o777)


def a_bomb() -> bytes:
    """A bot that grows to 20 MiB."""
    files = {"bot.toml": TOML, "bot.py": BOT, "data": b"\0" * (20 << 20)}
    return a_zip_of(files, method=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"PK\3\4 and no more", ""),
        (lambda: b"\xff\xfe\xfd", "neither a zip nor a Python file"),
        (lambda: b"this is (no program", ""),
        (lambda: a_zip_of({"../bot.toml": TOML, "bot.py": BOT}), r"'\.\./bot\.toml'"),
        (a_link, "is a link"),
        (a_bomb, "times"),
        (lambda: zipped("one", "mine v2"), "the name 'mine v2' is not allowed"),
    ],
)
def test_what_is_no_bot_is_refused_in_one_line(make: Callable[[], bytes], words: str) -> None:
    found = read(make(), "" if "name" in words else "mine")
    assert isinstance(found, str)
    assert "\n" not in found
    assert "/tmp" not in found
    assert re.search(words, found), found


def test_admission_games_are_announced_one_by_one(tmp_path: Path) -> None:
    bundle = read_bot(opponent_in(tmp_path, "mine"))
    season = SeasonSettings(name="s1", seats=(2,), clock="10s+60s", isolation="process")
    link = Link()
    with check_worker(link) as perform:
        played = perform(PlayAdmission(bundle, (season,)))
    assert played == AdmissionPlayed(None)
    assert link.sent == [1, 2, 3]


# It keeps a worker small; that none hears where the store is: tests/cli/test_ladder_run.py.
@pytest.mark.release
def test_a_worker_process_loads_no_database() -> None:
    modules = "admission, rated_games, task_workers"
    seen = "import sys; print('sqlalchemy' in sys.modules)"
    command = (sys.executable, "-c", f"from deepsea_arena import {modules}; {seen}")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
