"""The viewer's script and styles, as one text each.

Invariants: the script is one ES module that imports nothing, made of the modules in `viewer/`
without any tool, so that the same files give the same bytes; a page has it inline, a server sends
it as a file, and both are the same text.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Final

from deepsea_web.layout import LAYOUT

MODULES: Final = (
    *("address", "dom", "notation", "views"),
    *("coach", "scene", "timeline", "panels", "share", "viewer", "page"),
)
"""The modules of the viewer, each after those that it imports."""
EXPORTED: Final = {"viewer": ("mount",), "page": ("start",)}

_IMPORT = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)


@cache
def script() -> str:
    """The viewer as one ES module; it exports `mount` and `start`."""
    layout = json.dumps(LAYOUT, separators=(",", ":"))
    parts = [f"const $layout = {{ LAYOUT: {layout} }};", *map(_scope, MODULES)]
    for module, names in EXPORTED.items():
        parts.append(f"export const {{ {', '.join(names)} }} = ${module};")
    return "\n".join(parts) + "\n"


@cache
def styles() -> str:
    """The style sheet of pages that are about games alone."""
    return base_styles() + _squeezed(_read("page.css")) + viewer_styles()


@cache
def base_styles() -> str:
    """Colours and controls, for every page."""
    return _squeezed(_read("base.css"))


@cache
def viewer_styles() -> str:
    """The style sheet of the viewer and its board, for a page that has base_styles() before."""
    return board_styles() + _squeezed(_read("viewer.css"))


@cache
def board_styles() -> str:
    """The style sheet of a board, for pictures."""
    return _squeezed(_read("board.css"))


def _scope(module: str) -> str:
    """A module as a function of its own, whose result has what the module exports."""
    text = _read(f"{module}.js")
    names = _EXPORT.findall(text)
    text = _IMPORT.sub(lambda found: f"const {found[1] or found[2]} = ${found[3]};\n", text)
    text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    return f"const ${module} = (() => {{\n{_squeezed(text)}return {{ {', '.join(names)} }};\n}})();"


def _squeezed(text: str) -> str:
    """The text without indentation, blank lines and comments that have a line of their own."""
    text = re.sub(r"^\s*/\*.*?\*/\s*\n", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def _read(name: str) -> str:
    return files("deepsea_web").joinpath("viewer", name).read_text(encoding="utf-8")
