"""`Bot`: what its methods' answers mean, and that every default is sensible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

import deepsea_sdk
from deepsea_bots.diver import Searcher
from deepsea_bots.heuristic import Heuristic
from deepsea_sdk import Bot, Fault, FaultNotice, IllegalAnswer, Unit, View
from deepsea_sdk.bot import HINT, make_bot, misspelt, with_hints
from helpers.positions import view_at

DECLARE = "1 1 x 2 | *A2v:1 B0v | d1 a20"
SEARCH = "1 1 x 2 | *A4v:1 B0v | d1 a20 search"
ORDER = "2 x x x x x | *A5^:1,2,3,4 Bh1 | d1 a0 order"


class Says(Bot):
    """Answers everything with the same."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def turn_back(self, view: View) -> Any:
        return self.answer

    def search(self, view: View) -> Any:
        return self.answer

    def stack_order(self, view: View) -> Any:
        return self.answer


@pytest.mark.parametrize("text", [DECLARE, SEARCH, ORDER])
def test_a_bot_without_methods_of_its_own_chooses_the_default_action(text: str) -> None:
    seen = view_at(text)
    assert Bot().decide(seen) == seen.legal[0]


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (True, "back"),
        (False, "down"),
        (1, "back"),
        (0, "down"),
        ([], "down"),
        ("back", "back"),
        ("down", "down"),
    ],
)
def test_turn_back(answer: object, action: str) -> None:
    assert Says(answer).decide(view_at(DECLARE)) == action


@pytest.mark.parametrize("action", ["leave", "take"])
def test_search(action: str) -> None:
    assert Says(action).decide(view_at(SEARCH)) == action


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("order:4,3,2,1", "order:4,3,2,1"),
        (["4", "3", "2", "1"], "order:4,3,2,1"),
        ((Unit((25,)), "3", "1", Unit((9,))), "order:4,3,1,2"),
        (iter(["2", "1", "3", "4"]), "order:2,1,3,4"),
    ],
)
def test_stack_order_takes_actions_names_and_units(answer: object, action: str) -> None:
    assert Says(answer).decide(view_at(ORDER)) == action


@pytest.mark.parametrize(
    ("text", "answer", "message", "action"),
    [
        (DECLARE, "nonsense", "turn_back returned 'nonsense'", "nonsense"),
        (DECLARE, None, "turn_back returned None", "None"),
        (SEARCH, "drop:1", "search returned 'drop:1'", "drop:1"),
        (SEARCH, "", "search returned ''", "''"),
        (SEARCH, True, "search returned True", "True"),
        (SEARCH, Unit((3,)), "search returned Unit(3)", "Unit(3)"),
        (ORDER, [], "stack_order returned []", "order:"),
        (ORDER, 7, "stack_order returned 7", "7"),
    ],
)
def test_what_is_not_legal_is_refused_with_the_method_that_returned_it(
    text: str, answer: object, message: str, action: str
) -> None:
    legal = {
        DECLARE: "one of down, back",
        SEARCH: "one of leave, take",
        ORDER: "an order of 1, 2, 3, 4",
    }
    with pytest.raises(IllegalAnswer) as refused:
        Says(answer).decide(view_at(text))
    assert str(refused.value) == f"Says.{message}, which is not {legal[text]}"
    assert refused.value.action == action


def test_stack_order_may_return_the_items_rearranged() -> None:
    class Backwards(Bot):
        def stack_order(self, view: View) -> Sequence[Unit]:
            return view.items[::-1]

    assert Backwards().decide(view_at(ORDER)) == "order:4,3,2,1"


def test_nothing_is_decided_where_nothing_is_asked() -> None:
    with pytest.raises(ValueError, match="roll"):
        Bot().decide(view_at("1 1 | *A1v B0v | d1 a20 roll"))


class Named(Bot):
    name = "Deep Blue"


@pytest.mark.parametrize(("bot", "name"), [(Says("leave"), "Says"), (Named(), "Deep Blue")])
def test_a_fault_is_told_on_stderr_under_the_bots_name_and_nowhere_else(
    bot: Bot, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bot.on_fault(FaultNotice("g", 3, Fault.TIMEOUT, "too late", forfeit=False))
    assert capsys.readouterr() == ("", f"{name}: too late\n")


def test_every_method_says_what_it_is_for() -> None:
    methods = [one for name, one in vars(Bot).items() if callable(one) and name[0] != "_"]
    assert methods
    assert [method for method in methods if not method.__doc__] == []


# Hints: misspelt methods, programs that never call run, and objects where classes belong


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
    assert list(misspelt(Misspelt)) == [
        f"the SDK never calls Misspelt.{name}; did you mean {meant}?"
        for name, meant in (
            ("serach", "search"),
            ("on_gamestart", "on_game_start"),
            ("turnBack", "turn_back"),
        )
    ]


def test_a_method_of_a_class_in_between_is_named_too() -> None:
    class Better(Misspelt):
        pass

    assert list(misspelt(Better)) == list(misspelt(Misspelt))


@pytest.mark.parametrize("bot", [Bot, Heuristic, Searcher])
def test_helpers_with_other_names_are_nobodys_business(bot: type[Bot]) -> None:
    assert list(misspelt(bot)) == []


def test_a_hint_is_given_once_for_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    make = with_hints(Misspelt)
    assert type(make()) is type(make()) is Misspelt
    assert capsys.readouterr().err.splitlines() == [f"{HINT}{hint}" for hint in misspelt(Misspelt)]


@pytest.mark.parametrize("what", [Misspelt(), None, "Misspelt", dict, object])
def test_run_refuses_what_is_neither_class_nor_function(what: object) -> None:
    with pytest.raises(TypeError, match=r"run\(\) takes a class or a function that makes a bot"):
        deepsea_sdk.run(what)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (lambda: None, "<lambda> returned None"),
        (lambda: Bot, "<lambda> returned <class 'deepsea_sdk.bot.Bot'>"),
        (partial(dict, a=1), "partial returned {'a': 1}"),
    ],
)
def test_a_function_that_makes_no_bot_is_refused(given: Any, returned: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"{returned}; it has to return a bot, such as")):
        make_bot(given)
