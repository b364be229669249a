"""Games of people in the store: whose turn it is, who is silent, what is void, and limits."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs
from sqlalchemy import text

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.errors import LimitReached, NotOnLadder, PersonGameError, SeasonClosed
from deepsea_ladder.export import export_lines
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import AnalysisPlan, PersonGame, Presence, TaskState
from deepsea_ladder.store import Store
from deepsea_rules.game import Decision
from helpers import ladder
from helpers.full_ladder import StoreClock
from helpers.people import Runner, new_game, replayed, step

QUEUED, RUNNING, ASKED = TaskState.QUEUED, TaskState.RUNNING, TaskState.ASKED
DONE, VOID = TaskState.DONE, TaskState.VOID
HERE, SILENT, LEFT = Presence
GAME = "person-one"


class Table:
    """A ladder with a game of a person, and the time."""

    def __init__(self, store: Store, clock: StoreClock) -> None:
        self.store = store
        self.games = store.person_games
        self.clock = clock
        self.runner = Runner(store)

    @property
    def game(self) -> PersonGame:
        """The game as it stands."""
        return self.games.get(GAME)

    def answer(self, pick: Callable[[tuple[str, ...]], str] = lambda legal: legal[-1]) -> None:
        """Answer the question that is asked."""
        game = self.game
        question = replayed(game).pending()
        assert question is not None
        assert question.seat == game.seat
        self.games.answer(GAME, len(game.decisions), pick(question.legal))
        self.runner.play_on()


@pytest.fixture
def clock() -> StoreClock:
    return StoreClock()


@pytest.fixture
def store(played_file: Path, tmp_path: Path, clock: StoreClock) -> Iterator[Store]:
    """A ladder with eight rated games."""
    shutil.copy(played_file, tmp_path / "ladder.db")
    with clock.installed(), Store.open(tmp_path / "ladder.db") as store:
        yield store


@pytest.fixture
def table(store: Store, clock: StoreClock) -> Table:
    """A game that has begun, at the person's first decision."""
    table = Table(store, clock)
    new_game(store)
    table.runner.play_on()
    return table


def test_a_game_is_played_from_decision_to_decision_and_verified(table: Table) -> None:
    assert (table.game.state, table.game.presence, table.game.owner) == (ASKED, HERE, "")
    steps = 0
    while table.game.state is not DONE:
        table.answer()
        steps += 1
    assert steps > 5
    assert table.store.games.record(GAME) == table.game.record
    with pytest.raises(PersonGameError):
        table.games.answer(GAME, 0, "down")
    assert table.runner.watcher.troubles == []


def test_an_answer_counts_for_its_decision_alone(table: Table) -> None:
    number = len(table.game.decisions)
    for other in (number - 1, number + 1):
        with pytest.raises(PersonGameError):
            table.games.answer(GAME, other, "down")
    table.games.answer(GAME, number, "down")
    with pytest.raises(PersonGameError):  # a form that is sent twice
        table.games.answer(GAME, number, "back")
    assert (table.game.state, table.game.answer) == (QUEUED, "down")


def test_the_silent_are_played_by_default_and_may_come_back(table: Table) -> None:
    """Two minutes for the first decision, ten seconds for each further one."""
    first = len(table.game.decisions)
    table.clock.tick(seconds=119)
    assert table.games.waiting() == 0
    table.clock.tick(seconds=2)
    assert table.games.waiting() == 1
    table.runner.play_on()
    game = table.game
    assert (game.state, game.presence) == (ASKED, SILENT)
    assert game.decisions[first].action == "leave"
    assert game.decisions[first].fault is None
    for seconds, waiting in ((9, 0), (2, 1)):
        table.clock.tick(seconds=seconds)
        assert table.games.waiting() == waiting
    table.runner.play_on()
    # An old page's answer is refused, and shows that somebody is there.
    with pytest.raises(PersonGameError):
        table.games.answer(GAME, first, "down")
    assert table.game.presence is HERE
    table.clock.tick(seconds=119)
    assert table.games.waiting() == 0
    table.answer()
    assert table.game.presence is HERE


def test_who_is_silent_for_good_ends_the_game_without_a_fault(table: Table) -> None:
    steps = 0
    while not table.game.state.is_final:
        table.clock.tick(seconds=121)
        table.runner.play_on()
        steps += 1
    assert table.game.state is DONE
    assert steps > 3
    assert '"fault": null' in table.game.record
    assert '"forfeits": []' in table.game.record


def test_who_leaves_is_played_by_default_to_the_end(table: Table) -> None:
    table.games.leave(GAME)
    assert table.game.presence is LEFT
    table.runner.play_on()
    assert table.game.state is DONE
    table.games.leave(GAME, drop=True)
    assert table.game.state is DONE


def test_who_leaves_while_the_bots_play_is_not_asked_again(store: Store, clock: StoreClock) -> None:
    table = Table(store, clock)
    new_game(store)
    lease = store.person_games.claim("runner", 60)
    assert lease is not None
    store.person_games.leave(GAME)
    assert store.person_games.ask(lease, step(lease).decisions)
    assert (table.game.state, table.game.answer) == (QUEUED, "")


def test_a_dropped_game_is_void_whoever_plays_it(table: Table) -> None:
    table.games.answer(GAME, len(table.game.decisions), "down")
    lease = table.games.claim("runner", 60)
    assert lease is not None
    table.games.leave(GAME, drop=True)
    assert not table.games.finish(lease, "{}")
    assert (table.game.state, table.game.record) == (VOID, "")
    assert "dropped" in table.game.reason


def test_a_runner_that_is_gone_loses_no_game(table: Table) -> None:
    table.games.answer(GAME, len(table.game.decisions), "leave")
    before = table.game
    assert table.games.claim("lost", 60) is not None
    assert table.store.tasks.end_leases_of_lost_runner("lost") == 1
    assert (table.game.state, table.game.answer) == (QUEUED, "leave")
    assert table.game.decisions == before.decisions
    table.runner.play_on()
    assert table.game.state is ASKED
    assert table.game.reason == ""


def test_what_fails_three_times_in_a_row_is_void_with_the_reason(table: Table) -> None:
    table.games.answer(GAME, len(table.game.decisions), "down")
    for expected in (QUEUED, QUEUED, VOID):
        lease = table.games.claim("runner", 60)
        assert lease is not None
        assert table.games.fail(lease, "no luck\x1b") is expected
        assert table.games.fail(lease, "again") is None
    assert "no luck" in table.game.reason
    assert "\x1b" not in table.game.reason


def test_only_the_holder_of_a_lease_writes(table: Table) -> None:
    table.games.answer(GAME, len(table.game.decisions), "down")
    lease = table.games.claim("one", 60)
    assert lease is not None
    assert table.games.renew(lease, 60)
    stale = structs.replace(lease, attempt=lease.attempt - 1)
    assert not table.games.ask(stale, lease.decisions)
    assert not table.games.finish(stale, "{}")
    assert not table.games.renew(stale, 60)
    assert table.games.hand_back("one") == 1
    assert not table.games.ask(lease, (Decision(1, "down", 0, None),))


def test_chain_standings_and_lists_do_not_change(table: Table) -> None:
    season = table.store.seasons.get("s1")

    def shown() -> tuple[object, ...]:
        store = table.store
        return (
            [*export_lines(store, season)],
            store.ratings.entries(season),
            store.history.latest(50),
            store.seasons.get("s1"),
        )

    before = shown()
    table.games.leave(GAME)
    table.runner.play_on()
    assert table.game.state is DONE
    assert shown() == before


def test_a_finished_game_is_analysed_as_others_are(table: Table) -> None:
    plan = AnalysisPlan("steady", "{}")
    analyses = table.store.analyses
    with pytest.raises(NotOnLadder):
        analyses.request(GAME, None, plan, USUAL_LIMITS)
    table.games.leave(GAME)
    table.runner.play_on()
    rated = analyses.request("s1-1", None, plan, USUAL_LIMITS)
    asked = analyses.request(GAME, None, plan, USUAL_LIMITS)
    assert analyses.request(GAME, None, plan, USUAL_LIMITS).id == asked.id != rated.id
    lease = analyses.claim("runner", 60, asked.id)
    assert lease is not None
    assert lease.record == table.game.record
    assert analyses.finish(lease, "steady", '{"found":1}', USUAL_LIMITS)
    assert analyses.document(GAME) == '{"found":1}'
    done, _ = analyses.of_game(GAME)
    assert done is not None
    assert done.game_id == GAME
    assert analyses.of_game("s1-1")[0] is None


# Limits


def begin(store: Store, number: int, author_id: int | None = None, address: str = "a") -> None:
    """Begin another game."""
    name = f"person-{number}"
    new_game(store, author_id=author_id, address=address, game_id=name)


def limited(store: Store, **limits: int) -> None:
    """Change settings of the ladder, without the `play_` before their names."""
    for name, value in limits.items():
        store.settings.change(f"play_{name}", value, MACHINE)


def test_limits_hold_for_each_person_and_for_all(store: Store) -> None:
    limited(store, tables=3, tables_of_person=1)
    ids = [store.authors.id_of(f"{name}-senior") for name in ladder.NAMES[:3]]
    begin(store, 1, ids[0])
    with pytest.raises(LimitReached, match="you have 1 games under way"):
        begin(store, 2, ids[0])
    begin(store, 3, address="x")
    with pytest.raises(LimitReached, match="you have 1"):  # with another cookie, too
        begin(store, 4, address="x")
    begin(store, 5, address="y")
    with pytest.raises(LimitReached, match="all 3 tables are taken") as full:
        begin(store, 6, ids[1])
    assert full.value.retry_after is not None


def test_a_day_has_so_many_games(store: Store, clock: StoreClock) -> None:
    limited(store, games_per_day=2)
    author = store.authors.id_of("anna-senior")
    for number in (1, 2):
        begin(store, number, author)
        store.person_games.leave(f"person-{number}", drop=True)
        clock.tick(hours=1)
    with pytest.raises(LimitReached, match="within a day") as full:
        begin(store, 3, author)
    assert full.value.retry_after == 22 * 3600
    begin(store, 4, store.authors.id_of("ben-senior"))
    clock.tick(hours=22, seconds=1)
    begin(store, 3, author)


def test_nobody_plays_where_there_is_no_table_or_the_season_is_closed(store: Store) -> None:
    limited(store, tables=0)
    with pytest.raises(LimitReached, match="nobody"):
        begin(store, 1)
    store.seasons.close("s1")
    with pytest.raises(SeasonClosed):
        begin(store, 1)


def test_people_take_turns(store: Store) -> None:
    limited(store, tables_of_person=5, tables=9)
    authors = [store.authors.id_of(f"{name}-senior") for name in ladder.NAMES[:2]]
    for number in range(3):
        begin(store, number, authors[0])
    begin(store, 3, authors[1])
    order = [store.person_games.claim("runner", 60) for _ in range(3)]
    assert [game.game_id for game in order if game] == ["person-0", "person-3", "person-1"]


def test_a_games_list_is_its_persons(store: Store) -> None:
    limited(store, tables_of_person=5)
    anna = store.authors.id_of("anna-senior")
    begin(store, 1, anna)
    begin(store, 2)
    games = store.person_games
    assert [one.game_id for one in games.of_person(anna, None, 9)] == ["person-1"]
    assert [one.game_id for one in games.of_person(None, "cookie", 9)] == ["person-2"]
    assert games.of_person(None, "another", 9) == games.of_person(None, None, 9) == []


@pytest.mark.parametrize(("column", "value"), [("decisions", "["), ("seed", "no hex")])
def test_a_game_that_cannot_be_read_is_void_and_keeps_no_other_waiting(
    store: Store, column: str, value: str
) -> None:
    new_game(store)
    new_game(store, game_id="person-two", visitor="another", address="192.0.2.0/24")
    ladder.write(store, f"UPDATE person_games SET {column} = '{value}' WHERE game_id = '{GAME}'")
    lease = store.person_games.claim("runner", 60)
    assert lease is not None
    assert lease.game_id == "person-two"
    with store.database.read() as connection:
        query = text("SELECT state, words FROM tasks WHERE kind = 'step' ORDER BY subject LIMIT 1")
        state, reason = connection.execute(query).one()
    assert state == VOID
    assert reason.startswith("it cannot be read: game 1 of a person is damaged")
