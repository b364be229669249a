"""Settings of a ladder: kept, within their ranges, noted, and in force where they are read."""

from __future__ import annotations

from dataclasses import fields

import pytest

from deepsea_ladder.accounts import MACHINE, Actor, AuditKind
from deepsea_ladder.errors import LimitReached, SeasonError
from deepsea_ladder.limits import USUAL_LIMITS, RemoteLimits, limits_in_force
from deepsea_ladder.store import Store
from helpers.comparisons import add, claim, to_compare
from helpers.people import new_game

pytestmark = pytest.mark.databases
CONTENTS = to_compare
NAMES = [one.name for one in fields(RemoteLimits)]


def test_a_setting_survives_a_restart_and_goes_back(store: Store, target: str) -> None:
    for name, value in {"bots": 8, "queue": 50, "play_tables": 7}.items():
        store.settings.change(name, value, MACHINE)
    with Store.open(target) as again:
        assert again.settings.changed() == {"bots": 8, "queue": 50, "play_tables": 7}
        assert again.settings.limits() == RemoteLimits(bots=8, queue=50, play_tables=7)
        assert again.settings.limits(RemoteLimits(tokens=1)).tokens == 1
        again.settings.change("bots", None, MACHINE)
    found = {one.name: one for one in limits_in_force(store.settings.changed()).table()}
    assert list(found) == NAMES
    assert (found["bots"].value, found["queue"].value, found["queue"].default) == (5, 50, 100)
    assert (found["play_tables"].value, found["play_tables"].default) == (7, 4)


def test_every_change_is_in_the_audit_log_and_nothing_else_is(store: Store, ada: int) -> None:
    admin = Actor(ada, address="192.0.2.0/24")
    for value in (9, 9, 10, None, None):
        store.settings.change("bots", value, admin)
    entries = [one for one in store.audit.latest() if one.kind is AuditKind.SETTING]
    assert [(one.subject, one.note, one.actor, one.address) for one in entries] == [
        ("bots", note, "Ada", "192.0.2.0/24")
        for note in ("the default, was 10", "10, was 9", "9, was the default")
    ]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("bot", 1, "there is no setting 'bot'; did you mean bots"),
        ("xyz", None, "`ladder settings` lists them"),
        ("verdicts.margin", 1, "no setting 'verdicts.margin'"),
        ("bots", 0, "bots must lie between 1 and 1000000000000, not 0"),
        ("bots", 2**63, "not 9223372036854775808"),
        ("token_days", 36_501, "between 1 and 36500"),
        ("pages_per_minute", 1, "between 10 and"),
        ("play_tables", 101, "play_tables must lie between 0 and 100, not 101"),
        ("play_tables_of_person", 0, "play_tables_of_person must lie between 1 and 100"),
        ("verdict_seconds", -1, "verdict_seconds must lie between 0 and"),
    ],
)
def test_what_cannot_be_changes_nothing(
    store: Store, name: str, value: int | None, words: str
) -> None:
    store.settings.change("bots", 9, MACHINE)
    before = store.settings.changed(), store.audit.latest()
    with pytest.raises(SeasonError, match=words):
        store.settings.change(name, value, MACHINE)
    assert (store.settings.changed(), store.audit.latest()) == before


def test_every_default_may_be_set(store: Store) -> None:
    usual = {one.name: one.default for one in USUAL_LIMITS.table()}
    assert [*usual] == NAMES
    for name, default in usual.items():
        store.settings.change(name, default, MACHINE)
    assert store.settings.changed() == usual
    assert store.settings.limits() == USUAL_LIMITS


def test_tables_and_games_of_people_are_those_of_the_setting(store: Store) -> None:
    def begun() -> str:
        try:
            new_game(store, game_id=f"person-{next(numbers)}")
        except LimitReached as error:
            return str(error)
        return ""

    numbers = iter(range(99))
    store.settings.change("play_tables_of_person", 9, MACHINE)
    store.settings.change("play_tables", 2, MACHINE)
    assert [begun() for _ in range(3)] == ["", "", "all 2 tables are taken: try again later"]
    store.settings.change("play_tables", 3, MACHINE)
    assert begun() == ""
    store.settings.change("play_games_per_day", 3, MACHINE)
    assert "3 are the most" in begun()
    for name in ("play_games_per_day", "play_tables_of_person"):
        store.settings.change(name, None, MACHINE)
    assert "you have 3 games under way" in begun()  # the default again


def test_comparisons_have_the_cpu_time_of_the_settings(store: Store) -> None:
    store.bots.withdraw("dan")
    lease = claim(store)
    assert lease.cpu_ms == 600_000
    assert add(store, lease, 0, cpu_ms=3000)
    store.comparisons.hand_back("runner")
    for name, value, left_ms in (
        ("verdict_seconds_per_hour", 3, None),
        ("verdict_seconds_per_hour", 10, 7_000),
        ("verdict_seconds_per_hour", None, 597_000),
        ("verdict_seconds", 0, None),
        ("verdict_seconds", 5, 2_000),
    ):
        store.settings.change(name, value, MACHINE)
        assert store.comparisons.due() == (left_ms is not None)
        found = store.comparisons.claim("runner", 60)
        assert (found and found.cpu_ms) == left_ms
        store.comparisons.hand_back("runner")
    lease = claim(store)
    store.settings.change("verdict_seconds", 1, MACHINE)
    add(store, lease, 1, cpu_ms=1000)
    assert "the 1 s that a version gets are used" in store.comparisons.get(lease.id).reason
