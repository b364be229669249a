"""Options of commands: how a command gets them as one object, and those that commands share.

A command's options are a frozen dataclass, which `with_options` fills. The options that several
commands share are interpreted here alone; an argument that cannot be read raises a one-line error
that names it.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from deepsea_cli.errors import EndedEarly
from deepsea_referee.errors import UserError
from deepsea_referee.sandbox.interface import BOT_USERS, IsolationLevel
from deepsea_rules.errors import InvalidRecord, InvalidRules
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, PRESETS, SEAT_LETTERS, RuleSet, preset
from deepsea_rules.time_control import DEFAULT_CLOCK, TimeControl

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from deepsea_referee.bots.output import Hints
    from deepsea_referee.bots.resolve import BotSpec

_F = TypeVar("_F", bound=Callable[..., Any])
_Options = TypeVar("_Options")

RULES_HELP = f"A preset's name, or a TOML file with a rule set of your own.  [default: {DEFAULT}]"

LARGEST_FILE = 4 * 1024 * 1024
"""Number of bytes of a record or a rule set; a larger file is given by mistake."""
LARGEST_NUMBER = 10**12
"""Largest number that an option takes."""

# ----- Options as one object


def with_options(
    options_class: type[_Options],
) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Return a decorator for a command that takes all its options as one object of a dataclass.

    Each field of the dataclass is an option or an argument of the same name, made by one of the
    functions below. Help lists the options in the order of the fields.

    options_class  the dataclass
    """

    def add_options(command: Callable[[_Options], None]) -> Callable[..., None]:
        """Return a function for click, which has the options of the dataclass `options_class`.

        Click passes it the value of each option; it calls `command` with one object of them all.
        """

        @wraps(command)
        def call_command(**values: Any) -> None:
            command(_options_from(options_class, values))

        function_with_options: Callable[..., None] = call_command
        decorators = list(_click_decorators(options_class))  # in the order of the fields
        # Click lists the option that was added last first, so they are added in reverse order.
        for decorate in reversed(decorators):
            function_with_options = decorate(function_with_options)
        return function_with_options

    return add_options


def option(text: str, make: Callable[..., Any] = click.option, **settings: Any) -> Any:
    """Return the field of an option; `text` is its help, and `make` makes click's decorator."""
    return field(metadata={"make": make, "settings": {"help": text, **settings}})


def flag(text: str) -> Any:
    """Return the field of an option without a value, which is True if it is given."""
    return option(text, is_flag=True)


def whole_number(text: str, **settings: Any) -> Any:
    """Return the field of an option that is a whole number, with the settings of number_option."""
    return option(text, number_option, **settings)


def argument(**settings: Any) -> Any:
    """Return the field of an argument, with the settings of click.argument."""
    return field(metadata={"make": click.argument, "settings": settings})


def shared(*decorators: Callable[[Any], Any]) -> Any:
    """Return the field of an option that other commands have too, by its click decorator.

    Further decorators add options without a value, which only act.
    """
    return field(metadata={"decorators": decorators})


def group(kind: type[Any]) -> Any:
    """Return the field of a group of options, which is an object of another such dataclass."""
    return field(metadata={"group": kind})


def _click_decorators(kind: type[Any]) -> Iterator[Callable[[Any], Any]]:
    """Yield the click decorators for all fields of a dataclass of options.

    The functions `group`, `shared`, `option` and `argument` made the fields: their metadata says
    which decorators a field needs.
    """
    for option_field in fields(kind):
        metadata = option_field.metadata
        if "group" in metadata:  # the field is an object of another such dataclass
            yield from _click_decorators(metadata["group"])
        elif "decorators" in metadata:
            yield from metadata["decorators"]
        elif metadata["make"] is click.argument:
            yield click.argument(option_field.name, **metadata["settings"])
        else:
            option_name = f"--{option_field.name.replace('_', '-')}"
            yield metadata["make"](option_name, **metadata["settings"])


def _options_from(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Return an object of a dataclass of options.

    values  values of all options and arguments by name, as click passes them
    """
    arguments = {}
    for option_field in fields(kind):
        name, metadata = option_field.name, option_field.metadata
        if "group" in metadata:
            arguments[name] = _options_from(metadata["group"], values)
        else:
            arguments[name] = values[name]
    return kind(**arguments)


# ----- Types and makers of options


class WholeNumber(click.IntRange):
    """A whole number in a range; without an upper bound at most LARGEST_NUMBER."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number > LARGEST_NUMBER:
            self.fail(f"{number} is more than {LARGEST_NUMBER}", param, ctx)
        return number


class DecimalNumber(click.FloatRange):
    """A number in a range and of at most LARGEST_NUMBER.

    NaN is refused here, because click takes it for a number of any range.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number) or abs(number) > LARGEST_NUMBER:
            self.fail(f"{value!r} is no number up to {LARGEST_NUMBER}", param, ctx)
        return number


def _warn_of_workers(
    _ctx: click.Context, _param: click.Parameter, workers: int | None
) -> int | None:
    """Warn on stderr of more workers than this machine has CPUs; a callback of click."""
    if workers is None or workers == 1:
        return workers
    from deepsea_referee.system import SYSTEM  # its import takes time, and most use one worker

    cpus = SYSTEM.cpus()
    if workers > cpus:
        click.echo(
            f"warning: {workers} workers on a machine with {cpus} CPUs: games may become void, "
            "because bots wait for a CPU",
            err=True,
        )
    return workers


def workers_option(most: int, help_text: str, default: int | None = None) -> Callable[[_F], _F]:
    """Return the option `--workers`, which warns of more workers than CPUs.

    Help shows 1 as its default in any case; with the default None a command can tell that the
    option was not given.
    """
    return click.option(
        "--workers",
        metavar="N",
        type=WholeNumber(1, most),
        default=default,
        show_default="1",
        callback=_warn_of_workers,
        help=help_text,
    )


def seats_option(default: str) -> Callable[[_F], _F]:
    """Return the option `--seats` of `compare`, `rank` and `tune`; `default` is in words."""
    help_text = f"Seats at the table.  [default: {default}]"
    return number_option("--seats", help=help_text)


def seed_option(repeated: str) -> Callable[[_F], _F]:
    """Return the option `--seed`; its help says that the same text gives the same `repeated`."""
    help_text = f"Seed text: the same text gives the same {repeated}."
    return click.option("--seed", metavar="TEXT", help=help_text)


class NewFile(click.Path):
    """The path of a file that a command will write, and which must not exist yet."""

    def __init__(self, *suffixes: str) -> None:
        """Accept file names with one of these suffixes, such as ".svg", or any without suffixes."""
        super().__init__(path_type=Path)
        self._suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the value as a path; raises UserError if no new file can be written there."""
        path = Path(str(super().convert(value, param, ctx)))
        option_name = "" if param is None else param.opts[-1]
        if self._suffixes and path.suffix.lower() not in self._suffixes:
            suffixes = " or ".join(self._suffixes)
            raise UserError(f"{option_name} {str(path)!r}: the name has to end in {suffixes}")
        refuse_unwritable(option_name, path)
        return path


def new_file_option(
    *names: str, suffixes: tuple[str, ...] = (), metavar: str = "FILE", **settings: Any
) -> Callable[[_F], _F]:
    """Return an option for the path of a file that the command will write."""
    return click.option(*names, metavar=metavar, type=NewFile(*suffixes), **settings)


def path_option(*names: str, metavar: str = "FILE", **settings: Any) -> Callable[[_F], _F]:
    """Return an option for the path of a file or a folder."""
    return click.option(*names, metavar=metavar, type=click.Path(path_type=Path), **settings)


def number_option(
    *names: str, least: int = 1, most: int | None = None, metavar: str = "N", **settings: Any
) -> Callable[[_F], _F]:
    """Return an option for a whole number; help shows the default, if there is one."""
    settings.setdefault("show_default", "default" in settings)
    return click.option(*names, metavar=metavar, type=WholeNumber(least, most), **settings)


def decimal_option(
    *names: str,
    least: float = 0,
    most: float | None = None,
    metavar: str = "X",
    over: bool = False,
    **settings: Any,
) -> Callable[[_F], _F]:
    """Return an option for a number from `least` to `most`; help shows its default.

    names     names of the option, as for click.option
    over      True if the number must be more than `least`
    settings  further settings of click.option
    """
    number_type = DecimalNumber(least, most, min_open=over)
    return click.option(*names, metavar=metavar, type=number_type, show_default=True, **settings)


class Seat(click.ParamType[str]):
    """The letter of a seat, in upper or lower case, or another word such as "random"."""

    name = "letter"

    def __init__(self, *others: str) -> None:
        """Accept the letters of seats and the words `others`."""
        self._known = {known.lower(): known for known in (*SEAT_LETTERS, *others)}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        seat: str | None = self._known.get(str(value).lower())
        if seat is None:
            known = ", ".join(self._known.values())
            self.fail(f"{value!r} is no seat: name one of {known}", param, ctx)
        return seat


SEAT = Seat()


def _completions(names: Iterable[str], word: str) -> list[CompletionItem]:
    """Return a shell's completions of a word: the names that begin with it, and files."""
    from click.shell_completion import CompletionItem

    items = [CompletionItem(name) for name in names if name.startswith(word)]
    return [*items, CompletionItem(word, type="file")]


def command_hints() -> Hints:
    """Return the hints on bots that the running command has shown, so that none is shown twice."""
    from deepsea_referee.bots.output import Hints

    # click keeps objects of a command in `meta`, by names that no other module uses.
    hints = click.get_current_context().meta.setdefault(Hints.__module__, Hints())
    assert isinstance(hints, Hints)
    return hints


def show_hints(bot: BotSpec) -> BotSpec:
    """Show hints on the program of a bot, such as a misspelt method, and return the same bot.

    A command shows each hint once, and none with --quiet.
    """
    from deepsea_referee.bots.output import hints_of

    if not click.get_current_context().params.get("quiet"):
        command_hints().show(bot, hints_of(bot))
    return bot


def complete_bot(_ctx: click.Context, _param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete a bot to the name of a sample bot or to a file.

    In a list with commas the last bot is completed.
    """
    from deepsea_referee.bots.resolve import sample_bots

    other_bots, comma, _ = word.rpartition(",")
    return _completions([f"{other_bots}{comma}{name}" for name in sample_bots()], word)


def complete_rules(_ctx: click.Context, _param: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete a rule set to the name of a preset or to a file."""
    return _completions(PRESETS, word)


rules_option = click.option(
    "--rules",
    metavar="NAME|FILE.toml",
    default=DEFAULT,
    shell_complete=complete_rules,
    help=RULES_HELP,
)


def _checked_scheduler(
    _ctx: click.Context, option: click.Parameter, address: str | None
) -> str | None:
    """Return the address of a Dask scheduler, refusing one without a port; a callback of click.

    Dask would try to connect to an address without a port for half a minute.
    """
    if address is None:
        return None
    try:
        port = urlsplit(address if "://" in address else f"tcp://{address}").port
    except ValueError:
        port = None
    if port is None:
        raise click.BadParameter(
            f"{address!r} is no address with a port, such as tcp://host:8786", param=option
        )
    return address


cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS",
    callback=_checked_scheduler,
    help="Play on the workers of the Dask scheduler at ADDRESS, such as tcp://host:8786.",
)


def refuse_workers_of_cluster(cluster: str | None, workers: int | None) -> None:
    """Raise UserError if --cluster and --workers are both given."""
    if cluster is not None and workers is not None:
        raise UserError("a cluster plays as many games as its workers have threads: omit --workers")


clock_option = click.option(
    "--clock",
    metavar="TIME+BANK",
    default=DEFAULT_CLOCK.format(),
    show_default=True,
    help="Time for each decision, and a bank for each game for longer ones.",
)

isolation_option = click.option(
    "--isolation",
    type=click.Choice(["auto", "sandbox", "process"]),
    default="auto",
    show_default=True,
    help="Run bots in a sandbox, as plain processes, or (auto) in the sandbox where it works.",
)


def _use_bot_uids(_ctx: click.Context, option: click.Parameter, text: str | None) -> None:
    """Set the user ids for bots in sandboxes of this process; a callback of click."""
    if text is not None:
        from deepsea_referee.system import SYSTEM

        try:
            SYSTEM.choose_bot_users(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param=option) from None


bot_uids_option = click.option(
    "--bot-uids",
    metavar="FIRST-LAST",
    expose_value=False,
    callback=_use_bot_uids,
    help="As root only: a range of user ids; each bot in a sandbox gets its own.  "
    f"[default: {BOT_USERS[0]}-{BOT_USERS[1]}]",
)

freeze_option = click.option(
    "--freeze/--no-freeze",
    default=True,
    show_default=True,
    help="Pause bots in a sandbox while it is not their turn.",
)

in_process_option = click.option(
    "--in-process", is_flag=True, help="Run Python bots that you trust in this process: faster."
)


json_option = click.option("--json", is_flag=True, help="Print one JSON document.")

records_option = path_option(
    "--out", metavar="DIR", help="Write each game's record and results.json to this folder."
)


@dataclass(frozen=True)
class GroupPlay:
    """Options of `compare`, `rank`, `tune` and `improve` that say how games are played."""

    rules: str = shared(rules_option)
    seed: str | None = shared(seed_option("deals and dice"))
    clock: str = shared(clock_option)
    in_process: bool = shared(in_process_option)
    isolation: IsolationLevel = shared(isolation_option, bot_uids_option)
    freeze: bool = shared(freeze_option)
    workers: int = shared(
        workers_option(64, "Worker processes, each with its own bots.", default=1)
    )

    def run(self, play: Callable[..., bool], on_progress: Callable[..., object]) -> EndedEarly:
        """Play games with the workers that these options ask for.

        Return False if all games were played, True after Ctrl-C, and the error if a bot hangs.

        play         method of a comparison, a ranking or a search that plays its games; it returns
                     True if Ctrl-C ended it
        on_progress  function that it calls after each part of the games
        """
        from deepsea_referee.summary import BotHangs

        try:
            return play(on_progress, workers=self.workers, in_process=self.in_process)
        except BotHangs as error:
            return error

    def settings(self, text: str) -> dict[str, Any]:
        """Return the settings of games that these options choose, as keyword arguments.

        text  the text of the seed; the caller has made one if the option was not given
        """
        from deepsea_referee.bots.output import OutputPlan
        from deepsea_referee.bots.process import Hosting
        from deepsea_referee.system import SYSTEM

        isolation = SYSTEM.choose("process" if self.in_process else self.isolation)
        hosting = Hosting(isolation, freeze=self.freeze)
        return {
            "hosting": hosting.for_one_of(self.workers),
            "rules": load_rules(self.rules),
            "time_control": TimeControl.parse(self.clock),
            "seed": seed_from_text(text),
            "output": OutputPlan(hints=command_hints()),
        }


def margin_option(counts_as: str) -> Callable[[_F], _F]:
    """Return the option `--margin`; `counts_as` is the word for a smaller difference."""
    from deepsea_referee.workbench.confidence import MARGIN

    help_text = f"The largest difference in placement score that counts as {counts_as}."
    return decimal_option("--margin", over=True, most=1, default=MARGIN, help=help_text)


def alpha_option(help_text: str) -> Callable[[_F], _F]:
    """Return the option `--alpha` of `compare` and `rank`."""
    from deepsea_referee.workbench.confidence import ALPHA

    return decimal_option(
        "--alpha", over=True, most=0.5, metavar="P", default=ALPHA, help=help_text
    )


def precision_option(default: float) -> Callable[[_F], _F]:
    """Return the option `--precision` of `analyse` and `improve`."""
    help_text = "Compare options until the difference is known to ±X of placement score."
    return decimal_option("--precision", least=0.005, most=0.2, default=default, help=help_text)


browser_option = click.option(
    "--browser", is_flag=True, help="Open the games in your browser when they are over."
)


# ----- Seeds, rule sets and records


def seed_text(given: str | None, folder: Path | None = None, kind: str = "") -> str:
    """Return the text of the seed for games: that of --seed, of an earlier run, or a new one.

    given   value of --seed, or None
    folder  folder of --out, in which an earlier run may have begun the same games
    kind    kind of the games in the folder, such as "comparison"
    """
    if given is not None:
        return given
    if folder is not None:
        from deepsea_referee.workbench.blocks import stored_seed

        text_of_earlier_run = stored_seed(folder, kind)
        if text_of_earlier_run is not None:
            return text_of_earlier_run
    from deepsea_sdk.entropy import fresh_seed

    # A text that can be given to --seed, so that the games can be repeated.
    return fresh_seed().hex()[:16]


def require_linux(command_name: str) -> None:
    """Raise UserError if this system is not Linux."""
    from deepsea_referee.system import SYSTEM

    if not SYSTEM.confines:
        raise UserError(
            f"{command_name} needs Linux: run the ladder there, and match and compare here"
        )


def prepare_machine(command_name: str) -> None:
    """Prepare this machine to confine bots; raises UserError if its system is not Linux.

    A command calls this before it starts a thread or a process.
    """
    from deepsea_referee.system import SYSTEM

    require_linux(command_name)
    SYSTEM.make_room()


def load_rules(text: str) -> RuleSet:
    """Load a rule set by a preset's name or the path of a TOML file."""
    path = Path(text)
    is_name = path.name == text and path.suffix.lower() != ".toml"
    if is_name:
        return preset(text)
    try:
        return RuleSet.from_toml(read_text(path))
    except InvalidRules as error:
        raise InvalidRules(f"{text}: {error}") from None


def record_paths_in(folder: Path) -> list[Path]:
    """Return the paths of the records in a match's folder, in the order of its games.

    Raises UserError if there are none.
    """
    records = sorted(folder.glob("game-*.json"))
    if not records:
        raise UserError(f"{folder}: there are no records (game-*.json) in this folder")
    return records


def load_record(path: Path) -> GameRecord:
    """Load the record in a file, or from stdin for `-`; raises InvalidRecord if it is damaged."""
    with path_in_errors(Path("stdin") if str(path) == "-" else path):
        return GameRecord.from_json(read_text(path))


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Add the path of the record's file to an InvalidRecord that is raised in the block."""
    try:
        yield
    except InvalidRecord as error:
        raise InvalidRecord(f"{path}: {error}") from None


def read_text(path: Path) -> str:
    """Read the text of a file, or of stdin for `-`.

    Raises UserError if the file cannot be read, is too large, or is no text.
    """
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)  # one byte more shows that it is longer
        else:
            with path.open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise UserError(f"{path}: more than {LARGEST_FILE} bytes; is this the right file?")
        return data.decode()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not a text file") from None


def refuse_unwritable(option: str, path: Path) -> None:
    """Raise UserError if the file exists, or cannot be written.

    option  name of the option that has the path
    """
    if path.exists() or path.is_symlink():
        raise UserError(f"{option} {str(path)!r} exists: name another file, or remove it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{option}: cannot write to {str(path.parent)!r}: {reason}") from None
