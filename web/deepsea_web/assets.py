"""The viewer's script, styles and layout, the site's files, the templates, and the game page.

The game page is one file with games and the viewer, which opens without a network. Start reading at
`script` for the viewer, at `static_texts` for the site, and at `game_page` for the page.

Invariants: the script is one ES module that imports nothing, made of the modules in `viewer/`
without any tool, so that the same files give the same bytes; the game page has it inline, a server
sends it as a file, and both are the same text; the game page loads nothing and its own policy
forbids it; texts of bots are in data blocks, escaped, or pass through the template's escaping;
without JavaScript the page shows the games as text.
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
from deepsea_arena.frames import Frames, Viewer, frames_of, replay, with_analysis, with_notes
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
"""The modules of the viewer; each stands after the modules that it imports."""
EXPORTED = {
    "dom": ("h",),
    "viewer": ("mount",),
    "page": ("start",),
    "board": ("draw", "emptyBoard", "glide"),
    "notation": ("parsePosition",),
    "panels": ("seats", "spoken"),
}
"""The names that the viewer's script exports, by module."""
OWN = ("join.js", "copy.js", "submit.js", "submission.js")
"""The scripts of the pages for people with an account; each page works without its script."""
_IMPORT = re.compile(
    r'^import (?:\* as (?P<alias>\w+)|(?P<names>\{[^}]*\})) from "\./(?P<module>\w+)\.js";\n',
    re.MULTILINE,
)
"""An import of a whole module under an alias, or of the names in braces."""
_EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)
COLUMNS = 8
"""Number of spaces in a row: a row of the opening has one level, and fits a narrow screen."""
PITCH = 100
"""The distance between the middles of two spaces in a row."""
ROW = 126
"""The distance between the middles of two rows."""
LEFT = 70
"""The horizontal position of the middle of the first space."""
TOP = 240
"""The vertical position of the middle of the first row."""
WAVE = 9
"""The height of the wave that a row follows."""
RADIUS = 38
"""The radius of a chip; the shapes of the levels are a little larger."""
_HEIGHT = TOP + ROW * (len(CHIPS) // COLUMNS - 1) + 84
_WIDTH = 2 * LEFT + PITCH * (COLUMNS - 1)


@cache
def script() -> str:
    """Return the viewer as one ES module, which exports the names in EXPORTED.

    Within it each module of the viewer is a constant, such as `$board`, with its exports.
    """
    layout = json.dumps(LAYOUT, separators=(",", ":"))
    parts = [f"const $layout = {{ LAYOUT: {layout} }};", *map(_module_function, MODULES)]
    for module, names in EXPORTED.items():
        parts.append(f"export const {{ {', '.join(names)} }} = ${module};")
    return "\n".join(parts) + "\n"


@cache
def styles() -> str:
    """Return the style sheet of the self-contained game page."""
    return base_styles() + _minified(file_text("viewer/page.css")) + viewer_styles()


@cache
def base_styles() -> str:
    """Return the style sheet with colours and controls, for every page."""
    return _minified(file_text("viewer/base.css"))


@cache
def viewer_styles() -> str:
    """Return the style sheet of the viewer and its board; it needs `base_styles` before it."""
    return board_styles() + _minified(file_text("viewer/viewer.css"))


@cache
def board_styles() -> str:
    """Return the style sheet of a board, which is enough for a picture of one."""
    return _minified(file_text("viewer/board.css"))


def chart_styles() -> str:
    """Return the style sheet of charts."""
    return file_text("charts/charts.css")


@cache
def static_names() -> Mapping[str, str]:
    """Return the served name of each static file, by its name.

    A served name has a digest, such as `site.1f0c….css` for `site.css`, so that browsers may keep
    the file for ever.
    """
    return {name: _served_name(name, text) for name, text in static_texts().items()}


def _served_name(name: str, text: str) -> str:
    """Return the name of a static file with a digest of its text."""
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.{ending}"


@cache
def static_texts() -> Mapping[str, str]:
    """Return the texts of the site's scripts, style sheets and pictures, by name."""
    return {
        "site.css": base_styles() + chart_styles() + _site_file("site.css"),
        "viewer.css": viewer_styles(),
        "reader.js": _site_file("reader.js"),
        "site.js": _site_file("site.js"),
        "viewer.js": script(),
        "game.css": _site_file("game.css"),
        "game.js": _with_served_imports("game.js"),
        "feed.js": _site_file("feed.js"),
        "tv.js": _with_served_imports("tv.js"),
        "own.css": _site_file("own.css"),
        "play.css": _site_file("play.css"),
        "play.js": _with_served_imports("play.js"),
        **{name: _site_file(name) for name in OWN},
        "icon.svg": _site_file("icon.svg"),
    }


def _with_served_imports(name: str) -> str:
    """Return the text of a script of the site, which imports other scripts by served names."""
    text = _site_file(name)
    for imported, imported_text in (("viewer.js", script()), ("feed.js", _site_file("feed.js"))):
        text = text.replace(f'"./{imported}"', f'"./{_served_name(imported, imported_text)}"')
    return text


def _site_file(name: str) -> str:
    """Return the text of a static file of the site."""
    return file_text(f"site/static/{name}")


def _module_function(module: str) -> str:
    """Return a module of the viewer as the definition of a constant, such as `$board`.

    The constant is an object with the module's exports. The module's code stands in a function of
    its own, so that its other names do not meet those of other modules.
    """

    def assignment(imported: re.Match[str]) -> str:
        """Return an import as an assignment from the constant of the imported module."""
        target = imported["alias"] or imported["names"]
        return f"const {target} = ${imported['module']};\n"

    text = file_text(f"viewer/{module}.js")
    exports = _EXPORT.findall(text)
    text = _IMPORT.sub(assignment, text)
    text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    code = f"{_minified(text)}return {{ {', '.join(exports)} }};\n"
    return f"const ${module} = (() => {{\n{code}}})();"


def _minified(text: str) -> str:
    """Return a script or style sheet without indentation, blank lines and lines of comment."""
    text = re.sub(r"^\s*/\*.*?\*/\s*\n", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def file_text(path: str) -> str:
    """Return the text of a file of this package, such as `charts/charts.css`."""
    return files("deepsea_web").joinpath(path).read_text(encoding="utf-8")


@cache
def load_template(name: str) -> Template:
    """Return a template of pages; its file is read only once."""
    return _template_environment().get_template(name)


@cache
def _template_environment() -> Environment:
    """Return Jinja's settings for all pages: everything is escaped, and no name may be missing."""
    return Environment(
        loader=PackageLoader("deepsea_web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


# ------------------------------------------------------------------------- the layout of the board


def _space_middles() -> list[list[int]]:
    """Return the middle of each space of the trail, as x and y.

    The trail goes down row by row, in turn to the right and to the left, and each row is a wave.
    """
    middles = []
    for index in range(len(CHIPS)):
        row, step = divmod(index, COLUMNS)
        goes_left = row % 2 == 1
        column = COLUMNS - 1 - step if goes_left else step
        wave = round(WAVE * math.sin(1.3 * column))  # about one and a half waves in a row
        middles.append([LEFT + PITCH * column, TOP + ROW * row + wave])
    return middles


def _polygon(corners: int, radius: float, rotation: float = 0.0) -> str:
    """Return a regular polygon around the origin, as the data of an SVG path.

    rotation  the turn of the polygon, in corners; with 0 a corner is at the top
    """
    points = []
    for corner in range(corners):
        angle = math.pi * (2 * (corner + rotation) / corners - 0.5)  # -pi / 2 is the top
        points.append(f"{radius * math.cos(angle):.1f} {radius * math.sin(angle):.1f}")
    return f"M{'L'.join(points)}Z"


def _level_shapes() -> dict[str, str]:
    """Return the shape of the chips of each level, as the data of an SVG path.

    Level 1 is a triangle, level 4 a hexagon. All stand on an edge, so shapes with an even number of
    corners are turned by half a corner.
    """
    # The fewer corners, the larger: a triangle looks smaller than a hexagon of the same radius.
    radius = {1: RADIUS + 10, 2: RADIUS + 6, 3: RADIUS + 3, 4: RADIUS + 1}
    shapes = {}
    for level in LEVELS:
        corners = level + 2
        rotation = 0.0 if corners % 2 else 0.5
        shapes[str(level)] = _polygon(corners, radius[level], rotation)
    return shapes


LAYOUT: dict[str, Any] = {
    "losses": {mark: f"{threshold:.2f}" for threshold, mark in MARKS},
    "width": _WIDTH,
    "height": _HEIGHT,
    "spaces": _space_middles(),
    "shapes": _level_shapes(),
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


"""The numbers and paths with which the viewer draws a board."""


# ---------------------------------------------------------------------------------- the game page

START = "start();\n"
"""The call that the game page adds to the viewer's script."""
_VALUE = re.compile(r"=\d+")
"""The value of a chip in a written position."""
_STACK = re.compile(r"[\[{][^\]}]*")
"""A unit in a written position, to the end of its chips."""


@dataclass(frozen=True, slots=True)
class PageGame:
    """A game as the game page or a server gives it to the viewer."""

    frames: Frames
    """The game with everything that the record knows."""
    views: dict[str, Any]
    """The views of a watcher and of each seat, as `pack` writes them."""
    record: str
    """The record of the game as JSON."""
    file: str
    """The name under which the record is downloaded."""

    @classmethod
    def of_record(
        cls,
        record: GameRecord,
        file: str,
        *,
        packed: bool = True,
        analysis: GameAnalysis | None = None,
        notes: Mapping[int, Note] | None = None,
    ) -> PageGame:
        """Replay a record, and return the game for the viewer.

        file      the name under which the record is downloaded
        packed    True to add what a watcher and each seat may see; a server sends that on request
        analysis  the analysis of the game, which is added to the frames
        notes     the notes of bots, by the number of the decision, which are added to the frames
        Raises InvalidRecord if the game comes out differently from the record.
        """
        game = replay(record)
        frames = frames_of(game)
        views: dict[str, Any] = {}
        if packed:
            viewers: list[Viewer] = ["watcher", *range(len(record.seats))]
            for viewer in viewers:
                seen_frames = frames_of(game, viewer)
                views[seen_frames["viewer"]] = pack(frames, seen_frames)
        # Added only now, since `pack` compares frames without analysis and notes.
        if analysis is not None:
            frames = with_analysis(frames, analysis)
        if notes:
            frames = with_notes(frames, notes)
        return cls(frames, views, record.to_json(), one_line(file, 120))

    @property
    def verify(self) -> str:
        """The command that verifies the downloaded record."""
        return shlex.join(("deepsea-referee", "verify", self.file))

    @property
    def title(self) -> str:
        """The title of the game: its id and its rules."""
        return f"game {self.frames['id']}, {self.frames['rules']} rules"

    @property
    def result(self) -> str:
        """The result in words: the placement, name, seat and points of each bot, best first."""
        result, seats = self.frames["result"], self.frames["seats"]
        placements = result["placements"]
        best_first = sorted(range(len(placements)), key=lambda seat: placements[seat])
        return ", ".join(
            f"{placements[seat]}. {seats[seat]['name']} "
            f"({SEAT_LETTERS[seat]}) {result['points'][seat]}"
            for seat in best_first
        )

    @property
    def story(self) -> list[str]:
        """The sentences that tell the game, as the terminal prints them; a turn has its number."""
        sentences = [
            (frame["t"], sentence)  # `t` is the number of the turn
            for frame in self.frames["frames"]
            for sentence in frame["say"]
        ]
        return [
            f"{turn_number:4} {sentence}" if is_turn(sentence) else sentence
            for turn_number, sentence in sentences
        ]

    def data(self) -> dict[str, Any]:
        """Return the data that the viewer's script reads."""
        return {
            "frames": self.frames,
            "views": self.views,
            "record": self.record,
            "file": self.file,
            "verify": self.verify,
        }


def game_page(games: Sequence[PageGame], note: str = "") -> Iterable[str]:
    """Return a page with games and the viewer, which needs no other file, in pieces of HTML.

    The page's own policy allows no script and no style sheet but those in it, by their digests.

    note  a sentence on games that are left out; "" if there are none
    """
    program, style_sheet = script() + START, styles()
    policy = (
        f"default-src 'none'; script-src {_csp_hash(program)}; "
        f"style-src {_csp_hash(style_sheet)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    return load_template("game_page.html").generate(
        games=games,
        note=note,
        policy=policy,
        script=program,
        styles=style_sheet,
        data=data_block,  # a function, which the template calls with each game
    )


def data_block(game: PageGame) -> str:
    """Return a game as JSON that can stand in a script element."""
    return script_json(game.data())


def script_json(value: object) -> str:
    """Return a value as JSON that can stand in a script element."""
    # json.dumps writes ASCII, so line separators and lone surrogates are escaped already.
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _csp_hash(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def pack(everything: Frames, view: Frames) -> dict[str, Any]:
    """Return how the frames of a viewer differ from those with everything, in little space.

    A viewer knows the values of chips only in banks, and once known they stay known. So a position
    of the viewer mostly follows from the full one and from the banks, whose changes are listed as
    (frame, seat, bank); positions and sentences that do not follow are listed by their frame.
    """
    banks = [""] * len(everything["seats"])
    bank_changes: list[tuple[int, int, str]] = []
    positions: dict[str, str] = {}
    sentences: dict[str, list[str]] = {}
    frame_pairs = zip(everything["frames"], view["frames"], strict=True)
    for index, (full_frame, frame) in enumerate(frame_pairs):
        # A position is "trail | divers | air"; a diver's bank stands after a slash.
        for seat, diver in enumerate(frame["p"].split("|")[1].split()):
            bank = diver.partition("/")[2]
            if bank != banks[seat]:
                banks[seat] = bank
                bank_changes.append((index, seat, bank))
        if _without_values(full_frame["p"], banks) != frame["p"]:
            positions[str(index)] = frame["p"]
        if full_frame["say"] != frame["say"]:
            sentences[str(index)] = frame["say"]
    dives = []
    dive_pairs = zip(everything["dives"], view["dives"], strict=True)
    for dive_index, (full_dive, dive) in enumerate(dive_pairs):
        seat_pairs = zip(full_dive["seats"], dive["seats"], strict=True)
        for seat, (full_outcome, outcome) in enumerate(seat_pairs):
            if full_outcome != outcome:
                dives.append((dive_index, seat, outcome["chips"], outcome["say"]))
    return {
        "banks": bank_changes,
        "p": positions,
        "say": sentences,
        "lead": [mark for mark in view["marks"] if mark["kind"] == "lead"],
        "dives": dives,
    }


def _without_values(position: str, banks: list[str]) -> str:
    """Return a position in notation without the values of chips, and with other banks.

    banks  the bank of each seat in notation; "" for an empty one
    """
    without_values = _VALUE.sub("", position)
    # Without values the chips of a stack are written without commas.
    without_commas = _STACK.sub(lambda match: match[0].replace(",", ""), without_values)
    # A position is "trail | divers | air"; a diver's bank stands after a slash.
    trail, divers, air = without_commas.split("|")
    new_divers: list[str] = []
    for diver, bank in zip(divers.split(), banks, strict=True):
        diver_alone = diver.partition("/")[0]
        new_divers.append(f"{diver_alone}/{bank}" if bank else diver_alone)
    return f"{trail}| {' '.join(new_divers)} |{air}"
