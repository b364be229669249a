"""The self-contained page: one file with games and the viewer, which opens without a network.

Invariants: the page loads nothing and its own policy forbids it; texts of bots are in data blocks,
escaped, or pass through the template's escaping; without JavaScript it has the games as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepsea_arena.coach.analysis import GameAnalysis
from deepsea_arena.reports.analysis_frames import with_analysis, with_notes
from deepsea_arena.reports.frames import Frames, Viewer, frames_of, replayed
from deepsea_rules.narration import is_turn
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_sdk.notes import Note
from deepsea_web.viewer.assets import load_template, script, styles

START = "start();\n"
_VALUE = re.compile(r"=\d+")
_STACK = re.compile(r"[\[{][^\]}]*")


@dataclass(frozen=True, slots=True)
class PageGame:
    """A game of a page."""

    frames: Frames
    views: dict[str, Any]
    """The views of a watcher and of each seat, packed."""
    record: str
    file: str
    """The name under which the record is downloaded."""

    @classmethod
    def of(
        cls,
        record: GameRecord,
        file: str,
        *,
        packed: bool = True,
        analysis: GameAnalysis | None = None,
        notes: Mapping[int, Note] | None = None,
    ) -> PageGame:
        """Raises InvalidRecord if the re-run of the record differs.

        packed    whether the views come with it; a server sends them when they are asked for
        analysis  what was found of the game
        notes     what bots noted, by the number of the decision
        """
        game = replayed(record)
        everything = frames_of(game)
        viewers: list[Viewer] = ["watcher", *range(len(record.seats))] if packed else []
        seen = [frames_of(game, viewer) for viewer in viewers]
        views = {view["viewer"]: pack(everything, view) for view in seen}
        if analysis is not None:
            everything = with_analysis(everything, analysis)
        if notes:
            everything = with_notes(everything, notes)
        return cls(everything, views, record.to_json(), one_line(file, 120))

    @property
    def verify(self) -> str:
        """The command that checks the downloaded record."""
        return shlex.join(("deepsea-referee", "verify", self.file))

    @property
    def title(self) -> str:
        """The name of the game."""
        return f"game {self.frames['id']}, {self.frames['rules']} rules"

    @property
    def result(self) -> str:
        """Placements and points."""
        placements = self.frames["result"]["placements"]
        ranked = sorted(range(len(placements)), key=placements.__getitem__)
        return ", ".join(
            f"{placements[seat]}. {self.frames['seats'][seat]['name']} "
            f"({SEAT_LETTERS[seat]}) {self.frames['result']['scores'][seat]}"
            for seat in ranked
        )

    @property
    def story(self) -> list[str]:
        """The game in words, as the terminal prints it."""
        return [
            f"{frame['t']:4} {text}" if is_turn(text) else text
            for frame in self.frames["frames"]
            for text in frame["say"]
        ]

    def data(self) -> dict[str, Any]:
        """The data that the viewer mounts."""
        return {
            "frames": self.frames,
            "views": self.views,
            "record": self.record,
            "file": self.file,
            "verify": self.verify,
        }


def game_page(games: Sequence[PageGame], note: str = "") -> Iterable[str]:
    """The page, in pieces.

    note  a sentence on games that are left out
    """
    program, look = script() + START, styles()
    policy = (
        f"default-src 'none'; script-src {_hash(program)}; style-src {_hash(look)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    return load_template("game_page.html").generate(
        games=games,
        note=note,
        policy=policy,
        script=program,
        styles=look,
        data=data_block,
    )


def data_block(game: PageGame) -> str:
    """A game as JSON that can stand in a script element."""
    return script_json(game.data())


def script_json(value: object) -> str:
    """JSON that can stand in a script element."""
    # In ASCII: neither line separators nor half surrogates need a thought.
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


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
