"""What may be submitted, in what form, and what whoever is refused learns."""

from __future__ import annotations

import os
import socket
import stat
import zipfile
from pathlib import Path

import pytest

from deepsea_bundle.archive import SKIPPED, BundleLimits
from deepsea_bundle.atomic import BotCache, unpack
from deepsea_bundle.errors import BundleDamaged, BundleError
from deepsea_bundle.program import read_manifest
from deepsea_bundle.reader import read_bot
from deepsea_referee.bots.resolve import resolve

MANIFEST = 'name = "Nemo"\ncommand = ["python3", "bot.py"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "nemo"
    (folder / "lib").mkdir(parents=True)
    (folder / "bot.toml").write_text(MANIFEST)
    (folder / "bot.py").write_text("import lib.mind\n")
    (folder / "lib" / "mind.py").write_text("think = True\n")
    return folder


def _zip(folder: Path, target: Path, prefix: str = "") -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, prefix + path.relative_to(folder).as_posix())
    return target


@pytest.mark.parametrize("name", sorted(SKIPPED))
def test_what_tools_leave_behind_is_no_part_of_a_bot_for_both(folder: Path, name: str) -> None:
    digest = resolve(str(folder)).digest
    (folder / "lib" / name).mkdir()
    (folder / "lib" / name / "something").write_text("else")
    assert resolve(str(folder)).digest == read_bot(folder).digest == digest


def test_times_modes_and_leftovers_make_no_difference(folder: Path) -> None:
    before = read_bot(folder)
    os.utime(folder / "bot.py", (1, 1))
    (folder / "bot.py").chmod(0o700)
    (folder / "lib" / "__pycache__").mkdir()
    (folder / "lib" / "__pycache__" / "mind.pyc").write_bytes(b"\0")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("url = secret")
    (folder / "nothing").mkdir()
    assert read_bot(folder) == before
    (folder / "bot.py").write_text("import lib.mind \n")
    assert read_bot(folder).digest != before.digest


def test_a_single_python_file_is_a_bot(tmp_path: Path) -> None:
    program = tmp_path / "nemo.py"
    program.write_text("print()\n")
    bundle = read_bot(program)
    assert (bundle.name, bundle.command) == ("nemo", ("python3", "bot.py"))
    assert read_manifest(bundle.files).command == bundle.command
    unpack(bundle.archive, bundle.digest, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "bot.py").read_text() == "print()\n"
    assert resolve(str(tmp_path / "unpacked")).digest == bundle.digest


def test_a_single_file_may_be_called_anything_and_is_the_same_bot(tmp_path: Path) -> None:
    digests = set()
    for name in ("nemo.py", 'my "bot".py', "❤.py", "random.py"):
        (tmp_path / name).write_text("print()\n")
        digests |= {resolve(str(tmp_path / name)).digest, read_bot(tmp_path / name, "nemo").digest}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("given", "manifest", "name"),
    [
        ("given", "Nemo", "given"),
        (None, "Nemo", "Nemo"),
        (None, None, "nemo"),
        ("given", None, "given"),
    ],
)
def test_a_name_is_what_is_given_or_what_the_manifest_or_the_folder_says(
    folder: Path, given: str | None, manifest: str | None, name: str
) -> None:
    if manifest is None:
        (folder / "bot.toml").write_text('command = ["python3", "bot.py"]\n')
    assert read_bot(folder, given).name == name


def test_a_folder_whose_name_is_none_has_to_be_named(folder: Path) -> None:
    (folder / "bot.toml").write_text('command = ["python3", "bot.py"]\n')
    place = folder.rename(folder.parent / "my bot")
    with pytest.raises(
        BundleError, match=r"'my bot' is not .*; write name = \"my-bot\" in bot\.toml"
    ):
        read_bot(place)
    assert read_bot(place, "mine").name == "mine"
    with pytest.raises(BundleError, match="the bot's name '' is not allowed"):
        read_bot(place, "")


def test_a_folder_may_be_reached_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert read_bot(tmp_path / "link") == read_bot(folder)


def test_a_large_program_is_read_whole_or_refused(tmp_path: Path) -> None:
    program = tmp_path / "large.py"
    program.write_bytes(b"#" * 40)
    limits = BundleLimits(archive_bytes=20, file_bytes=40)
    assert len(read_bot(program, limits=limits).files["bot.py"]) == 40
    program.write_bytes(b"#" * 41)
    with pytest.raises(BundleError, match="has 41 bytes; a file has at most 40"):
        read_bot(program, limits=limits)


@pytest.mark.parametrize("name", ["bot.exe", "notes.txt"])
def test_what_is_neither_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x7fELF")
    with pytest.raises(BundleError, match="it is neither a zip nor a Python file"):
        read_bot(tmp_path / name)
    with pytest.raises(BundleError, match="it is not there; a bot is"):
        read_bot(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/etc/hostname", "is a link to '/etc/hostname', outside of the bot's folder"),
        ("../../outside", r"is a link to '\.\./\.\./outside', outside of the bot's folder"),
        ("/etc", "is a link to '/etc', outside of the bot's folder; put the file itself there"),
        ("nowhere", "is a link to 'nowhere', which is not there"),
        ("secret", "is a link to 'secret', which leads nowhere"),
        (".", "is a link that leads back to a folder that it is in"),
        ("..", "is a link that leads back to a folder that it is in"),
    ],
)
def test_links_that_leave_the_folder_or_lead_nowhere_are_refused_by_name(
    folder: Path, target: str, words: str
) -> None:
    (folder.parent / "outside").mkdir()
    (folder / "lib" / "secret").symlink_to(target)
    with pytest.raises(BundleError, match=f"'lib/secret' {words}"):
        read_bot(folder)


def test_links_inside_the_folder_are_kept_as_copies(folder: Path, tmp_path: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "mind").symlink_to("../../lib/mind.py")
    (folder / "library").symlink_to(folder / "lib")
    (folder / "again").symlink_to("library")
    bundle = read_bot(folder)
    mind = b"think = True\n"
    assert {path for path, content in bundle.files.items() if content == mind} == {
        "again/mind.py",
        "deep/er/mind",
        "lib/mind.py",
        "library/mind.py",
    }
    assert bundle.collection.links == ["again", "deep/er/mind", "library"]
    unpack(bundle.archive, bundle.digest, tmp_path / "unpacked")
    assert not any(path.is_symlink() for path in (tmp_path / "unpacked").rglob("*"))
    assert read_bot(tmp_path / "unpacked", "Nemo") == bundle


def test_links_make_nothing_larger_than_the_limits(folder: Path) -> None:
    # Each folder has two links to the one before: 2 ** 18 files, from 18 folders.
    before = "lib"
    for number in range(18):
        (folder / f"{number:02}").mkdir()
        for name in ("a", "b"):
            (folder / f"{number:02}" / name).symlink_to(folder / before)
        before = f"{number:02}"
    few = BundleLimits(entries=500)
    with pytest.raises(BundleError, match="more than 500 files and folders"):
        read_bot(folder, limits=few)


def test_a_file_that_becomes_a_link_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def swapping(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "mind.py":
            (folder / "lib" / "mind.py").unlink()
            (folder / "lib" / "mind.py").symlink_to("/etc/hostname")
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(BundleError, match="cannot be read: Too many levels of symbolic links"):
        read_bot(folder)


def test_what_is_left_out_is_named_and_what_is_taken_is_counted(
    folder: Path, tmp_path: Path
) -> None:
    for path in ("venv/bin/python", "lib/__pycache__/mind.pyc", "lib/old.pyc", ".idea/x"):
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text("x")
    left_out = {".idea", "lib/__pycache__", "lib/old.pyc", "venv"}
    places = (folder, _zip(folder, tmp_path / "a.zip"), _zip(folder, tmp_path / "b.zip", "n/"))
    one, *others = map(read_bot, places)
    assert (one.name, one.command) == ("Nemo", ("python3", "bot.py"))
    for bundle in (one, *others):
        assert bundle == one
        files = bundle.collection
        assert (files.entries, files.depth, files.total_bytes) == (4, 2, 75)
        assert set(files.skipped) == left_out


def test_devices_pipes_and_sockets_are_refused_unopened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(BundleError, match="'pipe' is a device, pipe or socket"):
        read_bot(folder)
    (folder / "pipe").unlink()
    monkeypatch.chdir(folder)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(BundleError, match="'socket' is a device, pipe or socket"):
            read_bot(folder)


def test_setuid_files_are_refused(folder: Path) -> None:
    (folder / "bot.py").chmod(stat.S_ISUID | 0o755)
    with pytest.raises(BundleError, match=r"'bot\.py' has the setuid or setgid bit"):
        read_bot(folder)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (BundleLimits(file_bytes=14), r"'bot\.py' has 16 bytes; a file has at most 14"),
        (BundleLimits(total_bytes=70), r"with 'lib/mind\.py' the files have 75 bytes together"),
        (BundleLimits(entries=3), r"more than 3 files and folders"),
        (BundleLimits(depth=1), r"'lib/mind\.py' lies deeper than 1 folders"),
    ],
)
def test_limits_are_kept_in_folders(folder: Path, limits: BundleLimits, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        read_bot(folder, limits=limits)


def test_a_file_larger_than_a_zip_may_be_is_not_read_whole(tmp_path: Path) -> None:
    large = tmp_path / "large.zip"
    with large.open("wb") as stream:
        stream.write(b"PK")
        stream.truncate(1 << 40)
    with pytest.raises(BundleError, match=r"the zip has \d+ bytes; at most 16777216"):
        read_bot(large)


def test_names_that_are_not_utf8_are_refused(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.py")).write_text("")
    with pytest.raises(BundleError, match=r"cannot be printed|not UTF-8"):
        read_bot(folder)


def test_unpacked_files_can_be_run_and_not_changed(folder: Path, tmp_path: Path) -> None:
    bundle = read_bot(folder)
    target = tmp_path / "cache" / bundle.digest
    unpack(bundle.archive, bundle.digest, target)
    assert stat.S_IMODE((target / "bot.py").stat().st_mode) == 0o555
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    # A second time, as when two processes unpack at once: the first one's folder stays.
    marker = target.stat().st_ino
    unpack(bundle.archive, bundle.digest, target)
    assert target.stat().st_ino == marker
    assert [path.name for path in target.parent.iterdir()] == [bundle.digest]


def test_an_archive_that_is_not_what_it_should_be_is_not_unpacked(
    folder: Path, tmp_path: Path
) -> None:
    bundle = read_bot(folder)
    with pytest.raises(BundleDamaged, match="have another digest"):
        unpack(bundle.archive, "f" * 64, tmp_path / "cache" / "bot")
    with pytest.raises(BundleDamaged, match=r"are damaged: .* does not end where a zip ends"):
        unpack(bundle.archive[:-1], bundle.digest, tmp_path / "cache" / "bot")
    assert not (tmp_path / "cache").exists()


def test_bots_are_unpacked_once_and_repaired(folder: Path, tmp_path: Path) -> None:
    bundle = read_bot(folder)
    asked: list[str] = []

    def fetch(digest: str) -> bytes:
        asked.append(digest)
        return bundle.archive

    cache = tmp_path / "cache"
    bots = BotCache(cache, fetch)
    place = bots(bundle.digest)
    assert bots(bundle.digest) == place
    assert BotCache(cache, fetch)(bundle.digest) == place
    assert asked == [bundle.digest]
    # What a crash of the machine has left is not believed.
    (place / "bot.py").chmod(0o755)
    (place / "bot.py").write_text("")
    assert BotCache(cache, fetch)(bundle.digest) == place
    assert (place / "bot.py").read_text() == "import lib.mind\n"
    assert len(asked) == 2
    (place / "link").symlink_to("bot.py")
    assert not (BotCache(cache, fetch)(bundle.digest) / "link").exists()
    assert len(asked) == 3
