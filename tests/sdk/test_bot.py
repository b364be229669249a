"""`Bot`: what its methods' answers mean, and that every default is sensible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from deepsea_rules.view import View, view_for
from deepsea_sdk import Bot, Fault, FaultNotice, IllegalAnswer, Unit
from helpers.positions import at

DECLARE = "1 1 x 2 | *A2v:1 B0v | d1 a20"
SEARCH = "1 1 x 2 | *A4v:1 B0v | d1 a20 search"
ORDER = "2 x x x x x | *A5^:1,2,3,4 Bh1 | d1 a0 order"


def view(text: str) -> View:
    state = at(text)
    return view_for(state, state.to_move)


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
    seen = view(text)
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
    assert Says(answer).decide(view(DECLARE)) == action


@pytest.mark.parametrize("action", ["leave", "take"])
def test_search(action: str) -> None:
    assert Says(action).decide(view(SEARCH)) == action


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
    assert Says(answer).decide(view(ORDER)) == action


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
        Says(answer).decide(view(text))
    assert str(refused.value) == f"Says.{message}, which is not {legal[text]}"
    assert refused.value.action == action


def test_stack_order_may_return_the_items_rearranged() -> None:
    class Backwards(Bot):
        def stack_order(self, view: View) -> Sequence[Unit]:
            return view.items[::-1]

    assert Backwards().decide(view(ORDER)) == "order:4,3,2,1"


def test_nothing_is_decided_where_nothing_is_asked() -> None:
    with pytest.raises(ValueError, match="roll"):
        Bot().decide(view("1 1 | *A1v B0v | d1 a20 roll"))


def test_a_fault_is_told_on_stderr_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    notice = FaultNotice("g", 3, Fault.TIMEOUT, "too late", forfeit=False)
    Says("leave").on_fault(notice)
    assert capsys.readouterr() == ("", "Says: too late\n")


def test_a_bot_may_have_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    class Named(Bot):
        name = "Deep Blue"

    Named().on_fault(FaultNotice("g", 3, Fault.TIMEOUT, "too late", forfeit=False))
    assert capsys.readouterr().err == "Deep Blue: too late\n"


def methods_with_defaults() -> Iterator[str]:
    for name, method in vars(Bot).items():
        if callable(method) and not name.startswith("_"):
            yield name


def test_every_method_says_what_it_is_for() -> None:
    assert [name for name in methods_with_defaults() if not getattr(Bot, name).__doc__] == []
