"""The start of a bot's program by a referee: environment variables, and the bot's parameters.

Invariants: a parameter, as in `my_bot.py:Fast,depth=3,safe=0.9`, sets a class attribute that the
bot has already, so that a misspelt name is an error. The text that travels to the bot's process is
the text that the referee shows.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import NamedTuple, TypeAlias

from .bot import Bot, NewBot

ADDRESS = "DEEPSEA_ADDRESS"
TOKEN = "DEEPSEA_TOKEN"
"""Variable with the token that is sent once, in Hello."""
PARAMETERS = "DEEPSEA_PARAMETERS"
_NAME = r"[A-Za-z]\w*"
_FORM = re.compile(rf"(?::({_NAME}))?((?:,{_NAME}=[\w.+-]*)*)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+|(\d+\.\d*|\.\d+|\d+(?=e))(e[+-]?\d+)?)", re.ASCII | re.I)

Value: TypeAlias = bool | int | float | str


class Parameters(NamedTuple):
    """Parameters of a bot: its class, None for the one given to `run`, and attributes."""

    class_name: str | None
    values: dict[str, Value]

    @classmethod
    def parse(cls, text: str) -> Parameters:
        """Return the parameters in a text such as `:Fast,depth=3`.

        Raise ValueError for a text of another form, or if a parameter is given twice.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not of the form :CLASS,NAME=VALUE,...")
        class_name, assignments = match.groups()
        values: dict[str, Value] = {}
        repeated: set[str] = set()
        for assignment in assignments.split(",")[1:]:  # a comma precedes the first one, too
            name, _, value = assignment.partition("=")
            if name in values:
                repeated.add(name)
            values[name] = number_or_text(value)
        if repeated:
            raise ValueError(f"parameter {min(repeated)!r} is given twice")
        return cls(class_name, values)

    def format(self) -> str:
        """Return the text that `parse` reads, with the parameters in alphabetical order."""
        text = f":{self.class_name}" if self.class_name else ""
        for name, value in sorted(self.values.items()):
            value_text = str(value).lower() if isinstance(value, bool) else str(value)
            text += f",{name}={value_text}"
        return text


def split_parameters(text: str) -> tuple[str, str]:
    """Return a bot's name without its parameters, and the parameters, "" if there are none."""
    match = re.fullmatch(rf"(.*?)({_FORM.pattern})", text, re.ASCII | re.DOTALL)
    return (match[1], match[2]) if match else (text, "")


def apply_parameters(text: str, new_bot: NewBot, module: ModuleType) -> NewBot:
    """Set the parameters as attributes of the bot's class, and return the class.

    text     the parameters, such as `:Fast,depth=3`; without a class they are for that of `new_bot`
    new_bot  the argument of the program's call of `run`
    module   the program, in which the class is looked up

    Raise TypeError if the program has no such class, or the class no such attribute, and for a text
    in place of a number.
    """
    class_name, values = Parameters.parse(text)
    bot_class = _bot_class(class_name, new_bot, module)
    for name, value in values.items():
        default = getattr(bot_class, name, None)
        # Attributes of `Bot` itself and methods cannot be set.
        if not hasattr(bot_class, name) or hasattr(Bot, name) or callable(default):
            raise TypeError(f"class {bot_class.__name__} has no attribute {name} to be set")
        if isinstance(default, bool | int | float) and isinstance(value, str):
            raise TypeError(f"{name} is {default!r} in class {bot_class.__name__}, not {value!r}")
        setattr(bot_class, name, value)
    return bot_class


def _bot_class(class_name: str | None, new_bot: NewBot, module: ModuleType) -> type[Bot]:
    """Return the bot's class to which parameters belong. Raise TypeError if there is none.

    class_name  the class that the parameters name; None for `new_bot`
    new_bot     the argument of the program's call of `run`
    module      the program, in which a named class is looked up
    """
    bot_class: object = new_bot
    if class_name is not None:
        # `new_bot` may be the class itself, imported by the program under another name.
        bot_class = getattr(module, class_name, None) or new_bot
        if getattr(bot_class, "__name__", None) != class_name:
            raise TypeError(f"it has no class {class_name}")
    if not isinstance(bot_class, type) or not issubclass(bot_class, Bot):
        raise TypeError("parameters are attributes of a class, and it gives run() something else")
    return bot_class


def number_or_text(text: str) -> Value:
    """Return the value that a parameter's text stands for: a bool, a number, or the text itself."""
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)
