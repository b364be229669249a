"""The board of a position as plain data, for the page of a seat.

Invariant: it reads only what is public and the values that are handed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from deepsea_rules.actions import LEVEL_OF, Unit
from deepsea_rules.events import unit_text
from deepsea_rules.position import Public
from deepsea_rules.ruleset import ABOARD, HOME, SEAT_LETTERS
from deepsea_web.viewer.assets import LAYOUT

_SUBMARINE = ("screw", "tower", "hull")
_AIR = ("x", "y", "step", "width", "height", "full")


def scene(position: Public, known: Mapping[int, int]) -> list[Element]:
    """The elements of an SVG whose view box is LAYOUT's width and height.

    known  the values that are shown, by chip id
    """
    trail = list(position.trail)[1:]
    rope = [LAYOUT["rope"], *LAYOUT["spaces"][: len(trail)]]
    at = {place: seat for seat, place in enumerate(position.place) if place > ABOARD}
    divers = []
    for place in sorted(at):
        x, y = LAYOUT["spaces"][place - 1]
        divers.append(_diver(position, at[place], x, y - 46))
    return [
        *_water(),
        _element("polyline", {"class": "ds-rope", "points": " ".join(f"{x},{y}" for x, y in rope)}),
        _submarine(position),
        _air(position),
        *[_space(unit, number, position.laid, known) for number, unit in enumerate(trail, start=1)],
        *divers,
    ]


def _water() -> list[Element]:
    stops = [
        _element("stop", {"offset": offset, "class": f"ds-sea-{index}"})
        for index, offset in enumerate(("0", "0.5", "1"))
    ]
    gradient = {"id": "ds-sea", "x1": 0, "y1": 0, "x2": 0, "y2": 1}
    sea = {"width": LAYOUT["width"], "height": LAYOUT["height"], "rx": 20, "fill": "url(#ds-sea)"}
    return [
        _element("defs", {}, [_element("linearGradient", gradient, stops)]),
        _element("rect", sea),
        *[_element("path", {"class": "ds-ray", "d": ray}) for ray in LAYOUT["rays"]],
        _element("path", {"class": "ds-floor", "d": LAYOUT["floor"]}),
        *[
            _element("circle", {"class": "ds-bubble", "cx": cx, "cy": cy, "r": r})
            for cx, cy, r in LAYOUT["bubbles"]
        ],
    ]


def _submarine(position: Public) -> Element:
    holes = []
    for seat in range(position.players):
        cx, cy = LAYOUT["portholes"][seat]
        inside: list[Element] = [_element("circle", {"cx": cx, "cy": cy, "r": 33})]
        place = position.place[seat]
        if place in (ABOARD, HOME):
            inside.append(_diver(position, seat, cx, cy))
        if place == HOME:
            order = position.home_order.index(seat) + 1
            inside.append(_text("ds-home", cx, 168, f"home {order}"))
        holes.append(_element("g", {"class": "ds-porthole"}, inside))
    parts = [_element("path", {"class": f"ds-{part}", "d": LAYOUT[part]}) for part in _SUBMARINE]
    return _element("g", {"class": "ds-submarine"}, [*parts, *holes])


def _air(position: Public) -> Element:
    x, y, step, width, height, full = (LAYOUT["air"][key] for key in _AIR)
    left = max(0, position.air)
    state = "high" if left > full / 2 else "low" if left > full / 5 else "out"
    cells = [
        _element(
            "rect",
            {
                "class": "ds-on" if index < left else "ds-off",
                "x": x + step * index,
                "y": y,
                "width": width,
                "height": height,
                "rx": 2,
            },
        )
        for index in range(full)
    ]
    return _element(
        "g",
        {"class": f"ds-air ds-air-{state}", "data-air": position.air},
        [
            _text("ds-label", x, y - 14, "AIR"),
            _text("ds-figure", x + step * full - 2, y - 14, str(position.air)),
            *cells,
            _text("ds-label", x, y + height + 30, f"DIVE {position.dive}"),
        ],
    )


def _space(unit: Unit, number: int, laid: frozenset[Unit], known: Mapping[int, int]) -> Element:
    x, y = LAYOUT["spaces"][number - 1]
    is_laid = unit in laid
    if not unit:
        drawn = [_element("circle", {"class": "ds-blank", "r": 11})]
    elif len(unit) == 1 and not is_laid:
        drawn = _chip(unit[0], known)
    else:
        drawn = _stack(unit, is_laid, known)
    return _element(
        "g",
        {
            "class": "ds-space",
            "transform": f"translate({x} {y})",
            "data-space": number,
            "data-unit": unit_text(unit, known, laid=is_laid),
        },
        [*drawn, _text("ds-number", -33, 53, str(number))],
    )


def _chip(chip: int, known: Mapping[int, int]) -> list[Element]:
    level = LEVEL_OF[chip]
    drawn = [
        _element("path", {"class": f"ds-chip ds-level-{level}", "d": LAYOUT["shapes"][str(level)]}),
        _text(f"ds-level ds-on-level-{level}", 0, 17 if level == 1 else 13, str(level)),
    ]
    return drawn + (_worth(known[chip]) if chip in known else [])


def _stack(unit: Unit, is_laid: bool, known: Mapping[int, int]) -> list[Element]:
    levels = unit.levels
    per_row = 3 if len(levels) <= 9 else 4 if len(levels) <= 16 else 6
    rows = math.ceil(len(levels) / per_row)
    size = (0, 25, 25, 22, 18, 15, 13)[min(rows, 6)]
    lines = []
    for row in range(rows):
        digits = " ".join(map(str, levels[per_row * row : per_row * (row + 1)]))
        # Rounded as JavaScript rounds.
        y = math.floor((row - (rows - 1) / 2) * size * 1.05 + size * 0.35 + 0.5)
        lines.append(_text(f"ds-stacked ds-size-{size}", 0, y, digits))
    total = _worth(sum(map(known.__getitem__, unit))) if known.keys() >= set(unit) else []
    under = {"class": "ds-under", "x": -34, "y": -43, "width": 76, "height": 76, "rx": 10}
    stack = "ds-stack ds-laid" if is_laid else "ds-stack"
    return [
        _element("rect", under),
        _element("rect", {"class": stack, "x": -41, "y": -36, "width": 78, "height": 76, "rx": 10}),
        *lines,
        *total,
    ]


def _worth(value: int) -> list[Element]:
    return [
        _element("circle", {"class": "ds-worth", "cx": 31, "cy": 29, "r": 16}),
        _text("ds-value", 31, 35, str(value)),
    ]


def _diver(position: Public, seat: int, x: int, y: int) -> Element:
    place = position.place[seat]
    is_home = place == HOME
    homeward = position.homeward[seat] and not is_home
    moves = seat == position.to_move and position.phase != "over"
    letter = SEAT_LETTERS[seat]
    arrow = "M4 7H24L14 -10Z" if homeward else "M4 -8H24L14 9Z"
    ring = {"class": "ds-ring", "x": -36, "y": -25, "width": 72, "height": 50, "rx": 25}
    badge = {"class": "ds-badge", "x": -31, "y": -20, "width": 62, "height": 40, "rx": 20}
    return _element(
        "g",
        {
            "class": f"ds-diver ds-seat-{letter}{' ds-moves' if moves else ''}",
            "transform": f"translate({x} {y})",
            "data-seat": letter,
            "data-place": f"h{position.home_order.index(seat) + 1}" if is_home else str(place),
            "data-facing": "home" if homeward else "down",
        },
        [
            _element("rect", ring),
            _element("rect", badge),
            _text("ds-letter", 0 if is_home else -13, 11, letter),
            *([] if is_home else [_element("path", {"class": "ds-arrow", "d": arrow})]),
            *([_text("ds-barred", 36, -8, "!")] if position.barred[seat] else []),
        ],
    )


def _text(name: str, x: int, y: int, words: str) -> Element:
    element = _element("text", {"class": name, "x": x, "y": y})
    element.text = words
    return element


def _element(
    tag: str, attributes: Mapping[str, object], children: Sequence[Element] = ()
) -> Element:
    element = Element(tag, {name: str(value) for name, value in attributes.items()})
    element.extend(children)
    return element


def place_words(place: int) -> str:
    """Where a diver is."""
    return {HOME: "home", ABOARD: "submarine"}.get(place, f"space {place}")
