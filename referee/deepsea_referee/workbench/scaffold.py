"""Creates a new bot's folder: a working bot, its bot.toml, and a test.

Invariants: existing files are never changed; the new files work as they are, and their author may
change every line.
"""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Literal

from deepsea_bundle import names
from deepsea_referee.errors import UserError

from . import templates

Language = Literal["python", "node", "bash", "perl"]
"""What a new bot is written in."""
Template = Literal["simple", "search", "learned"]
"""How a new bot in Python decides: by a rule, by trials of each action, or by a net."""

_BOT = '''\
"""{name}: takes what it can carry home, and turns back in time.

What a bot can use: python -m pydoc deepsea_sdk, or docs/api/deepsea_sdk.md where the project is.
"""

from deepsea_sdk import LEAVE, TAKE, Bot, View, run


class {class_name}(Bot):
    def turn_back(self, view: View) -> bool:
        """Asked before the roll: is it time to swim home?"""
        return view.me.load > 0 and not self.gets_home(view, view.me.load + 1)

    def search(self, view: View) -> str:
        """Asked after the move: LEAVE, TAKE if view.can_take, or drop(unit) of view.droppable."""
        if view.can_take and self.gets_home(view, view.me.load + 1):
            return TAKE
        return LEAVE

    def gets_home(self, view: View, load: int) -> bool:
        """Whether the air is likely to last for the way home with this load."""
        turns = view.distance_home / max(4 - load, 0.5)  # a roll is 4 on average, less the load
        breath = load + sum(diver.load for diver in view.others if not diver.home)
        return turns * breath <= view.air


if __name__ == "__main__":
    run({class_name})
'''

_MANIFEST = """\
name = "{name}"
command = "python bot.py"
"""

_TEST = '''\
"""Plays whole games in this process. Run it in this folder: python -m unittest"""

import unittest

from bot import {class_name}
from deepsea_rules import PRESETS, parse_position, view_for
from deepsea_sdk import Bot, play
{setting}

class {class_name}Test(unittest.TestCase):
    def test_it_plays_every_preset_without_a_fault(self) -> None:
        for preset in PRESETS:
            for seats in range(2, 7):
                game = play([{class_name}] * seats, preset, seed="test")
                faults = [decision for decision in game.decisions if decision.fault]
                self.assertEqual(faults, [], f"{{preset}}, {{seats}} seats")

    def test_it_beats_a_bot_that_only_dives(self) -> None:
        points = [play([{class_name}, Bot], seed=f"game {{i}}").result().points for i in range(20)]
        self.assertGreater(sum(own for own, _ in points), sum(other for _, other in points))

    def test_it_takes_treasure_that_lies_near(self) -> None:
        state = parse_position("1 1 2 2 | *A3v B0v | d1 a25 search", PRESETS["manual"])
        self.assertEqual({class_name}().decide(view_for(state, 0)), "take")


if __name__ == "__main__":
    unittest.main()
'''


_IN_PYTHON: dict[Template, dict[str, str]] = {
    "simple": {"bot.py": _BOT},
    "search": {"bot.py": templates.SEARCH},
    "learned": {
        "bot.py": templates.LEARNED,
        "train.py": templates.TRAIN,
        "train-requirements.txt": templates.TRAIN_REQUIREMENTS,
    },
}
"""The files of each template that are its own."""

_NODE_MANIFEST = """\
name = "{name}"
command = "node bot.js"
"""

_NODE_PACKAGES = """\
{
  "private": true,
  "dependencies": {
    "@grpc/grpc-js": "^1.14.0",
    "@grpc/proto-loader": "^0.8.0"
  }
}
"""


_LINES_MANIFEST = """\
name = "{name}"
command = "{program} {file}"
protocol = "lines"
"""

_PROGRAMS = {"bash": ("bash", "bot.sh"), "perl": ("perl", "bot.pl")}


def create(text: str, language: Language = "python", template: Template = "simple") -> list[Path]:
    """Write the folder; its last part is the bot's name. Returns the files.

    Raises UserError if it exists already, BundleError if its name is not valid for a bot.
    """
    folder = Path(text)
    if folder.suffix in (".py", ".js", ".sh", ".pl", ".zip"):
        raise UserError(f"`new` makes a folder, not a file: write {folder.with_suffix('')}")
    texts = starter(folder.name, language, template)
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UserError(f"{text} exists already, and nothing in it was changed") from None
    except OSError as error:
        raise UserError(f"{text}: cannot be created: {error.strerror or error}") from None
    for file, content in texts.items():
        (folder / file).write_text(content, encoding="utf-8", newline="\n")
    return [folder / file for file in texts]


def starter(
    name: str, language: Language = "python", template: Template = "simple"
) -> dict[str, str]:
    """The texts of a new bot's files by their names; the template is for Python.

    Raises BundleError if its name is not valid for a bot.
    """
    names.checked("the bot's name", name)
    if language == "python":
        return _python(name, template)
    return _node(name) if language == "node" else _lines(name, *_PROGRAMS[language])


def _python(name: str, template: Template) -> dict[str, str]:
    class_name = _class_name(name)
    setting = f"\n{class_name}.trials = 10  # for a quick test\n" if template == "search" else ""
    words = {"name": name, "class_name": class_name, "setting": setting}
    texts = {**_IN_PYTHON[template], "bot.toml": _MANIFEST, "test_bot.py": _TEST}
    return {file: text.format(**words) for file, text in texts.items()}


def _node(name: str) -> dict[str, str]:
    """A bot in JavaScript; `npm install` in its folder fetches the packages that it names."""
    return {
        "bot.js": Path(__file__).with_name("node_bot.js").read_text(encoding="utf-8"),
        "bot.toml": _NODE_MANIFEST.format(name=name),
        "package.json": _NODE_PACKAGES,
        "play.proto": (files("deepsea_sdk") / "_pb" / "play.proto").read_text(encoding="utf-8"),
    }


def _lines(name: str, program: str, file: str) -> dict[str, str]:
    """A bot that reads and writes lines; it needs nothing but its language."""
    bot = Path(__file__).with_name("lines_bot").with_suffix(Path(file).suffix)
    manifest = _LINES_MANIFEST.format(name=name, program=program, file=file)
    return {file: bot.read_text(encoding="utf-8"), "bot.toml": manifest}


def _class_name(name: str) -> str:
    """`my-bot` is MyBot, `7up` is Bot7up; what has a meaning in the files gets "Bot" behind it."""
    joined = "".join(word[:1].upper() + word[1:] for word in re.split(r"[._-]", name))
    if joined[0].isdigit():
        return f"Bot{joined}"
    taken = {"Bot", "View", "LEAVE", "PRESETS", "TAKE"}
    taken |= {"FILE", "GameInfo", "Path", "TurnDice", "Unit", "WEIGHTS"}
    return f"{joined}Bot" if joined in taken or keyword.iskeyword(joined) else joined
