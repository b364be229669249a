"""Draw docs/pictures/position.svg, a position as the viewer draws it, or check it for drift.

    python tools/gen_picture.py            draw it anew
    python tools/gen_picture.py --check    exit 1 if it is not what the viewer draws

The viewer's script draws, in a Chromium without windows, which has to be installed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from deepsea_web.assets import LAYOUT, board_styles, script

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "position.svg"
PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# On a busy machine too no decision is late, so that the game is the same.
MATCH: Final = (
    *("match", "greedy", "cautious", "random", "--seed", "demo"),
    *("--clock", "60s", "--in-process", "--quiet"),
)
SHOWN_TURN: Final = "36"
DRAW: Final = """([position, size, styles]) => {
    const picture = window.emptyBoard();
    picture.removeAttribute("aria-hidden");
    picture.setAttribute("width", size[0]);
    picture.setAttribute("height", size[1]);
    window.draw(picture, window.parsePosition(position));
    const style = document.createElementNS(picture.namespaceURI, "style");
    style.textContent = styles;
    picture.prepend(style);
    return new XMLSerializer().serializeToString(picture);
}"""


def position() -> str:
    """The position after a turn of the demo's game, in notation with all values."""
    with tempfile.TemporaryDirectory() as folder:
        _run(*MATCH, "--out", folder)
        shown = _run("show", f"{folder}/game-0001.json", "--turn", SHOWN_TURN)
    return shown.splitlines()[-1]


def _run(*arguments: str) -> str:
    command = (sys.executable, "-m", "deepsea_cli", *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def picture(notation: str) -> str:
    """The board of a position as the viewer draws it, as a picture of its own."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise SystemExit("there is no Chromium here (apt-get install chromium-headless-shell)")
    size = [LAYOUT["width"], LAYOUT["height"]]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        module = f"{script()}Object.assign(window, $board, $notation);"
        page.set_content(f'<script type="module">{module}</script>')
        page.wait_for_function("window.draw !== undefined")
        drawn: str = page.evaluate(DRAW, [notation, size, board_styles()])
        browser.close()
    # A line for each space and each diver, so that a difference can be read.
    return re.sub(r"(?=<g class=\"ds-(?:space|diver|air|submarine))", "\n", drawn) + "\n"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    text = picture(position())
    if not check:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{TARGET} is not what the viewer draws: python tools/gen_picture.py")


if __name__ == "__main__":
    main()
