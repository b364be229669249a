"""From what the user writes to a bot that can be started, without running any of it."""

from __future__ import annotations

import json
import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from deepsea_bundle import names
from deepsea_bundle.archive import digest
from deepsea_bundle.errors import BundleDamaged, BundleError
from deepsea_bundle.reader import read_bot
from deepsea_bundle.reader_process import bundle_from
from deepsea_referee.bots.resolve import (
    BotSpec,
    ReaderLimits,
    _exists,
    bundle_for_ladder,
    read_in_subprocess,
    resolve,
    sample,
    sample_bots,
    split_list,
    unpacked_bot,
    with_unique_names,
)
from deepsea_referee.errors import UserError

SOURCE = "raise SystemExit('never run here')\n"


def write(path: Path, text: str = SOURCE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_python_file_runs_with_this_python_as_it_was_read(tmp_path: Path) -> None:
    write(tmp_path / "my_bot.py")
    bot = resolve(str(tmp_path / "my_bot.py"))
    assert bot.name == "my_bot"
    assert bot.command == (sys.executable, "bot.py")
    assert (bot.source, bot.home) == (tmp_path / "my_bot.py", tmp_path)
    assert bot.bundle is not None
    assert bot.bundle.files == {
        "bot.py": SOURCE.encode(),
        "bot.toml": b'command = ["python3", "bot.py"]\n',
    }
    assert bot.digest == bot.bundle.digest == digest(bot.bundle.files)


def test_a_folder_names_its_command(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "bot.toml", 'command = "python main.py --fast"\nname = "Deep-One"\n')
    write(tmp_path / "deep" / "main.py")
    bot = resolve(str(tmp_path / "deep"))
    assert bot.name == "Deep-One"
    assert bot.command == (sys.executable, "main.py", "--fast")
    assert (bot.folder, bot.source, bot.home) == (None, tmp_path / "deep", tmp_path / "deep")


def test_a_folders_command_may_be_a_list_and_its_name_be_left_out(tmp_path: Path) -> None:
    write(tmp_path / "rusty" / "bot.toml", 'command = ["./rusty", "two words"]\n')
    write(tmp_path / "rusty" / "rusty")
    bot = resolve(str(tmp_path / "rusty"))
    assert (bot.name, bot.command) == ("rusty", ("./rusty", "two words"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{tmp}/my_bto.py", "{tmp}/my_bot.py"),
        ("{tmp}/my_bot", "{tmp}/my_bot.py"),
        ("{tmp}/depe", "{tmp}/deep"),
        ("my_bot.p", "my_bot.py"),
        ("cautios", "cautious"),
    ],
)
def test_the_nearest_bot_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, meant: str
) -> None:
    write(tmp_path / "my_bot.py")
    write(tmp_path / "deep" / "bot.toml")
    write(tmp_path / "my_bot.txt")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there is no bot") as caught:
        resolve(text.format(tmp=tmp_path))
    assert f"did you mean {meant.format(tmp=tmp_path)!r}?" in str(caught.value)


def test_parameters_are_part_of_name_and_digest(tmp_path: Path) -> None:
    file = write(tmp_path / "my_bot.py")
    plain = resolve(str(file))
    with_them = resolve(f"{file}:Fast,safe=0.90,deep=3")
    assert with_them.name == "my_bot:Fast,deep=3,safe=0.9"
    assert with_them.parameters == ":Fast,deep=3,safe=0.9"
    assert with_them.command == plain.command
    assert with_them == resolve(f"{file}:Fast,deep=3,safe=.9")
    digests = {resolve(f"{file}{more}").digest for more in ("", ",deep=3", ",deep=4", ":deep")}
    assert len(digests) == 4
    assert resolve("greedy,depth=3").name == "greedy,depth=3"
    odd = write(tmp_path / "odd,a=1")
    assert _exists(str(odd))
    with pytest.raises(BundleError, match="neither"):
        resolve(str(odd))  # a file of that name is no bot with parameters


def test_parameters_are_for_python_bots(tmp_path: Path) -> None:
    write(tmp_path / "js" / "bot.toml", 'command = "node bot.js"')
    write(tmp_path / "js" / "bot.js")
    with pytest.raises(UserError, match="Python bots"):
        resolve(f"{tmp_path / 'js'},deep=3")
    with pytest.raises(UserError, match="given twice"):
        resolve("greedy,a=1,a=2")


def test_a_list_of_bots_may_have_parameters() -> None:
    text = "greedy, a.py:Fast,deep=3,safe=1,b.py,x=2,,cautious"
    assert split_list(text) == ["greedy", "a.py:Fast,deep=3,safe=1", "b.py,x=2", "cautious"]


def test_a_command_line_runs_where_the_user_stands(tmp_path: Path) -> None:
    file = write(tmp_path / "b.js")
    bot = resolve(f"cmd:node {file} --depth 3")
    assert bot.command == ("node", str(file), "--depth", "3")
    assert (bot.name, bot.folder) == ("b", None)
    digest = bot.digest
    write(file, "other")
    assert resolve(f"cmd:node {file} --depth 3").digest != digest
    assert resolve(f"cmd:node {file} --depth 4").digest != resolve(f"cmd:node {file}").digest


def test_a_folders_digest_changes_with_every_byte_and_name_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    def digest_of(files: dict[str, str], number: int) -> str:
        folder = tmp_path / str(number) / "bot"
        for name, text in files.items():
            write(folder / name, text)
        return resolve(str(folder)).digest

    base = {"bot.toml": 'command = "./a"', "a": "1", "lib/b": "2"}
    variants = [
        base,
        base | {"a": "2"},
        base | {"a": "12", "lib/b": ""},
        base | {"c": ""},
        {"bot.toml": base["bot.toml"], "a": "1", "lib/c": "2"},
    ]
    digests = [digest_of(files, number) for number, files in enumerate(variants)]
    assert len(set(digests)) == len(variants)
    reordered = dict(reversed(base.items())) | {"__pycache__/a.pyc": "x", "lib/__pycache__/b": ""}
    assert digest_of(reordered, 99) == digests[0]


def test_what_is_no_bot_is_refused_in_one_line(tmp_path: Path) -> None:
    """Bots with something wrong in them: tests/bundle/test_one_reader.py."""
    write(tmp_path / "notes.txt")
    for text, why in (
        *((f"{tmp_path}/missing.py", "there is no bot"), ("", "there is no bot")),
        *(("no\0such", "there is no bot"), (f"{tmp_path}/notes.txt", "neither a zip nor a Python")),
        *(("cmd:", "needs a command line"), ("cmd:''", "needs a command line")),
        ("cmd:python 'unclosed", "not a command line"),
    ):
        with pytest.raises((UserError, BundleError)) as caught:
            resolve(text)
        assert why in str(caught.value)
        assert "\n" not in str(caught.value)


def test_samples_have_names() -> None:
    samples = sample_bots()
    assert set(samples) >= {"random", "cautious", "greedy"}
    for name, path in samples.items():
        bot = resolve(name)
        assert bot.name == name
        assert bot.command[0] == sys.executable
        assert bot.bundle is not None
        assert bot.bundle.files["bot.py"] == path.read_bytes()


def test_a_samples_name_is_the_sample_whatever_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deepsea_referee.bots.resolve._noted_names", set())
    write(tmp_path / "steady" / "bot.toml", 'command = "mine"')
    (tmp_path / "random").mkdir()
    write(tmp_path / "greedy")
    monkeypatch.chdir(tmp_path)
    for text in ("steady", "steady,depth=2", "random", "greedy"):
        name = text.partition(",")[0]
        assert resolve(text).source == sample_bots()[name]
    assert bundle_for_ladder("steady").digest == sample("steady").digest
    assert capsys.readouterr().err.splitlines() == [
        f"{name} is the sample bot; to name what lies here, write ./{name}"
        for name in ("steady", "random", "greedy")
    ]
    assert resolve("./steady").command == ("mine",)
    assert resolve(str(tmp_path / "steady")).command == ("mine",)
    assert capsys.readouterr().err == ""


def test_a_sample_that_nobody_typed_is_the_sample_and_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, path in sample_bots().items():
        (tmp_path / name).mkdir()
        assert (sample(name).name, sample(name).source) == (name, path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("my bot", "my-bot"),
        ("_private", "private"),
        ("Ünï❤ bot", "n-bot"),
        ("\x1b[31mred\u202e\nline %s", "31mred-line-s"),
        ("greedy-v3", "greedyv3"),
        ("v3", "v3"),
        ("❤", "bot"),
        ("y" * 50, "y" * 40),
        ("y" * 37 + "-v3x", "y" * 37 + "v3"),
        ("a--v3-", "av3"),
    ],
)
def test_a_file_or_command_is_called_after_its_file(tmp_path: Path, stem: str, name: str) -> None:
    file = write(tmp_path / f"{stem}.py")
    assert resolve(str(file)).name == name
    assert resolve(f"cmd:x {shlex.quote(str(file))}").name == name
    assert names.valid_bot_name("the name", name) == name


def test_a_zip_is_unpacked_and_played_under_its_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "deep.zip", "w") as archive:
        archive.writestr("deep/bot.toml", 'command = "python3 lib/main.py"')
        archive.writestr("deep/lib/main.py", SOURCE)
    bot = resolve(str(tmp_path / "deep.zip"))
    assert (bot.name, bot.command) == ("deep", (sys.executable, "lib/main.py"))
    copy = bot.copied(tmp_path / "copy")
    assert copy.folder is not None
    assert (copy.folder / "lib" / "main.py").read_text() == SOURCE
    assert bot.digest == unpacked_bot(copy.folder, "deep v1").digest


def test_the_ladder_takes_no_command_line() -> None:
    with pytest.raises(UserError, match="is a command on this machine, and the ladder plays files"):
        bundle_for_ladder("cmd:node b.js")


def test_a_sample_comes_to_the_ladder_under_its_own_name_or_another() -> None:
    for name in ("greedy", "heuristic"):
        assert name in sample_bots()
        bundle = bundle_for_ladder(name)
        assert (bundle.name, bundle.digest) == (name, resolve(name).digest)
    assert bundle_for_ladder("greedy", "mine").name == "mine"


@pytest.mark.parametrize(
    ("given", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a 2", "a 3"]),
        (["a", "a", "a 2"], ["a", "a 3", "a 2"]),
        (["a 2", "a", "a"], ["a 2", "a", "a 3"]),
    ],
)
def test_the_same_bot_twice_gets_a_number(given: list[str], unique: list[str]) -> None:
    bots = [BotSpec(name, ("x",), None, "00") for name in given]
    assert [bot.name for bot in with_unique_names(bots)] == unique


@pytest.mark.parametrize(
    ("bots", "unique"),
    [
        (["mine", "runs/improve-mine/1/bot"], ["mine", "improve-mine/1"]),
        (
            ["runs/improve-mine/1/bot", "runs/improve-mine/2/bot"],
            ["improve-mine/1", "improve-mine/2"],
        ),
        (["mine", "mine", "runs/improve-mine/1/bot"], ["mine", "mine 2", "improve-mine/1"]),
        (["mine.py", "runs/improve-mine/1/bot"], ["mine.py", "improve-mine/1"]),
        (["mine.py", "mine"], ["mine.py", "mine"]),
        (["old/mine", "new/mine"], ["old/mine", "new/mine"]),
        (["old/bot.py", "new/bot.py"], ["old/bot.py", "new/bot.py"]),
        (["other.py", "runs/improve-other/1/bot"], ["other", "improve-other/1"]),
        (["greedy", "./old/greedy.py", "greedy"], ["greedy", "greedy.py", "greedy 2"]),
        (["mine,n=1", "old/mine,n=1", "old/mine,n=2"], ["mine,n=1", "old/mine,n=1", "mine,n=2"]),
        (["old/bot.py", "greedy"], ["bot", "greedy"]),
    ],
)
def test_bots_of_one_name_are_called_by_their_places(
    bots: list[str], unique: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (
        "mine",
        "old/mine",
        "new/mine",
        "runs/improve-mine/1/bot",
        "runs/improve-mine/2/bot",
    ):
        write(Path(folder) / "bot.toml", 'command = "python bot.py"\nname = "mine"\n')
        write(Path(folder) / "bot.py")
    write(Path("runs/improve-other/1/bot/bot.toml"), 'command = ["python3", "bot.py"]\n')
    for file in (
        "mine.py",
        "other.py",
        "old/bot.py",
        "new/bot.py",
        "old/greedy.py",
        "runs/improve-other/1/bot/bot.py",
    ):
        write(Path(file))
    assert [bot.name for bot in with_unique_names([resolve(bot) for bot in bots])] == unique


# Strangers' bots are read in a process with limits; what comes back is checked again


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
    here, apart = read_bot(place), read_in_subprocess(place)
    assert apart == here
    assert apart.collection.skipped == here.collection.skipped == {"__pycache__": None}
    assert apart.archive == here.archive
    assert read_in_subprocess(place, "other").name == "other"


def test_a_refusal_is_the_same_too(tmp_path: Path) -> None:
    place = zip_of(tmp_path, "def (:\n")
    with pytest.raises(BundleError) as here:
        read_bot(place)
    with pytest.raises(BundleError) as apart:
        read_in_subprocess(place)
    assert str(apart.value) == str(here.value)


def test_modules_of_the_current_folder_are_not_for_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = zip_of(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_in_subprocess(Path(place.name)).name == "bot"


@pytest.mark.parametrize(
    ("program", "data", "limits"),
    [
        ("", 15 << 20, ReaderLimits(memory_mib=40)),
        # Compiled in a time that grows with the square: 400 s on a machine of 2026.
        pytest.param(
            "lambda: 0\n" * 100_000,
            0,
            ReaderLimits(cpu_seconds=1, memory_mib=4096),
            marks=pytest.mark.release,
        ),
    ],
)
def test_what_takes_too_much_is_refused_in_one_line(
    tmp_path: Path, program: str, data: int, limits: ReaderLimits
) -> None:
    with pytest.raises(BundleError, match=r"more than \d+ MiB of memory or \d+ s of CPU") as caught:
        read_in_subprocess(zip_of(tmp_path, program, data), limits=limits)
    assert "\n" not in str(caught.value)


def test_a_reader_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="reading it takes more than 0 s"):
        read_in_subprocess(zip_of(tmp_path), limits=ReaderLimits(seconds=0))


def answer(**changes: object) -> bytes:
    """What a reader says of a bot, with changes."""
    head: dict[str, object] = {
        "name": "bot",
        "command": ["./a"],
        "digest": "5b0e",
        "protocol": "grpc",
        "requirements": None,
        "skipped": [],
        "links": [],
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
        answer(skipped=None),
        answer(links=7),
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
