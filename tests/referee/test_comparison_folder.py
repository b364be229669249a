"""A comparison's folder: what was played counts, and nothing else is mixed in."""

from __future__ import annotations

import json
import os
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepsea_referee.errors import UserError
from deepsea_referee.results_folder import ResultsFolder, WriteBehind
from deepsea_referee.summary import GameResult
from deepsea_referee.workbench.blocks import ComparisonFolder, stored_seed
from deepsea_rules.faults import Fault, FaultReport
from deepsea_rules.game import Forfeit, GameRecord
from helpers.commands import played, record_of
from helpers.results import ILLEGAL

NAME = "comparison.jsonl"
ASKED: dict[str, Any] = {
    "bot_A": "greedy",
    "field": ["random"],
    "rules": {"name": "manual", "air": 25},
    "seed": "demo",
    "margin": 0.05,
}
FAULT = replace(
    ILLEGAL, fault=Fault.CRASH, came="its process ended", forfeit=True, error="Traceback"
)


def block(number: int, fault: FaultReport | None = None) -> list[tuple[GameResult, GameRecord]]:
    faults = (fault,) if fault else ()
    forfeits = (Forfeit(1, Fault.CRASH, 7),) if fault else ()
    return [
        (
            GameResult(2 * number + game, "g", (0, 1), (9, 7), (1, 2), forfeits, faults, LOST),
            RECORD,
        )
        for game in (1, 2)
    ]


RECORD = record_of(played())
LOST = ((0, 2), (1, 0), (0, 0))


def filled(folder: Path, blocks: int = 3) -> None:
    with ComparisonFolder(folder, ASKED) as kept:
        assert kept.blocks == []
        for number in range(blocks):
            kept.add(number, block(number, FAULT))


def test_blocks_are_there_again_with_their_faults(tmp_path: Path) -> None:
    filled(tmp_path)
    assert len(list(tmp_path.glob("game-*.json"))) == 6
    assert stored_seed(tmp_path) == "demo"
    with ComparisonFolder(tmp_path, ASKED) as kept:
        games = [[result for result, _ in block(n, FAULT)] for n in range(3)]
        assert [(one.number, one.games) for one in kept.blocks] == list(enumerate(games))
        kept.add(4, block(4))  # block 3 was void
    with ComparisonFolder(tmp_path, ASKED) as kept:
        assert [block.number for block in kept.blocks] == [0, 1, 2, 4]


def test_a_block_counts_once(tmp_path: Path) -> None:
    filled(tmp_path)
    with (tmp_path / NAME).open("a") as file:
        file.write(OLD.replace('"block":0', '"block":2'))
    with pytest.raises(UserError, match=r"is damaged \(block 2 is there twice\): name another"):
        ComparisonFolder(tmp_path, ASKED)


def test_a_folder_that_is_written_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with ComparisonFolder(tmp_path, ASKED) as kept:
        with pytest.raises(UserError, match=f"is being written by process {os.getpid()}, since"):
            ComparisonFolder(tmp_path, ASKED)
        kept.add(0, block(0))
    with ComparisonFolder(tmp_path, ASKED) as kept:
        assert [one.number for one in kept.blocks] == [0]


def test_the_luck_of_a_block_is_there_again(tmp_path: Path) -> None:
    with ComparisonFolder(tmp_path, ASKED) as kept:
        kept.add(0, block(0), {"luck": [-0.125, -0.25]})
    with ComparisonFolder(tmp_path, ASKED) as kept:
        assert [block.luck for block in kept.blocks] == [(-0.125, -0.25)]


def test_a_torn_line_is_dropped(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes()[:-10])
    with ComparisonFolder(tmp_path, ASKED) as kept:
        assert len(kept.blocks) == 2
        kept.add(2, block(2))
    with ComparisonFolder(tmp_path, ASKED) as kept:
        assert len(kept.blocks) == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bot_A": "cautious"}, "bot A was 'greedy' and is 'cautious' now"),
        ({"field": ["random", "diver"]}, "field was "),
        ({"rules": {"name": "guide", "air": 25}}, "rules was 'manual' and is 'guide' now"),
        ({"rules": {"name": "manual", "air": 20}}, "rules, air was 25 and is 20 now"),
        ({"seed": "other"}, "seed was 'demo' and is 'other' now"),
        ({"margin": 0.1}, "margin was 0.05 and is 0.1 now"),
    ],
)
def test_another_comparison_is_refused_by_its_difference(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    filled(tmp_path)
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(UserError, match=told):
        ComparisonFolder(tmp_path, ASKED | change)
    assert (tmp_path / NAME).read_bytes() == before


def test_matches_and_comparisons_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UserError, match="earlier match"):
        ComparisonFolder(tmp_path, ASKED)
    filled(tmp_path / "comparison", 0)
    with pytest.raises(UserError, match="earlier match"):
        ResultsFolder(tmp_path / "comparison")


OLD = (
    '{"block":0,"luck":[0.5,0.25],"games":[{"game":1,"game_id":"g","seats":[0,1],"points":[9,7],'
    '"placements":[1,2],"forfeits":[{"seat":1,"fault":"crash","decision":7}],"faults":[{"seat":1,'
    '"decision":7,"fault":"crash","kind":"search","legal":["leave","take"],'
    '"came":"its process ended","us":412,"played":"leave","forfeit":true,"error":"Traceback",'
    '"when":"decision"}],"drowned":[[0,2],[1,0],[0,0]]}]}\n'
)


def test_an_old_block_is_read_and_so_is_one_with_new_keys(tmp_path: Path) -> None:
    filled(tmp_path, 0)
    with (tmp_path / NAME).open("a") as file:
        file.write(OLD + OLD.replace('"seat":', '"new":[1],"seat":').replace(":0,", ':1,"new":2,'))
    with ComparisonFolder(tmp_path, ASKED) as kept:
        (game, _), *_ = block(0, FAULT)
        assert [one.number for one in kept.blocks] == [0, 1]
        assert [one.luck for one in kept.blocks] == [(0.5, 0.25)] * 2
        assert [one.games for one in kept.blocks] == [[game], [game]]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ('"fault":"crash"', '"fault":"bad luck"', r"\.fault`"),
        ("[9,7]", "[9]", r"`points`, `placements` and `drowned` as `seats` - at `\$\.games\[0\]`"),
        ("[1,0]", "[1,0,2]", r"`drowned` as `seats` - at `\$\.games\[0\]`"),
        ("[1,0]", "[1,0],[0,0]", r"length <= 3 - at `\$\.games\[0\]\.drowned`"),
        ('"block":0', '"block":-1', r"at `\$\.block`"),
        ('"block":0', '"block":1' + "0" * 400, r"at `\$\.block`"),
        ("[9,7]", "[1" + "0" * 400 + ",7]", r"at `\$\.games\[0\]\.points\[0\]`"),
        ("[0.5,0.25]", "[1e300,0.25]", r"at `\$\.luck\[0\]`"),
        ('"block":0', '"new":' + "[" * 100_000 + "]" * 100_000 + ',"block":0', "damaged"),
    ],
)
def test_a_damaged_block_is_named_by_its_path(
    tmp_path: Path, old: str, new: str, path: str
) -> None:
    filled(tmp_path, 0)
    with (tmp_path / NAME).open("a") as file:
        file.write(OLD.replace(old, new))
    with pytest.raises(UserError, match=path) as told:
        ComparisonFolder(tmp_path, ASKED)
    assert "\n" not in str(told.value)


HEAD = json.dumps({"format": "deepsea-comparison/1", **ASKED})
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\n",
        '{"format": "deepsea-comparison/1"}\n',
        "[]\n",
        f'{HEAD[:-1]}, "new": {DEEP}}}\n',
        HEAD.replace('{"name": "manual", "air": 25}', "[25]") + "\n",
        HEAD.replace('"air": 25', '"air": 25, "new": 1') + "\n",
        HEAD.replace("0.05", "1" + "0" * 400) + "\n",
    ],
)
def test_a_damaged_folder_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert stored_seed(tmp_path) in (None, "demo")
    with pytest.raises(UserError, match="comparison") as refusal:
        ComparisonFolder(tmp_path, ASKED)
    assert len(str(refusal.value)) < 600


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        ComparisonFolder(tmp_path / "file", ASKED)
    assert stored_seed(tmp_path / "file") is None
    assert stored_seed(tmp_path / "nothing") is None


def test_the_first_line_says_what_it_is(tmp_path: Path) -> None:
    filled(tmp_path, 0)
    assert json.loads((tmp_path / NAME).read_text())["format"] == "deepsea-comparison/1"


def test_whoever_is_faster_than_the_disk_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room: Future[object] = Future()
    room.set_exception(OSError("the disk is full"))
    monkeypatch.setattr(WriteBehind, "submit", lambda *_: room)
    with (
        ComparisonFolder(tmp_path / "compared", ASKED) as folder,
        pytest.raises(OSError, match="full"),
    ):
        folder.add(1, [])
    with ResultsFolder(tmp_path / "played") as results, pytest.raises(OSError, match="full"):
        results.add_analysis(1, {})
