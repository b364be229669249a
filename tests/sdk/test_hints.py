"""Hints: misspelt methods, programs that never call run, and objects where classes belong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import deepsea_sdk
from deepsea_bots.diver import Searcher
from deepsea_bots.heuristic import Heuristic
from deepsea_sdk import Bot, View
from deepsea_sdk.hints import PREFIX, misspelt, unheard, with_hints


class Misspelt(Bot):
    def serach(self, view: View) -> str:
        return "leave"

    def on_gamestart(self) -> None:
        pass

    def turnBack(self) -> bool:  # noqa: N802  (what somebody may write)
        return False

    def gets_home(self, view: View) -> bool:
        return True

    def _search(self) -> None:
        pass

    searching = 1


def test_methods_with_names_like_those_of_a_bot_are_named() -> None:
    assert misspelt(Misspelt) == [
        f"{PREFIX}the SDK never calls Misspelt.{name}; did you mean {meant}?"
        for name, meant in (
            ("serach", "search"),
            ("on_gamestart", "on_game_start"),
            ("turnBack", "turn_back"),
        )
    ]


def test_a_method_of_a_class_in_between_is_named_too() -> None:
    class Better(Misspelt):
        pass

    assert misspelt(Better) == misspelt(Misspelt)


@pytest.mark.parametrize("bot", [Bot, Heuristic, Searcher])
def test_helpers_with_other_names_are_nobodys_business(bot: type[Bot]) -> None:
    assert misspelt(bot) == []


def test_events_that_do_not_come_are_named() -> None:
    put_on = Bot()
    put_on.on_event = lambda event: None  # type: ignore[method-assign]
    assert unheard(put_on) == [
        f"{PREFIX}no events come for Bot: define on_event in the class, not on the object"
    ]
    assert unheard(Bot()) == []


def test_a_hint_is_given_once_for_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    make = with_hints(Misspelt)
    assert type(make()) is type(make()) is Misspelt
    assert capsys.readouterr().err.splitlines() == misspelt(Misspelt)


@pytest.mark.parametrize("what", [Misspelt(), None, "Misspelt"])
def test_run_refuses_what_is_neither_class_nor_function(what: object) -> None:
    with pytest.raises(TypeError, match=r"run\(\) takes a class or a function that makes a bot"):
        deepsea_sdk.run(what)  # type: ignore[arg-type]


# As programs

MINE = "from deepsea_sdk import Bot, run\nclass Mine(Bot):\n    pass\n"


def ended(folder: Path, text: str, **environment: str) -> tuple[int, list[str]]:
    """The exit status of a program that a referee may have started, and what it wrote to stderr."""
    program = folder / "my_bot.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        (sys.executable, program),
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


STARTED = {"DEEPSEA_ADDRESS": "unix:nowhere", "DEEPSEA_TOKEN": "token"}


def test_a_program_that_never_calls_run_says_so(tmp_path: Path) -> None:
    hint = f"{PREFIX}my_bot.py defines class Mine(Bot) but never calls run(Mine)"
    assert ended(tmp_path, MINE, **STARTED) == (0, [hint])
    # The class that is built on others is the one that should play.
    text = MINE + "class Better(Mine):\n    pass\n"
    assert ended(tmp_path, text, **STARTED) == (0, [hint.replace("Mine", "Better")])


@pytest.mark.parametrize(
    ("text", "started"),
    [
        (MINE, {}),
        (MINE + "raise ValueError('no')", STARTED),
        (MINE + "run(Mine)", STARTED),
        ("from deepsea_sdk import Bot, run\n", STARTED),
    ],
)
def test_others_do_not(tmp_path: Path, text: str, started: dict[str, str]) -> None:
    _, stderr = ended(tmp_path, text, **started)
    assert not any(line.startswith(PREFIX) for line in stderr)


def test_an_object_is_refused_with_the_reason(tmp_path: Path) -> None:
    status, stderr = ended(tmp_path, MINE + "run(Mine())", **STARTED)
    assert status == 1
    assert "write run(Mine), or run(lambda: Mine(...))" in stderr[-1]
