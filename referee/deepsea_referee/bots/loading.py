"""Imports a bot's class from its file, for games in this process. Only for trusted bots.

Invariants: a file is imported anew for every bot, as in a process of its own; its call of `run`
does not play here; modules beside it are its own, also if another bot has modules of the same name.
What is imported is the copy of what was digested, compiled under the paths that its author knows:
breakpoints in the author's files and the lines of tracebacks are right.
"""

from __future__ import annotations

import ast
import atexit
import importlib.util
import itertools
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePath
from types import CodeType, ModuleType

import deepsea_sdk
from deepsea_referee.bots.output import bot_error
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.system import SYSTEM
from deepsea_rules.printable import printable
from deepsea_sdk.bot import Bot, NewBot, check_new_bot
from deepsea_sdk.errors import explained, formatted
from deepsea_sdk.launch import Parameters, apply_parameters

MODULE_PREFIX = "_deepsea_bot_"
"""The beginning of the names of modules that bots' files become."""
_POOL = "concurrent.futures.thread"
"""The module whose threads end at exit if they are idle, and are waited for else."""
_NAMED = 3
"""The most threads that are named: there may be some for each game."""
_numbers = itertools.count(1)
_loaded: dict[str, BotSpec] = {}
"""The bots of this process by the names of their modules."""


def load(bot: BotSpec) -> NewBot:
    """Import the bot's file: what it gives to `run`, else the one Bot class that it defines.

    A bot that has no copy yet gets one for as long as this process runs. Raises UserError for a bot
    that is no Python file, cannot be imported, never calls `run`, or leaves it open which of its
    classes plays. What it prints goes to stderr.
    """
    if bot.bundle is not None:
        bot = bot.copied(SYSTEM.private_folder())
    file = python_file(bot)
    called = Path(bot.own_paths(str(file))).name
    given: list[NewBot] = []
    module = _import(bot, file, given)
    if bot.parameters and (given or Parameters.parse(bot.parameters).class_name):
        return _with_parameters(bot, given[0] if given else Bot, module)
    if given:
        return given[0]
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Bot)
        and value.__module__ == module.__name__
    ]
    # What others are built on is not what plays.
    found = {c for c in classes if not any(c in other.__mro__[1:] for other in classes)}
    if len(found) != 1:
        names = ", ".join(sorted(c.__name__ for c in found)) or "no class"
        raise UserError(
            f"bot {bot.name!r}: {called} defines {names} of its own that is a deepsea_sdk.Bot; in "
            "this process it takes exactly one (put the others into modules beside it)"
        )
    player = found.pop()
    if not _calls_run(file):
        name = player.__name__
        raise UserError(
            f"bot {bot.name!r}: {called} defines class {name}(Bot) but never calls run({name}), "
            "so as a program it would not play"
        )
    return _with_parameters(bot, player, module) if bot.parameters else player


def _with_parameters(bot: BotSpec, new_bot: NewBot, module: ModuleType) -> NewBot:
    try:
        return apply_parameters(bot.parameters, new_bot, module)
    except TypeError as error:
        raise UserError(f"bot {bot.name!r}: {error}") from None


def _calls_run(file: Path) -> bool:
    """Whether a call of `run` is written anywhere in the file, for when it is the main program."""
    nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    names = {"run"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "deepsea_sdk":
            names |= {alias.asname for alias in node.names if alias.name == "run" and alias.asname}
    called = {ast.unparse(node.func).split(".")[-1] for node in nodes if isinstance(node, ast.Call)}
    return not names.isdisjoint(called)


def is_python(bot: BotSpec) -> bool:
    """Whether its program is one Python file with the SDK, which `load` can import."""
    program, *rest = bot.command or ("",)
    plays = bot.protocol == "grpc" and program == sys.executable
    return plays and len(rest) == 1 and rest[0].endswith(".py")


def python_file(bot: BotSpec) -> Path:
    """The Python file that is the bot's program; UserError if it is anything else."""
    if is_python(bot):
        file = (bot.folder or Path()) / bot.command[1]
        if file.is_file():
            return file.resolve()
    raise UserError(
        f"bot {bot.name!r} is not one Python file that this process can import, as `debug` and "
        "--in-process need: let it play as a process of its own"
    )


def _import(bot: BotSpec, file: Path, given: list[NewBot]) -> ModuleType:
    # Its folder comes first on the path, as when it is started; "bot" alone may be taken.
    name = f"{MODULE_PREFIX}{next(_numbers)}_{file.stem}"
    _loaded[name] = bot
    loader = _CopyLoader(name, str(file), bot)
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with _surroundings(bot, file.parent, given), redirect_stdout(sys.stderr):
        # Dataclasses and pickles look a class's module up by its name.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise UserError(
                f"bot {bot.name!r} cannot be imported: {type(error).__name__}: "
                f"{bot.own_paths(explained(partial(str, error)))}"
                f"{_where(error, bot.own_paths(str(file)))}",
                bot_error(explained(partial(formatted, error)), bot),
            ) from error
    return module


class _CopyLoader(SourceFileLoader):
    """Loads a file of a bot's copy."""

    def __init__(self, name: str, path: str, bot: BotSpec) -> None:
        super().__init__(name, path)
        self._bot = bot

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return _compiled(self.get_data(path), self._bot.own_paths(path))


@lru_cache(maxsize=100)
def _compiled(source: bytes, path: str) -> CodeType:
    return compile(source, path, "exec", dont_inherit=True)


class _CopyFinder:
    """Finds what Python would, and loads modules of a bot's copy as such."""

    def __init__(self, bot: BotSpec, folder: Path) -> None:
        self._bot = bot
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            file = spec.loader.path
            if Path(file).is_relative_to(self._folder):
                spec.loader = _CopyLoader(fullname, file, self._bot)
        return spec


@contextmanager
def _surroundings(bot: BotSpec, folder: Path, given: list[NewBot]) -> Iterator[None]:
    """Make what a bot's file finds while it is imported; `folder` has the modules beside it."""

    def run(bot: NewBot) -> None:
        check_new_bot(bot)
        given.append(bot)

    real_run, modules = deepsea_sdk.run, set(sys.modules)
    finder = _CopyFinder(bot, folder)
    deepsea_sdk.run = run
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        deepsea_sdk.run = real_run
        sys.path.remove(str(folder))
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - modules:
            top = sys.modules.get(name.partition(".")[0])
            if top is not None and (home := _home(top)) and home.is_relative_to(folder):
                del sys.modules[name]


def _home(module: ModuleType) -> Path | None:
    """The folder that a module was found in."""
    origin = next(iter(getattr(module, "__path__", ())), None) or module.__file__
    own = module.__name__.startswith(MODULE_PREFIX)
    return Path(origin).resolve().parent if origin and not own else None


def _where(error: BaseException, file: str) -> str:
    lines = [
        frame.lineno
        for frame in traceback.StackSummary.extract(
            traceback.walk_tb(error.__traceback__), lookup_lines=False
        )
        if frame.filename == file
    ]
    return f" ({Path(file).name}, line {lines[-1]})" if lines else ""


# Threads that bots leave


def end_process(status: int) -> None:
    """End this process with a status if a bot's thread would keep it from ending; else return.

    Each of these threads is named on stderr; what was registered with `atexit` runs. For programs
    alone: a library leaves its caller's process to its caller.
    """
    threads = [one for one in threading.enumerate() if one is not threading.main_thread()]
    lines = [*filter(None, map(_left_thread, threads))] if _loaded else []
    if not lines:
        return
    with suppress(OSError, ValueError):  # nobody sees stderr, or it is closed
        sys.stderr.writelines(lines[:_NAMED])
        if len(lines) > _NAMED:
            sys.stderr.write(f"deepsea-referee: and {len(lines) - _NAMED} more threads of bots\n")
    atexit._run_exitfuncs()  # noqa: SLF001  (the interpreter runs them after these threads)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _left_thread(thread: threading.Thread) -> str:
    """A line on a thread that Python would wait for; "" if it would not, or not for long."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  (it is documented)
    frames = [frame for frame, _ in traceback.walk_stack(frame)] if frame else []
    is_pooled = any(frame.f_globals.get("__name__") == _POOL for frame in frames)
    if not frames or (thread.daemon and not is_pooled):
        return ""
    for frame in frames:
        if (bot := _owner(frame.f_globals.get("__name__"), frame.f_code.co_filename)) is not None:
            name = Path(frame.f_code.co_filename).name
            place = f", at {name}, line {frame.f_lineno}, in {frame.f_code.co_name}"
            whose = f"bot {bot.name!r}"
            break
    else:
        if is_pooled:
            return ""
        whose, place = "a bot", ""
    return printable(
        f"deepsea-referee: a thread of {whose} still runs and is ended with this process: "
        f"{thread.name}{place}; make it a daemon, or end it in on_game_end\n",
        keep="\n",
    )


def _owner(module: object, file: str) -> BotSpec | None:
    """The bot that a module of this process is of; None if it is of none."""
    if isinstance(module, str) and module in _loaded:
        return _loaded[module]
    for bot in _loaded.values():
        if bot.home is not None and not bot.single and PurePath(file).is_relative_to(bot.home):
            return bot
    return None
