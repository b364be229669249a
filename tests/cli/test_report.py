"""What is printed after a match, whatever came of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from deepsea_cli.match_report import report
from deepsea_cli.output import print_command
from deepsea_referee.bots.output import BotLog
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.summary import GameResult, MatchResult, VoidGame
from deepsea_rules.faults import Fault
from deepsea_rules.game import Decision
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.time_control import TimeControl
from helpers.results import ILLEGAL

NAMES = ("greedy", "a bot with a long name", "random")


def result(
    *entries: GameResult | VoidGame, names: tuple[str, ...] = NAMES, **fields: Any
) -> MatchResult:
    """A match with these games; each bot made three decisions in each."""
    bots = tuple(BotSpec(name, ("true",), None, "0" * 64) for name in names)
    clock = TimeControl.parse("100ms+2s")
    match = MatchResult(
        bots,
        PRESETS["manual"],
        clock,
        bytes(32),
        **{"games_asked": 1, "isolation": "process", **fields},
    )
    for entry in entries:
        if isinstance(entry, VoidGame):
            match.add_void(entry)
            continue
        times = (250, 1_500, 2_300_000)
        match.add(entry, [Decision(seat, "back", us, None) for seat in entry.seats for us in times])
    return match


def game(number: int = 1, faults: int = 0, placements: tuple[int, ...] = (2, 1, 3)) -> GameResult:
    fault = replace(ILLEGAL, seat=2)
    scores = (10, 31, 0)[: len(placements)]
    seats = tuple(range(len(placements)))
    return GameResult(number, f"x-{number}", seats, scores, placements, (), (fault,) * faults)


def said(capsys: pytest.CaptureFixture[str], match: MatchResult, out: Path | None = None) -> str:
    report(match, "demo", out, ("greedy", "cmd:node bot.js"))
    return capsys.readouterr().out


def rows(text: str) -> list[list[str]]:
    """Head and rows of the table, the bot with its spaces taken out."""
    _, table, *_ = text.split("\n\n")
    return [line.split("  ") for line in table.splitlines()]


def test_the_best_bot_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, result(game()))
    assert text.startswith("1 game, manual rules, clock 100ms+2s, process, seed demo\n\n")
    assert [row[0] for row in rows(text)] == ["bot", NAMES[1], NAMES[0], NAMES[2]]
    assert " 1.00    31.0       0  1.5 ms   2.30 s\n" in text


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (100, "bot games wins placement points faults median slowest"),
        (80, "bot games wins placement points faults median slowest"),
        (60, "bot games wins placement points faults"),
        (50, "bot wins placement points faults"),
        (40, "bot placement points faults"),
    ],
)
def test_a_narrow_table_shortens_names_and_drops_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, heads: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = said(capsys, result(game()))
    table = text.split("\n\n")[1].splitlines()
    assert len(table) == 4
    assert max(map(len, table)) <= columns
    assert table[0].split() == heads.split()
    assert ("…" in table[1]) == (columns < 80)


def test_one_game_names_its_winner_and_how_to_see_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, result(game()), Path("my runs"))
    assert f"{NAMES[1]} (seat B) wins with 31 points\n" in text
    assert "my runs; to watch a game:\n  deepsea-referee show 'my runs/game-0001.json'\n" in text
    text = said(capsys, result(game()))
    again = "deepsea-referee match greedy 'cmd:node bot.js' --seed demo --out DIR\n"
    assert text.endswith(f":\n  {again}")


def test_a_tie_break_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    won = replace(game(), points=(31, 31, 0))
    text = said(capsys, result(won))
    assert (
        f"{NAMES[1]} (seat B) wins with 31 points, ahead of greedy (seat A) by the tie-break"
        in text
    )


def test_a_command_names_this_program_as_it_was_called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "deepsea-referee"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for argument, path, shown in (
        (str(program), "/nowhere", str(program)),
        (str(program), str(tmp_path), "deepsea-referee"),
        ("/somewhere/deepsea_cli/__main__.py", "/nowhere", "deepsea-referee"),
    ):
        monkeypatch.setattr(sys, "argv", [argument])
        monkeypatch.setenv("PATH", path)
        print_command("deepsea-referee", "rules")
        assert capsys.readouterr().out == f"  {shown} rules\n"


def test_a_shared_win_has_no_single_winner(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, result(game(placements=(1, 1, 3))))
    assert f"greedy (seat A) and {NAMES[1]} (seat B) share the first place with 10" in text


def test_the_same_faults_are_one_line_and_others_have_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    games = [game(number, faults=3) for number in range(1, 5)]
    text = said(capsys, result(*games, games_asked=4))
    assert "12 faults:\n" in text
    assert (
        "  random: illegal_action ×12, first in game 1, seat C, decision 7, after 0.4 ms: "
        "it answered 'jump'\n" in text
    )
    assert text.count("it answered 'jump'") == 1
    many = [
        replace(one, faults=(replace(one.faults[0], came=f"it answered {one.game}"),))
        for one in (game(number, faults=1) for number in range(1, 13))
    ]
    assert "  and 2 other kinds\n" in said(capsys, result(*many))
    assert "(seat B) wins" not in text
    one = said(capsys, result(game(faults=1)))
    assert "1 fault:\n" in one
    assert "×" not in one
    assert "other" not in one


def test_void_games_are_reported_and_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    void = VoidGame(1, "x-1", "the disk is full")
    text = said(capsys, result(void), Path("runs"))
    assert text.startswith("0 games,")
    assert "1 void game:\n  game 1: the disk is full\n" in text
    assert [row[1:] for row in rows(text)[1:]]
    assert text.count(" - ") >= 3
    assert "watch" not in text


@pytest.mark.parametrize(("share", "unfair"), [(0.0, False), (0.02, False), (0.07, True)])
def test_a_machine_that_was_too_busy_is_named(
    capsys: pytest.CaptureFixture[str], share: float, unfair: bool
) -> None:
    text = said(capsys, result(game(), late_share=share))
    assert ("this machine was too busy to be fair: the referee was late for 7 %" in text) is unfair
    assert ("too busy" in text) is unfair


def test_logs_are_pointed_to(capsys: pytest.CaptureFixture[str]) -> None:
    match = result(game(), logs=[BotLog(2, 1, "Traceback", in_file=True)])
    assert "output of random: runs/bot-3-start-1.log\n" in said(capsys, match, Path("runs"))


def test_what_bots_say_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("a\x1b[31m", "b\u202e", "c\nd")
    void = VoidGame(1, "x-1", "evil\x1b[2J")
    text = said(capsys, result(game(faults=1), void, names=names))
    assert all(line.isprintable() for line in text.splitlines())


def test_wide_characters_keep_the_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    names = ("深海探検隊深海探検隊深海探検隊", "anna", "bob")
    table = said(capsys, result(game(), names=names)).split("\n\n")[1].splitlines()
    assert len({cell_len(line) for line in table}) == 1
    assert cell_len(table[0]) <= 60


def test_an_exception_is_shown_once_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    plain = game(1, faults=1)
    error = "Traceback (most recent call last):\n  File \"b.py\", line 7, in f\nKeyError: '\x1b[2J'"
    raised = replace(plain.faults[0], fault=Fault.EXCEPTION, error=error)
    text = said(capsys, result(plain, replace(game(2), faults=(raised, raised))))
    assert text.count("\n      File \"b.py\", line 7, in f\n    KeyError: '\\x1b[2J'\n") == 1
