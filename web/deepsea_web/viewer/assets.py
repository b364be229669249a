"""The viewer's script, styles and layout, the files of the site, and the templates of all pages.

Invariants: the script is one ES module that imports nothing, made of the modules in `viewer/`
without any tool, so that the same files give the same bytes; a page has it inline, a server sends
it as a file, and both are the same text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from deepsea_rules.actions import CHIPS, LEVELS
from deepsea_rules.ruleset import FULL_AIR, MAX_PLAYERS
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
