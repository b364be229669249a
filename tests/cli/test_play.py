"""A person plays: by pipe and by key, to the end and away from it; and sees what its seat knows."""

from __future__ import annotations

import io
import json
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

from deepsea_arena.analysis_document import read_analysis
from deepsea_cli.person import TerminalPerson
from deepsea_referee.interrupts import WakePipe
from deepsea_referee.person import PersonRequest, choices
from deepsea_rules.game import Game, GameRecord, verify
from deepsea_rules.notation import read_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import NO_TREASURE_NO_TURN
from deepsea_rules.view import view_for
from deepsea_sdk.bot import NO_CLOCK
from deepsea_sdk.coach.decisions import Effort
from deepsea_sdk.table import RefereedGame
from helpers.commands import NAMES, Done, Run, called, one_line, start
from helpers.games import Chooser, other_values
from helpers.programs import opponent_in
from helpers.terminal import Terminal
from helpers.tiers import daily

PLAIN = ("--isolation", "process")
QUICK = ("--no-judge", *PLAIN)
ANSWERS = ("d", "b", "t", "t", "n", "1", "2", "l", "?", "x", "")
DAILY = [("publisher", 3)]
Play = Callable[..., Done]


@pytest.fixture
def rival(tmp_path: Path) -> Path:
    """A bot that starts quickly."""
    return opponent_in(tmp_path, "rival")


def answers(folder: Path, salt: str, count: int = 4000) -> Path:
    """A person who tries keys; those that are not legal are asked for again."""
    chooser = Chooser(salt)
    path = folder / "answers"
    path.write_text("\n".join(chooser.pick(ANSWERS) for _ in range(count)))
    return path


def records(folder: Path) -> list[GameRecord]:
    return [GameRecord.from_json(path.read_text()) for path in sorted(folder.glob("game-*"))]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    def call(stdin: Path, *arguments: object) -> Done:
        with stdin.open() as source:
            monkeypatch.setattr("sys.stdin", source)
            return called("play", *arguments)

    return call


@pytest.mark.parametrize(
    ("preset", "seats"), daily([(p, n) for p in PRESETS for n in range(2, 7)], DAILY)
)
def test_whole_games_by_pipe(
    preset: str, seats: int, rival: Path, tmp_path: Path, play: Play
) -> None:
    bots = [rival] * (seats - 1)
    out, games = tmp_path / "out", 2
    source = answers(tmp_path, f"{preset}/{seats}", 4000 * games)
    options = ("--rules", preset, "--games", games, "--seat", "A", "--out", out, *QUICK)
    status, said, _ = play(source, *bots, *options)
    assert status == 0, said
    found = records(out)
    assert len(found) == games
    for number, record in enumerate(found):
        game = verify(record)
        seat = -number % seats
        assert record.seats[seat] == ("you", "")
        assert len(record.seats) == seats
        assert not game.forfeits
        assert all(one.fault is None for one in record.decisions if one.seat == seat)
    results = json.loads((out / "results.json").read_text())
    assert [game["seats"].index(0) for game in results["games"]] == [
        -n % seats for n in range(games)
    ]


def test_the_rule_that_keeps_a_diver_going_down_is_named(
    rival: Path, tmp_path: Path, play: Play
) -> None:
    source = tmp_path / "answers"
    source.write_text("n\n" * 400 + "q\nq\n")
    said = play(source, rival, "--rules", "manual", "--seat", "A", *QUICK).out
    assert f"  {NO_TREASURE_NO_TURN}" in said.splitlines()


# Sample bots are played as processes in tests/referee/test_processes.py.
@pytest.mark.release
def test_without_bots_there_are_three_sample_bots(tmp_path: Path, play: Play) -> None:
    source = answers(tmp_path, "three")
    status, said, _ = play(
        source, "--seed", "demo", "--seat", "c", "--out", tmp_path / "out", *QUICK
    )
    assert status == 0
    [record] = records(tmp_path / "out")
    assert [seat.name for seat in record.seats] == ["cautious", "greedy", "you", "heuristic"]
    assert "game 1 is over" in said


def test_decisions_are_judged_and_hints_are_in_the_record(
    rival: Path, tmp_path: Path, play: Play
) -> None:
    source = answers(tmp_path, "judged")
    source.write_text(f"h\n{source.read_text()}")
    status, said, _ = play(source, rival, "--name", "ann", "--seed", "1", "--out", tmp_path, *PLAIN)
    assert status == 0
    assert re.search(r"^hint: [\w ]+ \d\.\d\d, ", said, re.M)
    lost = re.search(r"your (\d+) decisions lost \d\.\d\d .* luck gave you [+-]\d\.\d\d", said)
    [record] = records(tmp_path)
    verify(record)
    [seat] = [seat for seat, entry in enumerate(record.seats) if entry.name == "ann (hints)"]
    assert lost
    assert int(lost[1]) == sum(one.seat == seat for one in record.decisions)
    assert len(re.findall("^  better: ", said, re.M)) == 2
    kept = read_analysis((tmp_path / "analysis-0001.json").read_text())
    assert [one.seat for one in kept.analysis(record).decisions] == [seat] * int(lost[1])


def test_a_bot_that_crashes_does_not_end_the_game(tmp_path: Path, play: Play) -> None:
    bot = opponent_in(tmp_path, "crash")
    program = bot / "bot.py"
    program.write_text(program.read_text().replace("answer = ", "sys.exit(3)\n        answer = "))
    source = answers(tmp_path, "crash")
    status, said, _ = play(source, bot, "--out", tmp_path / "out", *QUICK)
    assert status == 0
    assert "crash: crash in game 1" in said
    [record] = records(tmp_path / "out")
    [forfeit] = verify(record).forfeits
    assert record.seats[forfeit.seat].name == "crash"


@pytest.mark.parametrize("ending", ["", "q\nq\n", "q\n"])
def test_the_end_of_the_answers_and_q_leave(
    ending: str, rival: Path, tmp_path: Path, play: Play
) -> None:
    source = tmp_path / "answers"
    source.write_text(ending)
    out = tmp_path / "out"
    status, said, err = play(source, rival, "--out", out, "--games", 2, *QUICK)
    assert (status, err) == (0, "")
    assert said.splitlines()[-1] == "you left: the last game was dropped"
    assert records(out) == []


def test_who_leaves_may_have_the_game_played_on(rival: Path, tmp_path: Path, play: Play) -> None:
    source = tmp_path / "answers"
    source.write_text("q\np\n")
    out = tmp_path / "out"
    status, said, _ = play(source, rival, "--out", out, "--games", 2, "--seat", "A", *PLAIN)
    assert status == 0
    assert "judging" not in said
    [record] = records(out)
    game = Game(record.rules, 2, record.seed)
    for decision in record.decisions:
        question = game.pending()
        assert question is not None
        if decision.seat == 0:
            assert decision.action == question.legal[0]
        game.decide(decision.action)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["random"] * 6, "you play against 1 to 5 bots, not 6"),
        (["random", "--seat", "C"], "--seat: the game has seats A to B"),
        (["random", "--seat", "z"], "'z' is no seat: name one of A, B, C, D, E, F, random"),
        (["random", "--name", "a b"], "name 'a b' is not allowed"),
        (["random", "--clock", "x"], "clock 'x'"),
        (["nobody"], "there is no bot 'nobody'"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: Sequence[str], what: str) -> None:
    assert what in run("play", *arguments, *QUICK).refusal


def test_ctrl_c_keeps_what_was_played_and_leaves_no_process(tmp_path: Path) -> None:
    bot, pids = opponent_in(tmp_path, "told"), tmp_path / "pids"
    program = bot / "bot.py"
    program.write_text(
        f"import os\nopen({str(pids)!r}, 'w').write(str(os.getpid()))\n{program.read_text()}"
    )
    out = tmp_path / "out"
    process = start("play", bot, "--games", 2, "--out", out, *QUICK)
    while "game 1 is over" not in (line := process.stdout.readline()):
        if line.startswith("? rules"):
            process.stdin.write("n\nd\n")
            process.stdin.flush()
    while not process.stdout.readline().startswith("? rules"):
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "interrupted after 1 of 2 games" in one_line(err)
    [record] = records(out)
    verify(record)
    assert not Path(f"/proc/{pids.read_text()}").exists()


# A closed pipe is quiet: test_main.py.
@pytest.mark.release
def test_whoever_closes_the_output_has_left(rival: Path) -> None:
    process = start("play", rival, *QUICK)
    while not process.stdout.readline().startswith("? rules"):
        pass
    process.stdout.close()
    process.stdin.write("x\n" * 99)
    process.stdin.flush()
    assert process.wait() == 141
    assert process.stderr.read() == ""
    process.stdin.close()
    process.stderr.close()


# At a terminal


def test_keys_in_a_terminal(rival: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    out = tmp_path / "out"
    terminal = Terminal("play", rival, "--seat", "A", "--seed", "demo", "--out", out, *QUICK)
    terminal.read_until("q leave")
    terminal.press("?")
    terminal.read_until("any key goes on")
    terminal.press("x")
    terminal.read_until("q leave")
    terminal.press("l")
    terminal.read_until("dive 1: ")
    terminal.press("x")
    terminal.read_until("q leave")
    terminal.press("z")
    terminal.read_until("'z' is not one of")
    terminal.press("q")
    terminal.read_until("leave the game?")
    terminal.press("x")
    terminal.read_until("q leave")
    terminal.press("n")
    terminal.read_until("\x1b[J")
    terminal.read_until("q leave")
    terminal.press("q")
    terminal.press("p")
    terminal.read_until("game 1 is over")
    assert terminal.end() == 0
    [record] = records(out)
    verify(record)


# The lines are those of a pipe, above.
@pytest.mark.release
def test_a_terminal_that_cannot_be_redrawn_gets_lines(
    rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal("play", rival, *QUICK)
    terminal.read_until("q leave")
    terminal.press("q\n")
    terminal.read_until("leave the game?")
    assert "\x1b" not in terminal.seen
    terminal.press("q\n")
    assert terminal.end() == 0


# What is seen


def seated(game: Game) -> RefereedGame:
    """The game with names of its seats."""
    return RefereedGame(game, "demo", None, [(name, "") for name in NAMES[: game.players]])


class Script:
    """A person with keys drawn from a salt, and what it was shown."""

    def __init__(self, salt: str, *, in_place: bool) -> None:
        self._chooser = Chooser(f"keys/{salt}")
        self._waker = WakePipe()
        self.person = TerminalPerson(
            self._read, self._waker, in_place=in_place, hint_effort=Effort.of(2)
        )
        self._out = io.StringIO()

    def _read(self) -> str:
        return self._chooser.pick([*filter(None, ANSWERS), "h"])

    def play(self, game: Game, seat: int, salt: str) -> set[int]:
        """Play the game; returns the chips whose values the seat knew before its end."""
        others, mark, known = Chooser(salt, takes=True), 0, set[int]()
        self.person.begin(seated(game), seat)
        while (question := game.pending()) is not None:
            if question.seat != seat:
                game.decide(others.action(question.legal))
                continue
            view, events = game.view(seat), game.events_for(seat, mark)
            mark, known = len(game.events), set(view.known)
            with redirect_stdout(self._out), pytest.MonkeyPatch.context() as patch:
                patch.setenv("COLUMNS", "60")
                action = self.person.decide(PersonRequest(view, events, NO_CLOCK, lambda: True))
            assert action is not None
            game.decide(action)
        self._waker.close()
        return known

    @property
    def seen(self) -> str:
        return self._out.getvalue()


@pytest.mark.parametrize(
    ("in_place", "preset", "seats"), [(False, "guide", 2), (True, "manual", 2)]
)
def test_hidden_values_change_no_byte_and_lines_fit(
    in_place: bool, preset: str, seats: int
) -> None:
    games = [Game(PRESETS[preset], seats, seed_from_text("hidden")) for _ in range(2)]
    scripts = [Script("hidden", in_place=in_place) for _ in range(2)]
    known = scripts[0].play(games[0], 1, "hidden")
    games[1].state.values = other_values(games[0].state.values, known)
    assert games[1].state.values != games[0].state.values
    scripts[1].play(games[1], 1, "hidden")
    assert scripts[1].seen == scripts[0].seen
    assert games[1].decisions == games[0].decisions
    for line in scripts[0].seen.splitlines():
        assert cell_len(re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line)) <= 60


@pytest.mark.parametrize(
    ("position", "meanings"),
    [
        (
            "x 1 2 3 4 | *A3v:1 B1v | d1 a17 search",
            [
                "n nothing: you breathe 1 a turn",
                "t take level 2, worth 5.5: you breathe 2 a turn",
            ],
        ),
        (
            "x x x 3 4 | *A3^:1,[12],1 B1v | d1 a17 search",
            [
                "n nothing: you breathe 3 a turn",
                "1 drop level 1, worth 1.5: you breathe 2 a turn",
                "2 drop levels 1, 2, worth 7.0: you breathe 2 a turn",
            ],
        ),
        (
            "x x x 3 4 | *A3v:1 B1v | d1 a17",
            ["d down: go on, you breathe 1 a turn", "b back: 3 spaces to go, you breathe 1 a turn"],
        ),
    ],
)
def test_what_the_keys_mean(position: str, meanings: list[str]) -> None:
    state, _ = read_position(position, PRESETS["manual"], seed_from_text("x"))
    found = choices(view_for(state, 0))
    assert [f"{choice.key} {choice.meaning}" for choice in found] == meanings


@pytest.mark.parametrize("keys", ["", "l", "?", "q"])
def test_a_decision_that_is_not_wanted_any_more_ends_wherever_it_is(keys: str) -> None:
    state, _ = read_position("1 2 | *A1v B2v | d1 a9 search", PRESETS["manual"], bytes(32))
    waker, pressed, wanted = WakePipe(), iter(keys), [True]

    def read() -> str | None:
        key = next(pressed, None)
        wanted[0] = key is not None
        return key

    person = TerminalPerson(read, waker, in_place=True)
    person.begin(seated(Game(PRESETS["manual"], 2, bytes(32))), 0)
    with redirect_stdout(io.StringIO()):
        asked = PersonRequest(view_for(state, 0), [], NO_CLOCK, lambda: wanted[0])
        assert person.decide(asked) is None
    waker.close()
    assert not person.dropped


def test_cargo_that_sinks_is_laid_piece_by_piece(capsys: pytest.CaptureFixture[str]) -> None:
    position = "1 2 3 4 1 2 3 4 | *A3v:1,2,3,4 B1v:1 | d1 a0 order"
    state, _ = read_position(position, PRESETS["manual"], seed_from_text("x"))
    keys, waker = iter("x42h1"), WakePipe()
    person = TerminalPerson(lambda: next(keys), waker, in_place=False, hint_effort=Effort.of(2))
    person.begin(seated(Game(PRESETS["manual"], 2, bytes(32))), 0)
    view = view_for(state, 0)
    action = person.decide(PersonRequest(view, [], NO_CLOCK, lambda: True))
    waker.close()
    assert action == "order:4,2,1,3"
    assert view.is_legal(action)
    assert "laid so far: level 4, level 2" in capsys.readouterr().out
