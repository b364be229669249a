"""One whole playthrough per preset, in readable text, compared with what it was when it was read.

Write the goldens again after a change of the rules that is meant, and read the difference:

    python tests/rules/test_golden.py --write

Three divers choose by hash, so the games are the same on every machine. Each step shows the event
or the decision, and the position as each viewer may know it; viewers who see the same share a line
(W is a watcher).
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deepsea_rules.game import Game
from deepsea_rules.notation import format_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.view import view_for

FOLDER = Path(__file__).with_name("goldens")
SEED_TEXTS = {
    "guide": "golden 884",
    "manual": "golden 1058",
    "publisher": "golden 1133",
    "reference": "golden 978",
    "revised": "golden 937",
}
SEATS = 3


def choose(text: str, number: int, legal: Sequence[str]) -> str:
    """The decision with this number: treasure three times in four, else any legal action."""
    digest = hashlib.sha256(f"{text}/{number}".encode()).digest()
    return "take" if "take" in legal and digest[0] % 4 else legal[digest[1] % len(legal)]


def positions(game: Game) -> list[str]:
    """The position as each viewer knows it, viewers who see the same together."""
    lines: dict[str, str] = {}
    for viewer in (*range(SEATS), None):
        text = format_position(game.state, "public" if viewer is None else viewer)
        lines[text] = lines.get(text, "") + ("W" if viewer is None else "ABC"[viewer])
    return [f"    {viewers:4} {text}" for text, viewers in lines.items()]


def unseen(game: Game) -> list[str]:
    """What each viewer has not seen, level by level."""
    lines: dict[str, str] = {}
    for viewer in (*range(SEATS), None):
        view = view_for(game.state, viewer)
        text = "  ".join(" ".join(map(str, view.unseen(level))) for level in (1, 2, 3, 4))
        lines[text] = lines.get(text, "") + ("W" if viewer is None else "ABC"[viewer])
    return [f"    {viewers:4} unseen {text}" for text, viewers in lines.items()]


def events(game: Game, since: int) -> list[str]:
    """What happened since a mark, for each viewer; viewers who get the same stand together."""
    told = [game.events_for(viewer, since) for viewer in (*range(SEATS), None)]
    lines = []
    for index in range(len(told[0])):
        kinds: dict[str, str] = {}
        for viewer, name in enumerate("ABCW"):
            text = json.dumps(told[viewer][index])
            kinds[text] = kinds.get(text, "") + name
        lines += [f"  {viewers:4} {text}" for text, viewers in kinds.items()]
    return lines


def playthrough(preset: str) -> str:
    """The text of a preset's golden."""
    text = SEED_TEXTS[preset]
    game = Game(PRESETS[preset], SEATS, seed_from_text(text))
    lines = [f"rules {preset}, {SEATS} divers, seed of {text!r}", f"commitment {game.commitment}"]
    mark, dive = 0, 0
    while (question := game.pending()) is not None:
        lines += events(game, mark)
        mark = len(game.events)
        if game.state.dive != dive:
            dive = game.state.dive
            lines += unseen(game)
        action = choose(text, len(game.decisions), question.legal)
        seat = "ABC"[question.seat]
        others = " ".join(question.legal)
        lines.append(f"{len(game.decisions)}. {seat} {question.kind}: {others} -> {action}")
        lines += positions(game)
        game.decide(action)
    lines += events(game, mark)
    lines += unseen(game)
    lines += positions(game)
    lines.append(f"final {format_position(game.state, 'all')}")
    lines.append(f"result {json.dumps(game.result()._asdict())}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("preset", SEED_TEXTS)
def test_playthrough(preset: str) -> None:
    golden = (FOLDER / f"{preset}.txt").read_text(encoding="utf-8")
    played = playthrough(preset)
    assert played.splitlines() == golden.splitlines()
    assert played == golden


@pytest.mark.parametrize("preset", SEED_TEXTS)
def test_the_playthroughs_show_something(preset: str) -> None:
    """Each one has a return, a drop, stranded divers, piles, and an order that was asked for."""
    text = playthrough(preset)
    for sign in ('"home": true', '"search": "drop:', '"reason": "air"', "{", " order: "):
        assert sign in text, sign


def main() -> None:
    """Write the goldens anew."""
    parser = argparse.ArgumentParser(description="Golden playthroughs, one per preset.")
    parser.add_argument("--write", action="store_true", required=True, help="write them anew")
    parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for preset in SEED_TEXTS:
        (FOLDER / f"{preset}.txt").write_text(playthrough(preset), encoding="utf-8")


if __name__ == "__main__":
    main()
