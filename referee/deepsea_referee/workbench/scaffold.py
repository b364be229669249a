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
"""The programming language of a new bot."""
Template = Literal["simple", "search", "learned"]
"""The kind of a new Python bot: it decides by a rule, by trials of each action, or by a net."""

_TEMPLATE_FOLDER = Path(__file__).parent
"""The folder with the texts of the new files.

Those in Python have the placeholders {name}, {class_name} and {setting}.
"""
_FILES: dict[Template, dict[str, str]] = {
    "simple": {"bot.py": "simple_bot.py.txt"},
    "search": {"bot.py": "search_bot.py.txt"},
    "learned": {
        "bot.py": "learned_bot.py.txt",
        "train.py": "train.py.txt",
        "train-requirements.txt": "train-requirements.txt",
    },
}
"""The files that are particular to each template: their names, and the names of their texts."""
_MANIFESTS = {
    "python": 'name = "{name}"\ncommand = "python bot.py"\n',
    "node": 'name = "{name}"\ncommand = "node bot.js"\n',
    "bash": 'name = "{name}"\ncommand = "bash bot.sh"\nprotocol = "lines"\n',
    "perl": 'name = "{name}"\ncommand = "perl bot.pl"\nprotocol = "lines"\n',
}


def create(path: str, language: Language = "python", template: Template = "simple") -> list[Path]:
    """Create the folder of a new bot, and return its files.

    The last part of the path is the bot's name. Raises UserError if the folder exists already or
    cannot be created, BundleError if no new bot may have that name.
    """
    folder = Path(path)
    if folder.suffix in (".py", ".js", ".sh", ".pl", ".zip"):
        raise UserError(f"`new` makes a folder, not a file: write {folder.with_suffix('')}")
    texts = starter(folder.name, language, template)
    try:
        folder.mkdir(parents=True)  # fails if it exists, so that no file is overwritten
    except FileExistsError:
        raise UserError(f"{path} exists already, and nothing in it was changed") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be created: {error.strerror or error}") from None
    for file, content in texts.items():
        (folder / file).write_text(content, encoding="utf-8", newline="\n")
    return [folder / file for file in texts]


def starter(
    name: str, language: Language = "python", template: Template = "simple"
) -> dict[str, str]:
    """Return the texts of a new bot's files, by the names of the files.

    The template matters for Python only. Raises BundleError if no new bot may have the name.
    """
    check_name(name)
    if language == "python":
        texts = _python_files(name, template)
    elif language == "node":
        protocol = files("deepsea_sdk") / "_pb" / "play.proto"
        texts = {
            "bot.js": _text("node_bot.js"),
            "package.json": _text("node_packages.json"),
            "play.proto": protocol.read_text(encoding="utf-8"),
        }
    else:
        # A bot that speaks the lines protocol needs no library, so it has one file.
        suffix = {"bash": ".sh", "perl": ".pl"}[language]
        texts = {f"bot{suffix}": _text(f"lines_bot{suffix}")}
    texts["bot.toml"] = _MANIFESTS[language].format(name=name)
    return dict(sorted(texts.items()))


def check_name(name: str) -> str:
    """Return the name if a new bot may have it.

    Raises BundleError if it is not valid, or the name of a sample bot.
    """
    from deepsea_referee.bots.resolve import sample_bots  # slow to import, and seldom needed

    names.valid_bot_name("the bot's name", name)
    if names.key(name) in sample_bots():
        raise BundleError(f"the bot's name {name} is that of a sample bot: choose another one")
    return name


def _python_files(name: str, template: Template) -> dict[str, str]:
    """Return the texts of a new Python bot's files, by the names of the files.

    All templates have the same test, in which the bot `search` gets a line that makes it quick.
    """
    class_name = _class_name(name)
    setting = f"\n{class_name}.trials = 10  # for a quick test\n" if template == "search" else ""
    placeholders = {"{name}": name, "{class_name}": class_name, "{setting}": setting}
    source_files = {**_FILES[template], "test_bot.py": "test_bot.py.txt"}
    texts = {}
    for file, source_file in source_files.items():
        text = _text(source_file)
        for placeholder, value in placeholders.items():
            text = text.replace(placeholder, value)
        texts[file] = text
    return texts


def _text(file: str) -> str:
    return (_TEMPLATE_FOLDER / file).read_text(encoding="utf-8")


def _class_name(name: str) -> str:
    """Derive the name of a bot's class from the bot's name, such as MyBot from `my-bot`.

    A name that begins with a digit gets "Bot" in front, so `7up` becomes Bot7up. Keywords, and
    names that the templates use for other things, get "Bot" at the end.
    """
    words = re.split(r"[._-]", name)
    class_name = "".join(word[:1].upper() + word[1:] for word in words)
    if class_name[0].isdigit():
        return f"Bot{class_name}"
    names_in_templates = {"Bot", "View", "LEAVE", "PRESETS", "TAKE"}
    names_in_templates |= {"FILE", "GameInfo", "Path", "TurnDice", "Unit", "WEIGHTS"}
    if class_name in names_in_templates or keyword.iskeyword(class_name):
        return f"{class_name}Bot"
    return class_name
