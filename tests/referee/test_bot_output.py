"""What a bot prints is always there: in memory, in files, and as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deepsea_referee import in_process, shared_match
from deepsea_referee.bots.output import BotOutput, OutputPlan, OutputTail, log_name
from deepsea_referee.bots.resolve import BotSpec, resolve
from deepsea_referee.match import MatchSettings, run_match
from deepsea_referee.results.results_json import log_names
from deepsea_referee.results.summary import MatchResult
from deepsea_rules.randomness import seed_from_text
from helpers.programs import PATIENT, program


def test_the_end_of_a_stream_is_kept() -> None:
    tail = OutputTail(10)
    for data in (b"abc", b"defgh", b"ijklm"):
        tail.take(data)
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
    output = OutputPlan(tmp_path).open(0, "quiet", 1)
    output.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    output = BotOutput(tmp_path / "missing" / "log")
    sinks = output.sinks()
    assert sinks is not None
    sinks[0](b"one\n")
    output.close()
    assert not output.in_file


Play = Callable[[MatchSettings], MatchResult]


def separate(settings: MatchSettings) -> MatchResult:
    return run_match(settings)


def in_this_process(settings: MatchSettings) -> MatchResult:
    return in_process.run_match(settings)


def shared(settings: MatchSettings) -> MatchResult:
    return shared_match.run_match(settings, 2)


def settings(bots: Sequence[BotSpec], output: OutputPlan, games: int = 2) -> MatchSettings:
    seed = seed_from_text("output")
    return MatchSettings(bots, PATIENT, games=games, seed=seed, output=output)


def chatty(folder: Path, name: str = "chatty", fault: str = "") -> BotSpec:
    say = "print('out', view.dive), print('err', view.dive, file=sys.stderr)"
    return program(folder, name, f"({say}{fault})")


@pytest.mark.parametrize("how", [separate, in_this_process])
def test_every_process_has_a_file_with_all_that_it_printed(tmp_path: Path, how: Play) -> None:
    out = tmp_path / "out"
    out.mkdir()
    bots = [resolve("greedy"), chatty(tmp_path)]
    result = how(settings(bots, OutputPlan(out)))
    assert result.faults.count == 0
    assert log_names(result.logs) == ["bot-2-start-1.log"]
    (log,) = result.logs
    assert log.text == ""
    lines = (out / "bot-2-start-1.log").read_text().splitlines()
    decisions = result.summaries()[1].decisions
    assert sum(line.startswith("out ") for line in lines) == decisions
    assert sum(line.startswith("err ") for line in lines) == decisions


@pytest.mark.parametrize("how", [separate, in_this_process])
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
    bots = [chatty(tmp_path), chatty(tmp_path, "other")]
    result = how(settings(bots, OutputPlan(shown=frozenset({1}))))
    out, err = capsys.readouterr()
    assert out == ""
    decisions = result.summaries()[1].decisions
    assert err.splitlines().count("other| out 1") > 0
    assert len(err.splitlines()) == 2 * decisions
    assert "chatty" not in err


def test_each_worker_writes_files_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    bots = [chatty(tmp_path), resolve("greedy")]
    result = shared(settings(bots, OutputPlan(out), games=4))
    names = log_names(result.logs)
    assert names == [log_name(0, 1, 1), log_name(0, 1, 2)]
    assert sorted(path.name for path in out.iterdir()) == names
    texts = [(out / name).read_text() for name in names]
    assert sum(text.count("out ") for text in texts) == result.summaries()[0].decisions
