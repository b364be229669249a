"""What a bot prints is always there: in memory, in files, and as it comes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from deepsea_referee import in_process
from deepsea_referee.bots.output import (
    BotOutput,
    Hints,
    OutputCapture,
    OutputPlan,
    OutputTail,
    author_error,
    error_line,
    escaped,
    frames,
    last_frame_text,
    with_short_stack,
)
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.match import MatchSettings, run_match_over_streams
from deepsea_referee.results_folder import log_names
from deepsea_referee.summary import MatchResult
from deepsea_rules.randomness import seed_from_text
from helpers.in_loop import run
from helpers.programs import PATIENT, lines_bot, opponent, program, written
from helpers.tiers import daily


def test_the_end_of_a_stream_is_kept() -> None:
    tail = OutputTail(10)
    for data in (b"abc", b"defgh", b"ijklm"):
        tail.add(data)
    assert tail.text() == "[... 3 bytes left out ...]\ndefghijklm"


def test_lines_of_both_streams_come_whole_and_safe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = BotOutput(tmp_path / "log", "bot| ")
    assert not output.in_file
    sinks = output.sinks()
    assert sinks is not None
    to_stdout, to_stderr = sinks
    to_stdout(b"one\r\ntw")
    to_stderr("zw\u00f6lf\n".encode()[:3])
    to_stderr("zw\u00f6lf\n".encode()[3:])
    to_stdout(b"o\n\x1b[2Jlast")
    output.close()
    lines = ["one", "zwölf", "two", "\\x1b[2Jlast"]
    assert (tmp_path / "log").read_text().splitlines() == lines
    assert capsys.readouterr().err.splitlines() == [f"bot| {line}" for line in lines]
    assert output.in_file


def test_a_bot_that_prints_nothing_has_no_file(tmp_path: Path) -> None:
    output = OutputPlan(tmp_path).open(0, BotSpec("quiet", (), None, ""), 1)
    output.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    output = BotOutput(tmp_path / "missing" / "log")
    sinks = output.sinks()
    assert sinks is not None
    sinks[0](b"one\n")
    output.close()
    assert not output.in_file


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk_and_a_terminal_that_is_gone_stop_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        output = BotOutput(Path("/dev/full"), "bot| ")
        sinks = output.sinks()
        assert sinks is not None
        sinks[0](b"one\ntwo\n")
        output.close()
        Hints().show(BotSpec("bot", (), None, ""), ["a method is misspelt"])
        monkeypatch.undo()
        with suppress(OSError):
            terminal.close()
    assert not output.in_file


def test_an_author_whose_folder_has_a_name_of_any_bytes_has_a_log(tmp_path: Path) -> None:
    output = BotOutput(
        tmp_path / "log", None, lambda text: text.replace("COPY", "/\udcff\n/bot.py")
    )
    sinks = output.sinks()
    assert sinks is not None
    sinks[0](b"in COPY\n")
    output.close()
    assert (tmp_path / "log").read_text() == "in /\\udcff\\n/bot.py\n"


Play = Callable[[MatchSettings], MatchResult]


def separate(settings: MatchSettings) -> MatchResult:
    return run_match_over_streams(settings)


def in_this_process(settings: MatchSettings) -> MatchResult:
    return in_process.run_match_in_process(settings)


def settings(bots: Sequence[BotSpec], output: OutputPlan, games: int = 2) -> MatchSettings:
    seed = seed_from_text("output")
    return MatchSettings(bots, PATIENT, games=games, seed=seed, output=output)


def chatty(folder: Path, name: str = "chatty", fault: str = "") -> BotSpec:
    say = "print('out', view.dive), print('err', view.dive, file=sys.stderr)"
    return program(folder, name, f"({say}{fault})")


ERR = "print('err', file=sys.stderr)"


def quiet(folder: Path, how: Play) -> BotSpec:
    """A bot that prints nothing, without the SDK where it is a process."""
    return opponent(folder) if how is separate else resolve("greedy")


@pytest.mark.parametrize("how", [separate, in_this_process])
def test_every_process_has_a_file_with_all_that_it_printed(tmp_path: Path, how: Play) -> None:
    out = tmp_path / "out"
    out.mkdir()
    bots = [quiet(tmp_path, how), chatty(tmp_path)]
    result = how(settings(bots, OutputPlan(out)))
    assert result.faults.count == 0
    assert log_names(result.logs) == ["bot-2-start-1.log"]
    (log,) = result.logs
    assert log.text == ""
    lines = (out / "bot-2-start-1.log").read_text().splitlines()
    decisions = result.summaries()[1].decisions
    assert sum(line.startswith("out ") for line in lines) == decisions
    assert sum(line.startswith("err ") for line in lines) == decisions


# Of a process tests/referee/test_processes.py looks at it after a crash.
@pytest.mark.parametrize("how", daily([separate, in_this_process], [in_this_process]))
def test_without_files_the_end_is_there_for_a_fault(tmp_path: Path, how: Play) -> None:
    bots = [chatty(tmp_path, "bad", ", view.dive > 1 and 1 / 0"), chatty(tmp_path, "good")]
    result = how(settings(bots, OutputPlan(), games=1))
    (log,) = result.logs
    assert (log.bot, log.in_file) == (0, False)
    assert "out 1\n" in log.stdout
    assert "err 1\n" in log.stderr
    assert "ZeroDivisionError" in log.stderr
    assert log_names(result.logs) == []


@pytest.mark.parametrize("how", [separate, in_this_process])
def test_a_bots_output_is_shown_as_it_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: Play
) -> None:
    silent = chatty(tmp_path) if how is in_this_process else lines_bot(tmp_path, "chatty", ERR)
    bots = [silent, chatty(tmp_path, "other")]
    result = how(settings(bots, OutputPlan(shown=frozenset({1}))))
    out, err = capsys.readouterr()
    assert out == ""
    decisions = result.summaries()[1].decisions
    assert err.splitlines().count("other| out 1") > 0
    assert len(err.splitlines()) == 2 * decisions
    assert "chatty" not in err


@pytest.mark.parametrize("how", [separate, in_this_process])
def test_a_misspelt_method_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: Play
) -> None:
    text = "from deepsea_sdk import Bot, run\nclass Mine(Bot):\n    def serach(self, view): ...\n"
    bots = [written(tmp_path, how.__name__, f"{text}run(Mine)\n"), quiet(tmp_path, how)]
    how(settings(bots, OutputPlan(hints=Hints()), games=2))
    said = "the SDK never calls Mine.serach; did you mean search?"
    assert capsys.readouterr().err == f"{bots[0].name}: {said}\n"


# What bots print: bounded and harmless


def captured(*parts: bytes, kept_bytes: int = 64) -> OutputCapture:
    async def test() -> OutputCapture:
        capture = OutputCapture(kept_bytes=kept_bytes)
        for part in parts:
            os.write(capture.writing, part)
        capture.close_writing()
        capture.finish()
        return capture

    return run(test())


def test_what_fits_is_kept_as_it_is() -> None:
    capture = captured(b"one\n", "zwölf\n".encode())
    assert capture.tail.text() == "one\nzwölf\n"


def test_the_end_is_kept_with_a_marker_before_it() -> None:
    capture = captured(b"a" * 40 + b"b" * 1000, b"c" * 40)
    assert capture.tail.text() == "[... 1016 bytes left out ...]\n" + "b" * 24 + "c" * 40


def test_nothing_printed_is_no_text() -> None:
    assert captured().tail.text() == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[2J\x07", "\\x1b[2J\\x07"),
        (b"a\r\nb\rc\td", "a\nb\\rc\td"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("\u202eevil\u2066".encode(), "\\u202eevil\\u2066"),
        (b"\0", "\\x00"),
        ("ü — ✓".encode(), "ü — ✓"),
    ],
)
def test_control_characters_are_escaped(data: bytes, text: str) -> None:
    assert escaped(data) == text


async def test_a_flood_waits_and_the_loop_goes_on() -> None:
    loop = asyncio.get_running_loop()
    capture = OutputCapture()
    os.set_blocking(capture.writing, False)
    written = refused = 0
    # Whenever the loop is free the flood goes on; it soon finds the pipe full.
    while refused < 1_000:
        try:
            written += os.write(capture.writing, b"x" * 65_536)
        except BlockingIOError:
            refused += 1
        await _pass(loop.call_soon)
    capture.close_writing()
    capture.finish()
    assert len(capture.tail.text()) < 70_000
    assert "bytes left out" in capture.tail.text()


async def _pass(call_soon: Callable[..., object]) -> None:
    done = asyncio.Event()
    call_soon(done.set)
    await done.wait()


async def test_a_descriptor_that_stays_open_holds_nobody_up() -> None:
    capture = OutputCapture()
    child = os.dup(capture.writing)
    os.write(child, b"still here\n")
    capture.finish()  # with the child's end still open
    assert capture.tail.text() == "still here\n"
    os.close(child)


# What of an error's text its author has to read


def traceback(*places: str) -> str:
    lines = ["noise before", "Traceback (most recent call last):"]
    for place in places:
        lines += [f"  File {place}", "    some code", "    ~~~~^^^^"]
    return "\n".join([*lines, "KeyError: 'x'", ""])


def test_own_frames_are_kept_in_pythons_form_and_others_left_out(tmp_path: Path) -> None:
    text = traceback(
        f'"{tmp_path}/boom.py", line 7, in search',
        '"/usr/lib/python3/random.py", line 300, in choice',
        f'"{tmp_path}/lib/deep.py", line 3, in best',
        f'"{tmp_path}/.venv/lib/site-packages/numpy.py", line 1, in dot',
        '"<frozen importlib>", line 9, in load',
    )
    assert author_error(text, tmp_path).splitlines() == [
        "Traceback (most recent call last):",
        '  File "boom.py", line 7, in search',
        "    some code",
        "    ~~~~^^^^",
        '  File "lib/deep.py", line 3, in best',
        "    some code",
        "    ~~~~^^^^",
        "KeyError: 'x'",
    ]


@pytest.mark.parametrize(
    ("signal", "function"), [("Aborted", "search"), ("Segmentation fault", "work")]
)
def test_the_stack_of_an_abort_is_that_of_the_main_thread_and_of_a_crash_that_of_its_own(
    tmp_path: Path, signal: str, function: str
) -> None:
    stacks = f"""loading
Fatal Python error: {signal}

Current thread 0x00007fee3f226b80 (most recent call first):
  File "{tmp_path}/bot.py", line 30 in work

Thread 0x00007fee3f226b81 (most recent call first):
  File "{tmp_path}/bot.py", line 5 in search
  File "/usr/lib/python3.11/asyncio/runners.py", line 118 in run
  File "{tmp_path}/bot.py", line 8 in <module>

Extension modules: numpy.core (total: 1)
"""
    error = author_error(stacks, tmp_path)
    *called, place, last = error.splitlines()
    assert called[0] == "Traceback (most recent call last):"
    assert last_frame_text(error).endswith(f", in {function}")
    assert place.endswith(f", in {function}")
    assert last == f"Fatal Python error: {signal}"
    assert with_short_stack(stacks, tmp_path) == f"loading\n{error}"
    assert with_short_stack("no stack\n", tmp_path) == "no stack\n"
    assert last_frame_text(last) == ""


def test_where_no_frame_is_the_authors_all_are_kept(tmp_path: Path) -> None:
    text = traceback('"/usr/lib/python3/runpy.py", line 3, in run')
    assert '"/usr/lib/python3/runpy.py", line 3' in author_error(text, tmp_path)


def test_a_syntax_error_keeps_its_line(tmp_path: Path) -> None:
    below = ["    def (", "        ^", "SyntaxError: invalid syntax"]
    text = "\n".join([f'  File "{tmp_path}/bot.py", line 3', *below])
    assert author_error(text, tmp_path).splitlines() == ['  File "bot.py", line 3', *below]


HOSTILE_PATHS = [
    "{here}/.idea/loop/bot.py",
    "{here}/.idea/" + "loop/" * 50,
    "{here}/" + "x" * 20_000 + "/bot.py",
    "{here}/nul\0/bot.py",
    "{here}/\udcff\ud800/bot.py",
    "{here}/pipe",
    "{here}/gone/bot.py",
    "/dev/zero",
    "/proc/self/mem",
    "~/bot.py",
    "",
    "/",
    "../" * 5_000,
    '", line 1, in f' * 500,
]
"""Files that a bot's traceback may name; `here` is its folder."""


def hostile_folder(here: Path) -> None:
    """Make the files of those names that can be made."""
    (here / ".idea").mkdir()
    (here / ".idea" / "loop").symlink_to("loop")
    os.mkfifo(here / "pipe")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without such files")
@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=lambda path: repr(path[:30]))
def test_a_traceback_may_name_any_file(tmp_path: Path, path: str) -> None:
    hostile_folder(tmp_path)
    hostile = path.format(here=tmp_path) if "{here}" in path else path
    own = f'"{tmp_path}/bot.py", line 7, in search'
    error = author_error(traceback(own, f'"{hostile}", line 3, in f'), tmp_path)
    assert frames(error)[0] == '  File "bot.py", line 7, in search'
    assert error.endswith("KeyError: 'x'")
    assert all(line.isprintable() for line in error.splitlines())


def test_in_a_folder_that_is_gone_errors_are_shown_with_all_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    shown = author_error(traceback('"/bot.py", line 7, in search', '"b.py", line 1, in f'), None)
    assert len(frames(shown)) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without such files")
def test_a_process_with_a_hostile_traceback_forfeits_and_the_match_goes_on(tmp_path: Path) -> None:
    paths = [
        path.format(here=tmp_path / "hostile") for path in HOSTILE_PATHS if "\ud800" not in path
    ]
    text = traceback(*(f'"{path}", line 1, in f' for path in paths))
    end = f"(sys.stderr.write({text!r}), sys.stderr.flush(), os._exit(3))"
    hostile = lines_bot(tmp_path, "hostile", end)
    hostile_folder(tmp_path / "hostile")
    result = run_match_over_streams(settings([hostile, opponent(tmp_path)], OutputPlan()))
    assert result.games == 2
    assert result.faults.count == 2
    assert all("KeyError: 'x'" in group.first.error for group in result.faults)


HOSTILE_ERRORS = {
    "a file with no name": "run_as('a\\0b')",
    "a pipe": "run_as(pipe)",
    "no end": "run_as('/dev/zero')",
    "a huge file": "run_as(huge)",
    "a loop of causes": "raise_in_a_loop()",
    "deep recursion in repr": "[][Deep()]",
    "no text": "raise_(Evil('__str__'))",
    "no notes": "raise_(Evil('__notes__'))",
    "no traceback": "raise_(Evil('with_traceback'))",
    "a group": "raise_(ExceptionGroup('g', [Evil('__str__')]))",
    "an exit without a text": "raise_(EvilExit())",
    "a note without an end": "self.note('chance', 10 ** 400)",
    "notes of odd characters": "self.note('\\udcff\\0' * 200, float('nan'))",
}
"""How a bot in this process may fail."""
EVIL = """
import os
pipe, huge = {pipe!r}, {huge!r}

def run_as(name):
    exec(compile("1 / 0", "plain", "exec").replace(co_filename=name))

def raise_(error):
    raise error

def raise_in_a_loop():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    raise one

class Deep:
    def __repr__(self):
        return repr(self)
    __str__ = __index__ = __repr__

class Evil(Exception):
    def __init__(self, what):
        self.what = what
    def __getattribute__(self, name):
        if name == Exception.__getattribute__(self, "what"):
            raise RuntimeError(name)
        return Exception.__getattribute__(self, name)
    def __str__(self):
        return self.__str__()

class EvilExit(SystemExit):
    def __str__(self):
        raise RuntimeError
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without such files")
@pytest.mark.parametrize("error", HOSTILE_ERRORS.values(), ids=HOSTILE_ERRORS)
def test_whatever_a_bot_in_this_process_raises_is_its_own_fault(tmp_path: Path, error: str) -> None:
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(1 << 30)
    evil = EVIL.format(pipe=str(pipe), huge=str(huge))
    bots = [program(tmp_path, "hostile", error, evil), resolve("greedy")]
    result = in_this_process(settings(bots, OutputPlan(), games=1))
    assert result.games == 1
    if "note" in error.partition("(")[0]:
        assert result.faults.count == 0
    else:
        assert result.faults.count > 0


def test_only_the_last_traceback_counts(tmp_path: Path) -> None:
    first = traceback(f'"{tmp_path}/a.py", line 1, in f')
    second = traceback(f'"{tmp_path}/b.py", line 2, in g')
    assert frames(author_error(first + second, tmp_path)) == ('  File "b.py", line 2, in g',)


def test_of_other_languages_the_last_20_lines_are_kept() -> None:
    node = [*map(str, range(30)), "TypeError: x is not a function", "", "Node.js v20.20.2"]
    kept = author_error("\n".join(node), None).splitlines()
    assert len(kept) == 20
    assert kept[-1] == "Node.js v20.20.2"
    assert error_line("\n".join(kept)) == "TypeError: x is not a function"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", ""), ("  \n\n", ""), ("a\nno idea\n", "no idea"), ("os.MyError: 3", "os.MyError: 3")],
)
def test_the_line_that_names_the_error(text: str, words: str) -> None:
    assert error_line(text) == words


def test_nothing_writes_to_the_terminal() -> None:
    text = author_error("\x1b[31mred\nTraceback (most recent call last):\nEvil\u202e: \x07\n", None)
    assert all(line.isprintable() for line in text.splitlines())
    assert len(author_error("x" * 100_000, None)) <= 200
