"""Scripts and style sheets, each served under a name that has its digest.

Invariants: the same name has the same bytes for ever, so browsers ask for it once; everything is
in memory, so no request reaches a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from deepsea_web.charts.files import chart_styles
from deepsea_web.site.cache import Rendered
from deepsea_web.viewer.assets import base_styles, script, viewer_styles

KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
OWN: Final = ("join.js", "copy.js", "submit.js", "submission.js", "analysis.js")
"""Scripts of the pages of people with an account; each of these works without its own."""


@cache
def static_names() -> Mapping[str, str]:
    """The name with a digest of each file, such as `site.1f0c….css` of `site.css`."""
    return {name: _served(name, text) for name, text in _texts().items()}


@cache
def static_files() -> Mapping[str, Rendered]:
    """The files by their names with a digest."""
    return {
        _served(name, text): Rendered.of(text, KINDS[name.rpartition(".")[2]])
        for name, text in _texts().items()
    }


def _served(name: str, text: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.{ending}"


@cache
def _texts() -> Mapping[str, str]:
    return {
        "site.css": base_styles() + chart_styles() + _read("site.css"),
        "viewer.css": viewer_styles(),
        "theme.js": _read("theme.js"),
        "site.js": _read("site.js"),
        "viewer.js": script(),
        "game.css": _read("game.css"),
        "game.js": _linked("game.js"),
        "feed.js": _read("feed.js"),
        "tv.js": _linked("tv.js"),
        "own.css": _read("own.css"),
        **{name: _read(name) for name in OWN},
        "icon.svg": _read("icon.svg"),
    }


def _linked(name: str) -> str:
    """A script whose imports have their names with a digest."""
    text = _read(name)
    for module, its_text in (("viewer.js", script()), ("feed.js", _read("feed.js"))):
        text = text.replace(f'"./{module}"', f'"./{_served(module, its_text)}"')
    return text


def _read(name: str) -> str:
    return files("deepsea_web.site").joinpath("static", name).read_text(encoding="utf-8")
