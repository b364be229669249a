"""`analyse`: what it prints, the same whatever the workers, and how it refuses bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deepsea_cli.output import Progress
from deepsea_rules.actions import BACK, TAKE
from deepsea_rules.view import View
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.table import play
from helpers.commands import Run, faulty, one_line, played, record_of, written
from helpers.planted import Steady, planted
from helpers.tiers import daily

QUICK = ("--rollouts", "2")


@pytest.fixture
def game(tmp_path: Path) -> Path:
    return written(tmp_path, played(players=2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two games, and what else a match leaves."""
    written(tmp_path, played(players=2))
    written(tmp_path, faulty(), "game-0002.json")
    (tmp_path / "results.json").write_text("{}")
    return tmp_path


def test_one_game(run: Run, tmp_path: Path) -> None:
    game = tmp_path / "planted.json"
    planted().save(game)
    done = run("analyse", game, "--rollouts", "40", "--seat", "b")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == [
        "game local, manual rules",
        "placement scores by roll-outs of steady-2-leads-1, 40 for each option",
    ]
    (head,) = (n for n, line in enumerate(lines) if line.endswith(" to declare  ??"))
    assert "dive 3: B OneTurnLate" in lines[head]
    position, down, back = lines[head + 1 : head + 4]
    assert "*B" in position.partition("|")[2]
    assert down.startswith("  down  0.")
    assert "  played, 0." in down
    assert back.startswith("  back  0.")
    assert "  played\n" not in done.out
    assert any(line.split()[:3] == ["seat", "bot", "decisions"] for line in lines)
    assert lines[-1].startswith("one game proves little")
    assert max(len(line) for line in lines if "|" not in line) <= 100


def test_all_decisions(run: Run, game: Path) -> None:
    done = run("analyse", game, *QUICK, "--all")
    heads = [line for line in done.out.splitlines() if line.startswith("decision ")]
    assert len(heads) == len(record_of(played(players=2)).decisions)
    assert "  played\n" in done.out


def test_luck(run: Run, game: Path) -> None:
    done = run("analyse", game, *QUICK, "--luck")
    assert "others' dice" in done.out
    assert "without luck" in done.out
    assert "without luck" in run("analyse", game, game, *QUICK, "--luck").out


def test_one_seat(run: Run, game: Path) -> None:
    done = run("analyse", game, *QUICK, "--seat", "b", "--all")
    heads = [line for line in done.out.splitlines() if line.startswith("decision ")]
    assert all(": B cautious to " in head for head in heads)
    assert "greedy" not in done.out


def test_many_games_have_sums_first(run: Run, folder: Path) -> None:
    planted().save(folder / "game-0003.json")
    done = run("analyse", folder, "--rollouts", "40", "--seat", "b")
    lines = done.out.splitlines()
    assert lines[0].startswith("3 games, placement scores by roll-outs of steady-2-leads-1")
    assert lines[2].split() == ["bot", "games", "lost", "a", "game", "each", "?!", "?", "??"]
    assert lines[3].startswith("cautious ")
    assert "±" in lines[3]
    assert lines[4].startswith("OneTurnLate ")
    assert any(line.startswith("the worst of ") for line in lines)
    assert sum(line.startswith("decision ") for line in lines) <= 10
    assert "without luck" not in done.out


@pytest.mark.parametrize("whole", [True, False])
def test_ctrl_c_keeps_what_was_found(
    run: Run, game: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    decisions = len(record_of(played(players=2)).decisions)
    wanted = decisions + 2 if whole else 5
    seen: list[int] = []

    def interrupt(self: Progress, steps: int = 1, note: str = "") -> None:
        if not note:  # else the records are being read
            seen.append(steps)
        if sum(seen) >= wanted:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", interrupt)
    done = run("analyse", game, game, *QUICK, "--all", *([] if whole else ["--luck"]))
    shown = "after 1 of 2 games" if whole else "in the first game"
    assert (done.status, one_line(done.err)) == (130, f"deepsea-referee: interrupted {shown}")
    heads = [line for line in done.out.splitlines() if line.startswith("decision ")]
    assert len(heads) == decisions if whole else 0 < len(heads) < decisions
    assert "without luck" not in done.out


def test_the_same_document_with_any_number_of_workers(run: Run, folder: Path) -> None:
    one = run("analyse", folder, *QUICK, "--json")
    two = run("analyse", folder, *QUICK, "--json", "--workers", "2")
    assert (two.status, two.err) == (0, "")
    assert one.out == two.out
    data = json.loads(one.out)
    assert (data["policy"], data["precision"], data["rollouts"]) == ("steady-2-leads-1", None, 2)
    assert [Path(game["record"]).name for game in data["games"]] == [
        "game-0001.json",
        "game-0002.json",
    ]
    assert run("analyse", folder, *QUICK, "--json", "--seed", "b").out != one.out


def test_a_page(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("analyse", folder, *QUICK, "--html", page)
    assert done.status == 0
    text = page.read_text()
    assert text.count('"policy":"steady-2-leads-1"') == 2
    assert "exists" in run("analyse", folder, *QUICK, "--html", page).refusal


def test_bad_input_is_one_line(run: Run, tmp_path: Path, game: Path) -> None:
    (tmp_path / "text").write_text("no record")
    (tmp_path / "empty").mkdir()
    altered = replace(record_of(played(players=2)), points=(99, 0))
    (tmp_path / "altered.json").write_text(altered.to_json())
    for arguments, reason in (
        ((tmp_path / "missing",), "cannot be read"),
        ((tmp_path / "text",), "not JSON"),
        ((tmp_path / "empty",), "there are no records"),
        ((tmp_path / "altered.json",), "result.points"),
        ((game, "--seat", "E"), "has seats A to B"),
        ((game, "--rollouts", "4", "--precision", "0.1"), "exclude each other"),
        ((game, "--precision", "0"), "--precision"),
        ((game, "--workers", "0"), "--workers"),
        ((), "RECORD"),
    ):
        assert reason in run("analyse", *arguments).refusal


def test_names_of_bots_cannot_write_to_the_terminal(run: Run, tmp_path: Path) -> None:
    record = record_of(played(players=2))
    seats = tuple(seat._replace(name="\x1b[2Jbad") for seat in record.seats)
    path = tmp_path / "bad.json"
    path.write_text(replace(record, seats=seats).to_json())
    assert "\x1b" not in run("analyse", path, *QUICK, "--all", "--luck").out
    assert "\x1b" not in run("analyse", path, path, *QUICK, "--all").out
    assert "\x1b" not in run("analyse", path, path, *QUICK, "--report").out


# Where bots lose


class Early(Steady):
    """Turns back with its first piece."""

    def decide(self, view: View) -> str:
        action = TAKE if not view.me.load else BACK
        return action if action in view.legal else super().decide(view)


def season(folder: Path, version: type[Steady], games: int = 8) -> Path:
    """Games of a bot, named as Early is, against the policy, in seats that change."""
    folder.mkdir()
    mine = type("Early", (version,), {})
    for number in range(games):
        bots: list[AnyBot] = [mine, Steady]
        game = play(bots if number % 2 else bots[::-1], seed=f"season {number}")
        game.save(folder / f"game-{number:04}.json")
    return folder


@pytest.fixture(scope="module")
def seasons(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Eight games of a bot that turns back early, and of a version that does not."""
    folder = tmp_path_factory.mktemp("seasons")
    return season(folder / "early", Early), season(folder / "steady", Steady)


REPORT = ("--report", "--rollouts", "12")
FEW = ("--report", "--rollouts", "2", "--bot", "Early")


def test_a_report_names_the_situation_and_its_clearest_positions(
    run: Run, seasons: tuple[Path, Path]
) -> None:
    early, _ = seasons
    done = run("analyse", early, *REPORT)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("8 games, placement scores by roll-outs of steady-2-leads-1")
    assert "Steady: no situation in which it surely loses, in 8 games" in lines
    head = lines.index(next(line for line in lines if line.startswith("situation ")))
    assert lines[head + 1].startswith("turns back ")
    where = next(line for line in lines if line.startswith("turns back instead of swimming on "))
    assert "carrying something" in where
    drawn = lines[lines.index(where) + 1 :]
    assert drawn[0].startswith("air ")
    position = drawn[drawn.index(next(line for line in drawn if line.startswith("  /"))) :]
    record, number = position[0].split()[0].rstrip(","), position[0].split()[2].rstrip(",")
    # The classes of these games are in no file that could be imported.
    assert position[1].startswith("  (steady plays on in all seats: no Python file is known of ")
    at = f"{record} steady --at {number}"
    assert position[2].endswith(f"branch {at} --action down --games 100")
    assert position[3].endswith(f"show {record} --at {number}")


# Changes are found in tests/arena/test_weaknesses.py, their lines are those of the report above.
@pytest.mark.release
def test_a_report_says_what_has_changed(run: Run, seasons: tuple[Path, Path]) -> None:
    early, steady = seasons
    done = run("analyse", steady, *REPORT, "--bot", "Early", "--before", early)
    assert "Early: what has changed, in 8 and 8 games, before and now" in done.out.splitlines()
    (row,) = (line for line in done.out.splitlines() if line.startswith("turns back "))
    assert row.split()[2] == "better"
    # The policy itself has no weakness, whatever the roll-outs say.
    assert "Early: no situation in which it surely loses, in 8 games" in done.out.splitlines()


def test_a_report_says_that_nothing_has_changed(run: Run, seasons: tuple[Path, Path]) -> None:
    early, _ = seasons
    assert "no change by more than" in run("analyse", early, *FEW, "--before", early).out


def test_a_report_for_programs(run: Run, seasons: tuple[Path, Path]) -> None:
    early, _ = seasons
    done = run("analyse", early, *REPORT, "--bot", "Early", "--json")
    data = json.loads(done.out)
    assert (data["format"], data["rollouts"]) == ("deepsea-weaknesses/1", 12)
    (bot,) = data["bots"]
    assert (bot["bot"], bot["games"], bot["before"]) == ("Early", 8, 0)
    worst = bot["weaknesses"][0]
    assert worst["situation"] == "turns back"
    assert worst["lost"] - worst["error"] > 0
    assert [(one["played"], one["policy"]) for one in worst["clearest"]] == [("back", "down")] * 3


NO_SENSE = [
    (("--report", "--luck"), "excludes"),
    (("--report", "--seat", "A"), "excludes"),
    (("--report", "--all"), "excludes"),
    (("--bot", "Early"), "need --report"),
    (("--before", "."), "need --report"),
    (("--report", "--bot", "nobody"), "has games of Early, Steady"),
    (("--report", "--before", "OTHERS"), "has the name"),
]


# The others are refused by the same lines.
@pytest.mark.parametrize(("arguments", "reason"), daily(NO_SENSE, [*NO_SENSE[::3], NO_SENSE[5]]))
def test_a_report_refuses_what_makes_no_sense(
    run: Run, seasons: tuple[Path, Path], folder: Path, arguments: tuple[str, ...], reason: str
) -> None:
    games = seasons[0] if "name" in reason or "games of" in reason else folder
    words = [folder if word == "OTHERS" else word for word in arguments]
    assert reason in run("analyse", games, "--rollouts", "2", *words).refusal
