"""Groups of commands whose modules are imported when they are called.

Invariant: listing the commands imports none of them, nor does completing their names; a command's
module is imported for its own help or its call. So the short help of a command is written with the
group. lazy.py has the examples of each command, and the options that only `--help-all` lists.

What the help of each command has beside its text: examples, and options that it does not list.

A command's words are those that call it: `match`, `ladder run`; those of the program are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


PROGRAM = "deepsea-referee"
_FILES_ALONE = """'file' ]]; then
            COMPREPLY=()
            compopt -o default
"""
_FILES_TOO = """'file' ]]; then
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "$value"))
"""


class LazyCommand(NamedTuple):
    """A command of a group."""

    place: str
    """MODULE:ATTRIBUTE of the command."""
    line: str
    """Its short help in the list of commands."""
    section: str = "Commands"
    """The heading above it in this list."""


class LazyGroup(click.Group):
    """A group.

    entries  its commands by name, in the order of help
    words    what stands between the program's name and theirs
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
        if cmd_name not in self._entries:
            return None
        entry = self._entries[cmd_name]
        module, _, attribute = entry.place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.line
        return documented(command, f"{self._words} {cmd_name}".strip())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (name := args[0]) not in self._entries:
            import difflib  # rarely needed

            if near := difflib.get_close_matches(name, self._entries, 1):
                ctx.fail(f"there is no command {name!r}: did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # As with the list of commands: click's own would import them all.
        return [
            CompletionItem(name, help=entry.line)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own asks every command, which would import them all.
        width = max(map(len, self._entries))
        for section, items in groupby(self._entries.items(), lambda item: item[1].section):
            with formatter.section(section):
                # One width, so that the sections are columns of one table.
                formatter.write_dl([(f"{name:{width}}", entry.line) for name, entry in items])


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what lets SHELL (bash, zsh or fish) complete commands, options, bots and files.

    Put this line into ~/.bashrc: eval "$(deepsea-referee completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    script = found(ctx.find_root().command, {}, PROGRAM, variable).source()
    # In click's script for bash the entry for files empties the list of names before it.
    click.echo(script.replace(_FILES_ALONE, _FILES_TOO))


def documented(command: click.Command, words: str) -> click.Command:
    """Add the examples of its words to its help, and `--help-all`; the same command again."""
    if command.params and command.params[-1].name == "help_all":
        return command
    rare = {*RARE.get(words, "").split()}
    options = [option for option in command.params if isinstance(option, click.Option)]
    for option in options:
        option.hidden |= not rare.isdisjoint(option.opts)
        if isinstance(option.show_default, str):  # click would put parentheses around it
            option.help = f"{option.help}  [default: {option.show_default}]"
            option.show_default = False
    hidden = sum(option.hidden for option in options)
    program = f"  {PROGRAM} {words}".rstrip()
    lines = "\n".join(f"{program} {line}".rstrip() for line in EXAMPLES.get(words, ()))
    full = "\n\n".join(filter(None, (f"\b\nExamples:\n{lines}", command.epilog)))
    more = f"\n\n--help-all lists {hidden} more option{'s' * (hidden > 1)}." if hidden else ""
    command.epilog = full + more
    everything = click.Option(
        ("--help-all",),
        is_flag=True,
        is_eager=True,
        expose_value=False,
        hidden=True,
        callback=partial(_print_all, full),
    )
    command.params.append(everything)
    return command


def _print_all(epilog: str, ctx: click.Context, asked: click.Parameter, wanted: bool) -> None:
    """Print the help with every option."""
    if wanted and not ctx.resilient_parsing:
        whole = copy(ctx.command)
        whole.epilog = epilog
        whole.params = [copy(param) for param in ctx.command.params if param is not asked]
        for param in whole.params:
            if isinstance(param, click.Option):
                param.hidden = False
        click.echo(whole.get_help(ctx))
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
"""Options that only `--help-all` lists, by the command's words."""

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
"""What follows a command's words in lines that run as they stand, with the bot `mine` of `new`."""
