"""The progress line: where it is drawn, what it says, and that nothing of it stays."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from deepsea_cli.output import PATIENCE_US, REDRAW_US, Progress, echo
from deepsea_referee.clock import SystemClock
from helpers.commands import Run, Tty, environment

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIPED = "\x1b[2K"


class Ticking:
    """A clock that goes on by as much each time it is read."""

    def __init__(self, step_us: int = PATIENCE_US) -> None:
        self._us = 0
        self._step_us = step_us

    def __call__(self) -> int:
        self._us += self._step_us
        return self._us


Make = Callable[[int], Tty]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(columns: int) -> Tty:
        stderr = Tty()
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))
        return stderr

    return make


def lines(stderr: Tty) -> list[str]:
    """What was written, line by line, without what moves the cursor."""
    text = ESCAPES.sub("", stderr.getvalue()).replace("\r", "\n")
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_a_digest_is_broken_nowhere_so_that_it_can_be_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stdout = Tty()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("COLUMNS", "60")
    echo(f"head 20: {'ab' * 32}")
    assert stdout.getvalue().splitlines() == ["head 20:", f"      {'ab' * 32}"]


def test_it_counts_and_is_wiped(terminal: Make) -> None:
    stderr = terminal(100)
    with Progress(3, now_us=Ticking()) as progress:
        progress.advance()
        progress.advance()
    drawn = lines(stderr)
    assert drawn[0].startswith("1/3 ")
    assert "2/3 " in drawn[1]
    assert "0.0 games/s" not in drawn[1]
    assert stderr.getvalue().endswith(WIPED)
    assert stderr.getvalue().count("\x1b[?25l") == stderr.getvalue().count("\x1b[?25h") == 1


def test_what_cannot_wait_is_drawn_at_once(terminal: Make) -> None:
    stderr = terminal(100)
    with Progress(3, now_us=Ticking(1)) as progress:
        progress.advance(0, "soon")
        assert lines(stderr) == []
        progress.advance(0, "waiting", at_once=True)
        progress.advance(0, "waiting still")
        assert lines(stderr)[-1].endswith("waiting")


def test_analyse_says_what_it_does_from_the_first_record_to_the_page(
    terminal: Make, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("greedy", "random", "--games", "2", "--in-process", "--seed", "demo")
    run("match", *words, "--out", tmp_path / "played")
    ticking = Ticking()
    monkeypatch.setattr(SystemClock, "now_us", lambda _clock: ticking())
    stderr = terminal(100)
    few = ("--rollouts", "2", "--report", "--bot", "random")
    done = run("analyse", tmp_path / "played", *few, "--html", tmp_path / "page.html")
    assert done.status == 0
    doing = [words.split()[-1] for words in lines(stderr) if words.startswith("2/2 ")]
    assert [*dict.fromkeys(doing)] == ["records", "habits", "games"]


def test_without_a_total_it_counts_on(terminal: Make) -> None:
    stderr = terminal(100)
    with Progress(None, now_us=Ticking()) as progress:
        progress.advance(7, "2 void")
    assert re.fullmatch(r"7 +[0-9.]+ games/s +2 void", lines(stderr)[0])


def test_without_a_terminal_a_line_is_printed_every_half_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now_us = [0]
    for printed in (True, False):
        with Progress(400, "blocks", printed=printed, now_us=lambda: now_us[0]) as progress:
            for _ in range(100):
                now_us[0] += 1_000_000
                progress.advance(1, "undecided")
        assert capsys.readouterr().err.splitlines() == (
            [f"{n}/400 blocks, 1.0 blocks/s  undecided" for n in (30, 60, 90)] if printed else []
        )


def test_a_long_note_fits_sixty_columns(terminal: Make) -> None:
    stderr = terminal(60)
    note = "+0.012 [-0.123, +0.145] undecided"
    with Progress(2000, "blocks", now_us=Ticking()) as progress:
        progress.advance(120, note)
        progress.advance(0, note * 3)
    drawn = lines(stderr)
    assert drawn[0].endswith(note)
    assert drawn[1].endswith("…")
    assert all(len(line) <= 60 for line in drawn)
    assert re.match(r"120/2000 [0-9:-]+ ", drawn[0])  # the remaining time


def test_no_color_leaves_plain_text(terminal: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stderr = terminal(100)
    with Progress(3, now_us=Ticking()) as progress:
        progress.advance()
    codes = re.findall(r"\x1b\[([0-9;]*)m", stderr.getvalue())
    assert not [code for code in codes if re.search(r"(?:^|;)(?:3|4|9|10)[0-9]", code)]


def test_what_is_printed_meanwhile_stands_above_it(terminal: Make) -> None:
    stderr = terminal(100)
    with Progress(3, now_us=Ticking()) as progress:
        progress.advance()
        click.echo("deepsea-referee: game 2 is void", err=True)
        progress.advance()
    text = stderr.getvalue()
    wiped = text.index(WIPED, text.index("1/3"))
    assert wiped < text.index("deepsea-referee: game 2 is void") < text.index("2/3")
    assert "deepsea-referee: game 2 is void" in lines(stderr)
    assert sys.stderr is stderr


def test_it_draws_seldom_and_nothing_for_what_is_over_soon(terminal: Make) -> None:
    stderr = terminal(100)
    now_us = [0]
    seen = []
    with Progress(100, now_us=lambda: now_us[0]) as progress:
        due_us = PATIENCE_US + REDRAW_US
        for now_us[0] in (1, PATIENCE_US - 1, PATIENCE_US, due_us - 1, due_us):
            progress.advance()
            seen.append(len(lines(stderr)))
    assert seen == [0, 0, 1, 1, 2]


def test_an_error_wipes_it(terminal: Make) -> None:
    stderr = terminal(100)

    def interrupted() -> None:
        with Progress(3, now_us=Ticking()) as progress:
            progress.advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stderr.getvalue().endswith(WIPED)


@pytest.mark.parametrize(("wanted", "term"), [(False, "xterm"), (True, "dumb")])
def test_nothing_where_it_is_not_wanted(
    terminal: Make, monkeypatch: pytest.MonkeyPatch, wanted: bool, term: str
) -> None:
    stderr = terminal(100)
    monkeypatch.setenv("TERM", term)
    with Progress(3, wanted=wanted, now_us=Ticking()) as progress:
        progress.advance()
    assert stderr.getvalue() == ""


CODE = """
import sys
from deepsea_cli.output import Progress
at = iter(range(0, 10**9, 10**7))
with Progress(9, now_us=lambda: next(at)) as progress:
    progress.advance()
    print("rich" in sys.modules)
"""


def test_a_pipe_gets_nothing_and_rich_is_not_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, env=environment(), check=True
    )
    assert (done.stdout, done.stderr) == (b"False\n", b"")


def test_a_real_terminal_gets_it_while_stdout_is_a_pipe() -> None:
    parent, child = pty.openpty()
    try:
        environ = {**environment(), "TERM": "xterm"}
        stdout = subprocess.check_output([sys.executable, "-c", CODE], stderr=child, env=environ)
        assert stdout == b"True\n"
        assert "1/9" in os.read(parent, 4096).decode()
    finally:
        os.close(parent)
        os.close(child)
