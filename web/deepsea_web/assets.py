"""The viewer's script, styles and layout, the files of the site, and the templates of all pages.

Invariants: the script is one ES module that imports nothing, made of the modules in `viewer/`
without any tool, so that the same files give the same bytes; a page has it inline, a server sends
it as a file, and both are the same text.

The self-contained page: one file with games and the viewer, which opens without a network.

Invariants: the page loads nothing and its own policy forbids it; texts of bots are in data blocks,
escaped, or pass through the template's escaping; without JavaScript it has the games as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from deepsea_arena.analysis import GameAnalysis
from deepsea_arena.frames import Frames, Viewer, frames_of, replayed, with_analysis, with_notes
from deepsea_rules.actions import CHIPS, LEVELS
from deepsea_rules.game import GameRecord
from deepsea_rules.narration import is_turn
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import FULL_AIR, MAX_PLAYERS, SEAT_LETTERS
from deepsea_sdk.bot import Note
from deepsea_sdk.coach.decisions import MARKS

MODULES = (
    *("address", "dom", "notation", "views"),
    *("coach", "notes", "scene", "board", "timeline", "panels", "share", "viewer", "page"),
)
"""The modules of the viewer, each after those that it imports."""
EXPORTED = {
    "dom": ("h",),
    "viewer": ("mount",),
    "page": ("start",),
    "board": ("draw", "emptyBoard", "glide"),
    "notation": ("parsePosition",),
    "panels": ("seats", "spoken"),
}
OWN = ("join.js", "copy.js", "submit.js", "submission.js")
"""Scripts of the pages of people with an account; each of these works without its own."""
_IMPORT = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)
COLUMNS = 8
"""Spaces in a row: at the opening a row is a level, and a row fits a narrow screen."""
PITCH = 100
ROW = 126
LEFT = 70
TOP = 240
WAVE = 9
RADIUS = 38
_HEIGHT = TOP + ROW * (len(CHIPS) // COLUMNS - 1) + 84
_WIDTH = 2 * LEFT + PITCH * (COLUMNS - 1)


@cache
def script() -> str:
    """The viewer as one ES module; it exports what pages use."""
    layout = json.dumps(LAYOUT, separators=(",", ":"))
    parts = [f"const $layout = {{ LAYOUT: {layout} }};", *map(_scope, MODULES)]
    for module, names in EXPORTED.items():
        parts.append(f"export const {{ {', '.join(names)} }} = ${module};")
    return "\n".join(parts) + "\n"


@cache
def styles() -> str:
    """The style sheet of pages that are about games alone."""
    return base_styles() + _squeezed(file_text("viewer/page.css")) + viewer_styles()


@cache
def base_styles() -> str:
    """Colours and controls, for every page."""
    return _squeezed(file_text("viewer/base.css"))


@cache
def viewer_styles() -> str:
    """The style sheet of the viewer and its board, for a page that has base_styles() before."""
    return board_styles() + _squeezed(file_text("viewer/viewer.css"))


@cache
def board_styles() -> str:
    """The style sheet of a board, for pictures."""
    return _squeezed(file_text("viewer/board.css"))


def chart_styles() -> str:
    """The style sheet of charts."""
    return file_text("charts/charts.css")


@cache
def static_names() -> Mapping[str, str]:
    """The name with a digest of each file, such as `site.1f0c….css` of `site.css`."""
    return {name: _served(name, text) for name, text in static_texts().items()}


def _served(name: str, text: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.{ending}"


@cache
def static_texts() -> Mapping[str, str]:
    """The texts of the site's scripts, style sheets and pictures, by name."""
    return {
        "site.css": base_styles() + chart_styles() + _site_file("site.css"),
        "viewer.css": viewer_styles(),
        "reader.js": _site_file("reader.js"),
        "site.js": _site_file("site.js"),
        "viewer.js": script(),
        "game.css": _site_file("game.css"),
        "game.js": _linked("game.js"),
        "feed.js": _site_file("feed.js"),
        "tv.js": _linked("tv.js"),
        "own.css": _site_file("own.css"),
        "play.css": _site_file("play.css"),
        "play.js": _linked("play.js"),
        **{name: _site_file(name) for name in OWN},
        "icon.svg": _site_file("icon.svg"),
    }


def _linked(name: str) -> str:
    """A script whose imports have their names with a digest."""
    text = _site_file(name)
    for module, its_text in (("viewer.js", script()), ("feed.js", _site_file("feed.js"))):
        text = text.replace(f'"./{module}"', f'"./{_served(module, its_text)}"')
    return text


def _site_file(name: str) -> str:
    return file_text(f"site/static/{name}")


def _scope(module: str) -> str:
    """A module as a function of its own, whose result has what the module exports."""
    text = file_text(f"viewer/{module}.js")
    names = _EXPORT.findall(text)
    text = _IMPORT.sub(lambda found: f"const {found[1] or found[2]} = ${found[3]};\n", text)
    text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    return f"const ${module} = (() => {{\n{_squeezed(text)}return {{ {', '.join(names)} }};\n}})();"


def _squeezed(text: str) -> str:
    """The text without indentation, blank lines and comments that have a line of their own."""
    text = re.sub(r"^\s*/\*.*?\*/\s*\n", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def file_text(path: str) -> str:
    """The text of a file of this package, such as `charts/charts.css`."""
    return files("deepsea_web").joinpath(path).read_text(encoding="utf-8")


@cache
def load_template(name: str) -> Template:
    """A template of pages; its file is read once."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("deepsea_web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _spaces() -> list[list[int]]:
    """The middle of each space: rows that go forth and back, deeper and deeper."""
    found = []
    for index in range(len(CHIPS)):
        row, step = divmod(index, COLUMNS)
        column = COLUMNS - 1 - step if row % 2 else step
        wave = round(WAVE * math.sin(1.3 * column))
        found.append([LEFT + PITCH * column, TOP + ROW * row + wave])
    return found


def _polygon(corners: int, radius: float, turned: float = 0.0) -> str:
    """A regular polygon that stands on its base, as the data of a path."""
    points = []
    for corner in range(corners):
        angle = math.pi * (2 * (corner + turned) / corners - 0.5)
        points.append(f"{radius * math.cos(angle):.1f} {radius * math.sin(angle):.1f}")
    return f"M{'L'.join(points)}Z"


def _shapes() -> dict[str, str]:
    """One shape for each level, with a corner more than the level before."""
    # A triangle looks smaller than a hexagon of its radius.
    radius = {1: RADIUS + 10, 2: RADIUS + 6, 3: RADIUS + 3, 4: RADIUS + 1}
    return {
        str(level): _polygon(level + 2, radius[level], 0.0 if level % 2 else 0.5)
        for level in LEVELS
    }


LAYOUT: dict[str, Any] = {
    "losses": {mark: f"{threshold:.2f}" for threshold, mark in MARKS},
    "width": _WIDTH,
    "height": _HEIGHT,
    "spaces": _spaces(),
    "shapes": _shapes(),
    "rope": [96, 150],
    "hull": "M62 48H438C500 48 532 74 532 96S500 144 438 144H62C36 144 20 122 20 96S36 48 62 48Z",
    "tower": "M196 48V26Q196 12 210 12H296Q310 12 310 26V48ZM268 12V0H288V6H276V12Z",
    "screw": "M532 92L564 66V126L532 100Z",
    "portholes": [[76 + 76 * seat, 92] for seat in range(MAX_PLAYERS)],
    "air": {"x": 596, "y": 84, "step": 9, "width": 7, "height": 34, "full": FULL_AIR},
    "rays": [
        "M60 0L170 0L80 600L0 600L0 240Z",
        "M330 0L400 0L330 560L170 560Z",
        "M640 0L760 0L820 600L590 600Z",
    ],
    "floor": f"M0 {_HEIGHT}V{_HEIGHT - 26}Q90 {_HEIGHT - 58} 190 {_HEIGHT - 30}T400 {_HEIGHT - 34}"
    f"T610 {_HEIGHT - 24}T{_WIDTH} {_HEIGHT - 40}V{_HEIGHT}Z",
    "bubbles": [
        [604, 40, 5],
        [622, 22, 3],
        [590, 16, 4],
        [820, 330, 5],
        [812, 306, 3],
        [26, 470, 4],
        [18, 446, 6],
        [818, 590, 4],
    ],
}


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
