"""`show`: what is shown is the game that was recorded, position by position."""

from __future__ import annotations

import json
import re
from io import BytesIO, TextIOWrapper
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings

from deepsea_arena.frames import frames
from deepsea_cli.terminal_board import draw_board
from deepsea_rules import narration
from deepsea_rules.events import TurnPlayed, event_for
from deepsea_rules.game import Game
from deepsea_rules.notation import format_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS, SEAT_LETTERS, RuleSet
from helpers.commands import NAMES, Run, faulty, played, record_of, written
from helpers.games import Chooser, choosers, play_out, players, rule_sets, salts
from helpers.ladder import claim, created, ids, play, rotations, stocked
from helpers.programs import program_in
from helpers.terminal import Terminal
from helpers.tiers import daily


@given(rules=rule_sets, players=players, salt=salts, chooser=choosers)
@settings(max_examples=20)
def test_the_positions_shown_are_those_of_the_game(
    rules: RuleSet, players: int, salt: str, chooser: Chooser
) -> None:
    game = Game(rules, players, seed_from_text(salt))
    asked: list[tuple[int, str]] = []
    play_out(game, chooser, lambda game: asked.append((turns_of(game), position(game))))
    moments = list(narration.moments(game))
    assert position(moments[-1]) == position(game)
    turns = [item for item in game.events if isinstance(item, TurnPlayed)]
    assert moments[-1].turn == len(turns)
    # Every position in which somebody declared or searched was shown in its turn.
    shown = {(moment.turn, position(moment)) for moment in moments}
    shown |= {(turn - 1, text) for turn, text in shown if text.endswith(" search")}
    assert {(turn, text) for turn, text in asked if not text.endswith(" order")} <= shown


def position(at: narration.NarratedPosition | Game) -> str:
    return format_position(at.state, "all")


def turns_of(game: Game) -> int:
    return sum(isinstance(item, TurnPlayed) for item in game.events)


def test_a_forfeited_seat_is_shown_with_its_default_actions() -> None:
    game = faulty()
    assert game.forfeits
    assert position(list(narration.moments(game))[-1]) == position(game)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_viewer_is_told_by_events_what_a_reader_of_the_record_is(preset: str) -> None:
    game = played(preset)
    story, values = narration.Story(game.rules), dict(enumerate(game.state.values))
    told = [line for item in game.events for line in story.add(event_for(item, values))]
    assert told == [line for moment in narration.moments(game) for line in moment.lines]
    words = {word for line in told for word in line.split()}
    assert words >= {"takes", "leaves", "brings", "banked", "lost"}
    assert "{" not in "".join(told)


@pytest.mark.parametrize("preset", PRESETS)
def test_events_are_those_that_a_watcher_gets(run: Run, tmp_path: Path, preset: str) -> None:
    game = played(preset)
    done = run("show", written(tmp_path, game), "--events")
    assert (done.status, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == game.events_for(None)


def test_frames_are_printed_for_a_viewer(run: Run, tmp_path: Path) -> None:
    game = played()
    record = written(tmp_path, game)
    assert json.loads(run("show", record, "--frames").out) == frames(record_of(game))
    seen = json.loads(run("show", record, "--frames", "--seat", "B").out)
    assert seen == frames(record_of(game), 1)
    assert "seats A to C" in run("show", record, "--frames", "--seat", "D").refusal


def test_in_a_pipe_every_turn_is_a_line(run: Run, tmp_path: Path) -> None:
    game = played()
    done = run("show", written(tmp_path, game))
    assert done.status == 0
    lines = done.out.splitlines()
    turns = [line for line in lines if re.match(r" *\d+ [A-F][▼▲] ", line)]
    happened = [item for item in game.events if isinstance(item, TurnPlayed)]
    assert len(turns) == len(happened)
    for line, item in zip(turns, happened, strict=True):
        assert line.split()[1][0] == SEAT_LETTERS[item.seat]
        assert f"air {item.air}" in line
        assert ("turns back" in line) == (item.declare == "back")
        assert ("takes" in line) == (item.search == "take")
        assert ("home" in line) == item.home
    assert max(map(len, turns)) <= 60
    assert sum(line.startswith("dive ") for line in lines) == 6  # three begin, three end
    result = game.result()
    best = result.placements.index(1)
    assert f"  1. {SEAT_LETTERS[best]} {NAMES[best]}  {result.points[best]}" in lines


def test_faults_are_told(run: Run, tmp_path: Path) -> None:
    out = run("show", written(tmp_path, faulty())).out
    assert out.count("B timeout at decision") == 3
    assert "(no answer): leave was played" in out
    assert "  B forfeited\n" in out


def test_turn_prints_one_position(run: Run, tmp_path: Path) -> None:
    game = played()
    record = written(tmp_path, game)
    last = turns_of(game)
    opening = run("show", record, "--turn", 0).out.splitlines()
    assert opening[-1].endswith("| d1 a25")
    assert opening[-1].startswith("1=")
    assert run("show", record, "--turn", last).out.splitlines()[-1] == position(game)
    assert f"the game has {last} turns" in run("show", record, "--turn", last + 1).refusal


def test_at_prints_one_decision(run: Run, tmp_path: Path) -> None:
    game = faulty()
    record = written(tmp_path, game)
    number = next(i for i, one in enumerate(game.decisions) if one.fault)
    seat = game.decisions[number].seat
    of_seat = run("show", record, "--seat", SEAT_LETTERS[seat]).out
    lines = run("show", record, "--at", number).out.splitlines()
    assert lines[0].endswith(f"at decision {number}")
    shown = "\n".join(lines[lines.index(next(o for o in lines if o.startswith("decision "))) :])
    assert shown in of_seat
    assert "fault 1 of this seat" in shown
    done = run("show", record, "--at", len(game.decisions))
    assert f"decisions 0 to {len(game.decisions) - 1}" in done.refusal


@pytest.mark.parametrize(("players", "columns"), daily(product([2, 6], [60, 80, 120]), [(6, 60)]))
def test_a_drawing_fits_its_width_and_a_steady_one_keeps_its_height(
    players: int, columns: int
) -> None:
    heights = set()
    for preset in PRESETS:
        for moment in narration.moments(played(preset, players)):
            lines = draw_board(
                moment.state, NAMES, moment.dice, columns, known=moment.known, steady=True
            )
            heights.add(len(lines))
            assert max(len(line.plain) for line in lines) <= columns
    assert len(heights) == 1


# Notes without processes: tests/sdk/test_notes.py.
@pytest.mark.parametrize(
    "where", daily(["--isolation=process", "--in-process"], ["--isolation=process"])
)
def test_what_a_bot_noted_is_beside_its_decisions(run: Run, tmp_path: Path, where: str) -> None:
    notes = "self.note('load', view.me.load); self.note('greedy')"
    bot = program_in(tmp_path, "noting", notes)
    out = tmp_path / "out"
    assert run("match", bot, "random", "--seed", "a", "--out", out, where).status == 0
    assert '"greedy"' not in (out / "game-0001.json").read_text()
    assert '"greedy"' not in (out / "results.json").read_text()
    record = out / "game-0001.json"
    first, *_ = json.loads((out / "notes-0001.json").read_text())
    line = "  note     load 0; greedy\n"
    assert line in run("show", record, "--seat", "A").out
    assert line in run("show", record, "--at", first["decision"]).out
    assert "  note     load 0; greedy" in run("debug", record, bot, "--seat", "A", "--all").out
    assert run("show", record, "--html", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text()
    assert '"note":"greedy","numbers":{"load":0.0}' in page
    for damaged, words in (
        ('[{"decision": 1}]', "missing required field `text`"),
        ('[{"decision": 1, "text": "", "numbers": {"x": 1' + "0" * 400 + "}}]", "out of range"),
        ('[{"decision": 1, "text": 3, "numbers": {}}]', "Expected `str`, got `int`"),
        ("[" * 100_000 + "]" * 100_000, "Expected `object`, got `array`"),
        ('[{"new": ' + "[" * 100_000 + "]" * 100_000 + "}]", "recursion"),
        ("\xff", "not the notes of a game"),
    ):
        (out / "notes-0001.json").write_bytes(damaged.encode("latin-1"))
        assert words in run("show", record, "--at", 0).refusal


def test_what_is_lost_is_what_was_carried_at_the_end(run: Run, tmp_path: Path) -> None:
    for salt in "abcdefgh":
        game = played(salt=salt)
        lines = run("show", written(tmp_path, game)).out.splitlines()
        cargo: dict[str, list[str]] = {}
        for line in lines:
            if match := re.match(r" *\d+ ([A-F])[▼▲].* (takes|drops|home) ?(.*)", line):
                seat, deed, unit = match.groups()
                items = cargo.setdefault(seat, [])
                if deed == "takes":
                    items.append(unit)
                elif deed == "drops":
                    items.remove(unit)
                else:
                    items.clear()
            elif match := re.match(r"  ([A-F]) lost (.*)", line):
                # Its owner may have chosen another order.
                carried = "".join(cargo.pop(match[1]))
                assert sorted(carried.translate(BARE)) == sorted(match[2].translate(BARE))
            elif line.startswith("dive ") and "begins" in line:
                assert not any(cargo.values())


BARE = str.maketrans("", "", "[] ")


def test_everybody_is_on_the_drawing(run: Run, tmp_path: Path) -> None:
    game = played(players=6)
    moments = {moment.turn: moment for moment in narration.moments(game)}
    record = written(tmp_path, game)
    for turn in (0, 5, 20):
        state = moments[turn].state
        lines = run("show", record, "--turn", turn).out.splitlines()
        trail = "\n".join(lines[3:11])
        for seat, place in enumerate(state.place):
            mark = f"{SEAT_LETTERS[seat]}{'▲' if state.homeward[seat] else '▼'}"
            assert (mark in trail) == (place > 0)
            assert (mark in lines[2]) == (place == 0)


def test_a_folder_lists_its_games_or_shows_its_only_one(run: Run, tmp_path: Path) -> None:
    first = written(tmp_path, played())
    (tmp_path / "results.json").write_text("{}")
    assert run("show", tmp_path).out == run("show", first).out
    written(tmp_path, played(salt="other"), "game-0002.json")
    lines = run("show", tmp_path).out.splitlines()
    result = played().result()
    best = result.placements.index(1)
    assert lines[0].startswith(f"game-0001.json  1 {NAMES[best]} {result.points[best]}, ")
    assert lines[1].startswith("game-0002.json  1 ")
    assert lines[-1] == f"  deepsea-referee show {first}"
    assert str(first) in run("show", tmp_path, "--turn", 3).refusal
    (tmp_path / "empty").mkdir()
    assert "no records" in run("show", tmp_path / "empty").refusal


def test_a_long_folder_is_not_listed_to_its_end(run: Run, tmp_path: Path) -> None:
    text = written(tmp_path, played()).read_text()
    for number in range(2, 50):
        (tmp_path / f"game-{number:04}.json").write_text(text)
    lines = run("show", tmp_path).out.splitlines()
    assert lines[-3] == "and 9 more"


def test_a_record_may_come_from_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = record_of(played()).to_json().encode()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text)))
    done = run("show", "-", "--events")
    assert (done.status, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == played().events_for(None)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"nothing")))
    assert "stdin: not JSON" in run("show", "-").refusal


def test_a_game_of_a_ladder_is_shown_by_its_id(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "ladder.db"
    with created(path) as store:
        season = stocked(store)
        store.jobs.add(season, rotations(ids(store), 1))
        job = claim(store, season)
        store.games.report(job, play(job))
    done = run("show", job.game_id, "--ladder", "--store", path)
    assert done.status == 0
    assert job.game_id in done.out.splitlines()[0]
    assert run("show", job.game_id, "--ladder", "--store", path, "--seat", "A").status == 0
    assert "nothing" in run("show", "nothing", "--ladder", "--store", path).refusal


def test_an_altered_or_damaged_record_is_not_shown(run: Run, tmp_path: Path) -> None:
    data = json.loads(record_of(played()).to_json())
    data["result"]["points"][0] += 1
    path = tmp_path / "altered.json"
    for text in (json.dumps(data), "{}", ""):
        path.write_text(text)
        assert str(path) in run("show", path).refusal


BAD = ("--turn -1", "--turn x", "--speed 0", "--seat D", "--seat x")
NOT_TOGETHER = ("--events --turn 1", "--seat A --at 1", "--html x.html --events")
NOR_THESE = ("--browser --turn 1",)


@pytest.mark.parametrize("options", [*BAD, *NOT_TOGETHER, *NOR_THESE])
def test_bad_options_cost_one_line(run: Run, tmp_path: Path, options: str) -> None:
    assert run("show", written(tmp_path, played()), *options.split()).refusal


def test_names_from_a_record_cannot_write_to_the_terminal(run: Run, tmp_path: Path) -> None:
    data = json.loads(record_of(played()).to_json())
    data["game_id"] = "\x1b[2J"
    data["seats"][0]["name"] = "a\x1b[31m\u202eb"
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(data))
    for options in ((), ("--turn", 3)):
        out = run("show", path, *options).out
        assert "a\\x1b[31m" in out
        assert all(line.isprintable() for line in out.splitlines())


# In a terminal


def test_step_by_step_forth_and_back_and_out(tmp_path: Path) -> None:
    terminal = Terminal("show", written(tmp_path, played()), "--step")
    terminal.read_until("turn 0")
    terminal.press(" ")
    terminal.read_until("turn 1")
    terminal.press("b")
    terminal.read_until("turn 0")
    terminal.press("q")
    assert terminal.end() == 0


def test_it_plays_to_the_end_by_itself(tmp_path: Path) -> None:
    game = played(players=2)
    terminal = Terminal("show", written(tmp_path, game), "--speed", 100)
    terminal.read_until("the game is over")
    assert terminal.end() == 0


def test_ctrl_c_ends_it_and_gives_the_terminal_back(tmp_path: Path) -> None:
    terminal = Terminal("show", written(tmp_path, played()), "--step")
    terminal.read_until("\x1b[?25l")  # the cursor is hidden
    terminal.read_until("turn 0")
    terminal.process.send_signal(2)
    terminal.read_until("\x1b[?25h")
    terminal.read_until("interrupted")
    assert terminal.end() == 130
