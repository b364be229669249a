"""The page of a person's seat, made of its document, and the deeds of the page's forms.

`values(document)` are those of the template `play_parts.html`, whose macro `table` makes the page's
content; what serves it adds `address` (where forms are sent and the news come from) and `hidden`
(fields of every form). It serves the viewer's script and play/play.js in one folder, play.css after
the viewer's styles, and at `address + "news?after=PLACE"` a stream of `news_of`.

Invariant: without JavaScript the page is whole; with it, the same page brings each new choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

from deepsea_arena.reports.seat import SeatDocument
from deepsea_referee.choices import LAST_TURNS
from deepsea_rules.notation import read_position
from deepsea_rules.ruleset import DEFAULT, PRESETS, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_web.http import whole_number
from deepsea_web.play.seat import DEEDS, Cursor, Deed, waits
from deepsea_web.viewer.assets import LAYOUT
from deepsea_web.viewer.picture import place_words, scene


def values(document: SeatDocument) -> dict[str, Any]:
    """The values of the page's template."""
    frames = document["frames"]
    lines = [line for frame in frames for line in frame["say"]]
    judged = document["judged"]
    return {
        "seat": document,
        "last": frames[-1] if frames else None,
        "place": f"{document['news']}.{document['game']}.{len(frames)}",
        "lines": lines[-LAST_TURNS:],
        "board": board(frames[-1]["p"]) if frames else "",
        "divers": _divers(frames[-1]["p"], document["names"]) if frames else [],
        "boards": [board(one["position"]) for one in judged["worst"]] if judged else [],
        "waits": waits(document),
    }


def board(position: str) -> str:
    """The viewer's board of a position in notation, as an SVG element."""
    box = f"0 0 {LAYOUT['width']} {LAYOUT['height']}"
    root = Element("svg", {"class": "ds-board", "viewBox": box, "aria-hidden": "true"})
    root.extend(scene(*_read(position)))
    return tostring(root, encoding="unicode")


def _read(position: str) -> tuple[GameState, dict[int, int]]:
    # Where cargo is laid, nobody moves: a position in which the mover has no choice is read too.
    if position.endswith(" order"):
        position = position.replace("*", "").removesuffix("order") + "over"
    return read_position(position, PRESETS[DEFAULT])


def _divers(position: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Letter, name, place, cargo and points of each diver."""
    state, known = _read(position)
    rows: list[tuple[str, ...]] = []
    for seat, name in enumerate(names):
        place, bank = state.place[seat], state.bank[seat]
        hidden = sum(chip not in known for chip in bank)
        points = sum(known.get(chip, 0) for chip in bank)
        cargo = " ".join(unit.name for unit in state.cargo[seat])
        more = f" + {hidden} hidden" if hidden else ""
        rows.append((SEAT_LETTERS[seat], name, place_words(place), cargo, f"{points}{more}"))
    return rows


def deed_of(fields: Sequence[tuple[str, str]]) -> Deed | None:
    """What a form asks for; None if that makes no sense."""
    given = dict(fields)
    asked = whole_number(given.get("asked", "0"))
    if asked is None or (what := given.get("what", "answer")) not in DEEDS:
        return None
    return Deed(what, asked, given.get("action", ""))


def place_of(text: str) -> Cursor:
    """What a reader says that it has; nothing if that makes no sense."""
    numbers = [whole_number(part) or 0 for part in text.split(".")[:3]]
    news, game, known = (*numbers, 0, 0, 0)[:3]
    return news, game, known
