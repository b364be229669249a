"""Dataclasses from JSON: what was written comes back, and what makes no sense is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import pytest

from deepsea_arena.bot_profiles import BotProfile, bot_profile
from deepsea_arena.games import GamesPage, newest_games
from deepsea_arena.standings import Standings, show_standings
from deepsea_arena.wire import messages
from deepsea_arena.wire.json import Int64, to_json, to_object
from deepsea_arena.wire.reading import DocumentError, from_json
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.store import Store


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Page:
    name: str
    count: int
    large: Int64
    share: float
    wanted: bool
    state: BotState
    kind: Literal["a", "b"]
    at: datetime
    until: datetime | None
    pairs: tuple[Pair, ...]
    texts: tuple[str, ...] = ()


PAGE = Page(
    name="n\u202e",
    count=3,
    large=Int64(2**60),
    share=0.1,
    wanted=True,
    state=BotState.ACTIVE,
    kind="a",
    at=datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
    until=None,
    pairs=(Pair(1, "x"), Pair(2, "")),
)


def document(**changed: object) -> dict[str, object]:
    return {**to_object(PAGE), **changed}


def test_what_was_written_comes_back() -> None:
    assert from_json(Page, document()) == PAGE


def test_what_is_missing_is_empty_and_what_is_new_is_ignored() -> None:
    given = {
        "at": "2026-01-02T03:04:05.006Z",
        "until": "",
        "state": "resting",
        "kind": "c",
        "mood": "good",
    }
    page: Any = from_json(Page, given)
    assert (page.name, page.count, page.large, page.share, page.wanted) == ("", 0, 0, 0.0, False)
    assert (page.until, page.pairs) == (None, ())
    assert (page.state, page.kind) == ("resting", "c")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 7),
        ("name", ["x"]),
        ("count", "3"),
        ("count", 1.5),
        ("count", True),
        ("count", 2**60),
        ("count", float("inf")),
        ("large", "1" * 30),
        ("large", "many"),
        ("share", "NaN"),
        ("share", 10**400),
        ("count", 10**400),
        ("share", float("nan")),
        ("share", float("-inf")),
        ("wanted", 1),
        ("at", "yesterday"),
        ("at", "2026-01-02T03:04:05"),
        ("at", 7),
        ("at", None),
        ("until", "never"),
        ("pairs", {"0": {}}),
        ("pairs", [7]),
        ("pairs", [{"left": "x"}]),
        ("texts", [None, 7]),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(name: str, value: object) -> None:
    with pytest.raises(DocumentError, match=rf"^Page\.{name}"):
        from_json(Page, document(**{name: value}))


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_a_document_is_an_object(value: object) -> None:
    with pytest.raises(DocumentError, match="Page is no object"):
        from_json(Page, value)


def test_the_pages_of_the_ladder_come_back_from_json_and_from_bytes(played: Store) -> None:
    pages: list[tuple[str, type[Any], object]] = [
        ("GetStandings", Standings, show_standings(played)),
        ("GetBot", BotProfile, bot_profile(played, "ben")),
        ("ListGames", GamesPage, newest_games(played, 3)),
    ]
    for method, kind, page in pages:
        assert from_json(kind, to_json(page)) == page
        data = messages.response_to_bytes(method, page)
        assert from_json(kind, messages.response_from_bytes(method, data)) == page
