"""Geometry of the board: where spaces, divers and air are drawn, and the shapes of chips.

Invariants: this is the only place that has it; the viewer's script and the pictures that Python
draws both take it from `LAYOUT`, which is plain data for JSON.
"""

from __future__ import annotations

import math
from typing import Any, Final

from deepsea_rules.actions import CHIPS, LEVELS
from deepsea_rules.ruleset import FULL_AIR, MAX_PLAYERS

COLUMNS: Final = 8
"""Spaces in a row: at the opening a row is a level, and a row fits a narrow screen."""
PITCH: Final = 100
ROW: Final = 126
LEFT: Final = 70
TOP: Final = 240
WAVE: Final = 9
RADIUS: Final = 38


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


_HEIGHT: Final = TOP + ROW * (len(CHIPS) // COLUMNS - 1) + 84
_WIDTH: Final = 2 * LEFT + PITCH * (COLUMNS - 1)

LAYOUT: Final[dict[str, Any]] = {
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


def level_path(level: int) -> str:
    """The shape of a chip of that level."""
    return str(LAYOUT["shapes"][str(level)])
