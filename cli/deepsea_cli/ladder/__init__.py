"""`deepsea-referee ladder`: converts arguments, prints tables or JSON; the arena does the work.

Invariant: a command is an attribute of the module named beside it, and imports no other command.
"""

from __future__ import annotations

import click

from deepsea_cli.lazy import LazyCommand, LazyGroup

SECTIONS = {
    "Authors": {
        "submit": ("submit", "Submit a bot: check it, play admission games, add it."),
        "standings": ("standings", "Show the standings."),
        "bot": ("standings", "Show everything about a bot."),
        "games": ("standings", "List the newest games."),
        "log": ("standings", "Print what bots left of a game for their authors."),
        "analyse": ("standings", "Ask what each decision of a game was worth."),
        "withdraw": ("standings", "Withdraw a bot, for its author."),
        "login": ("login", "Log in to a ladder on another machine."),
    },
    "Seasons": {
        "init": ("seasons", "Create a ladder with one season."),
        "season": ("seasons", "Open another season."),
        "deadline": ("seasons", "Show or change until when a season takes in bots."),
        "pause": ("seasons", "Start no games of a season for now, or start them again."),
        "close": ("seasons", "Close a season and show the seed of its games."),
    },
    "Bots": {
        "submissions": ("submit", "List what an author has submitted from afar."),
        "disable": ("standings", "Schedule no games for a bot, or schedule them again."),
    },
    "Games": {
        "run": ("run", "Play rated games."),
        "tournament": ("run", "Play a tournament in a season of its own."),
    },
    "Results": {
        "verdicts": ("standings", "Say how versions do against former ones and a panel."),
        "record": ("standings", "Print the record of a game."),
        "export": ("standings", "Print all results."),
        "serve": ("serve", "Show the ladder in a browser."),
    },
    "Operation": {
        "refold": ("upkeep", "Recompute the ratings from the games, and compare."),
        "status": ("upkeep", "Show the queue, running games and problems."),
        "doctor": ("upkeep", "Check the ladder's machine, and say what to do."),
        "requeue": ("upkeep", "Retry games that were set aside, or left by a run."),
        "settings": ("authors", "Show or change the ladder's limits, while it is served too."),
    },
    "Accounts": {
        "overview": ("authors", "Show who has joined, submitted what, and stands where."),
        "codes": ("authors", "Make codes that let people in, list and end them."),
        "author": ("authors", "List and change authors, their rights and tokens."),
    },
    "Other machines": {
        "make-cert": ("serve", "Make a certificate for a room without names."),
        "logout": ("login", "End a login."),
        "whoami": ("login", "Say who you are at a ladder on another machine."),
    },
    "Storage": {
        "backup": ("upkeep", "Copy the ladder while it runs."),
        "restore": ("upkeep", "Create a ladder from a backup."),
        "upgrade": ("upkeep", "Migrate a ladder of an older program."),
    },
}
"""The commands in the order of help by section, with their module and short help."""

COMMANDS = {
    name: LazyCommand(f"{__name__}.{module}:{name.replace('-', '_')}", line, section)
    for section, commands in SECTIONS.items()
    for name, (module, line) in commands.items()
}


@click.group("ladder", cls=LazyGroup, entries=COMMANDS, words="ladder")
def command() -> None:
    """Run a ladder: submit bots, play rated games, show standings.

    A ladder is one file, or a PostgreSQL database. Every command takes --store, or the variable
    DEEPSEA_LADDER; after `login` some take --remote for a ladder on another machine.
    """
