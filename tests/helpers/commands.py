"""The command line, run inside the test and as a program of its own.

`run` calls it in this process and gives back what a shell would see; `program` starts it for real.
Records are of games that a chooser played, so that no bot is needed to test what is done with them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import IO, NamedTuple

import click

from deepsea_cli import main
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game, GameRecord
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from helpers.games import Chooser, play_out

NAMES = ("greedy", "cautious", "random", "greedy 2", "a bot with a name of length", "six")


class Done(NamedTuple):
    """What came of a command."""

    status: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one line with which bad input is refused."""
        assert (self.status, self.out) == (2, ""), self
        return one_line(self.err)


Run = Callable[..., Done]


class Tty(StringIO):
    """Stands for a stream of a terminal."""

    def isatty(self) -> bool:
        return True


def program(*arguments: object) -> list[str]:
    """The command line as a program of its own."""
    return [sys.executable, "-m", "deepsea_cli", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Lets a program of its own import what the tests import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def every_command(group: click.Group = main, words: str = "") -> dict[str, click.Command]:
    """All commands by their words, groups too."""
    found: dict[str, click.Command] = {words: group}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = f"{words} {name}".strip()
        if isinstance(command, click.Group):
            found |= every_command(command, inner)
        else:
            found[inner] = command
    return found


def imported_by(*commands: Sequence[object], **variables: str) -> set[str]:
    """The modules that a program of its own imports for these commands."""
    code = (
        "import sys\n"
        "from deepsea_cli import main\n"
        f"for words in {[[*map(str, words)] for words in commands]}:\n"
        "    sys.argv = ['deepsea-referee', *words]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**environment(), **variables},
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def called(*arguments: object) -> Done:
    """Run the command line in this process; the fixture `run` does it for what pytest captures."""
    out, err = (TextIOWrapper(BytesIO(), "utf-8", newline="") for _ in range(2))
    status = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
    for stream in (out, err):
        stream.seek(0)
    return Done(status, out.read(), err.read())


class Process(subprocess.Popen[str]):
    """A program that was started with pipes."""

    stdin: IO[str]
    stdout: IO[str]
    stderr: IO[str]


def start(*arguments: object, **options: object) -> Process:
    """Start it with pipes to all its streams, unless options say otherwise."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Process(  # type: ignore[call-overload, no-any-return]
        program(*arguments), text=True, env=environment(), **{**streams, **options}
    )


@contextmanager
def serving(place: object, *options: object, scheme: str = "http") -> Iterator[tuple[Process, int]]:
    """`ladder serve` as a program of its own, and the port that it names."""
    with start("ladder", "serve", "--store", place, "--port", 0, *options) as process:
        line = process.stdout.readline()
        try:
            assert line.startswith(f"the ladder is shown at {scheme}://")
            yield process, int(line.rstrip("/\n").rpartition(":")[2])
        finally:
            process.terminate()


def free_port() -> int:
    """A port of this machine that nothing listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def one_line(text: str) -> str:
    """The only line of what was said on stderr."""
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


def played(preset: str = "manual", players: int = 3, salt: str = "demo") -> Game:
    """A finished game."""
    game = Game(PRESETS[preset], players, seed_from_text(salt))
    return play_out(game, Chooser(salt, takes=True))


def faulty(salt: str = "demo") -> Game:
    """A finished game of three in which seat B forfeits by its third fault."""
    game = Game(PRESETS["manual"], 3, seed_from_text(salt))
    chooser = Chooser(salt, takes=True)
    while (question := game.pending()) is not None:
        if question.seat == 1:
            game.decide(None, fault=Fault.TIMEOUT, us=99, came="no answer")
        else:
            game.decide(chooser.action(question.legal))
    return game


def record_of(game: Game) -> GameRecord:
    """Its record."""
    seats = [(name, "0" * 64) for name in NAMES[: game.players]]
    return GameRecord.of(game, game_id="demo-0001", clock="100ms+2s", seats=seats)


def written(folder: Path, game: Game, name: str = "game-0001.json") -> Path:
    """Its record as a file."""
    path = folder / name
    path.write_text(record_of(game).to_json(), encoding="utf-8")
    return path
