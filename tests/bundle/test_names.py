"""Names of authors: any script, one spelling, nothing that changes the line around it."""

from __future__ import annotations

import pytest

from deepsea_bundle import names
from deepsea_bundle.errors import BundleError


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("Anna Müller", "Anna Müller"),
        ("Anna Mu\u0308ller", "Anna Müller"),
        (" Anna   Müller ", "Anna Müller"),
        ("O'Brien-Smith", "O'Brien-Smith"),
        ("王小明", "王小明"),
        ("आरती", "आरती"),
        ("ben_2", "ben_2"),
    ],
)
def test_a_person_has_a_name_of_any_script(typed: str, stored: str) -> None:
    assert names.valid_author_name(typed) == stored


SHAPES = ("", " ", "-ben", "x" * 41, "\ufdfa" * 3, "a/b", "a%b", "<b>", "team-v3", "😀")
UNSEEN = ("a\nb", "a\tb", "a\u202eb", "a\u200bb", "a\u00a0b", "b\u115fen", "ben\ud800")
MARKS = ("\u0308ben", "o" + "\u0301" * 5, "o\ufe0f")
LOOKING_LATIN = ("b\u0435n", "\u03bfb", "\u13aanna")


@pytest.mark.parametrize("typed", [*SHAPES, *UNSEEN, *MARKS, *LOOKING_LATIN])
def test_what_is_no_name_of_a_person_is_refused(typed: str) -> None:
    with pytest.raises(BundleError, match="the author's name"):
        names.valid_author_name(typed)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Ben", "ben"), ("MÜLLER", "Mu\u0308ller"), ("Straße", "STRASSE"), ("Ｂｅｎ", "ben")],
)
def test_names_that_look_the_same_are_one(one: str, other: str) -> None:
    assert names.key(one) == names.key(other)
