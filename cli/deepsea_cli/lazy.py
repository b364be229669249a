"""Groups of commands that are imported when they are called, and additions to their help.

Invariant: listing the commands imports none of them, nor does completing their names; a command's
module is imported for its own help or its call. So the short help of a command is written with its
group. EXAMPLES has the examples in each command's help, and RARE the options that only `--help-all`
lists, both by the words that call a command: `match`, `ladder run`, or "" for the program itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


PROGRAM = "deepsea-referee"
# click's script for bash empties the names that were found when it meets an entry for files. The
# second text replaces the first one, and adds the files to the names.
_FILES_ALONE = """'file' ]]; then
            COMPREPLY=()
            compopt -o default
"""
_FILES_TOO = """'file' ]]; then
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "$value"))
"""


class LazyCommand(NamedTuple):
    """The place of a command that is not imported yet, and its line in the list of commands."""

    place: str
    """MODULE:ATTRIBUTE of the command."""
    line: str
    """Short help in the list of commands."""
    section: str = "Commands"
    """Heading above the command in the list."""


class LazyGroup(click.Group):
    """A group whose commands are imported one by one, when they are needed.

    entries  the commands by name, in the order of help
    words    words between the program's name and a command's name, such as "ladder author"
    """

    def __init__(
        self, *args: Any, entries: Mapping[str, LazyCommand], words: str = "", **extra: Any
    ) -> None:
        super().__init__(*args, **extra)
        self._entries = entries
        self._words = words

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name and return it; None if there is no such command."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module_name, _, attribute = entry.place.partition(":")  # MODULE:ATTRIBUTE
        command = getattr(import_module(module_name), attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.line
        words_of_call = f"{self._words} {cmd_name}".strip()
        return add_examples(command, words_of_call)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; suggest a name for a misspelt one."""
        name = args[0]
        if name not in self._entries:
            import difflib  # rarely needed

            similar = difflib.get_close_matches(name, self._entries, n=1)
            if similar:
                ctx.fail(f"there is no command {name!r}: did you mean {similar[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a word to commands and options; click's own method would import all commands."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=entry.line)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return commands + options

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section; click's own method would import all commands."""
        # All names have one width, so that the lists of all sections are aligned.
        width = max(map(len, self._entries))
        rows_by_section: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._entries.items():
            rows = rows_by_section.setdefault(entry.section, [])
            rows.append((f"{name:{width}}", entry.line))
        for section, rows in rows_by_section.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what lets SHELL (bash, zsh or fish) complete commands, options, bots and files.

    Put this line into ~/.bashrc: eval "$(deepsea-referee completion bash)"
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    program_command = ctx.find_root().command
    # The variable in which the shell asks the program for completions, as click expects it.
    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    script = completion_class(program_command, {}, PROGRAM, variable).source()
    # By click's script, bash would complete an argument to files alone, and to no names of bots.
    click.echo(script.replace(_FILES_ALONE, _FILES_TOO))


def add_examples(command: click.Command, words: str) -> click.Command:
    """Add the examples and `--help-all` to the help of a command, and return the same command.

    words  words that call the command, as in EXAMPLES and RARE

    Rare options are hidden in the usual help. A command that has `--help-all` is not changed again.
    """
    if command.params and command.params[-1].name == "help_all":
        return command
    rare = {*RARE.get(words, "").split()}
    options = [option for option in command.params if isinstance(option, click.Option)]
    for option in options:
        option.hidden = option.hidden or not rare.isdisjoint(option.opts)
        if isinstance(option.show_default, str):  # click would put parentheses around it
            option.help = f"{option.help}  [default: {option.show_default}]"
            option.show_default = False
    hidden = sum(option.hidden for option in options)
    program = f"  {PROGRAM} {words}".rstrip()
    lines = "\n".join(f"{program} {line}".rstrip() for line in EXAMPLES.get(words, ()))
    epilog = f"\b\nExamples:\n{lines}"  # \b: click does not wrap these lines
    if command.epilog:
        epilog += f"\n\n{command.epilog}"
    command.epilog = epilog
    if hidden:
        command.epilog += f"\n\n--help-all lists {hidden} more option{'s' if hidden > 1 else ''}."
    help_all = click.Option(
        ("--help-all",),
        is_flag=True,
        is_eager=True,
        expose_value=False,
        hidden=True,
        callback=partial(_print_full_help, epilog),
    )
    command.params.append(help_all)
    return command


def _print_full_help(
    epilog: str, ctx: click.Context, help_all: click.Parameter, is_given: bool
) -> None:
    """Print the help with rare options and exit, if --help-all is given; a callback of click.

    epilog    end of the help, without the line on --help-all
    help_all  this option itself, which is not listed
    """
    if not is_given or ctx.resilient_parsing:  # a shell that completes words wants no help
        return
    # Copies, because the same command may print its usual help later in this process.
    command = copy(ctx.command)
    command.epilog = epilog
    command.params = [copy(param) for param in ctx.command.params if param is not help_all]
    for param in command.params:
        if isinstance(param, click.Option):
            param.hidden = False
    click.echo(command.get_help(ctx))
    ctx.exit()


RARE: Mapping[str, str] = {
    "match": "--bot-uids --cluster --freeze --isolation --quiet --seating --tables --tcp",
    "play": "--bot-uids --freeze --isolation",
    "improve": "--bot-uids --freeze --isolation --precision --rules --seed",
    "compare": "--alpha --bot-uids --freeze --isolation --margin",
    "rank": "--alpha --bot-uids --freeze --isolation --margin --markdown",
    "tune": "--bot-uids --freeze --isolation",
    "check": "--bot-uids --isolation",
    "show": "--events --frames --speed --store",
    "analyse": "--rollouts --seed",
    "doctor": "--bot-uids",
    "ladder init": "--beta --former-versions --memory --packages --processes --require-cgroups",
    "ladder season": "--beta --former-versions --memory --packages --processes --require-cgroups",
    "ladder submit": "--bot-uids",
    "ladder run": "--bot-uids --cluster --confidence",
    "ladder tournament": "--bot-uids --cluster",
    "ladder serve": "--trusted-proxy",
}
"""Options that only `--help-all` lists, by the words that call the command."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "": ("new mine", "match mine greedy cautious --games 20 --out runs/first", "improve mine"),
    "new": ("mine", "theirs --language node"),
    "check": ("mine", "mine --clock 10ms+1s"),
    "match": (
        "greedy cautious random",
        "mine greedy --games 20 --out runs/first",
        'mine "cmd:node my_bot.js" --games 20 --clock 1s+10s',
    ),
    "play": ("greedy", "mine greedy --games 3 --out runs/mine"),
    "show": (
        "runs/first/game-0001.json",
        "runs/first --html games.html",
        "runs/first/game-0001.json --seat B",
    ),
    "improve": (
        "mine",
        "mine --against steady,diver --minutes 10",
        "new.py --against-version old.py --in-process",
    ),
    "compare": (
        "mine greedy --in-process --until-decided",
        "new.py old.py --field greedy,steady --out runs/new",
    ),
    "debug": (
        "runs/first/game-0001.json mine --seat A",
        "runs/first/game-0001.json mine --seat A --all",
    ),
    "rank": (
        "mine greedy cautious random --in-process",
        "mine greedy cautious random --until-decided --top 1",
    ),
    "tune": (
        "mine,safe=0.5..1.5 --budget 2m --in-process",
        "mine,safe=0.5..1.5 --against greedy,steady --budget 1h --out runs/tune",
    ),
    "analyse": (
        "runs/first/game-0001.json --seat B",
        "runs/first --workers 2 --html analysis.html",
        "runs/first --report --bot mine",
    ),
    "branch": (
        "runs/first/game-0001.json --at 12 --action leave",
        "runs/first/game-0001.json mine greedy --at 12",
    ),
    "verify": ("runs/first", "runs/first/game-0001.json --json"),
    "explain": (
        '"1 1 x 2 [12] {34} | *A3v:1 B5v | d2 a17"',
        '"1 1 x 2 [12] {34} | *A3v:1 B5v | d2 a17" r4 take',
    ),
    "rules": ("", "publisher"),
    "doctor": ("",),
    "completion": ("bash >> ~/.bashrc",),
    "ladder": ("submit mine --author you", "run --games 20", "standings"),
    "ladder submit": ("mine --author you", "my_bot.py --name second --remote club"),
    "ladder submissions": ("you",),
    "ladder standings": ("", "--best-of-author --csv"),
    "ladder bot": ("mine", "mine --plot mine.svg"),
    "ladder games": ("--bot mine --lost", "--faults --limit 100"),
    "ladder record": ("main-000012",),
    "ladder log": ("main-000012 --seat B",),
    "ladder login": (
        "https://ladder.example.org",
        "https://ladder.example.org --code - --author you",
    ),
    "ladder withdraw": ("mine", 'mine --reason "a new one comes"'),
    "ladder init": (
        "",
        "--isolation process --seats 2 --clock 1s+10s",
        "--season spring --packages numpy",
    ),
    "ladder season": ("summer --seats 2,3,4 --best-of-author",),
    "ladder deadline": ("2027-01-31T18:00Z", "2027-02-01T18:00Z --author you"),
    "ladder pause": ("spring", "spring --undo"),
    "ladder close": ("spring",),
    "ladder disable": ('mine --reason "it forfeits every game"', "mine --undo"),
    "ladder run": ("--games 100", "--until settled", "--forever --workers 2"),
    "ladder tournament": (
        "round-robin cup",
        "elimination knockout mine greedy steady diver --seats 4",
        "final best --seats 4 --top 1",
    ),
    "ladder verdicts": ("mine", "--csv"),
    "ladder analyse": ("main-000012 --wait",),
    "ladder export": ("", "--season main --csv"),
    "ladder serve": ("", "--port 8443 --tls-cert c.pem --tls-key k.pem"),
    "ladder refold": ("", "--records --workers 2"),
    "ladder status": ("",),
    "ladder doctor": ("", "--tls-cert c.pem --tls-key k.pem"),
    "ladder requeue": ("--all", "--run host-1234"),
    "ladder settings": ("", "bots 10", "bots --default"),
    "ladder overview": ("", "--csv"),
    "ladder codes": ("--count 30 --slips", "--authors class.txt --days 7", "--revoke 3"),
    "ladder author": ("list", "reset you"),
    "ladder author list": ("",),
    "ladder author admin": ("--author you",),
    "ladder author tokens": ("you", "you --revoke 3"),
    "ladder author reset": ("you",),
    "ladder author rename": ("you yourself",),
    "ladder author block": ("you", "you --undo"),
    "ladder author anonymise": ("you --yes",),
    "ladder author audit": ("--author you --limit 20",),
    "ladder make-cert": ("certs --host 192.168.1.10",),
    "ladder logout": ("https://ladder.example.org",),
    "ladder whoami": ("",),
    "ladder backup": ("ladder.backup",),
    "ladder restore": ("ladder.backup --dry-run",),
    "ladder upgrade": ("",),
}
"""Arguments of examples by the words that call the command; each runs as it stands.

The bot `mine` is the one that the first example of the program makes.
"""
