"""Parameters of bots: one form, and nothing is set that is not there."""

from __future__ import annotations

import functools
import types

import pytest

from deepsea_sdk import Bot
from deepsea_sdk.launch import Parameters, apply_parameters, split_parameters


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("my_bot.py", ("my_bot.py", "")),
        ("a/my bot.py:Fast", ("a/my bot.py", ":Fast")),
        ("greedy,depth=3", ("greedy", ",depth=3")),
        ("b.py:Fast,safe=0.9,deep=-3", ("b.py", ":Fast,safe=0.9,deep=-3")),
        ("b.py,=3", ("b.py,=3", "")),
        ("b.py,x=a/b", ("b.py,x=a/b", "")),
        ("", ("", "")),
    ],
)
def test_parameters_stand_behind_the_bot(text: str, parts: tuple[str, str]) -> None:
    assert split_parameters(text) == parts


def test_values_are_numbers_truths_or_texts() -> None:
    text = ",a=3,b=-0.5,c=1e-3,d=true,e=false,f=fast,g=1.2.3,h=.5,i="
    values = Parameters.parse(text).values
    assert values == {
        "a": 3,
        "b": -0.5,
        "c": 0.001,
        "d": True,
        "e": False,
        "f": "fast",
        "g": "1.2.3",
        "h": 0.5,
        "i": "",
    }
    assert [type(value) for value in values.values()][:5] == [int, float, float, bool, bool]


def test_the_same_parameters_have_one_text() -> None:
    one = Parameters.parse(":Fast,safe=0.90,deep=3")
    other = Parameters.parse(":Fast,deep=+3,safe=.9")
    assert one.format() == other.format() == ":Fast,deep=3,safe=0.9"
    assert Parameters.parse(one.format()) == one


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(ValueError, match="'a' is given twice"):
        Parameters.parse(",a=1,a=2")


def program() -> tuple[types.ModuleType, type[Bot]]:
    class Mine(Bot):
        depth = 2
        style = "calm"

        def __init__(self) -> None:
            self.double = 2 * self.depth

    class Fast(Mine):
        pass

    module = types.ModuleType("program")
    module.Mine, module.Fast, module.other = Mine, Fast, 3  # type: ignore[attr-defined]
    return module, Mine


def test_attributes_of_the_class_are_set_before_a_bot_is_made() -> None:
    module, mine = program()
    made = apply_parameters(",depth=5,style=wild", mine, module)()
    assert (vars(type(made))["depth"], vars(made)["double"]) == (5, 10)


def test_another_class_can_play() -> None:
    module, mine = program()
    assert apply_parameters(":Fast", mine, module) is vars(module)["Fast"]
    assert apply_parameters(":Mine", mine, types.ModuleType("empty")) is mine


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (",dept=5", "class Mine has no attribute dept"),
        (",depth=deep", "depth is 2 in class Mine, not 'deep'"),
        (",search=5", "no attribute search"),
        (",time_left=5", "no attribute time_left"),
        (":Slow", "no class Slow"),
        (":other", "no class other"),
    ],
)
def test_what_the_bot_does_not_have_is_refused(text: str, told: str) -> None:
    module, mine = program()
    with pytest.raises(TypeError, match=told):
        apply_parameters(text, mine, module)


def test_a_function_has_no_attributes_to_be_set() -> None:
    module, mine = program()
    with pytest.raises(TypeError, match="attributes of a class"):
        apply_parameters(",depth=3", functools.partial(mine), module)
