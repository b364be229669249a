"""Odd bots: match, check and submit give the same verdict, and unpacking changes nothing.

The reader's half of a process runs here; what a process adds is in test_reader.py. In every run odd
files are tried as a folder and as a zip, and odd manifests in one of three forms by turns; before a
release all of them in all forms.
"""

from __future__ import annotations

import io
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from deepsea_bundle import reader_process
from deepsea_bundle.atomic import unpack
from deepsea_bundle.errors import BundleError
from deepsea_referee.bots.resolve import bundle_for_ladder, resolve, unpacked_bot
from deepsea_referee.errors import UserError

PROGRAM = b"print()\n"
COMMAND = b'command = ["python3", "bot.py"]\n'
WRAPPING = "any folder/"
RUN = ("python3", "bot.py")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read bots as the process does, without one."""

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        answer = io.BytesIO()
        status = reader_process.main(io.BytesIO(options["input"]), answer)
        return subprocess.CompletedProcess(command, status, answer.getvalue(), b"")

    monkeypatch.setattr(reader_process, "set_limits", lambda limits: None)
    monkeypatch.setattr(subprocess, "run", run)


@dataclass(frozen=True)
class Odd:
    """A bot's files, and the verdict: `command` if it is taken, else `words` of the refusal."""

    id: str
    manifest: bytes | None = COMMAND
    files: dict[str, bytes] = field(default_factory=lambda: {"bot.py": PROGRAM})
    words: str = ""
    command: tuple[str, ...] = RUN
    name: str = "odd"
    links: dict[str, str] = field(default_factory=dict)
    folder: str = "odd"


ODD_BOTS = [
    Odd("usual"),
    Odd("named", b'name = "Nemo"\n' + COMMAND, name="Nemo"),
    Odd("command as a text", b'command = "python bot.py"', command=("python", "bot.py")),
    Odd("CRLF", b'name = "Nemo"\r\ncommand = "python3 bot.py"\r\n', name="Nemo"),
    Odd("byte order mark", b"\xef\xbb\xbf" + COMMAND),
    Odd("byte order mark in the program", files={"bot.py": b"\xef\xbb\xbfprint()\n"}),
    Odd("CRLF in the program", files={"bot.py": b"if 1:\r\n    print()\r\n"}),
    Odd("shell's words in a list", b'command = ["x", "; $HOME"]', command=("x", "; $HOME")),
    Odd("program on PATH", b'command = ["java", "-jar", "b"]', command=("java", "-jar", "b")),
    Odd("program of its own", b'command = "./bot.py"', command=("./bot.py",)),
    Odd("caches", files={"bot.py": PROGRAM, "__pycache__/a.pyc": b"\0", ".venv/bin/x": b"\0"}),
    Odd("data that looks like Python", files={"bot.py": PROGRAM, "data.py": b"("}),
    Odd("name of a digit", b'name = "7"\n' + COMMAND, name="7"),
    Odd("longest name", b'name = "%s"\n' % (b"x" * 40) + COMMAND, name="x" * 40),
    Odd(
        "other letters", 'name = "Ünï❤ bot"\n'.encode() + COMMAND, words=r"name '.*' is not allowed"
    ),
    Odd("space", b'name = "my bot"\n' + COMMAND, words="name 'my bot' is not allowed: 1 to 40"),
    Odd("name too long", b'name = "%s"\n' % (b"x" * 41) + COMMAND, words="is not allowed: 1 to 40"),
    Odd("end of line", b'name = "a\\n"\n' + COMMAND, words=r"name 'a\\n' is not allowed"),
    Odd("name of none", b'name = ""\n' + COMMAND, words="name '' is not allowed"),
    Odd("name of a number", b"name = 3\n" + COMMAND, words="name is a text, not a number"),
    Odd("version", b'name = "bot-v3"\n' + COMMAND, words="'bot-v3' ends like a version"),
    Odd("VERSION", b'name = "bot.V3"\n' + COMMAND, words=r"'bot\.V3' ends like a version"),
    Odd("folder's name", folder="my bot", words=r"name 'my bot' is not .*name = \"my-bot\" in bot"),
    Odd("folder's version", folder="bot-v3", words=r"ends like a version.*name = \"botv3\" in bot"),
    Odd("no manifest", None, words=r"there is no bot\.toml"),
    Odd("nothing", None, {}, words=r"there is no bot\.toml"),
    Odd("empty manifest", b"", words=r"bot\.toml lacks command"),
    Odd("no TOML", b"command", words="is not valid TOML"),
    Odd("not UTF-8", b'name = "\xff"\n' + COMMAND, words="is not valid TOML: 'utf-8' codec"),
    Odd("UTF-16", COMMAND.decode().encode("utf-16"), words="is not valid TOML"),
    Odd(
        "dots in texts",
        b'command = ["x", "1.2.3.4.5.6.7.8.9.10", "[[[[[[[[[["]',
        command=("x", "1.2.3.4.5.6.7.8.9.10", "[[[[[[[[[["),
    ),
    Odd("nested", b"command = " + b"[" * 4000, words="nested too deeply"),
    Odd("nested tables", b"a = " + b"{a=" * 1000, words="nested too deeply"),
    Odd("dotted key", COMMAND + b"a" + b".a" * 2000 + b" = 1", words="nested too deeply"),
    Odd("quoted key", COMMAND + b'"a"' + b" . 'a'" * 500 + b" = 1", words="nested too deeply"),
    Odd("dotted table", COMMAND + b"[a" + b".a" * 2000 + b"]", words="nested too deeply"),
    Odd("long number", b"name = " + b"1" * 4000 + b"\n" + COMMAND, words="not a number"),
    Odd("no date", b"name = 2026-02-31\n" + COMMAND, words="is not valid TOML"),
    Odd("huge", COMMAND + b"#" * 4096, words=r"bot\.toml has \d+ bytes, more than 4096"),
    Odd("huge and deep", COMMAND + b"a" + b".a" * 32000 + b" = 1", words=r"more than 4096"),
    Odd("huge number", b"name = " + b"1" * 5000 + b"\n" + COMMAND, words=r"more than 4096"),
    Odd("unknown key", COMMAND + b"run = 1", words="unknown key 'run'"),
    Odd("http", COMMAND + b"protocol = 'http'", words='"grpc" or "lines", not \'http\''),
    Odd("protocols", COMMAND + b"protocol = ['lines']", words=r"protocol is .*, not \['lines'\]"),
    Odd("table", COMMAND + b"[bot]\n", words="unknown key 'bot'"),
    Odd("twice", COMMAND + COMMAND, words="is not valid TOML: Cannot overwrite"),
    Odd("command for a shell", b'command = "python bot.py; echo hi"', words="so ; does nothing"),
    Odd("variable", b'command = "python $BOT"', words=r"so \$ and ` do nothing"),
    Odd("pipe", b'command = "python bot.py | tee x"', words=r"so \| does nothing"),
    Odd("two commands", b'command = "python bot.py && x"', words="so && does nothing"),
    Odd("output", b'command = "python bot.py > x"', words="so > does nothing"),
    Odd("quote", b'command = "python \'bot.py"', words="is no command line: No closing"),
    Odd("empty list", b"command = []", words="command is empty"),
    Odd("empty text", b'command = ""', words="command is empty"),
    Odd("empty program", b'command = [""]', words="command is empty"),
    Odd("number", b"command = 7", words="command is a list of texts, not a number"),
    Odd("yes", b"command = true", words="command is a list of texts, not true or false"),
    Odd("day", b"command = 2020-01-01", words="command is a list of texts, not that"),
    Odd("inline table", b"command = {a = 1}", words="command is a list of texts, not a table"),
    Odd("numbers", b"command = [7]", words="command is a list of texts, not a list of other"),
    Odd("NUL", b'command = ["python3", "a\\u0000.py"]', words="command has a NUL character"),
    Odd("NUL in a text", b'command = "python3 a\\u0000.py"', words="command has a NUL character"),
    Odd("absolute", b'command = "/usr/bin/python3 bot.py"', words="is a place on your machine"),
    Odd("home", b'command = "~/bot"', words="is a place on your machine"),
    Odd("outside", b'command = "../bot.py"', words=r"'\.\./bot\.py', but there is no such file"),
    Odd("program missing", b'command = "./bot"', words=r"'\./bot', but there is no such file"),
    Odd("script missing", files={"b.py": b""}, words=r"'bot\.py', but .*; there is b\.py"),
    Odd(
        "left out",
        b'command = ".venv/bin/bot"',
        {".venv/bin/bot": b""},
        words=r"there is no such file \(such files are left out of bots\)",
    ),
    Odd(
        "syntax",
        files={"bot.py": b"x = 1\ndef (:\n"},
        words=r"is not valid Python: line 2: .*: def \(:",
    ),
    Odd("binary", files={"bot.py": b"\0\1\2"}, words=r"bot\.py is not valid Python"),
    Odd("deep", files={"bot.py": b"-" * 99999 + b"1"}, words=r"bot\.py is not valid Python"),
    Odd("link out", links={"a": "/etc/passwd"}, words="'a' is a link"),
    Odd("link as program", files={}, links={"bot.py": "/etc/passwd"}, words="'bot.py' is a link"),
    Odd("two that are one", files={"bot.py": b"", "BOT.py": b""}, words="are one name on some"),
    Odd("odd file name", files={"bot.py": b"", "a\nb": b""}, words="that cannot be printed"),
    Odd("backslash", files={"bot.py": b"", "a\\b": b""}, words="a name with a backslash"),
    Odd(
        "deep folders", files={"bot.py": b"", "a/" * 20 + "a": b""}, words="deeper than 20 folders"
    ),
]


def as_folder(odd: Odd, parent: Path) -> Path:
    folder = parent / odd.folder
    folder.mkdir()
    for path, content in contents(odd).items():
        file = folder / path
        if "/" in path:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for path, target in odd.links.items():
        (folder / path).symlink_to(target)
    return folder


def as_zip(odd: Odd, parent: Path, inside: str = "") -> Path:
    """The bot as a zip, which may have everything in a folder."""
    place = parent / f"{odd.folder}.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents(odd).items():
            archive.writestr(f"{inside}{path}", content)
        for path, target in odd.links.items():
            entry = zipfile.ZipInfo(f"{inside}{path}")
            entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, target)
    return place


def as_wrapped_zip(odd: Odd, parent: Path) -> Path:
    return as_zip(odd, parent, WRAPPING)


def contents(odd: Odd) -> dict[str, bytes]:
    return odd.files if odd.manifest is None else {"bot.toml": odd.manifest, **odd.files}


def refusal(read: Callable[[str], object], place: Path) -> str:
    """What somebody reads whose bot is refused."""
    with pytest.raises((BundleError, UserError)) as caught:
        read(str(place))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"bot {str(place)!r}: ")
    return str(caught.value)


FORMS = (as_folder, as_zip, as_wrapped_zip)


def refused_bots() -> Iterator[ParameterSet]:
    """Each odd bot that is refused, in each form."""
    usual = ODD_BOTS[0]
    for number, odd in enumerate(odd for odd in ODD_BOTS if odd.words):
        files_are_odd = odd.files != usual.files or odd.links
        chosen = (as_folder, as_zip) if files_are_odd else (FORMS[number % 3],)
        for form in FORMS:
            marks = () if form in chosen else pytest.mark.release
            yield pytest.param(odd, form, id=f"{odd.id}-{form.__name__}", marks=marks)


@pytest.mark.parametrize(("odd", "form"), list(refused_bots()))
def test_what_submit_refuses_match_and_check_refuse_with_the_same_words(
    tmp_path: Path, odd: Odd, form: Callable[[Odd, Path], Path]
) -> None:
    place = form(odd, tmp_path)
    said = refusal(bundle_for_ladder, place)
    assert refusal(resolve, place) == said
    assert re.search(odd.words, said.replace(WRAPPING, "")), said


def taken_bots() -> Iterator[ParameterSet]:
    """Each odd bot that is taken, as each kind of zip."""
    for number, odd in enumerate(odd for odd in ODD_BOTS if not odd.words):
        for form in FORMS[1:]:
            marks = () if form is FORMS[1 + number % 2] else pytest.mark.release
            yield pytest.param(odd, form, id=f"{odd.id}-{form.__name__}", marks=marks)


def test_a_bots_protocol_is_the_same_in_every_form(tmp_path: Path) -> None:
    for protocol in ("grpc", "lines"):
        odd = Odd(protocol, COMMAND + f'protocol = "{protocol}"\n'.encode(), folder=protocol)
        folder = as_folder(odd, tmp_path)
        read = bundle_for_ladder(str(folder)), resolve(str(folder)), unpacked_bot(folder, "x")
        assert {bot.protocol for bot in read} == {protocol}
        assert resolve(str(as_zip(odd, tmp_path))).protocol == protocol


@pytest.mark.parametrize(("odd", "form"), list(taken_bots()))
def test_what_match_and_check_take_submit_takes_as_the_same_bot(
    tmp_path: Path, odd: Odd, form: Callable[[Odd, Path], Path]
) -> None:
    folder = as_folder(odd, tmp_path)
    taken = bundle_for_ladder(str(folder))
    assert (taken.name, taken.command) == (odd.name, odd.command)
    unpack(taken.archive, taken.digest, tmp_path / "unpacked")
    run = (sys.executable, *odd.command[1:]) if odd.command[0][:6] == "python" else odd.command
    wanted = (odd.name, run, taken.digest)
    for bot in (
        resolve(str(folder)),
        resolve(str(form(odd, tmp_path))),
        unpacked_bot(tmp_path / "unpacked", odd.name),
    ):
        assert (bot.name, bot.command, bot.digest) == wanted
    assert bundle_for_ladder(str(form(odd, tmp_path))) == taken


@pytest.mark.parametrize(
    ("name", "program", "words"),
    [
        ("odd.py", PROGRAM, ""),
        ("odd.py", b"def (:\n", "odd.py': odd.py is not valid Python: line 1: "),
        ("odd.py", b"\xff", "is not valid Python"),
        ("odd.py", b"#" * ((32 << 20) + 1), "a file has at most"),
        ("notes.txt", b"hello", "is neither a zip nor a Python file"),
    ],
)
def test_a_single_file_is_judged_the_same(
    tmp_path: Path, name: str, program: bytes, words: str
) -> None:
    place = tmp_path / name
    place.write_bytes(program)
    if words:
        said = refusal(bundle_for_ladder, place)
        assert words in said
        assert refusal(resolve, place) == said
    else:
        taken, played = bundle_for_ladder(str(place)), resolve(str(place))
        assert (taken.name, taken.digest) == (played.name, played.digest) == ("odd", taken.digest)


@pytest.mark.parametrize("text", ["nobody", "gredy", "", "no\0such", "x" * 5000, "x/y.zip"])
def test_what_is_not_there_is_said_in_the_same_words(text: str) -> None:
    said = []
    for read in (resolve, bundle_for_ladder):
        with pytest.raises(UserError, match=r"there is no bot|cannot be read") as caught:
            read(text)
        said.append(str(caught.value))
    assert said[0] == said[1]
