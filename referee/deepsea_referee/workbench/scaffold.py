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
from deepsea_bundle.errors import BundleError
from deepsea_referee.errors import UserError

Language = Literal["python", "node", "bash", "perl"]
"""What a new bot is written in."""
Template = Literal["simple", "search", "learned"]
"""How a new bot in Python decides: by a rule, by trials of each action, or by a net."""

_HERE = Path(__file__).parent
"""Where the texts of the files are; in those of Python {name}, {class_name} and {setting} stand for
what differs."""
_FILES: dict[Template, dict[str, str]] = {
    "simple": {"bot.py": "simple_bot.py.txt"},
    "search": {"bot.py": "search_bot.py.txt"},
    "learned": {
        "bot.py": "learned_bot.py.txt",
        "train.py": "train.py.txt",
        "train-requirements.txt": "train-requirements.txt",
    },
}
"""The files of each template that are its own, with where their texts are."""
_MANIFESTS = {
    "python": 'name = "{name}"\ncommand = "python bot.py"\n',
    "node": 'name = "{name}"\ncommand = "node bot.js"\n',
    "bash": 'name = "{name}"\ncommand = "bash bot.sh"\nprotocol = "lines"\n',
    "perl": 'name = "{name}"\ncommand = "perl bot.pl"\nprotocol = "lines"\n',
}


def create(text: str, language: Language = "python", template: Template = "simple") -> list[Path]:
    """Write the folder; its last part is the bot's name. Returns the files.

    Raises UserError if it exists already, BundleError if no new bot may have its name.
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

    Raises BundleError if no new bot may have its name.
    """
    check_name(name)
    if language == "python":
        texts = _python(name, template)
    elif language == "node":  # `npm install` in its folder fetches the packages that it names
        proto = files("deepsea_sdk") / "_pb" / "play.proto"
        texts = {
            "bot.js": _text("node_bot.js"),
            "package.json": _text("node_packages.json"),
            "play.proto": proto.read_text(encoding="utf-8"),
        }
    else:  # reads and writes lines, and needs nothing but its language
        suffix = {"bash": ".sh", "perl": ".pl"}[language]
        texts = {f"bot{suffix}": _text(f"lines_bot{suffix}")}
    texts["bot.toml"] = _MANIFESTS[language].format(name=name)
    return dict(sorted(texts.items()))


def check_name(name: str) -> str:
    """The name, if a new bot may have it; raises BundleError if it is not valid, or a sample's."""
    from deepsea_referee.bots.resolve import sample_bots  # a server that shows pages needs none

    names.checked("the bot's name", name)
    if names.key(name) in sample_bots():
        raise BundleError(f"the bot's name {name} is that of a sample bot: choose another one")
    return name


def _python(name: str, template: Template) -> dict[str, str]:
    class_name = _class_name(name)
    setting = f"\n{class_name}.trials = 10  # for a quick test\n" if template == "search" else ""
    words = {"{name}": name, "{class_name}": class_name, "{setting}": setting}
    texts = {}
    for file, where in {**_FILES[template], "test_bot.py": "test_bot.py.txt"}.items():
        texts[file] = _text(where)
        for placeholder, word in words.items():
            texts[file] = texts[file].replace(placeholder, word)
    return texts


def _text(file: str) -> str:
    return (_HERE / file).read_text(encoding="utf-8")


def _class_name(name: str) -> str:
    """`my-bot` is MyBot, `7up` is Bot7up; what has a meaning in the files gets "Bot" behind it."""
    joined = "".join(word[:1].upper() + word[1:] for word in re.split(r"[._-]", name))
    if joined[0].isdigit():
        return f"Bot{joined}"
    taken = {"Bot", "View", "LEAVE", "PRESETS", "TAKE"}
    taken |= {"FILE", "GameInfo", "Path", "TurnDice", "Unit", "WEIGHTS"}
    return f"{joined}Bot" if joined in taken or keyword.iskeyword(joined) else joined
