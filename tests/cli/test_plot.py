"""`match --plot` and `compare --plot`: what is drawn, and what is refused before a game."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from helpers.commands import Run

MATCH = ("match", "greedy", "random", "cautious", "--games", 6, "--seed", "demo", "--in-process")
COMPARE = ("compare", "greedy", "random", "--blocks", 4, "--seed", "demo", "--in-process")


def words(path: Path) -> str:
    return " ".join(fromstring(path.read_text(encoding="utf-8")).itertext())


def test_a_match_is_drawn(run: Run, tmp_path: Path) -> None:
    done = run(*MATCH, "--plot", tmp_path / "m.svg")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == f"plots: {tmp_path / 'm.svg'}"
    text = words(tmp_path / "m.svg")
    assert "6 games, manual rules, clock 100ms+2s, in-process, seed demo" in text
    assert "greedy: first in" in text
    assert [*tmp_path.iterdir()] == [tmp_path / "m.svg"]


def test_an_html_file_is_a_page(run: Run, tmp_path: Path) -> None:
    assert run(*MATCH, "--plot", tmp_path / "m.html", "--quiet").out == ""
    assert (tmp_path / "m.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_json_stays_json(run: Run, tmp_path: Path) -> None:
    json.loads(run(*MATCH, "--plot", tmp_path / "m.svg", "--json").out)
    assert (tmp_path / "m.svg").exists()


def test_a_comparison_is_drawn_with_its_lead(run: Run, tmp_path: Path) -> None:
    field = (*COMPARE, "--field", "greedy", "--seats", 4)
    done = run(*field, "--plot", tmp_path / "c.svg")
    assert f"plots: {tmp_path / 'c.svg'}" in done.out
    text = words(tmp_path / "c.svg")
    assert "greedy against random" in text
    assert "after 4 blocks: " in text
    # Both bots of the field, which are called after A.
    assert "greedy 2" in text
    assert "greedy 3" in text


def test_a_comparison_that_goes_on_draws_earlier_blocks_too(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    run(*COMPARE, "--out", kept)
    run(*COMPARE[:4], 9, *COMPARE[5:], "--out", kept, "--plot", tmp_path / "on.svg")
    run(*COMPARE[:4], 9, *COMPARE[5:], "--plot", tmp_path / "whole.svg")
    one, two = (words(tmp_path / f"{name}.svg") for name in ("on", "whole"))
    end = one.index("Decision times")
    assert "after 9 blocks" in one
    assert one[:end] == two[:end]


@pytest.mark.parametrize("command", [MATCH, COMPARE])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plot.png", "the name has to end in .svg or .html"),
        ("plot", "the name has to end in .svg or .html"),
        ("there.svg", "exists: name another file, or remove it first"),
        ("dangling.svg", "exists: name another file, or remove it first"),
        ("none/plot.svg", "cannot write to"),
        ("there.svg/plot.svg", "cannot write to"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_a_game_is_played(
    run: Run, tmp_path: Path, command: tuple[object, ...], name: str, said: str
) -> None:
    (tmp_path / "there.svg").write_text("mine", encoding="utf-8")
    (tmp_path / "dangling.svg").symlink_to(tmp_path / "nowhere")
    # No bot of this name: it would be the error of a command that had gone on.
    assert said in run(command[0], "nobody", *command[2:], "--plot", tmp_path / name).refusal
    assert (tmp_path / "there.svg").read_text(encoding="utf-8") == "mine"
