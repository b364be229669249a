"""A picture of one position, as an SVG file.

Invariants: the file needs no other file; elements are built as a tree, so that every name is
escaped; values that are not handed over are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from deepsea_rules.position import Public, position_text
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import ABOARD, HOME, SEAT_LETTERS
from deepsea_web.layout import LAYOUT
from deepsea_web.scene import scene
from deepsea_web.viewer.assets import board_styles

LINE: Final = 46
LONGEST_NAME: Final = 30
LONGEST_CARGO: Final = 14


def picture(position: Public, known: Mapping[int, int], *, title: str, names: Sequence[str]) -> str:
    """The board, and below it a line for each diver.

    title  which position it is, such as "game 17-0001, after turn 36"
    """
    width, board = LAYOUT["width"], LAYOUT["height"]
    height = board + LINE * (position.players + 1) + 24
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "ds-board",
            "viewBox": f"0 0 {width} {height}",
            "width": str(width),
            "height": str(height),
            "role": "img",
        },
    )
    SubElement(root, "title").text = one_line(title)
    SubElement(root, "desc").text = position_text(position, known)
    SubElement(root, "style").text = board_styles()
    SubElement(root, "rect", {"class": "ds-paper", "width": "100%", "height": "100%", "rx": "20"})
    root.extend(scene(position, known))
    _line(root, board + 36, [("ds-caption", 24, one_line(title))])
    for seat, name in enumerate(names):
        y = board + 36 + LINE * (seat + 1)
        points = sum(known.get(chip, 0) for chip in position.bank[seat])
        hidden = sum(chip not in known for chip in position.bank[seat])
        SubElement(
            root,
            "circle",
            {
                "class": f"ds-badge ds-seat-{SEAT_LETTERS[seat]}",
                "cx": "46",
                "cy": str(y - 9),
                "r": "18",
            },
        )
        cargo = " ".join(unit.name for unit in position.cargo[seat])
        carries = f"carries {one_line(cargo, LONGEST_CARGO)}" if cargo else ""
        _line(
            root,
            y,
            [
                ("ds-letter ds-small", 46, SEAT_LETTERS[seat]),
                ("ds-row", 78, one_line(name, LONGEST_NAME)),
                ("ds-row", 400, _where(position, seat)),
                ("ds-row", 530, carries),
                ("ds-row ds-end", width - 24, f"{points}{f' + {hidden} ?' if hidden else ''}"),
            ],
        )
    return tostring(root, encoding="unicode") + "\n"


def _where(position: Public, seat: int) -> str:
    place = position.place[seat]
    if place == HOME:
        return "home"
    return "submarine" if place == ABOARD else f"space {place}"


def _line(root: Element, y: int, texts: Sequence[tuple[str, int, str]]) -> None:
    for looks, x, words in texts:
        place = {"class": looks, "x": str(x), "y": str(y)}
        SubElement(root, "text", place).text = words
