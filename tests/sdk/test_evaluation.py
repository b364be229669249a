"""The evaluation: plain Python and arrays agree, a view is all it goes by, and training works."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest

from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE, drop
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.state import GameState
from deepsea_rules.view import View, view_for
from deepsea_sdk import train
from deepsea_sdk.batch import Batch, Turn, put
from deepsea_sdk.batch.units import Array
from deepsea_sdk.evaluation import (
    WeightsError,
    choices,
    read_weights,
    sdk_weights,
    standings,
    values,
)
from deepsea_sdk.evaluation.arrays import (
    EvaluationPolicy,
    columns,
    facts_of,
    look_ahead,
    mover_values,
    sdk_policy,
    standings_of,
)
from deepsea_sdk.train import Point, Settings
from helpers.games import Chooser, opening_state, rng, step
from helpers.tiers import daily

SEATS = (2, 3, 4, 5, 6)
EACH = pytest.mark.parametrize(
    ("preset", "players"), daily(product(PRESETS, SEATS), [*zip(PRESETS, SEATS, strict=True)])
)
"""In every run each rule set and each number of seats."""


def positions(preset: str, players: int, wanted: int) -> list[GameState]:
    """Positions in which a seat has a choice, from all parts of some games."""
    found: list[GameState] = []
    chooser = Chooser(f"{preset}/{players}", takes=True)
    for number in count():
        state = opening_state(PRESETS[preset], players, f"deal {number}")
        while state.phase != "over" and len(found) < wanted:
            step(state, chooser)
            if len(state.legal) > 1 and state.phase != "order" and not chooser.number(12):
                found.append(state.clone())
        if len(found) == wanted:
            return found
    raise AssertionError


class Recorded(EvaluationPolicy):
    """Keeps the values of what it chose from."""

    of_options: list[float]

    def pick_options(self, batch: Batch, turn: Turn, values: Array, inputs: Array) -> Array:
        self.of_options = values[:, 0].tolist()
        return super().pick_options(batch, turn, values, inputs)


def options_in_arrays(policy: Recorded, batch: Batch, view: View) -> list[str]:
    """Ask the policy; the actions that it compared."""
    turn = batch.turn(np.array([0]))
    if view.phase == "declare":
        policy.declare(batch, turn)
        return [DOWN, BACK]
    if view.can_take:
        policy.take(batch, turn, batch.units_here(turn))
        return [LEAVE, TAKE]
    slot = policy.drop(batch, turn)[0]
    poorest = min(view.me.cargo, key=lambda unit: sum(4 * level - 2.5 for level in unit.levels))
    assert slot in (-1, view.me.cargo.index(poorest))
    return [LEAVE, drop(poorest)]


@EACH
def test_plain_python_and_arrays_agree(preset: str, players: int) -> None:
    policy = Recorded(sdk_policy(players).net)
    for state in positions(preset, players, 12):
        batch = Batch(state.rules, players, 1)
        put(batch, np.array([0]), state)
        view = view_for(state, state.to_move)
        actions = options_in_arrays(policy, batch, view)
        plain = choices(view)
        assert list(plain) == list(view.legal)
        assert policy.of_options == pytest.approx([plain[a] for a in actions], abs=1e-5)
        if view.phase == "declare":
            for own in range(players):
                seat = (state.to_move + own) % players
                facts = facts_of(batch, np.array([0]), np.array([state.to_move]), own)
                found = policy.net(columns(facts))
                if not own:
                    found = mover_values(policy.net, batch, np.array([0]))
                assert values(view_for(state, seat))[seat] == pytest.approx(found[0], abs=1e-5)


@EACH
def test_what_a_view_does_not_show_changes_no_value(preset: str, players: int) -> None:
    for state in positions(preset, players, 6):
        view = view_for(state, state.to_move)
        other = view.sample(rng(f"{preset}/{players}"))
        assert other.values != state.values
        other_view = view_for(other, state.to_move)
        assert (choices(other_view), values(other_view)) == (choices(view), values(view))
        batches = [Batch(state.rules, players, 1) for _ in range(2)]
        for batch, position in zip(batches, (state, other), strict=True):
            put(batch, np.array([0]), position)
        policy = Recorded(sdk_policy(players).net)
        found = [(options_in_arrays(policy, b, view), policy.of_options) for b in batches]
        assert found[0] == found[1]


@EACH
def test_trials_go_by_what_a_view_shows_alone(preset: str, players: int) -> None:
    (state,) = positions(preset, players, 1)
    view = view_for(state, state.to_move)
    other = view_for(view.sample(rng("another deal")), state.to_move)
    found, others = look_ahead(view, 4, 1), look_ahead(other, 4, 1)
    assert list(found) == list(view.legal)
    for action, trials in found.items():
        assert trials.tolist() == others[action].tolist()
        assert -0.3 < trials.mean() < 1.3


def test_a_dive_that_has_ended_is_worth_its_leads() -> None:
    points = [12, 20, 20, 3]
    first, last = standings(1, points), standings(3, points)
    spread = np.array(sdk_weights(4).spreads[:1])
    assert first == pytest.approx(standings_of(np.array([points]), spread)[0].tolist())
    assert first[0] < 0.5 < first[1] == first[2] < last[1]
    assert last == pytest.approx([1 / 3, 5 / 6, 5 / 6, 0])
    assert sum(first) == pytest.approx(2)
    # Between dives, and at the end, a position is worth what is banked.
    state = next(s for s in positions("manual", 2, 40) if any(s.bank))
    state.phase = "over"
    assert sorted(values(view_for(state, 0))) in ([0, 1], [0.5, 0.5])


def test_all_weights_of_the_sdk_are_small() -> None:
    folder = Path(train.__file__).parent / "evaluation"
    assert sum(path.stat().st_size for path in folder.glob("*.weights")) <= 100_000


def replaced(old: bytes, new: bytes) -> bytes:
    good = Path(train.__file__).parent / "evaluation" / "pearl-1.2.weights"
    content = good.read_bytes()
    assert old in content
    return content.replace(old, new)


NAN = struct.pack("<e", float("nan"))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "no whole file of weights"),
        (b"\x00\xff", "no whole file of weights"),
        (b"[1]\n", "no whole file of weights"),
        (replaced(b'"name"', b'"nome"'), "no whole file of weights"),
        (replaced(b"\n", b"\n\0\0"), "no whole file of weights"),
        (replaced(b"\n", b"\n")[:-2], "no whole file of weights"),
        (replaced(b'"sizes": [49', b'"sizes": [49, 1' + b"0" * 400), "no whole file of weights"),
        (replaced(b'"spreads": [', b'"spreads": [1' + b"0" * 400 + b", "), "no whole file"),
        (b"[" * 100_000, "no whole file of weights"),
        (replaced(b"\n", b"\n")[:-2] + NAN, "a number in it is not finite"),
        (replaced(b'"spreads": [', b'"spreads": [-1, '), "a spread not above 0"),
        (replaced(b'"inputs": 1', b'"inputs": 9'), "inputs of version 9, and this SDK has version"),
        (replaced(b'"sizes": [49', b'"sizes": [48'), "the net has 49 inputs and 1 output"),
        (replaced(b'"players": 2', b'"players": 7'), "weights for 7 seats"),
    ],
)
def test_bad_weights_are_one_sentence_with_the_file(
    content: bytes, error: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.weights"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as raised:
        read_weights(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert error in text
    assert "\n" not in text


# Training


def test_a_short_training_gets_stronger(tmp_path: Path) -> None:
    short = Settings(2, ("manual",), rounds=1, games=128, hidden=(24,))
    points: list[Point] = []
    train.train(tmp_path / "mine", short, points.append)
    untrained, _ = train.lead_over_steady(short, train.begin(short))
    assert points[-1]["lead"] > untrained + 0.1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    weights = read_weights(tmp_path / "mine")
    assert (weights.name, weights.players) == ("mine", 2)
    state = positions("manual", 2, 1)[0]
    assert choices(view_for(state, state.to_move), weights)


@pytest.mark.release  # a second training; its file is read by the next test, too
def test_a_training_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    short = Settings(2, ("manual", "publisher"), rounds=2, games=48, hidden=(24,))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    points: list[Point] = []

    def on_point(point: Point) -> None:
        points.append(point)
        if point["rounds"] == 1:  # what is there if it is killed now
            for ending in ("", ".training"):
                shutil.copy(f"{whole}{ending}", f"{parts}{ending}")

    train.train(whole, short, on_point)
    later: list[Point] = []
    train.train(parts, short, later.append)
    assert later == points[1:]
    assert parts.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_the_command_prints_its_curve_and_refuses_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.weights"
    quick = [str(path), "--seats", "2", "--rounds", "1", "--games", "4"]
    assert train.main(quick) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert list(json.loads(line)) == ["rounds", "decisions", "error", "lead", "margin"]
    deep = io.BytesIO()
    np.savez(deep, "[" * 100_000)
    for arguments, begun, error in (
        ([*quick, "--rules", "manul"], b"", "did you mean 'manual'?"),
        (quick, deep.getvalue(), "mine.weights.training: this training cannot go on"),
        (quick, b"nothing", "mine.weights.training: this training cannot go on"),
        ([str(tmp_path / "no" / "such"), *quick[1:]], b"", "No such file"),
    ):
        kept = tmp_path / "mine.weights.training"
        if begun:
            kept.write_bytes(begun)
        assert train.main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert error in line


QUICK = ["--seats", "2", "--rounds", "1", "--games", "4"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (
            b"print('a bot')\n",
            "no whole file of weights, as deepsea_sdk.train writes them; nothing",
        ),
        (b"", "nothing is written over it: name another file"),
        (replaced(b'"inputs": 1', b'"inputs": 9'), "nothing is written over it: name another file"),
        (replaced(b"", b""), "these weights are of no training known here; name another file"),
        (
            replaced(b'"inputs"', b'"training": {"settings": [], "done": 1}, "inputs"'),
            "these weights are of no training known here; name another file",
        ),
    ],
)
def test_a_training_writes_over_nothing_that_it_has_not_made(
    content: bytes, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(content)
    assert train.main([str(path), *QUICK]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"deepsea_sdk.train: {path}: ")
    assert error in line
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [
        ("mine.py", content)
    ]


def test_a_training_writes_over_no_folder_link_or_weights_of_other_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, link = tmp_path / "mine.weights", tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    assert train.main([str(path), *QUICK]) == 0
    capsys.readouterr()
    before = path.read_bytes()
    for arguments, error in (
        ([str(tmp_path), *QUICK], f"{tmp_path} is no file; name another one"),
        ([str(link), *QUICK], f"{link} is no file; name another one"),
        ([str(path), *QUICK, "--seats", "3"], "of another training, with players 2; name another"),
        ([str(path), *QUICK, "--seed", "7"], "of another training, with seed 1; name another"),
        ([str(path), *QUICK, "--name", "x"], 'of another training, with name "mine"; name another'),
        ([str(path), *QUICK, "--rules", "guide"], 'of another training, with rules ["manual", '),
        ([str(path), *QUICK], "1 rounds are done; a training that goes on from there has more of"),
    ):
        assert train.main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert error in line
        assert path.read_bytes() == before
    assert sorted(found.name for found in tmp_path.iterdir()) == ["link", "mine.weights"]


def test_a_longer_training_goes_on_from_finished_weights_and_replaces_them_at_its_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.weights"
    (tmp_path / ".mine.weights.new").write_text("a user's")
    settings = Settings(2, ("manual",), rounds=1, games=8, hidden=(8,))
    train.train(path, settings)
    finished = read_weights(path)

    def stop(point: Point) -> None:
        raise KeyboardInterrupt

    longer = replace(settings, rounds=3)
    with pytest.raises(KeyboardInterrupt):
        train.train(path, longer, stop)
    assert read_weights(path) == finished
    points: list[Point] = []
    train.train(path, longer, points.append)
    assert [point["rounds"] for point in points] == [3]
    assert read_weights(path).layers != finished.layers
    assert sorted(found.name for found in tmp_path.iterdir()) == [
        ".mine.weights.new",
        "mine.weights",
    ]


def test_an_import_of_the_trainer_changes_no_environment() -> None:
    text = (
        "import os; before = {**os.environ}; import deepsea_sdk.train; assert before == os.environ"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=300)
