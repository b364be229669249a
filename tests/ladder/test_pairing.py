"""Pairing: nobody starves, everybody sits everywhere, authors do not meet themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import le
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import PairingError
from deepsea_ladder.limits import DAY_MS
from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.pairing import Candidate, LineUp, RandomStream, choose
from deepsea_ladder.rating import Rating, RatingParameters
from deepsea_ladder.season import PairingSettings
from deepsea_ladder.store import Store
from helpers import ladder

PARAMETERS = RatingParameters()
SETTINGS = PairingSettings()

sizes = st.sets(st.integers(2, 6), min_size=1).map(sorted)


def candidate(bot: int, **changes: Any) -> Candidate:
    return Candidate(bot, author=bot, rating=Rating(25.0, 2.0), games=100)._replace(**changes)


def pick(
    candidates: Sequence[Candidate],
    seats: Sequence[int] = (4,),
    count: int = 1,
    seed: bytes = b"seed",
    settings: PairingSettings = SETTINGS,
    met: dict[tuple[int, int], int] | None = None,
) -> list[LineUp]:
    return choose(candidates, seats, settings, PARAMETERS, count, seed, met)


def appearances(line_ups: Sequence[LineUp]) -> Counter[int]:
    return Counter(bot for line_up in line_ups for bot in line_up.version_ids)


# Who sits where


@pytest.mark.parametrize("size", range(2, 7))
def test_in_a_block_every_bot_sits_everywhere_once(size: int) -> None:
    (line_up,) = pick([candidate(bot) for bot in range(20)], (size,))
    seatings = line_up.seatings()
    assert len(seatings) == size
    for seat in range(size):
        assert {seating[seat] for seating in seatings} == set(line_up.version_ids)


@given(sizes, st.integers(6, 20), st.binary(max_size=8))
@settings(max_examples=15)
def test_over_time_every_bot_sits_everywhere_equally_often(
    seats: list[int], bots: int, seed: bytes
) -> None:
    line_ups = pick([candidate(bot) for bot in range(bots)], seats, 40, seed)
    games = Counter(
        (bot, len(seating), seat)
        for line_up in line_ups
        for seating in line_up.seatings()
        for seat, bot in enumerate(seating)
    )
    for bot, players, _ in games:
        assert len({games[bot, players, seat] for seat in range(players)}) == 1


def test_who_sits_next_to_whom_changes_from_block_to_block() -> None:
    line_ups = pick([candidate(bot) for bot in range(4)], count=40)
    assert len({line_up.version_ids for line_up in line_ups}) > 10


# Who may meet


@given(sizes, st.lists(st.integers(0, 6), min_size=8, max_size=25), st.binary(max_size=8))
def test_line_ups_have_a_size_of_the_season_and_no_two_bots_of_one_author(
    seats: list[int], authors: list[int], seed: bytes
) -> None:
    candidates = [candidate(bot, author=author) for bot, author in enumerate(authors)]
    possible = [size for size in seats if size <= len(set(authors))]
    if not possible:
        with pytest.raises(PairingError, match="bots of different authors"):
            pick(candidates, seats, 10, seed)
        return
    for line_up in pick(candidates, seats, 10, seed):
        assert len(line_up.version_ids) in possible
        assert len({authors[bot] for bot in line_up.version_ids}) == len(line_up.version_ids)


def test_bots_of_one_author_meet_where_the_season_allows_it() -> None:
    candidates = [candidate(bot, author="one") for bot in range(4)]
    (line_up,) = pick(candidates, settings=PairingSettings(same_author=True))
    assert sorted(line_up.version_ids) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("count", "same_author", "complaint"),
    [
        (0, False, "the smallest game needs 2 bots of different authors and there are 0"),
        (1, False, "there are 1; submit more, or open a season with --same-author"),
        (1, True, "the smallest game needs 2 bots and there are 1; submit more$"),
    ],
)
def test_too_few_bots(count: int, same_author: bool, complaint: str) -> None:
    with pytest.raises(PairingError, match=complaint):
        pick(
            [candidate(bot) for bot in range(count)],
            (2, 4),
            settings=PairingSettings(same_author=same_author),
        )


def test_a_bot_is_a_candidate_once() -> None:
    with pytest.raises(PairingError, match="twice"):
        pick([candidate(1), candidate(2), candidate(1)], (2,))


def test_sizes_that_cannot_be_filled_are_left_out() -> None:
    line_ups = pick([candidate(bot) for bot in range(3)], (2, 3, 6), 30)
    assert Counter(len(line_up.version_ids) for line_up in line_ups).keys() == {2, 3}


def test_all_sizes_get_their_share() -> None:
    line_ups = pick([candidate(bot) for bot in range(12)], (2, 4, 6), 300)
    counts = Counter(len(line_up.version_ids) for line_up in line_ups)
    assert all(70 < counts[size] < 130 for size in (2, 4, 6))


# Who comes first


@pytest.mark.parametrize(
    "needy",
    [{"rating": Rating(25.0, 8.0)}, {"games": 3}, {"waited": 60}],
    ids=["high sigma", "few games", "long idle"],
)
def test_who_needs_a_game_most_is_in_the_first_line_up(needy: dict[str, Any]) -> None:
    for seed in range(10):
        candidates = [candidate(bot, waited=bot % 10) for bot in range(30)]
        candidates[17] = candidates[17]._replace(waited=9)._replace(**needy)
        (line_up,) = pick(candidates, seed=bytes([seed]))
        assert 17 in line_up.version_ids


def test_little_known_bots_play_more() -> None:
    candidates = [
        candidate(bot, rating=Rating(25.0, 6.0), recent_seats=0)
        if bot < 10
        else candidate(bot, rating=Rating(25.0, 1.5), recent_seats=50)
        for bot in range(40)
    ]
    counts = appearances(pick(candidates, count=50))
    unknown = sum(counts[bot] for bot in range(10)) / 10
    known = sum(counts[bot] for bot in range(10, 40)) / 30
    assert unknown > 1.5 * known


def test_games_that_are_arranged_already_count() -> None:
    candidates = [candidate(bot, rating=Rating(25.0, 8.0), games=20) for bot in range(40)]
    expecting = candidates.copy()
    expecting[3] = candidates[3]._replace(pending=400)
    usual, fewer = (appearances(pick(field, (2,), 200))[3] for field in (candidates, expecting))
    assert fewer < usual / 2


@given(
    st.lists(st.integers(0, 6), min_size=4, max_size=14).filter(lambda a: len(set(a)) >= 4),
    st.sampled_from([(2,), (4,), (2, 3, 4)]),
    st.builds(
        PairingSettings,
        patience=st.sampled_from([1.0, 2.0, 4.0]),
        provisional_games=st.sampled_from([0, 30]),
    ),
    st.sampled_from([1, 5, 40]),
    st.binary(max_size=8),
)
@settings(max_examples=20)
def test_nobody_waits_longer_than_the_bound(
    authors: list[int], seats: tuple[int, ...], taste: PairingSettings, count: int, seed: bytes
) -> None:
    """Whatever the ratings do between the calls, and however many line-ups a call makes."""
    chance = RandomStream(seed, "ratings")
    bots = range(len(authors))
    bounds = [longest_wait(authors, author, seats, taste) for author in authors]
    waited, games = [0] * len(authors), [0] * len(authors)
    for call in range(3 * max(bounds) // count + 1):
        candidates = [
            Candidate(
                bot,
                authors[bot],
                Rating(60.0 * chance.below(2), 0.01 if chance.below(2) else 8.4),
                games[bot],
                waited=waited[bot],
            )
            for bot in bots
        ]
        for line_up in pick(candidates, seats, count, seed + bytes([call % 256]), taste):
            for bot in bots:
                waited[bot] += 1
                if bot in line_up.version_ids:
                    waited[bot] = 0
                    games[bot] += len(line_up.version_ids)
            assert all(map(le, waited, bounds))


def longest_wait(
    authors: Sequence[int], author: int, seats: Sequence[int], settings: PairingSettings
) -> int:
    """The most line-ups that a bot of this author waits for its next one; `authors` of all bots.

    While no bots are added; a new bot queues behind those that are due by then.
    """
    turn = len(set(authors)) * authors.count(author) / min(seats)
    return int(settings.patience * max(1.0, turn)) + len(authors)


def test_a_stream_of_newcomers_does_not_keep_the_others_out() -> None:
    waited = dict.fromkeys(range(8), 0)
    for turn in range(200):
        waited[8 + turn] = 0  # somebody comes with every line-up
        candidates = [
            candidate(bot, waited=wait, games=500 if bot < 8 else 0) for bot, wait in waited.items()
        ]
        (line_up,) = pick(candidates, (2,), seed=bytes([turn]))
        for bot in waited:
            waited[bot] = 0 if bot in line_up.version_ids else waited[bot] + 1
        if turn < 120:
            longest = max(waited[bot] for bot in range(8))
            assert longest <= longest_wait(list(waited), 0, (2,), SETTINGS)


# Opponents


def test_the_more_open_a_game_the_likelier_it_is() -> None:
    candidates = [candidate(bot, rating=Rating(2.0 * bot, 1.0)) for bot in range(100)]
    line_ups = pick(candidates, (2,), 300)
    differences = [abs(one - other) for one, other in (line_up.version_ids for line_up in line_ups)]
    # By chance alone the median would be 29 places.
    assert sorted(differences)[len(differences) // 2] < 12


def test_in_a_crowded_field_opponents_are_from_all_bots() -> None:
    candidates = [candidate(bot, rating=Rating(25.0 + bot / 100, 1.0)) for bot in range(100)]
    line_ups = pick(candidates, (2,), 300)
    far = sum(abs(line_up.version_ids[0] - line_up.version_ids[1]) > 32 for line_up in line_ups)
    assert 100 < far < 180  # by chance alone 138


def test_those_who_met_less_meet_sooner() -> None:
    candidates = [candidate(bot) for bot in range(10)]
    met = {(0, bot): 50 for bot in range(1, 9)} | {(bot, 9): 50 for bot in range(1, 9)}
    candidates[0] = candidates[0]._replace(waited=100)
    chosen = [
        pick(candidates, (2,), seed=bytes([seed]), met=met)[0].version_ids for seed in range(50)
    ]
    assert sum(sorted(bots) == [0, 9] for bots in chosen) > 25


def test_one_author_with_most_of_the_bots_leaves_opponents_to_be_found() -> None:
    candidates = [
        candidate(bot, author="many" if bot < 90 else bot, rating=Rating(bot, 1.0))
        for bot in range(100)
    ]
    for line_up in pick(candidates, (4,), 50):
        assert sum(bot < 90 for bot in line_up.version_ids) <= 1


# Chance


def test_the_same_seed_gives_the_same_line_ups() -> None:
    candidates = [candidate(bot) for bot in range(30)]
    assert pick(candidates, count=20) == pick(candidates, count=20)
    assert pick(candidates, count=20) != pick(candidates, count=20, seed=b"other")


def test_line_ups_are_the_same_on_every_system() -> None:
    chance = RandomStream(b"golden", "candidates")
    candidates = [
        candidate(
            bot, rating=Rating(50.0 * chance.unit(), 0.5 + 7.5 * chance.unit()), author=bot % 9
        )
        for bot in range(30)
    ]
    taste = PairingSettings(patience=4.0, provisional_games=12)
    line_ups = choose(candidates, (2, 4), taste, RatingParameters(beta=12.0), 6, b"golden")
    assert [line_up.version_ids for line_up in line_ups] == [
        (3, 4),
        (5, 7),
        (17, 18),
        (24, 22),
        (18, 1, 3, 26),
        (8, 22, 29, 16),
    ]


# The matchmaker


def test_the_same_store_gives_the_same_games_to_old_and_new_runners(store: Store) -> None:
    season = ladder.stocked(store, bots=6, seats=(2, 3, 4))
    old = Matchmaker(store, season)
    for _ in range(5):
        number = store.queue.last_number(season)
        rotations = old(number, 1)
        assert rotations == Matchmaker(store, season)(number, 1) == old(number, 1)
        store.jobs.add(season, rotations, after=number)
        ladder.play_all(store, season)


@pytest.mark.databases
def test_an_author_with_another_name_is_the_same_to_a_running_matchmaker(store: Store) -> None:
    season = ladder.stocked(store, bots=6, seats=(2,))
    for number in range(3):
        ladder.submit(store, "anna", f"once more {number}")
        ladder.submit(store, f"anna-{number}", author="anna-senior")
    running = Matchmaker(store, season)
    for _ in range(10):
        number = store.queue.last_number(season)
        store.jobs.add(season, running(number, 2), after=number)
    store.authors.rename("anna-senior", "zoe", MACHINE)
    assert running.candidates() == Matchmaker(store, season).candidates()


def test_every_bot_sits_everywhere_in_a_rotation(store: Store) -> None:
    season = ladder.stocked(store, bots=6)
    for rotation in Matchmaker(store, season)(0, 8):
        for seat in range(4):
            assert len({lineup[seat] for lineup in rotation}) == 4


def test_it_gives_as_many_games_as_are_wanted(store: Store) -> None:
    season = ladder.stocked(store, bots=6, seats=(2, 4))
    for wanted in (1, 2, 3, 9):
        assert sum(map(len, Matchmaker(store, season)(0, wanted))) >= wanted


@pytest.mark.databases
def test_only_active_bots_in_their_newest_version_play(store: Store) -> None:
    season = ladder.stocked(store, bots=6)
    former = ladder.ids(store)
    ladder.submit(store, "anna", "better")
    store.bots.withdraw("ben")
    store.bots.disable("cleo", "it snores")
    rotations = Matchmaker(store, season)(0, 40)
    playing = {version for rotation in rotations for lineup in rotation for version in lineup}
    names = {
        bot.current.id for bot in store.bots.all() if bot.name in ("anna", "dan", "eve", "finn")
    }
    assert playing == names
    assert former[0] not in playing
    store.bots.withdraw("dan")
    with pytest.raises(PairingError):
        Matchmaker(store, season)(0, 1)


def test_bots_of_one_author_do_not_meet(store: Store) -> None:
    season = ladder.stocked(store, bots=3, seats=(2,))
    ladder.submit(store, "anton", author="anna-senior")
    anna, anton = (store.bots.get(name).current.id for name in ("anna", "anton"))
    for rotation in Matchmaker(store, season)(0, 60):
        for lineup in rotation:
            assert set(lineup) != {anna, anton}


@pytest.mark.parametrize("step", [0, DAY_MS, -DAY_MS])
def test_who_came_late_and_who_waits_are_told_apart_whatever_the_clock(
    store: Store, step: int
) -> None:
    season = ladder.stocked(store, bots=4)
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4) * 3)
    ladder.submit(store, "eve")
    eve = store.bots.get("eve").current.id
    # As by another clock than the games'.
    came = "UPDATE bot_versions SET created_at = created_at + :step WHERE id = :eve"
    ladder.write(store, came, step=step, eve=eve)
    matchmaker = Matchmaker(store, season)
    matchmaker(store.queue.last_number(season), 1)
    waited = {candidate.version_id: candidate.waited for candidate in matchmaker.candidates()}
    assert waited == dict.fromkeys(ladder.ids(store), 0)
    others = [version for version in ladder.ids(store) if version != eve]
    store.jobs.add(season, ladder.rotations(others, 4) * 2)
    matchmaker(store.queue.last_number(season), 1)
    candidates = {candidate.version_id: candidate for candidate in matchmaker.candidates()}
    assert candidates[eve].waited == 2
    assert {candidates[version].waited for version in others} == {0}
    assert {candidates[version].pending for version in others} == {20}
