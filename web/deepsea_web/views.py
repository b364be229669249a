"""Frames in less space, for a page that holds all views of a game.

Invariants: `viewer/views.js` makes the same positions and words of it again; where a position
cannot be told in short, it is written in full.
"""

from __future__ import annotations

import re
from typing import Any

from deepsea_arena.frame_types import Frames

_VALUE = re.compile(r"=\d+")
_STACK = re.compile(r"[\[{][^\]}]*")


Changes = list[tuple[int, str]]


def fold(everything: Frames) -> dict[str, Any]:
    """The frames, each position as the words that changed, where it has as many as the last one.

    The clock, whose number of words changes with the phase, counts as one.
    """
    folded: list[dict[str, Any]] = []
    before: list[str] = []
    for frame in everything["frames"]:
        places, _, clock = frame["p"].rpartition(" | ")
        words = [*places.split(" "), clock]
        position: str | Changes = frame["p"]
        if len(words) == len(before):
            pairs = enumerate(zip(words, before, strict=True))
            position = [(place, word) for place, (word, old) in pairs if word != old]
        folded.append({**frame, "p": position})
        before = words
    return {**everything, "frames": folded}


def pack(everything: Frames, seen: Frames) -> dict[str, Any]:
    """The difference between the frames of one game: banks as they change, and other words.

    Values of chips are known in banks only, and there they stay known.
    """
    banks = [""] * len(everything["seats"])
    changes: list[tuple[int, int, str]] = []
    positions: dict[str, str] = {}
    words: dict[str, list[str]] = {}
    pairs = zip(everything["frames"], seen["frames"], strict=True)
    for index, (whole, part) in enumerate(pairs):
        for seat, diver in enumerate(part["p"].split("|")[1].split()):
            bank = diver.partition("/")[2]
            if bank != banks[seat]:
                banks[seat] = bank
                changes.append((index, seat, bank))
        if _concealed(whole["p"], banks) != part["p"]:
            positions[str(index)] = part["p"]
        if whole["say"] != part["say"]:
            words[str(index)] = part["say"]
    return {
        "banks": changes,
        "p": positions,
        "say": words,
        "lead": [mark for mark in seen["marks"] if mark["kind"] == "lead"],
        "dives": [
            (dive, seat, part["chips"], part["say"])
            for dive, pair in enumerate(zip(everything["dives"], seen["dives"], strict=True))
            for seat, (whole, part) in enumerate(zip(*(d["seats"] for d in pair), strict=True))
            if whole != part
        ],
    }


def _concealed(position: str, banks: list[str]) -> str:
    # Without values a stack is written without commas.
    bare = _STACK.sub(lambda stack: stack[0].replace(",", ""), _VALUE.sub("", position))
    trail, divers, clock = bare.split("|")
    words = [
        word.partition("/")[0] + (f"/{bank}" if bank else "")
        for word, bank in zip(divers.split(), banks, strict=True)
    ]
    return f"{trail}| {' '.join(words)} |{clock}"
