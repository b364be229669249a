"""Imports a bot's class from its file, for games in this process. Only for trusted bots.

Invariants: a file is imported anew for every bot, as in a process of its own; its call of `run`
does not play here; modules in its folder are its own, even if another bot has modules of the same
name. The copy of the digested files is imported, but compiled under the paths of the author's
files, so that breakpoints and the lines of tracebacks are right.
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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePath
from types import CodeType, FrameType, ModuleType

import deepsea_sdk
from deepsea_referee.bots.output import bot_error
from deepsea_referee.bots.resolve import BotSpec
from deepsea_referee.errors import UserError
from deepsea_referee.system import SYSTEM
from deepsea_rules.printable import printable
from deepsea_sdk.bot import Bot, NewBot, check_new_bot
from deepsea_sdk.errors import exception_text, text_or_excuse
from deepsea_sdk.launch import Parameters, apply_parameters

MODULE_PREFIX = "_deepsea_bot_"
"""The prefix of the names of modules that are imported from bots' files."""
_POOL = "concurrent.futures.thread"
"""The module of thread pools. At exit, Python waits for their threads unless they are idle."""
_NAMED = 3
"""The largest number of threads that are reported: a bot may leave some in each game."""
_numbers = itertools.count(1)
_loaded: dict[str, BotSpec] = {}
"""The bots of this process by the names of their modules."""


def load(bot: BotSpec) -> NewBot:
    """Import a bot's file, and return the class or function that makes its player.

    It is the argument of the file's call of `run`, or else the only Bot class that the file
    defines. If the bot has no copy of its files yet, it gets one until this process ends. Output of
    the import goes to stderr.

    Raises UserError for a bot that is no Python file, cannot be imported, never calls `run`, or
    defines several Bot classes of which any could play.
    """
    if bot.bundle is not None:
        bot = bot.copied(SYSTEM.private_folder())
    file = python_file(bot)
    file_name = Path(bot.own_paths(str(file))).name
    run_arguments: list[NewBot] = []
    module = _import(bot, file, run_arguments)
    if bot.parameters and (run_arguments or Parameters.parse(bot.parameters).class_name):
        return _with_parameters(bot, run_arguments[0] if run_arguments else Bot, module)
    if run_arguments:
        return run_arguments[0]
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Bot)
        and value.__module__ == module.__name__
    ]
    # A base class of another class is not the player.
    players = {cls for cls in classes if not any(cls in other.__mro__[1:] for other in classes)}
    if len(players) != 1:
        names = ", ".join(sorted(cls.__name__ for cls in players)) or "no class"
        raise UserError(
            f"bot {bot.name!r}: {file_name} defines {names} of its own that is a deepsea_sdk.Bot; "
            "in this process it takes exactly one (put the others into modules beside it)"
        )
    player = players.pop()
    if not _calls_run(file):
        name = player.__name__
        raise UserError(
            f"bot {bot.name!r}: {file_name} defines class {name}(Bot) but never calls run({name}), "
            "so as a program it would not play"
        )
    return _with_parameters(bot, player, module) if bot.parameters else player


def _with_parameters(bot: BotSpec, new_bot: NewBot, module: ModuleType) -> NewBot:
    """Apply the bot's parameters to its class. Raises UserError if they do not fit."""
    try:
        return apply_parameters(bot.parameters, new_bot, module)
    except TypeError as error:
        raise UserError(f"bot {bot.name!r}: {error}") from None


def _calls_run(file: Path) -> bool:
    """Return True if a Python file has a call of the SDK's `run`, under any name that it imports.

    The text of the file is searched, because an import does not make a call that the file makes
    only as the main program.
    """
    names_of_run = {"run"}
    called_names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module == "deepsea_sdk":
            for alias in node.names:
                if alias.name == "run" and alias.asname:
                    names_of_run.add(alias.asname)
        elif isinstance(node, ast.Call):
            # The last part of a name such as `deepsea_sdk.run`
            called_names.add(ast.unparse(node.func).split(".")[-1])
    return not names_of_run.isdisjoint(called_names)


def is_python(bot: BotSpec) -> bool:
    """Return True if the bot's program is a single Python file with the SDK, as `load` needs."""
    program, *arguments = bot.command or ("",)
    has_sdk = bot.protocol == "grpc" and program == sys.executable
    return has_sdk and len(arguments) == 1 and arguments[0].endswith(".py")


def python_file(bot: BotSpec) -> Path:
    """Return the Python file that is the bot's program. Raises UserError if it is no such file."""
    if is_python(bot):
        working_directory = Path() if bot.folder is None else bot.folder
        file = working_directory / bot.command[1]
        if file.is_file():
            return file.resolve()
    raise UserError(
        f"bot {bot.name!r} is not one Python file that this process can import, as `debug` and "
        "--in-process need: let it play as a process of its own"
    )


def _import(bot: BotSpec, file: Path, run_arguments: list[NewBot]) -> ModuleType:
    """Import a bot's file as a new module, and return the module.

    run_arguments  receives the arguments of the file's calls of `run`, which play nothing here

    Raises UserError, with the author's part of the traceback, if the import fails.
    """
    # A unique name: the file's own name, such as "bot", may be that of another bot's module.
    name = f"{MODULE_PREFIX}{next(_numbers)}_{file.stem}"
    _loaded[name] = bot
    loader = _CopyLoader(name, str(file), bot)
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with _surroundings(bot, file.parent, run_arguments), redirect_stdout(sys.stderr):
        # Dataclasses and pickles look up the module of a class by name.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise _import_error(bot, file, error) from error
    return module


def _import_error(bot: BotSpec, file: Path, error: BaseException) -> UserError:
    """Return the error for a bot's file that raised an exception while it was imported."""
    # Formatting calls the author's own exception class, which may raise.
    message = bot.own_paths(text_or_excuse(partial(str, error)))
    place = _line_text(error, bot.own_paths(str(file)))
    return UserError(
        f"bot {bot.name!r} cannot be imported: {type(error).__name__}: {message}{place}",
        bot_error(text_or_excuse(partial(exception_text, error)), bot),
    )


class _CopyLoader(SourceFileLoader):
    """Loads a file of a bot's copy, compiled under the path of the author's original."""

    def __init__(self, name: str, path: str, bot: BotSpec) -> None:
        super().__init__(name, path)
        self._bot = bot

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the module; its file names are those of the author."""
        path = self.get_filename(fullname)
        return _compiled(self.get_data(path), self._bot.own_paths(path))


@lru_cache(maxsize=100)
def _compiled(source: bytes, path: str) -> CodeType:
    """Compile a file once for all games; `path` is the file name in tracebacks."""
    return compile(source, path, "exec", dont_inherit=True)


class _CopyFinder:
    """A module finder like Python's own, except that it loads a bot's copies with _CopyLoader."""

    def __init__(self, bot: BotSpec, folder: Path) -> None:
        self._bot = bot
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python does, and return its spec; None if there is no such module.

        A source file in the bot's folder gets a loader that shows the author's path in tracebacks.
        """
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            file = spec.loader.path
            if Path(file).is_relative_to(self._folder):
                spec.loader = _CopyLoader(fullname, file, self._bot)
        return spec


@contextmanager
def _surroundings(bot: BotSpec, folder: Path, run_arguments: list[NewBot]) -> Iterator[None]:
    """Change this process for the import of a bot's file, and undo that after the `with` block.

    Within the block the SDK's `run` only adds its argument to `run_arguments`, and modules are
    found in `folder` first. At the end the modules from that folder are removed from `sys.modules`,
    since another bot may have modules of the same names.
    """

    def run(bot: NewBot) -> None:
        check_new_bot(bot)
        run_arguments.append(bot)

    real_run, former_modules = deepsea_sdk.run, set(sys.modules)
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
        for name in set(sys.modules) - former_modules:
            # The module itself, or the package to which it belongs
            top_module = sys.modules.get(name.partition(".")[0])
            parent = None if top_module is None else _parent_folder(top_module)
            if parent is not None and parent.is_relative_to(folder):
                del sys.modules[name]


def _parent_folder(module: ModuleType) -> Path | None:
    """Return the folder in which a module was found; None if it has no file, or is a bot's own."""
    origin = next(iter(getattr(module, "__path__", ())), None) or module.__file__
    own = module.__name__.startswith(MODULE_PREFIX)
    return Path(origin).resolve().parent if origin and not own else None


def _line_text(error: BaseException, file: str) -> str:
    """Return where in this file an exception was raised, such as " (bot.py, line 7)".

    Return "" if the traceback has no line of the file. Of several lines it is the innermost one.
    """
    # Without `lookup_lines`, no source file is read.
    frames = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" ({Path(file).name}, line {lines[-1]})" if lines else ""


# Threads that bots do not end


def end_process(status: int) -> None:
    """End this process at once if a thread of a bot would keep it from exiting; otherwise return.

    The first of these threads are named on stderr. What Python does at an exit is done as well: the
    functions registered with `atexit` are called, and the output is flushed. Only programs may call
    this, since a library must not end the process of its caller.

    status  the exit status
    """
    if not _loaded:  # no bot has run in this process
        return
    main_thread = threading.main_thread()
    threads = [thread for thread in threading.enumerate() if thread is not main_thread]
    # The line is "" for a thread for which Python would not wait.
    lines = [line for line in map(_running_thread_line, threads) if line]
    if not lines:
        return
    with suppress(OSError, ValueError):  # stderr is closed, or its reader has ended
        sys.stderr.writelines(lines[:_NAMED])
        if len(lines) > _NAMED:
            sys.stderr.write(f"deepsea-referee: and {len(lines) - _NAMED} more threads of bots\n")
    atexit._run_exitfuncs()  # noqa: SLF001  (the interpreter runs them after these threads)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _running_thread_line(thread: threading.Thread) -> str:
    """Return a line for the bot's author about a thread for which Python would wait at exit.

    Return "" if Python would not wait for it: a daemon thread, an idle thread of a pool, or a
    thread that has just ended.
    """
    innermost = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  (it is documented)
    if innermost is None:
        return ""
    frames = [frame for frame, _ in traceback.walk_stack(innermost)]
    # Python waits for the threads of a pool, although they are daemons.
    is_pooled = any(frame.f_globals.get("__name__") == _POOL for frame in frames)
    if thread.daemon and not is_pooled:
        return ""
    owner, place = _owner_and_place(frames)
    if owner is None and is_pooled:  # no code of a bot: the thread is idle
        return ""
    subject = "a bot" if owner is None else f"bot {owner.name!r}"
    return printable(
        f"deepsea-referee: a thread of {subject} still runs and is ended with this process: "
        f"{thread.name}{place}; make it a daemon, or end it in on_game_end\n",
        keep="\n",
    )


def _owner_and_place(frames: Iterable[FrameType]) -> tuple[BotSpec | None, str]:
    """Return the bot whose code a thread runs, and the line as text, such as ", at bot.py, line 7".

    Return None and "" if no frame is of a bot's code.

    frames  the frames of the thread, innermost first
    """
    for frame in frames:
        bot = _owner(frame.f_globals.get("__name__"), frame.f_code.co_filename)
        if bot is not None:
            name = Path(frame.f_code.co_filename).name
            return bot, f", at {name}, line {frame.f_lineno}, in {frame.f_code.co_name}"
    return None, ""


def _owner(module: object, file: str) -> BotSpec | None:
    """Return the bot to which a module in this process belongs; None if it is no bot's module.

    module  the value of `__name__` in the module, which may be anything
    file    the path under which the module was compiled
    """
    if isinstance(module, str) and module in _loaded:
        return _loaded[module]
    # Another module in the folder of a bot. A bot of a single file has no other modules.
    for bot in _loaded.values():
        if bot.home is not None and not bot.single and PurePath(file).is_relative_to(bot.home):
            return bot
    return None
