"""The chain of a season: every game and attempt is in it; what is changed or dropped is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from deepsea_ladder.backup import season_differences
from deepsea_ladder.chain import UNHASHED_KEYS, canonical, follow, next_head
from deepsea_ladder.errors import ChainBroken, NotAChain
from deepsea_ladder.export import export_lines
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.store import Store
from helpers import ladder

Lines = list[dict[str, Any]]


def _contents(store: Store) -> None:
    """A season of five games; the first was void twice, the third was refused and handed back."""
    season = ladder.to_play(store, 5)
    for seat in (2, None):
        store.jobs.fail(ladder.claim(store, season), "the host\nwas busy: ü \U0001f419", seat)
    ladder.play_all(store, season, {"s1-1": ["ben"]})
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 1))
    job = ladder.claim(store, season)
    store.games.report(job, "junk")
    ladder.claim(store, season)
    store.jobs.hand_back("worker")
    ladder.play_all(store, season)


CONTENTS = _contents


def exported(store: Store, season: StoredSeason) -> Lines:
    """The lines of its export."""
    return [json.loads(line) for line in export_lines(store, season)]


def broken(lines: Lines) -> str:
    """Why an export is refused."""
    with pytest.raises(ChainBroken) as refusal:
        list(follow(map(json.dumps, lines)))
    return str(refusal.value)


@pytest.mark.databases
def test_every_game_and_every_attempt_has_a_place(store: Store, season: StoredSeason) -> None:
    lines = exported(store, season)
    assert [line["place"] for line in lines] == list(range(11))
    ends = [line["ended"] for line in lines[1:]]
    assert ends[:3] == ["void", "void", "done"]
    assert ends[-3:] == ["refused", "handed back", "done"]
    assert (lines[1]["game_id"], lines[1]["attempt"], lines[1]["asked_seat"]) == ("s1-1", 0, 2)
    assert lines[1]["reason"] == "the host\\nwas busy: ü 🐙"
    assert [line["attempt"] for line in lines[-3:]] == [0, 1, 2]
    assert [seat["bot"] for seat in lines[1]["seats"]] == ["anna", "ben", "cleo", "dan"]
    assert lines[0]["head"] == season.commitment
    assert lines[-1]["head"] == season.head
    assert season.place == 10
    assert season_differences(store, season, records=True) == []


def test_the_chain_is_what_the_page_says(store: Store, season: StoredSeason) -> None:
    opening, *lines = exported(store, season)
    head = bytes.fromhex(opening["commitment"])
    for line in lines:
        told = {key: value for key, value in line.items() if key not in UNHASHED_KEYS}
        data = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        head = hashlib.sha256(head + hashlib.sha256(data.encode()).digest()).digest()
        assert line["head"] == head.hex()


def test_canonical_json_has_one_form() -> None:
    line = {"b": [1, None, True], "a": 'ü"\\\n\x01\x7f/', "é": {}}
    text = '{"a":"ü\\"\\\\\\n\\u0001\x7f/","b":[1,null,true],"é":{}}'
    assert canonical(line) == text.encode()
    told = hashlib.sha256(b"{}").digest()
    assert next_head("00" * 32, {}) == hashlib.sha256(bytes(32) + told).hexdigest()


def test_a_seed_that_is_shown_is_compared(store: Store, season: StoredSeason) -> None:
    assert exported(store, season)[0]["seed"] is None
    store.seasons.close("s1")
    lines = exported(store, season)
    assert lines[0]["seed"] == ladder.SEED.hex()
    *_, last = follow(map(json.dumps, lines))
    assert (last.place, last.head) == (10, season.head)
    lines[0]["seed"] = "00" * 32
    assert "the seed is not the one that the season committed to" in broken(lines)


CHANGED: dict[str, tuple[Callable[[Lines], object], str]] = {
    "drop": (lambda lines: lines.pop(2), "line 3: place 3 follows on 1"),
    "swap": (lambda lines: lines.insert(1, lines.pop(2)), "line 2: place 2 follows on 0"),
    "points": (
        lambda lines: lines[4]["seats"][0].update(points=-1),
        "line 5: place 4: its head is",
    ),
    "reason": (lambda lines: lines[1].update(reason="nothing"), "line 2: place 1: its head is"),
    "commitment": (
        lambda lines: lines[0].update(commitment="11" * 32, head="11" * 32),
        "line 2: place 1: its head is",
    ),
    "no opening": (lambda lines: lines.pop(0), "line 1: season 's1' does not begin with place 0"),
    "two openings": (lambda lines: lines.append(lines[0]), "line 12: season 's1' begins twice"),
}


@pytest.mark.parametrize(("deed", "words"), CHANGED.values(), ids=CHANGED)
def test_an_export_that_was_changed_is_refused_by_line(
    store: Store, season: StoredSeason, deed: Callable[[Lines], object], words: str
) -> None:
    lines = exported(store, season)
    deed(lines)
    assert words in broken(lines)


def chained_again(lines: Lines) -> Lines:
    """The lines with places and heads as a forger would make them."""
    head = lines[0]["head"]
    for place, line in enumerate(lines[1:], 1):
        line["place"] = place
        told = {key: value for key, value in line.items() if key not in UNHASHED_KEYS}
        line["head"] = head = next_head(head, told)
    return lines


def test_a_forger_cannot_leave_attempts_out_or_swap_records(
    store: Store, season: StoredSeason
) -> None:
    lines = exported(store, season)
    del lines[1]
    assert "game s1-1: there is no line of attempt 0" in broken(chained_again(lines))
    lines = exported(store, season)
    lines[4]["record"] = lines[5]["record"]
    assert "the record is another game's" in broken(chained_again(lines))
    store.seasons.close("s1")
    lines = exported(store, season)
    lines[4]["record"]["seed"] = "00" * 32
    assert "its seed does not follow from the season's" in broken(chained_again(lines))


@pytest.mark.parametrize("said", ["", "7", "{}", "[]", '{"season": [], "place": 0}', "[" * 9999])
def test_what_is_no_export_is_said(said: str) -> None:
    with pytest.raises(NotAChain, match="line 1 is none of an export"):
        list(follow([said]))


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE games SET head = '00' WHERE place = 3", "its chain is broken: line 4: place 3"),
        ("UPDATE attempts SET note = 'no' WHERE place = 1", "its chain is broken: line 2: place 1"),
        ("UPDATE attempts SET seat = 1 WHERE place = 1", "its chain is broken: line 2: place 1"),
        ("UPDATE attempts SET place = 99 WHERE place = 2", "its chain is broken: line 3: place 3"),
        ("UPDATE seasons SET place = 11", "its chain ends at place 10, not 11"),
        ("UPDATE seasons SET head = commitment", ""),
        ("UPDATE games SET attempt = 2 WHERE place = 4", "its seed does not follow from"),
        ("UPDATE bot_versions SET digest = (SELECT max(digest) FROM archives)", "chain is broken"),
    ],
)
def test_a_store_that_was_changed_is_found_out(
    store: Store, season: StoredSeason, statement: str, words: str
) -> None:
    if not words:
        words = f"its chain's head is {season.commitment}, not {season.head}"
    ladder.write(store, statement.replace("commitment", f"'{season.commitment}'"))
    (line, *_) = season_differences(store, store.seasons.get("s1"), records=True)
    assert words in line


def test_damaged_files_of_a_version_are_named(store: Store, season: StoredSeason) -> None:
    digest = store.bots.get("ben").current.digest
    words = "UPDATE archives SET content = :junk WHERE digest = :digest"
    ladder.write(store, words, junk=b"junk", digest=digest)
    assert season_differences(store, season) == []
    (line,) = season_differences(store, season, records=True)
    assert line.startswith(f"ben v1: the stored files of {digest} are damaged")


def test_ratings_that_are_computed_again_leave_the_chain_as_it_is(
    store: Store, season: StoredSeason
) -> None:
    ladder.write(store, "UPDATE game_seats SET mu = '0x1.0p+4'")
    store.ratings.rewrite(season)
    assert store.seasons.get("s1") == season
    assert season_differences(store, season, records=True) == []
